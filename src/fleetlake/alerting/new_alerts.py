"""Alerts that have come into the lake since they were last announced, or last looked at, each once.

How far they are announced is in the lake (`meta.announced`), as the numbers that rows get when they
are committed. So it agrees with the rows whatever runs, restarts or is restored, and a load that
takes long and commits late is not overlooked. The first run announces nothing: what is there has
been there before. Alerts older than a day are never announced, so a backfill announces nothing.

A pushed alert and the polled one that confirms it are one alert: the first to arrive counts. Its
announcement has the same id either way, so that it can be recognised if it is sent twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from fleetlake.endpoints import ALERTS, GROUPS, PUSHED
from fleetlake.endpoints.model import Endpoint
from fleetlake.endpoints.relations import Thing
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import commit_lock
from fleetlake.settings import load_settings
from fleetlake.text.quoting import quoted
from fleetlake.text.tables_beside import statements_beside

OLDEST = timedelta(days=1)
"""An alert older than this is not announced."""

MOST_ALERTS = 10_000
"""Alerts of one look, of each table; the next look takes up the rest."""

_KEY = quoted(ALERTS.key[0])
_NONE = -1
"""Comes before the number of a table's first row."""

_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Announced:
    """The numbers of the last rows that were announced: of polled and of pushed alerts."""

    polled: int
    pushed: int


@dataclass(frozen=True, kw_only=True)
class NewAlert:
    """One alert to announce, with the names that its device and group have now. Times are UTC.

    `push_id` identifies it however it arrived.
    """

    push_id: str
    alert_id: str
    arrived_by: str
    account_profile: str
    alert_type: str
    description: str | None
    detected_at: datetime
    account_id: int | None
    router_id: int | None
    router_name: str | None
    group_name: str | None
    group_id: int | None = None
    loaded_at: datetime | None = None

    @property
    def event_id(self) -> UUID:
        """The id of its announcement, always the same."""
        return uuid5(NAMESPACE_OID, f"fleetlake alert {self.account_profile} {self.push_id}")


_FIELDS = tuple(NewAlert.__dataclass_fields__)


def new_alerts(
    lake: Lake, types: Sequence[str], *, now: datetime
) -> tuple[list[NewAlert], Announced]:
    """Return the alerts of these types to announce, oldest first, and how far that is.

    `now` is the service's clock, UTC. Pass the second to `note_announced` once they are sent.
    """
    with lake.single_snapshot():
        since, last = now - OLDEST, _last(lake)
        if last is None:
            return [], Announced(
                _newest(lake, ALERTS, since, at_least=_NONE),
                _newest(lake, PUSHED, since, at_least=_NONE),
            )
        return _after(lake, last, types, since)


def _after(
    lake: Lake, last: Announced, types: Sequence[str], since: datetime
) -> tuple[list[NewAlert], Announced]:
    """Return the alerts behind these rows, oldest first, and how far that is; all without types."""
    words = load_settings().words
    chosen = {"types": words.either(types), "since": since, "most": MOST_ALERTS}
    polled = lake.rows(_POLLED, {**chosen, "polled": last.polled, "pushed": last.pushed})
    pushed: list[tuple[Any, ...]] = []
    if len(polled) == MOST_ALERTS:
        # The rest may confirm pushes that would then count as announced.
        until = Announced(int(polled[-1][0]), last.pushed)
    else:
        pushed = lake.rows(_PUSHED, {**chosen, "pushed": last.pushed})
        until = Announced(
            _newest(lake, ALERTS, since, at_least=last.polled),
            _until(lake, pushed, since, last.pushed),
        )
    rows = (dict(zip(_FIELDS, row, strict=True)) for _, *row in (*polled, *pushed))
    found = [
        NewAlert(**row | {"alert_type": words.neutral(row["alert_type"] or "unknown")})
        for row in rows
    ]
    return sorted(found, key=lambda alert: (alert.detected_at, alert.alert_id)), until


def note_announced(lake: Lake, until: Announced) -> None:
    """Record how far alerts are announced, unless that is known already."""
    if _last(lake) == until:
        return
    with commit_lock(lake.path), lake.transaction():
        lake.execute("delete from meta.announced")
        lake.execute(
            "insert into meta.announced values (?, ?, now()), (?, ?, now())",
            [ALERTS.name, until.polled, PUSHED.name, until.pushed],
        )


def _last(lake: Lake) -> Announced | None:
    rows = dict(lake.rows("select endpoint, row_number from meta.announced"))
    if not {ALERTS.name, PUSHED.name} <= rows.keys():
        return None
    return Announced(rows[ALERTS.name], rows[PUSHED.name])


def _until(lake: Lake, pushed: Sequence[tuple[Any, ...]], since: datetime, last: int) -> int:
    """Return the number of the last row that a look at the pushed alerts has covered."""
    if len(pushed) == MOST_ALERTS:
        return int(pushed[-1][0])
    return _newest(lake, PUSHED, since, at_least=last)


def _newest(lake: Lake, endpoint: Endpoint, since: datetime, *, at_least: int) -> int:
    """Return the highest number among the rows since an instant, or `at_least`."""
    [(newest,)] = lake.rows(
        f"select max(rowid) from raw.{endpoint.name} where {endpoint.event_time} >= ?", [since]
    )
    return at_least if newest is None else max(int(newest), at_least)


_NAMES = {
    "key": _KEY,
    "polled": ALERTS.name,
    "pushed": PUSHED.name,
    "router_list": Thing.ROUTER.listing.name,
    "group_list": GROUPS.name,
}


_WRITTEN = statements_beside(__file__, "new_alerts.sql")
_POLLED, _PUSHED = (
    _WRITTEN["named"].format(alerts=_WRITTEN[name].format(**_NAMES), **_NAMES)
    for name in ("polled", "pushed")
)


@dataclass(frozen=True, kw_only=True)
class AlertFilter:
    """Which alerts to show: of these types, of a device or a group by id or name."""

    types: Sequence[str] = ()
    device: str | None = None
    group: str | None = None

    def fits(self, alert: NewAlert) -> bool:
        """Return whether an alert is of the device and the group; the query chooses the types."""
        return self.device in {None, str(alert.router_id), alert.router_name} and (
            self.group in {None, str(alert.group_id), alert.group_name}
        )


FIELDS = (
    *("alert_id", "account_profile", "alert_type", "detected_at", "router_id", "router_name"),
    *("group_id", "group_name", "account_id", "description", "loaded_at"),
)
"""What is shown of an alert, in the order of JSON and CSV."""


class AlertTail:
    """The alerts that arrived since the last look; the first look shows those since a time.

    Without a time, the first look shows nothing: what is there has arrived before.
    """

    def __init__(
        self, lake: Lake, chosen: AlertFilter | None = None, *, since: datetime | None = None
    ) -> None:
        self._lake, self._chosen = lake, chosen or AlertFilter()
        self._earlier: list[NewAlert] = []
        self._last = Announced(_NONE, _NONE)
        with lake.single_snapshot():
            if since is not None:
                found = self._read(since)
                self._earlier = [alert for alert in found if alert.detected_at >= since]
            self._last = Announced(
                _newest(lake, ALERTS, _EVER, at_least=_NONE),
                _newest(lake, PUSHED, _EVER, at_least=_NONE),
            )

    def look(self) -> list[NewAlert]:
        """Return the alerts that arrived since the last look, oldest first."""
        shown, self._earlier = self._earlier, []
        with self._lake.single_snapshot():
            return [*shown, *self._read(_EVER)]

    def _read(self, since: datetime) -> list[NewAlert]:
        shown: list[NewAlert] = []
        while True:
            found, until = _after(self._lake, self._last, self._chosen.types, since)
            shown += filter(self._chosen.fits, found)
            if until == self._last:
                return shown
            self._last = until
