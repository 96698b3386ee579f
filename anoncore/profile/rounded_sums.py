"""Sums and averages that hold up to rounding, in nearly every record."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from anoncore.microdata.precision import observed_precision
from anoncore.profile.findings import MIN_ROWS
from anoncore.profile.relations import Relation, canonical

NEAREST = 12  # columns, most correlated with the total, among which its parts are looked for
SAMPLE = 2000  # records on which coefficients are fitted
HOLDS = 0.985  # share of the records that must satisfy a sum up to rounding
KEPT = 0.95  # share of the totals whose parts are all present
TRIMMED = 0.9  # share of the records, with the smallest deviations, that are fitted again
COARSE = 0.1  # of a term's standard deviation: the unit to which it may be rounded
NEAR_WHOLE = 0.06  # how far a fitted coefficient may be from the fraction it is taken for
MAX_SHARE = 3  # parts of an average, at most
MOST_COLUMNS = 200


def rounded_sums(values: np.ndarray, totals: Iterable[int]) -> list[tuple[Relation, float]]:
    """Find columns that are sums, or averages, of others up to rounding, with the tolerance that rounding needs.

    Parameters
    ----------
    values : (N, n) float64, NaN where missing
    totals : columns among which sums are looked for; the largest are tried as totals first

    Returns
    -------
    list of (Relation, float)
        At least three terms. The parts of a total are fitted by least squares among the columns most correlated with
        it, again without the records that deviate most, and rounded to simple fractions.
    """
    totals = sorted(totals, key=lambda j: -float(np.nanmean(np.abs(values[:, j]))))
    units = np.array([observed_precision(column) or np.inf for column in values.T])
    if not 3 <= len(totals) <= MOST_COLUMNS:
        return []
    step = max(1, len(values) // SAMPLE)
    sample = values[::step]
    present = ~np.isnan(sample)
    centred = np.where(present, sample - np.nanmean(sample, axis=0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = centred / np.sqrt((centred**2).sum(axis=0))
    near = np.abs(np.nan_to_num(scaled.T @ scaled))
    sums: list[tuple[Relation, float]] = []
    taken: set[frozenset[int]] = set()
    for total in totals:
        beside = present[present[:, total]].mean(axis=0) if present[:, total].any() else np.zeros(values.shape[1])
        usable = [j for j in totals if j != total and beside[j] >= KEPT]
        parts = sorted(usable, key=lambda j: -near[total, j])[:NEAREST]
        relation = _fitted(sample, total, parts) if len(parts) > 1 else None
        if relation is None or frozenset(relation[0]) in taken:
            continue
        tolerance = _tolerance(values, units, relation, total)
        if tolerance is not None:
            taken.add(frozenset(relation[0]))
            exact = canonical(*relation)
            sums.append((exact, tolerance * abs(exact[1][exact[0].index(total)])))
    return sums


def _fitted(sample: np.ndarray, total: int, parts: list[int]) -> Relation | None:
    """Return the total as a sum of parts with simple coefficients, or None."""
    for _ in range(3):
        rows = sample[~np.isnan(sample[:, [total, *parts]]).any(axis=1)]
        if len(rows) < MIN_ROWS + 2 * len(parts):
            return None
        x, y = rows[:, parts], rows[:, total]
        scale = np.sqrt((x**2).mean(axis=0))
        if not scale.all():
            return None
        fit = np.linalg.lstsq(x / scale, y, rcond=None)[0] / scale
        for _ in range(2):
            gap = np.abs(y - x @ fit)
            keep = gap <= np.quantile(gap, TRIMMED)
            fit = np.linalg.lstsq(x[keep] / scale, y[keep], rcond=None)[0] / scale
        # What a column adds to the total, of how much the total varies.
        adds = np.abs(fit) * x.std(axis=0) > 2e-3 * y.std()
        large = adds & (np.abs(fit) > 1 / (MAX_SHARE + 1))
        if large.sum() < 2:
            return None
        if large.all():
            break
        parts = [j for j, one in zip(parts, large, strict=True) if one]
    simple = [float(Fraction(c).limit_denominator(MAX_SHARE)) for c in fit.tolist()]
    near = all(abs(c - s) <= NEAR_WHOLE * abs(s) for c, s in zip(fit.tolist(), simple, strict=True))
    whole = all(abs(s) == 1 for s in simple)
    average = len(set(simple)) == 1 and round(simple[0] * len(simple), 9) == 1
    return ((*parts, total), (*simple, -1.0)) if near and (whole or average) else None


def _tolerance(values: np.ndarray, units: np.ndarray, relation: Relation, total: int) -> float | None:
    """Return the slack that rounding explains and that nearly all records keep, or None."""
    columns, coefficients = list(relation[0]), np.array(relation[1])
    part = values[:, columns]
    present = ~np.isnan(part)
    whole = present.all(axis=1)
    if whole.sum() < MIN_ROWS or (present[:, -1] & ~whole).sum() > (1 - KEPT) * present[:, -1].sum():
        return None
    part = part[whole]
    coarsest = float(np.max(units[columns]))
    if not np.isfinite(coarsest) or coarsest > COARSE * float(part.std(axis=0).min()):
        return None
    gap = np.abs(part @ coefficients)
    share = np.array([(gap <= (t + 1e-6) * coarsest).mean() for t in range(1, len(columns))])
    enough = np.flatnonzero(share >= HOLDS)
    return float((enough[0] + 1) * coarsest) if len(enough) else None
