"""Linkability: whether a release joins two separate parts of what is known of a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anoncore.kernels.agreement import Places, Weights, largest_agreement
from anoncore.microdata import Microdata
from anoncore.risk._proportions import proportion
from anoncore.risk._residual import ResidualRisk, residual_risk
from anoncore.risk._values import ComparedPeople, Flags, SortedValues

_RECORDS = 12_500


@dataclass(frozen=True)
class Linkability:
    """How often both halves of a person's values lead to the same released row.

    Parameters
    ----------
    residual : success for people of the original beyond the success for non-members
    n_members, n_nonmembers : statistical units tried, whose records are averaged; of more than 12 500 records a sample
    n_variables : variables that were divided into halves
    """

    meaning: ClassVar[str] = (
        "How much more often two separate halves of a person's values lead to the same released row for people "
        "of the original than for non-members; 0 is none."
    )

    residual: ResidualRisk
    n_members: int
    n_nonmembers: int
    n_variables: int


def linkability(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Linkability | None:
    """Try to join two halves of what is known of a person through the release.

    The variables are divided at random into two halves, for each person anew. In each half the released row
    with the largest agreement (see :func:`anoncore.risk.agreement.agreement`) is looked up. The attempt succeeds
    when one half leads to a single row, and no row agrees better than that one in the other half. The control
    are non-members.

    Parameters
    ----------
    original, released, reference : Microdata
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
    people = ComparedPeople.of(original, released, reference, rng, _RECORDS)
    if people is None or len(people.names) < 2:
        return None
    pools = [SortedValues(column) for column in people.released]
    rows = np.stack([pool.places.astype(np.int32) for pool in pools])
    intervals = [pool.interval(values) for pool, values in zip(pools, people.values, strict=True)]
    lower, upper = (np.stack(part, axis=1) for part in zip(*intervals, strict=True))
    n = len(people.names)
    weights = -np.log(np.stack([people.shares(j) for j in range(n)], axis=1)).astype(np.float32)
    first = rng.permuted(np.tile(np.arange(n) < n // 2, (len(people), 1)), axis=1)
    success = _linked(_Asked(lower, upper, weights), first, rows)
    sides = people.of_units(success.astype(np.float64))
    shares = [proportion(float(side.sum()), len(side), confidence) for side in sides]
    return Linkability(residual_risk(*shares), *people.n_units, n)


@dataclass(frozen=True, eq=False)
class _Asked:
    """(T, n) intervals of codes that people's values agree with, and the weights of agreement."""

    lower: Places
    upper: Places
    weights: Weights


def _linked(asked: _Asked, first: Flags, rows: Places) -> Flags:
    """Return (T,) whether a row found by one half alone is among the best of the other half too."""
    halves = [np.where(half, asked.weights, np.float32(0.0)) for half in (first, ~first)]
    matches = [largest_agreement(asked.lower, asked.upper, weights, rows) for weights in halves]
    linked = np.zeros(len(first), dtype=bool)
    for (best, second, place), other, (other_best, _, _) in zip(matches, halves[::-1], matches[::-1], strict=True):
        there = rows[:, place].T
        agrees = (there >= asked.lower) & (there < asked.upper)
        linked |= (best > second) & (other_best > 0) & ((other * agrees).sum(axis=1) >= other_best * (1.0 - 1e-5))
    return linked
