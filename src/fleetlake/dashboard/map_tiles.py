"""The user's own map tiles: one PMTiles file, checked before a browser is told of it.

Browsers read the file themselves, by ranges of bytes. Only its header and metadata are read here,
so that a file which cannot be drawn is an error with a remedy, and not an empty map.

Source: the PMTiles specification, version 3.
"""

import gzip
import html
import json
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from fleetlake.errors import UsageError

MAGIC = b"PMTiles"
VERSION = 3
HEADER_BYTES = 127
LONGEST_PART = 16_000_000
"""Bytes of directory or metadata beyond which a file is taken for damaged."""

_HEADER = struct.Struct("<7sB11Q4B")
_NONE, _GZIP = 1, 2
_VECTOR = 1
_RASTER = {2, 3, 4, 5}
_TAG = re.compile(r"<[^>]*>")


class TilesUnreadable(UsageError):
    """The file of map tiles is missing, damaged, or of a kind that browsers cannot draw."""


@dataclass(frozen=True, kw_only=True)
class MapTiles:
    """What a page needs to know of a file of tiles; `attribution` is HTML without any tag."""

    is_vector: bool
    layers: tuple[str, ...]
    attribution: str


def read_map_tiles(file: Path) -> MapTiles:
    """Return what a PMTiles file holds. Raises: TilesUnreadable, saying what is wrong with it."""
    try:
        with file.open("rb") as opened:
            head = opened.read(HEADER_BYTES)
            header = _header(file, head, size=file.stat().st_size)
            parts = []
            for start, length in (header.root, header.metadata):
                opened.seek(start)
                parts.append(_unpacked(file, opened.read(length), header.packing))
    except OSError as error:
        raise _unreadable(file, error.strerror or "it cannot be opened") from None
    return _described(file, header, parts[1])


@dataclass(frozen=True, kw_only=True)
class _Header:
    root: tuple[int, int]
    metadata: tuple[int, int]
    packing: int
    tile_type: int


def _header(file: Path, head: bytes, *, size: int) -> _Header:
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise _unreadable(file, "it is not a PMTiles file")
    if head[7] != VERSION:
        raise _unreadable(file, f"it has version {head[7]} of PMTiles, and only {VERSION} is drawn")
    _, _, *numbers = _HEADER.unpack_from(head)
    places, (_, packing, tile_packing, tile_type) = numbers[:11], numbers[11:]
    parts = [(places[i], places[i + 1]) for i in (0, 2, 4, 6)]  # root, metadata, leaves, tiles
    if (needed := max(start + length for start, length in parts)) > size:
        raise _unreadable(file, f"it is cut off: {size:,} of at least {needed:,} bytes are there")
    if max(length for _, length in parts[:2]) > LONGEST_PART:
        raise _unreadable(file, "its directory is damaged")
    if not {packing, tile_packing} <= {0, _NONE, _GZIP}:
        raise _unreadable(file, "browsers cannot unpack it: only gzip is drawn")
    if tile_type not in {_VECTOR, *_RASTER}:
        raise _unreadable(file, "its tiles are neither vector tiles (MVT) nor pictures")
    return _Header(root=parts[0], metadata=parts[1], packing=packing, tile_type=tile_type)


def _unpacked(file: Path, part: bytes, packing: int) -> bytes:
    if packing != _GZIP:
        return part
    try:
        return gzip.decompress(part)
    except (OSError, EOFError, zlib.error):
        raise _unreadable(file, "its directory is damaged") from None


def _described(file: Path, header: _Header, written: bytes) -> MapTiles:
    try:
        metadata = json.loads(written or b"{}")
        layers = [str(layer["id"]) for layer in metadata.get("vector_layers", [])]
        attribution = str(metadata.get("attribution") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _unreadable(file, "its metadata is damaged") from None
    is_vector = header.tile_type == _VECTOR
    if is_vector and not layers:
        raise _unreadable(file, "its metadata names no vector layers")
    return MapTiles(
        is_vector=is_vector,
        layers=tuple(layers),
        attribution=html.escape(html.unescape(_TAG.sub("", attribution)).strip()),
    )


def _unreadable(file: Path, why: str) -> TilesUnreadable:
    return TilesUnreadable(
        f"The map tiles in {file} cannot be drawn: {why[0].lower()}{why[1:]}.",
        remedy="Name a PMTiles file (version 3) with --tiles or FLEETLAKE_DASHBOARD_TILES, "
        "or neither for outlines only.",
    )
