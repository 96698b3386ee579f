"""What the custodian's own screen shows of the source: distributions and violated edits, no cell of few units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Variable
from anoncore.profile import MIN_COUNT
from flows.plan.model import Plan
from tasks.common.errors import ReleaseError, cut, sanitise_errors, visible
from tasks.intake.columns import to_microdata
from tasks.intake.read import read_file
from tasks.intake.units import Declared, keys_of, units_of
from tasks.policy.rounding import next_ten, step_of

MOST_BARS = 8
BINS = 10
NAMES = "says whose record it is, so its values are not shown"
ELSEWHERE = "Distributions are shown of local files; this source is a folder, a storage or a database."


@dataclass(frozen=True)
class Bar:
    """A cell of a distribution that at least k units hold: its label, and its share of the values in whole steps."""

    label: str
    share: float


@dataclass(frozen=True)
class Distribution:
    """The distribution of one variable; ``missing`` is the share of records without a value where k units have none."""

    bars: tuple[Bar, ...] = ()
    missing: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Description:
    """What a plan's source holds, as a person who drafts the plan may see it.

    Parameters
    ----------
    records, units : counts; 0 where the source was not read
    columns : the distribution of each variable, by name
    violated : how many records violate each edit, in words, by its name
    problem : why something could not be shown
    """

    records: int = 0
    units: int = 0
    columns: Mapping[str, Distribution] = field(default_factory=dict)
    violated: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def describe(plan: Plan, base: Path) -> Description:
    """Read a plan's source and return what may be shown of it.

    Claim: no cell of fewer than five statistical units is counted or named, ends of a range are no values, and
    shares are rounded to the step of published figures.
    """
    source = plan.source
    if source.sql is not None or source.remote or not (path := source.file(base)).is_file():
        return Description(problem=ELSEWHERE)
    shown = visible(path.name)
    try:
        frame = sanitise_errors(read_file)(path, source.kind(path), source, plan.variables, shown=shown)
        units = sanitise_errors(_units)(frame, plan)
    except ReleaseError as error:
        return Description(problem=str(error))
    present = [v for v in plan.variables if v.name in frame.columns]
    columns = {v.name: distribution(frame[v.name], v, units) for v in present}
    count = int(units.max(initial=-1)) + 1
    try:
        return Description(len(frame), count, columns, sanitise_errors(_violated)(frame, plan))
    except ReleaseError as error:
        return Description(len(frame), count, columns, problem=f"Edits were not checked: {error}")


def distribution(column: pd.Series, variable: Variable, units: np.ndarray) -> Distribution:
    """Return the distribution of a column.

    Parameters
    ----------
    column : N values as they were read
    variable : its declaration; its codes for missing values are none
    units : (N,) int, the statistical unit of each record, 0 … U − 1
    """
    if variable.role in ("identifier", "household"):
        return Distribution(note=NAMES)
    column = column.mask(column.isin(list(variable.missing))) if variable.missing else column
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column.dt.year
    if variable.kind == "continuous":
        column = pd.to_numeric(column, errors="coerce")
    present = column.notna().to_numpy()
    step = step_of(int(units.max(initial=-1)) + 1)
    absent = float(_rounded(1.0 - present.mean(), step)) if _units_in(units[~present]) >= MIN_COUNT else None
    if _units_in(units[present]) < 2 * MIN_COUNT:
        return Distribution(missing=absent, note="fewer than ten units have a value")
    numeric = pd.api.types.is_numeric_dtype(column) and variable.kind in ("continuous", "ordinal")
    many = numeric and column.nunique() > MOST_BARS
    bars = (_bins if many else _levels)(column[present], units[present])
    if not bars:
        return Distribution(missing=absent, note="no two cells of five units or more")
    means = {_label(level): text for level, text in variable.labels}
    named = ((f"{label}: {cut(visible(means[label]))}" if label in means else label, share) for label, share in bars)
    return Distribution(tuple(Bar(label, float(_rounded(share, step))) for label, share in named), absent)


def in_words(records: int) -> str:
    """Return a number of records as the pages show it: whether a rule holds of a single record is not shown."""
    return f"none, or fewer than {MIN_COUNT}" if records < MIN_COUNT else f"at most {next_ten(records):,.0f}"


def _units(frame: pd.DataFrame, plan: Plan) -> np.ndarray:
    keys = keys_of(frame, Declared(plan.variables, plan.unit).keys)
    return units_of(keys) if len(keys.columns) else np.arange(len(frame))


def _violated(frame: pd.DataFrame, plan: Plan) -> dict[str, str]:
    data: Microdata = to_microdata(frame, plan.variables)[0]
    edits = plan.edits.edit_set().within(data.schema.names).learned(data)
    return {name: in_words(n) for name, n in edits.violations(data.frame).items()}


def _units_in(units: np.ndarray) -> int:
    return int(np.count_nonzero(np.bincount(units)))


def _rounded(share: float, step: float) -> float:
    return round(share / step) * step


def _levels(column: pd.Series, units: np.ndarray) -> list[tuple[str, float]]:
    """Return the most frequent levels that enough units hold, and one bar of all others."""
    codes, levels = pd.factorize(column)
    records = np.bincount(codes, minlength=len(levels))
    most = int(units.max()) + 1
    single = most == len(units)
    holders = records if single else np.bincount(np.unique(codes * most + units) // most, minlength=len(levels))
    order = [int(i) for i in np.argsort(-records, kind="stable") if holders[i] >= MIN_COUNT]
    kept = order if len(order) <= MOST_BARS else order[: MOST_BARS - 1]

    def left_out() -> np.ndarray:
        return ~np.isin(codes, kept)

    # What is left must not be a cell of few units either.
    while kept and len(kept) < len(levels) and _units_in(units[left_out()]) < MIN_COUNT:
        kept.pop()
    if not kept:
        return []
    bars = [(_label(levels[i]), float(records[i] / len(codes))) for i in sorted(kept, key=lambda i: _order(levels[i]))]
    rest = float(left_out().mean())
    return [*bars, ("others", rest)] if rest else bars


def _order(level: object) -> tuple[bool, float, str]:
    """Return by what levels are put in order: numbers by size, texts by the alphabet."""
    return (False, float(level), "") if isinstance(level, int | float | np.number) else (True, 0.0, str(level))


def _label(level: object) -> str:
    return f"{level:.10g}" if isinstance(level, float) else cut(visible(level))


def _bins(column: pd.Series, units: np.ndarray) -> list[tuple[str, float]]:
    """Return bars of numbers between round limits, the outer ones open."""
    values = column.to_numpy(dtype="float64")
    lows = highs = np.sort(values)
    if _units_in(units) < len(units):
        by_unit = pd.Series(values).groupby(units)
        lows, highs = np.sort(by_unit.min().to_numpy()), np.sort(by_unit.max().to_numpy())
    at = max(MIN_COUNT, math.ceil(0.02 * len(lows))) - 1
    low, high = float(lows[at]), float(highs[-1 - at])
    if not (np.isfinite([low, high]).all() and low < high):
        return _levels(column, units)
    width = _round_width((high - low) / BINS)
    first = math.floor(low / width + 1e-9)
    count = math.floor(high / width + 1e-9) - first + 1
    codes = np.clip(np.floor(values / width + 1e-9) - first, 0, count - 1).astype(int)
    edges = _merged(codes, units, count)
    if len(edges) < 3:
        return []
    shares = np.histogram(codes, bins=edges)[0] / len(codes)
    limits = [f"{round((first + edge) * width, 9):,.10g}" for edge in edges]
    labels = [f"{a} to below {b}" for a, b in pairwise(limits)]
    labels[0], labels[-1] = f"below {limits[1]}", f"{limits[-2]} and above"
    return list(zip(labels, shares.tolist(), strict=True))


def _merged(codes: np.ndarray, units: np.ndarray, count: int) -> np.ndarray:
    """Return the edges of bars when neighbouring bins are merged until each bar holds records of enough units."""
    edges = [0]
    for end in range(1, count + 1):
        if _units_in(units[(codes >= edges[-1]) & (codes < end)]) >= MIN_COUNT:
            edges.append(end)
    edges[-1] = count
    return np.array(edges if len(edges) > 1 else [0, count])


def _round_width(width: float) -> float:
    scale = 10.0 ** math.floor(math.log10(width))
    return next(s * scale for s in (1, 2, 5, 10) if s * scale >= width * (1 - 1e-9))
