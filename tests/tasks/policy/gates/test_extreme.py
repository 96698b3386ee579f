"""Records far from all others."""

from __future__ import annotations

import pytest

from tasks.policy.disclosure_control import published
from tasks.policy.gates.extreme import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results

MATCHED = {"risk__extreme__verdict": "fail", "risk__extreme__n_matched": 1}


@pytest.mark.parametrize("queries", [814, 700])
def test_a_match_fails_also_where_other_measures_are_of_a_sample(queries: int) -> None:
    given = changed(assessment(), risk__queries__used=queries)
    assert results(GATE, given)[NAME].verdict == "pass"
    found = results(GATE, changed(given, **MATCHED))[NAME]
    assert (found.verdict, found.figure) == ("fail", "at most 1 of at most 4 matched")


def test_whether_there_is_an_extreme_record_is_not_told() -> None:
    none, one = (GATE.attacks(published(changed(assessment(), risk__extreme__n_extreme=n))) for n in (0, 1))
    assert none == one
