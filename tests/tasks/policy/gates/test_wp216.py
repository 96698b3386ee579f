"""Singling out and linkability beyond non-members."""

from __future__ import annotations

import pytest

from tasks.policy.disclosure_control import published
from tasks.policy.gate import Gate
from tasks.policy.gates import linkability, singling_out
from tests.tasks.policy.sample import assessment, changed, residual, results

GATES = [
    (singling_out.GATE, "risk__singling_out__sizes__1__residual"),
    (linkability.GATE, "risk__linkability__residual"),
]
each = pytest.mark.parametrize(("gate", "path"), GATES)


@each
@pytest.mark.parametrize(
    ("value", "verdict"), [(-0.01, "pass"), (0.07, "pass"), (0.08, "fail"), (0.5, "fail"), (float("nan"), "fail")]
)
def test_the_residual_risk_decides(gate: Gate, path: str, value: float, verdict: str) -> None:
    (result,) = results(gate, changed(assessment(), **{path: residual(value)})).values()
    assert result.verdict == verdict


@each
def test_what_is_not_proved_is_inconclusive(gate: Gate, path: str) -> None:
    given = changed(assessment(), **{path: residual(0.02), f"{path}__upper": 0.2})
    (result,) = results(gate, given).values()
    assert result.verdict == "inconclusive"


@each
def test_without_non_members_there_is_no_figure(gate: Gate, path: str) -> None:
    given = changed(assessment(), **{"__".join(path.split("__")[:2]): None})
    assert {one.verdict for one in results(gate, given).values()} <= {"not tested"}
    assert gate.metrics(given) == {}
    assert "Not tested" in gate.attacks(published(given))[0].attacker


@each
def test_the_report_names_the_control(gate: Gate, path: str) -> None:
    row = gate.attacks(published(changed(assessment(), **{path: residual(0.3)})))[-1]
    assert row.outcome.startswith("0.3")
    assert row.baseline.startswith("10")
