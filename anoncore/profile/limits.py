"""Limits of numbers: what the data say, rounded so that no limit is the number of a few units."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from anoncore.edits.kinds import BoundEdit
from anoncore.microdata.inference import MAX_LISTED, MIN_COUNT
from anoncore.microdata.precision import MAX_DECIMALS, outer_limits, outward
from anoncore.profile.findings import MIN_ROWS, Finding
from anoncore.profile.tables import OFTEN, Table

PER_CENT = 100.0
INNER = 25  # a unit's place from the end, from which to the place of `MIN_COUNT` the tail is measured
# Lengths of that part of the tail, within which the outermost number of an exponential tail is 97 times in 100.
BEYOND = 3.0
STEPS = 10  # of the range, at most: limits are multiples of one
DIGITS = 3  # of a limit that many units hold, but that was stored with the noise of binary numbers


def bounds(table: Table, computed: Collection[str]) -> Iterator[Finding]:
    """Limit each number but those in ``computed``, on both sides."""
    for name, column in table.numeric.items():
        present = column[~table.missing[name]]
        if len(present) < MIN_ROWS or name in computed or present.min() == present.max():
            continue
        low, high = float(present.min()), float(present.max())
        units = None if table.units is None else table.units[~table.missing[name]]
        lower, upper = sensible_limits(present, units, table.precision[name])
        fractions = (present != np.round(present)).any()
        if low >= 0 and high <= 1 and fractions:
            lower, upper = 0.0, 1.0
        if low >= 0 and high == PER_CENT and fractions:
            upper = high
        if np.isfinite([lower, upper]).all():
            edit = BoundEdit(name=f"limits of {name}", variable=name, lower=lower, upper=upper)
            yield Finding(edit, _spike(present, low))


def sensible_limits(values: np.ndarray, units: np.ndarray | None, precision: float | None) -> tuple[float, float]:
    """Return limits of numbers (N,): the extreme where five units hold it, else a round number beyond.

    That number is as far beyond the fifth unit from the end as the tail from there to the 25th, three times, rounded
    outward to a tenth of the range, or the next 1, 2 or 5 × 10ᵉ beyond the fifth unit where that is nearer. Where the
    extreme lies beyond both it is the next 1, 2 or 5 × 10ᵉ beyond that. So a limit tells of the single largest unit
    whether it lies within what the others suggest, and else its order of magnitude.

    Parameters
    ----------
    values : none missing
    units : (N,) the statistical unit of each; None where each record is one of its own
    precision : of which the values are multiples, if any

    Examples
    --------
    >>> sensible_limits(np.arange(18.0, 92.0).repeat(9)[:-8], None, 1.0)
    (18.0, 100.0)
    """
    ladder = outer_limits(values, units)
    upper = _end(values, units, precision, ladder[1])
    lower = -_end(-values, units, precision, -ladder[0])
    if values.min() >= 0:
        lower = max(lower, 0.0)
        lower = math.floor(lower) if (precision or 0.0) >= 1 else lower
    return lower + 0.0, upper


def _end(values: np.ndarray, units: np.ndarray | None, precision: float | None, ladder: float) -> float:
    """Return the upper limit of numbers; ``ladder`` where the greatest number lies beyond what many units hold."""
    greatest = float(values.max())
    if ladder == greatest:
        return ladder if _is_short(ladder) else _rounded_up(ladder)
    each = np.sort(values if units is None else _largest_of_units(values, units))
    if len(each) < 2 * INNER:
        return ladder
    outer, inner = float(each[-MIN_COUNT]), float(each[-INNER])
    step = max(outward((outer - float(values.min())) / STEPS, upward=True), precision or 0.0)
    if not 0 < step < math.inf:
        return ladder
    end = float(np.round(math.ceil((outer + BEYOND * (outer - inner)) / step) * step, MAX_DECIMALS))
    return min((e for e in (end, outward(outer, upward=True)) if e > greatest), default=ladder)


def _largest_of_units(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    _, of = np.unique(units, return_inverse=True)
    largest = np.full(int(of.max()) + 1, -np.inf)
    np.maximum.at(largest, of, values)
    return largest


def _is_short(value: float) -> bool:
    return bool(round(value, MAX_DECIMALS) == value)


def _rounded_up(value: float) -> float:
    """Return the next number of `DIGITS` digits above."""
    size = abs(value)
    decimals = DIGITS - 1 - math.floor(math.log10(size))
    return float(np.round(math.ceil(value * 10.0**decimals) / 10.0**decimals, max(decimals, 0)))


def _spike(present: np.ndarray, low: float) -> str:
    """Return a remark where many records hold 0, or the least value, of a number that otherwise varies."""
    at = 0.0 if low <= 0 <= present.max() else low
    share = float((present == at).mean())
    return f"{at:.12g} in {share:.0%} of the records" if share >= OFTEN and len(np.unique(present)) > MAX_LISTED else ""
