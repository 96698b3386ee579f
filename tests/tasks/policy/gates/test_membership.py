"""Attacks that distinguish members from non-members."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.risk import BoxRisk, LocatedRecords, membership_attack
from tasks.policy.disclosure_control import published
from tasks.policy.gates.membership import BOXES, GATE, NEAREST, RESCALED, SCORES
from tests.tasks.policy.sample import assessment, attack, changed, results

LOCATED = LocatedRecords(100, 1.0, 0.2, 0.25, 0.3, -0.4)


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (0.55, 0.6, "pass"),
        (0.5501, 0.57, "fail"),
        (0.3, 0.61, "inconclusive"),
        (0.55, 0.7, "inconclusive"),
        (float("nan"), 0.5, "fail"),
        (0.4, float("nan"), "inconclusive"),
    ],
)
def test_only_what_is_proved_passes_or_fails(lower: float, upper: float, verdict: str) -> None:
    given = changed(assessment(), risk__membership=attack(0.5, lower, upper))
    assert results(GATE, given)[NEAREST].verdict == verdict


def test_the_limits_are_the_policys() -> None:
    given = changed(assessment(), risk__membership=attack(0.62, 0.6, 0.64))
    assert results(GATE, given, membership_auc=0.65)[NEAREST].verdict == "pass"
    assert results(GATE, given, membership_auc=0.61)[NEAREST].verdict == "inconclusive"
    assert results(GATE, given, membership_auc=0.61, membership_pass=0.7)[NEAREST].verdict == "pass"


@pytest.mark.parametrize(("m", "n", "text"), [(5000, 30, "about 150"), (90, 5000, "90 members are too")])
def test_an_inconclusive_result_says_what_a_proof_needs(m: int, n: int, text: str) -> None:
    rng = np.random.default_rng(0)
    given = changed(assessment(), risk__membership=membership_attack(rng.normal(size=m), rng.normal(size=n)))
    result = results(GATE, given)[NEAREST]
    assert result.verdict == "inconclusive"
    assert text in result.explanation


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
