"""configuration_managers and router_lans: settings of each router."""

from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.identifiers import Identifiers, one_in
from fleetsim.resource_columns import ANY_ID, EXACT, EXACT_IN, constant
from fleetsim.resources.accounts import account_ids
from fleetsim.resources.routers import SYNC_TAKES, is_suspended, names, router_rows, totals
from fleetsim.units import DAY, Ints
from fleetsim.view import View
from fleetsim.wire import NEWLINE

RETENTION = 90 * DAY
"""Service contract, Limits: the actual configuration is dropped after ninety days."""

_CERTIFIED = (150, 3)
"""How many routers there are per router with a certificate, and the first such router."""


def _ids(view: View, block: Block) -> Ints:
    return view.world.manager_ids.of(block["row"])


def _version(view: View, block: Block) -> Ints:
    """Return version numbers, which increase with each change of settings."""
    return np.asarray(1 + totals(view, block).settings_changed)


def _settings(view: View, row: int, version: int) -> list[Any]:
    """Return settings as the service shows them: updates, then removals."""
    certs = {}
    if one_in(np.array(row), *_CERTIFIED):
        body = f"{NEWLINE}MIIB{row:06x}{NEWLINE}"
        certs = {"ca": f"-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----"}
    [name] = names(view, np.array([row]), np.array([view.now]))
    system = {"system_id": name, "revision": version}
    return [{"system": system, **({"certmgmt": certs} if certs else {})}, []]


def _actual(view: View, block: Block) -> list[Any]:
    """Return the configuration that each device last reported; empty after ninety days."""
    versions, past = _version(view, block).tolist(), totals(view, block)
    kept = past.settings_changed_at > view.now - RETENTION
    return [
        _settings(view, row, version) if fresh or version == 1 else [{}, []]
        for row, version, fresh in zip(block["row"].tolist(), versions, kept.tolist(), strict=True)
    ]


def _individual(view: View, block: Block) -> list[Any]:
    rows = zip(block["row"].tolist(), _version(view, block).tolist(), strict=True)
    return [
        [{"system": {"revision": version, "asset": f"A-{row:06d}"}}, []] for row, version in rows
    ]


def _empty(_view: View, block: Block) -> list[Any]:
    return [[{}, []] for _ in range(len(block))]


CONFIGURATIONS = Resource(
    name="configuration_managers",
    rows=router_rows,
    order_by=("id", "version_number"),
    expands=("account", "router"),
    columns=(
        column.relation("account", lambda v, b: account_ids(v, b["row"]), EXACT_IN, to="accounts"),
        column.json("actual", _actual),
        column.json("configuration", _individual),
        column.id_("id", _ids, EXACT_IN),
        column.json("pending", _empty),
        column.address("resource_url", _ids, to="configuration_managers"),
        column.router(),
        column.flag("suspended", lambda _v, b: is_suspended(b["row"]), EXACT),
        column.flag(
            "synched", lambda v, b: totals(v, b).settings_changed_at <= v.now - SYNC_TAKES, EXACT
        ),
        column.json("target", _empty),
        column.integer("version_number", _version, frozenset({"exact", "gt", "lt"})),
    ),
)


def _lan_ids(view: View, block: Block) -> Ints:
    return Identifiers(view.world.draws, "router_lans", 8_000_009, 5).of(block["row"])


ROUTER_LANS = Resource(
    name="router_lans",
    rows=router_rows,
    id_paging=True,
    order_by=("id",),
    expands=("router",),
    columns=(
        column.flag("enabled", lambda _v, b: ~one_in(b["row"], 11, 5), EXACT),
        column.id_("id", _lan_ids, ANY_ID),
        column.text(
            "ip_address", lambda _v, b: [f"192.168.{row % 250}.1" for row in b["row"].tolist()]
        ),
        column.text("name", constant("Primary LAN")),
        column.text("netmask", constant("255.255.255.0")),
        column.address("resource_url", _lan_ids, to="router_lans"),
        column.router(),
    ),
)
