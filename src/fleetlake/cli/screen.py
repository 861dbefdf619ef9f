"""What people see: tables, and progress as bars on a terminal or plain lines elsewhere."""

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

NOTHING_LOADED = "Warning: nothing was ever loaded into this lake; run `fleetlake ingest` first."
PLAIN_WIDTH = 120
WIDEST = 100_000
"""Room enough to ask how wide a table would like to be."""

SECONDS_BETWEEN_LINES = 5.0


class _Screen(Console):
    """Prints text as it is: no markup, no emoji names, control characters as codes."""

    def __init__(self, **options: Any) -> None:
        """Take the options of a console."""
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts, tables or styled text; texts may hold whatever somebody sent."""
        shown = [plain_lines(o) if isinstance(o, str) else o for o in objects]
        super().print(*shown, **options)


class _Results(_Screen):
    """Where results go, whose reader may leave: what it got is what it wanted."""

    def on_broken_pipe(self) -> None:
        """End the command well; Rich would end it as failed."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            sys.exit(0)


def console(*, stderr: bool = False) -> Console:
    """Return a console; where nobody's terminal sets a width, lines may be long."""
    kind = _Screen if stderr else _Results
    screen = kind(stderr=stderr)
    if not screen.is_terminal:
        screen = kind(stderr=stderr, width=PLAIN_WIDTH)
    return screen


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, counts: bool = True
) -> Table:
    """Return a table; numbers sit right, empty cells stay empty.

    `counts` says that whole numbers count something and may be grouped; ids may not.
    """
    rows = [list(row) for row in rows]
    drawn = Table(
        title=Text(plain(title)) if title else None, title_justify="left", header_style="bold"
    )
    for place, name in enumerate(columns):
        numeric = all(isinstance(row[place], (int, float, type(None))) for row in rows)
        drawn.add_column(
            Text(plain(name)), justify="right" if numeric and rows else "left", overflow="fold"
        )
    for row in rows:
        drawn.add_row(*(Text(cell(value, counts=counts)) for value in row))
    return drawn


def print_rows(screen: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print what a query gave as a table, or, where that is too wide, as a block a record."""
    drawn = table("", columns, rows, counts=False)
    room = screen.options.update(max_width=WIDEST)
    if Measurement.get(screen, room, drawn).maximum <= screen.width:
        screen.print(drawn)
        return
    columns = [plain(name) for name in columns]
    longest = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        screen.print(f"record {number}", style="bold")
        for name, value in zip(columns, row, strict=True):
            line = f"{name:<{longest}}: {cell(value, counts=False)}"
            screen.print(line, soft_wrap=True)


def listing(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table | str:
    """Return a table, or a word where there is nothing to list."""
    return table("", columns, rows) if rows else "None."


def cell(value: object, *, counts: bool = True) -> str:
    """Return a value as people read it, on one line and without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if counts else str(value)
    if isinstance(value, float):
        return f"{value:.10g}"
    return plain(value)


def watched(screen: Console, load: Callable[..., list["Outcome"]]) -> list["Outcome"]:
    """Run a load that takes a `watcher` and return its outcomes.

    The screen is told how it goes and how each stream ended, standard output what it came to.
    """
    from fleetlake.loading.outcome import outcome_line, totals_line
    from fleetlake.loading.run import Watcher

    def on_stop() -> None:
        screen.print("Stopping: what was read is being committed. Ctrl-C again leaves at once.")

    began = time.monotonic()
    with _bars(screen) if screen.is_terminal else _lines(screen) as (on_page, forget):

        def on_end(outcome: "Outcome") -> None:
            forget(outcome.endpoint)
            screen.print(f"  {outcome_line(outcome)}")

        outcomes = load(watcher=Watcher(on_page=on_page, on_end=on_end, on_stop=on_stop))
    console().print(totals_line(outcomes, seconds=time.monotonic() - began))
    return outcomes


def text_column(template: str) -> "TextColumn":
    """Return a column of a progress bar, whose texts are no markup."""
    from rich.progress import TextColumn

    return TextColumn(template, markup=False)


Shown = tuple[Callable[[str, int], None], Callable[[str], object]]
"""What to call for each page of a stream, and once the stream has ended."""


@contextmanager
def _bars(screen: Console) -> Iterator[Shown]:
    from rich.progress import Progress, SpinnerColumn, TaskID, TimeElapsedColumn

    look = (
        SpinnerColumn(),
        text_column("{task.description:<28}"),
        text_column("{task.completed:>12,.0f} records"),
        TimeElapsedColumn(),
    )
    with Progress(*look, console=screen, transient=True) as progress:
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
def _lines(screen: Console) -> Iterator[Shown]:
    records: Counter[str] = Counter()
    last = time.monotonic()

    def on_page(endpoint: str, count: int) -> None:
        nonlocal last
        records[endpoint] += count
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            screen.print(f"  … {endpoint}: {records[endpoint]:,} records so far")

    yield on_page, lambda endpoint: records.pop(endpoint, None)
