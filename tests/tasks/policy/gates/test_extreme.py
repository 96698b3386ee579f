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
    assert (found.verdict, found.figure) == ("fail", "1 of 4 matched")


def test_no_extreme_record_is_said_so() -> None:
    (row,) = GATE.attacks(published(changed(assessment(), risk__extreme__n_extreme=0)))
    assert row.attacker.endswith("There is none so far away.")
    assert row.interval == "–"
