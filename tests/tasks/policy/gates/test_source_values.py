"""Numbers of single records that a plan publishes on purpose."""

from __future__ import annotations

from tasks.policy.gates.source_values import GATE
from tests.tasks.policy.sample import assessment, changed, results


def test_a_person_decides_where_a_plan_publishes_numbers_of_single_records() -> None:
    assert results(GATE, assessment()) == {}
    given = changed(assessment(), source_values=("marginals: exact publishes every number", "another"))
    (result,) = results(GATE, given).values()
    assert (result.verdict, result.figure) == ("inconclusive", "2 reasons, by the plan")
    assert result.meaning == "marginals: exact publishes every number"


def test_a_person_decides_where_levels_of_few_people_are_released() -> None:
    given = changed(assessment(), source_levels=("country", "work"))
    (result,) = results(GATE, given).values()
    assert (result.name, result.verdict, result.figure) == ("rare levels", "inconclusive", "2 variables")
    assert result.variables == ("country", "work")
