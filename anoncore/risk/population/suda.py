"""Special uniques: how many small sets of variables make a record unique in the sample, and which variables do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.minimal_uniques import minimal_uniques
from anoncore.parameters import between
from anoncore.risk._checks import Floats
from anoncore.risk.population.frequencies import groups_of


@dataclass(frozen=True, eq=False, repr=False)
class SpecialUniques:
    """Scores of N records on m variables.

    Parameters
    ----------
    score : (N,) SUDA scores; 0 for a record that shares its key
    dis : (N,) DIS-SUDA scores, 0 … 1: the chance that a match of a unique record is correct
    contributions : (m,) share of all scores that sets with each variable have
    smallest : (N,) fewest variables on which a record is alone; 0 where it is not
    minimal : number of minimal sample uniques by their number of variables, of one first
    """

    score: Floats = field(repr=False)
    dis: Floats = field(repr=False)
    contributions: Floats
    smallest: NDArray[np.intp] = field(repr=False)
    minimal: tuple[int, ...]


def special_uniques(
    keys: ArrayLike, *, missing_is_level: bool = True, largest: int | None = None, fraction: float = 0.01
) -> SpecialUniques:
    """Score the records that are unique by their minimal sample uniques (SUDA2).

    Parameters
    ----------
    keys : (N, m) int, levels from 0; −1 where a value is missing
    missing_is_level : whether a missing value is a level; otherwise it is in no minimal unique
    largest : most variables of a minimal unique that is searched; all m when None
    fraction : of the population that the sample holds, for DIS, between 0 and 1

    Returns
    -------
    SpecialUniques

    Raises
    ------
    AnonymizationError
        When keys or parameters are not as described.

    Notes
    -----
    A minimal unique of s of m variables counts ∏_{i=s}^{M} (m − i), M = min(largest, m − 1); its variables share it.
    With U records that are unique and P in pairs, r = U·π/(U·π + P·(1 − π)) is the chance that a match of a unique
    record is correct, and DIS = 1/(1 + U·(1/r − 1)/(score^q·Σ score^−q)), q = 1 + (8 − m)/20.

    Source: Elliot, Manning and Ford (2002), *International Journal of Uncertainty, Fuzziness and Knowledge-Based
    Systems* 10, 493–509; Manning, Haglin and Keane (2008); Skinner and Elliot (2002) for r. DIS is scaled as in
    sdcMicro 5.7, which rounds q and r to single precision: its ΣDIS of 9.831091 on its household survey is 9.831093.

    Examples
    --------
    >>> found = special_uniques([[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0]])
    >>> found.score.tolist(), found.minimal
    ([1.0, 2.0, 0.0, 0.0], (1, 1, 0))
    """
    table = np.asarray(keys, dtype=np.int64)
    if table.ndim != 2 or not table.shape[1]:
        raise AnonymizationError("keys must be a table of levels with at least one column")
    m = table.shape[1]
    most = m if largest is None else largest
    if not 1 <= most <= m:
        raise AnonymizationError(f"largest must be between 1 and the {m} variables, got {most}")
    between("fraction", fraction, 0, 1)
    group = groups_of(table)
    first, sizes = np.unique(group, return_index=True)[1], np.bincount(group)
    kinds = table[first]
    if missing_is_level:
        kinds = np.where(kinds < 0, kinds.max(axis=0, initial=-1) + 1, kinds)
    rows, sets = minimal_uniques(kinds, sizes == 1, most)
    size = np.bitwise_count(sets).astype(np.intp)
    points = _points(m, most)[size]
    score = np.bincount(rows, points, len(kinds)).astype(np.float64)
    each = np.array([points[(sets >> j) & 1 == 1].sum() for j in range(m)], dtype=np.float64)
    scaled = _dis(score, int((sizes == 1).sum()), 2 * int((sizes == 2).sum()), fraction, m)
    smallest = np.full(len(kinds), m + 1)
    np.minimum.at(smallest, rows, size)
    return SpecialUniques(
        score=score[group],
        dis=scaled[group],
        contributions=each / max(float(points.sum()), 1.0),
        smallest=np.where(smallest > m, 0, smallest)[group],
        minimal=tuple(np.bincount(size, minlength=most + 1)[1:].tolist()),
    )


def _points(m: int, largest: int) -> Floats:
    """Return (largest + 1,) what a minimal unique of each size counts."""
    last = min(largest, m - 1)
    return np.array([0.0] + [float(math.prod(m - i for i in range(s, last + 1))) for s in range(1, largest + 1)])


def _dis(score: Floats, uniques: int, paired: int, fraction: float, m: int) -> NDArray[np.float64]:
    """Return the scores as chances that a match is correct."""
    scored = score > 0
    dis = np.zeros(len(score))
    if scored.any():
        power = score[scored] ** (1.0 + (8.0 - m) / 20.0)
        correct = uniques * fraction / (uniques * fraction + paired * (1.0 - fraction))
        dis[scored] = 1.0 / (1.0 + uniques * (1.0 / correct - 1.0) / (power * (1.0 / power).sum()))
    return dis
