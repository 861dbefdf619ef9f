"""Output for people: tables, and progress as bars on a terminal or plain lines elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fleetlake.text.plain import plain, plain_lines

if TYPE_CHECKING:
    from rich.progress import TextColumn

    from fleetlake.loading.outcome import Outcome
    from fleetlake.privacy.receipt import OutletReceipt

NOTHING_LOADED = "Warning: nothing was ever loaded into this lake. Run `fleetlake ingest` first."
PLAIN_WIDTH = 120
WIDEST = 100_000
"""Wider than any table; used to measure a table's natural width."""

SECONDS_BETWEEN_LINES = 5.0


class _Screen(Console):
    """Prints text literally: no markup, no emoji names, control characters as visible codes."""

    def __init__(self, **options: Any) -> None:
        """Take the options of a console."""
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts, tables or styled text; texts need not be trusted."""
        shown = [plain_lines(o) if isinstance(o, str) else o for o in objects]
        super().print(*shown, **options)


class _Results(_Screen):
    """Standard output; its reader may close the pipe early, which is not an error."""

    def on_broken_pipe(self) -> None:
        """End the command with exit code 0; Rich would end it with 1."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            sys.exit(0)


def console(*, stderr: bool = False) -> Console:
    """Return a console; without a terminal, lines may be 120 characters long."""
    kind = _Screen if stderr else _Results
    screen = kind(stderr=stderr)
    if not screen.is_terminal:
        screen = kind(stderr=stderr, width=PLAIN_WIDTH)
    return screen


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, counts: bool = True
) -> Table:
    """Return a table with numbers right-aligned; None becomes an empty cell.

    `counts` groups the digits of whole numbers, which suits counts but not ids.
    """
    rows = [list(row) for row in rows]
    drawn = Table(
        title=Text(plain(title)) if title else None, title_justify="left", header_style="bold"
    )
    for position, name in enumerate(columns):
        numeric = all(isinstance(row[position], (int, float, type(None))) for row in rows)
        drawn.add_column(
            Text(plain(name)), justify="right" if numeric and rows else "left", overflow="fold"
        )
    for row in rows:
        drawn.add_row(*(Text(cell(value, counts=counts)) for value in row))
    return drawn


def print_rows(screen: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a query's rows as a table or, if that is too wide, as one block per record."""
    drawn = table("", columns, rows, counts=False)
    unlimited = screen.options.update(max_width=WIDEST)
    if Measurement.get(screen, unlimited, drawn).maximum <= screen.width:
        screen.print(drawn)
        return
    columns = [plain(name) for name in columns]
    longest = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        screen.print(f"record {number}", style="bold")
        for name, value in zip(columns, row, strict=True):
            line = f"{name:<{longest}}: {cell(value, counts=False)}"
            screen.print(line, soft_wrap=True)


def table_or_none(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table | str:
    """Return a table, or the word None if there are no rows."""
    return table("", columns, rows) if rows else "None."


def print_copies(screen: Console, copies: Sequence["OutletReceipt"]) -> None:
    """Print what was done about copies of the lake, and what is left to the user."""
    rows = [(one.outlet, one.done, one.left_to_do) for one in copies]
    screen.print(table("", ("copy", "what was done", "what is left to you"), rows))


def cell(value: object, *, counts: bool = True) -> str:
    """Return a value for people, on one line and without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if counts else str(value)
    if isinstance(value, float):
        return f"{value:.10g}"
    return plain(value)


def run_with_progress(screen: Console, load: Callable[..., list["Outcome"]]) -> list["Outcome"]:
    """Run a load that takes a `watcher` and return its outcomes.

    Progress and the outcome of each stream go to `screen`, the totals to standard output.
    """
    from fleetlake.loading.outcome import outcome_line, totals_line
    from fleetlake.loading.run import Watcher

    def on_stop() -> None:
        screen.print("Stopping: committing what was read. Press Ctrl-C again to leave at once.")

    began = time.monotonic()
    with _bars(screen) if screen.is_terminal else _lines(screen) as (on_page, forget):

        def on_end(outcome: "Outcome") -> None:
            forget(outcome.endpoint)
            screen.print(f"  {outcome_line(outcome)}")

        outcomes = load(watcher=Watcher(on_page=on_page, on_end=on_end, on_stop=on_stop))
    console().print(totals_line(outcomes, seconds=time.monotonic() - began))
    return outcomes


def text_column(template: str) -> "TextColumn":
    """Return a text column of a progress bar that does not interpret markup."""
    from rich.progress import TextColumn

    return TextColumn(template, markup=False)


@contextmanager
def copy_progress(screen: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how many bytes of all were copied; elsewhere a line from time to time."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    parts = (text_column("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *parts,
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as bars:
        bar, last, copied = bars.add_task(what, total=None), time.monotonic(), 0

        def on_copied(size: int, total: int) -> None:
            nonlocal last, copied
            copied += size
            bars.update(bar, total=total, completed=copied)
            if not screen.is_terminal and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                screen.print(f"  … {what}: {copied / 1e6:,.1f} of {total / 1e6:,.1f} MB so far")

        yield on_copied


ProgressCallbacks = tuple[Callable[[str, int], None], Callable[[str], object]]
"""A callback for each page of a stream, and one for the end of the stream."""


@contextmanager
def _bars(screen: Console) -> Iterator[ProgressCallbacks]:
    from rich.progress import Progress, SpinnerColumn, TaskID, TimeElapsedColumn

    parts = (
        SpinnerColumn(),
        text_column("{task.description:<28}"),
        text_column("{task.completed:>12,.0f} records"),
        TimeElapsedColumn(),
    )
    with Progress(*parts, console=screen, transient=True) as progress:
        bars: dict[str, TaskID] = {}

        def on_page(endpoint: str, records: int) -> None:
            if endpoint not in bars:
                bars[endpoint] = progress.add_task(plain(endpoint), total=None)
            progress.advance(bars[endpoint], records)

        def forget(endpoint: str) -> None:
            if endpoint in bars:
                progress.remove_task(bars.pop(endpoint))

        yield on_page, forget


@contextmanager
def _lines(screen: Console) -> Iterator[ProgressCallbacks]:
    records: Counter[str] = Counter()
    last = time.monotonic()

    def on_page(endpoint: str, count: int) -> None:
        nonlocal last
        records[endpoint] += count
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            screen.print(f"  … {endpoint}: {records[endpoint]:,} records so far")

    yield on_page, lambda endpoint: records.pop(endpoint, None)
