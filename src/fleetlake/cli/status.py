"""`fleetlake status`: how far each stream is read."""

import sys
from typing import Annotated

import typer


def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show rows, newest event, holes and quarantine of every stream.

    `complete from` says since when every record that the service showed is in the lake.
    """
    from dataclasses import asdict
    from datetime import UTC, datetime

    import orjson

    from fleetlake.cli.screen import console, table
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings
    from fleetlake.status import spoken_age, spoken_start, stream_statuses

    with open_lake(load_settings().lake, read_only=True) as lake:
        statuses = stream_statuses(lake)
    if as_json:
        option = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z
        sys.stdout.write(orjson.dumps([asdict(s) for s in statuses], option=option).decode() + "\n")
        return
    now = datetime.now(UTC)
    columns = (
        "endpoint",
        "rows",
        "newest event",
        "last load",
        "complete from",
        "holes",
        "quarantined",
    )
    rows = [
        (
            s.endpoint,
            s.rows,
            f"{s.watermark_at:%Y-%m-%d %H:%M:%S}" if s.watermark_at else "",
            spoken_age(s.loaded_at, now),
            spoken_start(s.complete_from),
            s.holes,
            s.quarantined,
        )
        for s in statuses
    ]
    console().print(table("", columns, rows))
