"""Records that the release matches unusually closely."""

from __future__ import annotations

import pytest

from tasks.policy.gates.close_records import GATE, ISOLATED, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize(
    ("p", "expected"),
    [(0.01, "pass"), (0.00999, "inconclusive"), (0.0015, "inconclusive"), (0.0014, "fail"), (float("nan"), "fail")],
)
def test_the_level_is_the_policys(p: float, expected: str) -> None:
    given = changed(assessment(), risk__tail__p=p)
    assert results(GATE, given)[NAME].verdict == expected
    assert results(GATE, given, tail_p=0.001)[NAME].verdict == ("pass" if p == p else "fail")


def test_too_few_records_are_inconclusive() -> None:
    given = changed(assessment(), risk__tail__verdict="inconclusive", risk__tail__p=1.0)
    found = results(GATE, given)[NAME]
    assert found.verdict == "inconclusive"
    assert "records may not reach p < 0.0014, or" in found.explanation


def test_a_p_value_between_the_levels_is_explained() -> None:
    assert "between the two levels" in results(GATE, changed(assessment(), risk__tail__p=0.005))[NAME].explanation
    assert "levels" not in results(GATE, assessment())[NAME].explanation


def test_close_pairs_are_reported_where_they_were_looked_at() -> None:
    found = results(GATE, assessment())[NAME]
    assert found.figure == "at most 2 (pairs at most 3 of at most 9), p\u00a0≥ 0.5"
    assert found.meaning.endswith("chance gives the release at most a third of close pairs")
    alone = results(GATE, changed(assessment(), risk__tail__n_close_pairs=None))[NAME]
    assert alone.figure == "at most 2, p\u00a0≥ 0.5"
    assert "pairs" not in alone.meaning


def test_isolated_records_decide_by_themselves() -> None:
    assert {one.verdict for one in results(GATE, assessment()).values()} == {"pass"}
    found = results(GATE, changed(assessment(), risk__isolated__p=0.001))
    assert {name: one.verdict for name, one in found.items()} == {NAME: "pass", ISOLATED: "fail"}
    assert GATE.metrics(assessment())["risk/isolated/p"] == 0.4
