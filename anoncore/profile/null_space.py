"""Longer sums, from the null space of complete records."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.linalg import qr, solve_triangular

from anoncore.profile.findings import MIN_ROWS
from anoncore.profile.relations import Relation, canonical, complete, deviation, patterns, vector

MAX_TERMS = 24  # as of a score and the 23 items of a scale
PATIENCE = 8  # sets of columns in a row that bring nothing, before mixed dependencies count as known
MAX_TANGLED = 50  # dependencies, of one set of columns, that are made shorter by each other
NONZERO_ROWS = 8  # records, of those examined, in which a column is not 0
SPARE_ROWS = 64  # beyond the number of columns, to see that these are independent


def null_space(
    values: np.ndarray, columns: list[int], chosen: list[Relation], rng: np.random.Generator
) -> list[Relation]:
    """Return relations of 3 … `MAX_TERMS` columns, from complete records of columns missing together.

    Parameters
    ----------
    values : (N, n) float64, NaN where missing
    columns : those to examine
    chosen : relations established already, which make others shorter
    rng : numpy Generator
        Chooses the records.

    Returns
    -------
    list of Relation
        Candidates, for all records to confirm. A set of columns is passed over where a
        factorization without pivoting shows that it has no relation beyond those known; after
        `PATIENCE` sets that brought nothing, mixtures of several relations count as known.
    """
    present = ~np.isnan(values[:, columns])
    packed = np.packbits(present, axis=0)
    together = present.astype("float32").T @ present.astype("float32")
    relations: dict[Relation, None] = {}
    established = [vector(c, values.shape[1]) for c in chosen]
    basis = np.array(established).reshape(-1, values.shape[1])
    tried, fruitless = set(), 0
    for first, share in product(patterns(present)[0], (0.95, 0.75, 0.5)):
        near = np.flatnonzero(together[first] >= share * max(1.0, together[first, first]))
        if len(near) < 3 or near.tobytes() in tried:
            continue
        tried.add(near.tobytes())
        everywhere = np.bitwise_and.reduce(packed[:, near], axis=1)
        rows, part = np.flatnonzero(np.unpackbits(everywhere, count=len(values))), np.asarray(columns)[near]
        if len(rows) < max(MIN_ROWS, 2 * len(near)) or _explained(values, rows, part, established, rng):
            continue
        depend = _untangled(_dependencies(_informative(values[rows][:, part], rng), part, basis), basis)
        sums = [r for r in map(_sum_of_few, depend) if r]
        new = [vector(r, values.shape[1]) for r in sums if r not in relations and deviation(values, r) == 0.0]
        fruitless = 0 if new else fruitless + 1
        others = [d for d in depend if fruitless >= PATIENCE or np.count_nonzero(d) <= MAX_TERMS]
        established += new + [d for d in others if not _sum_of_few(d) and _everywhere(values, d)]
        relations |= dict.fromkeys(sums)
    return list(relations)


def _explained(
    values: np.ndarray, rows: np.ndarray, columns: np.ndarray, established: list[np.ndarray], rng: np.random.Generator
) -> bool:
    """Whether ``columns`` are independent on ``rows`` but for the established relations.

    One column of each such relation is left out; the others must be independent, on some of the
    records, which makes them independent on all.
    """
    outside = np.ones(values.shape[1], dtype=bool)
    outside[columns] = False
    inside = [row[columns] for row in established if not row[outside].any()]
    if inside:
        r, order = qr(np.array(inside), mode="r", pivoting=True, check_finite=False)
        size = np.abs(np.diag(r))
        columns = np.delete(columns, order[: int((size > 1e-9 * size[0]).sum())])
    some = rng.permutation(rows)[: len(columns) + SPARE_ROWS]
    scarce = columns[(values[np.ix_(some, columns)] != 0).sum(axis=0) < NONZERO_ROWS]
    more = [rows[np.flatnonzero(values[rows, j])[:NONZERO_ROWS]] for j in scarce]
    block = values[np.ix_(np.unique(np.concatenate([some, *more])), columns)]
    scale = np.sqrt((block**2).mean(axis=0))
    block = block[:, scale > 0] / scale[scale > 0]
    if len(block) < block.shape[1]:
        return False
    (r,) = qr(block, mode="r", check_finite=False)
    return bool((np.abs(np.diag(r)) > 1e-7 * np.sqrt(len(block))).all())


def _informative(block: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return some records of ``block`` (m, t), among them some in which each column is not 0."""
    rows = [rng.permutation(len(block))[:50]]
    rows += [rng.permutation(np.flatnonzero(column))[:NONZERO_ROWS] for column in block.T]
    return np.asarray(block[np.unique(np.concatenate(rows))])


def _dependencies(block: np.ndarray, columns: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return, as (k, n) coefficients among all columns, how ``columns`` depend on each other.

    In ``block`` (m, t), as sparse as can be; whole numbers where they are, as of sums and averages.
    """
    scale = np.sqrt((block**2).mean(axis=0))
    usable = np.flatnonzero(scale > 0)
    none = np.zeros((0, basis.shape[1]))
    if len(usable) < 3:
        return none
    r, order = qr(block[:, usable] / scale[usable], mode="r", pivoting=True, check_finite=False)
    size = np.abs(np.diag(r))
    rank = int((size > 1e-10 * size[0]).sum())
    at, scales = columns[usable[order]], scale[usable[order]]
    combined = solve_triangular(r[:rank, :rank], r[:rank, rank:], check_finite=False)
    rows = []
    for k in range(combined.shape[1]):
        row = np.zeros(basis.shape[1])
        row[at[:rank]] = combined[:, k] * scales[rank + k] / scales[:rank]
        row[at[rank + k]] = -1.0
        whole = np.round(row)
        if np.abs(row - whole).max() > 1e-4:
            row[at[:rank][np.abs(combined[:, k]) < 1e-6]] = 0.0
            unit = np.abs(row[row != 0]).min()
            whole = np.round(row / unit)
            if np.abs(row / unit - whole).max() > 1e-4:
                rows.append(row)
                continue
        rows.append(_sparser(whole, basis))
    return np.array(rows) if rows else none


def _untangled(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return dependencies (k, n) with those that are no sums made shorter by each other, and by sums."""
    rows = rows.copy()
    tangled = [i for i, row in enumerate(rows) if _sum_of_few(row) is None]
    for i in tangled[:MAX_TANGLED]:
        if np.array_equal(rows[i], np.round(rows[i])):
            # With squares, two terms are better than one that counts twice.
            rows[i] = _sparser(rows[i], np.concatenate([basis, np.delete(rows, i, axis=0)]), power=2)
    return rows


def _sum_of_few(row: np.ndarray) -> Relation | None:
    """Return coefficients (n,) as a relation, if they are one of 3 … `MAX_TERMS` terms."""
    terms = np.flatnonzero(row)
    if 3 <= len(terms) <= MAX_TERMS and (np.abs(row[terms]) == 1).all():
        return canonical(terms.tolist(), row[terms].tolist())
    return None


def _everywhere(values: np.ndarray, coefficients: np.ndarray) -> bool:
    """Whether Σ c x is 0, but for the noise of binary numbers, wherever its terms are known."""
    terms = np.flatnonzero(coefficients)
    parts = complete(values, (tuple(terms), ())) * coefficients[terms]
    return bool((np.abs(parts.sum(axis=1)) <= 1e-6 * np.abs(parts).sum(axis=1)).all())


def _sparser(row: np.ndarray, basis: np.ndarray, power: int = 1) -> np.ndarray:
    """Add relations of ``basis`` (r, n) to ``row`` while that makes Σ |c|ᵖ less, for a ``power`` p."""
    multiples = np.array([-2.0, -1.0, 1.0, 2.0])
    size = (np.abs(row) ** power).sum()
    while len(basis):
        sizes = (np.abs(row + multiples[:, None] * basis[:, None]) ** power).sum(axis=2)
        other, multiple = np.unravel_index(np.argmin(sizes), sizes.shape)
        if not 0 < sizes[other, multiple] < size:
            break
        row, size = row + multiples[multiple] * basis[other], sizes[other, multiple]
    return row
