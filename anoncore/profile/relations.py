"""Linear relations with coefficients ±1 among columns, and how well records bear one out."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from anoncore.edits.kinds import linear_holds
from anoncore.profile.findings import MIN_ROWS

ROUNDED = 5e-3  # of a term's standard deviation: a sum that holds up to rounding

Relation = tuple[tuple[int, ...], tuple[float, ...]]


def canonical(columns: Iterable[int], coefficients: Iterable[float]) -> Relation:
    """Return the relation with its columns in order and 1 as the first coefficient."""
    pairs = sorted(zip(columns, coefficients, strict=True))
    return tuple(c for c, _ in pairs), tuple(f / pairs[0][1] for _, f in pairs)


def complete(values: np.ndarray, relation: Relation) -> np.ndarray:
    """Return (m, t) the relation's columns in the records that have all of them."""
    part = values[:, list(relation[0])]
    return np.asarray(part[~np.isnan(part).any(axis=1)])


def deviation(values: np.ndarray, relation: Relation) -> float:
    """Return the largest |Σ c x| over complete records; 0 where exact, infinite without evidence."""
    part, coefficients = complete(values, relation), np.array(relation[1])
    if not _supported(part):
        return math.inf
    if linear_holds(part, coefficients, "==", 0.0).all():
        return 0.0
    return float(np.abs(part @ coefficients).max())


def _supported(part: np.ndarray) -> bool:
    """Whether complete records (m, t) differ enough for a sum that fits to be no accident."""
    if len(part) < MIN_ROWS or (part != 0).sum(axis=0).min() < 10:
        return False
    nonzero = part[(part != 0).any(axis=1)]
    if len(np.unique(nonzero[:2000], axis=0)) < 20:
        return False
    return all(len(np.unique(column[:2000])) >= 3 or len(np.unique(column)) >= 3 for column in nonzero.T)


def vector(relation: Relation, n: int) -> np.ndarray:
    """Return the relation's coefficients among n columns, (n,)."""
    row = np.zeros(n)
    row[list(relation[0])] = relation[1]
    return row


def patterns(present: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return, of (N, n) bool, the first column of each pattern, and (n,) the pattern of each column."""
    seen: dict[bytes, int] = {}
    packed = np.packbits(present, axis=0)
    group = np.array([seen.setdefault(packed[:, j].tobytes(), len(seen)) for j in range(present.shape[1])])
    return [int(np.flatnonzero(group == g)[0]) for g in range(len(seen))], group
