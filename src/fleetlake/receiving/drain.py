"""Bringing pushed messages from the journals of a folder into the lake, in micro-batches.

One transaction holds the rows, the dead letters, the confirmations and how far each journal is
read. So after a kill at any instant, or a commit with an unknown outcome, the next batch begins
where the committed one ended. A message that is read twice all the same adds nothing.

The lake is opened anew for each batch, under the drain's lock: between two batches a repair may
drop files, and a restore may replace the whole lake.
"""

import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.decoding.pushed import read_pushes
from fleetlake.endpoints import PUSHED
from fleetlake.errors import FleetlakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.commit import commit_load
from fleetlake.lake.evolution.promotions import with_promoted
from fleetlake.lake.loads import Load
from fleetlake.lake.locks import DRAIN_LOCK_SECONDS, drain_lock
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.ownership import require_own
from fleetlake.receiving.journal_reader import (
    START,
    Batch,
    Position,
    bytes_after,
    journals,
    newest_segment,
    read_batch,
    remove_until,
)
from fleetlake.settings import load_settings

logger = logging.getLogger(__name__)

MOST_MESSAGES = 5_000
MOST_BYTES = 64_000_000
"""Limits of one commit; a message that is larger alone is committed all the same."""

COMMIT_SECONDS = 2.0
"""At least this long from one commit to the next, so that a storm does not make many small ones."""

LOOK_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 60.0

RUN_ID = "drain"


@dataclass(frozen=True, kw_only=True)
class Drained:
    """What one batch brought: messages read, and what became of them.

    `alerts` are new rows; an alert that was pushed before is not. `dead_letters` could not be read
    and are in quarantine. `tests` are test messages, which leave no row. `has_more` is true if
    further messages were there and did not fit.
    """

    messages: int = 0
    alerts: int = 0
    dead_letters: int = 0
    tests: int = 0
    damages: int = 0
    has_more: bool = False

    def __add__(self, other: "Drained") -> "Drained":
        """Return what this batch and a later one brought together."""
        counts = vars(self).keys() - {"has_more"}
        return replace(
            other, **{name: getattr(self, name) + getattr(other, name) for name in counts}
        )

    @property
    def is_nothing(self) -> bool:
        """True if no journal had anything new."""
        return not (self.messages or self.damages)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The part of a batch from one journal; `is_lost` if the lake's position is beyond its end."""

    journal_id: str
    path: Path
    since: Position
    batch: Batch
    is_lost: bool

    @property
    def is_new(self) -> bool:
        return bool(self.batch.messages or self.batch.damage or self.batch.until != self.since)


def drain_once(
    lake: LakeAddress,
    folder: Path,
    *,
    profile: str = DEFAULT_PROFILE,
    lock_seconds: float = DRAIN_LOCK_SECONDS,
) -> Drained:
    """Commit the next messages of all journals in a folder, as many as fit into one commit.

    Raises: StreamBusy if another process drains into the lake, or keeps it quiet, for too long;
    LakeError, also for a journal of another user; OSError.
    """
    with drain_lock(lake, seconds=lock_seconds):
        return drain_quiet(lake, folder, profile=profile)


def drain_quiet(lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE) -> Drained:
    """Do the same for a caller that holds the drain's lock."""
    found = journals(folder)
    if not found:
        return Drained()
    for path in found.values():  # nobody has checked a signature in a journal of somebody else
        require_own(path, "journal", otherwise="set FLEETLAKE_PUSH_JOURNAL to another folder")
    with open_lake(lake, threads=1) as opened:
        positions = read_positions(opened)
        taken = _take(found, positions)
        parts = [part for part in taken if part.is_new]
        drained = _commit(opened, parts, profile) if parts else Drained()
    positions |= {part.journal_id: part.batch.until for part in parts}
    # The catalog is on the disk by now. A drain that was killed here left segments of any journal.
    for journal_id, path in found.items():
        position = positions.get(journal_id, START)
        if position > START and position.segment <= newest_segment(path):
            remove_until(path, position)
    return replace(drained, has_more=any(part.batch.has_more for part in taken))


def drain_batches(
    lake: LakeAddress,
    folder: Path,
    *,
    profile: str = DEFAULT_PROFILE,
    lock_seconds: float = DRAIN_LOCK_SECONDS,
) -> Iterator[Drained]:
    """Commit all messages that the journals of a folder hold now, and yield each commit.

    Raises: as `drain_once`; what was yielded before stays in the lake.
    """
    once = partial(drain_once, lake, folder, profile=profile, lock_seconds=lock_seconds)
    while not (drained := once()).is_nothing:
        yield drained


def drain_all(lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE) -> Drained:
    """Commit all messages that the journals of a folder hold now. Raises: as `drain_once`."""
    return sum(drain_batches(lake, folder, profile=profile), Drained())


def read_positions(lake: Lake) -> dict[str, Position]:
    """Return how far each journal is committed, by its id."""
    found = lake.rows('select journal_id, segment, "offset" from meta.journal_positions')
    return {journal_id: Position(segment, offset) for journal_id, segment, offset in found}


def _take(found: Mapping[str, Path], positions: Mapping[str, Position]) -> list[_Part]:
    """Read the next messages of each journal until the batch is full."""
    parts: list[_Part] = []
    left, left_bytes = MOST_MESSAGES, MOST_BYTES
    for journal_id, path in found.items():
        since = positions.get(journal_id, START)
        is_lost = 0 < newest_segment(path) < since.segment
        after = START if is_lost else since
        batch = read_batch(path, after, limit=left, max_bytes=left_bytes)
        parts.append(
            _Part(journal_id=journal_id, path=path, since=since, batch=batch, is_lost=is_lost)
        )
        left -= len(batch.messages)
        left_bytes -= sum(len(message.body) for message in batch.messages)
    return parts


def _commit(lake: Lake, parts: Sequence[_Part], profile: str) -> Drained:
    [endpoint] = with_promoted(lake, [PUSHED])
    messages = [message for part in parts for message in part.batch.messages]
    pushes = read_pushes(endpoint, ((one.body, one.received_at) for one in messages))
    done = commit_load(
        lake,
        Load(
            endpoint=endpoint,
            profile=profile,
            run_id=RUN_ID,
            rows=pushes.rows,
            rejects=pushes.rejects,
            seen_at=datetime.now(UTC),
        ),
        also=partial(_note_positions, parts=parts),
    )
    return Drained(
        messages=len(messages),
        alerts=done.added,
        dead_letters=len(pushes.rejects),
        tests=pushes.tests,
        damages=sum(len(part.batch.damage) for part in parts),
    )


def _note_positions(lake: Lake, parts: Sequence[_Part]) -> None:
    """Record how far the journals are read, and what was wrong with them."""
    for part in parts:
        lake.execute("delete from meta.journal_positions where journal_id = ?", [part.journal_id])
        until = part.batch.until
        lake.execute(
            "insert into meta.journal_positions values (?, ?, ?, now())",
            [part.journal_id, until.segment, until.offset],
        )
        if part.is_lost:
            _record(
                lake,
                part,
                "is shorter than what was read from it, so it is read from its beginning",
            )
        for damage in part.batch.damage:
            _record(lake, part, f"is damaged: {damage}")


def _record(lake: Lake, part: _Part, what: str) -> None:
    summary = f"The journal {part.journal_id} of pushed messages {what}."
    logger.warning("%s", summary)
    record_event(lake, EventKind.JOURNAL, summary, endpoint=PUSHED.name)


class Drain:
    """Drains the journals of a folder into a lake until it is told to stop."""

    def __init__(self, lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE) -> None:
        self._drain_once = partial(drain_once, lake, folder, profile=profile)
        self._folder = folder
        self._seen: dict[str, int] | None = None
        self._failure = ""

    def run(self, stop: threading.Event) -> None:
        """Commit what arrives until `stop` is set; a batch that has begun is completed.

        A message that arrives alone is committed at once. If the lake cannot be written, the
        journals grow, and it is tried again after waits that grow to a minute.
        """
        next_at, failures = 0.0, 0
        while not stop.wait(max(LOOK_SECONDS, next_at - time.monotonic())):
            if not self._has_news():
                continue
            seen, began = self._sizes(), time.monotonic()
            try:
                drained = self._drain_once()
            except (FleetlakeError, OSError) as error:
                failures += 1
                self._report(str(error))
                next_at = began + min(2.0**failures, LONGEST_WAIT_SECONDS)
                continue
            failures, self._failure = 0, ""
            next_at = began + (0.0 if drained.is_nothing else COMMIT_SECONDS)
            if not drained.has_more:
                self._seen = seen

    def _has_news(self) -> bool:
        return self._sizes() != self._seen

    def _sizes(self) -> dict[str, int]:
        """Return the bytes of each journal; of an unreadable one what is never seen as drained."""
        try:
            found = journals(self._folder)
            return {journal_id: bytes_after(path, START) for journal_id, path in found.items()}
        except OSError:
            return {"": -1}

    def _report(self, failure: str) -> None:
        """Log a failure once, however often it is repeated."""
        if failure != self._failure:
            logger.warning("Pushed messages wait in the journal: %s", failure)
        self._failure = failure


def main() -> None:
    """Drain the journals of the settings' folder into the settings' lake until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings = load_settings()
    Drain(settings.lake, settings.push_journal, profile=settings.profile).run(stop)


if __name__ == "__main__":
    main()
