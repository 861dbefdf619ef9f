"""Timelines of WAN alerts, each with the failovers that a network engineer reads from them.

It knows nothing of our models. A line is a time, with a day before it if it is not day 3, and what
was reported: `wan lost`, `A up`, `A standby`, `failover`, `offline`, `online`, or a record of the
service, such as `record wan>A until 10:30:00`. Interfaces whose names begin with `wan` are wired,
the others are modems; alerts about `unnamed` ones have no name. The newest event of all timelines
is at day 4, 00:00:00.

An expected failover is `start - end from>to`. An end of `now` is a failover that is not over; an
end with a `?` is the last evidence of a failover whose end is not known.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAY_ONE = datetime(2026, 6, 1, tzinfo=UTC)
NOW = DAY_ONE + timedelta(days=3)


@dataclass(frozen=True)
class Line:
    """One line of a timeline."""

    at: datetime
    words: tuple[str, ...]


@dataclass(frozen=True)
class Timeline:
    """What happened to one router, as it was reported, and the failovers in it.

    `day` is the expected seconds of day 3 on the preferred WAN, on a backup, offline and unknown.
    """

    story: str
    failovers: tuple[str, ...]
    day: tuple[int, int, int, int] | None = None

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the story."""
        for text in filter(None, map(str.strip, self.story.splitlines())):
            first, *words = text.split()
            if first.isdigit():
                yield Line(instant(words[0], int(first)), tuple(words[1:]))
            else:
                yield Line(instant(first), tuple(words))


def instant(clock: str, day: int = 3) -> datetime:
    """Return a time of a day.

    >>> instant("10:30:05").isoformat()
    '2026-06-03T10:30:05+00:00'
    """
    hours, minutes, seconds = map(int, clock.split(":"))
    return DAY_ONE + timedelta(days=day - 1, hours=hours, minutes=minutes, seconds=seconds)


LOST = """
    10:00:00 wan lost
    10:00:10 failover
    10:00:12 A up
"""
BACK = """
    10:30:00 wan up
    10:30:05 A standby
"""
USUAL = ("10:00:10 - 10:30:00 wan>A",)

TIMELINES = {
    "primary lost and back": Timeline(LOST + BACK, USUAL, (84610, 1790, 0, 0)),
    "not over": Timeline(LOST, ("10:00:10 - now wan>A",), (36010, 50390, 0, 0)),
    "two modems, then the primary is back": Timeline(
        LOST + "10:10:00 A lost\n 10:10:10 failover\n 10:10:12 B up" + BACK.replace("A", "B"),
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:30:00 A>B"),
        (84610, 1790, 0, 0),
    ),
    "two modems, then the first modem, then the primary": Timeline(
        LOST
        + """
        10:10:00 A lost
        10:10:10 failover
        10:10:12 B up
        10:20:00 A up
        10:20:05 B standby
        """
        + BACK,
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:20:00 A>B"),
    ),
    "all three WANs back at once": Timeline(
        LOST
        + """
        10:10:00 A lost
        10:10:10 failover
        10:10:12 B up
        10:30:00 wan up
        10:30:01 A up
        10:30:05 A standby
        10:30:06 B standby
        """,
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:30:00 A>B"),
    ),
    "the second modem on standby says that the primary is back": Timeline(
        LOST
        + """
        10:10:00 A lost
        10:10:10 failover
        10:10:12 B up
        10:30:05 B standby
        """,
        ("10:00:10 - 10:30:05 wan>A", "10:10:10 - 10:30:05 A>B"),
    ),
    "the loss of the second modem is missing": Timeline(
        LOST + "10:10:10 failover\n 10:10:12 B up" + BACK.replace("A", "B"),
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:30:00 A>B"),
    ),
    "flapping": Timeline(
        LOST
        + """
        10:02:00 wan up
        10:02:05 A standby
        10:03:00 wan lost
        10:03:10 failover
        10:03:12 A up
        10:05:00 wan up
        10:05:05 A standby
        10:06:00 wan lost
        10:06:10 failover
        10:06:12 A up
        """
        + BACK,
        (
            "10:00:10 - 10:02:00 wan>A",
            "10:03:10 - 10:05:00 wan>A",
            "10:06:10 - 10:30:00 wan>A",
        ),
    ),
    "flapping within a minute": Timeline(
        LOST
        + """
        10:00:40 wan up
        10:00:50 wan lost
        10:01:00 failover
        10:01:02 A up
        """
        + BACK,
        ("10:00:10 - 10:00:40 wan>A", "10:01:00 - 10:30:00 wan>A"),
    ),
    "standby before it takes over": Timeline(
        """
        09:00:00 A standby
        10:00:00 wan lost
        10:00:10 failover
        10:00:11 A standby
        10:00:12 A up
        """
        + BACK,
        USUAL,
    ),
    "another modem comes up on standby": Timeline(LOST + "10:10:00 B standby" + BACK, USUAL),
    "an idle modem is lost before the primary": Timeline(
        "08:00:00 B standby\n 09:59:58 B lost\n 09:59:50 wan lost\n 10:00:10 failover\n"
        "10:00:12 A up\n 10:20:00 B standby" + BACK,
        USUAL,
    ),
    "only standby says that the primary is back": Timeline(
        LOST + "10:30:05 A standby", ("10:00:10 - 10:30:05 wan>A",)
    ),
    "the primary is up, but on standby at first": Timeline(
        LOST + "10:20:00 wan standby" + BACK, USUAL
    ),
    "the loss is stamped after the failover": Timeline(
        "10:00:10 failover\n 10:00:12 A up\n 10:00:40 wan lost" + BACK, USUAL
    ),
    "the loss is stamped after the failover, and before the modem": Timeline(
        "10:00:10 failover\n 10:00:40 wan lost\n 10:00:50 A up" + BACK, USUAL
    ),
    "no loss alert": Timeline("10:00:10 failover\n 10:00:12 A up" + BACK, USUAL),
    "no loss alert, and the primary is a modem": Timeline(
        "10:00:10 failover\n 10:00:12 A up\n 10:30:00 P up\n 10:30:05 A standby",
        ("10:00:10 - 10:30:00 P>A",),
    ),
    "a loss a quarter of an hour before": Timeline(
        "09:45:10 wan lost\n 10:00:10 failover\n 10:00:12 A up" + BACK, USUAL
    ),
    "a loss a quarter of an hour before, then a second modem": Timeline(
        "09:45:10 wan lost\n 10:00:10 failover\n 10:00:12 A up\n"
        "10:10:00 A lost\n 10:10:10 failover\n 10:10:12 B up" + BACK.replace("A", "B"),
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:30:00 A>B"),
    ),
    "the modem comes up minutes later": Timeline(
        "10:00:00 wan lost\n 10:00:10 failover\n 10:06:00 A up" + BACK, USUAL
    ),
    "the modem was up before": Timeline(
        "10:00:00 wan lost\n 10:00:09 A up\n 10:00:10 failover" + BACK, USUAL
    ),
    "the modem never says that it is up": Timeline(
        "10:00:00 wan lost\n 10:00:10 failover\n 10:30:00 wan up", ("10:00:10 - 10:30:00 wan>?",)
    ),
    "the failover is reported twice": Timeline(LOST + "10:20:00 failover" + BACK, USUAL),
    "the failover is reported twice, and no loss": Timeline(
        "10:00:10 failover\n 10:00:12 A up\n 10:20:00 failover" + BACK, USUAL
    ),
    "the failover is reported after it is over": Timeline(
        "10:00:10 wan lost\n 10:00:22 A up\n 10:03:00 wan up\n 10:03:05 A standby\n"
        "10:05:00 failover",
        ("10:00:10 - 10:03:00 wan>A",),
    ),
    "disconnected, then unplugged": Timeline(
        LOST + "10:15:00 wan unplugged\n 10:20:00 failover" + BACK, USUAL
    ),
    "the return is missing, and the primary is lost again on the next day": Timeline(
        """
        2 08:00:00 wan lost
        2 08:00:10 failover
        2 08:00:12 A up
        """
        + LOST
        + BACK,
        ("2 08:00:10 - 2 08:00:12? wan>A", *USUAL),
        (48610, 1790, 0, 36000),
    ),
    "the return is missing, and the cable is pulled two days later": Timeline(
        "1 08:00:00 wan lost\n 1 08:00:10 failover\n 1 08:00:12 A up\n"
        "10:00:00 wan unplugged\n 10:00:10 failover\n 10:00:12 A up" + BACK,
        ("1 08:00:10 - 1 08:00:12? wan>A", *USUAL),
    ),
    "the return is missing, and nothing follows": Timeline(
        "1 10:00:00 wan lost\n 1 10:00:10 failover\n 1 10:00:12 A up",
        ("1 10:00:10 - 1 10:00:12? wan>A",),
        (0, 0, 0, 86400),
    ),
    "a router offline while on a backup": Timeline(
        LOST + "10:11:00 offline\n 10:21:00 online" + BACK, USUAL, (84610, 1190, 600, 0)
    ),
    "a router with one WAN": Timeline(
        "1 09:00:00 online\n 10:01:00 offline\n 11:01:00 online", (), (82800, 0, 3600, 0)
    ),
    "two wired WANs, of which the first is back first": Timeline(
        """
        09:50:00 wan-one lost
        10:00:00 wan-two lost
        10:00:10 failover
        10:00:12 A up
        10:30:00 wan-one up
        10:30:05 A standby
        11:00:00 wan-two up
        """,
        ("10:00:10 - 10:30:00 wan-two>A",),
    ),
    "two wired WANs, one the backup of the other": Timeline(
        """
        10:00:00 wan-one lost
        10:00:10 failover
        10:00:12 wan-two up
        10:10:00 wan-two lost
        10:10:10 failover
        10:10:12 A up
        10:20:00 wan-two up
        10:20:05 A standby
        10:30:00 wan-one up
        10:30:05 wan-two standby
        """,
        ("10:00:10 - 10:30:00 wan-one>wan-two", "10:10:10 - 10:20:00 wan-two>A"),
    ),
    "reported within its record": Timeline(
        "10:00:10 record wan>A until 10:30:00\n 10:00:00 wan lost\n 10:05:00 failover\n"
        "10:00:12 A up" + BACK,
        USUAL,
    ),
    "reported minutes after a short record": Timeline(
        "10:00:10 record wan>A until 10:01:00\n 10:00:00 wan lost\n 10:01:00 wan up\n"
        "10:05:00 failover",
        ("10:00:10 - 10:01:00 wan>A",),
    ),
    "reported minutes before its record": Timeline(
        "10:04:00 record wan>A until 10:30:00\n 10:00:00 wan lost\n 10:00:10 failover\n"
        "10:00:12 A up" + BACK,
        ("10:04:00 - 10:30:00 wan>A",),
    ),
    "the second failover has no record": Timeline(
        "10:00:10 record wan>A until 10:30:00"
        + LOST
        + "10:10:00 A lost\n 10:10:10 failover\n 10:10:12 B up\n 10:30:05 B standby",
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:30:00 A>B"),
    ),
    "a failover after one with a record": Timeline(
        "08:00:10 record wan>A until 08:04:00\n 08:00:00 wan lost\n 08:00:10 failover\n"
        "08:00:12 A up\n 08:04:00 wan up\n 08:04:05 A standby\n 08:05:00 wan lost\n"
        "08:05:10 failover\n 08:05:12 A up\n 08:30:00 wan up",
        ("08:00:10 - 08:04:00 wan>A", "08:05:10 - 08:30:00 wan>A"),
    ),
    "no alert but that the primary is back": Timeline(
        "10:00:10 failover\n 10:30:00 wan up", ("10:00:10 - 10:30:00 wan>?",)
    ),
    "no loss alert, and the modem comes up minutes later": Timeline(
        "10:00:10 failover\n 10:06:00 A up\n 10:30:00 wan up", USUAL
    ),
    "no loss alert, two modems without wired WAN, and the backup comes up minutes later": Timeline(
        "10:00:10 failover\n 10:06:00 A up\n 10:30:00 P up\n 10:30:05 A standby",
        ("10:00:10 - 10:30:00 P>A",),
    ),
    "no loss alert, and a third modem comes up": Timeline(
        "10:00:10 failover\n 10:00:12 A up\n 10:10:00 B up" + BACK, USUAL
    ),
    "a third modem comes up": Timeline(LOST + "10:10:00 B up" + BACK, USUAL),
    "alerts without names of interfaces": Timeline(
        "10:00:00 unnamed-wan lost\n 10:00:10 failover\n 10:00:12 unnamed up\n"
        "10:30:00 unnamed-wan up",
        ("10:00:10 - 10:30:00 ?>?",),
    ),
    "reported twice in one second": Timeline(LOST + "10:00:11 failover" + BACK, USUAL),
    "reported five times": Timeline(
        "10:00:10 failover\n 10:00:12 A up\n 10:03:00 failover\n 10:06:00 failover\n"
        "10:09:00 failover\n 10:12:00 failover" + BACK,
        USUAL,
    ),
    "the backup is lost too, and nothing is left": Timeline(
        LOST + "10:10:00 A lost\n 10:11:00 offline\n 10:21:00 A up\n 10:21:05 online" + BACK,
        USUAL,
        (84610, 1185, 605, 0),
    ),
    "the backup is lost too, and the primary is back first": Timeline(
        LOST + "10:10:00 A lost\n 10:30:00 wan up\n 10:31:00 A standby", USUAL
    ),
    "the return is missing, and the primary is lost again within the hour": Timeline(
        LOST
        + """
        10:40:00 wan lost
        10:40:10 failover
        10:40:12 A up
        11:00:00 wan up
        """,
        ("10:00:10 - 10:00:12? wan>A", "10:40:10 - 11:00:00 wan>A"),
    ),
    "the return after two modems is missing": Timeline(
        """
        2 08:00:00 wan lost
        2 08:00:10 failover
        2 08:00:12 A up
        2 08:10:00 A lost
        2 08:10:10 failover
        2 08:10:12 B up
        """
        + LOST
        + BACK,
        ("2 08:00:10 - 2 08:10:12? wan>A", "2 08:10:10 - 2 08:10:12? A>B", *USUAL),
    ),
    "the backup is on standby for a moment": Timeline(
        LOST + "10:10:00 A standby\n 10:10:05 A up" + BACK, USUAL
    ),
    "standby, and a failover hours later": Timeline(
        "08:00:00 wan lost\n 08:00:10 failover\n 08:00:12 A up\n 08:10:05 A standby" + LOST + BACK,
        ("08:00:10 - 08:10:05 wan>A", *USUAL),
    ),
    "standby, and a failover without a loss hours later": Timeline(
        "08:00:00 wan lost\n 08:00:10 failover\n 08:00:12 A up\n 08:10:05 A standby\n"
        "10:00:10 failover\n 10:00:12 A up" + BACK,
        ("08:00:10 - 08:10:05 wan>A", *USUAL),
    ),
    "no loss alerts, one return missing": Timeline(
        "08:00:10 failover\n 08:00:12 A up\n 10:00:10 failover\n 10:00:12 A up" + BACK,
        ("08:00:10 - 08:00:12? ?>A", *USUAL),
    ),
    "all in one second": Timeline(
        "10:00:10 wan lost\n 10:00:10 failover\n 10:00:10 A up" + BACK, USUAL
    ),
    "a wired backup of a modem": Timeline(
        "10:00:00 P lost\n 10:00:10 failover\n 10:00:12 wan up\n 10:30:00 P up\n"
        "10:30:05 wan standby",
        ("10:00:10 - 10:30:00 P>wan",),
    ),
    "a loss hours before": Timeline(
        "07:00:00 wan lost\n 10:00:10 failover\n 10:00:12 A up" + BACK, USUAL
    ),
    "over midnight": Timeline(
        "2 23:50:00 wan lost\n 2 23:50:10 failover\n 2 23:50:12 A up\n 00:10:00 wan up",
        ("2 23:50:10 - 00:10:00 wan>A",),
        (85800, 600, 0, 0),
    ),
    "every third failover has a record": Timeline(
        "06:00:00 wan lost\n 06:00:10 failover\n 06:00:12 A up\n 06:30:00 wan up\n"
        "08:00:10 record wan>A until 08:30:00\n 08:00:00 wan lost\n 08:00:10 failover\n"
        "08:00:12 A up\n 08:30:00 wan up" + LOST + BACK,
        ("06:00:10 - 06:30:00 wan>A", "08:00:10 - 08:30:00 wan>A", *USUAL),
    ),
    "the record of the second failover alone": Timeline(
        "10:10:10 record A>B until 10:30:00"
        + LOST
        + "10:10:00 A lost\n 10:10:10 failover\n 10:10:12 B up"
        + BACK.replace("A", "B"),
        ("10:00:10 - 10:30:00 wan>A", "10:10:10 - 10:30:00 A>B"),
    ),
    "offline before, during and after": Timeline(
        LOST + "09:51:00 offline\n 10:05:00 online\n 10:26:00 offline\n 10:41:00 online" + BACK,
        USUAL,
        (83400, 1260, 1740, 0),
    ),
    "reported again minutes after it is over": Timeline(
        LOST + "10:01:00 wan up\n 10:01:05 A standby\n 10:05:00 failover",
        ("10:00:10 - 10:01:00 wan>A",),
    ),
    "the return and the next loss are missing": Timeline(
        "2 08:00:00 wan lost\n 2 08:00:10 failover\n 2 08:00:12 A up\n"
        "10:00:10 failover\n 10:00:12 A up" + BACK,
        ("2 08:00:10 - 2 08:00:12? wan>A", *USUAL),
    ),
    "the return and the next loss are missing on one day": Timeline(
        "06:00:00 wan lost\n 06:00:10 failover\n 06:00:12 A up\n"
        "10:00:10 failover\n 10:00:12 A up" + BACK,
        ("06:00:10 - 06:00:12? wan>A", *USUAL),
    ),
    "no loss alert after a failover with a record": Timeline(
        "09:55:10 record wan>A until 09:56:00\n 09:55:00 wan lost\n 09:55:10 failover\n"
        "09:55:12 A up\n 09:56:00 wan up\n 09:56:05 A standby\n"
        "10:00:10 failover\n 10:00:12 A up" + BACK,
        ("09:55:10 - 09:56:00 wan>A", *USUAL),
    ),
}
