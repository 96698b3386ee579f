"""The statistics that boxes are cut for: how they move with each value, and what a release says of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd

from anoncore.boxes.reader import NOTHING, Boxes, subgroup_text
from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes import shapes as box_shapes
from anoncore.kernels.boxes.derived import PAIRED, QUANTILES, density, quantile
from anoncore.kernels.boxes.subgroups import UNCERTAIN

StatisticName = Literal[
    "mean",
    "variance",
    "sd",
    "covariance",
    "correlation",
    "ratio",
    "slope",
    "lower_quartile",
    "median",
    "upper_quartile",
]
ACCURACY = 0.1
FLOOR = 1e-3
# Beyond these an accuracy, or its inverse, is no number of its own any more.
_COMPUTABLE = (1e-300, 1e300)

BIASED = (
    "weights are larger where people live close together, so weighted estimates describe the weighted table "
    "and are biased for the population wherever density goes with the values; both estimates are stated above, "
    "and only the unweighted range encloses the statistic of the values that were put into boxes"
)


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistic that users will compute.

    Parameters
    ----------
    statistic : {"mean", "variance", "sd", "covariance", "correlation", "ratio", "slope", "lower_quartile", \
"median", "upper_quartile"}
        Which statistic; a ratio is one of totals.
    of : list of str
        One continuous variable, or two for a covariance, a correlation, the ratio of the first by the second, and
        the slope of the regression of the first on the second.
    probability : float, above 0
        How often it is used, relative to the others.
    accuracy : float, above 0, optional
        Wanted half-width of its range, in the statistic's units. When not stated: a tenth of the standard
        deviation (mean, sd, quantiles), of the variance, or of the product of standard deviations (covariance); 0.1
        (correlation); a tenth of the first one's standard deviation by the second's (slope) or by its mean (ratio).
    within : mapping of variable to level
        Only of the records that hold these levels; none for all records.
    """

    statistic: StatisticName
    of: tuple[str, ...]
    probability: float = 1.0
    accuracy: float | None = None
    within: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = 2 if self.statistic in PAIRED else 1
        if len(self.of) != wanted or len(set(self.of)) != wanted:
            what = "two different variables" if wanted == 2 else "one variable"
            raise AnonymizationError(
                f"statistic {self.statistic}: of must name {what}, got {', '.join(self.of) or 'none'}"
            )
        for name, value in (("probability", self.probability), ("accuracy", self.accuracy)):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise AnonymizationError(f"{name} must be above 0 and finite, got {value:g}")

    @property
    def text(self) -> str:
        """The statistic as readers write it: mean(income), or mean(income; sex = female)."""
        return f"{self.statistic}({', '.join(self.of)}{subgroup_text(self.within)})"

    def members(self, frame: pd.DataFrame, label: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool, the records of the subgroup; with a ``label`` (N,), all whose box may hold one."""
        chosen = np.ones(len(frame), dtype=bool)
        for name, level in self.within.items():
            holds = (frame[name].astype("object").map(str, na_action="ignore") == str(level)).to_numpy()
            chosen &= holds if label is None else (np.bincount(label, holds) > 0)[label]
        return chosen


@dataclass(frozen=True, eq=False, repr=False)
class Wanted:
    """A statistic with its columns of x, the records (N,) bool that have them, its share and its accuracy."""

    statistic: Statistic
    columns: list[int]
    rows: np.ndarray
    probability: float
    accuracy: float


def wanted(
    stated: Sequence[Statistic], names: Sequence[str], x: np.ndarray, members: Sequence[np.ndarray] | None = None
) -> list[Wanted]:
    """Return the statistics with their records and wanted accuracies.

    Parameters
    ----------
    stated : statistics of variables among ``names``; the mean of each that has two values when empty
    names : n variables
    x : (N, n), their values, NaN where missing
    members : for each stated statistic (N,) bool, the records that it is about; None for all

    Raises
    ------
    AnonymizationError
        When fewer than two records have a stated statistic's variables, one that a standard deviation or
        correlation is asked of does not vary, or squares of its values are beyond floating point.
    """
    asked = stated or [Statistic(statistic="mean", of=(n,)) for n in names]
    ready = []
    for at, one in enumerate(asked):
        columns = [names.index(n) for n in one.of]
        rows = ~np.isnan(x[:, columns]).any(axis=1)
        if stated and members is not None:
            rows &= members[at]
        values = x[rows][:, columns]
        if len(values) < 2:
            if stated:
                raise AnonymizationError(f"statistics: fewer than 2 records have values for {one.text}")
            continue
        flat = [n for n, span in zip(one.of, np.ptp(values, axis=0), strict=True) if not span > 0]
        if flat and one.statistic in ("sd", "correlation", "slope"):
            raise AnonymizationError(f"statistics: {', '.join(flat)} does not vary; leave {one.text} out")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scale = float(box_shapes.statistic_scales(values, [_description(one)])[0])
            spread = values.std(axis=0)[np.ptp(values, axis=0) > 0]
        accuracy = one.accuracy or ACCURACY * scale
        if not (_COMPUTABLE[0] < accuracy < _COMPUTABLE[1] and (spread > 0).all() and np.isfinite(spread).all()):
            raise AnonymizationError(
                f"statistics: the values or the accuracy of {one.text} are too small or too large to compute "
                "with; state the variables in another unit"
            )
        ready.append(Wanted(one, columns, rows, one.probability, accuracy))
    total = sum(one.probability for one in ready)
    return [replace(one, probability=one.probability / total) for one in ready]


def influences(x: np.ndarray, statistics: Sequence[Wanted]) -> tuple[np.ndarray, float]:
    """Return how much the statistics move with each value, and with the choice of a single record.

    Parameters
    ----------
    x : (N, n), NaN where missing
    statistics : from `wanted`

    Returns
    -------
    a : (N, n), Σ p/Δ₀ · N·|∂C/∂x_i|, per unit of column i, above 0; not below a thousandth of the largest
        column mean, in standard deviations
    A : Σ p/Δ₀ · √(N/N_C) · the standard deviation of one record's influence on C, N_C the records that C is about:
        √N times the sampling error of C

    Source: Xiang et al. 2013, sections II and III, with a standard deviation's and a correlation's influence
    function in place of its variance, which they leave open.
    """
    a, sampling = np.zeros(x.shape), 0.0
    for one in statistics:
        values = x[one.rows][:, one.columns]
        share, width, per_record = one.probability, one.accuracy, len(x) / one.rows.sum()
        part = box_shapes.sensitivities(values, [_description(one.statistic)], [share], [width], floor=0.0)
        for at, column in enumerate(one.columns):
            a[one.rows, column] += per_record * part[:, at]
        sampling += share / width * math.sqrt(per_record) * float(_influence(one.statistic.statistic, values).std())
    known = ~np.isnan(x)
    spread = np.array([float(np.std(v[k])) if k.any() else 0.0 for v, k in zip(x.T, known.T, strict=True)])
    spread = np.where(spread > 0, spread, 1.0)
    mean = np.array([float(v[k].mean()) if k.any() else 0.0 for v, k in zip(a.T, known.T, strict=True)])
    largest = float((mean * spread).max())
    return np.maximum(a, FLOOR * (largest or 1.0) / spread), sampling


def record_influences(x: np.ndarray, statistics: Sequence[Wanted]) -> np.ndarray:
    """Return (S, N) p/Δ₀ · N/N_C · the influence of each record on each statistic C, 0 on those that are not about it.

    Weights w, of mean 1, shift a statistic by the mean of w times its row: exactly a mean of all records, else to first
    order. ``x`` (N, n) and ``statistics`` are as for `influences`.
    """
    rows = np.zeros((len(statistics), len(x)))
    for row, one in zip(rows, statistics, strict=True):
        factor = one.probability / one.accuracy * len(x) / one.rows.sum()
        row[one.rows] = factor * _influence(one.statistic.statistic, x[one.rows][:, one.columns])
    return rows


def reported(
    boxes_for: Callable[[Statistic], Boxes], statistics: Sequence[Statistic]
) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return notes and figures on how well released ranges give each statistic.

    Everything comes from the released table and the stated accuracies. Figures are half-widths in units of
    the wanted accuracy, for statistics that state one: the default is a share of the source's own spread,
    which a half-width divided by it would give away.

    Parameters
    ----------
    boxes_for : returns the released boxes with the columns that a statistic is computed from, at least
    statistics : in the order in which they are reported
    """
    notes: list[str] = []
    figures: dict[str, float] = {}
    weighted = False
    for one in statistics:
        read = boxes_for(one)
        weighted |= read.weighted
        found = read.estimate(one.statistic, *one.of, within=one.within)
        said = [UNCERTAIN] if UNCERTAIN in found.note else []
        said += ["says nothing"] if NOTHING in found.note else []
        note = "; ".join([str(replace(found, note="")), *said])
        if one.accuracy is not None:
            note += f"; wanted was ± {one.accuracy:g}"
        notes.append(note + _weighted(read, one))
        key = re.sub(r"\W+", "_", one.text).strip("_")
        for kind, (low, high) in (("linearised", found.linearised), ("guaranteed", found.guaranteed)):
            if one.accuracy is not None:
                figures[f"{key}.{kind}"] = (high - low) / 2.0 / one.accuracy
    return (*notes, *([BIASED] if weighted else [])), figures


def _weighted(read: Boxes, statistic: Statistic) -> str:
    if not read.weighted:
        return ""
    try:
        estimate = read.estimate(statistic.statistic, *statistic.of, weights=True, within=statistic.within)
    except AnonymizationError:
        return "; weighted, no record counts"
    return f"; {replace(estimate, note='')}"


def _description(statistic: Statistic) -> tuple[str, int, int | None]:
    return statistic.statistic, 0, 1 if statistic.statistic in PAIRED else None


def _influence(name: StatisticName, values: np.ndarray) -> np.ndarray:
    """Return (N,) the influence of each record on a statistic, 0 on average (of quantiles nearly)."""
    u, v = (values[:, [0, -1]] - values[:, [0, -1]].mean(axis=0)).T
    if name == "mean":
        return u
    if name in ("variance", "covariance"):
        return np.asarray(u * v - (u * v).mean())
    if name == "ratio":
        y, x = values.T
        return np.asarray((y - y.mean() / x.mean() * x) / x.mean())
    if name == "slope":
        return np.asarray(v * (u - (u * v).mean() / (v * v).mean() * v) / (v * v).mean())
    if name in QUANTILES:
        p = QUANTILES[name]
        mass = np.full(len(u), 1 / len(u))
        at = quantile(values[:, 0], mass, p)
        return np.asarray((p - (values[:, 0] <= at)) / density(values[:, 0], at, mass))
    u, v = u / u.std(), v / v.std()
    if name == "sd":
        return np.asarray((u**2 - 1.0) / 2.0 * values[:, 0].std())
    return np.asarray(u * v - 0.5 * (u * v).mean() * (u**2 + v**2))
