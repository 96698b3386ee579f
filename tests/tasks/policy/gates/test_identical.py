"""Records that are released as they are."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.policy.gates.identical import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results

RELEASED = {"risk__identical__n_released": 1, "risk__identical__p": 0.5, "risk__identical__n_duplicates": 0}


def verdict(**changes: Any) -> str:
    return results(GATE, changed(assessment(), **changes))[NAME].verdict


@pytest.mark.parametrize(
    ("p", "expected"), [(0.01, "pass"), (0.0099, "inconclusive"), (0.0014, "fail"), (float("nan"), "fail")]
)
def test_proof_of_copies_fails(p: float, expected: str) -> None:
    assert verdict(risk__identical__p=p) == expected
    assert results(GATE, changed(assessment(), risk__identical__p=0.0099), tail_p=0.001)[NAME].verdict == "pass"


def test_a_released_record_is_inconclusive_where_no_record_repeats_another() -> None:
    assert verdict(**RELEASED) == "inconclusive"
    limit = results(GATE, changed(assessment(), **RELEASED))[NAME].limit
    assert limit == "fail: p < 0.0014; pass: p ≥ 0.01, or none where no record repeats another"
    assert verdict(**RELEASED | {"risk__identical__n_reference": 1}) == "pass"
    assert verdict(**RELEASED | {"risk__identical__n_duplicates": 1}) == "pass"
    assert verdict(**RELEASED | {"risk__identical__others_repeat": True}) == "pass"


def test_records_of_members_and_non_members_alike_ask_a_person() -> None:
    assert verdict(risk__identical__verdict="inconclusive", risk__identical__n_duplicates=1) == "inconclusive"
