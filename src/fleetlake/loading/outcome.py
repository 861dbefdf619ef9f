"""The outcome of loading a stream, as values and as text."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Mode
from fleetlake.errors import FleetlakeError
from fleetlake.text.wording import counted


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of loading one stream. `error` is None if everything was committed.

    `skipped` counts the ids of a fan-out that were not requested: not due, or unchanged.
    `lost` counts the ranges that expired before this load could read them. `spared` counts the
    calls not made because pushes bring the records.
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
    spared: int = 0

    @property
    def status(self) -> str:
        """Return "failed", "not_due" or "loaded".

        >>> Outcome(endpoint="users", error=FleetlakeError("It failed.")).status
        'failed'
        """
        return "failed" if self.error else "not_due" if self.spared else "loaded"


def outcome_line(outcome: Outcome) -> str:
    """Return the outcome of one stream as a line of text."""
    name = stream_name(outcome.endpoint, outcome.profile)
    if outcome.error:
        return f"{name}: {outcome.error.what}"
    if outcome.spared:
        return (
            f"{name}: not due, because pushes bring it ({counted(outcome.spared, 'call')} spared)"
        )
    endpoint = ENDPOINTS.get(outcome.endpoint)
    has_ends = outcome.changed and endpoint and endpoint.mode is Mode.HISTORY
    words = ("versions added", "ended") if has_ends else ("added", "changed")
    changes = _changes(words, [outcome]) or "nothing new"
    return f"{name}: {changes} ({counted(outcome.calls, 'call')}, {outcome.seconds:.1f} s)"


def totals_line(outcomes: Sequence[Outcome], *, seconds: float) -> str:
    """Return the totals of all streams as a line of text; `seconds` is wall time."""
    whole = sum(outcome.error is None for outcome in outcomes)
    streams = counted(len(outcomes), "stream")
    changes = _changes(("rows added", "changed"), outcomes) or "0 rows added"
    calls = counted(sum(outcome.calls for outcome in outcomes), "call")
    done = streams if whole == len(outcomes) else f"{whole:,} of {streams}"
    return f"{done}: {changes} ({calls}, {seconds:.1f} s)"


def _changes(words: tuple[str, str], outcomes: Sequence[Outcome]) -> str:
    added, changed = words
    counts = {
        added: sum(outcome.added for outcome in outcomes),
        changed: sum(outcome.changed for outcome in outcomes),
        "quarantined": sum(outcome.quarantined for outcome in outcomes),
    }
    changes = [f"{count:,} {what}" for what, count in counts.items() if count]
    if lost := sum(outcome.lost for outcome in outcomes):
        changes.append(f"{counted(lost, 'range')} lost: see `fleetlake records gaps`")
    return ", ".join(changes)


@dataclass(frozen=True, kw_only=True)
class StreamRead:
    """What a read of a stream returns besides the rows it committed; counts as in `Outcome`.

    `listed` holds the ids of a bulk list, which says which ids of a fan-out changed.
    """

    skipped: int = 0
    lost: int = 0
    listed: pa.ChunkedArray | None = None
