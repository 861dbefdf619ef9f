"""Hashes of keys: eight bytes a row, computed on Arrow's buffers.

Equal keys have equal hashes, whatever else their batch holds. Different keys rarely share one.
Python's own `hash` of each value would take three times as long.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_WORD_BYTES = 8
_OFFSET_BYTES = 4
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def key_hashes(rows: pa.Table, names: Sequence[str]) -> Hashes:
    """Return a hash of these columns for each of the rows (one or more).

    The columns hold texts or 64-bit integers. The hash of a row with a null means nothing.
    """
    hashes = np.zeros(rows.num_rows, np.uint64)
    for name in names:
        column = pa.concat_arrays(rows[name].chunks)
        hashes = _mixed(hashes, _text(column) if column.type == pa.string() else _whole(column))
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed = (hashes ^ words) * _FACTOR
    return mixed ^ (mixed >> _SHIFT)


def _whole(column: pa.Array) -> Hashes:
    return np.frombuffer(column.buffers()[1], np.uint64, len(column), column.offset * _WORD_BYTES)


def _text(column: pa.Array) -> Hashes:
    _, offsets, texts = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * _OFFSET_BYTES)
    content = np.frombuffer(texts, np.uint8)
    lengths = np.diff(ends)
    different = np.unique(lengths)
    if len(different) == 1:
        [length] = different
        return _equally_long(content[ends[0] : ends[-1]].reshape(len(column), length))
    hashes = np.empty(len(column), np.uint64)
    for length in different:
        rows = np.flatnonzero(lengths == length)
        within = np.arange(length)
        hashes[rows] = _equally_long(content[ends[rows, np.newaxis] + within])
    return hashes


def _equally_long(texts: npt.NDArray[np.uint8]) -> Hashes:
    """Return the hashes of texts of one length, one a row, filled with zeros to whole words."""
    count, length = texts.shape
    words = -(-length // _WORD_BYTES)
    filled = np.zeros((count, words * _WORD_BYTES), np.uint8)
    filled[:, :length] = texts
    hashes = np.full(count, length, np.uint64)
    for word in filled.view(np.uint64).T:
        hashes = _mixed(hashes, word)
    return hashes
