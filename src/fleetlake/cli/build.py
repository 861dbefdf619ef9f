"""`fleetlake build`: build the marts from the lake."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.screen import NOTHING_LOADED, console, table, text_column
from fleetlake.errors import UsageError
from fleetlake.text.plain import plain
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

    from fleetlake.cli.screen import Screen
    from fleetlake.marts import BuildResult, BuildStep
    from fleetlake.marts.dbt import OnProgress


def build(
    select: Annotated[
        str | None,
        typer.Option(
            help="Which models, in dbt's syntax, e.g. failover_episodes+ or marts.battery."
        ),
    ] = None,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Rebuild incremental marts from the beginning.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Only the live marts, if alerts or failovers have arrived."),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(help="Build on another engine: an output of profiles.yml, e.g. spark."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print each model, and a table of the marts.")
    ] = False,
) -> None:
    """Build staging views and marts with dbt, and run their data tests.

    Marts whose source rows have not changed since the last build are skipped. Until everything has
    been built once, a selection also builds the models it depends on, and --live builds all. If a
    model or test fails, its name and rows are printed; its mart and those that depend on it keep
    their last good rows, and all others change.
    """
    from fleetlake.marts import build_marts
    from fleetlake.marts.build_failures import row_as_text
    from fleetlake.marts.on_target import target_of
    from fleetlake.settings import load_settings

    if live and (select or full):
        raise UsageError("--live excludes --select and --full.", remedy="Leave it out.")
    settings = load_settings()
    with build_progress(console(stderr=True), is_verbose=verbose) as on_progress:
        result = build_marts(
            settings.lake,
            select=select,
            is_full=full,
            is_live=live,
            memory=settings.build_memory,
            target=target_of(settings.build_on if on is None else on, settings.build_storage),
            on_progress=on_progress,
        )
    if verbose:
        console().print(mart_table(result))
    console().print(build_summary(result))
    if result.dropped:
        names = ", ".join(result.dropped)
        console().print(f"Dropped from the lake, because their models were removed: {names}.")
    for test in result.warnings:
        first = f", first: {row_as_text(test.rows[0])}" if test.rows else ""
        console().print(f"Warning: {test.name} found {counted(test.failures, 'row')}{first}.")
    if result.nothing_loaded:
        console(stderr=True).print(NOTHING_LOADED)


def build_progress(
    screen: "Screen", *, is_verbose: bool = False
) -> "AbstractContextManager[OnProgress]":
    """Return a context in which a build's steps are shown: a bar, or a line for some of them.

    Lines are of steps that failed, and with `is_verbose` of every model.
    """
    return _bar(screen) if screen.is_terminal and not is_verbose else _lines(screen, is_verbose)


def build_summary(result: "BuildResult") -> str:
    """Return how much was built and tested, or that there was nothing to do."""
    if not result.models:
        return "The marts are up to date: none of their source rows has changed."
    marts = sum(m.schema == "marts" for m in result.models)
    others = counted(len(result.models) - marts, "model")
    tests = counted(sum(t.status == "pass" for t in result.tests), "data test")
    return (
        f"{counted(marts, 'mart')} (and {others} they depend on) in {result.seconds:.1f} s; "
        f"{tests} passed."
    )


def mart_table(result: "BuildResult") -> "Table":
    """Return a table of the marts that were built."""
    rows = [
        (m.name, m.kind, m.rows, round(m.seconds, 2), f"{m.tests_passed} passed")
        for m in result.models
        if m.schema == "marts"
    ]
    return table("", ("mart", "kind", "rows", "seconds", "data tests"), rows)


@contextmanager
def _bar(screen: "Screen") -> "Iterator[OnProgress]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress

    parts = (text_column("  {task.description:<40}"), BarColumn(), MofNCompleteColumn())
    with Progress(*parts, console=screen.rich, transient=True) as progress:
        bar = progress.add_task("starting dbt", total=None)

        def on_progress(step: "BuildStep") -> None:
            progress.update(
                bar, description=plain(step.name), completed=step.index, total=step.total
            )

        yield on_progress


@contextmanager
def _lines(screen: "Screen", is_verbose: bool) -> "Iterator[OnProgress]":
    def on_progress(step: "BuildStep") -> None:
        if step.status in {"error", "fail"} or (is_verbose and step.kind != "test"):
            status = "ok" if step.status == "success" else step.status  # what dbt says of a seed
            screen.print(f"  {step.name}: {status}, {step.seconds:.1f} s")

    yield on_progress
