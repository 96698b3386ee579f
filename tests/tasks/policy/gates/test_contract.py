"""What every gate of the registry promises."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import MISSING, fields, replace
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from anoncore.risk import RiskReport
from tasks.policy import disclosure_control, gates
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import published
from tasks.policy.gate import Gate
from tasks.policy.gates import GATES
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import SECRET, assessment, changed

# With those that are not set by default, so that opt-in gates give results, too.
ALL_LIMITS = PolicySection(
    interval_disclosure=0.5,
    least_change=5,
    groups={"t_closeness": 0.5, "beta_likeness": 9.0},
    population={"risk": 0.5, "households": 0.5, "uniques": 0.5, "k_map": 2, "presence": 0.5},
)
every_gate = pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)


def without_optional(value: Any) -> Any:
    """Return a value without what may be missing."""
    hints = get_type_hints(type(value))
    return replace(value, **{name: None for name, hint in hints.items() if NoneType in get_args(hint)})


def test_every_module_is_registered_once() -> None:
    modules = {module.name for module in pkgutil.iter_modules(gates.__path__)}
    assert len(GATES) == len(modules) == len({gate.name for gate in GATES})


@every_gate
def test_a_gate_handles_figures_that_were_not_measured(gate: Gate, measured: Assessment) -> None:
    for given in (assessment(), measured):
        bare = without_optional(replace(given, risk=without_optional(given.risk)))
        for one in gate.evaluate(bare, ALL_LIMITS):
            assert one.verdict in ("pass", "fail", "inconclusive", "not tested", "to decide")
        gate.metrics(bare)
        gate.attacks(published(bare))


@every_gate
def test_a_gate_documents_itself(gate: Gate, measured: Assessment) -> None:
    assert len(gate.description) > 60
    assert gate.description.endswith(".")
    for one in gate.evaluate(measured, ALL_LIMITS):
        assert all((one.name, one.figure, one.limit, one.baseline, one.meaning))
        assert not one.meaning.endswith(".")
    for row in gate.attacks(published(measured)):
        assert row.name
        assert row.attacker.endswith(".")


@every_gate
def test_metrics_are_numbers_under_names_of_their_own(gate: Gate, measured: Assessment) -> None:
    for given in (assessment(), measured):
        metrics = gate.metrics(given)
        assert all(isinstance(value, int | float | NoneType) for value in metrics.values())
        assert {name.split("/")[0] for name in metrics} <= {"risk", "utility", "claim", "method"}
        others = [name for other in GATES if other is not gate for name in other.metrics(given)]
        assert not set(metrics) & set(others)


@every_gate
def test_what_a_gate_publishes_holds_no_level_of_the_source(
    gate: Gate, measured: Assessment, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = [one for one in GATES if one is gate or _publishes_required(one)]
    monkeypatch.setattr(disclosure_control, "GATES", needed)
    shown = json.dumps(published(measured).to_json())
    assert SECRET in json.dumps(measured.to_json())
    assert SECRET not in shown


def _publishes_required(gate: Gate) -> bool:
    """Whether a gate publishes what a published assessment cannot be without."""
    required = {f"risk.{f.name}" for f in fields(RiskReport) if f.default is MISSING} | {"utility"}
    return bool(set(gate.publishes) & required)


@every_gate
def test_a_gate_asks_the_same_of_what_it_publishes(gate: Gate, measured: Assessment) -> None:
    """Its texts come from there, lest they be finer than the rounding."""
    for given in (assessment(), measured) if gate.publishes else ():
        asked, shown = gate.evaluate(given, ALL_LIMITS), gate.evaluate(published(given), ALL_LIMITS)
        assert [one.name for one in asked] == [one.name for one in shown]


@every_gate
def test_texts_of_a_gate_are_no_finer_than_what_is_published(gate: Gate, measured: Assessment) -> None:
    """A gate that publishes nothing shows exact figures: of those that others publish rounded, it may show none."""
    part = "risk__disclosure__released__population__households"
    given = changed(measured, **{part: 23.4}, in_out_game=None)
    risk = published(given).risk
    rounded = {f.name: value for f in fields(RiskReport) if (value := getattr(risk, f.name)) is not None}
    coarser = replace(given, risk=replace(given.risk, **rounded))
    asked = decide(given, ALL_LIMITS, (gate,)).gates
    shown = decide(coarser, ALL_LIMITS, (gate,)).gates
    assert [(one.figure, one.baseline, one.meaning) for one in asked] == [
        (one.figure, one.baseline, one.meaning) for one in shown
    ]


def test_two_gates_that_round_one_figure_differently_are_refused(
    measured: Assessment, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Gate(name="another", description="", publishes={"risk.linkage": lambda value, step: value})
    monkeypatch.setattr(disclosure_control, "GATES", (*GATES, other))
    with pytest.raises(ValueError, match=r"^the gate another rounds risk\.linkage otherwise than another: "):
        published(measured)


@every_gate
def test_a_gate_publishes_figures_that_there_are(gate: Gate, measured: Assessment) -> None:
    for name in gate.publishes:
        part, _, figure = name.rpartition(".")
        assert hasattr(measured.risk if part else measured, figure or name)


def test_what_no_gate_names_stays_confidential(measured: Assessment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disclosure_control, "GATES", [gate for gate in GATES if _publishes_required(gate)])
    shown = published(measured)
    assert shown.risk.linkage is shown.risk.membership is shown.risk.close_pairs is None
    assert shown.claims == ()


def test_the_limits_of_the_policy_are_those_of_the_gates() -> None:
    limits = {name for gate in GATES if gate.limits for name in gate.limits.model_fields}
    attacks = {
        "membership_auc",
        "membership_pass",
        "linkage_rate",
        "linkage_certain",
        "singling_out",
        "linkability",
        "inference",
        "in_out_game",
        "least_change",
        "differencing",
        "groups",
        "interval_disclosure",
        "population",
    }
    assert limits == {"tail_p", "utility", *attacks} <= set(PolicySection.model_fields)
