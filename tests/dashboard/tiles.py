"""Tiny files of map tiles: one tile of the whole world, as vectors or as a picture."""

import gzip
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

EXTENT = 4096
SQUARE = ((1000, 1000), (3000, 1000), (3000, 3000), (1000, 3000))
VECTOR, PNG = 1, 2
GZIP, NONE = 2, 1


def varint(number: int) -> bytes:
    """Return a number as protocol buffers and PMTiles directories write it."""
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def message(field: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer that has a length."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def commands(points: Sequence[tuple[int, int]], *, is_closed: bool) -> Iterator[int]:
    """Yield the geometry of a ring or a line, as vector tiles encode it."""
    x, y = 0, 0
    for place, (to_x, to_y) in enumerate(points):
        if place == 0:
            yield 1 << 3 | 1
        if place == 1:
            yield len(points) - 1 << 3 | 2
        for step in (to_x - x, to_y - y):
            yield step << 1 ^ step >> 31
        x, y = to_x, to_y
    if is_closed:
        yield 1 << 3 | 7


def vector_layer(
    name: str, kind: str, points: Sequence[tuple[int, int]], *, is_area: bool
) -> bytes:
    """Return a layer of a vector tile with one feature of this `kind`."""
    geometry = b"".join(map(varint, commands(points, is_closed=is_area)))
    feature = message(2, b"\x00\x00") + b"\x18" + varint(3 if is_area else 2) + message(4, geometry)
    parts = message(1, name.encode()) + message(2, feature) + message(3, b"kind")
    parts += message(4, message(1, kind.encode())) + b"\x28" + varint(EXTENT) + b"\x78\x02"
    return message(3, parts)


def vector_tile(water: str = "water") -> bytes:
    """Return a tile with a square of water and a road."""
    road = vector_layer("roads", "highway", [(0, 2000), (EXTENT, 2000)], is_area=False)
    return vector_layer(water, "ocean", SQUARE, is_area=True) + road


def picture_tile(colour: tuple[int, int, int] = (250, 0, 250)) -> bytes:
    """Return a tile of one colour as PNG."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    row = b"\x00" + bytes(colour) * 256
    head = struct.pack(">IIBBBBB", 256, 256, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * 256)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def write_tiles(
    file: Path,
    *,
    tile: bytes | None = None,
    tile_type: int = VECTOR,
    layers: Sequence[str] = ("water", "roads"),
    version: int = 3,
    packing: int = GZIP,
    **metadata: Any,
) -> Path:
    """Write a PMTiles file with one tile, of zoom 0; return it."""
    is_vector = tile_type == VECTOR
    content = gzip.compress(tile or vector_tile()) if is_vector else tile or picture_tile()
    directory = gzip.compress(b"".join(map(varint, (1, 0, 1, len(content), 1))))
    described = {"vector_layers": [{"id": layer} for layer in layers]} if is_vector else {}
    written = gzip.compress(json.dumps({**described, **metadata}).encode())
    starts = [127, 127 + len(directory), 0, 127 + len(directory) + len(written)]
    lengths = [len(directory), len(written), 0, len(content)]
    places = [part for pair in zip(starts, lengths, strict=True) for part in pair]
    flags = (1, packing, GZIP if is_vector else NONE, tile_type, 0, 0)
    degrees = [round(degree * 1e7) for degree in (-180, -85, 180, 85)]
    head = struct.pack("<7sB11Q6B4i", b"PMTiles", version, *places, 1, 1, 1, *flags, *degrees)
    head += struct.pack("<Bii", 0, 0, 0)
    file.write_bytes(head + directory + written + content)
    return file
