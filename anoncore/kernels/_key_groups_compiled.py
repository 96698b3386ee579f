"""Compiled parts of `anoncore.kernels.key_groups`: comparing packed keys."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anoncore.kernels._compiled import compiled

_BLOCK = 2048


class Keys(NamedTuple):
    """Packed keys of n items, as `anoncore.kernels.key_groups.Items` documents them; numba knows no dataclass."""

    words: Any
    low: Any
    top: Any
    missing: Any
    weights: Any
    units: Any


@compiled
def group_of(words, keep):  # type: ignore[no-untyped-def]
    """Return (n,) for each item of ``words`` (w, n) the first one equal to it on the bits ``keep`` (w,)."""
    w, n = words.shape
    size = 2
    while size < 2 * n:
        size *= 2
    mixed = np.zeros(n, dtype=np.uint64)
    for v in range(w):
        for j in range(n):
            one = (mixed[j] ^ (words[v, j] & keep[v])) * np.uint64(0x9E3779B97F4A7C15)
            mixed[j] = one ^ (one >> np.uint64(29))
    table = np.full(size, -1, dtype=np.int32)
    group = np.empty(n, dtype=np.int64)
    for j in range(n):
        slot = np.int64(mixed[j] & np.uint64(size - 1))
        # A single word is mixed one to one.
        while table[slot] >= 0 and (
            mixed[table[slot]] != mixed[j] or (w > 1 and not _equal(words, keep, table[slot], j))
        ):
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = j
        group[j] = table[slot]
    return group


@compiled
def _equal(words, keep, i, j):  # type: ignore[no-untyped-def]
    differ = np.uint64(0)
    for v in range(words.shape[0]):
        differ |= (words[v, i] ^ words[v, j]) & keep[v]
    return differ == np.uint64(0)


@compiled
def unit_counts(group, weights, units):  # type: ignore[no-untyped-def]
    """Return (n,) the weight of each item's group, where the items of a unit follow each other and count once."""
    count = np.zeros(len(group), dtype=np.int64)
    last = np.full(len(group), -1, dtype=np.int64)
    for j in range(len(group)):
        g = group[j]
        if last[g] != units[j]:
            count[g] += weights[j]
            last[g] = units[j]
    return count[group]


@compiled
def differences(keys, row, start, stop, out):  # type: ignore[no-untyped-def]
    """Write to ``out`` the bits of the keys in which items ``start`` to ``stop`` differ from ``row``.

    A field's top bit is 0 in every code, and set by adding ``low`` where any of its other bits is 1.
    """
    for v in range(keys.words.shape[0]):
        column, value, add, keep = keys.words[v, start:stop], row[v], keys.low[v], keys.top[v]
        if v == 0:
            for j in range(stop - start):
                out[j] = ((column[j] ^ value) + add) & keep
        else:
            for j in range(stop - start):
                out[j] |= ((column[j] ^ value) + add) & keep


@compiled
def matching(keys, row, mask, limit):  # type: ignore[no-untyped-def]
    """Return the weight of the items that agree with ``row`` where neither is missing; at least ``limit`` is enough."""
    out = np.empty(_BLOCK, dtype=np.uint64)
    missing, weights, units = keys.missing, keys.weights, keys.units
    total, last = 0, -1
    for start in range(0, keys.words.shape[1], _BLOCK):
        stop = min(start + _BLOCK, keys.words.shape[1])
        differences(keys, row, start, stop, out)
        for j in range(stop - start):
            if out[j] & ~(mask | missing[start + j]) == np.uint64(0) and units[start + j] != last:
                total += weights[start + j]
                last = units[start + j]
        if total >= limit:
            break
    return total


@compiled
def matching_counts(keys, rows, limit):  # type: ignore[no-untyped-def]
    """Return (m,) `matching` of the items ``rows`` (m,)."""
    counts = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        row = keys.words[:, rows[i]].copy()
        counts[i] = matching(keys, row, keys.missing[rows[i]], limit)
    return counts
