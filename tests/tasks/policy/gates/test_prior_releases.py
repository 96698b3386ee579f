"""Membership inference by all releases of the same data."""

from __future__ import annotations

import pytest

from tasks.policy.assessment import Assessment, PriorReleases
from tasks.policy.disclosure_control import published
from tasks.policy.gates.prior_releases import GATE, NAME
from tests.tasks.policy.sample import assessment, averaging, changed, results


def after(releases: int = 2, compared: int = 2, lower: float = 0.48) -> Assessment:
    attack = averaging(lower) if compared else None
    return changed(assessment(), prior_releases=PriorReleases(releases, compared, attack))


def test_a_first_release_passes() -> None:
    found = results(GATE, assessment())[NAME]
    assert (found.verdict, found.figure, found.records) == ("pass", "0", 0)
    assert not results(GATE, changed(assessment(), prior_releases=None))


def test_releases_that_disclose_nothing_together_pass() -> None:
    found = results(GATE, after())[NAME]
    assert (found.verdict, found.records) == ("pass", 1628)
    assert found.figure == "AUC 0.510 [0.480, 0.540] with 2 of 2"


def test_releases_that_disclose_members_fail_even_where_one_cannot_be_compared() -> None:
    assert results(GATE, after(lower=0.56))[NAME].verdict == "fail"
    assert results(GATE, after(releases=3, lower=0.56))[NAME].verdict == "fail"
    assert results(GATE, after(lower=0.56), membership_auc=0.65)[NAME].verdict == "pass"


@pytest.mark.parametrize("compared", [0, 1])
def test_releases_that_cannot_be_compared_are_inconclusive(compared: int) -> None:
    assert results(GATE, after(compared=compared))[NAME].verdict == "inconclusive"


def test_the_table_shows_both_attacks_beside_this_release_alone() -> None:
    averaged, gathered = GATE.attacks(published(after(releases=3)))
    assert "2 of 3 earlier release(s) can be compared" in averaged.attacker
    assert averaged.baseline == gathered.baseline == "0.500, guessing; 0.510 by this release alone"
    (row,) = GATE.attacks(published(after(compared=0)))
    assert "none of the 2 earlier release(s) can be compared" in row.attacker
