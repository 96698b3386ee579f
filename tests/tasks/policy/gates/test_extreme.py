"""Records far from all others."""

from __future__ import annotations

import pytest

from tasks.policy.disclosure_control import published
from tasks.policy.gates.extreme import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results

MATCHED = {"risk__extreme__verdict": "fail", "risk__extreme__n_matched": 1}


@pytest.mark.parametrize(("queries", "none", "one"), [(814, "pass", "fail"), (700, "inconclusive", "fail")])
def test_a_match_fails_and_a_sample_without_one_proves_nothing(queries: int, none: str, one: str) -> None:
    given = changed(assessment(), risk__queries__used=queries)
    assert results(GATE, given)[NAME].verdict == none
    found = results(GATE, changed(given, **MATCHED))[NAME]
    assert (found.verdict, found.figure) == (one, "1 of 4 matched")


def test_no_extreme_record_is_said_so() -> None:
    (row,) = GATE.attacks(published(changed(assessment(), risk__extreme__n_extreme=0)))
    assert row.attacker.endswith("There is none so far away.")
    assert row.interval == "–"
