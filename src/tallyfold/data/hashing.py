"""Hashes of cells: draws that depend on a cell and a seed, not on where the cell stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

LABELS_AT_ONCE = 1 << 20
MOST_KEYS = 2**63


def mixed(number_N: Hashes) -> Hashes:
    """Scramble numbers (the last steps of SplitMix64); overflow is meant."""
    number_N = number_N + np.uint64(0x9E3779B97F4A7C15)
    number_N = (number_N ^ (number_N >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number_N = (number_N ^ (number_N >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number_N ^ (number_N >> np.uint64(31))


def cell_hashes(first_N: Hashes, columns: Iterable[NDArray[np.integer]]) -> Hashes:
    """Return a hash per cell of its positions, given a number per cell to begin with.

    Examples
    --------
    >>> cells = np.array([[3, 5], [3, 6]])
    >>> one, two = cell_hashes(np.zeros(2, np.uint64), cells.T)
    >>> alone = cell_hashes(np.zeros(1, np.uint64), cells[:1].T)[0]
    >>> bool(one == alone), bool(one == two)
    (True, False)
    """
    hash_N = mixed(first_N)
    for column_N in columns:
        hash_N = mixed(hash_N ^ column_N.astype(np.uint64, copy=False))
    return hash_N


def cell_keys(indices_NM: NDArray[np.integer[Any]], sizes: Sequence[int]) -> Hashes:
    """Return a number per cell, equal for equal positions: in their order, if 63 bits hold them.

    Where there are more cells than that, it is a hash of the positions.

    Examples
    --------
    >>> cells = np.array([[0, 2], [1, 0], [1, 1]])
    >>> cell_keys(cells, (2, 3)).tolist()
    [2, 3, 4]
    >>> len(np.unique(cell_keys(cells, (2**40, 2**40))))
    3
    """
    if math.prod(sizes) >= MOST_KEYS:
        return cell_hashes(np.zeros(len(indices_NM), np.uint64), indices_NM.T)
    key_N = indices_NM[:, 0].astype(np.uint64)
    for axis in range(1, len(sizes)):
        key_N *= np.uint64(sizes[axis])
        key_N += indices_NM[:, axis].astype(np.uint64)
    return key_N


def label_texts(labels: pa.Array) -> pa.Array:
    """Return labels as text, the same for any type that a label may have.

    A year is the same label as a number and as text, a day the same as a date and as a time.

    Examples
    --------
    >>> import datetime
    >>> label_texts(pa.array([datetime.datetime(2024, 5, 1)])).to_pylist()
    ['2024-05-01']
    """
    if pa.types.is_timestamp(labels.type):
        texts = labels.cast(pa.timestamp(labels.type.unit)).cast(pa.large_string())
        texts = pc.replace_substring_regex(texts, r"\.0+$", "")
        texts = pc.replace_substring_regex(texts, r"(\.\d*[1-9])0+$", r"\1")
        return pc.replace_substring_regex(texts, " 00:00:00$", "")
    return labels.cast(pa.large_string())


def label_hashes(labels: pa.Array) -> Hashes:
    """Return a hash of each label's text: a sum over its bytes and where they stand.

    Examples
    --------
    >>> one, two, three = label_hashes(pa.array(["ab", "ba", "ab"]))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    parts = [np.empty(0, np.uint64)]
    for start in range(0, len(labels), LABELS_AT_ONCE):
        parts.append(_text_hashes(label_texts(labels.slice(start, LABELS_AT_ONCE))))
    return np.concatenate(parts)


def _text_hashes(texts: pa.Array) -> Hashes:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, length_D = ends[0], np.diff(ends)
    byte_B = np.frombuffer(data or b"", np.uint8)[first : ends[-1]].astype(np.uint64)
    place_B = np.arange(len(byte_B)) - np.repeat(ends[:-1] - first, length_D)
    byte_B += place_B.astype(np.uint64) << np.uint64(8)
    sum_B = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(byte_B), dtype=np.uint64)])
    total_D = sum_B[ends[1:] - first] - sum_B[ends[:-1] - first]
    return mixed(total_D ^ length_D.astype(np.uint64))
