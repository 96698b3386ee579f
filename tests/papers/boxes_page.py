"""The page on Xiang et al. 2013: boxes cut for a statistic, beside Mondrian's and beside the paper's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from anoncore import Microdata, Schema, Variable, anonymize, read_boxes
from anoncore.boxes.statistics import influences, wanted
from anoncore.kernels.boxes import derived, intervals
from anoncore.kernels.boxes.derived import PAIRED, QUANTILES
from anoncore.kernels.boxes.partition import Limits, partition
from anoncore.kernels.boxes.shapes import local_radius, sensitivities, statistic_scales
from anoncore.methods import OptimalBoxes, Statistic
from tests.papers.pages import Page, Row
from tests.papers.reproduction import grid, nhanes_adults, nhefs, number, randhie

K = 5
STATISTICS = ("mean", "sd", *QUANTILES, "covariance", "correlation", "ratio", "slope")


NAMES = {
    "NHEFS": ("wt82", "wt71", "sbp", "dbp", "age"),
    "NHANES": ("weight", "age", "waist", "cholesterol", "hba1c"),
    "RAND HIE": ("mdvis", "disea", "lpi", "fmde", "lncoins"),
}


def nhefs_numbers() -> pd.DataFrame:
    return nhefs().frame[list(NAMES["NHEFS"])]


def nhanes_numbers() -> pd.DataFrame:
    names = ("WeightKg", "AgeInYearsAtScreening", "WaistCircumferenceCm", "TotalCholesterolMgdl", "Glycohemoglobin")
    frame = nhanes_adults()[list(names)].astype(float)
    return frame.rename(columns=dict(zip(names, NAMES["NHANES"], strict=True)))


def randhie_numbers() -> pd.DataFrame:
    return randhie().frame[list(NAMES["RAND HIE"])]


# The first variable is what statistics are asked of, the second what it goes with.
TABLES = {"NHEFS": nhefs_numbers, "NHANES": nhanes_numbers, "RAND HIE": randhie_numbers}


def columns(name: str) -> list[int]:
    return [0, 1] if name in PAIRED else [0]


def asked(name: str) -> list[tuple[str, int, int | None]]:
    """Return the statistic, or the means of all variables."""
    return [(name, 0, 1 if name in PAIRED else None)]


def mondrian(x: np.ndarray, k: int) -> np.ndarray:
    """Return the box of each record: cut at the median of the widest variable, while both sides keep k (strict)."""
    span = np.ptp(x, axis=0)
    label, boxes, waiting = np.empty(len(x), dtype=np.intp), 0, [np.arange(len(x))]
    while waiting:
        rows = waiting.pop()
        for column in np.argsort(-np.ptp(x[rows], axis=0) / span, kind="stable"):
            left = x[rows, column] <= np.median(x[rows, column])
            if min(left.sum(), (~left).sum()) >= k:
                waiting += [rows[left], rows[~left]]
                break
        else:
            label[rows] = boxes
            boxes += 1
    return label


def hulls(x: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and largest values of each box: the narrowest faces, those that Mondrian publishes."""
    ends = []
    for least in (True, False):
        end = np.full((label.max() + 1, x.shape[1]), np.inf if least else -np.inf)
        (np.minimum if least else np.maximum).at(end, label, x)
        ends.append(end)
    return ends[0], ends[1]


def half_widths(name: str, lower: np.ndarray, upper: np.ndarray, label: np.ndarray) -> tuple[float, float]:
    """Return half the guaranteed and the first-order range of a statistic."""
    at, estimate = columns(name), (intervals if name in STATISTICS[:2] + PAIRED[:2] else derived).estimate
    found = estimate(name, lower[:, at], upper[:, at], np.bincount(label))
    return tuple((high - low) / 2 for low, high in (found.guaranteed, found.linearised))


def optimality(x: np.ndarray, name: str) -> Row:
    """Return the cost of boxes of the statistic's own variables: ours, the best in one variable, one per record."""
    unit = float(statistic_scales(x, asked(name))[0])
    a = sensitivities(x, asked(name)) / unit
    cells = partition(x, a, K, limits=Limits(x.min(axis=0), x.max(axis=0)))
    hull, cell = (
        float((a * (upper - lower)[cells.label] / 2).sum(axis=1).mean())
        for lower, upper in (hulls(x, cells.label), (cells.lower, cells.upper))
    )
    best = {"best": best_partition(x[:, 0], a[:, 0], K)} if x.shape[1] == 1 else {}
    return {"hulls": hull, "cells": cell, "ideal": float(x.shape[1] * local_radius(x, a, K - 1).mean())} | best


def best_partition(x: np.ndarray, a: np.ndarray, k: int) -> float:
    """Return the least mean of a·(half the hull) of groups of at least k, ties together: by dynamic programming."""
    values, code, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends, costs = np.cumsum(np.append(0, counts)), np.cumsum(np.append(0.0, np.bincount(code, a)))
    best = np.full(len(values) + 1, np.inf)
    best[0] = 0.0
    for j in range(1, len(best)):
        for i in range(j - 1, -1, -1):
            if ends[j] - ends[i] >= k:
                best[j] = min(best[j], best[i] + (costs[j] - costs[i]) * (values[j - 1] - values[i]) / 2)
            # A group that could be two costs no less than these.
            if ends[j] - ends[i + 1] >= 2 * k + counts[i:j].max():
                break
    return float(best[-1] / len(x))


def measure(table: str, statistics: Iterable[str] = STATISTICS) -> list[Row]:
    x = TABLES[table]().dropna().to_numpy(dtype=float)
    plain = mondrian(x, K)
    limits = Limits(x.min(axis=0), x.max(axis=0))
    rows = []
    for name in statistics:
        unit = float(statistic_scales(x, asked(name))[0])
        a = sensitivities(x, asked(name)) / unit
        ours = partition(x, a, K, limits=limits)
        faces = hulls(x, ours.label)
        row: Row = {"table": table, "n": len(x), "statistic": name}
        for key, label, (lower, upper) in (("plain", plain, hulls(x, plain)), ("ours", ours.label, faces)):
            row[f"{key}_guaranteed"], row[f"{key}_first"] = (v / unit for v in half_widths(name, lower, upper, label))
            row[f"{key}_cost"] = float((a * (upper - lower)[label] / 2).sum(axis=1).mean())
        row["published"] = half_widths(name, ours.lower, ours.upper, ours.label)[0] / unit
        rows.append(row | optimality(x[:, columns(name)], name))
    return rows


RARE = ("crisp", "fuzzy", "dropped")


def thin_regions(table: str) -> list[Row]:
    """Return what the mean of the first variable is worth, by how records in thin regions count, in its sd."""
    frame = TABLES[table]().dropna().astype(float).reset_index(drop=True)
    name, *_ = frame.columns
    data = Microdata(frame, Schema(Variable(n, "continuous") for n in frame.columns))
    unit, rows = float(frame[name].std(ddof=0)), []
    asked = (Statistic(statistic="mean", of=(name,)), Statistic(statistic="mean", of=(str(frame.columns[1]),)))
    names, x = [str(n) for n in frame.columns], frame.to_numpy()
    papers = influences(x, wanted(asked, names, x))[1]
    for rare, A in [("none", None), *((rare, A) for A in (papers, None) for rare in RARE)]:
        chosen = OptimalBoxes(k=K, statistics=asked, rare=rare, A=A)
        release = anonymize(data, chosen, rng=np.random.default_rng(1))
        read = read_boxes(release.data.frame)
        found = read.estimate("mean", str(name), weights=read.weighted)
        confidence = read.confidence("mean", str(name), levels=(0.5, 0.95))
        row: Row = {"table": table, "rare": rare, "A": A, "left": read.records / len(frame)}
        row["guaranteed"] = (found.guaranteed[1] - found.guaranteed[0]) / 2 / unit
        row["off"] = abs(found.value - float(frame[name].mean())) / unit
        row |= {f"confidence_{one.level}": (one.high - one.low) / 2 / unit for one in confidence}
        rows.append(row)
    return rows


def subgroups() -> list[Row]:
    """Return half the range of a subgroup's mean, of boxes cut for subgroups and for all records, in its sd."""
    names = [*NAMES["NHEFS"], "sex"]
    frame = nhefs().frame[names].dropna().reset_index(drop=True)
    frame["sex"] = frame["sex"].astype("object").map(str)
    schema = Schema(Variable(n, "binary" if n == "sex" else "continuous") for n in names)
    data, level = Microdata(frame, schema), str(frame["sex"].min())
    unit = float(frame.loc[frame["sex"] == level, "wt82"].astype(float).std(ddof=0))
    rows = []
    for categorical in ("constant", "set"):
        for within, others in (({}, {}), ({"sex": level}, {"sex": str(frame["sex"].max())})):
            asked = (
                Statistic(statistic="mean", of=("wt82",), within=within),
                Statistic(statistic="mean", of=("sbp",), within=others),
            )
            params = OptimalBoxes(k=K, statistics=asked, categorical=categorical)
            read = read_boxes(anonymize(data, params, rng=np.random.default_rng(1)).data.frame)
            low, high = read.estimate("mean", "wt82", within={"sex": level}).guaranteed
            cut = "the subgroup" if within else "all"
            rows.append({"subgroup": level, "levels": categorical, "cut": cut, "guaranteed": (high - low) / 2 / unit})
    return rows


def measured() -> list[Row]:
    rows = [row for table in TABLES for row in measure(table)]
    return [*rows, *(row for table in TABLES for row in thin_regions(table)), *subgroups()]


TEXT = """# Reproduction of Xiang and others 2013

Generated by `make reproduction` (`python -m tests.papers.boxes_page`); edit the generator, not this page. Every figure
is in [xiang.json](reproduction/xiang.json). Nothing is random, so there are no seeds; it takes ten seconds.

The paper: G. Xiang, S. Ferson, L. Ginzburg, L. Longpré, E. Mayorga and O. Kosheleva, *Data Anonymization that Leads
to the Most Accurate Estimates of Statistical Characteristics: Fuzzy-Motivated Approach*, 2013. **It has no table of
results**: formulas without data. This page shows what they are worth on three tables from packages, k = {k}, complete
records:

| table | records | statistics are of | variables |
|---|---|---|---|
{tables}
Figures are in natural units, in which differences between statistics do not count: standard deviations of the first
variable (mean, sd, quartiles), products of standard deviations (covariance), 1 (correlation), σ of the first by σ of
the second (slope) or by its mean (ratio). Pairs take the first variable with the second.

## Gains over Mondrian

Boxes of all five variables. Mondrian (LeFevre, DeWitt and Ramakrishnan 2006, strict) cuts the widest variable at its
median, whatever is asked. *Ours* is cut for the one statistic by its gradient. Shown is half the guaranteed range
within which the statistic certainly lies, computed from the least and largest values of each box, for both alike;
*gain* is their quotient. *Published*: the same of the cells' faces that `optimal-boxes` releases, which are no one's
values.

{gains}
A quartile's range can be 0: where values are rounded, boxes around it hold one value each.

## How far a partition is from optimal boxes

Boxes of the variables that the statistic depends on. *Cost* is the paper's: the mean over records of Σ a·Δ, to first
order half the range of the statistic. *Box around each record*: the paper's optimum n·c(x), which is no partition and
shows the record in its middle; c is the distance to the {before}th nearest other record, so that ties count. *Best
partition*: in one variable, by dynamic programming over all of them. *Faces at values* and *cells* are the partition
here, with the two kinds of faces as above.

{optimal}
The paper's boxes are not offered as a release: each has its record exactly in the middle, so that the middle of a range
is the value.

## Thin regions, and the population

`optimal-boxes` for the means of the first two variables, cells' faces. *Range*: half the guaranteed range of the first
mean, weighted where the records have weights. *Off*: how far the estimate is from the mean of all records, which
includes the bias of weights and of records left out. *Records*: the share that is released. *50 %*, *95 %*: half the
confidence interval of the population's mean, which adds the sampling error; these are of the unweighted records. In
standard deviations. *A*: the paper's is the sampling error of one record; the default multiplies it by the power of two
for which range, sampling error and the shift of the estimates that the weights cause are least together.

{thin}
Weights come from the released boxes alone and lose nothing by it: they are optimal for these boxes. **The paper's
objective leaves out that weights follow the density of the records, and so the values**: they narrow the range by
{narrowed} standard deviations and shift the mean by {shifted}. With the shift counted, the best weights of these
tables are equal or nearly so: thin regions are worth keeping, unless an analyst wants the weighted mean itself. Records
left out narrow the range too, but boxes cut anew span the holes that they leave.

## The mean of a subgroup

NHEFS, means of two variables: wt82 of those with sex = {level}, sbp of the others. Shown is half the guaranteed range
of the first, in standard deviations, of boxes cut for these two means, and for those of all records. *Levels*: whether
a box holds one level, or a set of them, so that any of its records may belong.

{subgroup}
## Departures from the paper

- Its boxes are centred on the records and overlap; these are disjoint cells. The table above shows what that costs.
- Its statistics are mean, variance, covariance and correlation. The gradients of a ratio of totals, a slope and
  quantiles are additions; a quantile's is that of the quantile smoothed by a normal kernel.
- It takes the density of records as given; here c(x) is a distance to neighbours.
- No sensitivity is below a thousandth of the largest average, so that every box is bounded.
- A test compares the gradients with differences, and the guaranteed ranges with what a general optimiser reaches inside
  the boxes (`tests/anoncore/kernels/test_kernel_derived.py`): those of means, ratios and quartiles are exact.
"""


def rendered(rows: Sequence[Row]) -> str:
    head = [["table", "statistic", "Mondrian", "ours", "gain", "published"]]
    head.append(["table", "statistic", "box around each record", "best partition", "faces at values", "cells"])
    gains, optimal = [], []
    thin = [
        [row["table"], row["rare"], "" if row["rare"] == "none" else "default" if row["A"] is None else "the paper's"]
        + [shown(row[key]) for key in ("guaranteed", "off")]
        + [f"{row['left']:.1%}", *(shown(row[f"confidence_{level}"]) for level in (0.5, 0.95))]
        for row in rows
        if "rare" in row
    ]
    plain = {row["table"]: row for row in rows if row.get("rare") == "none"}
    fuzzy = [row for row in rows if row.get("rare") == "fuzzy" and row["A"] is not None]
    narrowed, shifted = (
        " to ".join(f"{end(sign * (row[key] - plain[row['table']][key]) for row in fuzzy):.2f}" for end in (min, max))
        for key, sign in (("guaranteed", -1), ("off", 1))
    )
    subgroup = [[row["cut"], row["levels"], shown(row["guaranteed"])] for row in rows if "subgroup" in row]
    level = next(row["subgroup"] for row in rows if "subgroup" in row)
    rows = [row for row in rows if "statistic" in row]
    for row in rows:
        name = [row["table"], row["statistic"].replace("_", " ")]
        plain, ours = row["plain_guaranteed"], row["ours_guaranteed"]
        gain = f"{plain / ours:.3g}" if ours > 1e-9 else "–"
        gains.append([*name, shown(plain), shown(ours), gain, shown(row["published"])])
        best = shown(row["best"]) if "best" in row else "–"
        optimal.append([*name, shown(row["ideal"]), best, shown(row["hulls"]), shown(row["cells"])])
    sizes = {row["table"]: row["n"] for row in rows}
    tables = "".join(
        f"| {name} | {n} | {' and '.join(NAMES[name][:2])} | {', '.join(NAMES[name])} |\n" for name, n in sizes.items()
    )
    return TEXT.format(
        narrowed=narrowed,
        shifted=shifted,
        k=K,
        before=K - 1,
        tables=tables,
        gains=grid(head[0], gains),
        optimal=grid(head[1], optimal),
        thin=grid(["table", "rare", "A", "range", "off", "records", "50 %", "95 %"], thin),
        subgroup=grid(["cut for", "levels", "range"], subgroup),
        level=level,
    )


def shown(value: float) -> str:
    return "0" if abs(value) < 1e-9 else number(value)


PAGE = Page("xiang", measured, rendered)

if __name__ == "__main__":
    PAGE.write()
