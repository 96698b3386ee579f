"""The page on other bases, on axes that are left out or emphasised, and on synthesis and suppression in a basis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import anoncore
from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.kernels.isolated_scores import isolated
from anoncore.kernels.score_basis import score_basis
from anoncore.kernels.smoothed_values import recommended_reach
from anoncore.kernels.spectral_swap import jittered
from anoncore.methods import SpectralRHS, SpectralSwap, SpectralSynthesis
from anoncore.risk import nearest_distance_attack
from anoncore.risk.agreement import agreement
from anoncore.risk.coincidence import score_coincidence_attack
from anoncore.risk.density import density
from anoncore.utility import utility_figures
from tests.papers.kernel_scores import swap_kernel_scores
from tests.papers.pages import Page, Row
from tests.papers.reproduction import grid, nhanes, nhanes_adults, nhefs

SETTINGS: dict[str, Any] = {
    "principal": SpectralSwap(numeric="linear"),
    "independent": SpectralSwap(numeric="linear", axes="independent"),
    "principal, normal scores": SpectralSwap(numeric="normal"),
    "independent, normal scores": SpectralSwap(numeric="normal", axes="independent"),
    "principal, 10 clusters": SpectralSwap(numeric="linear", local=10),
    "kernel, width 1": 1.0,
    "kernel, width 0.5": 0.5,
}
SEEDS = (1, 2, 3)
PEOPLE = 1500
LEFT_OUT = (1.0, 0.95, 0.8, 0.5)
EMPHASES = ((5, 0.0), (5, 0.5), (5, 1.0), (5, 2.0), (10, 0.0), (10, 1.0))
ATTACKED = {
    "swap": SpectralSwap(),
    "swap, normal scores, drawn marginals": SpectralSwap(numeric="normal", marginals="drawn"),
    "synthesis": SpectralSynthesis(),
    "synthesis, normal law on each axis": SpectralSynthesis(scores="normal"),
    "synthesis, independent components": SpectralSynthesis(axes="independent"),
}
FIGURES = ("told_apart", "sample", "coincidence", "moved")
ATTACKS = ("nearest", "density", "agreement", "coincidence")
RULES = ((5, 0.25), (20, 0.25), (20, 0.1))
BODY = ["WeightKg", "StandingHeightCm", "BodyMassIndexKgm2", "WaistCircumferenceCm", "AgeInYearsAtScreening"]


def mixed_exponentials(rng: np.random.Generator) -> np.ndarray:
    return rng.exponential(size=(1500, 3)) @ np.array([[2.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.0, 0.5, 1.5]])


def bent(rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=1500)
    return np.column_stack([x, np.square(x) + 0.3 * rng.normal(size=1500), rng.normal(size=1500)])


def ring(rng: np.random.Generator) -> np.ndarray:
    angle, radius = rng.uniform(0, 2 * np.pi, 1500), 3 + 0.3 * rng.normal(size=1500)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=1500)])


def measures(rng: np.random.Generator) -> np.ndarray:
    x = nhefs().frame[["wt82", "wt71", "sbp", "dbp", "age"]].dropna().to_numpy(dtype=float)
    return x[rng.permutation(len(x))]


TABLES = {"mixed exponentials": mixed_exponentials, "bent": bent, "ring": ring, "NHEFS": measures}


def measure(table: str, setting: str, seeds: Sequence[int] = SEEDS) -> Row:
    """Return how well trees tell a release from a sample of its own kind, and how well members are told."""
    found = []
    params = SETTINGS[setting]
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x = standardised(TABLES[table](rng))
        members, others = x[: len(x) // 2], x[len(x) // 2 : len(x) // 2 * 2]
        if isinstance(params, float):
            masked = swap_kernel_scores(members, width=params, rng=rng)
        else:
            names = [f"x{i}" for i in range(x.shape[1])]
            data = Microdata(pd.DataFrame(members, columns=names), Schema(Variable(n, "continuous") for n in names))
            masked = anoncore.anonymize(data, params, rng=rng).data.frame.to_numpy(dtype=float)
        masked = rounded_as(masked, x)
        axes = score_basis(members, "independent" if "independent" in setting else "principal").frame
        attack = score_coincidence_attack(members, others, masked, loadings=axes.loadings)
        moved = np.abs(np.cov(masked.T) - np.cov(members.T)).max()
        found.append([told_apart(masked, others), told_apart(members, others), attack.attack.auc, moved])
    row: Row = {"table": table, "setting": setting}
    return row | dict(
        zip(("told_apart", "sample", "coincidence", "moved"), np.mean(found, axis=0).tolist(), strict=True)
    )


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def rounded_as(masked: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return values moved to the nearest that occur in the table, so that rounding tells nothing apart."""
    moved = np.empty_like(masked)
    for column, values in enumerate(x.T):
        there = np.unique(values)
        middle = (there[1:] + there[:-1]) / 2
        moved[:, column] = there[np.searchsorted(middle, masked[:, column])] if len(there) < 600 else masked[:, column]
    return moved


def told_apart(one: np.ndarray, other: np.ndarray) -> float:
    """Return the area under the curve of boosted trees that tell two tables apart, in five folds; 0.5 if alike."""
    rows, label = np.concatenate([one, other]), np.repeat([1, 0], [len(one), len(other)])
    trees = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return float(roc_auc_score(label, cross_val_predict(trees, rows, label, cv=folds, method="predict_proba")[:, 1]))


@cache
def people() -> Microdata:
    return nhanes()


def drawn(seed: int) -> tuple[Microdata, Microdata]:
    """Draw members and as many strangers of NHANES, whom no run sees."""
    order = np.random.default_rng(seed).permutation(len(people()))
    return people().take(order[:PEOPLE]), people().take(order[PEOPLE : 2 * PEOPLE])


def means(part: str, name: str, one: Callable[[int], Row], seeds: Iterable[int] = SEEDS) -> Row:
    """Return the means of what is measured with each seed."""
    rows = [one(seed) for seed in seeds]
    return {"part": part, "setting": name} | {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def attacked(params: anoncore.method.Method, seed: int) -> Row:
    """Return the areas of the attacks on membership with fresh strangers, and what trees tell apart."""
    members, strangers = drawn(seed)
    released = anoncore.anonymize(members, params, rng=np.random.default_rng([seed, 1])).data
    encoder = Encoder.fit(members)
    x, other, y = (encoder.encode(table) for table in (members, strangers, released))
    matched = agreement(members, released, strangers, rng=np.random.default_rng([seed, 2]))
    assert matched is not None
    return {
        "nearest": nearest_distance_attack(x, other, y).auc,
        "density": density(x, other, y, rng=np.random.default_rng([seed, 3])).worst.attack.area.auc,
        "agreement": matched.worst.attack.area.auc,
        "coincidence": score_coincidence_attack(x, other, y).attack.auc,
        "trees": told_apart(y, other),
    }


def left_out(leading: float, seed: int) -> Row:
    """Return the loss and the risk of leaving out axes; and the risk of leaving their scores together instead."""
    members, strangers = drawn(seed)
    encoder = Encoder.fit(members)
    x, other = encoder.encode(members), encoder.encode(strangers)
    y = anoncore.anonymize(members, SpectralSwap(leading=leading), rng=np.random.default_rng([seed, 1])).scores
    used = score_basis(x, leading=leading)
    rest = np.setdiff1d(score_basis(x).live, used.live)
    row: Row = {
        "axes": float(len(used.live)),
        "variance": y.var(axis=0).sum() / x.var(axis=0).sum(),
        "correlation": utility_figures(x, y).correlation.median,
        "nearest": nearest_distance_attack(x, other, y).auc,
        "coincidence": score_coincidence_attack(x, other, y).attack.auc,
    }
    if len(rest):
        row["together"] = permuted_together(x, other, rest, np.random.default_rng([seed, 2]))
    return row


def permuted_together(x: np.ndarray, other: np.ndarray, rest: np.ndarray, rng: np.random.Generator) -> float:
    """Return the area of the nearest distance on axes whose scores, smoothed as always, are permuted as one."""
    frame = score_basis(x).frame
    own, theirs = ((side - frame.center) @ frame.loadings[:, rest] for side in (x, other))
    kept = np.empty_like(own)
    reach = recommended_reach(len(x), len(score_basis(x).live))
    for axis, column in enumerate(own.T):
        kept[np.argsort(column, kind="stable"), axis] = jittered(column, reach, rng)
    spread = own.std(axis=0)
    return nearest_distance_attack(own / spread, theirs / spread, kept / spread).auc


def emphasised(k: int, emphasis: float, seed: int) -> Row:
    """Return the loss and the risk of spectral RHS whose axes count with a power of their lengths."""
    members, strangers = drawn(seed)
    encoder = Encoder.fit(members)
    x, other = encoder.encode(members), encoder.encode(strangers)
    y = anoncore.anonymize(members, SpectralRHS(k=k, emphasis=emphasis), rng=np.random.default_rng(seed)).scores
    return {
        "variance": y.var(axis=0).sum() / x.var(axis=0).sum(),
        "correlation": utility_figures(x, y).correlation.median,
        "nearest": nearest_distance_attack(x, other, y).auc,
    }


def measured_bodies() -> dict[str, np.ndarray]:
    """Return measurements of NHEFS and of NHANES, standardised."""
    names = ["wt71", "wt82", "sbp", "dbp", "ht", "age", "cholesterol", "smokeintensity"]
    tables = {"NHEFS": nhefs().frame[names], "NHANES": nhanes_adults()[BODY]}
    return {name: standardised(table.dropna().to_numpy(dtype=float)) for name, table in tables.items()}


def imputed(table: np.ndarray, few: np.ndarray, model: Callable[[], Any]) -> float:
    """Return the share of the variance of suppressed cells that models of the other columns give back."""
    rest, error, total = np.where(few, 0.0, table), 0.0, 0.0
    for at, gone in enumerate(few.T):
        if gone.any():
            others, own = np.delete(rest, at, axis=1), table[:, at]
            guess = model().fit(others[~gone], own[~gone]).predict(others[gone])
            error += np.square(guess - own[gone]).sum()
            total += np.square(own[gone] - own[~gone].mean()).sum()
    return float(1 - error / total)


def suppressed(name: str, k: int, within: float) -> Row:
    """Return what is imputed of cells that few share, as they are and in the spectral basis."""
    x = measured_bodies()[name]
    scores = score_basis(x).scores
    row: Row = {"part": "suppression", "table": name, "k": k, "within": within, "n": len(x)}
    for kind, table in (("cells", x), ("scores", scores / scores.std(axis=0))):
        few = np.column_stack([isolated(column, within, k) for column in table.T])
        row |= {
            kind: float(few.mean()),
            f"{kind}_records": float(few.any(axis=1).mean()),
            f"{kind}_line": imputed(table, few, LinearRegression),
            f"{kind}_trees": imputed(table, few, lambda: HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=8)),
        }
    return row


def measured() -> list[Row]:
    rows = [measure(table, setting) for table in TABLES for setting in SETTINGS]
    rows.append(measure("mixed exponentials", "independent", [1]) | {"table": "check"})
    rows += [means("left out", f"{share:g}", lambda seed, share=share: left_out(share, seed)) for share in LEFT_OUT]
    rows += [
        means("emphasis", f"{k}, {power:g}", lambda seed, k=k, power=power: emphasised(k, power, seed))
        for k, power in EMPHASES
    ]
    rows += [
        means("attacks", name, lambda seed, params=params: attacked(params, seed)) for name, params in ATTACKED.items()
    ]
    return rows + [suppressed(name, *rule) for name in ("NHEFS", "NHANES") for rule in RULES]


TEXT = """# Other bases and methods in a spectral basis

Generated by `make reproduction` (`python -m tests.papers bases`); edit the generator, not this page. Every figure is in
[bases.json](reproduction/bases.json): means of seeds 1 to {seeds}. It takes a minute of one processor.

What Lasko and Vinterbo (2010) propose and do not measure: other bases and data with non-linear structure, axes that are
emphasised, synthesis and cell suppression in a spectral basis. The paper has no figures for any of it.

## Bases

Permuting scores independently draws from the distribution of the data if the scores are independent, which principal
scores are for normal data alone. `axes: independent` permutes along independent components (FastICA); `numeric: normal`
and `local` are the other remedies.

| table | what it is |
|---|---|
| mixed exponentials | three independent exponential variables, mixed linearly |
| bent | x normal, y = x² + noise, and one variable apart |
| ring | points around a circle, and one variable apart |
| NHEFS | wt82, wt71, sbp, dbp, age |

Half of the records are masked. *Told apart*: area under the curve of boosted trees that tell the release, rounded as
the table is, from the other half, in five folds; 0.5 is alike. *Sample*: the same of the half itself. *Coincidence*:
area of the attack on membership by scores that recur, by an attacker who knows the axes of the masked records, which
are a secret; 0.5 is guessing. *Covariance*: the one that moved most, in standard deviations.

{bases}
- Where components are independent, swapping along them gives the distribution back; principal axes fill corners that
  are empty.
- Where a relation bends, no linear basis does; swapping within clusters keeps most of it.
- On real measurements independent components keep more than principal axes on the linear scale, and normal scores with
  principal axes keep most.
- Independent components are refused without `jitter: auto`: the assessment looks for recurring scores along principal
  axes.

**Kernel scores are not offered.** They are the principal scores in the feature space of a Gaussian kernel
(`tests/papers/kernel_scores.py`: the kernel at centres of at least ten records, the record for moved scores by the
fixed-point iteration of Mika et al. 1999, what is left swapped linearly). Such scores are uncorrelated and yet
functions of each other, as a bend is of the first axis. Permuted independently they are the scores of no record: what
is decoded is the nearest point that the iteration finds, and covariances are lost. Clusters do better on every table,
also on the bend and the ring, for which kernels are made.

## Axes left out and emphasised

NHANES as in the [reproduction](reproduction.md), {people} members and as many strangers, whom no run sees. *Variance*:
its share that is released. *Nearest* and *coincidence*: areas of the attacks on membership, 0.5 is guessing.

Swapping with `leading`: the longest principal axes that hold this share of the variance, the others left out.
*Together* is not offered: the other axes, smoothed like all, are permuted as one instead of being left out, and the
area is that of the nearest distance on them, by an attacker who knows the axes.

{left_out}
- Leaving axes out hides members neither better nor worse. It loses their variance, and correlations move: what the
  longest axes share is all that variables have left.
- The axes that are left show in the release: records lie in the space that they span. Which axes these are within it
  remains secret.
- Keeping short axes together keeps whole combinations of a member's scores, which smoothing does not hide: the more of
  them, the surer members are recognised.

Spectral RHS with `emphasis`: axes count with this power of their lengths when groups are cut.

{emphasis}
- With 0 groups are wide along the long axes: members are hidden better and more variance is lost. Groups of five with
  0 hide about as well as groups of ten with 1; they keep less variance, and move correlations half as far.

## Synthesis

[Spectral synthesis](../reference/methods/spectral-synthesis.md) draws scores in place of permuting them. The same
members and strangers; the worst form of each attack. *Trees*: how well boosted trees tell the release from strangers;
0.5 is alike. Taking the worst form of several raises an area above 0.5 without any leak.

{attacks}
- Synthesis reveals no more than swapping with the same scale, and keeps as much.
- Drawing from a normal law on each axis loses little more here.

## Cell suppression

The paper supposes that cells suppressed in a spectral basis are harder to impute, since correlated information leaves
together. A cell is suppressed where fewer than k people have a value within a distance, in standard deviations: of a
variable, or of a principal score ([spectral-suppression](../reference/methods/spectral-suppression.md)). An attacker
predicts what was suppressed from the rest of the record, for scores with the axes known, by regressions or boosted
trees learned from all other people. *Regression* and *trees*: the share of the variance that they give back; the mean
gives back none.

{suppression}
- The supposition holds against regressions: they give back a part of suppressed cells, nearly all of NHANES's, and
  nothing of suppressed scores.
- It does not hold against trees where a variable is a non-linear function of others: of NHANES's measurements the
  body mass index is weight by height squared. Without such a relation, in NHEFS, trees find next to nothing.
- More records are touched, since an axis may single out those whom no variable does.

## Departures

The paper defines none of these methods. Smoothing of scores, drawn counts, the rule by which a score is rare, filling
suppressed scores with those of others and the power of lengths are ours.
"""


def table(rows: Sequence[Row], part: str, head: Sequence[str], keys: Sequence[str]) -> str:
    """Return the table of a part: its settings and the figures ``keys``."""
    shown = [row for row in rows if row.get("part") == part]
    return grid(head, [[row["setting"], *(figure(row, key) for key in keys)] for row in shown])


def figure(row: Row, key: str) -> str:
    return f"{row[key]:.3f}".removesuffix(".000") if key in row else "–"


def rendered(rows: Sequence[Row]) -> str:
    bases = [
        [row["table"], row["setting"], *(f"{row[key]:.3f}" for key in FIGURES)]
        for row in rows
        if row.get("table") in TABLES and "told_apart" in row
    ]
    kinds = ("cells", "scores")
    suppression = [
        [row["table"], f"{row['k']}, {row['within']:g}"]
        + [f"{row[f'{kind}_records']:.1%}".replace("%", " %") for kind in kinds]
        + [f"{row[f'{kind}{what}']:.2f}" for what in ("_line", "_trees") for kind in kinds]
        for row in rows
        if row.get("part") == "suppression"
    ]
    return TEXT.format(
        seeds=SEEDS[-1],
        people=PEOPLE,
        bases=grid(["table", "setting", "told apart", "sample", "coincidence", "covariance"], bases),
        left_out=table(
            rows,
            "left out",
            ["leading", "axes", "variance", "correlation moved, median", "nearest", "coincidence", "together"],
            ("axes", "variance", "correlation", "nearest", "coincidence", "together"),
        ),
        emphasis=table(
            rows,
            "emphasis",
            ["k, emphasis", "variance", "correlation moved, median", "nearest"],
            ("variance", "correlation", "nearest"),
        ),
        attacks=table(rows, "attacks", ["method", *ATTACKS, "trees"], (*ATTACKS, "trees")),
        suppression=grid(
            [
                "table",
                "k, distance",
                "records touched: cells",
                "scores",
                "regression: cells",
                "scores",
                "trees: cells",
                "scores",
            ],
            suppression,
        ),
    )


PAGE = Page("bases", measured, rendered)

if __name__ == "__main__":
    PAGE.write()
