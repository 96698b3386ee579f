"""Seconds of every risk and utility figure, and of all of them together, at 11 763 and 100 000 records.

Run with ``python -m pytest tests/benchmarks/test_bench_assessment.py -s``. Every part is timed as the
assessment calls it, neighbours that one part has found being handed to the next. On a machine that others
keep busy a target also counts as met when the processor time per core is within it.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

from anoncore.encoding import EncodedTables, Encoder
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import (
    LinkageSettings,
    attribute_inference,
    closeness,
    compare,
    disclosure_risk,
    linkage,
    nearest_distance_attack,
    score_coincidence_attack,
)
from anoncore.utility import measure_utility
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.section import PolicySection

CORES = len(os.sched_getaffinity(0))
TARGETS = {11_763: 5.0, 100_000: 60.0}
Result = TypeVar("Result")


@dataclass
class Clock:
    """Wall and processor seconds of named parts."""

    parts: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __call__(self, name: str, work: Callable[[], Result]) -> Result:
        wall, busy = time.perf_counter(), time.process_time()
        found = work()
        self.parts[name] = time.perf_counter() - wall, (time.process_time() - busy) / CORES
        return found

    @property
    def total(self) -> tuple[float, float]:
        walls, busy = zip(*self.parts.values(), strict=True)
        return sum(walls), sum(busy)

    def lines(self, title: str) -> list[str]:
        rows = [(title, "wall s", "cpu/core")]
        rows += [(f"  {name}", f"{wall:.2f}", f"{cpu:.2f}") for name, (wall, cpu) in self.parts.items()]
        rows.append(("  together", f"{self.total[0]:.2f}", f"{self.total[1]:.2f}"))
        return [f"{name:<58}{wall:>8}{cpu:>10}" for name, wall, cpu in rows]


def tables(rows: int, categorical: int) -> list[Microdata]:
    """Original, a release that adds noise to it, and other people: 28 variables, the last ones of levels."""
    rng = np.random.default_rng(rows)
    mixing = np.linalg.cholesky(0.3 + 0.7 * np.eye(28))
    first, other = rng.normal(size=(2, rows, 28)) @ mixing.T
    masked = (first + 0.7 * rng.normal(size=first.shape)) / np.hypot(1.0, 0.7)
    return [_table(z, categorical) for z in (first, masked, other)]


def _table(z: np.ndarray, categorical: int) -> Microdata:
    """Every second number is positive and skewed; 3 variables of levels are binary, 3 ordinal, 2 nominal."""
    data: dict[str, Any] = {}
    variables = []
    for j, column in enumerate(z.T):
        name, level = f"v{j:02}", j - (28 - categorical)
        role: Any = "quasi-identifier" if j in (0, 20, 21, 23, 26) else "sensitive" if j in (1, 27) else "other"
        if level < 0:
            data[name] = (np.exp(column) if j % 2 else column).round(3) + 0.001 * (j % 2)
            variables.append(Variable(name, "continuous", role))
        elif level < 3:
            data[name] = (column > 0.5).astype(int)
            variables.append(Variable(name, "binary", role, levels=(0, 1)))
        else:
            top = 5 if level < 6 else 4
            data[name] = np.clip(np.rint(column + top / 2), 1, top).astype(int)
            kind: Any = "ordinal" if level < 6 else "nominal"
            variables.append(Variable(name, kind, role, levels=tuple(range(1, top + 1))))
    return Microdata(pd.DataFrame(data), Schema(variables))


def assessed(original: Microdata, released: Microdata, reference: Microdata) -> tuple[Clock, str]:
    """Compute everything that is told of a release, part by part."""
    clock, rng = Clock(), np.random.default_rng(0)
    encoder = Encoder.fit(original)
    x, y, r = clock("encoding", lambda: [encoder.encode(t) for t in (original, released, reference)])
    close = clock(
        "nearest neighbours among all three",
        lambda: closeness(x, y, r, 5, queries=np.arange(len(x)), rng=rng),
    )
    near, other = close.released, close.reference
    clock("comparison", lambda: compare(near, other))

    def tails() -> None:
        close.tail(0.1, 0.01)
        close.isolated(0.1, 0.01)
        close.identical(0.01)
        close.extreme(0.1)

    clock("tail, isolated, identical, extreme", tails)
    nonmembers = close.nonmembers.released
    clock("membership", lambda: nearest_distance_attack(x, r, y, measures=near, nonmembers=nonmembers))
    clock("score coincidence", lambda: score_coincidence_attack(x, r, y))
    clock(
        "linkage",
        lambda: linkage(x, y, reference=r, settings=LinkageSettings(measures=near, nonmembers=other), rng=rng),
    )
    clock("disclosure", lambda: disclosure_risk(released, original=original, reference=reference, rng=rng))
    clock("inference", lambda: attribute_inference(original, reference, released, rng=rng))
    encoded = EncodedTables(original, released, reference, encoder, x, y, r)
    clock("utility", lambda: measure_utility(original, released, reference, encoded=encoded))
    return clock, f"{len(x)} x 28 variables, {x.shape[1]} encoded columns"


def reported(clock: Clock, title: str, target: float) -> None:
    """Show the table, and hold the total against its target."""
    peak, load = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, os.getloadavg()[0]
    tail = f"  target {target:.0f} s, {CORES} cores, load {load:.1f}, peak so far {peak:.2f} GB"
    sys.stdout.write("\n" + "\n".join([*clock.lines(title), tail]) + "\n")
    wall, cpu = clock.total
    assert wall < target or (load > CORES + 1.0 and cpu < target)


@pytest.mark.parametrize("rows", TARGETS)
def test_assess_in_a_run(rows: int, tmp_path: Path) -> None:
    sides = dict(zip(("original", "released", "reference"), tables(rows, 8), strict=True))
    run = Run.start(Home.locate(tmp_path), SeedSection(public=3, data_are_public=True))
    stored = {name: run.workspace.store(name, table) for name, table in sides.items()}
    given = (Sides(stored["original"], stored["reference"]), Masked(released=stored["released"], keeps_records=True))
    clock = Clock()
    measure = lambda: assess(run, *given, AssessmentSection(), PolicySection()).assessment  # noqa: E731
    figures = clock("tasks.assessment.assess.assess", measure)
    assert figures.risk.queries.used == rows
    assert figures.risk.linkage is not None
    assert figures.risk.disclosure is not None
    assert figures.risk.inference is not None
    assert figures.risk.membership is not None
    reported(clock, f"{rows} x 28 variables, {figures.risk.columns} encoded columns", TARGETS[rows])


@pytest.mark.parametrize("categorical", [8, 0])
@pytest.mark.parametrize("rows", TARGETS)
def test_whole_assessment(rows: int, categorical: int) -> None:
    clock, title = assessed(*tables(rows, categorical))
    reported(clock, title, TARGETS[rows])
