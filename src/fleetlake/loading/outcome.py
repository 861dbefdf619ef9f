"""How the load of a stream went, as values and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.errors import FleetlakeError
from fleetlake.text.wording import counted


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the load of one stream went. `error` is None where all of it is committed.

    `skipped` ids of a fan-out were not asked, for nothing happened to them. `lost` ranges were
    found that the service had forgotten before this load.
    """

    endpoint: str
    added: int = 0
    changed: int = 0
    quarantined: int = 0
    calls: int = 0
    seconds: float = 0.0
    error: FleetlakeError | None = None
    profile: str = DEFAULT_PROFILE
    skipped: int = 0
    lost: int = 0


def outcome_line(outcome: Outcome) -> str:
    """Return in a line how one stream went."""
    name = stream_name(outcome.endpoint, outcome.profile)
    if outcome.error:
        return f"{name}: {outcome.error.what}"
    changes = _changes("added", [outcome]) or "nothing new"
    return f"{name}: {changes} ({counted(outcome.calls, 'call')}, {outcome.seconds:.1f} s)"


def totals_line(outcomes: Sequence[Outcome], *, seconds: float) -> str:
    """Return in a line what all streams came to; `seconds` is how long it took."""
    whole = sum(outcome.error is None for outcome in outcomes)
    streams = counted(len(outcomes), "stream")
    changes = _changes("rows added", outcomes) or "0 rows added"
    calls = counted(sum(outcome.calls for outcome in outcomes), "call")
    which = streams if whole == len(outcomes) else f"{whole:,} of {streams}"
    return f"{which}: {changes} ({calls}, {seconds:.1f} s)"


def _changes(added: str, outcomes: Sequence[Outcome]) -> str:
    counts = {
        added: sum(outcome.added for outcome in outcomes),
        "changed": sum(outcome.changed for outcome in outcomes),
        "quarantined": sum(outcome.quarantined for outcome in outcomes),
    }
    changes = [f"{count:,} {what}" for what, count in counts.items() if count]
    if lost := sum(outcome.lost for outcome in outcomes):
        changes.append(f"{counted(lost, 'range')} lost: see `fleetlake gaps`")
    return ", ".join(changes)


@dataclass(frozen=True, kw_only=True)
class StreamRead:
    """What reading a stream found, beyond the rows it committed.

    `listed` holds the ids of a list that tells which ids of a fan-out moved.
    """

    skipped: int = 0
    lost: int = 0
    listed: frozenset[Any] | None = None
