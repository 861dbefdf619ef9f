"""What an erasure did, as values: the receipt for a person to keep. It contains no names."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleetlake.errors import ExportFailed, FleetlakeError

_FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class TableReceipt:
    """One table: rows deleted, rows of others that were redacted, data files that were replaced."""

    table: str
    deleted: int
    redacted: int
    files_rewritten: int


@dataclass(frozen=True, kw_only=True)
class OutletReceipt:
    """One copy outside of the lake, what was done about it, and what is left to the user."""

    outlet: str
    done: str
    left_to_do: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether the copy may still hold what was deleted from the lake."""
        return self.done.startswith(_FAILED)


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """An erasure: when, how many things of each kind, and what became of each copy."""

    erased_at: datetime
    things: Mapping[str, int]
    tables: Sequence[TableReceipt]
    outlets: Sequence[OutletReceipt]
    is_dry_run: bool
    seconds: float


def attempted(outlet: str, work: Callable[[], OutletReceipt | None]) -> Iterator[OutletReceipt]:
    """Yield what some work did about a copy, if anything; a failure is yielded, not raised.

    So the copies after it are attempted too, and the receipt is complete: what was deleted cannot
    be counted again.
    """
    try:
        done = work()
    except FleetlakeError as error:
        done = OutletReceipt(outlet=outlet, done=f"{_FAILED}: {error.what}")
    except OSError as error:
        done = OutletReceipt(outlet=outlet, done=f"{_FAILED}: {error.strerror or error}")
    if done:
        yield done


def raise_unfinished(outlets: Sequence[OutletReceipt]) -> None:
    """Raise ExportFailed if something about a copy failed."""
    failed = [one.outlet for one in outlets if one.is_failed]
    if failed:
        raise ExportFailed(
            f"{', '.join(failed)} may still hold what was deleted from the lake.",
            remedy="Fix the cause, then run the same command again.",
        )


def table_receipts(
    deleted: Mapping[str, int],
    redacted: Mapping[str, int],
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> list[TableReceipt]:
    """Return a receipt for each table that changed; files are given with their tables.

    >>> [r] = table_receipts({"raw.users": 1}, {}, {"a": "raw.users"}, {"b": "raw.users"})
    >>> (r.deleted, r.files_rewritten)
    (1, 1)
    """
    replaced = Counter(table for file, table in before.items() if file not in after)
    named = sorted({*deleted, *redacted})
    return [
        TableReceipt(
            table=table,
            deleted=deleted.get(table, 0),
            redacted=redacted.get(table, 0),
            files_rewritten=replaced[table],
        )
        for table in named
    ]
