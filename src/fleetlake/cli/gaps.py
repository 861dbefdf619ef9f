"""`fleetlake gaps`: what the service forgot before it was read."""

from typing import Annotated

import typer


def gaps(
    *,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Say that the open gaps are known.")
    ] = False,
) -> None:
    """List the ranges that were lost; `status` fails until they are acknowledged."""
    from fleetlake.cli.screen import console, listing
    from fleetlake.lake import open_lake
    from fleetlake.lake.gaps import acknowledge_gaps
    from fleetlake.lake.gaps import gaps as recorded_gaps
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, read_only=not acknowledge) as lake:
        if acknowledge:
            console().print(f"{acknowledge_gaps(lake):,} gaps acknowledged.")
            return
        found = recorded_gaps(lake)
    rows = [
        (
            gap.endpoint,
            gap.partition,
            f"{gap.start_at:%Y-%m-%d %H:%M:%S.%f}",
            f"{gap.end_at:%Y-%m-%d %H:%M:%S.%f}",
            gap.reason,
            "yes" if gap.acknowledged_at else "no",
        )
        for gap in found
    ]
    columns = ("endpoint", "id", "from", "to", "reason", "acknowledged")
    console().print(listing(columns, rows))
