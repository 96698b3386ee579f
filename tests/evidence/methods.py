"""What releases of every masking method give away to people whom the run never saw, and narrow swaps undone.

Run with ``python -m tests.evidence.methods adult nhanes survey eia nhefs --results FILE``. Of each table up to 1500
records are masked by the table's draft with its steps replaced by each way of masking, and judged by the default policy
beside as many others; the rest are strangers, of whom half are what the attacker knows of the population. Attacks are
those of `tests.evidence.strangers`. With ``--narrow N``, N draws of two to five columns are masked by spectral swapping
and attacked along the true axes of the members, those of the release, those of the columns and random ones, by what
scores along each axis show on five scales. Releases are appended to the file, one JSON object a line, and those that it
holds are not made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from sklearn.ensemble import HistGradientBoostingClassifier

from anoncore import AnonymizationError
from flows import embedded
from flows.draft import draft_plan
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import Refused
from tasks.common.home import Home
from tests.evidence.references import OF_RECORDS, population, with_known_levels
from tests.evidence.strangers import area, attacks, comparable

PEOPLE = 1500
RARE: dict[str, Any] = {"method": "rare-levels", "k": 10, "action": "redistribute"}
PRAM: dict[str, Any] = {"method": "pram"}
NUMBERS = {
    "mdav, k = 10": {"method": "mdav", "k": 10},
    "mdav, k = 30": {"method": "mdav", "k": 30},
    "rhs, k = 10": {"method": "rhs", "k": 10},
    "fuzzy-microaggregation": {"method": "fuzzy-microaggregation"},
    "additive-noise, b = 0.3": {"method": "additive-noise", "b": 0.3},
    "additive-noise, b = 3": {"method": "additive-noise", "b": 3.0},
    "rank-swapping": {"method": "rank-swapping"},
    "rank-swapping, window 0.3": {"method": "rank-swapping", "window": 0.3},
    "optimal-boxes, means": {"method": "optimal-boxes", "release": "means"},
}
WHOLE = {
    "spectral-swap": {"method": "spectral-swap"},
    "data-shuffling": {"method": "data-shuffling"},
    "sequential-trees, leaf 20": {"method": "sequential-trees", "leaf": 20},
    "sequential-trees, leaf 40": {"method": "sequential-trees", "leaf": 40},
    "spectral-synthesis": {"method": "spectral-synthesis"},
    "spectral-rhs, k = 10": {"method": "spectral-rhs", "k": 10},
    "spectral-rhs, k = 30": {"method": "spectral-rhs", "k": 30},
    "gower-microaggregation, k = 10": {"method": "gower-microaggregation", "k": 10},
    "gower-microaggregation, k = 30": {"method": "gower-microaggregation", "k": 30},
    "spectral-suppression": {"method": "spectral-suppression"},
}
WAYS = (
    {name: [RARE, step] for name, step in WHOLE.items()}
    | {f"{name}, after PRAM": [RARE, PRAM, step] for name, step in NUMBERS.items()}
    | {"spectral-swap, after PRAM": [RARE, PRAM, {"method": "spectral-swap"}]}
)
GROUPS = {"mdav", "rhs", "spectral-rhs", "fuzzy-microaggregation", "gower-microaggregation", "optimal-boxes"}
SCALES = (1, 3, 10, 30, 100)
Floats = NDArray[np.float64]


def masked(name: str, steps: list[dict[str, Any]], seed: int, columns: int = 0) -> dict[str, Any]:
    """Return verdicts and attacks of one release."""
    whole, rng = population(name), np.random.default_rng([seed, 31])
    if columns:
        wide = [c for c in whole if pd.api.types.is_numeric_dtype(whole[c]) and whole[c].nunique() > 40]
        wide = [c for c in wide if whole[c].notna().mean() > 0.5]
        whole = whole[sorted(rng.choice(wide, min(columns, len(wide)), replace=False))].dropna()
    each = min(PEOPLE, len(whole) // 3)
    order = rng.permutation(len(whole))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        parts = {"members": order[:each], "reference": order[each : 2 * each]}
        for part, rows in parts.items():
            whole.iloc[rows].to_csv(base / f"{part}.csv", index=False)
        outcome = _released(base, steps)
        if "gates" not in outcome:
            return outcome
        found = [*base.glob("home/releases/**/data.parquet"), *base.glob("home/candidates/**/data.parquet")]
        if not found:
            return outcome
        release = pd.read_parquet(found[0])
    same = [c for c in release if c in whole]
    if not same:
        return outcome
    tables = [whole.iloc[order[:each]][same], whole.iloc[order[2 * each : 2 * each + 6000]][same], release[same]]
    joined = pd.concat(tables, ignore_index=True).apply(comparable)
    ends = np.cumsum([len(one) for one in tables])
    members, others, rows = joined[: ends[0]], joined[ends[0] : ends[1]], joined[ends[1] :]
    if columns:
        return outcome | {"columns": same, "attacks": along_axes(members, others, rows)}
    return outcome | {"attacks": attacks(members, others, rows, np.arange(len(members)), np.arange(len(others)))}


def _released(base: Path, steps: list[dict[str, Any]]) -> dict[str, Any]:
    plan = yaml.safe_load(draft_plan(base / "members.csv", base))
    plan["steps"] = steps
    plan.pop("edits", None)
    # What decides on usefulness is left aside: of interest is what passes the gates on single records.
    plan["policy"]["utility"] |= {"beyond": 1.0, "impossible": 1.0}
    plan["policy"]["by_design"] = ["uncertainty"] if steps[-1]["method"] in GROUPS else []
    with_known_levels(base / "members.csv", base / "reference.csv", plan["variables"])
    other = {**plan["source"], "path": "reference.csv"}
    plan["reference"] = {"kind": "file", "source": other, "disjoint_by": "custodian"}
    path = base / "plan.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    try:
        outcome = carry_out(load_plan(path), Home.locate(base / "home"), Direct())
    except (AnonymizationError, Refused) as reason:
        return {"refused": f"{type(reason).__name__}: {reason}"[:300]}
    gates = {one.name: one.verdict for one in outcome.gates if one.verdict != "pass"}
    decided = {verdict for name, verdict in gates.items() if name in OF_RECORDS or verdict == "fail"}
    return {"gates": gates, "decision": "reject" if "fail" in decided else "ask" if decided else "pass"}


def along_axes(members: pd.DataFrame, others: pd.DataFrame, release: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return areas of what scores along axes show: the largest single form, and learned from half of the people."""
    rng = np.random.default_rng(1)
    found: dict[str, dict[str, float]] = {}
    for scale in ("as they are", "normal scores"):
        known, strangers = others[: len(others) // 2], others[len(others) // 2 :]
        people = members[: len(strangers)]
        tables = _scaled([people, strangers, known, release, members], scale)
        features = np.column_stack([_coincidence(axis, tables) for axis in _axes(tables, rng)])
        number = len(tables[0])
        forms = [area(column, number) for column in features.T]
        true = features[:, : tables[0].shape[1] * len(SCALES)]
        found[f"any axis, {scale}"] = max(forms, key=lambda one: one["area"])
        found[f"true axes, {scale}"] = max(
            (area(true[:, at :: len(SCALES)].sum(axis=1), number) for at in range(len(SCALES))),
            key=lambda one: one["area"],
        )
        found[f"learned, {scale}"] = _learned(features, number, rng)
    return found


def _scaled(tables: list[pd.DataFrame], scale: str) -> list[Floats]:
    whole = pd.concat(tables, ignore_index=True).to_numpy(np.float64, copy=True)
    ends = np.cumsum([len(one) for one in tables])
    if scale == "normal scores":
        for column in whole.T:
            reference = np.sort(column[ends[2] : ends[3]])
            at = np.searchsorted(reference, column, "left") + np.searchsorted(reference, column, "right")
            column[:] = norm.ppf((at + 1) / (2 * len(reference) + 2))
    own = whole[ends[3] :]
    whole = (whole - own.mean(axis=0)) / own.std(axis=0)
    return np.split(whole, ends[:-1])


def _axes(tables: list[Floats], rng: np.random.Generator) -> list[Floats]:
    """Return the true axes, then those of the release, of columns, near the true ones, and random ones."""
    width = tables[0].shape[1]
    true, released = (np.linalg.eigh(np.cov(tables[at].T))[1].T for at in (4, 3))
    near = [axis + rng.normal(0, 0.05, width) for axis in true for _ in range(4)]
    return [*true, *released, *np.eye(width), *near, *rng.normal(size=(40, width))]


def _coincidence(axis: Floats, tables: list[Floats]) -> Floats:
    """Return how much nearer the release's scores are than the population's, on each scale."""
    people, strangers, known, release = (table @ axis for table in tables[:4])
    asked = np.concatenate([people, strangers])
    near = [_kth(np.sort(side), asked) for side in (release, known)]
    return np.log(near[1] + 1e-9) - np.log(near[0] + 1e-9)


def _kth(rows: Floats, asked: Floats) -> Floats:
    """Return the distance of each value to the k-th nearest of the sorted ones, for each scale k."""
    at = np.searchsorted(rows, asked)
    most = max(SCALES)
    window = np.clip(at[:, None] + np.arange(-most, most), 0, len(rows) - 1)
    far = np.abs(rows[window] - asked[:, None])
    outside = at[:, None] + np.arange(-most, most) != window
    far[outside] = np.inf
    far.sort(axis=1)
    return np.minimum(far[:, [k - 1 for k in SCALES]], np.ptp(rows))


def _learned(features: Floats, number: int, rng: np.random.Generator) -> dict[str, float]:
    is_member = np.arange(len(features)) < number
    fold = rng.random(len(features)) < 0.5
    score = np.empty(len(features))
    for side in (fold, ~fold):
        model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(features[side], is_member[side])
        score[~side] = model.predict_proba(features[~side])[:, 1]
        score[~side] = rankdata(score[~side]) / (~side).sum()
    return area(score, number)


def main() -> None:
    """Mask tables in every way and append what came of each to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--narrow", type=int, default=0)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    made = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    narrow = [(f"{n} columns", n, draw) for draw in range(given.narrow) for n in (2, 3, 4, 5)]
    jobs = narrow or [(way, 0, given.seed) for way in given.ways]
    with tempfile.TemporaryDirectory() as tracking:
        embedded.apply(Path(tracking))
        embedded.tracking_ready(Path(tracking))
        for name in given.tables:
            for way, columns, seed in jobs:
                key = {"table": name, "way": way, "seed": seed}
                if any(key.items() <= one.items() for one in made):
                    continue
                steps = [{"method": "spectral-swap"}] if columns else WAYS[way]
                made.append(key | masked(name, steps, seed, columns))
                with given.results.open("a") as file:
                    file.write(json.dumps(made[-1]) + "\n")
                largest = max((one["area"] for one in made[-1].get("attacks", {}).values()), default=None)
                print(name, way, seed, made[-1].get("decision", made[-1].get("refused")), largest, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
