"""`fleetlake dashboard`: pages about the fleet, in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetlake.cli.output import say

if TYPE_CHECKING:
    from fleetlake.dashboard.web_app import RecordStep
    from fleetlake.lake_address import LakeAddress
    from fleetlake.marts.finding_states import NewStep


def dashboard(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8720,
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="IP address to listen on. Beyond this machine it needs FLEETLAKE_DASHBOARD_TOKEN.",
        ),
    ] = "127.0.0.1",
    published: Annotated[
        Path | None, typer.Option("--from", help="Published folder. Default: FLEETLAKE_PUBLISHED.")
    ] = None,
    tiles: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PMTiles file that the map draws under the points. Default: "
            "FLEETLAKE_DASHBOARD_TILES; without it, outlines only.",
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Let readers acknowledge, snooze, assign and comment findings; the lake keeps it. "
            "It needs FLEETLAKE_DASHBOARD_TOKEN.",
        ),
    ] = False,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve pages about the fleet, over the newest published snapshot, until stopped.

    Prints `ready http://127.0.0.1:PORT` once it accepts connections; Ctrl-C or SIGTERM stops it.
    It reads the published snapshot and nothing else, writes nothing without --write, and loads
    nothing from the internet. A new snapshot appears by itself. docs/how-to/dashboard.md says more.
    """
    import webbrowser

    from fleetlake.dashboard import dashboard_server
    from fleetlake.publishing.snapshot_folders import published_folder
    from fleetlake.settings import load_settings

    settings = load_settings()

    def ready(url: str) -> None:
        typer.echo(f"ready {url}")
        if browse and not webbrowser.open(url):
            say(f"No browser could be opened here. Open {url} in one.")

    dashboard_server.serve_dashboard(
        published or published_folder(settings),
        port=port,
        address=listen,
        token=settings.dashboard_token,
        tiles=tiles or settings.dashboard_tiles,
        record=_recorder(settings.lake) if write else None,
        ready=ready,
    )


def _recorder(lake: "LakeAddress") -> "RecordStep":
    """Return what records a step about findings in a lake. Raises: LakeError if there is none."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.catalog import require_lake
    from fleetlake.marts.findings import take_step

    require_lake(lake)

    def record(wanted: "NewStep") -> "list[tuple[Any, ...]]":
        with open_lake(lake, must_exist=True, threads=1) as opened:
            return take_step(opened, wanted)

    return record
