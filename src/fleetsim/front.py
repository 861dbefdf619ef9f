"""The web page at `/`: the fleet, the clock, calls, faults, and how to connect."""

from html import escape

import numpy as np

from fleetsim import stamps
from fleetsim.callers import KEY_PAIRS, PORTAL_ID, PORTAL_KEY, V3_TOKEN
from fleetsim.causes import CAUSES
from fleetsim.resources import RESOURCES
from fleetsim.scenarios import SCENARIOS
from fleetsim.simulation import Simulation

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;"
    "vertical-align:top}code,pre{background:#f3f3f3;padding:.1rem .3rem}pre{padding:.6rem}"
)


def front_page(simulation: Simulation) -> str:
    """Return the page as HTML."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Fleet service simulator</title>",
        f"<style>{_STYLE}</style><h1>Fleet service simulator</h1>",
        "<p>This is a simulator: its devices, people and places are fictitious.</p>",
        _table("Fleet and clock", _fleet(simulation)),
        _table("Faults", _faults(simulation)),
        _table(
            "Calls", {name: str(count) for name, count in sorted(simulation.meter.calls.items())}
        ),
        _connecting(),
        _links(),
    ]
    return "\n".join(parts)


def _table(title: str, rows: dict[str, str]) -> str:
    """Return a heading and a table of two columns."""
    cells = (f"<tr><th>{escape(k)}<td>{escape(v)}" for k, v in rows.items())
    return f"<h2>{title}</h2><table>{''.join(cells) or '<tr><td>none yet'}</table>"


def _fleet(simulation: Simulation) -> dict[str, str]:
    fleet = simulation.world.fleet
    now = simulation.clock.now()
    there = fleet.registrations.holds(np.arange(fleet.size), now)
    return {
        "routers": f"{int(there.sum())}, of which {int(fleet.is_vehicle[there].sum())} in vehicles",
        "batteries": str(int(fleet.has_battery[there].sum())),
        "seed": str(simulation.world.seed),
        "history since": stamps.to_datetime(simulation.world.started_at).isoformat(" ", "seconds"),
        "now": stamps.to_datetime(now).isoformat(" ", "seconds"),
        "speed": f"{simulation.clock.speed:g} (0 is frozen)",
    }


def _faults(simulation: Simulation) -> dict[str, str]:
    limit = simulation.meter.limit_per_minute
    return {
        "scenario": simulation.scenario.about,
        "calls per minute": "unlimited" if limit is None else str(limit),
        **{name: f"{value:g}" for name, value in simulation.faults.settings().items()},
    }


def _connecting() -> str:
    """Return the credentials, which are fixed and public."""
    pairs = {identity: f"{key} ({caller.role})" for identity, (key, caller) in KEY_PAIRS.items()}
    example = (
        f'curl -H "X-PORTAL-API-ID: {PORTAL_ID}" -H "X-PORTAL-API-KEY: {PORTAL_KEY}" \\\n'
        '     -H "X-MGR-API-ID: admin-id" -H "X-MGR-API-KEY: admin-key" \\\n'
        '     "&lt;this address&gt;api/v2/routers/?limit=2"'
    )
    return f"{_table('Connecting', {**pairs, 'v3 bearer token': V3_TOKEN})}<pre>{example}</pre>"


def _links() -> str:
    """Return the names of resources, truths and scenarios."""
    truth = ", ".join(f"<a href=/sim/truth/{name}>{name}</a>" for name in CAUSES)
    return (
        f"<h2>Resources</h2><p>{', '.join(RESOURCES)}</p>"
        f"<h2>What really happened</h2><p>{truth}, and every resource by its name.</p>"
        f"<h2>Scenarios</h2><p>{', '.join(SCENARIOS)}</p>"
        "<p><a href=/sim/state>/sim/state</a></p></html>"
    )
