"""Rendering raw columns as JSON values: ids, URLs, timestamps, nulls."""

import re
from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

import numpy as np

from fleetsim import stamps, timeuuids
from fleetsim.blocks import Block
from fleetsim.resource_columns import ColumnKind, ResourceColumn
from fleetsim.units import NULL, Ints
from fleetsim.view import View

_SHARDED_ONE_IN = 4


def records(view: View, columns: Sequence[ResourceColumn], block: Block) -> list[dict[str, Any]]:
    """Return the rows of a block as the service's records."""
    names = [column.name for column in columns]
    texts = [render_column(view, column, block) for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*texts, strict=True)]


def render_column(view: View, column: ResourceColumn, block: Block) -> Iterable[Any]:
    """Return one column as JSON values."""
    raw = column.read(view, block)
    match column.kind:
        case ColumnKind.RELATION:
            return relation_urls(view, column.to, raw, block, column.part)
        case ColumnKind.ADDRESS:
            return [f"{view.origin}/api/v2/{column.to}/{value}/" for value in raw.tolist()]
        case ColumnKind.UUID:
            return timeuuids.to_text(block["time"], block["tail"])
        case ColumnKind.TIME:
            return stamps.to_text(raw, column.time_format)
        case _:
            return _plain(column.kind, raw)


def _plain(kind: ColumnKind, raw: Any) -> Iterable[Any]:
    """Return values of kinds whose JSON form differs at most in null."""
    if kind is ColumnKind.ID:
        return [None if value == NULL else str(value) for value in raw.tolist()]
    if kind in (ColumnKind.INTEGER, ColumnKind.NUMERIC_ID):
        return _integers(raw)
    values: list[Any] = raw.tolist() if isinstance(raw, np.ndarray) else raw
    if kind is ColumnKind.REAL:
        return [None if value is None or isnan(value) else value for value in values]
    return values


def _integers(raw: Ints) -> list[int | None]:
    """Return integers with None for NULL; most columns have none."""
    numbers: list[int | None] = raw.tolist()
    if (raw == NULL).any():
        return [None if value == NULL else value for value in numbers]
    return numbers


def relation_urls(
    view: View, resource: str, ids: Ints, block: Block, part: str = ""
) -> list[str | None]:
    """Return the URL of each related record, or of a part of it.

    The host varies by the shard of the record that holds the relation, so one account appears
    under several hosts (observed on the live service).
    """
    hosts = [view.origin, *(shard_host(view.origin, shard) for shard in view.scenario.shards)]
    prefixes = [f"{host}/api/v2/{resource}/" for host in hosts]
    end = f"/{part}/" if part else "/"
    if len(hosts) == 1:
        return [None if value == NULL else f"{prefixes[0]}{value}{end}" for value in ids.tolist()]
    pairs = zip(ids.tolist(), _shards(block, len(view.scenario.shards)), strict=True)
    return [None if value == NULL else f"{prefixes[shard]}{value}{end}" for value, shard in pairs]


def _shards(block: Block, shards: int) -> list[int]:
    """Return the host in the relations of each row: 0 is the main host, others are shards.

    With one shard, one row in four has it; with several, all hosts have equal shares.
    """
    own = block["tail"] if "tail" in block.arrays else block["row"]
    word = (own.astype(np.int64) * 40503 >> 4) & 0xFFFF
    spread = word % (_SHARDED_ONE_IN if shards == 1 else shards + 1)
    picked: list[int] = np.where(spread > shards, 0, spread).tolist()
    return picked


def shard_host(origin: str, shard: str) -> str:
    """Return the origin with a regional prefix to its host."""
    scheme, _, host = origin.partition("://")
    return f"{scheme}://{shard}.{host}"


_OWN_URL = re.compile(r"(https?://[^/]+)(/api/v[23]/.*)")


def with_moving_hosts(view: View, body: dict[str, Any]) -> dict[str, Any]:
    """Return a response in which each read finds other hosts in the URLs of records.

    Nested URLs have them too. Links to further pages keep their host.
    """
    if not view.scenario.moves_hosts:
        return body
    hosts = [view.origin, *(shard_host(view.origin, shard) for shard in view.scenario.shards)]

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: moved(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [moved(inner) for inner in value]
        own = _OWN_URL.fullmatch(value) if isinstance(value, str) else None
        if own and own[1] in hosts:  # others are addresses that clients wrote
            return hosts[(hosts.index(own[1]) + view.reads) % len(hosts)] + own[2]
        return value

    moving: dict[str, Any] = moved({"data": body["data"]} if "data" in body else body)
    return {**body, **moving}
