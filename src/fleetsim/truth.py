"""The truth to check copies against: every record up to now, as NDJSON."""

from collections.abc import Iterator

import numpy as np

from fleetsim.blocks import Block
from fleetsim.definition import Resource, SeriesRead
from fleetsim.hostile_values import with_hostile_values
from fleetsim.rendering import records
from fleetsim.units import Ints
from fleetsim.view import View
from fleetsim.wire import dump_line

_ROWS_AT_ONCE = 2000
_DEVICES_AT_ONCE = 20


def truth_lines(
    view: View, resource: Resource, until: int, device: int | None = None
) -> Iterator[bytes]:
    """Yield NDJSON of every record created before `until`; snapshots are those of now.

    `device` limits a per-device series to the device with this id.
    """
    blocks = (
        _series(view, resource, until, device)
        if resource.rows is None
        else iter([resource.rows(view)])
    )
    for block in blocks:
        for first in range(0, len(block), _ROWS_AT_ONCE):
            part = block.take(slice(first, first + _ROWS_AT_ONCE))
            yield b"".join(_lines(view, resource, part))


def _lines(view: View, resource: Resource, block: Block) -> Iterator[bytes]:
    """Yield one line per row; per-device series carry the device id in `_device`."""
    found = records(view, resource.shown, block)
    if view.scenario.exaggerates:
        found = [with_hostile_values(record) for record in found]
    if resource.per_device:
        devices = resource.by_name[resource.device].read(view, block).tolist()
        for record, device in zip(found, devices, strict=True):
            record["_device"] = str(device)
    return map(dump_line, found)


def _series(view: View, resource: Resource, until: int, device: int | None) -> Iterator[Block]:
    """Yield a series' blocks, oldest first; a per-device series device by device."""
    assert resource.series is not None
    since = view.world.started_at
    for devices in _device_batches(view, resource, device):
        read = SeriesRead(devices=devices, since=since, until=until, want=_ROWS_AT_ONCE)
        for block in resource.series(view, read):
            first, last = np.searchsorted(block["time"], [since, until])
            yield resource.keep(view, block.take(slice(int(first), int(last))))


def _device_batches(view: View, resource: Resource, device: int | None) -> Iterator[Ints | None]:
    """Yield device rows in batches, or None once for a series that is not per device."""
    if not resource.per_device:
        yield None
        return
    fleet = view.world.fleet
    of_interfaces = resource.by_name[resource.device].to == "net_devices"
    if device is not None:
        ids = fleet.net_device_ids if of_interfaces else fleet.router_ids
        rows = ids.rows(np.array([device]))
        yield rows[rows >= 0]
        return
    size = (fleet.net_device_ids if of_interfaces else fleet.router_ids).size
    for first in range(0, size, _DEVICES_AT_ONCE):
        yield np.arange(first, min(first + _DEVICES_AT_ONCE, size))
