"""What the default policy decides over many seeds: real people masked, samples that hold nobody, and copies.

Run with ``python -m pytest tests/benchmarks/test_bench_policy_seeds.py -s``; ``ANONFLOW_BENCH_SEEDS`` is the number of
seeds, of which each takes some 10 seconds a row in one of two processes. Each seed is a holdout split and a masking of
its own; source to verdict, as a release does it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from flows.plan.model import PlanFile
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Assessment
from tasks.policy.section import PolicySection
from tasks.policy.verdict import Verdict, decide
from tests.tasks.policy.test_default_policy import GROUPS, NOISE, SWAP, failed, judged, planned, rhs

SEEDS = int(os.environ.get("ANONFLOW_BENCH_SEEDS", "10"))
PROCESSES = 2
TABLE: list[str] = []


@dataclass(frozen=True)
class Found:
    """One seed's verdict, and the figures that the table tells."""

    decision: str
    failed: frozenset[str]
    open: frozenset[str]
    membership: tuple[float, float]


def told(verdict: Verdict, assessment: Assessment) -> Found:
    attack = assessment.risk.membership
    assert attack is not None
    return Found(
        verdict.decision,
        frozenset(failed(verdict)),
        frozenset(g.name for g in verdict.gates if g.verdict == "inconclusive"),
        (attack.auc, attack.lower),
    )


@pytest.fixture(scope="module", autouse=True)
def report():
    yield
    sys.stdout.write("\n" + "\n".join(TABLE) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.locate(tmp_path_factory.mktemp("policy"))


def over_seeds(label: str, one: Callable[[int], Found]) -> list[Found]:
    """Carry out a seed after the other in two processes; add the counts to the table and return them."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = list(pool.map(one, range(SEEDS)))
    decisions = Counter(f.decision for f in found)
    line = "".join(f"{decisions[name]:>9}" for name in ("publish", "reject", "await"))
    aucs = [f.membership[0] for f in found]
    TABLE.append(
        f"{label:<34}{line}   AUC {min(aucs):.3f} {np.median(aucs):.3f} {max(aucs):.3f}"
        f"   failed: {counted(f.failed for f in found)}   unsure: {counted(f.open for f in found)}"
    )
    sys.stdout.write(TABLE[-1] + "\n")
    sys.stdout.flush()
    return found


def counted(sets: Iterable[frozenset[str]]) -> str:
    return ", ".join(f"{name} {n}" for name, n in Counter(g for s in sets for g in s).most_common()) or "none"


def share(found: list[Found], decision: str) -> float:
    return sum(f.decision == decision for f in found) / len(found)


# Real people, masked


def masked(file: PlanFile, home: Home, seed: int) -> Found:
    return told(*judged(file, home, seed))


def study(
    home: Home, folder: Path, step: dict[str, Any], by_design: tuple[str, ...] = (), *, gaps: bool = True
) -> list[Found]:
    label = " ".join(str(value) for value in step.values())
    file = planned(folder, step, by_design, gaps=gaps)
    return over_seeds(f"NHEFS{'' if gaps else ', no gaps'}, {label}", partial(masked, file, home))


# All 65 variables, 152 columns when encoded; and those of the paper's kinds that everybody has answered, 36.
both = pytest.mark.parametrize("gaps", [True, False], ids=["all", "no gaps"])


@both
def test_swapping(home: Home, tmp_path: Path, gaps: bool) -> None:
    # The most isolated of 814 people are sometimes told, and their areas are not always proved small.
    found = study(home, tmp_path, SWAP, gaps=gaps)
    assert share(found, "publish") >= 0.6
    assert share(found, "reject") <= 0.2


@both
@pytest.mark.parametrize("step", [NOISE | {"b": 0.1}, NOISE], ids=lambda step: f"b={step['b']}")
def test_noise(home: Home, tmp_path: Path, step: dict[str, Any], gaps: bool) -> None:
    assert share(study(home, tmp_path, step, gaps=gaps), "reject") == 1


@both
def test_groups_of_five(home: Home, tmp_path: Path, gaps: bool) -> None:
    found = study(home, tmp_path, rhs(5), GROUPS, gaps=gaps)
    assert share(found, "reject") == 1
    assert all("density" in f.failed for f in found)


@both
def test_groups_of_ten(home: Home, tmp_path: Path, gaps: bool) -> None:
    # The area by the nearest record may pass; the density of the release around its highest scores does not.
    found = study(home, tmp_path, rhs(10), GROUPS, gaps=gaps)
    assert share(found, "publish") <= 0.1
    assert all(f.decision == "await" or "density" in f.failed for f in found)


@both
def test_groups_of_thirty(home: Home, tmp_path: Path, gaps: bool) -> None:
    found = study(home, tmp_path, rhs(30), GROUPS, gaps=gaps)
    assert share(found, "reject") <= 0.6 if gaps else share(found, "publish") >= 0.8


# Samples of one population, judged with every gate


NUMBERS = 8


def sample(records: int, rng: np.random.Generator) -> Microdata:
    """Draw people with correlated numbers, one of them skewed, codes in an order, levels and yes or no."""
    common = rng.normal(size=(records, 2))
    fixed = np.random.default_rng(1).normal(size=(2, NUMBERS))
    numbers = 0.6 * common @ fixed + rng.normal(size=(records, NUMBERS))
    numbers[:, 0] = np.exp(numbers[:, 0])
    frame = pd.DataFrame(numbers.round(3), columns=[f"x{j}" for j in range(NUMBERS)])
    frame["grade"] = np.digitize(common[:, 0] + rng.normal(size=records), [-1, 0, 1])
    frame["region"] = rng.choice(["e", "n", "s", "w"], records, p=[0.4, 0.3, 0.2, 0.1])
    frame["ill"] = (common[:, 1] + rng.normal(size=records) > 1).astype(int)
    return Microdata(frame, SCHEMA)


SCHEMA = Schema(
    [
        *(Variable(f"x{j}", "continuous", role="quasi-identifier") for j in range(4)),
        *(Variable(f"x{j}", "continuous", role="sensitive") for j in range(4, NUMBERS)),
        Variable("grade", "ordinal", role="quasi-identifier", levels=(0, 1, 2, 3)),
        Variable("region", "nominal", role="quasi-identifier", levels=("e", "n", "s", "w")),
        Variable("ill", "binary", role="sensitive", levels=(0, 1)),
    ]
)


def sampled(home: Home, records: int, copied: float, seed: int) -> Found:
    """Judge an independent sample as release, of whose records a share stems from the original."""
    rng = np.random.default_rng([seed, records])
    original, reference, released = (sample(records, rng) for _ in range(3))
    count = round(copied * records)
    frame = pd.concat([original.frame[:count], released.frame[count:]], ignore_index=True)
    numbers = [f"x{j}" for j in range(NUMBERS)]
    spread = original.frame[numbers].std().to_numpy()
    frame.loc[: count - 1, numbers] += 0.01 * spread * rng.normal(size=(count, NUMBERS))
    run = Run.start(home, SeedSection(public=seed, data_are_public=True))
    try:
        store = run.workspace.store
        sides = Sides(store("original", original), store("reference", reference))
        masked = Masked(released=store("released", Microdata(frame, SCHEMA)), keeps_records=False)
        figures = assess(run, sides, masked, AssessmentSection(), PolicySection()).assessment
        return told(decide(figures, PolicySection()), figures)
    finally:
        run.workspace.wipe()


@pytest.mark.parametrize("records", [2000, 5000])
def test_independent_sample(home: Home, records: int) -> None:
    found = over_seeds(f"independent, {records} records", partial(sampled, home, records, 0.0))
    assert share(found, "reject") <= 0.02
    assert records < 5000 or share(found, "publish") >= 0.9


@pytest.mark.parametrize("copied", [0.005, 0.01])
def test_copied_records(home: Home, copied: float) -> None:
    found = over_seeds(f"{copied:.1%} copied, 2000 records", partial(sampled, home, 2000, copied))
    assert share(found, "reject") >= (0.9 if copied < 0.01 else 1)
