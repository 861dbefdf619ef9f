"""`fleetlake demo`: all steps, from a simulated service to published marts."""

import shutil
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import console, run_with_progress, table
from fleetlake.errors import SettingsError
from fleetlake.text.wording import counted

NEXT = (
    ('fleetlake query "select type, count(*) as n from raw.alerts group by 1 order by 2 desc"', ""),
    ("fleetlake dashboard --open", ""),
    ("fleetlake status", ""),
    ("fleetlake demo", "(again: it loads only what is new)"),
    ("fleetlake alerts watch", "(alerts as they arrive; run the demo again beside it)"),
    ("fleetlake doctor", "(once FLEETLAKE_BASE_URL and the keys point to your service)"),
)
"""What to type after the demo, and when or why."""


def demo(
    routers: Annotated[int, typer.Option(min=1, help="Size of the simulated fleet.")] = 40,
    days: Annotated[int, typer.Option(min=1, help="Days of history.")] = 7,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fleet.")] = 1,
) -> None:
    """Simulate a service, have alerts pushed, load everything, build the marts and publish them.

    Run it again to load only what the fleet did since. The options apply to the first run; later
    runs continue with the fleet in the lake.
    """
    from fleetlake.cli.build import build_progress, build_summary
    from fleetlake.demo import (
        demo_fleet,
        demo_settings,
        example_queries,
        move_clock,
        running_simulator,
    )
    from fleetlake.demo.pushes import push_live, starting_receiver
    from fleetlake.lake import open_lake
    from fleetlake.loading.ingest import ingest, raise_worst
    from fleetlake.marts import build_marts
    from fleetlake.publishing.publish import publish, refuse_real_snapshot
    from fleetlake.publishing.snapshot_folders import published_folder
    from fleetlake.settings import load_settings

    began = time.monotonic()
    screen, settings = console(), load_settings()
    if not isinstance(settings.lake, Path):
        raise SettingsError(
            f"The demo needs a lake in a folder, but FLEETLAKE_LAKE is {settings.lake}.",
            remedy="Unset FLEETLAKE_LAKE and try again.",
        )
    fleet = demo_fleet(settings.lake, routers=routers, days=days, seed=seed)
    refuse_real_snapshot(settings.lake, published_folder(settings))
    size = f"{counted(fleet.routers, 'router')} and {counted(fleet.days, 'day')} of history"
    screen.print(f"1. A service with {size} …")
    with starting_receiver(settings) as receiver, running_simulator(fleet) as url:
        service, now = demo_settings(settings, url), datetime.now(UTC)
        screen.print("2. The service pushes new alerts to a receiver …")
        screen.print(f"   {push_live(receiver, fleet, service, url, now)}")
        screen.print(f"3. Loading everything new from {url} …")
        move_clock(url, now)
        raise_worst(run_with_progress(screen, partial(ingest, service, [])))
    screen.print("4. Building the marts …")
    with build_progress(screen) as on_progress:
        memory = settings.build_memory
        built = build_marts(settings.lake, memory=memory, on_progress=on_progress)
    screen.print(build_summary(built))
    screen.print("5. Publishing them as plain Parquet …")
    target, day_rows = published_folder(settings), settings.published_day_rows
    published = publish(settings.lake, target, day_rows=day_rows)
    with open_lake(settings.lake, read_only=True) as lake:
        for question, sql in example_queries():
            result = lake.execute(sql)
            names = [column[0] for column in result.description or []]
            screen.print(table(question, names, result.fetchall(), counts=False))
    screen.print(f"The demo took {time.monotonic() - began:.0f} s.")
    screen.print(f"The marts are in {published.path} for DuckDB, Polars, pandas and others.\n")
    screen.print("Next, type:")
    width = len(typed_as("fleetlake alerts watch"))
    for command, note in NEXT:
        screen.print(f"  {typed_as(command):<{width}}  {note}".rstrip())


def typed_as(command: str) -> str:
    """Return a command line with the path that finds fleetlake, unless it is on PATH."""
    program = Path(sys.executable).with_name("fleetlake")
    found = shutil.which("fleetlake")
    if (found and Path(found).samefile(program)) or not program.exists():
        return command
    folder = program.parent
    nearby = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    return f"{nearby}/{command}"
