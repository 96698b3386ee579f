"""The default policy on real people, seed by seed: neither blind nor hysterical.

Each seed is a holdout split and a masking of its own. The long form, with 100 seeds, is
tests/benchmarks/test_bench_policy_seeds.py.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.plan.model import PlanFile, load_plan
from tasks.assessment.assess import assess
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.ingest import ingest
from tasks.intake.split import split
from tasks.intake.units import Declared
from tasks.intake.validate import validate_raw
from tasks.masking.anonymize import mask
from tasks.policy.assessment import Assessment
from tasks.policy.section import PolicySection
from tasks.policy.verdict import Verdict, decide
from tests.limits import ANY_LOSS
from tests.papers.reproduction import nhefs_complete

GROUPS = ("uncertainty",)
SWAP: dict[str, Any] = {"method": "spectral-swap", "released": "calibrated"}
NOISE: dict[str, Any] = {"method": "additive-noise", "b": 1}


def rhs(k: int) -> dict[str, Any]:
    return {"method": "spectral-rhs", "k": k}


def planned(folder: Path, step: dict[str, Any], by_design: tuple[str, ...] = (), *, gaps: bool = True) -> PlanFile:
    """Load the demonstration's plan with another masking step, without lookups; the policy on risk is the default one.

    Without ``gaps`` of the variables of the paper's kinds that everybody has answered, a narrower table.
    """
    plan = yaml.safe_load((resources.files("deploy") / "plans" / "nhefs.yaml").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    if not gaps:
        data = nhefs_complete()
        data.frame.to_parquet(folder / "people.parquet")
        kept = set(data.schema.names)
        plan["source"] = {"path": "people.parquet", "format": "parquet"}
        plan["variables"] = [v for v in plan["variables"] if v["name"] in kept]
        plan["edits"]["rules"] = [r for r in plan["edits"]["rules"] if named(r) <= kept]
    plan["reference"] = {"kind": "holdout"}
    plan["steps"] = [{"method": "rare-levels", "k": 5, "action": "suppress"}, step]
    plan["edits"]["rules"] = [differences(r) for r in plan["edits"]["rules"] if r["edit"] != "lookup"]
    plan["policy"] = {"utility": ANY_LOSS} | ({"by_design": list(by_design)} if by_design else {})
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(plan))
    return load_plan(path)


def differences(rule: dict[str, Any]) -> dict[str, Any]:
    """Let differences of prices and of taxes, which the demonstration looks up, be computed."""
    computed = {"price difference": "price71_82", "tax difference": "tax71_82"}
    return rule | ({"dependent": computed[rule["name"]]} if rule["name"] in computed else {})


def named(rule: object) -> set[str]:
    """Return the variables that a rule names."""
    if isinstance(rule, list):
        return set().union(*map(named, rule))
    if not isinstance(rule, dict):
        return set()
    own = {rule[key] for key in ("variable", "dependent", "numerator", "denominator") if key in rule}
    return own | set(rule.get("terms", ())) | set().union(*map(named, rule.values()))


def judged(file: PlanFile, home: Home, seed: int) -> tuple[Verdict, Assessment]:
    """Take the plan from source to verdict, as a release does, with a stated seed."""
    plan = file.plan
    run = Run.start(home, SeedSection(public=seed, data_are_public=True))
    try:
        ingested = ingest(run, plan.source, plan.variables, file.base)
        run = run.bound_to(ingested.summary.digest)
        sides = split(run, validate_raw(run, ingested, plan.edits), plan.reference, Declared(plan.variables), file.base)
        masked = mask(run, sides.original, plan.steps, plan.edits.edit_set())
        figures = assess(run, sides, masked, plan.assessment, plan.policy).assessment
        return decide(figures, plan.policy), figures
    finally:
        run.workspace.wipe()


def failed(verdict: Verdict) -> set[str]:
    return {gate.name for gate in verdict.gates if gate.verdict == "fail"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.locate(tmp_path_factory.mktemp("policy"))


def test_calibrated_swapping_is_not_rejected(home: Home, tmp_path: Path) -> None:
    file = planned(tmp_path, SWAP, gaps=False)
    assert file.plan.policy == PolicySection(utility=ANY_LOSS)
    # A policy leaves some releases open by chance; that it rejects none is what 100 seeds show.
    verdict, figures = judged(file, home, 1)
    assert failed(verdict) == set()
    assert verdict.decision == "publish"
    assert figures.records.original == len(nhefs_complete()) // 2


def test_noise_fails(home: Home, tmp_path: Path) -> None:
    verdict, _ = judged(planned(tmp_path, NOISE, gaps=False), home, 0)
    assert verdict.decision == "reject"
    gates = {"prediction distance", "prediction ambiguity", "membership", "agreement", "density"}
    gates |= {"linkage", "linkage with certainty"}
    assert failed(verdict) >= gates


def test_groups_of_five_fail(home: Home, tmp_path: Path) -> None:
    file = planned(tmp_path, rhs(5), GROUPS)
    verdict, figures = judged(file, home, 0)
    assert verdict.decision == "reject"
    assert "membership" in failed(verdict)
    assert all(claim.holds for claim in figures.claims)


def test_groups_of_ten_do_not_pass_by_their_density(home: Home, tmp_path: Path) -> None:
    verdict, figures = judged(planned(tmp_path, rhs(10), GROUPS, gaps=False), home, 0)
    assert verdict.decision in ("reject", "await")
    assert next(gate.verdict for gate in verdict.gates if gate.name == "density") in ("fail", "inconclusive")
    assert figures.risk.density.worst_top.attack.top.precision > 0.7
    assert {g.name for g in verdict.gates if g.verdict == "by design"} == {"prediction uncertainty"}


def test_groups_of_thirty_are_not_rejected(home: Home, tmp_path: Path) -> None:
    file = planned(tmp_path, rhs(30), GROUPS, gaps=False)
    assert failed(judged(file, home, 0)[0]) == set()


@pytest.mark.parametrize("k", [5, 10])
def test_groups_are_refused_where_the_plan_does_not_acknowledge_what_they_void(tmp_path: Path, k: int) -> None:
    with pytest.raises(Refused, match=r"acknowledge it with by_design: \[uncertainty\]"):
        planned(tmp_path, rhs(k))
    with pytest.raises(Refused, match="by_design lists uncertainty, which no step makes void"):
        planned(tmp_path, SWAP, GROUPS)
    assert planned(tmp_path, rhs(k), GROUPS).plan.policy.by_design == GROUPS
