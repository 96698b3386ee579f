"""The gates on releases that follow each other: few changes ask a person, differences that reveal people reject."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from anoncore.risk.differencing import TRACED, Decoded, Differencing
from tasks.policy.assessment import Assessment, PairDifferencing, Series, UnitChanges
from tasks.policy.disclosure_control import published
from tasks.policy.gates.differencing import GATE as DIFFERENCING
from tasks.policy.gates.differencing import NAME as DIFFERENCE
from tasks.policy.gates.unit_changes import GATE, NAME
from tasks.policy.rounding import its_ten
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, changed, results

MANY = UnitChanges("office-0", 7, 0, 40)


def pair(excess: float, reach: float = 0.04, *, few: bool = False) -> PairDifferencing:
    way = Decoded("counts of levels", 0.6 + excess, 0.6, excess, excess - reach, excess + reach, 20)
    attack = Differencing((way,), 2000, 300, 0.99)
    return PairDifferencing("office-0", attack.verdict(0.05), None if few else attack)


@pytest.mark.parametrize(("area", "verdict"), [(0.55, "pass"), (0.57, "inconclusive"), (0.6, "fail")])
def test_who_joined_is_hidden_as_membership_is(area: float, verdict: str) -> None:
    """An area passes within 0.60; a share of values that are read off within 0.15."""
    way = Decoded(TRACED, area, 0.5, area - 0.5, area - 0.54, area - 0.46, 20)
    given = after(pairs=(PairDifferencing("office-0", "pass", Differencing((way,), 2000, 300, 0.99)),))
    assert results(DIFFERENCING, given)[DIFFERENCE].verdict == verdict
    assert results(DIFFERENCING, given, differencing=0.1)[DIFFERENCE].verdict == "pass"


def after(**series: object) -> Assessment:
    given = {"releases": 1, "known": 1, "least": 5, "identified": True, "newest": MANY}
    return changed(assessment(), series=Series(**given | series))  # type: ignore[arg-type]


def test_a_first_release_is_asked_nothing() -> None:
    for given in (assessment(), after(releases=0, known=0, newest=None)):
        assert not results(GATE, given)
        assert not results(DIFFERENCING, given)


def test_enough_changes_pass_and_few_ask_a_person_without_their_number() -> None:
    found = results(GATE, after())[NAME]
    assert (found.verdict, found.figure) == ("pass", "since office-0: 5 to 9 joined, 0 left, 40 to 49 changed")
    few = UnitChanges("office-1", None, None, 40)
    given = after(few=(few,))
    found = results(GATE, given)[NAME]
    shown = "since office-1: 1 to 4 joined or 1 to 4 left, 40 to 49 changed"
    assert (found.verdict, found.figure) == ("inconclusive", shown)
    verdict = decide(given, PolicySection(), [GATE])
    assert (verdict.decision, verdict.reason) == ("await", f"a person must decide: {NAME}")
    assert json.loads(json.dumps(given.to_json()))["series"]["few"][0]["joined"] is None


@drawn(st.integers(2, 60), st.integers(0, 300), st.booleans())
def test_who_knows_whether_all_others_changed_does_not_learn_it_of_the_last_one(least: int, more: int, by_next: bool):
    """Numbers are published, in figures and in the gate's sentence, as the ten in which they are."""
    n = least + more
    first, last = its_ten(n, least)
    assert max(first, least) <= n <= last
    assert last - first >= 4, "at least five numbers look alike"
    other = min(n + 1, last) if by_next else max(n - 1, first)
    shown = []
    for number in (n, other):
        one = UnitChanges("office-0", number, number, number, in_common=number)
        found = after(newest=one, few=(one,), elsewhere=(one,), least=least, as_of=number)
        shown.append((published(found).series, results(GATE, found)[NAME].figure))
    assert shown[0] == shown[1]


def test_where_the_variables_differ_it_is_not_known_who_changed_and_a_person_is_asked() -> None:
    other = UnitChanges("office-1", 7, 0, None, same_variables=False)
    found = results(GATE, after(few=(other,)))[NAME]
    assert found.verdict == "inconclusive"
    assert (
        found.figure == "since office-1: 5 to 9 joined, 0 left; who changed is not known, as its variables are others"
    )


def test_releases_whose_people_are_not_known_ask_a_person() -> None:
    found = results(GATE, after(releases=3, known=1, identified=False))[NAME]
    assert found.verdict == "inconclusive"
    assert "2 earlier release(s) not tested, as it is not known which units they share" in found.figure
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
    given = after(untested=2, not_tried=3)
    found = results(DIFFERENCING, given)[DIFFERENCE]
    assert found.verdict == "inconclusive"
    assert found.figure.startswith("2 pair(s) not tested, as there are too few other people")
    assert found.figure.endswith("3 pair(s) not tried, as more joined since")
    verdict = decide(given, PolicySection(untested=("membership",)), [DIFFERENCING])
    assert verdict.decision == "await", "no setting about membership accepts it"
    (row,) = DIFFERENCING.attacks(published(given))
    assert row.outcome == "not tested"


def test_a_variable_without_a_level_in_common_leaves_a_pair_open() -> None:
    found = results(DIFFERENCING, after(pairs=(replace(pair(0.01), lacking=2),)))[DIFFERENCE]
    assert found.verdict == "inconclusive"
    assert "1 pair(s) not tested by all variables" in found.figure


def test_no_figure_is_shown_from_which_a_small_number_follows() -> None:
    """Who joined alone determines the interval, and people of the control are all others."""
    given = after(pairs=(pair(0.0), pair(0.3, few=True)))
    (found,) = decide(given, PolicySection(), [DIFFERENCING]).gates
    assert found.verdict == "fail", "the verdict rests on every pair"
    assert found.figure == "+0.00, shown > -0.04, by counts of levels; of all ≤ +0.04; 1 pair(s) not shown, as few " + (
        "joined, left or changed, or it is not known how many"
    )
    assert DIFFERENCING.metrics(given)["risk/differencing"] == 0.0
    kept = given.to_json()["series"]["pairs"]
    assert [one["attack"] is None for one in kept] == [False, True], "nor are there any in the home"
    alone = after(pairs=(pair(0.3, few=True),))
    assert not DIFFERENCING.metrics(alone)
    (row,) = DIFFERENCING.attacks(published(alone))
    assert "few joined" in row.reason


def test_where_it_is_not_known_who_is_shared_waiting_is_not_advised() -> None:
    unknown = results(GATE, after(releases=4, known=1))[NAME]
    assert unknown.verdict == "inconclusive"
    assert "homes of their own" in unknown.needed
    other = results(GATE, after(releases=0, known=0, newest=None, by_other_secrets=1))[NAME]
    assert (other.verdict, other.figure.split(",")[0]) == ("inconclusive", "1 other home(s) not tested")
    assert "import digests by the secret" in other.needed


def test_where_too_few_are_left_out_the_reason_says_so() -> None:
    found = [results(GATE, after(exact=1, left_out=few))[NAME] for few in (0, 1)]
    assert {one.verdict for one in found} == {"inconclusive"}
    assert "and all units are in each" in found[0].figure
    assert "and a left_out of 1 is too few to hide them" in found[1].figure
    assert all("left_out of 200 or more" in one.needed for one in found)


def test_beside_another_home_offices_are_to_agree() -> None:
    """Waiting until more have joined never closes it."""
    many = UnitChanges("north/tax-0", 30, 25, None, same_variables=False, in_common=870)
    found = results(GATE, after(elsewhere=(many,)))[NAME]
    assert (found.verdict, found.limit) == ("inconclusive", "none, or at least 5 of each and no unit in common")
    beside = "870 to 879 units in common, 30 to 39 that it lacks, 20 to 29 that it has besides"
    assert found.figure.endswith(f"beside north/tax-0 of another home: {beside}")
    assert "agree with the other office" in found.needed
    few = UnitChanges("north/tax-0", None, None, None, same_variables=False)
    hidden = results(GATE, after(elsewhere=(few,)))[NAME].figure
    assert hidden.endswith("units in common; fewer than 5 of these, of those it lacks, or of those it has besides")


def test_what_is_undecided_is_named() -> None:
    traced = Decoded(TRACED, 0.55, 0.5, 0.05, 0.0, 0.12, 20)
    read = Decoded("counts of levels", 0.65, 0.6, 0.05, 0.01, 0.09, 20)
    given = after(pairs=(PairDifferencing("office-0", "inconclusive", Differencing((traced, read), 2000, 300, 0.99)),))
    found = results(DIFFERENCING, given)[DIFFERENCE]
    assert found.verdict == "inconclusive"
    assert "undecided by traces of records (≤ +0.12)" in found.figure


@pytest.mark.parametrize(("joined", "step", "shown"), [(40, 0.5, 40), (150, 0.1, 150), (2003, 0.01, 2010)])
def test_what_is_read_off_is_published_in_steps_of_ten_people(joined: int, step: float, shown: int) -> None:
    """From the exact share, and the others' values, how many of the last one's are read off would follow."""
    way = Decoded("counts of levels", 0.6137, 0.6071, 0.0066, -0.0131, 0.0263, 20)
    given = after(pairs=(PairDifferencing("office-0", "pass", Differencing((way,), joined, 300, 0.99)),))
    attack = published(given).series.pairs[0].attack
    assert attack.n_joined == shown
    figures = [getattr(attack.ways[0], name) / step for name in ("joined", "control", "excess", "lower", "upper")]
    assert figures == pytest.approx([round(one) for one in figures])
    (found,) = decide(given, PolicySection(), [DIFFERENCING]).gates
    assert found.verdict == "pass"
    assert found.figure.endswith("decided before it was rounded") == (joined == 40)
