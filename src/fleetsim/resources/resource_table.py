"""The table of v2 resources; to serve another resource, add a row."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fleetsim.blocks import Array, Block
from fleetsim.definition import Resource, Rows
from fleetsim.ledger import Fields, ResourceWrites
from fleetsim.resource_columns import ColumnKind, Read, ResourceColumn
from fleetsim.resources import firmware_and_apps
from fleetsim.resources.accounts import ACCOUNT, GROUP, PRODUCT, USER
from fleetsim.resources.activity_logs import ACTIVITY_LOGS
from fleetsim.resources.alert_rules import ALERT_RULES, PUSH_DESTINATIONS, sees_account
from fleetsim.resources.alerts import ALERTS, ROUTER_ALERTS
from fleetsim.resources.battery_reports import BATTERIES
from fleetsim.resources.configurations import CONFIGURATIONS, ROUTER_LANS
from fleetsim.resources.failovers import FAILOVERS
from fleetsim.resources.locations import HISTORICAL_LOCATIONS, LOCATIONS
from fleetsim.resources.metrics import METRICS, NET_DEVICE_HEALTH
from fleetsim.resources.net_devices import NET_DEVICES
from fleetsim.resources.router_series import ROUTER_LOGS, STATE_SAMPLES, STREAM_USAGE_SAMPLES
from fleetsim.resources.routers import ROUTERS
from fleetsim.resources.samples import SIGNAL_SAMPLES, USAGE_SAMPLES
from fleetsim.units import NULL, Ints
from fleetsim.view import View

Visible = Callable[[View, dict[str, Any]], bool]


def writable(resource: Resource, *, sees: Visible) -> Resource:
    """Return a snapshot resource whose records can be created, changed and deleted.

    `sees` decides whether a caller may see a created record. Created rows have their id in the
    block's `created` (0 for the world's rows). They come last, because their ids are higher.
    """
    assert resource.rows is not None
    key = resource.by_name[resource.key].read
    columns = tuple(
        replace(column, read=_overlaid(resource.name, key, column)) for column in resource.columns
    )
    return replace(resource, columns=columns, rows=_rows(resource.name, key, resource.rows, sees))


def _rows(name: str, key: Read, rows: Rows, sees: Visible) -> Rows:
    def read(view: View, /) -> Block:
        block = rows(view)
        writes = view.ledger.writes.get(name)
        if writes is None or not (writes.created or writes.deleted):
            return block
        if writes.deleted:
            gone = np.isin(np.asarray(key(view, block)), list(writes.deleted))
            block = block.take(np.flatnonzero(~gone))
        new = [number for number, record in writes.created.items() if sees(view, record)]
        return _append(block, np.array(sorted(new), dtype=np.int64))

    return read


def _append(block: Block, created: Ints) -> Block:
    """Return a block with rows for created records; their other columns repeat row 0."""
    nothing = np.zeros(len(block), dtype=np.int64)
    arrays: dict[str, Array] = {
        name: np.concatenate([values, np.zeros(len(created), dtype=values.dtype)])
        for name, values in block.arrays.items()
    }
    return Block({**arrays, "created": np.concatenate([nothing, created])})


def _overlaid(name: str, key: Read, column: ResourceColumn) -> Read:
    def read(view: View, block: Block) -> Any:
        raw = column.read(view, block)
        writes = view.ledger.writes.get(name)
        if writes is None or not (writes.created or writes.changed):
            return raw
        return _written(writes, column, as_array(raw), np.array(key(view, block)), block)

    return read


def _written(
    writes: ResourceWrites, column: ResourceColumn, raw: Array, keys: Ints, block: Block
) -> Array:
    """Return a column in which written values replace those of the world.

    A time or a version only moves forward: the world may change a record after a client did.
    """
    found = raw.copy()
    if "created" in block.arrays:
        for index in np.flatnonzero(block["created"]).tolist():
            identity = int(block["created"][index])
            found[index] = _of_created(writes.created[identity], identity, column, raw)
            keys[index] = identity
    relevant = [number for number, fields in writes.changed.items() if column.name in fields]
    for index in np.flatnonzero(np.isin(keys, relevant)).tolist():
        value = writes.changed[int(keys[index])][column.name]
        moves = column.kind in (ColumnKind.TIME, ColumnKind.INTEGER)
        found[index] = max(value, found[index]) if moves else value
    return found


def _of_created(record: Fields, identity: int, column: ResourceColumn, raw: Array) -> Any:
    """Return one value of a created record; a missing one is null, or false for a flag."""
    if column.kind is ColumnKind.ADDRESS:
        return identity
    nothing = False if column.kind is ColumnKind.FLAG else null_of(raw)
    return record.get(column.name, nothing)


def as_array(raw: Sequence[Any] | Array) -> Array:
    """Return a column as an array; Python values stay objects of one dimension."""
    if isinstance(raw, np.ndarray):
        return raw.astype(object) if raw.dtype.kind == "U" else raw
    found = np.empty(len(raw), dtype=object)
    for index, value in enumerate(raw):  # a whole-array assignment would unpack lists
        found[index] = value
    return found


def null_of(raw: Array) -> Any:
    """Return the value that represents null in a column."""
    if raw.dtype == np.int64:
        return NULL
    if raw.dtype == np.float64:
        return np.nan
    return False if raw.dtype == np.bool_ else None


REBOOT_ACTIVITY = Resource(name="reboot_activity", columns=())
SPEED_TEST = Resource(name="speed_test", columns=())
TEST_DESTINATIONS = Resource(name="test_alert_push_destinations", columns=())


def _in_own_account(view: View, record: Fields) -> bool:
    """Return whether a created record belongs to an account the caller sees."""
    return sees_account(view, record["account"])


_ALL: Final = (
    ACTIVITY_LOGS,
    ALERTS,
    ALERT_RULES,
    BATTERIES,
    FAILOVERS,
    HISTORICAL_LOCATIONS,
    METRICS,
    NET_DEVICES,
    NET_DEVICE_HEALTH,
    PRODUCT,
    PUSH_DESTINATIONS,
    REBOOT_ACTIVITY,
    ROUTER_ALERTS,
    ROUTER_LANS,
    ROUTER_LOGS,
    SIGNAL_SAMPLES,
    SPEED_TEST,
    STATE_SAMPLES,
    STREAM_USAGE_SAMPLES,
    TEST_DESTINATIONS,
    USAGE_SAMPLES,
    firmware_and_apps.DEVICE_APPS,
    firmware_and_apps.DEVICE_APP_BINDINGS,
    firmware_and_apps.DEVICE_APP_STATES,
    firmware_and_apps.DEVICE_APP_VERSIONS,
    firmware_and_apps.FIRMWARES,
    writable(ACCOUNT, sees=_in_own_account),
    writable(CONFIGURATIONS, sees=_in_own_account),
    writable(GROUP, sees=_in_own_account),
    writable(LOCATIONS, sees=_in_own_account),
    writable(ROUTERS, sees=_in_own_account),
    writable(USER, sees=_in_own_account),
)

RESOURCES: Final[dict[str, Resource]] = {
    resource.name: resource for resource in sorted(_ALL, key=lambda resource: resource.name)
}
