"""`fleetlake dashboard`: pages about the fleet, in the browser."""

from pathlib import Path
from typing import Annotated

import typer


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
        Path | None,
        typer.Option("--from", help="Published folder. Default: FLEETLAKE_PUBLISHED."),
    ] = None,
    tiles: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PMTiles file that the map draws under the points. Default: "
            "FLEETLAKE_DASHBOARD_TILES; without it, outlines only.",
        ),
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve pages about the fleet, over the newest published snapshot, until stopped.

    Prints `ready http://127.0.0.1:PORT` once it accepts connections; Ctrl-C or SIGTERM stops it.
    It reads the published snapshot and nothing else, writes nothing, and loads nothing from the
    internet. A new snapshot appears by itself. docs/how-to/dashboard.md says more.
    """
    import webbrowser

    from fleetlake.cli.output import say
    from fleetlake.dashboard import serve_dashboard
    from fleetlake.publishing.snapshot_folders import published_folder
    from fleetlake.settings import load_settings

    settings = load_settings()

    def ready(url: str) -> None:
        typer.echo(f"ready {url}")
        if browse and not webbrowser.open(url):
            say("No browser could be opened.")

    serve_dashboard(
        published or published_folder(settings),
        port=port,
        address=listen,
        token=settings.dashboard_token,
        tiles=tiles or settings.dashboard_tiles,
        ready=ready,
    )
