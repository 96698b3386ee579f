"""Sums of three terms: every pair of columns against every third, on a sample of records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anoncore.profile.findings import MIN_ROWS
from anoncore.profile.relations import ROUNDED, Relation, canonical, patterns

SCREEN_ROWS = 64
MIN_COMPLETE = 10  # of the screened records that have all three
FIRST_ROWS = 24  # records compared with all candidates at once
FEW = 0.1  # of the candidates left: then they are listed
BLOCK = 1 << 18  # candidates compared at a time
SAMPLE = 1000  # records on which is counted how often three columns are present together
PORTION = 4096  # records among which those are sought first that have both columns


def triples(values: np.ndarray, rng: np.random.Generator) -> list[Relation]:
    """Return every x_k = ± x_i ± x_j that a sample of records does not refute.

    Parameters
    ----------
    values : (N, n) float64, NaN where missing
    rng : numpy Generator
        Chooses the order in which records are examined.

    Returns
    -------
    list of Relation
        Each pair i < j is examined in the first `SCREEN_ROWS` records, in random order, in which
        x_i is not 0 and x_j is present; none is left out but with a third column that is seldom present there.
        A third column x_k is refuted by one record in which it is present and off by more than `ROUNDED`.
    """
    present = ~np.isnan(values)
    nonzero = present & (values != 0)  # where x_i is 0 nothing can be refuted
    width = np.nan_to_num(np.nanstd(values, axis=0))
    enough = _together(nonzero, present) >= MIN_ROWS
    group, order = patterns(present)[1], rng.permutation(len(values))
    sizes = present.sum(axis=0)
    relations: dict[Relation, None] = {}
    for i in range(values.shape[1] - 1):
        others = np.flatnonzero(enough[i, i + 1 :]) + i + 1
        if not len(others):
            continue
        rows = order[nonzero[order, i]]
        rows = np.roll(rows, rng.integers(len(rows)))
        # Among the records that every pair examines anyway, large numbers refute soonest.
        first = rows[:SCREEN_ROWS]
        rows[:SCREEN_ROWS] = first[np.argsort(-np.abs(values[first, i]), kind="stable")]
        # Columns with as many missing values need as many records, so they stand together.
        others = others[np.argsort(-sizes[others], kind="stable")]
        absent = _absent(nonzero[order[:SAMPLE], i], present[order[:SAMPLE]])
        left = [_unrefuted(values, rows, i, c, width) for c in _candidates(values, rows, i, others, width, absent)]
        j, k, sign, target = np.concatenate(left, axis=1)
        for at in np.lexsort((k, j, -target, -sign, group[j])):
            columns = (i, int(j[at]), int(k[at]))
            relations[canonical(columns, (1.0, float(sign[at]), -float(target[at])))] = None
    return list(relations)


def _together(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return (n, n) the records in which each column of one (N, n) and of the other are true."""
    counts = np.zeros((one.shape[1], other.shape[1]))
    for start in range(0, len(one), 20_000):
        rows = slice(start, start + 20_000)
        counts += one[rows].astype("float32").T @ other[rows].astype("float32")
    return counts


def _absent(own: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return (n, n) bool: where one column is present, too few records for a sum have the other.

    ``own`` (m,) is whether a record counts, ``present`` (m, n) what it has; half of `MIN_COMPLETE` may be by chance.
    """
    here = present[own].astype("float32")
    both = here.T @ here
    sizes = np.diag(both)[:, None]
    return np.asarray((sizes >= SCREEN_ROWS) & (both * SCREEN_ROWS < 0.5 * MIN_COMPLETE * sizes))


def _candidates(
    values: np.ndarray, rows: np.ndarray, i: int, others: np.ndarray, width: np.ndarray, absent: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield (4, m) of j, k, sign and target that the first of ``rows`` leave for column i, but ``absent`` (n, n) j, k.

    With x_k and the pair's sum both taken without their signs, one comparison serves both targets;
    the limit is the pair's, which is never below that of the three.
    """
    sample = values[rows[:FIRST_ROWS]]
    own, thirds = sample[:, [i]], np.abs(sample)
    # Half the digits take half the time; the limit allows for the other half.
    kind = np.float32 if np.nanmax(thirds) < 1e30 else np.float64
    noise, thirds = np.finfo(kind), thirds.astype(kind)
    step = max(1, BLOCK // (2 * values.shape[1]))
    for block in np.split(others, range(step, len(others), step)):
        pairs = np.abs(np.concatenate([own + sample[:, block], own - sample[:, block]], axis=1))
        limit = ROUNDED * np.tile(np.minimum(width[i], width[block]), 2) + 4 * noise.eps * pairs + noise.tiny
        dead = np.tile(absent[block], (2, 1))
        dead[:, i] = dead[np.arange(len(dead)), np.tile(block, 2)] = True
        at, k = _within(thirds, (pairs - limit).astype(kind), (pairs + limit).astype(kind), dead)
        j, sign = block[at % len(block)], np.where(at < len(block), 1, -1)
        yield np.concatenate([[j, k, sign, np.full(len(j), t)] for t in (1, -1)], axis=1)


def _within(thirds: np.ndarray, low: np.ndarray, high: np.ndarray, dead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs and thirds of which no record puts the third (m, n) outside low and high (m, p).

    ``dead`` (p, n) says which are out already; it is written to.
    """
    row, over = -1, np.empty_like(dead)
    for row, third in enumerate(thirds):
        dead |= np.greater(third, high[row, :, None], out=over)
        dead |= np.less(third, low[row, :, None], out=over)
        if dead.size - np.count_nonzero(dead) <= FEW * dead.size:
            break
    at, k = np.divmod(np.flatnonzero(~dead), dead.shape[1])
    for rest in range(row + 1, len(thirds)):
        number = thirds[rest][k]
        left = ~((number > high[rest][at]) | (number < low[rest][at]))
        at, k = at[left], k[left]
    return at, k


def _unrefuted(values: np.ndarray, rows: np.ndarray, i: int, candidates: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return those of the candidates (4, m) of column i that their records do not refute."""
    passed = np.zeros(candidates.shape[1], dtype=bool)
    for j in np.unique(candidates[0]).tolist():
        at = np.flatnonzero(candidates[0] == j)
        _, k, sign, target = candidates[:, at]
        some = rows[:PORTION]
        some = some[~np.isnan(values[some, j])][:SCREEN_ROWS]
        if len(some) < SCREEN_ROWS < len(rows):
            some = rows[~np.isnan(values[rows, j])][:SCREEN_ROWS]
        own, other = values[some, i, None], values[some, j, None]
        gap = np.abs(own + sign * other - target * values[np.ix_(some, k)])
        off = gap > ROUNDED * np.minimum(width[k], min(width[i], width[j]))
        passed[at] = ~off.any(axis=0) & ((~np.isnan(gap)).sum(axis=0) >= MIN_COMPLETE)
    return candidates[:, passed]
