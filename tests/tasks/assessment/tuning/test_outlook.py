"""Why no setting passes, and what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anoncore.methods import MDAV, RareLevels, SequentialTrees
from tasks.assessment.tuning.choice import Choice
from tasks.assessment.tuning.outlook import kinds, obstacle, units_needed
from tasks.assessment.tuning.search import SearchResult
from tasks.assessment.tuning.trial import Trial, Tried
from tasks.assessment.tuning.variation import Variation
from tasks.policy.gate import BoundedFigure, Bounds, GateResult, GateVerdict, Threshold


def gate(name: str, verdict: GateVerdict, figure: float, *variables: str) -> GateResult:
    result = GateResult(name, verdict, f"{figure:g}", "0.1", "0", 100, "", "Utility", variables)
    return replace(result, threshold=Threshold(figure, 0.1))


def tried(variation: Variation, *gates: GateResult) -> Tried:
    decision = "reject" if any(one.verdict == "fail" for one in gates) else "publish"
    return Tried(variation, Trial(variation.name, decision, "failed", gates))


TREES, GROUPS = Variation((SequentialTrees(leaf=20),)), Variation((MDAV(k=5),), without=("tax",))


def test_the_gate_that_stops_every_setting_is_named_with_its_nearest_figure() -> None:
    both = (
        tried(TREES, gate("pair", "fail", 0.3, "age", "income"), gate("density", "pass", 0.0)),
        tried(GROUPS, gate("pair", "fail", 0.2, "age"), gate("density", "fail", 0.4)),
    )
    found = obstacle(both, enough=True)
    assert found is not None
    assert found.stops_all
    assert found.variables == ("age", "income")
    assert found.sentence == (
        f"none of the 2 settings tried passes pair (nearest: 0.2, limit 0.1, with {GROUPS.name}; driven by age, income)"
    )
    ended = Choice(SearchResult(both, 0, True, True), None, None).sentence
    assert ended.startswith(
        f"no setting that this search knows can pass with these variables and records: {found.sentence}"
    )
    early = Choice(SearchResult(both, 0, False, True), None, None).sentence
    assert early.startswith(f"nothing that was tried passes: {found.sentence}")


def test_a_gate_that_some_settings_pass_is_no_proof() -> None:
    some = (tried(TREES, gate("pair", "fail", 0.3)), tried(GROUPS, gate("pair", "pass", 0.0)))
    found = obstacle(some, enough=True)
    assert found is not None
    assert not found.stops_all
    assert found.sentence.startswith("pair stops 1 of the 2 settings tried")
    assert obstacle(some[1:], enough=True) is None


@pytest.mark.parametrize(("half", "units"), [(0.1, 400), (0.2, 1600)])
def test_units_grow_with_the_square_of_the_reach(half: float, units: int) -> None:
    # Passes within 0.05, fails above 0: a harmless release needs a reach of 0.1 upwards.
    bounds = Bounds((BoundedFigure("", 0.0, -half, half, half),), 0.05, 0.0)
    open_ = replace(gate("density", "inconclusive", 0.0), bounds=bounds)
    assert units_needed(Trial("own", "await", "open", (open_,)), 200) == units


def test_what_was_tried_is_said_in_words() -> None:
    found = kinds([tried(TREES), tried(GROUPS), tried(Variation((RareLevels(k=5), MDAV(k=5))))])
    assert found == (
        "3 setting(s) of 2 method(s), 1 with variables left out, 1 with rare levels or extreme records treated"
    )


def test_a_part_of_the_units_treats_rare_levels_as_the_whole_does() -> None:
    own = Variation((RareLevels(k=10), SequentialTrees(leaf=20)))
    assert own.in_share(0.5).steps == (RareLevels(k=5), SequentialTrees(leaf=20))
    assert own.in_share(1.0) == own
    assert own.in_share(0.01).steps[0] == RareLevels(k=3)
