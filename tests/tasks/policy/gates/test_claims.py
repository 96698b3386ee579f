"""The claims of the method."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.common.errors import Fault
from tasks.policy.assessment import Half
from tasks.policy.disclosure_control import published
from tasks.policy.gates.claims import GATE
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, changed, results


def test_a_claim_that_does_not_hold_fails_and_no_guarantee_is_no_gate() -> None:
    found = results(GATE, assessment())
    assert {name: one.verdict for name, one in found.items()} == {"5-anonymity": "pass"}
    assert {one.topic for one in found.values()} == {"Claims"}
    assert results(GATE, changed(assessment(), claims__0__holds=False))["5-anonymity"].verdict == "fail"


def test_of_claims_in_the_same_words_each_decides() -> None:
    """Of two hidden groups that of the second took the place of the first where halves were joined."""
    sound = assessment()
    claim = next(one for one in sound.claims if one.formal)
    given = replace(sound, claims=(replace(claim, holds=False), claim))
    assert {name: one.verdict for name, one in results(GATE, given).items()} == {
        "5-anonymity": "fail",
        "5-anonymity (2)": "pass",
    }
    assert GATE.metrics(given)["claim/KAnonymity/holds"] == 0.0
    assert GATE.metrics(given)["claim/KAnonymity.2/holds"] == 1.0
    halves = (Half(given.records, given.risk),) * 2
    assert decide(replace(given, halves=halves), PolicySection(), [GATE]).decision == "reject"


def test_what_steps_have_rounded_themselves_is_not_rounded_to_tens() -> None:
    exact = {"step1.details_kept": 1.0, "step1.counts_off": 0, "step1.goals_unmet": 0, "step1.cost_per_record": 2.0}
    assert published(changed(assessment(), method_figures=exact)).method_figures == exact


def test_claims_that_only_the_method_can_check_say_so() -> None:
    assert results(GATE, assessment())["5-anonymity"].baseline == "the release alone"
    given = changed(assessment(), claims__0__recomputed=False)
    assert results(GATE, given)["5-anonymity"].baseline == "by the method"


def test_metrics_are_the_figures_of_claims_and_steps() -> None:
    given = changed(assessment(), method_figures={"step1.groups": 81.0})
    assert GATE.metrics(given) == {
        "method/step1.groups": 81.0,
        "claim/KAnonymity/smallest_group": 5.0,
        "claim/KAnonymity/holds": 1.0,
    }


def test_counts_of_people_are_published_in_tens_and_losses_coarsely() -> None:
    exact = {"step1.loss": 0.06391, "step1.suppressed_records": 13, "step2.unmoved_targets": 0, "step3.smallest_box": 8}
    shown = published(changed(assessment(), method_figures=exact)).method_figures
    assert shown["step1.suppressed_records"] == 20
    assert shown["step2.unmoved_targets"] == 10
    assert shown["step3.smallest_box"] == 8
    assert abs(shown["step1.loss"] - 0.06391) > 1e-4


def test_what_follows_from_the_squares_of_the_source_is_neither_published_nor_tracked() -> None:
    given = changed(assessment(), method_figures={"step1.information_loss": 53.2})
    assert not published(given).method_figures
    assert "method/step1.information_loss" not in GATE.metrics(given)


def test_two_results_of_one_name_are_never_decided_on() -> None:
    twice = replace(GATE, evaluate=lambda given, policy: GATE.evaluate(given, policy) * 2)
    with pytest.raises(Fault, match="two results of one name"):
        decide(assessment(), PolicySection(), [twice])
