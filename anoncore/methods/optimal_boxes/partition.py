"""Partition records into boxes: who can share one, where they are cut, and which ranges are released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.boxes.columns import BoxTable
from anoncore.boxes.edits import narrowed
from anoncore.boxes.faces import on_grid, outer_faces
from anoncore.edits.kinds import LinearEdit, linear_holds
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes import partition as kernel
from anoncore.microdata import Microdata

# 0.3 − 0.2 is less than 0.1 in floating point.
HAIR = 1e-9
# Of a unit; what is further off is no multiple of it.
MULTIPLE = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Diversity:
    """Distinct values that are asked of each variable and box.

    Parameters
    ----------
    l : int, or None where none are asked
    least : (n,) int, ``l`` or 1 for a variable that has not as many values in the whole table
    epsilon : (n,) float64, how far apart values must lie to be distinct
    """

    l: int | None  # noqa: E741  the field's standard letter
    least: np.ndarray
    epsilon: np.ndarray

    def exempt(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the variables that have fewer than ``l`` values in the whole table."""
        return tuple(n for n, least in zip(names, self.least, strict=True) if self.l is not None and least == 1)

    def counted(self, names: tuple[str, ...]) -> list[str]:
        """Return the variables whose distinct values are counted in each box."""
        return [n for n, least in zip(names, self.least, strict=True) if least > 1]

    @classmethod
    def asked(cls, x: np.ndarray, l: int | None, epsilon: list[float]) -> Diversity:  # noqa: E741
        """Return what ``l`` asks of each variable: nothing of one that has not as many values at all."""
        apart = np.array(epsilon) * (1.0 - HAIR)
        if l is None:
            return cls(None, np.ones(x.shape[1], dtype=np.intp), apart)
        least = np.where(_distinct(x, np.zeros(len(x), dtype=np.intp), apart)[0] >= l, l, 1)
        if not (least > 1).any():
            raise AnonymizationError(
                f"l: no variable has {l} values that are epsilon apart; lower l or epsilon, or leave l out"
            )
        return cls(l, least, apart)

    def holds(self, x: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return (G,) bool: whether groups 0 … G − 1 of records have the values, or none at all."""
        counts = _distinct(x, group, self.epsilon)
        return np.asarray(((counts >= self.least) | (counts == 0)).all(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class Numbers:
    """Records that can share a box, by their numbers.

    Parameters
    ----------
    data : Microdata, N records
    names : the n continuous variables that are released
    x : (N, n) float64, NaN where a value is missing
    strata : (N,) int; records of different strata share no box
    """

    data: Microdata
    names: tuple[str, ...]
    x: np.ndarray
    strata: np.ndarray

    def take(self, chosen: np.ndarray) -> Numbers:
        """Return some of the records, (N,) bool, with their strata."""
        return Numbers(self.data.take(np.flatnonzero(chosen)), self.names, self.x[chosen], self.strata[chosen])

    def units(self) -> list[float | None]:
        """Return each variable's precision where every value is a multiple of it."""
        units = []
        for name, values in zip(self.names, self.x.T, strict=True):
            unit = self.data.schema[name].precision
            if unit is not None:
                steps = values[~np.isnan(values)] / unit
                unit = unit if (np.abs(steps - np.rint(steps)) <= MULTIPLE).all() else None
            units.append(unit)
        return units

    def binding(self, edits: EditSet) -> list[LinearEdit]:
        """Return the linear edits among these variables that always apply and that every record satisfies."""
        binding = []
        for edit in edits.within(self.names).linear:
            values = self.x[:, [self.names.index(n) for n in edit.terms]]
            values = values[~np.isnan(values).any(axis=1)]
            c = np.array(list(edit.terms.values()))
            if not edit.when and linear_holds(values, c, edit.relation, edit.constant, edit.tolerance).all():
                binding.append(edit)
        return binding


@dataclass(frozen=True, eq=False, repr=False)
class Ranges:
    """How ranges are released.

    Parameters
    ----------
    limits : publicly known limits of variables
    grid : units to whose multiples bounds are snapped outward; None for the cells' bounds
    edits : EditSet, whose bounds serve as limits too
    binding : the linear edits that narrow the ranges
    """

    limits: Mapping[str, tuple[float, float]]
    grid: Mapping[str, float] | None
    edits: EditSet
    binding: list[LinearEdit]


def boxable(data: Microdata, names: tuple[str, ...], k: int, diversity: Diversity, *, constant: bool) -> Numbers:
    """Return the records that can share a box with k − 1 others.

    Records of one stratum have the same missing values and, where levels are held ``constant``, the same levels.
    """
    x = numbers_of(data, names)
    same = pd.DataFrame(np.isnan(x), index=data.frame.index)
    if constant:
        levels = [v.name for v in data.schema if v.is_masked and v.is_categorical]
        same = same.assign(**{f"level {n}": data.frame[n].cat.codes for n in levels})
    strata = same.groupby(list(same.columns), sort=True).ngroup().to_numpy()
    good = np.bincount(strata) >= k
    if diversity.l is not None:
        good &= diversity.holds(x, strata)
    rows = np.flatnonzero(good[strata])
    if not len(rows):
        raise AnonymizationError(
            f"boxes: no {k} records share their missing values and constant levels (with l distinct values); "
            "lower k or l, choose categorical: set, or impute missing values first"
        )
    if len(rows) == len(data):
        return Numbers(data, names, x, strata)
    return Numbers(data.take(rows), names, x[rows], strata[rows])


def numbers_of(data: Microdata, names: tuple[str, ...]) -> np.ndarray:
    """Return (N, n) float64, NaN where a value is missing."""
    return np.column_stack([data.frame[n].to_numpy(dtype="float64") for n in names])


def patterns(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each pattern of missing values its rows, and the columns that are present."""
    missing = np.isnan(x)
    if not missing.any():
        yield np.arange(len(x)), np.arange(x.shape[1])
        return
    group = pd.DataFrame(missing).groupby(list(range(x.shape[1])), sort=True).ngroup().to_numpy()
    for rows in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        yield rows, np.flatnonzero(~missing[rows[0]])


def into_boxes(
    numbers: Numbers,
    influence: np.ndarray,
    k: int,
    diversity: Diversity,
    ranges: Ranges | None,
    rng: np.random.Generator,
) -> tuple[BoxTable, tuple[str, ...]]:
    """Partition the records, and number the boxes at random.

    Parameters
    ----------
    numbers : Numbers of N records
    influence : (N, n) float64, how much a value's displacement matters to the chosen statistics
    k : int, records in a box
    diversity : Diversity
    ranges : None where no ranges are released
    rng : numpy Generator

    Returns
    -------
    The boxes, and the variables whose outer faces follow the extreme values.
    """
    n = len(numbers.names)
    units, x = numbers.units(), numbers.x
    followed: tuple[str, ...] = ()
    spaces = np.array([np.nan if unit is None else unit for unit in units])
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    if ranges is not None:
        limits, edits = ranges.limits, ranges.edits
        low, high, followed = outer_faces(numbers.data.schema, numbers.names, x, k, limits=limits, edits=edits)
        # 3 · 0.1 is not 0.3, and no face shall lie between the two.
        x = np.clip(kernel.to_unit(x, spaces), low, high)
    cells = _Cells(x, influence, numbers.strata, k, diversity, low, high)
    label, bounds, sizes = cells.cut()
    # The kernel's own order reveals which boxes were one before they were cut.
    order = rng.permutation(len(sizes))
    lower, upper, distinct = bounds[:, order]
    if ranges is not None:
        lower, upper = kernel.off_grid(lower, upper, spaces, low, high)
        lower, upper = narrowed(lower, upper, numbers.names, ranges.binding, units)
        if ranges.grid is not None:
            grid = [ranges.grid.get(name) for name in numbers.names]
            precisions = [numbers.data.schema[name].precision for name in numbers.names]
            lower, upper = on_grid(lower, upper, grid, precisions, (low, high))
    return BoxTable(np.argsort(order)[label], lower, upper, sizes[order], distinct), followed


@dataclass(frozen=True, eq=False, repr=False)
class _Cells:
    """What is cut: (N, n) numbers and their influence, (N,) strata, and (n,) outer faces."""

    x: np.ndarray
    influence: np.ndarray
    strata: np.ndarray
    k: int
    diversity: Diversity
    low: np.ndarray
    high: np.ndarray

    def cut(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cut the records of each pattern of missing values over the variables they have.

        Returns
        -------
        (N,) the box of each record, (3, B, n) lower and upper bounds and distinct values, and (B,) sizes.
        """
        label, boxes, parts = np.empty(len(self.x), dtype=np.intp), 0, []
        for rows, present in patterns(self.x):
            own, bounds, sizes = self._cut(rows, present)
            label[rows] = boxes + own
            boxes += len(sizes)
            parts.append((bounds, sizes))
        return label, np.concatenate([b for b, _ in parts], axis=1), np.concatenate([s for _, s in parts])

    def _cut(self, rows: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not len(present):
            _, own, sizes = np.unique(self.strata[rows], return_inverse=True, return_counts=True)
            return own, np.full((3, len(sizes), self.x.shape[1]), np.nan), sizes
        asked = self.diversity.l
        diversity = kernel.Diversity(self.diversity.least[present], self.diversity.epsilon[present])
        part = kernel.partition(
            self.x[np.ix_(rows, present)],
            self.influence[np.ix_(rows, present)],
            self.k,
            diversity=None if asked is None else diversity,
            strata=self.strata[rows],
            limits=kernel.Limits(self.low[present], self.high[present]),
        )
        bounds = np.full((3, len(part.sizes), self.x.shape[1]), np.nan)
        bounds[:2, :, present] = part.lower, part.upper
        if part.distinct is not None and asked is not None:
            # More than l is not published: an attacker who knows all others of a box would learn more of the last.
            bounds[2][:, present] = np.minimum(part.distinct, asked)
        return part.label, bounds, part.sizes


def _distinct(x: np.ndarray, group: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """Return (G, n): values of each variable and group 0 … G − 1 that are ε apart, 0 without any value."""
    counts = np.zeros((int(group.max()) + 1, x.shape[1]), dtype=np.intp)
    for j, values in enumerate(x.T):
        present = ~np.isnan(values)
        used, own = np.unique(group[present], return_inverse=True)
        if len(used):
            counts[used, j] = kernel.distinct_counts(values[present, None], own, epsilon[j])[:, 0]
    return counts
