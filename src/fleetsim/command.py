"""`fleetlake simulate`: a simulated service on this machine."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

_SCENARIOS = (
    "flaky, rate-limited, slow, late-data, schema-drift, live-shapes, poison, hostile-values or "
    "shard-hosts"
)


def simulate(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 chooses a free one.")
    ] = 8700,
    routers: Annotated[int, typer.Option(min=1, help="Size of the fleet.")] = 50,
    seed: Annotated[
        int, typer.Option(help="Seed of the fleet: equal seeds give equal fleets.")
    ] = 1,
    days: Annotated[float, typer.Option(min=0.01, help="Days of history before now.")] = 14,
    now: Annotated[
        str | None, typer.Option(help="ISO time at which the clock starts. Default: now.")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0, help="Simulated seconds per second; 0 freezes the clock.")
    ] = 1.0,
    scenario: Annotated[str | None, typer.Option(help=f"Faults by name: {_SCENARIOS}.")] = None,
    rules: Annotated[
        bool, typer.Option(help="Start with alert rules; without them, no alerts are raised.")
    ] = True,
    flapping: Annotated[
        bool, typer.Option("--flapping", help="Let the links of some wired sites flap.")
    ] = False,
    roads: Annotated[
        bool,
        typer.Option("--roads", help="Let vehicles drive as people do, and report in many ways."),
    ] = False,
    vendor_words: Annotated[
        Path | None,
        typer.Option(
            envvar="FLEETLAKE_VENDOR_WORDS",
            show_envvar=False,
            help="TOML file of the vendor's words; a fleetlake.toml with them works too.",
        ),
    ] = None,
    endpoints: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True, help="Folder or TOML file that describes further lists; repeatable."
        ),
    ] = None,
    print_env: Annotated[
        bool, typer.Option("--print-env", help="Print the settings to export, then exit.")
    ] = False,
) -> None:
    """Serve a simulated fleet over HTTP, as the real service would, until stopped.

    Prints `ready http://127.0.0.1:PORT` once it accepts connections; Ctrl-C or SIGTERM stops it.
    The same seed, routers, days and --now give the same responses, byte for byte.

    v2 is under /api/v2/. Send four headers: X-PORTAL-API-ID portal-id, X-PORTAL-API-KEY
    portal-key, X-MGR-API-ID admin-id, X-MGR-API-KEY admin-key. Other key pairs: full-id,
    readonly-id, diagnostic-id and subaccount-id, each with its -key.

    v3 is under /api/v3. Send Authorization: Bearer simulator-token, and Accept and
    Content-Type: application/vnd.api+json.

    It also serves fleetlake's optional lists, and those of --endpoints.

    Without keys: GET /sim/state, POST /sim/clock with {"advance_seconds": 3600}, PUT /sim/faults
    with {"status_500": 0.1} or {"scenario": "flaky"}, GET /sim/truth/RESOURCE (every record, one
    JSON document per line), and their causes:
    /sim/truth/failover_episodes, outages, trips, battery_life, wrong_fixes, reporting,
    interface_spans, router_spans, registrations; and records deleted by clients:
    /sim/truth/deletions.
    """
    if print_env:
        _print_environment(port)
        return
    from fleetsim.described import served_lists
    from fleetsim.options import SimulatorOptions
    from fleetsim.server import serve
    from fleetsim.wire_words import read_vendor_words

    try:
        options = SimulatorOptions(
            port=port,
            routers=routers,
            seed=seed,
            days=days,
            now=_read_time(now),
            speed=speed,
            scenario=scenario,
            rules=rules,
            flapping=flapping,
            roads=roads,
            vendor_words=read_vendor_words(vendor_words) if vendor_words else {},
            endpoints=tuple(endpoints or ()),
        )
        served_lists(options.endpoints)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    serve(options)


def _read_time(text: str | None) -> datetime | None:
    """Return an ISO time; UTC if it has no zone."""
    if text is None:
        return None
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"--now {text!r} is not an ISO time") from None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _print_environment(port: int) -> None:
    """Print the environment variables for reading a simulator on this port."""
    if port == 0:
        raise typer.BadParameter("--print-env needs a fixed --port, not 0")
    settings = {
        "BASE_URL": f"http://127.0.0.1:{port}/api/v2/",
        "V3_BASE_URL": f"http://127.0.0.1:{port}/api/v3",
        "PORTAL_API_ID": "portal-id",
        "PORTAL_API_KEY": "portal-key",
        "MGR_API_ID": "admin-id",
        "MGR_API_KEY": "admin-key",
        "V3_TOKEN": "simulator-token",
        "CLOCK": "service",
    }
    for name, value in settings.items():
        typer.echo(f"export FLEETLAKE_{name}={value}")
