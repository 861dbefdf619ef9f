"""firmwares and the SDK apps: small resources that change rarely."""

from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.identifiers import group_ids
from fleetsim.organisation import PRODUCTS, ROOT, VEHICLE_PLAIN
from fleetsim.resource_columns import EXACT, EXACT_IN, RANGE, Read, constant
from fleetsim.resources.accounts import ACCOUNT_IDS, PRODUCT_IDS
from fleetsim.units import DAY, NULL, SECOND, Ints
from fleetsim.view import View

VERSIONS = ("7.23.60", "7.24.10", "7.25.20")
_RELEASED = (1_700_000_000, 1_720_000_000, 1_745_000_000)
APPS = ("tire_pressure", "door_counter", "cold_chain")
_APP_VERSIONS = 2
_FAILING_ONE_IN = 31


def _first(count: int) -> Any:
    return lambda _view: Block({"row": np.arange(count)})


def _number(first: int, step: int = 1) -> Read:
    return lambda _view, block: np.asarray(first + block["row"] * step)


def _version(block: Block) -> Ints:
    return np.asarray(block["row"] % len(VERSIONS))


def _product(block: Block) -> Ints:
    return np.asarray(block["row"] // len(VERSIONS))


def firmware_id(block: Block) -> Ints:
    """Return the ids of firmwares: ten apart by product."""
    return 9001 + _product(block) * 10 + _version(block)


def _released(days: int) -> Read:
    return lambda _view, block: np.array(_RELEASED)[_version(block)] * SECOND + days * DAY


def _default_configurations(view: View, block: Block) -> list[Any]:
    """Return what links to each firmware's settings; its URLs are nested (observed)."""
    root = f"{view.origin}/api/v2"
    return [
        {
            "resource_url": f"{root}/firmwares/{number}/default_configuration/",
            "product": {"resource_url": f"{root}/products/{product}/"},
        }
        for number, product in zip(
            firmware_id(block).tolist(), PRODUCT_IDS[_product(block)].tolist(), strict=True
        )
    ]


FIRMWARES = Resource(
    name="firmwares",
    rows=_first(len(PRODUCTS) * len(VERSIONS)),
    order_by=("id", "version"),
    expands=("product",),
    columns=(
        column.time("built_at", _released(-20), time_format="seconds_offset"),
        column.json("default_configuration", _default_configurations),
        column.time("expires_at", lambda _v, b: np.full(len(b), NULL)),
        column.text(
            "hash",
            lambda v, b: [f"{w:016x}" for w in v.world.draws.bits("firmware", b["row"]).tolist()],
        ),
        column.id_("id", lambda _v, b: firmware_id(b), EXACT_IN),
        column.flag("is_deprecated", lambda _v, b: _version(b) == 0, EXACT),
        column.relation("product", lambda _v, b: PRODUCT_IDS[_product(b)], EXACT_IN, to="products"),
        column.time("released_at", _released(0), RANGE, time_format="seconds_offset"),
        column.address("resource_url", lambda _v, b: firmware_id(b), to="firmwares"),
        column.time("uploaded_at", _released(-2), time_format="seconds_offset"),
        column.text("url", lambda _v, b: [f"firmware/{n}.bin" for n in firmware_id(b).tolist()]),
        column.text("version", lambda _v, b: [VERSIONS[n] for n in _version(b).tolist()], EXACT_IN),
    ),
)

_ACCOUNT = column.relation(
    "account", lambda _v, b: np.full(len(b), ACCOUNT_IDS[ROOT]), EXACT_IN, to="accounts"
)


def _made(_view: View, block: Block) -> Ints:
    return np.asarray((1_735_000_000 + block["row"] * 86_400) * SECOND)


_CREATED = column.time("created_at", _made, RANGE, time_format="seconds_offset")
_UPDATED = column.time(
    "updated_at", lambda v, b: _made(v, b) + DAY, RANGE, time_format="seconds_offset"
)

DEVICE_APPS = Resource(
    name="device_apps",
    rows=_first(len(APPS)),
    order_by=("id",),
    expands=("account",),
    columns=(
        _ACCOUNT,
        _CREATED,
        column.text("description", lambda _v, b: [f"SDK app {APPS[n]}" for n in b["row"].tolist()]),
        column.id_("id", _number(401), EXACT_IN),
        column.text("name", lambda _v, b: [APPS[n] for n in b["row"].tolist()], EXACT_IN),
        column.address("resource_url", _number(401), to="device_apps"),
        _UPDATED,
        column.text(
            "uuid",
            lambda v, b: [
                f"{w:08x}-0000-4000-8000-000000000000"
                for w in (v.world.draws.bits("app", b["row"]) >> np.uint64(32)).tolist()
            ],
            EXACT_IN,
        ),
    ),
)

DEVICE_APP_VERSIONS = Resource(
    name="device_app_versions",
    rows=_first(len(APPS) * _APP_VERSIONS),
    order_by=("id",),
    expands=("account", "app"),
    columns=(
        _ACCOUNT,
        column.relation(
            "app", lambda _v, b: 401 + b["row"] // _APP_VERSIONS, EXACT_IN, to="device_apps"
        ),
        _CREATED,
        column.id_("id", _number(501), EXACT_IN),
        column.address("resource_url", _number(501), to="device_app_versions"),
        column.text("state", constant("ready"), EXACT_IN),
        column.text("state_details", constant(None)),
        _UPDATED,
        column.text("version", lambda _v, b: [f"1.{n}.0" for n in (b["row"] % 2).tolist()]),
    ),
)

DEVICE_APP_BINDINGS = Resource(
    name="device_app_bindings",
    rows=_first(len(APPS)),
    order_by=("id",),
    expands=("account", "app_version", "group"),
    columns=(
        _ACCOUNT,
        column.relation("app_version", _number(502, 2), EXACT_IN, to="device_app_versions"),
        _CREATED,
        column.relation(
            "group",
            lambda v, b: group_ids(v.world.fleet.group_splits * (VEHICLE_PLAIN + b["row"] * 6)),
            EXACT_IN,
            to="groups",
        ),
        column.id_("id", _number(601), EXACT_IN),
        column.address("resource_url", _number(601), to="device_app_bindings"),
        column.text("state", constant("active"), EXACT_IN),
        _UPDATED,
    ),
)


def _app_state_rows(view: View) -> Block:
    """Return one row per vehicle router without a battery: those run the first app."""
    runs = view.scope & (view.world.fleet.product == VEHICLE_PLAIN)
    return Block({"row": np.flatnonzero(runs)})


DEVICE_APP_STATES = Resource(
    name="device_app_states",
    rows=_app_state_rows,
    order_by=("id",),
    expands=("account", "app_version", "router"),
    columns=(
        _ACCOUNT,
        column.relation(
            "app_version", lambda _v, b: np.full(len(b), 502), EXACT_IN, to="device_app_versions"
        ),
        column.time("created_at", lambda v, b: v.world.fleet.installed_at[b["row"]], RANGE),
        column.id_("id", _number(70_001, 3), EXACT_IN),
        column.address("resource_url", _number(70_001, 3), to="device_app_states"),
        column.router(),
        column.text(
            "state",
            lambda _v, b: [
                "started" if n % _FAILING_ONE_IN else "error" for n in b["row"].tolist()
            ],
            EXACT_IN,
        ),
        column.time(
            "updated_at", lambda v, b: v.world.fleet.after_installing(b["row"], DAY), RANGE
        ),
    ),
)
