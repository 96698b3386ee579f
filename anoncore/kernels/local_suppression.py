"""Local suppression: the cells that must become missing so that every record agrees with k units."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.key_groups import Codes, Counts, Items

_TOGETHER = 3  # keys that are tried together, before all are suppressed and put back one by one
_ALL_SETS = 10  # keys of which all sets are tried, where only holders count


def local_suppression(
    keys: Codes, k: int, *, importance: NDArray[np.float64], units: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Choose the cells to suppress so that k units hold the keys that a record has left.

    Parameters
    ----------
    keys : (N, p) int32
        Codes of the keys, −1 where missing: a record's missing keys are not compared, and a record that lacks a key
        counts for none that has it.
    k : int
        Statistical units that must hold what is left of every record's keys, its own included.
    importance : (p,) float above 0
        A record's less important cells are suppressed first; infinite where none may be.
    units : (N,) int64, optional
        Statistical unit of each record; each is its own without.

    Returns
    -------
    (N, p) bool, the cells to suppress

    Notes
    -----
    Claim: k units hold what is left of every record's keys, and no suppressed cell could be put back. Where fewer than
    k units agree on the keys that may not be suppressed, all others are. A rare record gives up the set of keys of
    least importance that suffices; those whose holders became too few by that give up more, until none is rare. Since
    a cell that is put back only adds holders, cells are put back for all records at once.

    Source: Templ, Kowarik and Meindl 2015, section 4.1 (importance). That suppressed cells help no other record is
    ours: with all keys missing one record would agree with all others.

    Examples
    --------
    >>> keys = np.array([[0, 0], [0, 0], [0, 1], [1, 1]], dtype=np.int32)
    >>> local_suppression(keys, 2, importance=np.ones(2)).sum(axis=0).tolist()
    [2, 0]
    """
    items = Items(keys, units, apart=k)
    natural = items.missing.copy()
    may = np.flatnonzero(np.isfinite(importance))
    every = np.bitwise_or.reduce(items.bits[may], initial=np.uint64(0))
    sets = _sets(importance[may])
    while len(rows := _too_few(items, every, k)):
        _suppress_sets(items, rows, sets, items.bits[may], k)
    _put_back(items, natural, may[np.argsort(-importance[may], kind="stable")], k)
    return (((items.missing & ~natural)[:, None] & items.bits) != 0)[items.of_record]


def _sets(importance: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Return sets of keys in the order of their importance, all of them last: every set, or of many keys the small."""
    p = len(importance)
    small = chain.from_iterable(combinations(range(p), n) for n in range(1, p if p <= _ALL_SETS else _TOGETHER + 1))
    return [*sorted(small, key=lambda keys: sum(importance[list(keys)])), tuple(range(p))]


def _too_few(items: Items, every: np.uint64, k: int) -> NDArray[np.intp]:
    """Return the items whose keys fewer than k units hold, and that have any left to give up."""
    rows = np.flatnonzero(items.missing & every != every)
    return rows[items.holding(rows) < k]


def _suppress_sets(
    items: Items, rows: NDArray[np.intp], sets: list[tuple[int, ...]], bits: NDArray[np.uint64], k: int
) -> None:
    """Suppress of each of the items ``rows`` the first set of keys whose others k units hold, all if none is."""
    every = np.bitwise_or.reduce(bits)
    for fixed in np.unique(items.missing[rows] & ~every):
        left = rows[items.missing[rows] & ~every == fixed]
        for keys in sets:
            dropped = np.bitwise_or.reduce(bits[list(keys)]) | fixed
            within = items.missing[left] & ~dropped == 0
            if not within.any():
                continue
            done = within & ((items.holders(dropped)[left] >= k) | (dropped & every == every))
            items.missing[left[done]] = dropped
            left = left[~done]


def _put_back(items: Items, natural: NDArray[np.uint64], keys: NDArray[np.intp], k: int) -> None:
    """Put back every suppressed cell without which k units hold what an item has, until there is none."""
    changed = True
    while changed:
        changed = False
        for bit in items.bits[keys]:
            rows = np.flatnonzero(items.missing & ~natural & bit)
            for dropped in np.unique(items.missing[rows]):
                alike = rows[items.missing[rows] == dropped]
                items.missing[alike] = dropped & ~bit
                fails = items.holders(dropped & ~bit)[alike] < k
                items.missing[alike[fails]] = dropped
                changed |= not fails.all()


def suppression_of_wildcards(
    keys: Codes, k: int, *, importance: NDArray[np.float64], units: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Choose the cells to suppress where a missing value agrees with every value.

    Parameters
    ----------
    keys : (N, p) int32
        Codes of the keys, −1 where missing.
    k : int
        Statistical units that every record must agree with on the keys, its own included.
    importance : (p,) float above 0
        A record's less important cells are suppressed first; infinite where none may be.
    units : (N,) int64, optional
        Statistical unit of each record; each is its own without.

    Returns
    -------
    (N, p) bool, the cells to suppress

    Notes
    -----
    Claim: with the cells missing every record agrees with k units, and no suppressed cell could be put back, or some
    record would agree with fewer. Where fewer than k units agree on the keys that may not be suppressed, all others
    are. Each rare record is given the least important sufficient key, and of those the one by
    which most other rare records come to agree with it; then every suppressed cell is tried, the most important first.

    Source: Templ, Kowarik and Meindl 2015, Statistical disclosure control for micro-data using the R package sdcMicro,
    Journal of Statistical Software 67(4), section 4.1 (heuristic by importance). The choice by shared agreement and the
    cells put back are ours.

    Examples
    --------
    >>> keys = np.array([[0, 0], [0, 0], [0, 1], [1, 1]], dtype=np.int32)
    >>> suppression_of_wildcards(keys, 2, importance=np.ones(2)).sum(axis=0).tolist()
    [1, 0]
    """
    from anoncore.kernels._local_suppression_compiled import Agreement, Choices, put_back, suppress

    items = Items(keys, units, apart=k)
    have = items.alike()
    rare = np.flatnonzero(have < k)
    n, m = len(have), len(rare) if units is None else len(have)
    have[rare] = items.agreeing(rare) if items.missing.any() else have[rare]
    rare = rare[have[rare] < k]
    may = [v for v in range(len(importance)) if np.isfinite(importance[v])]
    single = np.zeros((len(importance), n), dtype=np.int64)
    for v in may:
        single[v] = items.alike([v])
    fallback = _fallback(items, rare[single[:, rare].max(axis=0, initial=0) < k], may, importance, k)
    natural = items.missing.copy()
    runs = np.empty((0, n), dtype=np.int64) if units is None else _runs(items.units)
    choices = (single[:, rare] >= k).sum(axis=0)
    order = rare[np.lexsort((choices, choices == 0))]
    packed, state = items.packed(), Agreement(have, m, runs, k)
    suppress(packed, state, order, Choices(single, fallback, items.bits, importance))
    changed = np.flatnonzero(items.missing != natural)
    have[changed] = items.agreeing(changed)
    at, key = np.nonzero((items.missing & ~natural)[:, None] & items.bits)
    tried = np.lexsort((-importance[key], -np.bincount(at, minlength=n)[at]))
    put_back(packed, state, at[tried], items.bits[key[tried]])
    return (((items.missing & ~natural)[:, None] & items.bits) != 0)[items.of_record]


def _runs(units: Counts) -> Counts:
    """Return (2, n) the first and the end of the run of equal units in which each item lies."""
    return np.stack([np.searchsorted(units, units, side) for side in ("left", "right")]).astype(np.int64)


def _fallback(
    items: Items, rows: NDArray[np.intp], may: list[int], importance: NDArray[np.float64], k: int
) -> NDArray[np.uint64]:
    """Return (n,) the keys to drop, as a set, of the items ``rows``: the least important few, or all, that suffice."""
    chosen = np.zeros(len(items.missing), dtype=np.uint64)
    sets = [keys for size in range(2, _TOGETHER + 1) for keys in combinations(may, size)]
    for keys in [*sorted(sets, key=lambda keys: sum(importance[v] for v in keys)), tuple(may)]:
        if not len(rows):
            return chosen
        enough = items.alike(keys)[rows] >= k
        chosen[rows[enough]] = np.bitwise_or.reduce(items.bits[list(keys)])
        rows = rows[~enough]
    chosen[rows] = np.bitwise_or.reduce(items.bits[may], initial=np.uint64(0))
    return chosen
