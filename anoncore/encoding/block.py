"""The columns of the encoded matrix that one variable occupies: fitted, encoded and decoded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd

from anoncore.encoding.scores import Decoding, assign, cut, logistic_probabilities, probability_names
from anoncore.kernels.ranks import interpolate_quantiles, normal_scores
from anoncore.kernels.smoothed_values import smoothed_values
from anoncore.kernels.ties import first_largest
from anoncore.microdata import Microdata, Units, Variable, outer_limits, round_to

NumericScale = Literal["log", "normal", "linear"]

# What is nearer to a threshold than these digits show is at it but for rounding.
_DIGITS = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class Smoothing:
    """How numbers come back from normal scores, see `anoncore.kernels.smoothed_values`.

    Parameters
    ----------
    k : numbers that at least so many records hold, and ``reach``, come back as they are
    reach : ranks over which others are averaged, either way
    units : (N,) statistical unit of each record, which are counted in place of records; None where each is its own
    rng : draws how many outermost units are passed over at each end, and reads averages at random places; without it
        five are, and at the ranks themselves
    """

    k: int
    reach: int
    units: Units | None = field(default=None, repr=False)
    rng: np.random.Generator | None = field(default=None, repr=False)

    def of(self, ordered: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return (n,) sorted numbers smoothed, where ``rows`` (n,) says which records they are of."""
        units = None if self.units is None else self.units[rows]
        limits = outer_limits(ordered, units)
        return np.sort(smoothed_values(ordered, self.reach, k=self.k, rng=self.rng, units=units, limits=limits))

    def too_few(self, rows: np.ndarray) -> bool:
        """Return whether at most k units hold the records ``rows`` (n,), so that no average of theirs hides one."""
        return (len(rows) if self.units is None else len(np.unique(self.units[rows]))) <= self.k


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of the encoded matrix that one variable occupies, and the parameters fitted for them.

    Parameters
    ----------
    variable : the variable
    start, width : its first column, and its number of columns without the missing indicator
    indicator : the column that says where values are missing; None where none was at fitting
    missing, records : missing values, and all records, at fitting
    fill : (width,), what stands in for a missing value
    counts : (q,) the records at each level
    location, scale : by which numbers are standardised
    floor : the least value of a logged variable; None for any other
    withheld : whether numbers come back missing: where some are, and at most k units hold any
    quantiles : scores and values, both sorted, of a variable on normal scores; records that hold one value share one
        score
    smoothed : scores and values from which released numbers are read: no two scores are equal, no value is that of
        fewer than k records, or statistical units
    """

    variable: Variable
    start: int
    width: int
    indicator: int | None
    missing: int
    records: int
    fill: np.ndarray = field(repr=False)
    counts: np.ndarray = field(repr=False)
    location: float = field(default=0.0, repr=False)
    scale: float = field(default=1.0, repr=False)
    floor: float | None = field(default=None, repr=False)
    withheld: bool = False
    quantiles: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    smoothed: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)

    @classmethod
    def fit(
        cls, column: pd.Series, variable: Variable, start: int, numeric: NumericScale, smoothing: Smoothing
    ) -> Block | None:
        """Fit one variable; None when it holds a single value or none, which needs no column."""
        missing = column.isna().to_numpy()
        values = numbers_of(column, variable)[~missing]
        if values.size == 0 or (not missing.any() and (values == values[0]).all()):
            return None
        levels = len(variable.levels or ())
        width = levels if variable.kind == "nominal" else 1
        block = cls(
            variable=variable,
            start=start,
            width=width,
            indicator=start + width if missing.any() else None,
            missing=int(missing.sum()),
            records=len(missing),
            fill=np.zeros(width),
            counts=np.bincount(values.astype(np.int64), minlength=levels)
            if variable.is_categorical
            else np.zeros(0, int),
        )
        if variable.kind == "continuous":
            rows = np.flatnonzero(~missing)
            block = replace(block, withheld=bool(missing.any()) and smoothing.too_few(rows))
            return block._fit_continuous(values, rows, numeric, smoothing)
        if variable.kind == "ordinal":
            return replace(block, location=float(values.mean()), scale=float(values.std()) or 1.0)
        return replace(block, fill=block._scores(values).mean(axis=0))

    def _fit_continuous(
        self, values: np.ndarray, rows: np.ndarray, numeric: NumericScale, smoothing: Smoothing
    ) -> Block:
        if numeric == "normal":
            order = np.argsort(values, kind="stable")
            ordered = values[order]
            smooth = smoothing.of(ordered, rows[order])
            distinct = normal_scores(np.arange(float(len(ordered))))
            return replace(self, quantiles=(normal_scores(ordered), ordered), smoothed=(distinct, smooth))
        log = numeric == "log" and bool(values.min() > 0)
        scaled = np.log(values) if log else values
        # The floor keeps a positive variable positive after rounding, and the log defined elsewhere.
        floor = (self.variable.precision or float(values.min()) / 2) if log else None
        location, scale = float(scaled.mean()), float(scaled.std())
        # Equal values differ from their mean by rounding.
        constant = scale <= 1e-12 * abs(location)
        return replace(self, location=location, scale=1.0 if constant else scale, floor=floor)

    @property
    def columns(self) -> slice:
        """The block's own columns, without the missing indicator."""
        return slice(self.start, self.start + self.width)

    @property
    def end(self) -> int:
        """The first column after the block and its missing indicator."""
        return self.start + self.width + (self.indicator is not None)

    def of_sample(self, records: int, rng: np.random.Generator) -> Block:
        """Return the block of so many records, with missing values and levels as often as in a sample."""
        missing = int(rng.binomial(records, self.missing / self.records))
        held = int(self.counts.sum())
        counts = rng.multinomial(records - missing, self.counts / held) if held else self.counts
        return replace(self, records=records, missing=missing, counts=counts)

    def column_names(self) -> list[str]:
        """Return a readable name for each column, the missing indicator included."""
        name = self.variable.name
        names = probability_names(self.variable) if self.variable.kind == "nominal" else [name]
        return names if self.indicator is None else [*names, f"{name} missing"]

    def encode_into(self, matrix: np.ndarray, data: Microdata) -> None:
        """Write the variable's scores in ``data`` to the block's columns of ``matrix`` (N, m)."""
        if self.variable.name in data.schema:
            column = data.frame[self.variable.name]
            missing, values = column.isna().to_numpy(), numbers_of(column, self.variable)
            if self.variable.kind == "nominal":
                self._write_levels(matrix[:, self.columns], values)
                matrix[missing, self.columns] = self.fill
            else:
                scores = self._scores(values)
                matrix[:, self.columns] = np.where((missing | np.isnan(scores[:, 0]))[:, None], self.fill, scores)
        else:
            chances = data.frame[probability_names(self.variable)].to_numpy(dtype="float64")
            missing = np.isnan(chances).any(axis=1)
            scores = 2.0 * (chances[:, 1:] if self.variable.kind == "binary" else chances) - 1.0
            matrix[:, self.columns] = np.where(missing[:, None], self.fill, scores)
        if self.indicator is not None:
            matrix[:, self.indicator] = np.where(missing, 1.0, -1.0)

    def decode(
        self, matrix: np.ndarray, form: Decoding, groups: np.ndarray | None
    ) -> list[tuple[Variable, np.ndarray | pd.Series]]:
        """Return the variable, or one per level where levels become probabilities, with its values."""
        missing, scores = self._decode_missing(matrix, form, groups), matrix[:, self.columns]
        if form == "probabilities" and self.variable.kind in ("binary", "nominal"):
            return self._probabilities(scores, missing)
        if self.variable.kind == "continuous":
            return [(self.variable, np.where(missing, np.nan, self._numbers(scores[:, 0])))]
        codes = np.full(len(scores), -1)
        codes[~missing] = self._codes(scores[~missing], form, None if groups is None else groups[~missing])
        return [(self.variable, levels_column(codes, self.variable))]

    def _scores(self, values: np.ndarray) -> np.ndarray:
        """Return (N, width) scores of values; rows of missing values are not meaningful."""
        if self.variable.kind == "nominal":
            scores = np.empty((len(values), self.width))
            self._write_levels(scores, values)
            return scores
        if self.variable.kind == "binary":
            return np.where(values == 1, 1.0, -1.0)[:, None]
        if self.quantiles is not None:
            scores, sorted_values = self.quantiles
            return np.interp(values, sorted_values, scores)[:, None]
        if self.floor is not None:
            values = np.log(np.maximum(values, self.floor))
        return ((values - self.location) / self.scale)[:, None]

    def _write_levels(self, scores: np.ndarray, values: np.ndarray) -> None:
        """Write 1 where a level (n,) is, −1 elsewhere; −1 throughout where it is NaN."""
        scores[:] = -1.0
        known = np.flatnonzero(~np.isnan(values))
        scores[known, values[known].astype(np.intp)] = 1.0

    def _decode_missing(self, matrix: np.ndarray, form: Decoding, groups: np.ndarray | None) -> np.ndarray:
        """Return (N,) bool: which records have no value."""
        if self.indicator is None:
            return np.zeros(len(matrix), dtype=bool)
        scores = matrix[:, self.indicator]
        if form == "mode":
            return np.asarray(np.round(scores, _DIGITS) > 0)
        return cut(scores, np.array([self.records - self.missing, self.missing]), groups) == 1

    def _codes(self, scores: np.ndarray, form: Decoding, groups: np.ndarray | None) -> np.ndarray:
        """Return (n,) positions of levels for scores (n, width) of records that have a value."""
        kind = self.variable.kind
        if form == "calibrated":
            nominal = kind == "nominal"
            return assign(scores, self.counts, groups) if nominal else cut(scores[:, 0], self.counts, groups)
        if kind == "nominal":
            return np.asarray(first_largest(scores))
        if kind == "binary":
            return np.asarray(np.round(scores[:, 0], _DIGITS) > 0)
        nearest = np.rint(np.round(scores[:, 0] * self.scale + self.location, _DIGITS))
        return np.clip(nearest, 0, len(self.variable.levels or ()) - 1).astype(int)

    def _numbers(self, scores: np.ndarray) -> np.ndarray:
        unit = self.variable.precision
        if self.withheld:
            return np.full(len(scores), np.nan)
        if self.smoothed is not None:
            return round_to(interpolate_quantiles(scores, *self.smoothed), unit)
        values = scores * self.scale + self.location
        if self.floor is None:
            return round_to(values, unit) + 0.0  # no −0
        return np.maximum(round_to(np.exp(values), unit), self.floor)

    def _probabilities(self, scores: np.ndarray, missing: np.ndarray) -> list[tuple[Variable, np.ndarray | pd.Series]]:
        name, role = self.variable.name, self.variable.role
        both = np.column_stack([-scores[:, 0], scores[:, 0]]) if self.variable.kind == "binary" else scores
        chances = np.where(missing[:, None], np.nan, np.round(logistic_probabilities(both), 3))
        texts = [f"probability that {name} is {level}" for level in self.variable.levels or ()]
        expanded = [
            Variable(own, "continuous", role=role, precision=0.001, description=text)
            for own, text in zip(probability_names(self.variable), texts, strict=True)
        ]
        return list(zip(expanded, chances.T, strict=True))


def levels_column(codes: np.ndarray, variable: Variable) -> pd.Series:
    """Return the levels at (N,) positions as a categorical column, missing where −1."""
    levels: pd.Index = pd.Index(list(variable.levels or ()))
    return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=variable.kind == "ordinal"))


def numbers_of(column: pd.Series, variable: Variable) -> np.ndarray:
    """Return (N,) float64: the numbers of a continuous variable, else level codes; NaN where missing."""
    if not variable.is_categorical:
        return column.to_numpy(dtype="float64")
    codes = np.asarray(pd.Categorical(column, categories=list(variable.levels or ())).codes, dtype="float64")
    codes[codes < 0] = np.nan
    return codes
