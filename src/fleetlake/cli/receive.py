"""`fleetlake receive`: takes pushed alerts."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.output import PlainFormatter, say
from fleetlake.errors import UsageError


def receive(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8710,
    listen: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 0.0.0.0 for every IPv4 address, :: for every IPv6 address."
        ),
    ] = "127.0.0.1",
    cert: Annotated[
        Path | None, typer.Option(help="Certificate chain (PEM), to speak HTTPS.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Key of the certificate, unless it is in the same file.")
    ] = None,
    forwarded_allow_ips: Annotated[
        str,
        typer.Option(
            help="Addresses or networks of proxies in front, comma-separated, whose "
            "X-Forwarded-For counts."
        ),
    ] = "",
    drain: Annotated[
        bool, typer.Option(help="Also bring the messages into the lake, in a process of its own.")
    ] = True,
    access_log: Annotated[
        bool, typer.Option(help="Print a line per request, without header and body.")
    ] = True,
) -> None:
    """Receive pushed alerts at POST /push until stopped.

    Prints `ready http://127.0.0.1:PORT` once it accepts connections. Ctrl-C or SIGTERM stops it,
    after the messages that have arrived are stored.

    A message with a valid X-PORTAL-Signature gets 200 once it is on disk, in the folder
    FLEETLAKE_PUSH_JOURNAL; anything else is refused. GET /healthz says whether all is well, and
    GET /metrics how much has arrived. docs/how-to/receive.md shows TLS, proxies and systemd.
    """
    import logging
    from contextlib import nullcontext

    from fleetlake.receiving.access_log import written_access_log
    from fleetlake.receiving.child_process import DRAINER
    from fleetlake.receiving.push_secrets import PushSecrets
    from fleetlake.receiving.push_server import ServerOptions, serve
    from fleetlake.settings import load_settings

    if key and not cert:
        raise UsageError("--key needs --cert.", remedy="Name the certificate too.")
    settings = load_settings()
    if not PushSecrets(settings).current():
        say(
            "There is no secret yet, so every push is refused. `fleetlake alerts setup` writes one "
            f"to {settings.push_secrets_file}; FLEETLAKE_PUSH_SECRETS works too."
        )
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(PlainFormatter("%(asctime)s %(message)s"))
    with written_access_log(lines) if access_log else nullcontext():
        serve(
            settings,
            ServerOptions(
                host=listen,
                port=port,
                cert=cert,
                key=key,
                forwarded_allow_ips=forwarded_allow_ips,
                drainer=DRAINER if drain else None,
            ),
        )
