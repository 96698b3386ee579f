"""One variable in one table, and how far it lies from the same variable of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from scipy.stats import norm

from anoncore.encoding import probability_names
from anoncore.microdata import SPIKE, Microdata, Variable, outer_limits
from anoncore.utility._sides import Distribution, Floats, effective_size, level_codes, numbers

QUANTILES = np.arange(1, 20) / 20.0
# Of the absolute value of a standard normal number.
MEAN, DEVIATION = np.sqrt(2 / np.pi), np.sqrt(1 - 2 / np.pi)
_NOTICED = 0.02 / 3.0  # a third of the share by which a spike may move in any case
ROUNDING = 1e-9  # of the larger limit: a value that rounding errors move beyond it is not beyond


@dataclass(frozen=True)
class Summary:
    """One variable in one table.

    Parameters
    ----------
    missing : share of records without a value
    mean, variance : of the numbers present, divisor N; None for levels, or when there is none
    shares : of the values present at each of the variable's levels; None for numbers, or when there is none
    """

    missing: float
    mean: float | None = None
    variance: float | None = None
    shares: tuple[float, ...] | None = None

    def at_levels(self, keep: Sequence[bool]) -> Summary:
        """Return the same with the shares of some levels only."""
        return self if self.shares is None else replace(self, shares=tuple(compress(self.shares, keep)))


@dataclass(frozen=True)
class Shift:
    """How far one variable of a table lies from the original's; 0 is unchanged.

    Parameters
    ----------
    distance : 0 … 1, the largest of kolmogorov, total_variation and missing; 1 when one of the two tables
        has no value at all and the other has
    missing : difference of the shares without a value
    mean, variance : numbers only; |difference| / sd and / variance of the original, undivided where the
        original is constant
    kolmogorov : numbers and ordinal variables
    quantile : numbers only; mean |difference| of the 5 % … 95 % quantiles / sd
    total_variation : levels only, half the sum of |differences| of shares
    beyond : numbers only; share of the records, each counting the same, whose value lies beyond the range of all of
        the original's values, each end of it rounded outward to the next of 1, 2 or 5 × 10ᵉ where fewer than five
        units hold it
    spike : numbers only; largest |difference| of the share of a value that at least 5 % of the original's values are
    spike_error : its standard error between two samples; both None where there is no such value

    Notes
    -----
    None where the variable's kind has no such figure, or one of the tables no value.
    """

    distance: float
    missing: float
    mean: float | None = None
    variance: float | None = None
    kolmogorov: float | None = None
    quantile: float | None = None
    total_variation: float | None = None
    beyond: float | None = None
    spike: float | None = None
    spike_error: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    """One variable in one table: its summary, of so many units, and of numbers their distribution.

    ``present`` are the numbers present, of records with weight 0 too, ``limits`` those of their range that may be
    published, and ``records`` those of the table.
    """

    summary: Summary
    size: float
    distribution: Distribution | None = None
    present: Floats | None = None
    limits: tuple[float, float] | None = None
    records: int = 0


def number_side(table: Microdata, variable: Variable, array: Floats | None) -> Side:
    """Summarise the numbers of one table."""
    values = numbers(table, variable.name)
    missing = np.isnan(values)
    present, share = ~missing if array is None else ~missing & (array > 0), _share(missing, array)
    size, held = effective_size(array, table.n_units), values[~missing]
    units = None if table.units is None else table.units[~missing]
    limits = outer_limits(held, units) if len(held) else None
    if not present.any():
        return Side(Summary(share), size, None, held, limits, len(table))
    values, array = values[present], None if array is None else array[present]
    shifted = values - values[0]  # a constant then varies by exactly zero
    mean = float(np.average(shifted, weights=array))
    variance = float(np.average((shifted - mean) ** 2, weights=array)) if np.ptp(shifted) > 0 else 0.0
    distribution = Distribution.of(values, array)
    return Side(Summary(share, mean + float(values[0]), variance), size, distribution, held, limits, len(table))


def level_side(table: Microdata, variable: Variable, levels: tuple[object, ...], array: Floats | None) -> Side:
    """Summarise the levels of one table, also where they were released as probabilities."""
    if variable.name in table.schema:
        codes = level_codes(table, variable.name, levels)
        missing = codes < 0
        weights = None if array is None else array[~missing]
        held = np.bincount(codes[~missing], weights=weights, minlength=len(levels)).astype(np.float64)
    else:
        chances = table.frame[probability_names(variable)].to_numpy(dtype="float64")
        missing = np.isnan(chances).any(axis=1)
        held = np.zeros(len(levels))
        own = chances[~missing]
        held[: chances.shape[1]] = own.sum(axis=0) if array is None else array[~missing] @ own
    total = held.sum()
    shares = tuple((held / total).tolist()) if total > 0 else None
    return Side(Summary(_share(missing, array), shares=shares), effective_size(array, table.n_units))


def _share(which: np.ndarray, array: Floats | None) -> float:
    return float(which.mean()) if array is None else float(array[which].sum() / array.sum())


def shift_of(variable: Variable, original: Side, other: Side) -> Shift:
    """Return how far one side lies from the other."""
    a, b = original.summary, other.summary
    missing = abs(a.missing - b.missing)
    if variable.is_categorical:
        if a.shares is None or b.shares is None:
            return Shift(float((a.shares is None) != (b.shares is None)), missing)
        difference = np.array(b.shares) - np.array(a.shares)
        variation = float(np.abs(difference).sum() / 2)
        steps = float(np.abs(np.cumsum(difference)).max()) if variable.kind == "ordinal" else None
        return Shift(max(variation, missing), missing, kolmogorov=steps, total_variation=variation)
    if a.mean is None or a.variance is None or b.mean is None or b.variance is None:
        return Shift(float((a.mean is None) != (b.mean is None)), missing, beyond=_beyond(original, other))
    assert original.distribution is not None
    assert other.distribution is not None
    scale = a.variance if a.variance > 0 else 1.0
    spike, error = _spike(original, other)
    apart = original.distribution.kolmogorov(other.distribution)
    moved = np.abs(other.distribution.quantiles(QUANTILES) - original.distribution.quantiles(QUANTILES))
    return Shift(
        distance=max(apart, missing),
        missing=missing,
        mean=abs(b.mean - a.mean) / float(np.sqrt(scale)),
        variance=abs(b.variance - a.variance) / scale,
        kolmogorov=apart,
        quantile=float(moved.mean() / np.sqrt(scale)),
        beyond=_beyond(original, other),
        spike=spike,
        spike_error=error,
    )


def _beyond(original: Side, other: Side) -> float | None:
    """Return the share of records with a value beyond the original's limits; None where that has no value."""
    if original.limits is None:
        return None
    assert other.present is not None
    (low, high), slack = original.limits, ROUNDING * max(map(abs, original.limits))
    return float(((other.present < low - slack) | (other.present > high + slack)).sum() / other.records)


def _spike(original: Side, other: Side) -> tuple[float | None, float | None]:
    """Return how far the share of a frequent value has moved, and the standard error of that by chance.

    Of several values that whose move is largest beside its error, so that a common one does not hide a rarer one that
    was lost; moves of `_NOTICED` count alike, however small the error.
    """
    assert original.distribution is not None
    assert other.distribution is not None
    shares = np.diff(original.distribution.cumulative, prepend=0.0)
    spikes, held = original.distribution.values[shares >= SPIKE], shares[shares >= SPIKE]
    if not len(spikes):
        return None, None
    at = other.distribution.at(spikes) - other.distribution.at(np.nextafter(spikes, -np.inf))
    sizes = [side.size * (1.0 - side.summary.missing) for side in (original, other)]
    errors = np.sqrt(held * (1 - held) * sum(1 / size for size in sizes))
    worst = int((np.abs(at - held) / np.maximum(errors, _NOTICED)).argmax())
    return float(abs(at - held)[worst]), float(errors[worst])


def two_samples(variable: Variable, original: Side, other: Side, of: int) -> float:
    """Return what the distance of the worst of so many variables is between two samples, on this variable's scale.

    The median of the largest: Kolmogorov's distribution for numbers; for levels the mean of the total variation and
    so many standard deviations, in the normal approximation; and the same for the share that is missing.
    """
    tail = 1.0 - 0.5 ** (1.0 / of)
    z = float(norm.isf(tail / 2))
    missing = original.summary.missing
    apart = z * np.sqrt(missing * (1 - missing) * (1 / original.size + 1 / other.size))
    sizes = [side.size * (1.0 - side.summary.missing) for side in (original, other)]
    if not all(sizes):
        return float(apart)
    error = sum(1 / size for size in sizes)
    if not variable.is_categorical:
        return float(max(apart, np.sqrt(np.log(2 / tail) / 2 * error)))
    shares = np.array(original.summary.shares)
    return float(max(apart, np.sqrt(shares * (1 - shares) * error).sum() / 2 * (MEAN + DEVIATION * z)))
