"""`fleetlake mcp`: answers to assistants, by the Model Context Protocol."""

from importlib.util import find_spec
from typing import Annotated

import typer

from fleetlake.errors import SettingsError
from fleetlake.text.wording import install_command


def mcp(
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP. It needs FLEETLAKE_MCP_TOKEN.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for HTTP; 0 chooses a free one.")
    ] = 8730,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="IP address to listen on for HTTP.")
    ] = "127.0.0.1",
) -> None:
    """Answer assistants over the Model Context Protocol, read-only and with proofs.

    Without --http it reads requests from standard input, as a client starts it, until that closes.
    With it, it prints `ready http://127.0.0.1:PORT/mcp` and serves until Ctrl-C or SIGTERM.

    An assistant can list tables, metrics and what columns mean, compute metrics, run a SELECT as
    `query` does, find devices, and read findings and how complete the data is. Nothing is written.
    """
    if find_spec("mcp") is None:
        raise SettingsError("The package mcp is not installed.", remedy=install_command("mcp"))
    from threading import Thread

    import anyio

    from fleetlake.startup import without_plugins

    with without_plugins():
        from fleetlake.assistants.lake_answers import Answers
        from fleetlake.assistants.mcp_server import create_app, create_server
    from fleetlake.lake import open_lake
    from fleetlake.lake.guard import spill_folder
    from fleetlake.settings import load_settings

    settings = load_settings()
    if http:
        from fleetlake.dashboard.dashboard_server import require_token
        from fleetlake.serving.web_server import serve

        require_token(settings.mcp_token, "mcp")
    with spill_folder() as spill, open_lake(settings.lake, read_only=True) as lake:
        answers = Answers(lake, spill)
        Thread(target=answers.prepare_metrics, daemon=True).start()
        server = create_server(answers)
        if not http:
            anyio.run(server.run_stdio_async)
            return
        assert settings.mcp_token is not None  # required above
        app = create_app(server, settings.mcp_token)
        serve(app, listen, port, ready=lambda url: typer.echo(f"ready {url}/mcp"))
