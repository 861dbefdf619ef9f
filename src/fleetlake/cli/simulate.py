"""`fleetlake simulate`: the remote service on this machine."""

from datetime import UTC, datetime
from typing import Annotated

import typer


def simulate(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 8700,
    routers: Annotated[int, typer.Option(min=1, help="Size of the fleet.")] = 50,
    seed: Annotated[int, typer.Option(help="Another seed is another fleet.")] = 1,
    days: Annotated[float, typer.Option(min=0.01, help="Days of history before now.")] = 14,
    now: Annotated[
        str | None, typer.Option(help="ISO time at which the clock starts; default: now.")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0, help="Simulated seconds per second; 0 freezes the clock.")
    ] = 1.0,
    scenario: Annotated[str | None, typer.Option(help="A named set of faults.")] = None,
) -> None:
    """Serve a simulated fleet over HTTP until stopped (Ctrl-C or SIGTERM).

    Prints `ready http://127.0.0.1:PORT` once it accepts connections. The v2 API is under
    /api/v2/, what happened in truth under /sim/truth/<resource>. Send the four headers
    X-PORTAL-API-ID: portal-id, X-PORTAL-API-KEY: portal-key, X-MGR-API-ID: admin-id and
    X-MGR-API-KEY: admin-key.
    """
    from fleetlake.simulator import SimulatorOptions, serve

    start = None if now is None else datetime.fromisoformat(now)
    if start is not None and start.tzinfo is None:
        start = start.replace(tzinfo=UTC)
    options = SimulatorOptions(
        port=port,
        routers=routers,
        seed=seed,
        days=days,
        now=start,
        speed=speed,
        scenario=scenario,
    )
    serve(options)
