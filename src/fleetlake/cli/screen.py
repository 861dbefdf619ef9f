"""Output for people: tables, and progress as bars on a terminal or plain lines elsewhere."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Protocol

from fleetlake.text.plain import plain, plain_lines
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn
    from rich.table import Table

    from fleetlake.lake.locks import Patience
    from fleetlake.loading.outcome import Outcome
    from fleetlake.privacy.receipt import OutletReceipt
    from fleetlake.settings import Settings

NOTHING_LOADED = "Warning: nothing was ever loaded into this lake. Run `fleetlake ingest` first."
PLAIN_WIDTH = 120
_AS_TERMINAL = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""Variables by which Rich treats a stream as a terminal."""
WIDEST = 100_000
"""Wider than any table; used to measure a table's natural width."""

SECONDS_BETWEEN_LINES = 5.0


class Screen(Protocol):
    """A standard stream that prints texts and Rich's tables; texts need not be trusted."""

    @property
    def is_terminal(self) -> bool:
        """True if the stream is a terminal."""

    @property
    def file(self) -> IO[str]:
        """The stream itself."""

    @property
    def rich(self) -> "Console":
        """Rich's console of the stream."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts, tables or styled text."""


class PlainLines:
    """A stream without a terminal: Rich is imported only for what is not a text."""

    is_terminal = False

    def __init__(self, *, stderr: bool) -> None:
        """Take standard error or standard output, whichever file that is at the time."""
        self._is_stderr = stderr
        self._file: IO[str] | None = None

    @property
    def file(self) -> IO[str]:
        """The stream itself."""
        return self._file or (sys.stderr if self._is_stderr else sys.stdout)

    @file.setter
    def file(self, file: IO[str]) -> None:
        self._file = file

    @cached_property
    def rich(self) -> "Console":
        """Rich's console of the stream; its tables may be 120 characters wide."""
        from fleetlake.cli.rich_screen import rich_console

        screen = rich_console(stderr=self._is_stderr, width=PLAIN_WIDTH)
        if self._file:
            screen.file = self._file
        return screen

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich would, but do not wrap texts: they may hold commands to copy."""
        [text] = objects if len(objects) == 1 else [None]
        if not isinstance(text, str) or options:
            self.rich.print(*objects, **options)
            return
        try:
            self.file.write(f"{plain_lines(text)}\n")
            self.file.flush()
        except BrokenPipeError:
            self.rich.on_broken_pipe()


def console(*, stderr: bool = False) -> Screen:
    """Return a console; without a terminal, tables may be 120 characters wide."""
    stream = sys.stderr if stderr else sys.stdout
    if not (stream.isatty() or _AS_TERMINAL & os.environ.keys()):
        return PlainLines(stderr=stderr)
    from fleetlake.cli.rich_screen import rich_console

    screen = rich_console(stderr=stderr)
    return screen if screen.is_terminal else rich_console(stderr=stderr, width=PLAIN_WIDTH)


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, counts: bool = True
) -> "Table":
    """Return a table with numbers right-aligned; None becomes an empty cell.

    `counts` groups the digits of whole numbers, which suits counts but not ids. A column `id` is
    not wrapped, since ids are copied.
    """
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    drawn = Table(
        title=Text(plain(title)) if title else None, title_justify="left", header_style="bold"
    )
    for position, name in enumerate(columns):
        numeric = all(isinstance(row[position], (int, float, type(None))) for row in rows)
        drawn.add_column(
            Text(plain(name)),
            justify="right" if numeric and rows else "left",
            overflow="fold",
            no_wrap=name == "id",
        )
    for row in rows:
        drawn.add_row(*(Text(cell(value, counts=counts)) for value in row))
    return drawn


def print_rows(screen: Screen, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a query's rows as a table or, if that is too wide, as one block per record."""
    from rich.measure import Measurement

    drawn = table("", columns, rows, counts=False)
    rich = screen.rich
    unlimited = rich.options.update(max_width=WIDEST)
    if Measurement.get(rich, unlimited, drawn).maximum <= rich.width:
        screen.print(drawn)
        return
    columns = [plain(name) for name in columns]
    if not rows:
        screen.print(f"0 rows of {', '.join(columns)}")
    longest = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        screen.print(f"record {number}", style="bold")
        for name, value in zip(columns, row, strict=True):
            line = f"{name:<{longest}}: {cell(value, counts=False)}"
            screen.print(line, soft_wrap=True)


def table_or_none(
    things: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> "Table | str":
    """Return a table, or a sentence that there are none of these things."""
    return table("", columns, rows) if rows else f"No {things}."


def print_copies(screen: Screen, copies: Sequence["OutletReceipt"]) -> None:
    """Print what was done about copies of the lake, and what is left to the user."""
    rows = [(one.outlet, one.done, one.left_to_do) for one in copies]
    screen.print(table("", ("copy", "what was done", "what is left to you"), rows))


def patience(settings: "Settings") -> "Patience":
    """Return how long a command waits for the lake; it says what it waits for."""
    from fleetlake.lake.locks import Patience

    def say(what: str) -> None:
        console(stderr=True).print(f"{what} Waiting for up to {settings.busy_wait} s …")

    return Patience(seconds=settings.busy_wait, on_busy=say)


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


def run_with_progress(
    screen: Screen,
    load: Callable[..., list["Outcome"]],
    *,
    report: Callable[[list["Outcome"]], None] | None = None,
) -> list["Outcome"]:
    """Run a load that takes a `watcher` and return its outcomes.

    Progress and the outcome of each stream go to `screen`, the totals to standard output, or the
    streams that have ended to `report`, even if the load then fails or is stopped.
    """
    from fleetlake.loading.outcome import outcome_line, totals_line
    from fleetlake.loading.run import Watcher

    def on_stop() -> None:
        screen.print("Stopping: committing what was read. Press Ctrl-C again to leave at once.")

    began, ended = time.monotonic(), list["Outcome"]()
    bars = count_bars(screen, "records") if screen.is_terminal else _lines(screen)
    with bars as (on_page, forget):

        def on_end(outcome: "Outcome") -> None:
            forget(outcome.endpoint)
            ended.append(outcome)
            screen.print(f"  {outcome_line(outcome)}")

        try:
            outcomes = load(watcher=Watcher(on_page=on_page, on_end=on_end, on_stop=on_stop))
        finally:
            if report:
                report(ended)
    if not report:
        console().print(totals_line(outcomes, seconds=time.monotonic() - began))
    return outcomes


def text_column(template: str) -> "TextColumn":
    """Return a text column of a progress bar that does not interpret markup."""
    from rich.progress import TextColumn

    return TextColumn(template, markup=False)


@contextmanager
def copy_progress(screen: Screen, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how many bytes of all were copied; elsewhere a line from time to time."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    parts = (text_column("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *parts,
        TimeRemainingColumn(),
        console=screen.rich,
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
def count_bars(screen: Screen, things: str) -> Iterator[ProgressCallbacks]:
    """Show on a terminal how many things of each stream or table there were so far."""
    from rich.progress import Progress, SpinnerColumn, TaskID, TimeElapsedColumn

    parts = (
        SpinnerColumn(),
        text_column("{task.description:<28}"),
        text_column(f"{{task.completed:>12,.0f}} {things}"),
        TimeElapsedColumn(),
    )
    is_hidden = not screen.is_terminal
    with Progress(*parts, console=screen.rich, transient=True, disable=is_hidden) as progress:
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
def _lines(screen: Screen) -> Iterator[ProgressCallbacks]:
    records: Counter[str] = Counter()
    last = time.monotonic()

    def on_page(endpoint: str, count: int) -> None:
        nonlocal last
        records[endpoint] += count
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            screen.print(f"  … {endpoint}: {counted(records[endpoint], 'record')} so far")

    yield on_page, lambda endpoint: records.pop(endpoint, None)
