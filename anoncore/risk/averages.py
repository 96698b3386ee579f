"""Published averages that give away the largest contribution once they are multiplied by their number of records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import poisson

from anoncore.contributions import contributions_of
from anoncore.kernels.dominated import FEWEST, OPEN, SURE
from anoncore.microdata import SPIKE, Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk.verdicts import Verdict

# Of the rows of a variable, spikes aside, whose number others hold too: from here on its values are those of groups.
IN_GROUPS = 0.9
# How often records are exchanged among rows, for how many totals are true by chance; and with which probability at most
# as many are as in the release.
EXCHANGED, LEVEL = 1000, 0.002


@dataclass(frozen=True)
class DominatedAverages:
    """Averages whose total is mostly one unit's.

    Parameters
    ----------
    looked_at : numbers that are released
    variables : those with such an average
    averages : of all variables; confidential, as it says how many units stand out
    """

    meaning: ClassVar[str] = (
        "Averages of groups that are mostly one unit's contribution: multiplied by the number of the group's records "
        "they give that unit's number to within a tenth, to anyone who knows the second largest."
    )

    looked_at: int
    variables: tuple[str, ...]
    averages: int

    @property
    def verdict(self) -> Verdict:
        """Fail with any such average."""
        return "fail" if self.variables else "pass"


def dominated_averages(original: Microdata, released: Microdata, own: Indices, k: int) -> DominatedAverages:
    """Look for averages of groups that give away a number of one unit.

    Groups are the rows that are equal in all variables, and, of a variable that is published in groups, the rows that
    hold one number, as of averages over blocks of variables. A group's total is its number of rows times the released
    number; what it differs by from the true total of the records behind these rows is left open to the attacker.

    Parameters
    ----------
    original, released : Microdata
    own : (N,) row of each original record, -1 for none
    k : units that make a number nobody's

    Returns
    -------
    DominatedAverages

    Notes
    -----
    Claim: see `anoncore.kernels.dominated.Contributions`. Groups of fewer than three rows are not asked about, nor what
    several averages show together. A total counts with all rows and with those whose record has a number, whichever is
    nearer to the true one. That a total is the true one by chance, as of some groups of any numbers, tells nobody
    anything: of a variable more totals must be true, beside a value that lies far out, than where the records are
    exchanged among the rows.

    Source: the p % rule, see there. Averages of microaggregation are totals of a table whose cells are the groups.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("cost", "continuous", precision=0.01)])
    >>> cost = np.append(np.zeros(28), [700.0, 500.0])
    >>> source = Microdata(pd.DataFrame({"cost": cost}), schema)
    >>> means = Microdata(pd.DataFrame({"cost": np.repeat([0.0, 50.0, 70.0], 10)}), schema)
    >>> rows = np.r_[0:10, 10:19, 29, 19:28, 28]
    >>> dominated_averages(source, means, np.argsort(rows), k=3).averages
    2
    """
    names = [v.name for v in original.schema if v.kind == "continuous" and v.name in released.schema.masked]
    linked = np.flatnonzero(own >= 0)
    rows = original.take(linked)
    same = pd.util.hash_pandas_object(released.frame[list(released.schema.masked)], index=False).to_numpy()
    counts = {}
    for name in names if len(linked) else ():
        values = rows.frame[name].to_numpy(dtype=np.float64)
        numbers = released.frame[name].to_numpy(dtype=np.float64)
        if np.isnan(values).all():
            continue
        parts, middle = contributions_of(rows, name, k)
        found = np.zeros(len(linked), dtype=bool)
        for codes in _groups(numbers, same):
            groups = np.unique(codes[own[linked]], return_inverse=True)[1]
            totals = _Totals(numbers[own[linked]] - middle, groups, (released.schema[name].precision or 0.0) / 2.0)
            dominated = parts.dominate(groups, slack=totals.off(values - middle))
            if dominated.any() and totals.are_true(values - middle):
                found |= dominated[groups]
        if found.any():
            counts[name] = len(np.unique(numbers[own[linked[found]]]))
    return DominatedAverages(len(names), tuple(counts), sum(counts.values()))


def _groups(numbers: Floats, same: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield (M,) codes of groups of rows: equal rows, and equal numbers where nearly all are those of several rows."""
    yield same
    _, at, held = np.unique(numbers, return_inverse=True, return_counts=True)
    regular = held < SPIKE * len(numbers)
    if held[regular & (held >= FEWEST)].sum() >= IN_GROUPS * max(held[regular].sum(), 1):
        yield at


class _Totals:
    """Totals of groups as an attacker computes them, of deviations from a variable's median.

    Parameters
    ----------
    released : (N,) what the row of each record holds
    groups : (N,) the group of each, every number 0..G-1 in use
    rounded : by how much a number is off at most
    """

    def __init__(self, released: Floats, groups: Indices, rounded: float) -> None:
        self._order = np.argsort(groups, kind="stable")
        self._counts = np.bincount(groups)
        self._starts = np.cumsum(self._counts) - self._counts
        self._released, self._rounded = released[self._order], self._counts * rounded
        self._total = np.add.reduceat(self._released, self._starts)

    def off(self, values: Floats) -> Floats:
        """Return (G,) by how much the totals are off those of some values (N,); infinite without a number."""
        return self._off(values[self._order])

    def are_true(self, values: Floats) -> bool:
        """Whether more totals give a value away than would give that of a record of another group.

        Of groups that can be dominated: the largest value is far beyond what so many ordinary ones leave open.
        """
        values = values[self._order]
        least = np.sqrt(np.maximum(self._counts - 2, 0)) * np.median(np.abs(np.nan_to_num(values))) / OPEN
        # Once with what the median leaves open, once with the least that a prediction does.
        return any(self._exceed(values, share * least) for share in (1.0, SURE))

    def _exceed(self, values: Floats, least: Floats) -> bool:
        """Whether more of the totals with a largest value above the least are true than by chance."""
        # The same exchanges always: nothing hangs on their being unknown.
        draw, (true, largest), by_chance = np.random.default_rng(0), self._true(values, least), 1.0
        for _ in range(EXCHANGED):
            seem_true, others = self._true(draw.permutation(values), least)
            by_chance += int((seem_true & (others != largest)).sum())
            if poisson.sf(int(true.sum()) - 1, by_chance / EXCHANGED) >= LEVEL / 2.0:
                return False
        return True

    def _off(self, values: Floats) -> Floats:
        """Return (G,) the same of values in the order of their groups."""
        known = ~np.isnan(values)
        true = np.add.reduceat(np.where(known, values, 0.0), self._starts)
        totals = self._total, np.add.reduceat(np.where(known, self._released, 0.0), self._starts)
        off = np.minimum(*(np.abs(total - true) for total in totals))
        return np.asarray(np.where(np.isnan(off), np.inf, off) + self._rounded)

    def _true(self, values: Floats, least: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Return (G,) which totals are nearly true beside a largest value above the least, and those values."""
        largest = np.maximum.reduceat(np.abs(np.nan_to_num(values)), self._starts)
        can = (self._counts >= FEWEST) & (largest > 0) & (largest >= least)
        return can & (self._off(values) <= OPEN * largest), largest
