"""Whether the reference sample holds other people."""

from __future__ import annotations

from tasks.policy.assessment import Assessment, ReferenceOverlap
from tasks.policy.gates.reference_sample import GATE
from tests.tasks.policy.sample import assessment, changed, results

NAME = "reference of other people"


def with_overlap(**changes: object) -> Assessment:
    return changed(assessment(), overlap=changed(ReferenceOverlap(0, 0, 814, 1.0, 0), **changes))


def test_other_people_ask_nothing() -> None:
    assert not results(GATE, assessment())
    assert not results(GATE, with_overlap(p=0.0001))


def test_identifiers_and_identical_records_of_the_original_are_inconclusive() -> None:
    assert results(GATE, with_overlap(named=7))[NAME].figure == "at most 10"
    found = results(GATE, with_overlap(matches=12, duplicates=1, p=0.00009))[NAME]
    assert (found.verdict, found.figure) == ("inconclusive", "at most 20, p\u00a0= 9e-05")


def test_close_pairs_across_the_samples_are_inconclusive() -> None:
    given = changed(assessment(), risk__close_pairs__n_among=60, risk__close_pairs__n_cross=58)
    found = results(GATE, given)[NAME]
    assert (found.verdict, found.baseline, found.records) == ("inconclusive", "at most half", 60)
    assert found.figure.startswith("at most 60 of 60, p")
