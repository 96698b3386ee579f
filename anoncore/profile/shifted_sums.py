"""Sums of three whole numbers and a constant, up to a unit, in nearly every record: age, schooling and experience."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from anoncore.profile.findings import MIN_ROWS
from anoncore.profile.relations import Relation, canonical, complete, patterns

SAMPLE = 2000  # records on which pairs are screened
MOST_COLUMNS = 200
FEWEST_VALUES = 8
HOLDS = 0.985  # share of the records that must satisfy a sum
ALONE = 0.7  # share of the records, at most, that are within the slack without one of the terms
SCREENED = 0.5  # of the smallest variance of three columns: that of what is left, at most


def shifted_sums(values: np.ndarray, columns: Sequence[int]) -> list[tuple[Relation, float, float]]:
    """Find whole numbers of which two, added or subtracted, give a third and a constant.

    Parameters
    ----------
    values : (N, n) float64, NaN where missing
    columns : those to examine; the others take no part, nor do those that are not whole numbers

    Returns
    -------
    list of (Relation, constant, slack)
        The slack is 0 where nearly all records satisfy the sum, else a unit. It then says more than any two of its
        terms: without one of them, fewer records are as near to a constant.
    """
    whole = [j for j in columns if _counts(values[:, j])]
    if not 3 <= len(whole) <= MOST_COLUMNS:
        return []
    sample = values[:: max(1, len(values) // SAMPLE), whole]
    firsts, group = patterns(~np.isnan(sample))
    found: dict[Relation, tuple[float, float]] = {}
    for pattern, first in enumerate(firsts):
        # Where the rarest of three columns is present, the others are.
        spread, shared = _spread(sample[~np.isnan(sample[:, first])])
        for i in np.flatnonzero(group == pattern).tolist():
            for j, k, sign in _near(i, spread, shared):
                relation = canonical((whole[i], whole[j], whole[k]), (1.0, sign, -1.0))
                if relation not in found and (fit := _fit(values, relation)) is not None:
                    found[relation] = fit
    return [(relation, *fit) for relation, fit in found.items()]


def _spread(sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, n) covariances of records (m, n), and how many hold both columns."""
    present = ~np.isnan(sample)
    shared = present.T.astype("float64") @ present
    mean = np.nansum(sample, axis=0) / np.maximum(np.diag(shared), 1.0)
    centred = np.where(present, sample - mean, 0.0)
    return centred.T @ centred / np.maximum(shared, 1.0), shared


def _near(i: int, spread: np.ndarray, shared: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Yield j, k and the sign s for which x_i + s x_j − x_k varies far less than each of the three."""
    own = np.diag(spread)
    least = np.minimum(np.minimum(own[i], own[:, None]), own)
    enough = (shared[i][:, None] >= MIN_ROWS) & (shared[i] >= MIN_ROWS)
    for sign in (1.0, -1.0):
        left = own[i] + own[:, None] + own + 2 * (sign * spread[i][:, None] - spread[i] - sign * spread)
        near = enough & (left <= SCREENED * least)
        near[:, i] = near[i] = False
        np.fill_diagonal(near, False)
        yield from ((j, k, sign) for j, k in np.argwhere(near).tolist())


def _counts(column: np.ndarray) -> bool:
    """Whether a column (N,) holds enough different whole numbers."""
    present = column[~np.isnan(column)]
    return bool((present == np.round(present)).all()) and len(np.unique(present)) >= FEWEST_VALUES


def _fit(values: np.ndarray, relation: Relation) -> tuple[float, float] | None:
    """Return the constant of a relation and its slack; None where too few records satisfy it, or a term is idle."""
    part = complete(values, relation)
    if len(part) < MIN_ROWS:
        return None
    terms = part * np.array(relation[1])
    gap = terms.sum(axis=1)
    constant = float(np.median(gap))
    slack = 0.0 if _share(gap, constant, 0.0) >= HOLDS else 1.0
    if _share(gap, constant, slack) < HOLDS:
        return None
    idle = any(_share(rest, float(np.median(rest)), max(slack, 1.0)) > ALONE for rest in _without_one(terms))
    return None if idle else (constant, slack)


def _without_one(terms: np.ndarray) -> Iterable[np.ndarray]:
    """Yield the sums of all but one of the terms (m, 3)."""
    return (np.delete(terms, at, axis=1).sum(axis=1) for at in range(terms.shape[1]))


def _share(gap: np.ndarray, constant: float, slack: float) -> float:
    return float((np.abs(gap - constant) <= slack).mean())
