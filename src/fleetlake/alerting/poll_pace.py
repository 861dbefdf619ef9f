"""When a list whose records are pushed as well may be polled less often. Pure.

A poll proves that nothing is missing, and a push proves nothing. So a poll may wait only while
there is fresh evidence that pushes bring everything, and never for long. Whatever is wrong or
unknown makes it due: the doubt costs one call.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.text.wording import counted

SLOW_WAIT = timedelta(minutes=45)
"""How long a poll waits while pushes bring everything.

With a run every five or ten minutes, less than an hour passes from one poll to the next.
"""

PUSHES_STOP = timedelta(minutes=15)
"""Pushes have stopped if none arrived for this long. A quiet fleet looks the same: it is polled."""

RECENT = timedelta(days=1)
"""How far back an alert that was only pushed, or only polled, counts against the pushes."""

PUSHED_WITHIN = timedelta(minutes=5)
"""A push arrives sooner than this after its alert was created."""

_SKEW = timedelta(minutes=1)
"""How far the clocks of machines that share a lake may differ."""


@dataclass(frozen=True, kw_only=True)
class PushEvidence:
    """What a lake knows about the pushes of one account. Times are of this machine's clock, UTC.

    `polled_at` is when the list was last read to its end. `confirmed` pushes of the last day were
    read by a poll. `unconfirmed` ones were not, although a poll has read their time. `unpushed`
    alerts of the last day were polled, and no push brought them. `failing` counts signs that a
    destination does not deliver.
    """

    polled_at: datetime | None
    pushed_at: datetime | None
    confirmed: int = 0
    unconfirmed: int = 0
    unpushed: int = 0
    failing: int = 0


def reason_to_poll(evidence: PushEvidence, *, now: datetime) -> str | None:
    """Return why a poll is due at `now`, in words; None if it may wait.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> evidence = PushEvidence(polled_at=noon, pushed_at=noon, confirmed=3)
    >>> reason_to_poll(evidence, now=noon + timedelta(minutes=10)) is None
    True
    >>> reason_to_poll(evidence, now=noon + timedelta(minutes=20))
    'no push arrived for 15 minutes'
    """
    reasons = (
        (
            f"the last poll was not within {_minutes(SLOW_WAIT)}",
            not _is_within(evidence.polled_at, SLOW_WAIT, now),
        ),
        (
            f"no push arrived for {_minutes(PUSHES_STOP)}",
            not _is_within(evidence.pushed_at, PUSHES_STOP, now),
        ),
        ("a push destination does not deliver", evidence.failing),
        (
            f"the last poll did not read {counted(evidence.unconfirmed, 'pushed alert')}",
            evidence.unconfirmed,
        ),
        (
            f"no push brought {counted(evidence.unpushed, 'alert')} of the last day",
            evidence.unpushed,
        ),
        ("no push of the last day is confirmed yet", not evidence.confirmed),
    )
    return next((reason for reason, is_so in reasons if is_so), None)


def _is_within(moment: datetime | None, span: timedelta, now: datetime) -> bool:
    """Return whether an instant was less than `span` ago; a clock that jumped proves nothing."""
    return moment is not None and -_SKEW <= now - moment < span


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:.0f} minutes"
