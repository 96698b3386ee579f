"""Records that agree on key variables, where a missing value agrees with every value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError

if TYPE_CHECKING:
    from anoncore.kernels._key_groups_compiled import Keys

Codes = NDArray[np.int32]
Counts = NDArray[np.int64]
MOST_KEYS = 30
_ALL = 2**62


def agreeing_units(keys: Codes, units: NDArray[np.int64] | None = None, *, enough: int | None = None) -> Counts:
    """Return how many statistical units each record agrees with on the keys, its own included.

    Parameters
    ----------
    keys : (N, p) int32
        Codes of the keys, −1 where missing: a missing value agrees with every value.
    units : (N,) int64, optional
        Statistical unit of each record; each is its own without.
    enough : int, optional
        A record that agrees with so many is not looked at further; its count may then be too low.

    Returns
    -------
    (N,) int64, exact below ``enough``

    Raises
    ------
    AnonymizationError
        With more than 30 keys.

    Notes
    -----
    Records that agree on missing values, too, are counted by hashing, which suffices for most; each other one is
    compared with all different records.

    Source: Templ, Meindl and Kowarik 2013, An introduction to statistical disclosure control (the frequencies fk with
    missing values), International Household Survey Network.

    Examples
    --------
    >>> agreeing_units(np.array([[0, 1], [0, 1], [0, -1], [2, 3]], dtype=np.int32)).tolist()
    [3, 3, 3, 1]
    """
    items = Items(keys, units)
    limit = _ALL if enough is None else enough
    counts = items.alike()
    if items.missing.any():
        rare = np.flatnonzero(counts < limit)
        counts[rare] = items.agreeing(rare, limit)
    return counts[items.of_record]


def holding_units(keys: Codes, units: NDArray[np.int64] | None = None) -> Counts:
    """Return how many statistical units hold the keys that a record has, its own included.

    Parameters
    ----------
    keys : (N, p) int32
        Codes of the keys, −1 where missing: a record's missing keys are not compared, and one that lacks a key which
        the record has does not count.
    units : (N,) int64, optional
        Statistical unit of each record; each is its own without.

    Returns
    -------
    (N,) int64

    Examples
    --------
    >>> holding_units(np.array([[0, 1], [0, 1], [0, -1], [-1, 1]], dtype=np.int32)).tolist()
    [2, 2, 3, 3]
    """
    items = Items(keys, units)
    return items.holding(np.arange(len(items.missing)))[items.of_record]


class Items:
    """Different records with their numbers, or all records in the order of their units; keys are packed into words.

    Attributes
    ----------
    words : (w, n) uint64, a field of bits for the code of each key, whose top bit is 0; missing has a code of its own
    low, top : (w,) uint64, all bits of the fields but the top ones, and the top ones, which differ between words
    bits : (p,) uint64, the top bit of each key, which stands for it in sets of keys
    fields : (p, w) uint64, all bits of each key
    missing : (n,) uint64, the set of each item's missing keys
    weights : (n,) int64, how many units an item stands for
    units : (n,) int64, the unit of each item; items of one unit follow each other
    records : (n,) a record of each item
    of_record : (N,) the item of each record
    """

    def __init__(self, keys: Codes, units: NDArray[np.int64] | None, apart: int = 0) -> None:
        """Collect records; those that fewer than ``apart`` are identical to come first, each as its own item."""
        if keys.shape[1] > MOST_KEYS:
            raise AnonymizationError(f"at most {MOST_KEYS} key variables are allowed, got {keys.shape[1]}; name fewer")
        most = keys.max(axis=0, initial=0).astype(np.int64) + 1
        places, widths = _layout([int(one).bit_length() + 1 for one in most])
        w = 1 + max((word for word, _ in places), default=0)
        self.low, self.top = np.zeros(w, dtype=np.uint64), np.zeros(w, dtype=np.uint64)
        self.fields = np.zeros((len(places), w), dtype=np.uint64)
        self.bits = np.zeros(len(places), dtype=np.uint64)
        words, missing = np.zeros((w, len(keys)), dtype=np.uint64), np.zeros(len(keys), dtype=np.uint64)
        for v, ((word, end), width) in enumerate(zip(places, widths, strict=True)):
            bit, below = np.uint64(1 << end), np.uint64((1 << end) - (1 << (end - width + 1)))
            self.bits[v] = bit
            self.fields[v, word] = bit | below
            self.low[word] |= below
            self.top[word] |= bit
            codes = np.where(keys[:, v] < 0, most[v], keys[:, v]).astype(np.uint64)
            words[word] |= codes << np.uint64(end - width + 1)
            missing[keys[:, v] < 0] |= bit
        self.records, self.of_record, self.weights, self.units = _items(words, units, apart)
        self.words, self.missing = np.ascontiguousarray(words[:, self.records]), missing[self.records]

    def alike(self, keys: Sequence[int] = ()) -> Counts:
        """Return (n,) the units of items equal to each, missing values included, but for the keys at ``keys``."""
        from anoncore.kernels._key_groups_compiled import group_of, unit_counts

        keep = ~np.bitwise_or.reduce(self.fields[list(keys)], axis=0)
        counts: Counts = unit_counts(group_of(self.words, keep), self.weights, self.units)
        return counts

    def holders(self, dropped: np.uint64) -> Counts:
        """Return (n,) the units that hold an item's keys but for the set ``dropped``; 0 where it lacks one of them."""
        from anoncore.kernels._key_groups_compiled import group_of, unit_counts

        at = np.flatnonzero(self.missing & ~dropped == 0)
        keep = np.bitwise_or.reduce(self.fields[self.bits & dropped == 0], axis=0)
        counts = np.zeros(len(self.missing), dtype=np.int64)
        group = group_of(np.ascontiguousarray(self.words[:, at]), keep)
        counts[at] = unit_counts(group, self.weights[at], self.units[at])
        return counts

    def holding(self, rows: NDArray[np.intp]) -> Counts:
        """Return (m,) the units that hold all keys that the items ``rows`` (m,) have."""
        counts = np.zeros(len(rows), dtype=np.int64)
        for dropped in np.unique(self.missing[rows]):
            alike = self.missing[rows] == dropped
            counts[alike] = self.holders(dropped)[rows[alike]]
        return counts

    def agreeing(self, rows: NDArray[np.intp], limit: int = _ALL) -> Counts:
        """Return (m,) the units that the items ``rows`` (m,) agree with; too few where ``limit`` is reached."""
        from anoncore.kernels._key_groups_compiled import matching_counts

        counts: Counts = matching_counts(self.packed(), rows, np.int64(limit))
        return counts

    def packed(self) -> Keys:
        """Return the keys as compiled kernels take them."""
        from anoncore.kernels._key_groups_compiled import Keys

        return Keys(self.words, self.low, self.top, self.missing, self.weights, self.units)


def _layout(widths: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the word and the top bit of the field of each key; no two fields have the same top bit."""
    places: list[tuple[int, int]] = []
    word, end = 0, -1
    for width in widths:
        top = end + width
        taken = {one for _, one in places}
        while top in taken:
            top += 1
        if top > 63:
            word, top = word + 1, width - 1
            while top in taken:
                top += 1
        places.append((word, top))
        end = top
    return places, widths


def _items(
    words: NDArray[np.uint64], units: NDArray[np.int64] | None, apart: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], Counts, Counts]:
    """Return the record of each item, the item of each record, and the weight and the unit of each item."""
    from anoncore.kernels._key_groups_compiled import group_of

    n = words.shape[1]
    at = np.empty(n, dtype=np.intp)
    if units is not None:
        order = np.argsort(units, kind="stable")
        at[order] = np.arange(n)
        return order, at, np.ones(n, dtype=np.int64), units[order].astype(np.int64)
    group = group_of(words, np.full(len(words), ~np.uint64(0)))
    sizes = np.bincount(group, minlength=n)
    rare = np.flatnonzero(sizes[group] < apart)
    firsts = np.flatnonzero(sizes >= max(apart, 1))
    rows = np.concatenate([rare, firsts])
    at[firsts] = np.arange(len(rare), len(rows))
    at = at[group]
    at[rare] = np.arange(len(rare))
    weights = np.concatenate([np.ones(len(rare), dtype=np.int64), sizes[firsts]])
    return rows, at, weights, np.arange(len(rows), dtype=np.int64)
