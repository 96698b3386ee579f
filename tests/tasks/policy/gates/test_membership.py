"""Attacks that distinguish members from non-members."""

from __future__ import annotations

import pytest

from anoncore.risk import BoxRisk, LocatedRecords
from tasks.policy import gate as rule
from tasks.policy.disclosure_control import published
from tasks.policy.gates.membership import BOXES, GATE, NEAREST, RESCALED, SCORES
from tests.tasks.policy.sample import assessment, attack, changed, results

LOCATED = LocatedRecords(100, 1.0, 0.2, 0.25, 0.3, -0.4)


@pytest.mark.parametrize(
    ("lower", "verdict"), [(0.55, "pass"), (0.5501, "fail"), (0.3, "pass"), (float("nan"), "fail")]
)
def test_the_lower_bound_decides(lower: float, verdict: str) -> None:
    given = changed(assessment(), risk__membership__lower=lower, risk__membership__auc=0.9)
    assert results(GATE, given)[NEAREST].verdict == verdict


def test_one_line_makes_an_interval_that_spans_the_limit_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    given = changed(assessment(), risk__membership=attack(0.57, 0.52, 0.6))
    assert results(GATE, given)[NEAREST].verdict == "pass"
    monkeypatch.setattr(rule, "PASSES_BY", "upper")
    assert results(GATE, given)[NEAREST].verdict == "inconclusive"


def test_the_limit_is_the_policys() -> None:
    given = changed(assessment(), risk__membership__lower=0.6)
    assert results(GATE, given, membership_auc=0.65)[NEAREST].verdict == "pass"


def test_without_non_members_it_is_not_tested() -> None:
    found = results(GATE, changed(assessment(), risk__membership=None, risk__score_coincidence=None))
    assert {one.verdict for one in found.values()} == {"not tested"}
    assert {one.figure for one in found.values()} == {"needs non-members"}


def test_attacks_on_rescaled_releases_and_on_boxes_are_gated_where_they_are_carried_out() -> None:
    assert list(results(GATE, assessment())) == [NEAREST, SCORES]
    boxes = BoxRisk(LOCATED, None, None, 3)
    given = changed(assessment(), risk__membership_rescaled=attack(0.7, 0.6, 0.8), risk__boxes=boxes)
    found = results(GATE, given)
    assert [found[name].verdict for name in (RESCALED, BOXES)] == ["fail", "not tested"]
    assert [row.gate for row in GATE.attacks(published(given))] == list(found)
    metrics = GATE.metrics(given)
    assert (metrics["risk/membership_rescaled/lower"], metrics["risk/boxes/inside"]) == (0.6, 1.0)
