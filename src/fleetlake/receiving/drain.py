"""Bringing pushed messages from the journal into the lake, in micro-batches.

One transaction holds the rows, the dead letters, the confirmations and how far the journal is
read. So after a kill at any instant, or a commit with an unknown outcome, the next batch begins
where the committed one ended. A message that is read twice all the same adds nothing. What the
lake has is then deleted from the journal.

The lake is opened anew for each batch, under the drain's lock: between two batches a repair may
drop files, and a restore may replace the whole lake.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
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
from fleetlake.lake.catalog import has_lake
from fleetlake.lake.commit import commit_load
from fleetlake.lake.loads import Attempt, Batch, Proof, RowParts
from fleetlake.lake.locks import DRAIN_LOCK_SECONDS, drain_lock
from fleetlake.lake.run_state import RunState
from fleetlake.lake_address import LakeAddress
from fleetlake.receiving.journal_positions import read_positions
from fleetlake.receiving.journal_table import (
    JournalTable,
    MessageBatch,
    Position,
    PushedMessage,
    has_journal,
    has_messages,
    place_of,
    read_batch,
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

_NONE = Position(0)


@dataclass(frozen=True, kw_only=True)
class Drained:
    """What one batch brought: messages read, and what became of them.

    `alerts` are new rows; an alert that was pushed before is not. `dead_letters` could not be read
    and are in quarantine. `tests` are test messages, which leave no row. `losses` counts what the
    journal lacks or holds damaged. `has_more` is true if further messages were there and did not
    fit.
    """

    messages: int = 0
    alerts: int = 0
    dead_letters: int = 0
    tests: int = 0
    losses: int = 0
    has_more: bool = False

    def __add__(self, other: "Drained") -> "Drained":
        """Return what this batch and a later one brought together."""
        counts = vars(self).keys() - {"has_more"}
        return replace(
            other, **{name: getattr(self, name) + getattr(other, name) for name in counts}
        )

    @property
    def is_nothing(self) -> bool:
        """True if the journal had nothing new."""
        return not (self.messages or self.losses)


def drain_once(
    lake: LakeAddress,
    folder: Path,
    *,
    profile: str = DEFAULT_PROFILE,
    lock_seconds: float = DRAIN_LOCK_SECONDS,
) -> Drained:
    """Commit the next messages of the journal in a folder, as many as fit into one commit.

    Raises: StreamBusy if another process drains into the lake, or keeps it quiet, for too long;
    LakeError, also for a journal of another user; OSError.
    """
    with drain_lock(lake, seconds=lock_seconds):
        return drain_quiet(lake, folder, profile=profile)


def drain_quiet(lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE) -> Drained:
    """Do the same for a caller that holds the drain's lock."""
    if not (has_journal(folder) or has_lake(lake)):
        return Drained()
    with open_lake(lake, threads=1) as opened:
        positions = read_positions(opened)
        batch = read_batch(folder, positions, limit=MOST_MESSAGES, max_bytes=MOST_BYTES)
        own = None if batch is None else batch.journal_id
        replaced = [
            id_ for id_, at in positions.items() if at.place == place_of(folder) and id_ != own
        ]
        losses = [(id_, "is lost or was replaced") for id_ in replaced]
        if batch is not None:
            losses += [(batch.journal_id, one) for one in batch.losses]
        is_new = batch is not None and batch.until != positions.get(batch.journal_id, _NONE).number
        if losses or is_new:
            note = partial(
                _note_positions, batch=batch, place=place_of(folder), ended=replaced, losses=losses
            )
            drained = _commit(opened, batch.messages if batch else [], profile, note)
        else:
            drained = Drained()
    if batch is not None and batch.until > batch.deleted:  # the catalog is on the disk by now
        with closing(JournalTable(folder)) as table:
            table.delete_until(batch.until)
    return replace(drained, losses=len(losses), has_more=batch is not None and batch.has_more)


def drain_batches(
    lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE
) -> Iterator[Drained]:
    """Commit all messages that the journal in a folder holds now, and yield each commit.

    Raises: as `drain_once`; what was yielded before stays in the lake.
    """
    while not (drained := drain_once(lake, folder, profile=profile)).is_nothing:
        yield drained


def drain_all(lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE) -> Drained:
    """Commit all messages that the journal in a folder holds now. Raises: as `drain_once`."""
    return sum(drain_batches(lake, folder, profile=profile), Drained())


def _commit(
    lake: Lake, messages: Sequence[PushedMessage], profile: str, also: Callable[[Lake], None]
) -> Drained:
    state = RunState(lake, profile)
    endpoint = state.widened(PUSHED)
    pushes = read_pushes(endpoint, ((one.body, one.received_at) for one in messages))
    batch = Batch(
        endpoint=endpoint,
        profile=profile,
        rows=RowParts.of(pushes.rows),
        rejects=pushes.rejects,
        seen_at=datetime.now(UTC),
    )
    done = commit_load(state, batch, Proof(), Attempt(RUN_ID), also=also)
    return Drained(
        messages=len(messages),
        alerts=done.added,
        dead_letters=len(pushes.rejects),
        tests=pushes.tests,
    )


def _note_positions(
    lake: Lake,
    batch: MessageBatch | None,
    place: str,
    ended: Sequence[str],
    losses: Sequence[tuple[str, str]],
) -> None:
    """Record how far the journal is read, and what it lacks; `ended` are journals of the past."""
    noted = [] if batch is None else [(batch.journal_id, batch.until)]
    for journal_id in [*ended, *(id_ for id_, _ in noted)]:
        lake.execute("delete from meta.journal_positions where journal_id = ?", [journal_id])
    for journal_id, until in noted:
        lake.execute(
            'insert into meta.journal_positions (journal_id, segment, "offset", committed_at, '
            "folder) values (?, 0, ?, now(), ?)",
            [journal_id, until, place],
        )
    for journal_id, what in losses:
        summary = f"The journal {journal_id} of pushed messages {what}."
        logger.warning("%s", summary)
        record_event(lake, EventKind.JOURNAL, summary, endpoint=PUSHED.name)


class Drain:
    """Drains the journal in a folder into a lake until it is stopped."""

    def __init__(self, lake: LakeAddress, folder: Path, *, profile: str = DEFAULT_PROFILE) -> None:
        self._drain_once = partial(drain_once, lake, folder, profile=profile)
        self._folder = folder
        self._is_first = True  # the first look also finds a lost journal
        self._failure = ""

    def run(self, stop: threading.Event) -> None:
        """Commit what arrives until `stop` is set; a batch that has begun is completed.

        A message that arrives alone is committed at once. If the lake cannot be written, the
        journal grows, and it is tried again after waits that grow to a minute.
        """
        next_at, failures = 0.0, 0
        while not stop.wait(max(LOOK_SECONDS, next_at - time.monotonic())):
            began = time.monotonic()
            try:
                if not (self._is_first or has_messages(self._folder)):
                    continue
                drained = self._drain_once()
            except (FleetlakeError, OSError) as error:
                failures += 1
                self._report(str(error))
                next_at = began + min(2.0**failures, LONGEST_WAIT_SECONDS)
                continue
            failures, self._failure, self._is_first = 0, "", False
            next_at = began + (0.0 if drained.is_nothing else COMMIT_SECONDS)

    def _report(self, failure: str) -> None:
        """Log a failure once, however often it is repeated."""
        if failure != self._failure:
            logger.warning("Pushed messages wait in the journal: %s", failure)
        self._failure = failure


def main() -> None:
    """Drain the journal of the settings' folder into the settings' lake until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings = load_settings()
    Drain(settings.lake, settings.push_journal, profile=settings.profile).run(stop)


if __name__ == "__main__":
    main()
