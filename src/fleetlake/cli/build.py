"""`fleetlake build`: the marts, from what is in the lake."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fleetlake.marts import BuildResult
    from fleetlake.marts import BuildStep as Step
    from fleetlake.marts.dbt import OnProgress


def build(
    select: Annotated[
        str | None,
        typer.Option(help="Which models, in dbt's words: failover_episodes+, marts.battery …"),
    ] = None,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Compute incremental marts from the beginning.")
    ] = False,
) -> None:
    """Build staging views and marts with dbt, and run their data tests.

    Marts whose rows of the lake have not changed since the last build are left alone.
    A selection also builds the models that it stands on, until everything was built once.
    A failed model or test names itself and its rows; the last good marts stay in place.
    """
    from fleetlake.cli.screen import NOTHING_LOADED, console
    from fleetlake.marts import build_marts
    from fleetlake.settings import load_settings

    settings = load_settings()
    with following(console(stderr=True)) as on_progress:
        result = build_marts(
            settings.lake,
            select=select,
            is_full=full,
            memory=settings.build_memory,
            on_progress=on_progress,
        )
    console().print(built_report(result))
    for test in result.warnings:
        console().print(f"Warning: {test.name} found {test.failures:,} rows.")
    if result.nothing_loaded:
        console(stderr=True).print(NOTHING_LOADED)


def following(screen: "Console") -> "AbstractContextManager[OnProgress]":
    """Return what shows a build's steps while it is in use."""
    return _bar(screen) if screen.is_terminal else _lines(screen)


def built_report(result: "BuildResult") -> "Table | str":
    """Return what to say of a build: its marts as a table, or that there was nothing to do."""
    if not result.models:
        return "The marts are up to date: no row they are made of has changed."
    return model_table(result)


def model_table(result: "BuildResult") -> "Table":
    """Return the table of a build's marts; the models they stand on are only counted."""
    from fleetlake.cli.screen import table

    marts = [m for m in result.models if m.schema == "marts"]
    others = len(result.models) - len(marts)
    rows = [
        (m.name, m.kind, m.rows, round(m.seconds, 2), f"{m.tests_passed} passed") for m in marts
    ]
    title = f"{len(marts)} marts (and {others} models they stand on) in {result.seconds:.1f} s"
    return table(title, ("mart", "kind", "rows", "seconds", "data tests"), rows)


@contextmanager
def _bar(screen: "Console") -> "Iterator[OnProgress]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress

    from fleetlake.cli.screen import text_column
    from fleetlake.text.plain import plain

    look = (text_column("  {task.description:<40}"), BarColumn(), MofNCompleteColumn())
    with Progress(*look, console=screen, transient=True) as progress:
        bar = progress.add_task("starting dbt", total=None)

        def on_progress(step: "Step") -> None:
            progress.update(
                bar, description=plain(step.name), completed=step.index, total=step.total
            )

        yield on_progress


@contextmanager
def _lines(screen: "Console") -> "Iterator[OnProgress]":
    def on_progress(step: "Step") -> None:
        if step.kind != "test":
            screen.print(f"  {step.name}: {step.status}, {step.seconds:.1f} s")

    yield on_progress
