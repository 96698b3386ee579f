"""The gates on releases that follow each other: few changes ask a person, differences that reveal people reject."""

from __future__ import annotations

import json

import pytest

from anoncore.risk.differencing import Decoded, Differencing
from tasks.policy.assessment import Assessment, PairDifferencing, Series, UnitChanges
from tasks.policy.disclosure_control import published
from tasks.policy.gates.differencing import GATE as DIFFERENCING
from tasks.policy.gates.differencing import NAME as DIFFERENCE
from tasks.policy.gates.unit_changes import GATE, NAME
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, changed, results

MANY = UnitChanges("office-0", 7, 0, 40)


def pair(excess: float, reach: float = 0.04) -> PairDifferencing:
    way = Decoded("counts of levels", 0.6 + excess, 0.6, excess, excess - reach, excess + reach, 20)
    return PairDifferencing("office-0", Differencing((way,), 300, 0.99))


def after(**series: object) -> Assessment:
    given = {"releases": 1, "known": 1, "least": 5, "identified": True, "newest": MANY}
    return changed(assessment(), series=Series(**given | series))  # type: ignore[arg-type]


def test_a_first_release_is_asked_nothing() -> None:
    for given in (assessment(), after(releases=0, known=0, newest=None)):
        assert not results(GATE, given)
        assert not results(DIFFERENCING, given)


def test_enough_changes_pass_and_few_ask_a_person_without_their_number() -> None:
    found = results(GATE, after())[NAME]
    assert (found.verdict, found.figure) == ("pass", "since office-0: 7 joined, 0 left, 40 changed")
    few = UnitChanges("office-1", None, 0, 40)
    given = after(few=(few,))
    found = results(GATE, given)[NAME]
    assert (found.verdict, found.figure) == ("inconclusive", "since office-1: 1 to 4 joined, 0 left, 40 changed")
    verdict = decide(given, PolicySection(), [GATE])
    assert (verdict.decision, verdict.reason) == ("await", f"a person must decide: {NAME}")
    assert json.loads(json.dumps(given.to_json()))["series"]["few"][0]["joined"] is None


def test_releases_whose_people_are_not_known_ask_a_person() -> None:
    found = results(GATE, after(releases=3, known=1, identified=False))[NAME]
    assert found.verdict == "inconclusive"
    assert "who is in 2 earlier release(s) is not known" in found.figure
    assert "known by their values as no identifier is declared" in found.meaning


@pytest.mark.parametrize(
    ("excess", "untested", "verdict"),
    [(0.0, 0, "pass"), (0.0, 1, "inconclusive"), (0.08, 0, "pass"), (0.12, 0, "fail"), (0.3, 1, "fail")],
)
def test_what_a_difference_reveals_has_a_limit(excess: float, untested: int, verdict: str) -> None:
    given = after(pairs=(pair(0.0), pair(excess)), untested=untested)
    found = results(DIFFERENCING, given)[DIFFERENCE]
    assert (found.verdict, found.records) == (verdict, 300)
    assert results(DIFFERENCING, given, differencing=0.5)[DIFFERENCE].verdict != "fail"
    (row,) = DIFFERENCING.attacks(published(given))
    assert f"right for {round(100 * (0.6 + excess))}" in row.attacker


def test_a_difference_that_cannot_be_tested_says_so() -> None:
    given = after(untested=2)
    assert results(DIFFERENCING, given)[DIFFERENCE].verdict == "not tested"
    (row,) = DIFFERENCING.attacks(published(given))
    assert row.outcome == "not tested"
