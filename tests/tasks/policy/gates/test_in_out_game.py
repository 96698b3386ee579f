"""The in/out game decides by the people who are recognised best; where none was played, it says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anoncore.risk import Game, GroupArea
from tasks.policy.assessment import Assessment, InOutGame
from tasks.policy.disclosure_control import published
from tasks.policy.gates.in_out_game import GATE
from tests.tasks.policy.sample import assessment, results


def area(score: str, group: str, lower: float = 0.48, upper: float = 0.55, single: float = 0.53) -> GroupArea:
    return GroupArea(score, group, 20, (lower + upper) / 2, lower, upper, 0.81, single, 0.11, 0.52)


def given(*areas: GroupArea) -> Assessment:
    return replace(assessment(), in_out_game=InOutGame(Game(areas, 0.31, 192, 814, 40, 0.99)))


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [(0.48, 0.59, "pass"), (0.50, 0.61, "inconclusive"), (0.56, 0.59, "fail")],
)
@pytest.mark.parametrize("group", ["isolated", "random", "of the plan"])
def test_the_group_that_is_recognised_best_decides(lower: float, upper: float, verdict: str, group: str) -> None:
    found = given(*(area("distance", name) for name in ("isolated", "random")), area("presence", group, lower, upper))
    (result,) = results(GATE, found).values()
    assert result.verdict == verdict
    assert result.records == 814
    for part in (
        "192 shadow releases",
        "0.81 (shown > 0.53) for the person recognised best",
        "mean of 20 ",
        "ε is at least 0.31",
    ):
        assert part in result.meaning


def test_a_release_that_reveals_a_single_person_waits_for_a_decision() -> None:
    found = given(area("distance", "isolated"), area("presence", "random", single=0.56))
    assert results(GATE, found)["in/out game"].verdict == "inconclusive"


def test_the_worst_upper_bound_of_all_scores_must_be_within_the_limit() -> None:
    found = given(area("distance", "isolated", 0.51, 0.55), area("presence", "isolated", 0.40, 0.65))
    assert results(GATE, found)["in/out game"].verdict == "inconclusive"


def test_a_plan_that_plays_no_game_has_no_result_unless_the_policy_requires_one() -> None:
    assert results(GATE, assessment()) == {}
    required = results(GATE, assessment(), in_out_game="required")["in/out game"]
    assert (required.verdict, required.records) == ("not tested", 0)
    (row,) = GATE.attacks(published(assessment()))
    assert (row.outcome, row.gate) == ("not tested", "in/out game")
    assert "the game was not played; the plan does not ask for it" in row.attacker
    assert GATE.metrics(assessment()) == {}


def test_a_game_that_could_not_be_played_is_not_tested_and_says_why() -> None:
    failed = replace(assessment(), in_out_game=InOutGame(None, "a shadow release could not be made: too few"))
    (result,) = results(GATE, failed).values()
    assert result.verdict == "not tested"
    assert "too few" in result.figure
    assert "too few" in GATE.attacks(published(failed))[0].attacker


def test_report_and_metrics_hold_each_group() -> None:
    found = given(area("distance", "isolated"), area("distance", "random"), area("distance", "rare levels"))
    rows = GATE.attacks(published(found))
    assert [row.name.removeprefix("In/out game, ") for row in rows] == [
        "isolated people",
        "random people",
        "rare levels people",
    ]
    assert rows[0].interval == "0.480 to 0.550 at 99\u00a0%"
    metrics = GATE.metrics(found)
    assert metrics["risk/game_isolated/lower"] == 0.48
    assert metrics["risk/game_rare levels/largest"] == 0.81
    assert metrics["risk/game_epsilon"] == 0.31


def test_an_assessment_with_a_game_is_stored_and_read_again() -> None:
    found = given(area("distance", "isolated"))
    assert Assessment.from_json(found.to_json()).in_out_game == found.in_out_game
