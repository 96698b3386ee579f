"""Two values of one record that are released together."""

from __future__ import annotations

import pytest

from tasks.policy.attack import NO_NON_MEMBERS
from tasks.policy.disclosure_control import published
from tasks.policy.gates.value_pairs import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize("verdict", ["pass", "fail", "inconclusive"])
def test_the_verdict_is_the_measures(verdict: str) -> None:
    found = results(GATE, changed(assessment(), risk__value_pairs__verdict=verdict))[NAME]
    assert (found.verdict, found.figure) == (verdict, "income and height: +0.01 [-0.01, +0.03]")
    assert (found.limit, found.baseline) == ("fail: shown > 0.5; pass: not shown > 0.05", "0.00, the reference")


def test_of_a_wide_table_it_is_said_how_many_pairs_were_looked_at() -> None:
    assert results(GATE, assessment())[NAME].meaning.endswith("the worst of 21 pairs of variables")
    drawn = changed(assessment(), risk__value_pairs__n_possible=1225)
    assert results(GATE, drawn)[NAME].meaning.endswith("the worst of 21 pairs of variables, drawn from 1,225")


def test_without_pairs_there_is_no_gate_and_the_table_says_why() -> None:
    for change, reason in (
        ({"risk__value_pairs": None}, NO_NON_MEMBERS),
        ({"risk__value_pairs__pair": ()}, "no two variables have values rare enough"),
    ):
        given = changed(assessment(), **change)
        assert not results(GATE, given)
        (row,) = GATE.attacks(published(given))
        assert reason in row.attacker
