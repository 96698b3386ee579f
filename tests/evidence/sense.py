"""What a release keeps of its source, measured apart from the product: no function of `anoncore` is used.

Each measure takes the source and the release as tables of the same columns. Distances stand beside the same figure
between two samples, of which the source's halves are taken; that of samples as large as the source is smaller by √2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

LEVELS = 20  # numbers with at most so many different values are compared as levels, too
SPIKE = 0.05  # share from which a value of a number is a spike
EXPECTED = 10  # records of a combination, if two variables were independent
Models = Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Sense:
    """Figures of one release.

    Parameters
    ----------
    beyond : numbers below the smallest or above the largest one of the source, by variable
    fractions : numbers that are not whole where all of the source's are
    spikes : by variable and value, the largest changes of share, of values that a twentieth of the source holds
    dependencies : (followed, of) pairs of variables where the first determines the second in the source
    skips : (broken, of) levels at which a variable is missing, or never missing, throughout the source
    combinations : pairs of levels that the source does not hold, expected ten times at least: of the release's
        records, how many hold one, and of how many such pairs
    marginals, pairs : variables, or pairs, with the largest excess over what is allowed: (name, distance, two samples)
    slopes : by model, overlap of the confidence intervals of each slope
    propensity : mean squared error of a logistic regression on all variables, as ratio to its null
    """

    beyond: Mapping[str, int]
    fractions: int
    spikes: Mapping[str, float]
    dependencies: tuple[int, int]
    broken_dependencies: Mapping[str, float]
    skips: tuple[int, int]
    combinations: tuple[int, int]
    marginals: Sequence[tuple[str, float, float]]
    pairs: Sequence[tuple[str, float, float]]
    slopes: Mapping[str, Mapping[str, float]]
    propensity: float


def sense(source: pd.DataFrame, released: pd.DataFrame, models: Models, units: pd.Series | None = None) -> Sense:
    """Return every figure; `units` numbers the records that halves keep together."""
    common = [name for name in source if name in released and source[name].notna().any()]
    source, released = source[common], released[common]
    numbers = [name for name in common if pd.api.types.is_numeric_dtype(source[name])]
    few = [name for name in numbers if max(source[name].nunique(), released[name].nunique()) <= LEVELS]
    levels = [name for name in common if name in few or name not in numbers]
    rng = np.random.default_rng(0)
    of = units.to_numpy() if units is not None else np.arange(len(source))
    first = pd.Series(of).isin(rng.permutation(np.unique(of))[::2]).to_numpy()
    halves = source[first], source[~first]
    followed, dependencies, broken = _dependencies(source, released, common)
    return Sense(
        beyond={n: c for n in numbers if (c := _beyond(source[n], released[n]))},
        fractions=sum(_fractions(source[n], released[n]) for n in numbers),
        spikes=_spikes(source, released, [n for n in numbers if source[n].nunique() > LEVELS]),
        dependencies=(followed, dependencies),
        broken_dependencies=broken,
        skips=_skips(source, released, levels),
        combinations=_combinations(source, released, levels),
        marginals=_worst(_marginals(source, released, numbers), _marginals(*halves, numbers), 0.05),
        pairs=_worst(_pairs(source, released, numbers, levels), _pairs(*halves, numbers, levels), 0.10),
        slopes={f"{y} ~ {' + '.join(x)}": overlaps(source, released, y, x) for y, x in models},
        propensity=propensity_ratio(source, released),
    )


def _beyond(a: pd.Series, b: pd.Series) -> int:
    return int(((b < a.min()) | (b > a.max())).sum())


def _fractions(a: pd.Series, b: pd.Series) -> int:
    return int((b.dropna() % 1 != 0).sum()) if (a.dropna() % 1 == 0).all() else 0


def _spikes(a: pd.DataFrame, b: pd.DataFrame, numbers: Sequence[str]) -> dict[str, float]:
    moved = {}
    for name in numbers:
        shares = a[name].value_counts(normalize=True)
        for value in shares.index[shares >= SPIKE]:
            moved[f"{name} = {value:g}"] = float((b[name] == value).sum() / b[name].notna().sum() - shares[value])
    return dict(sorted(moved.items(), key=lambda one: -abs(one[1]))[:3])


def _dependencies(a: pd.DataFrame, b: pd.DataFrame, names: Sequence[str]) -> tuple[int, int, dict[str, float]]:
    """Return how many pairs the release follows, of how many where five records a level show a dependency."""
    followed = found = 0
    broken = {}
    for x in names:
        sizes = a[x].value_counts()
        if not 2 <= len(sizes) <= len(a) / 20 or sizes.median() < 5:
            continue
        for y in names:
            part = a[[x, y]].dropna()
            if y == x or part[y].nunique() < 2 or len(part.drop_duplicates()) > part[x].nunique():
                continue
            if part[y].value_counts(normalize=True).iloc[0] > 0.95:
                continue
            known = part.drop_duplicates(x).set_index(x)[y]
            seen = b[[x, y]].dropna()
            right = (seen[x].map(known) == seen[y]).mean() if len(seen) else 1.0
            found += 1
            followed += int(right == 1)
            if right < 1:
                broken[f"{x} -> {y}"] = float(right)
    return followed, found, broken


def _skips(a: pd.DataFrame, b: pd.DataFrame, levels: Sequence[str]) -> tuple[int, int]:
    broken = found = 0
    for y in a:
        missing = a[y].isna()
        if not 0.02 <= missing.mean() <= 0.98:
            continue
        for x in levels:
            if x == y:
                continue
            by = missing.groupby(a[x], observed=True).agg(["mean", "size"])
            for level in by.index[(by["mean"].isin([0, 1])) & (by["size"] >= 50)]:
                expected = missing.mean() if by["mean"][level] == 0 else 1 - missing.mean()
                if expected * by["size"][level] < EXPECTED:
                    continue
                found += 1
                at = b[x] == level
                broken += int((b.loc[at, y].isna() != bool(by["mean"][level])).sum())
    return broken, found


def _combinations(a: pd.DataFrame, b: pd.DataFrame, levels: Sequence[str]) -> tuple[int, int]:
    held = found = 0
    for at, x in enumerate(levels):
        for y in levels[at + 1 :]:
            table = pd.crosstab(a[x], a[y])
            expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(table.to_numpy().sum(), 1)
            never = (table.to_numpy() == 0) & (expected >= EXPECTED)
            if never.any():
                seen = pd.crosstab(b[x], b[y]).reindex(index=table.index, columns=table.columns, fill_value=0)
                found += int(never.sum())
                held += int(seen.to_numpy()[never].sum())
    return held, found


def _marginals(a: pd.DataFrame, b: pd.DataFrame, numbers: Sequence[str]) -> dict[str, float]:
    """Return Kolmogorov's distance of numbers and the total variation of levels, missing values being a level."""
    figures = {}
    for name in a:
        shares = abs(float(a[name].isna().mean() - b[name].isna().mean()))
        if name in numbers:
            x, y = a[name].dropna(), b[name].dropna()
            figures[name] = max(shares, float(ks_2samp(x, y).statistic) if len(x) and len(y) else 1.0)
        else:
            p, q = (one[name].value_counts(normalize=True, dropna=False) for one in (a, b))
            figures[name] = float(p.sub(q, fill_value=0).abs().sum() / 2)
    return figures


def _pairs(a: pd.DataFrame, b: pd.DataFrame, numbers: Sequence[str], levels: Sequence[str]) -> dict[str, float]:
    """Return the change of Pearson's correlation, the correlation ratio (root) and Cramér's V, complete pairs."""
    figures = {}
    quantities = [n for n in numbers if n not in levels]
    correlations = [one[quantities].corr(min_periods=30).to_numpy() for one in (a, b)]
    for i, x in enumerate(quantities):
        for j in range(i):
            figures[f"{x}, {quantities[j]}"] = abs(correlations[0][i, j] - correlations[1][i, j])
    few = [n for n in levels if a[n].nunique() <= 50]
    for x in few:
        for y in quantities:
            figures[f"{x}, {y}"] = abs(_ratio(a[x], a[y]) - _ratio(b[x], b[y]))
    for i, x in enumerate(few):
        for y in few[:i]:
            figures[f"{x}, {y}"] = abs(_cramer(a[x], a[y]) - _cramer(b[x], b[y]))
    return {name: float(v) for name, v in figures.items() if np.isfinite(v)}


def _ratio(level: pd.Series, number: pd.Series) -> float:
    both = level.notna() & number.notna()
    if both.sum() < 30 or number[both].var() == 0:
        return np.nan
    means = number[both].groupby(level[both], observed=True).transform("mean")
    return float(np.sqrt(means.var() / number[both].var()))


def _cramer(x: pd.Series, y: pd.Series) -> float:
    table = pd.crosstab(x, y).to_numpy()
    n = table.sum()
    if n < 30 or min(table.shape) < 2:
        return np.nan
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / n / (min(table.shape) - 1)))


def _worst(moved: Mapping[str, float], halves: Mapping[str, float], least: float) -> list[tuple[str, float, float]]:
    """Return the three that exceed max(least, twice the figure of two samples) most, or come nearest to it."""
    figures = [(name, value, float(halves.get(name, 0.0) / np.sqrt(2))) for name, value in moved.items()]
    return sorted(figures, key=lambda one: max(least, 2 * one[2]) - one[1])[:3]


def overlaps(a: pd.DataFrame, b: pd.DataFrame, y: str, x: Sequence[str]) -> dict[str, float]:
    """Return the mean overlap of both 95 % intervals, as share of either, of each slope of a least-squares fit."""
    if not {y, *x} <= set(b.columns):
        return {}
    (first, names), (second, _) = _fit(a, a, y, x), _fit(a, b, y, x)
    shared = np.minimum(first[1], second[1]) - np.maximum(first[0], second[0])
    lengths = [one[1] - one[0] for one in (first, second)]
    means = np.maximum(shared, 0) / 2 * sum(1 / length for length in lengths)
    return dict(zip(names, (float(v) for v in means), strict=True))


def _fit(
    a: pd.DataFrame, b: pd.DataFrame, y: str, x: Sequence[str]
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], list[str]]:
    """Return the ends of the intervals of the slopes of `b`, the levels being those of `a`."""
    part = b[[y, *x]].dropna()
    target = part[y] if pd.api.types.is_numeric_dtype(a[y]) else part[y] == a[y].mode()[0]
    columns = {}
    for name in x:
        if pd.api.types.is_numeric_dtype(a[name]):
            columns[name] = part[name].to_numpy(float)
        else:
            for level in a[name].value_counts().index[1:4]:
                columns[f"{name}={level}"] = (part[name] == level).to_numpy(float)
    design = np.column_stack([np.ones(len(part)), *columns.values()])
    values = target.to_numpy(float)
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ design.T @ values
    variance = ((values - design @ slopes) ** 2).sum() / (len(part) - design.shape[1])
    errors = 1.96 * np.sqrt(np.diag(inverse) * variance)
    return (slopes[1:] - errors[1:], slopes[1:] + errors[1:]), list(columns)


def propensity_ratio(a: pd.DataFrame, b: pd.DataFrame) -> float:
    """Return the mean squared error of a logistic regression as ratio to its null (Snoke et al. 2018, section 3)."""
    both = pd.concat([a, b], ignore_index=True)
    columns = []
    for name in both:
        if pd.api.types.is_numeric_dtype(a[name]):
            columns += [both[name].fillna(a[name].median()).astype(float), both[name].isna().astype(float)]
        else:
            columns += [(both[name] == level).astype(float) for level in a[name].value_counts().index[:30]]
    design = np.column_stack(columns)
    design = StandardScaler().fit_transform(design[:, design.std(axis=0) > 0])
    label = np.repeat([0, 1], [len(a), len(b)])
    share = len(b) / len(both)
    fitted = LogisticRegression(C=1e4, max_iter=500).fit(design, label)
    error = float(np.mean((fitted.predict_proba(design)[:, 1] - share) ** 2))
    parameters = cast(int, np.linalg.matrix_rank(design))
    return error / (parameters * share * (1 - share) ** 2 / len(both))
