"""Releases of many tables, each attacked with people whom the run never saw, by code apart from the product.

Run with ``python -m tests.evidence.strangers FOLDER --results FILE --keep FOLDER``, on CSV files. Of each table a
random half of the units is drafted, and released by `anonflow run`; the other half are strangers. Half of these is what
the attacker knows of the population; the others are compared with members, one record of each unit. The release, or the
candidate where a person must decide, is measured by `tests.evidence.sense`, too. P-values are not corrected for the
number of attacks.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray
from scipy.stats import binomtest, rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from tests.evidence.releases import command
from tests.evidence.sense import sense

MOST = 20_000  # records of a table
PARTS = 60  # random parts of three variables
SUREST = 0.02  # of all people, those with the highest scores
Floats, Integers = NDArray[np.float64], NDArray[np.intp]


def released(path: Path, folder: Path) -> dict[str, Any]:
    """Return exit codes, seconds and figures of one table; what the commands say stays in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = pd.read_csv(path, low_memory=False)
    record: dict[str, Any] = {"table": path.stem, "records": len(whole), "variables": len(whole.columns)}
    first, plan = folder / "whole.yaml", folder / f"{path.stem}.yaml"
    command(folder, record, "plan", str(path), "-o", str(first))
    drafted = yaml.safe_load(first.read_text())
    unit = [name for name in drafted["unit"] if name in whole]
    numbers = whole.groupby(unit, dropna=False).ngroup().to_numpy() if unit else np.arange(len(whole))
    rng = np.random.default_rng(0)
    number = int(numbers.max()) + 1
    order = rng.permutation(number)[: max(2, int(number * min(1.0, MOST / len(whole))))]
    members = whole[np.isin(numbers, order[::2])]
    others = whole[np.isin(numbers, order[1::2])]
    members.to_csv(folder / "members.csv", index=False)
    others.to_csv(folder / "others.csv", index=False)
    command(folder, record, "plan", str(folder / "members.csv"), "-o", str(plan))
    command(folder, record, "run", str(plan), "--inline")
    record["unit"] = unit
    return record | measured(folder, unit)


def measured(folder: Path, unit: list[str]) -> dict[str, Any]:
    """Return the figures of what a folder holds; none where nothing was released or kept."""
    found = [*folder.glob("home/releases/**/data.parquet"), *folder.glob("home/candidates/**/data.parquet")]
    if not found:
        return {}
    release = pd.read_parquet(found[0])
    members, others = (pd.read_csv(folder / f"{name}.csv", low_memory=False) for name in ("members", "others"))
    same = [name for name in release if name in members]
    whole = pd.concat([table[same] for table in (members, others, release)], ignore_index=True).apply(comparable)
    ends = len(members), len(members) + len(others)
    own, strangers, rows = whole[: ends[0]], whole[ends[0] : ends[1]], whole[ends[1] :]
    units = _units(members, unit)
    return {
        "left out": [c for c in members if c not in release],
        "attacks": attacks(own, strangers, rows, units, _units(others, unit)),
        "sense": asdict(sense(own, rows, (), pd.Series(units, index=own.index) if unit else None)),
    }


def comparable(column: pd.Series) -> pd.Series:
    """Return a column as numbers where all of its values are, else as text."""
    text = column.astype("string")
    numbers = pd.to_numeric(text, errors="coerce").astype(np.float64)
    return numbers if numbers.notna().sum() == text.notna().sum() else text.astype(object)


def _units(table: pd.DataFrame, unit: list[str]) -> Integers:
    return table.groupby(unit, dropna=False).ngroup().to_numpy() if unit else np.arange(len(table))


def _one_of_each(units: Integers, rng: np.random.Generator) -> Integers:
    """Return the position of one random record of each unit, the units in random order."""
    order = rng.permutation(len(units))
    first = np.unique(units[order], return_index=True)[1]
    return order[rng.permutation(first)]


def attacks(
    members: pd.DataFrame, others: pd.DataFrame, release: pd.DataFrame, units: Integers, other_units: Integers
) -> dict[str, dict[str, float]]:
    """Return area, its standard error and a p-value of the highest scores, by attack."""
    rng = np.random.default_rng(1)
    is_known = rng.random(int(other_units.max()) + 1)[other_units] < 0.5
    known, strangers = others[is_known], others[~is_known].iloc[_one_of_each(other_units[~is_known], rng)]
    people = members.iloc[_one_of_each(units, rng)[: len(strangers)]]
    tables = [people, strangers, known, release]
    one, other, population, rows = _encoded(tables)
    asked = np.concatenate([one, other])
    scores = {"nearest": -_distance(asked, rows, 1)}
    for k in (1, 5):
        scores[f"ratio {k}"] = np.log(_distance(asked, population, k)) - np.log(_distance(asked, rows, k))
    scores["parts"] = _parts(tables, rng)
    scores["classifier"] = _classified(rows, population, asked)
    scores["products"] = _products(rows, population, asked)
    return {name: area(values, len(one)) for name, values in scores.items()}


def _encoded(tables: list[pd.DataFrame]) -> list[Floats]:
    whole = pd.concat(tables, ignore_index=True)
    columns = []
    for name in whole:
        values = whole[name]
        if pd.api.types.is_numeric_dtype(values) and values.nunique() > 10:
            spread = values.quantile(0.95) - values.quantile(0.05)
            columns.append((values.fillna(values.median()) / (spread or values.std() or 1.0)).to_numpy(np.float64))
            columns.append(values.isna().to_numpy(np.float64))
            continue
        text = whole[name].astype("string").fillna("missing")
        common = text.where(text.isin(text.value_counts().index[:30]), "rare")
        columns += [(common == level).to_numpy(np.float64) / np.sqrt(2) for level in common.unique()]
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return np.split(np.column_stack(columns), ends)


def _distance(asked: Floats, rows: Floats, k: int) -> Floats:
    found = NearestNeighbors(n_neighbors=min(k, len(rows))).fit(rows).kneighbors(asked)[0]
    return np.asarray(found[:, -1] + 1e-6, dtype=np.float64)


def _products(rows: Floats, population: Floats, asked: Floats) -> Floats:
    """Return the logarithm of the ratio of two normal densities, to the first order in their difference."""
    middle, spread = population.mean(axis=0), population.std(axis=0)
    varies = spread > 0
    sides = [np.clip((side - middle)[:, varies] / spread[varies], -6, 6) for side in (rows, population, asked)]
    variances, axes = np.linalg.eigh(np.cov(sides[1].T))
    released, known, people = (side @ (axes / np.sqrt(np.maximum(variances, 0) + 0.05)) for side in sides)
    square = released.T @ released / len(released) - known.T @ known / len(known)
    linear = people @ (released.mean(axis=0) - known.mean(axis=0))
    return np.asarray(linear + np.einsum("ij,ij->i", people @ square, people) / 2, dtype=np.float64)


def _parts(tables: list[pd.DataFrame], rng: np.random.Generator) -> Floats:
    """Return the mean logarithm of how much more frequent random parts of a record are in the release."""
    whole = pd.concat(tables, ignore_index=True).apply(lambda one: one.astype("string").fillna("missing"))
    ends = np.cumsum([len(table) for table in tables])
    score = np.zeros(ends[1])
    for _ in range(PARTS):
        names = rng.choice(whole.columns, min(3, whole.shape[1]), replace=False)
        code = whole.groupby(list(names), sort=False).ngroup().to_numpy()
        held = [np.bincount(code[a:b], minlength=code.max() + 1) for a, b in ((ends[1], ends[2]), (ends[2], ends[3]))]
        shares = [(n + 0.5) / (n.sum() + 1.0) for n in held]
        score += np.log(shares[1][code[: ends[1]]]) - np.log(shares[0][code[: ends[1]]])
    return score


def _classified(rows: Floats, population: Floats, asked: Floats) -> Floats:
    learnt = np.concatenate([rows, population])
    is_released = np.arange(len(learnt)) < len(rows)
    model = HistGradientBoostingClassifier(max_iter=80, random_state=0, class_weight="balanced")
    return np.asarray(model.fit(learnt, is_released).predict_proba(asked)[:, 1], dtype=np.float64)


def area(scores: Floats, members: int) -> dict[str, float]:
    ranks, n = rankdata(scores), len(scores)
    under = (ranks[:members].sum() - members * (members + 1) / 2) / (members * (n - members))
    # Ties are broken at random: those of equal score are as many members as not.
    jitter = np.random.default_rng(2).random(n)
    first = np.lexsort((jitter, -scores))[: max(20, round(SUREST * n))]
    right = int((first < members).sum())
    p = binomtest(right, len(first), members / n, "greater").pvalue
    error = np.sqrt((1 / members + 1 / (n - members)) / 12)
    return {
        "area": round(float(under), 4),
        "error": round(float(error), 4),
        "surest": round(right / len(first), 3),
        "p": p,
    }


def main() -> None:
    """Release tables and append what came of each to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", help="names of files without .csv; all of them where none is named")
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for path in sorted(given.folder.glob("*.csv")):
        if given.tables and path.stem not in given.tables:
            continue
        try:
            one = released(path, given.keep / path.stem)
        except (OSError, ValueError, KeyError) as error:
            one = {"table": path.stem, "run": f"{type(error).__name__}: {error}"}
        with given.results.open("a") as file:
            file.write(json.dumps(one, default=str) + "\n")
        print(one["table"], one["run"], flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
