"""Figures of groups: a person is asked about those that the release repeats, and texts hold no exact number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anoncore.risk import GroupFigure, GroupFigures, ReleasedFigures
from tasks.policy.assessment import Half
from tasks.policy.gates.group_figures import GATE, NAME
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, changed, results

TOP = ReleasedFigures(GroupFigure("firm_top_wage", "wage", "firm", "greatest"), 28, 28, 0.03, 1e-60, 1.0)


@pytest.mark.parametrize(("p", "verdict", "named"), [(1e-4, "inconclusive", ("firm_top_wage",)), (2e-3, "pass", ())])
def test_more_figures_than_chance_explains_ask_a_person(p: float, verdict: str, named: tuple[str, ...]) -> None:
    given = changed(assessment(), risk__group_figures__computed=(replace(TOP, p=p),))
    one = results(GATE, given)[NAME]
    assert (one.verdict, one.variables) == (verdict, named)


def test_texts_are_no_finer_than_ten_figures() -> None:
    def text(repeated: int) -> str:
        given = changed(assessment(), risk__group_figures__computed=(replace(TOP, repeated=repeated),))
        return results(GATE, given)[NAME].figure

    assert text(21) == text(28) == "1 of 4 variables, at most 30 figures"
    assert text(2) == text(10)


def test_nothing_is_said_where_groups_are_in_parts_or_no_number_is_released() -> None:
    assert not results(GATE, changed(assessment(), risk__group_figures=None))
    assert not results(GATE, changed(assessment(), risk__group_figures=GroupFigures(2000, 0, ())))


def test_a_half_has_the_figures_of_all_records() -> None:
    given = assessment()
    half = Half(given.records, replace(given.risk, group_figures=None))
    found = changed(given, risk__group_figures__computed=(TOP,), halves=(half, half))
    assert {one.name: one.verdict for one in decide(found, PolicySection()).gates}[NAME] == "inconclusive"
