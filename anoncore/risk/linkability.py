"""Linkability: whether a release joins two separate parts of what is known of a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.agreement import Places, Weights, largest_agreement
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._proportions import proportion
from anoncore.risk._residual import ResidualRisk, residual_risk
from anoncore.risk._values import Flags, SortedValues, aligned_values, shared_variables, two_folds

_PEOPLE = 5000


@dataclass(frozen=True)
class Linkability:
    """How often both halves of a person's values lead to the same released row.

    Parameters
    ----------
    residual : success for people of the original beyond the success for strangers
    n_members, n_strangers : people tried; of more than 5000 on a side a sample
    n_variables : variables that were divided into halves
    """

    meaning: ClassVar[str] = (
        "How much more often two separate halves of a person's values lead to the same released row for people "
        "of the original than for strangers; 0 is none."
    )

    residual: ResidualRisk
    n_members: int
    n_strangers: int
    n_variables: int


def linkability(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    variables: Sequence[str] | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Linkability | None:
    """Try to join two halves of what is known of a person through the release.

    The variables are divided at random into two halves, for each person anew. In each half the released row
    with the largest agreement (see :func:`anoncore.risk.agreement.agreement`) is looked up. The attempt succeeds
    when one half leads to a single row, and no row agrees better than that one in the other half. The control
    are strangers.

    Parameters
    ----------
    original, released, reference : Microdata
    variables : names; by default those that are masked and that all three have
    confidence : 0 … 1
    rng : Generator

    Returns
    -------
    Linkability, or None where there are fewer than two variables or four people on a side

    Notes
    -----
    Sources: Article 29 Working Party, opinion 05/2014 (WP216); Giomi et al. 2023, *PoPETs* 2023(2), 312–328,
    departing from it in the similarity (rarity of agreeing values) and in the random halves.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> import pandas as pd
    >>> schema = Schema([Variable(name, "continuous") for name in "abcd"])
    >>> people = np.random.default_rng(1).normal(size=(3, 200, 4))
    >>> a, b, c = (Microdata(pd.DataFrame(t, columns=list("abcd")), schema) for t in people)
    >>> [linkability(a, t, b, rng=np.random.default_rng(0)).residual.value for t in (a, c)]
    [1.0, 0.0]
    """
    tables = (original, released, reference)
    names = shared_variables(tables, variables)
    if min(len(original), len(reference)) < 4 or len(names) < 2 or not len(released):
        return None
    columns = [aligned_values(tables, name) for name in names]
    pools = [SortedValues(column[1]) for column in columns]
    rows = np.stack([pool.places.astype(np.int32) for pool in pools])
    folds = two_folds(len(original), rng), two_folds(len(reference), rng)
    shares = []
    for side, table in ((0, original), (2, reference)):
        people = np.sort(rng.choice(len(table), min(_PEOPLE, len(table)), replace=False))
        asked = [column[side][people] for column in columns]
        weights = _rarity(asked, columns, folds, folds[0][people] if side == 0 else ~folds[1][people])
        intervals = [pool.interval(values) for pool, values in zip(pools, asked, strict=True)]
        lower, upper = (np.stack(part, axis=1) for part in zip(*intervals, strict=True))
        first = rng.permuted(np.tile(np.arange(len(names)) < len(names) // 2, (len(people), 1)), axis=1)
        success = _linked(_Asked(lower, upper, weights), first, rows)
        shares.append(proportion(int(success.sum()), len(people), confidence))
    return Linkability(residual_risk(*shares), shares[0].n, shares[1].n, len(names))


@dataclass(frozen=True, eq=False)
class _Asked:
    """(T, n) intervals of codes that people's values agree with, and the weights of agreement."""

    lower: Places
    upper: Places
    weights: Weights


def _linked(asked: _Asked, first: Flags, rows: Places) -> Flags:
    """Return (T,) whether a row found by one half alone is among the best of the other half too."""
    halves = [np.where(half, asked.weights, np.float32(0.0)) for half in (first, ~first)]
    found = [largest_agreement(asked.lower, asked.upper, weights, rows) for weights in halves]
    linked = np.zeros(len(first), dtype=bool)
    for (best, second, place), other, (other_best, _, _) in zip(found, halves[::-1], found[::-1], strict=True):
        there = rows[:, place].T
        agrees = (there >= asked.lower) & (there < asked.upper)
        linked |= (best > second) & (other_best > 0) & ((other * agrees).sum(axis=1) >= other_best * (1.0 - 1e-5))
    return linked


def _rarity(
    asked: Sequence[Floats], columns: Sequence[Sequence[Floats]], folds: tuple[Flags, Flags], fold: Flags
) -> Weights:
    """Return (T, n) −log of the share of strangers, of the fold given for each person, who hold each value."""
    weights = np.empty((len(fold), len(asked)), dtype=np.float32)
    for j, values in enumerate(asked):
        for flag in (True, False):
            calibration = columns[j][2][folds[1] == flag]
            counts: NDArray[np.intp] = SortedValues(calibration).counts(values[fold == flag])
            weights[fold == flag, j] = -np.log((counts + 0.5) / (len(calibration) + 1.0))
    return weights
