"""Attacks on membership that have several forms: value presence, agreement, density, partial copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anoncore.risk import Agreement, Density, PartialCopies, ValuePresence
from tasks.policy.assessment import ExternalFiles
from tasks.policy.disclosure_control import published
from tasks.policy.gate import Gate
from tasks.policy.gates import agreement, density, partial_copies, presence
from tests.tasks.policy.sample import assessment, changed, family, results

GATES = [(presence.GATE, "presence", ValuePresence), (agreement.GATE, "agreement", Agreement)]
GATES += [(density.GATE, "density", Density), (partial_copies.GATE, "partial_copies", PartialCopies)]
each = pytest.mark.parametrize(("gate", "field", "kind"), GATES)


@each
@pytest.mark.parametrize(
    ("lower", "upper", "p", "verdict"),
    [
        (0.45, 0.59, 0.3, "pass"),
        (0.45, 0.61, 0.3, "inconclusive"),
        (0.56, 0.59, 0.3, "fail"),
        (0.45, 0.55, 0.001, "fail"),
        (0.45, 0.55, 0.002, "pass"),
        (0.45, 0.55, float("nan"), "fail"),
    ],
)
def test_areas_and_highest_scores_decide(
    gate: Gate, field: str, kind: type, lower: float, upper: float, p: float, verdict: str
) -> None:
    given = changed(assessment(), **{f"risk__{field}": family(kind, p, auc=0.5, lower=lower, upper=upper)})
    (result,) = results(gate, given).values()
    assert result.verdict == verdict
    assert ("highest scores" in result.meaning) == (not p >= 0.01 / 7)


@each
@pytest.mark.parametrize(("accepted_p", "verdict"), [(0.19, "inconclusive"), (0.2, "pass")])
def test_highest_scores_that_an_accepted_area_explains_ask_or_pass_but_of_files_of_other_tools(
    gate: Gate, field: str, kind: type, accepted_p: float, verdict: str
) -> None:
    found = family(kind, 1e-6, auc=0.5, lower=0.45, upper=0.55)
    explained = [
        replace(one, attack=replace(one.attack, top=replace(one.attack.top, accepted_p=accepted_p)))
        for one in found.attacks
    ]
    found = replace(found, attacks=tuple(explained))
    of_plan = changed(assessment(), **{f"risk__{field}": found})
    of_file = replace(of_plan, external=ExternalFiles(0, 0))
    verdicts = [result.verdict for given in (of_plan, of_file) for result in results(gate, given).values()]
    assert verdicts == [verdict, verdict if field == "density" else "fail"]


@each
def test_without_non_members_it_is_not_tested(gate: Gate, field: str, kind: type) -> None:
    given = changed(assessment(), **{f"risk__{field}": None})
    (result,) = results(gate, given).values()
    assert result.verdict == "not tested"
    assert gate.metrics(given) == {}
    assert "Not tested" in gate.attacks(published(given))[0].attacker


@each
def test_report_and_metrics_hold_area_and_highest_scores(gate: Gate, field: str, kind: type) -> None:
    given = changed(assessment(), **{f"risk__{field}": family(kind, 0.003, auc=0.7, lower=0.6, upper=0.8)})
    whole, top, *_ = gate.attacks(published(given))
    assert (whole.outcome, whole.interval) == ("AUC 0.700", "0.600 to 0.800 at 99\u00a0%")
    assert (top.outcome, top.interval) == ("at most 30 members of about 50", "p\u00a0= 0.003, corrected for all forms")
    metrics = {name.rpartition("/")[2]: value for name, value in gate.metrics(given).items()}
    assert (metrics["auc"], metrics["lower"], metrics["upper"], metrics["p"]) == (0.7, 0.6, 0.8, pytest.approx(0.003))
