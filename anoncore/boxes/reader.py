"""Released boxes, read back: what an analyst can compute from them, and how certain it is.

A released table of boxes has one row per record. A numeric variable ``v`` has two columns ``v_lo`` and
``v_hi``: the record's value lies between them, both included; a value that was missing has neither. ``box``
numbers the box. Optional are ``weight`` (per record, 0 where a record was dismissed as rare) and
``v_distinct`` (distinct values of ``v`` in the box). What all other columns hold is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes import derived, intervals
from anoncore.kernels.boxes.confidence import confidence_interval
from anoncore.kernels.boxes.derived import PAIRED, QUANTILES, Derived
from anoncore.kernels.boxes.intervals import Estimate, Statistic
from anoncore.kernels.boxes.subgroups import mean_of_some

__all__ = ["BoxCheck", "Boxes", "ConfidenceInterval", "Estimate", "read_boxes"]

LOW, HIGH, DISTINCT, BOX, WEIGHT = "_lo", "_hi", "_distinct", "box", "weight"
# What parts the levels of a set: the first that stands in no level of the variable.
MARKS = ("|", ";", "/")

# Values a statistic can have at all; any where it is not listed.
POSSIBLE = {"variance": (0.0, np.inf), "sd": (0.0, np.inf), "correlation": (-1.0, 1.0)}
NOTHING = "the guaranteed range is all that is possible, so it says nothing"
WEIGHTED = (
    "the weights are larger where records lie close together, so they go with the values: this describes the "
    "weighted table and is biased for the population; read it beside the unweighted estimate"
)


@dataclass(frozen=True)
class BoxCheck:
    """How many boxes fall short of k records and of ℓ distinct values.

    Parameters
    ----------
    k : int
        Records asked of every box.
    below_k : int
        Boxes with fewer.
    l : int or None
        Distinct values asked of every variable in every box.
    below_l : dict of str to int
        For each variable with a count of distinct values, the boxes with fewer; a box in which the
        variable is missing throughout does not count.
    """

    k: int
    below_k: int
    l: int | None = None  # noqa: E741
    below_l: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether no box falls short."""
        return self.below_k == 0 and not any(self.below_l.values())


@dataclass(frozen=True)
class ConfidenceInterval:
    """Where a population's statistic lies: ``level`` of all samples give an interval that holds it, at least."""

    level: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Boxes:
    """A released table of boxes; made by `read_boxes`.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table as released, or some rows of it that stand for all.
    variables : tuple of str
        The variables that have bounds, in the order of their columns.
    codes : (N,) int
        The box of each row, 0 … boxes − 1.
    counts : (N,) int, optional
        Records that each row stands for; one where not stated.
    """

    frame: pd.DataFrame
    variables: tuple[str, ...]
    codes: NDArray[np.intp] = field(repr=False)
    counts: NDArray[np.intp] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Boxes({self.records} records, {self.boxes} boxes, k = {self.k}, of {', '.join(self.variables)})"

    @property
    def records(self) -> int:
        """Number of records."""
        return int(self._each.sum())

    @property
    def boxes(self) -> int:
        """Number of boxes."""
        return int(self.codes.max()) + 1

    @property
    def k(self) -> int:
        """Records in the smallest box."""
        return int(self._sizes.min())

    @property
    def weighted(self) -> bool:
        """Whether the table carries weights."""
        return WEIGHT in self.frame

    def estimate(
        self,
        statistic: str,
        *variables: str,
        weights: bool = False,
        unbiased: bool = False,
        within: Mapping[str, str] | None = None,
    ) -> Estimate:
        """Estimate a statistic with the range in which it certainly lies.

        Parameters
        ----------
        statistic : str
            "mean", "variance", "sd", "covariance", "correlation", "ratio", "slope", "lower_quartile", "median" or
            "upper_quartile", the variables following; or both in one, as in ``"correlation(income, age)"``.
        variables : str
            One, or two different ones for covariance, correlation, the ratio of totals of the first by the second,
            and the slope of the regression of the first on the second.
        weights : bool
            Weigh the records with the table's weights.
        unbiased : bool
            Divide by N − 1 instead of N; not with weights.
        within : mapping of variable to level, optional
            Only of the records that hold these levels. Where boxes hold a set of levels, only of a mean: how many of
            their records belong is not known, and the guaranteed range allows any number.

        Returns
        -------
        Estimate
            Of the records in which no variable asked for is missing. Its guaranteed range encloses the same
            statistic of the values that were put into boxes; its first-order range ends where the possible
            values do. The note says so where the guaranteed range is all that is possible.

        Raises
        ------
        AnonymizationError
            When the statistic, a variable, the weights or records to compute from are not there.

        Examples
        --------
        >>> table = pd.DataFrame({"box": [0, 0, 1], "age_lo": [20, 20, 40], "age_hi": [30, 30, 70]})
        >>> print(read_boxes(table).estimate("mean(age)"))
        mean(age) = 35.0, certainly within 26.6 to 43.4 (to first order 26.7 to 43.3; 3 records)
        """
        name, variables = self._asked(statistic, variables)
        present, first = self._present(variables)
        certain = present
        if within:
            certain, possible = self._members(within)
            present, certain = present & possible, present & certain
        if not present.any():
            raise AnonymizationError(
                f"{name}: no record {'of the subgroup ' if within else ''}has a value of {' and '.join(variables)}; "
                "choose other variables"
            )
        if within and name != "mean" and not certain[present].all():
            raise AnonymizationError(
                f"{name}: boxes hold sets of levels of {', '.join(within)}, so that only the mean of the subgroup can "
                "be bounded; ask for the mean, or release with categorical: constant"
            )
        counts = self._records(present)
        used = counts > 0
        lower, upper = (
            np.column_stack([_floats(self.frame, v + end)[first[used]] for v in variables]) for end in (LOW, HIGH)
        )
        each = self._each * (self._weights() if weights else 1.0)
        some, all_ = (
            np.bincount(self.codes, np.where(held, each, 0.0), self.boxes)[used].astype(np.float64)
            for held in (certain, present)
        )
        if not certain[present].all():
            estimate = replace(mean_of_some(lower[:, 0], upper[:, 0], some, all_), records=int(counts.sum()))
        else:
            mean_weight = all_ / counts[used] if weights else None
            estimate = _of_boxes(name, (lower, upper), counts[used], mean_weight, unbiased=unbiased)
        notes = [WEIGHTED] if weights else []
        if not present.all() and not within:
            notes.append(f"{counts.sum()} of {self.records} records have a value of {' and '.join(variables)}")
        notes += [estimate.note] if estimate.note else []
        least, most = POSSIBLE.get(name, (-np.inf, np.inf))
        # Where no box is known to hold one of the subgroup, all of them may lie in any box that may.
        if not certain.any() or (estimate.guaranteed[0] <= least and estimate.guaranteed[1] >= most):
            notes.append(NOTHING)
        low, high = (min(max(end, least), most) for end in estimate.linearised)
        return replace(
            estimate,
            linearised=(low, high),
            statistic=f"{'weighted ' if weights else ''}{name}({', '.join(variables)}{subgroup_text(within or {})})",
            note="; ".join(notes),
        )

    def confidence(
        self, statistic: str, *variables: str, levels: Sequence[float] = (0.5, 0.9, 0.95, 0.99)
    ) -> tuple[ConfidenceInterval, ...]:
        """Return nested confidence intervals of a population of which the records are a simple random sample.

        Parameters
        ----------
        statistic, variables : as for `estimate`; a mean or a quantile
        levels : confidence levels, above 0 and below 1

        Returns
        -------
        tuple of ConfidenceInterval
            One per level, in their order. Each accounts for the sample and for what the boxes leave open.

        Raises
        ------
        AnonymizationError
            When another statistic is asked for, or fewer than two records have values.

        Examples
        --------
        >>> table = pd.DataFrame({"box": range(40), "age_lo": range(40), "age_hi": range(1, 41)})
        >>> [(one.low, one.high) for one in read_boxes(table).confidence("median(age)", levels=(0.5, 0.95))]
        [(17.0, 23.0), (13.0, 27.0)]
        """
        name, variables = self._asked(statistic, variables)
        if name not in ("mean", *QUANTILES):
            raise AnonymizationError(f"confidence intervals are of a mean or a quantile, got {name}")
        if not all(0 < level < 1 for level in levels):
            raise AnonymizationError("levels must lie above 0 and below 1")
        present, first = self._present(variables)
        counts = self._records(present)
        if counts.sum() < 2:
            raise AnonymizationError(f"{name}: fewer than 2 records have a value of {variables[0]}")
        used = counts > 0
        low, high = (_floats(self.frame, variables[0] + end)[first[used]] for end in (LOW, HIGH))
        found = (confidence_interval(name, low, high, counts[used], level) for level in levels)
        return tuple(ConfidenceInterval(level, *ends) for level, ends in zip(levels, found, strict=True))

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
        """Return lower and upper bounds (B, n) of the boxes, NaN where a value is missing, and sizes (B,).

        Examples
        --------
        >>> table = pd.DataFrame({"box": [0, 0, 1], "age_lo": [20, 20, 40], "age_hi": [30, 30, 70]})
        >>> [part.ravel().tolist() for part in read_boxes(table).bounds()]
        [[20.0, 40.0], [30.0, 70.0], [2, 1]]
        """
        first = np.unique(self.codes, return_index=True)[1]
        low, high = (
            np.column_stack([_floats(self.frame, v + end)[first] for v in self.variables]) for end in (LOW, HIGH)
        )
        return low, high, self._sizes

    def points(self) -> pd.DataFrame:
        """Return the mid-points of the boxes, one row per row of the table.

        Returns
        -------
        pandas.DataFrame
            One float column per variable, in its units, with the table's index. A box with one bound gives
            that bound; NaN where the value is missing or a box has no bound at all.

        Examples
        --------
        >>> table = pd.DataFrame({"box": [0, 1], "age_lo": [20, 40], "age_hi": [30, np.inf]})
        >>> read_boxes(table).points()["age"].tolist()
        [25.0, 40.0]
        """
        columns = {}
        for v in self.variables:
            low, high = _floats(self.frame, v + LOW), _floats(self.frame, v + HIGH)
            middle = low / 2 + high / 2
            middle = np.where(np.isinf(low), high, np.where(np.isinf(high), low, middle))
            columns[v] = np.where(np.isinf(middle), np.nan, middle)
        return pd.DataFrame(columns, index=self.frame.index)

    def check(self, k: int, l: int | None = None) -> BoxCheck:  # noqa: E741
        """Count the boxes that do not keep what was promised.

        Parameters
        ----------
        k : int
            Records that every box should hold.
        l : int, optional
            Distinct values that every variable should have in every box; needs ``_distinct`` columns.

        Returns
        -------
        BoxCheck

        Raises
        ------
        AnonymizationError
            When ``l`` is given and the table does not count distinct values.

        Examples
        --------
        >>> table = pd.DataFrame({"box": [0, 0, 1], "age_lo": [20, 20, 40], "age_hi": [30, 30, 70]})
        >>> read_boxes(table).check(2).below_k
        1
        """
        below_k = int((self._sizes < k).sum())
        if l is None:
            return BoxCheck(k, below_k)
        counted = [v for v in self.variables if v + DISTINCT in self.frame]
        if not counted:
            raise AnonymizationError(
                f"the table has no column of distinct values (such as {self.variables[0] + DISTINCT!r}), "
                "so l cannot be checked; leave l out"
            )
        below = {}
        for v in counted:
            present, _ = self._present((v,))
            short = present & ~(_floats(self.frame, v + DISTINCT) >= l)
            below[v] = len(np.unique(self.codes[short]))
        return BoxCheck(k, below_k, l, below)

    @property
    def _each(self) -> NDArray[np.intp]:
        """How many records each row stands for, (N,)."""
        return np.ones(len(self.frame), dtype=np.intp) if self.counts is None else self.counts

    @property
    def _sizes(self) -> NDArray[np.intp]:
        """Records of each box, (B,)."""
        return self._records(np.ones(len(self.codes), dtype=bool))

    def _records(self, rows: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return how many records some rows stand for, in each box (B,)."""
        return np.bincount(self.codes, np.where(rows, self._each, 0), self.boxes).astype(np.intp)

    def _asked(self, statistic: str, variables: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        written = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", statistic)
        if written and variables:
            raise AnonymizationError(
                f"{statistic!r} names its variables already; leave out {', '.join(map(repr, variables))}, or "
                f"write the name alone: {written.group(1)!r}"
            )
        if written:
            statistic, inside = written.groups()
            variables = tuple(v.strip() for v in inside.split(","))
        name = statistic.strip().lower()
        allowed = (*get_args(Statistic), *get_args(Derived))
        if name not in allowed:
            raise AnonymizationError(
                f"statistic must be one of {', '.join(allowed)}, got {statistic!r}; "
                "write it as 'mean(income)' or 'correlation(income, age)'"
            )
        for v in variables:
            if v not in self.variables:
                raise AnonymizationError(f"there are no bounds of {v!r}; there are of {', '.join(self.variables)}")
        wanted = 2 if name in PAIRED else 1
        if len(variables) != wanted or len(set(variables)) != wanted:
            raise AnonymizationError(
                f"{name} needs {'two different variables' if wanted == 2 else 'one variable'}, "
                f"got {', '.join(variables) or 'none'}"
            )
        return name, variables

    def _present(self, variables: tuple[str, ...]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Return which records (N,) have all variables, and one of them per box (B,), any if none has."""
        present = np.ones(len(self.frame), dtype=bool)
        for v in variables:
            present &= ~np.isnan(_floats(self.frame, v + LOW))
        return present, _one_of_each(self.codes, present)

    def _members(self, within: Mapping[str, str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which records (N,) certainly hold the levels, and which may."""
        certain, possible = np.ones(len(self.frame), dtype=bool), np.ones(len(self.frame), dtype=bool)
        for name, level in within.items():
            if name not in self.frame or name in (BOX, WEIGHT):
                raise AnonymizationError(f"within: the table has no variable {name!r} with levels")
            codes, texts = pd.factorize(self.frame[name].astype("object").map(str, na_action="ignore"))
            holds = np.array([*(text == str(level) for text in texts), False])
            may = np.array([*(_may_hold(text, str(level)) for text in texts), False])
            certain, possible = certain & holds[codes], possible & may[codes]
        return certain, possible

    def _weights(self) -> NDArray[np.float64]:
        if not self.weighted:
            raise AnonymizationError(f"the table has no column {WEIGHT!r}; ask without weights")
        return _floats(self.frame, WEIGHT)


def _of_boxes(
    name: str,
    faces: tuple[NDArray[np.float64], NDArray[np.float64]],
    counts: NDArray[np.intp],
    mean_weight: NDArray[np.float64] | None,
    *,
    unbiased: bool,
) -> Estimate:
    """Return any statistic of boxes that hold known numbers of records."""
    if name in get_args(Derived):
        return derived.estimate(cast(Derived, name), *faces, counts, mean_weight)
    return intervals.estimate(cast(Statistic, name), *faces, counts, mean_weight, unbiased=unbiased)


def read_boxes(source: str | Path | pd.DataFrame, counts: NDArray[np.intp] | None = None) -> Boxes:
    """Read a released table of boxes and check that it is one.

    Parameters
    ----------
    source : path or pandas.DataFrame
        A Parquet (``.parquet``) or CSV file (``.csv``, ``.csv.gz``), or the table itself.
    counts : (N,) int, optional
        Records that each row stands for, where identical ones are given once; one where not stated.

    Returns
    -------
    Boxes

    Raises
    ------
    AnonymizationError
        When a column is missing, a bound has no partner or is no number, lower bounds exceed upper ones,
        records of one box have different bounds, or ``counts`` are not one for each row.

    Examples
    --------
    >>> table = pd.DataFrame({"box": [7, 7, 9], "age_lo": [20, 20, 40], "age_hi": [30, 30, 70]})
    >>> boxes = read_boxes(table)
    >>> boxes.variables, boxes.boxes, boxes.k
    (('age',), 2, 1)
    """
    frame = source.copy() if isinstance(source, pd.DataFrame) else _read(Path(source))
    variables = _variables(frame)
    if BOX not in frame:
        raise AnonymizationError(f"the table has no column {BOX!r} that numbers the boxes")
    if not len(frame):
        raise AnonymizationError("the table has no records")
    if counts is not None:
        counts = _whole_counts(counts, len(frame))
    if frame[BOX].isna().any():
        raise AnonymizationError(f"column {BOX!r}: {int(frame[BOX].isna().sum())} records are in no box")
    codes = pd.factorize(frame[BOX])[0].astype(np.intp)
    for v in variables:
        _check_bounds(v, _floats(frame, v + LOW), _floats(frame, v + HIGH), codes)
    if WEIGHT in frame:
        weight = _floats(frame, WEIGHT)
        wrong = int((~(np.isfinite(weight) & (weight >= 0))).sum())
        if wrong:
            raise AnonymizationError(f"column {WEIGHT!r}: {wrong} weights are missing, infinite or negative")
    codes.setflags(write=False)
    return Boxes(frame, variables, codes, counts)


def _whole_counts(counts: NDArray[np.integer], rows: int) -> NDArray[np.intp]:
    """Return a copy of counts that cannot be changed."""
    given = np.asarray(counts)
    if given.shape != (rows,) or given.dtype.kind not in "iu" or (given < 1).any():
        raise AnonymizationError(f"counts must hold {rows} whole numbers from 1 on, one for each row")
    own = np.array(given, dtype=np.intp)
    own.setflags(write=False)
    return own


def _read(path: Path) -> pd.DataFrame:
    kind = path.name.lower()
    if not kind.endswith((".parquet", ".csv", ".csv.gz")):
        raise AnonymizationError(f"{path.name}: the file must end in .parquet, .csv or .csv.gz")
    if not path.is_file():
        raise AnonymizationError(f"there is no file {path}")
    return pd.read_parquet(path) if kind.endswith(".parquet") else pd.read_csv(path)


def _variables(frame: pd.DataFrame) -> tuple[str, ...]:
    names = [str(c) for c in frame.columns]
    if len(set(names)) < len(names):
        raise AnonymizationError("two columns of the table have the same name")
    lows = [n.removesuffix(LOW) for n in names if n.endswith(LOW) and n != LOW]
    highs = [n.removesuffix(HIGH) for n in names if n.endswith(HIGH) and n != HIGH]
    for mine, others, end, other in ((lows, highs, LOW, HIGH), (highs, lows, HIGH, LOW)):
        alone = [v for v in mine if v not in others]
        if alone:
            raise AnonymizationError(f"column {alone[0] + end!r} has no partner {alone[0] + other!r}")
    if not lows:
        raise AnonymizationError(f"no variable has bounds: there is no pair of columns v{LOW} and v{HIGH}")
    return tuple(lows)


def _floats(frame: pd.DataFrame, column: str) -> NDArray[np.float64]:
    series: Any = frame[column]
    if not pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_bool_dtype(series.dtype):
        raise AnonymizationError(f"column {column!r} must hold numbers, it holds {series.dtype}")
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def _may_hold(text: str, level: str) -> bool:
    """Return whether a level may stand in a set; which mark parts the set is not known, so any may."""
    return text == level or any(level in text.split(mark) for mark in MARKS)


def subgroup_text(within: Mapping[str, str]) -> str:
    """Return a subgroup as it stands after the variables of a statistic: ``; sex = female``."""
    return "".join(f"; {name} = {level}" for name, level in within.items())


def _one_of_each(codes: NDArray[np.intp], eligible: NDArray[np.bool_]) -> NDArray[np.intp]:
    first = np.zeros(int(codes.max()) + 1, dtype=np.intp)
    rows = np.flatnonzero(eligible)[::-1]
    first[codes[rows]] = rows
    return first


def _check_bounds(name: str, low: NDArray[np.float64], high: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
    missing = np.isnan(low)
    problems = [
        (missing != np.isnan(high), "records have only one of the two bounds; a missing value has neither"),
        (low > high, "records have a lower bound above the upper one"),
        ((low == np.inf) | (high == -np.inf), "records have a lower bound of ∞ or an upper one of −∞"),
    ]
    first = _one_of_each(codes, ~missing)
    differs = ~missing & ((low != low[first][codes]) | (high != high[first][codes]))
    problems.append((differs, "records have other bounds than the rest of their box; a box has one pair"))
    for wrong, text in problems:
        if wrong.any():
            raise AnonymizationError(f"variable {name!r}: {int(wrong.sum())} {text}")
