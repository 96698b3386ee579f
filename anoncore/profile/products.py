"""Columns that are products or ratios of two others: an index of body mass, a price."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from anoncore.edits.product import ProductEdit
from anoncore.microdata import SPIKE
from anoncore.microdata.inference import MIN_COUNT, MIN_RECORDS
from anoncore.microdata.precision import observed_precision, outward
from anoncore.profile.dependents import UNLIKE
from anoncore.profile.edges import roundest
from anoncore.profile.findings import Finding
from anoncore.profile.tables import Table

MOST_COLUMNS = 120
SCREENED = 400  # records
POWERS = (1, -1, 2, -2)
UNEXPLAINED = 0.01  # of the variance of logarithms, on the screened records
NEAR_WHOLE = 0.1  # how far a fitted power may be from a whole one
NEARLY_ALL = 0.98  # of the records, in which the product holds up to rounding
NOISE = 1e-6  # relative, of numbers that are not rounded
# Of standard deviations: the deviation of nearly all records, and the median one of the second factor's logarithm.
FEW = 0.02


def products(table: Table, computed: Collection[str], sums: Collection[frozenset[str]]) -> list[Finding]:
    """Find columns of numbers from 0 on that are products of powers of two earlier ones, up to rounding.

    Powers are fitted to the records in which all three are positive; those with a 0 must give the product, too.

    Parameters
    ----------
    table : Table
    computed : variables that take no part
    sums : variables of a sum each: what adds up is no product, though an average may look like one

    Returns
    -------
    list of Finding, a `ProductEdit` for each column at most, with the number that stands where a factor divides and is
    0, if it is always the same. Those are not active that are present where a factor is missing, or missing where none
    is, in more than 1 % of the records, or that give another number where a frequent one stands: zeros would vanish.
    Tables of more than `MOST_COLUMNS` columns of numbers from 0 on, most of them positive, give none.
    """
    names = [n for n in table.numbers(computed, 5 * MIN_RECORDS) if _mostly_positive(table.numeric[n])]
    if not 3 <= len(names) <= MOST_COLUMNS:
        return []
    numbers = np.column_stack([table.numeric[n] for n in names])
    logs = np.log(np.where(numbers > 0, numbers, np.nan))
    accepted: dict[str, Finding] = {}
    for result in range(2, len(names)):
        for factors in _alike(logs, result):
            of = {names[at]: power for at, power in factors}
            if any({names[result], *of} <= terms for terms in sums) or not set(of).isdisjoint(accepted):
                continue
            if finding := _product(table, names[result], of, factors[1][0], logs):
                accepted[names[result]] = finding
                break
    return list(accepted.values())


def _mostly_positive(column: np.ndarray) -> bool:
    present = column[~np.isnan(column)]
    return bool(present.min() >= 0 and 2 * (present > 0).sum() > len(present))


def _alike(logs: np.ndarray, result: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the pairs of earlier columns, with powers, by which some records of column ``result`` are explained.

    The regressions of the logarithm on those of any two columns, in the screened records that hold all three.
    """
    complete = np.flatnonzero(~np.isnan(logs[:, result]))
    sample = logs[complete[:: max(1, len(complete) // SCREENED)]]
    known, y = ~np.isnan(sample[:, :result]) * 1.0, sample[:, [result]] - sample[:, result].mean()
    centre = np.nansum(sample[:, :result], axis=0) / np.maximum(known.sum(axis=0), 1.0)
    x = np.nan_to_num(sample[:, :result] - centre)
    n = known.T @ known
    count = np.maximum(n, 1.0)
    mean, mean_y, mean_yy = x.T @ known / count, (known * y).T @ known / count, (known * y**2).T @ known / count
    xx = (x**2).T @ known / count - mean**2
    xz = x.T @ x / count - mean * mean.T
    xy, yy = (x * y).T @ known / count - mean * mean_y, mean_yy - mean_y**2
    size = xx * xx.T - xz**2
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (xy * xx.T - xz * xy.T) / size  # of the row's column, beside the column's
        rest = 1.0 - (slope * xy + slope.T * xy.T) / yy
    slope = np.nan_to_num(slope)
    power = np.round(slope)
    near = (np.abs(slope - power) < NEAR_WHOLE) & np.isin(power, POWERS) & (size > 1e-9 * xx * xx.T)
    fits = near & near.T & (n >= MIN_RECORDS) & (rest < UNEXPLAINED)
    for first, second in np.argwhere(np.triu(fits, 1)).tolist():
        yield (first, int(power[first, second])), (second, int(power[second, first]))


def _product(table: Table, result: str, of: dict[str, int], second: int, logs: np.ndarray) -> Finding | None:
    """Return the edit, where nearly all records hold up to rounding and beside what the second factor explains."""
    columns = {name: table.numeric[name] for name in (*of, result)}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        computed = np.prod([columns[n] ** float(p) for n, p in of.items()], axis=0)
    otherwise, undefined = _otherwise(table, columns, computed, result)
    here = np.isfinite(computed) & ~np.isnan(columns[result])
    value, plain = columns[result][here], computed[here]
    positive = (value > 0) & (plain > 0)
    if positive.sum() < 5 * MIN_RECORDS:
        return None
    factor = float(np.median(value[positive] / plain[positive]))
    unit = observed_precision(columns[result]) or 0.0
    rounding = NOISE + unit / value.max()
    factor = roundest(factor * (1 - rounding), factor * (1 + rounding))
    away = np.abs(value - factor * plain)
    tolerance = outward(float(np.quantile(away, NEARLY_ALL)), upward=True)
    small = np.median(away[positive] / value[positive]) < FEW * np.nanstd(logs[here, second])
    if not small or tolerance > FEW * value.std():
        return None
    broken = int((away > tolerance).sum())
    present = np.isfinite(computed) if otherwise is None else np.isfinite(computed) | undefined
    alike = np.mean(present != ~np.isnan(columns[result]))
    name = f"{result} is a product"
    edit = ProductEdit(name=name, dependent=result, of=of, factor=factor, tolerance=tolerance, otherwise=otherwise)
    why = f"in all but {broken} of {len(value)} records" if broken else ""
    why = why if alike <= UNLIKE else "present where a factor is missing or divides and is 0, or the reverse"
    lost = _lost(value, away, unit)
    why = why if lost is None else f"the product is another number where {lost:.12g} stands"
    return Finding(edit, why, active=bool(alike <= UNLIKE) and lost is None, broken=broken)


def _lost(value: np.ndarray, away: np.ndarray, unit: float) -> float | None:
    """Return a frequent number that most products of its records miss by more than a unit; None without one."""
    numbers, at, held = np.unique(value, return_inverse=True, return_counts=True)
    for number in np.flatnonzero(held >= max(SPIKE * len(value), MIN_RECORDS)):
        if np.median(away[at == number]) > unit + NOISE * abs(numbers[number]):
            return float(numbers[number])
    return None


def _otherwise(
    table: Table, columns: dict[str, np.ndarray], computed: np.ndarray, result: str
) -> tuple[float | None, np.ndarray]:
    """Return the one number of ``result`` where its factors are present and give none, and (N,) where that is.

    None where there is another one or none at all, or fewer than `MIN_COUNT` units hold it.
    """
    undefined = ~np.isfinite(computed) & ~np.any([np.isnan(v) for n, v in columns.items() if n != result], axis=0)
    stated = np.unique(columns[result][undefined])
    holders = undefined.sum() if table.units is None else len(np.unique(table.units[undefined]))
    alone = len(stated) == 1 and np.isfinite(stated[0]) and holders >= MIN_COUNT
    return (float(stated[0]) if alone else None), undefined
