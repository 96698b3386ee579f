"""What externally produced files hold besides what was measured."""

from __future__ import annotations

from anoncore.risk import IdentifierMatches, Relabelling, RowOrder, proportion
from tasks.policy.assessment import ExternalFiles
from tasks.policy.gates.files import GATE
from tests.tasks.policy.sample import assessment, changed, results


def test_identifiers_fail_and_unmeasured_columns_are_inconclusive() -> None:
    assert not results(GATE, assessment())
    assert not results(GATE, changed(assessment(), external=ExternalFiles(0, 0)))
    found = results(GATE, changed(assessment(), external=ExternalFiles(2, 7)))
    assert {name: (one.verdict, one.figure) for name, one in found.items()} == {
        "identifiers of the original": ("fail", "at most 10"),
        "columns not measured": ("inconclusive", "2"),
    }


def test_levels_under_other_names_are_not_tested() -> None:
    same = changed(assessment(), external=ExternalFiles(0, 0, (), Relabelling((), (), 4)))
    assert not results(GATE, same)
    other = ExternalFiles(0, 0, (), Relabelling(("region",), ("sex",), 4))
    one = results(GATE, changed(assessment(), external=other))["levels of the original"]
    assert (one.verdict, one.figure) == ("not tested", "2 of 4")
    assert "region, sex" in one.meaning


def test_a_person_decides_on_rows_in_the_order_of_the_original() -> None:
    assert not results(GATE, changed(assessment(), external=ExternalFiles(0, 0, row_order=RowOrder((), 90))))
    found = results(GATE, changed(assessment(), external=ExternalFiles(0, 0, row_order=RowOrder(("sex", "age"), 90))))
    assert (found["row order"].verdict, found["row order"].figure) == ("inconclusive", "2")
    assert "sex, age" in found["row order"].meaning


def test_columns_that_look_like_identifiers_never_fail() -> None:
    cases = [
        (proportion(500, 500), proportion(0, 500), "inconclusive"),
        (proportion(500, 500), proportion(500, 500), "pass"),
        (proportion(20, 500), proportion(18, 500), "pass"),
        (proportion(20, 500), None, "inconclusive"),
        (proportion(0, 500), None, "pass"),
    ]
    for released, reference, verdict in cases:
        files = ExternalFiles(0, 0, (IdentifierMatches("number", released, reference),))
        found = results(GATE, changed(assessment(), external=files))
        assert found["possible identifier number"].verdict == verdict


def test_shares_of_the_originals_people_are_no_finer_than_their_number_allows() -> None:
    files = ExternalFiles(0, 0, (IdentifierMatches("number", proportion(203, 500), proportion(1, 500)),))
    [one] = results(GATE, changed(assessment(), external=files)).values()
    assert (one.figure.partition(" [")[0], one.baseline) == ("40.0\u00a0%", "0.0\u00a0%, the reference")
