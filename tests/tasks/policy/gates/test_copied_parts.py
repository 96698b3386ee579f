"""Limits on parts of records that stand beside values of others."""

from __future__ import annotations

import pytest

from tasks.policy.gates.copied_parts import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize(
    ("p", "verdict"), [(0.3, "pass"), (0.01, "pass"), (0.009, "inconclusive"), (0.0016, "fail"), (float("nan"), "fail")]
)
def test_the_sum_of_the_evidence_decides(p: float, verdict: str) -> None:
    given = changed(assessment(), risk__copied_parts__parts__0__p=p)
    assert results(GATE, given)[NAME].verdict == verdict


def test_without_nonmembers_it_is_not_tested_and_without_a_part_not_asked() -> None:
    none = changed(assessment(), risk__copied_parts=None)
    assert not results(GATE, none)
    assert results(GATE, changed(none, risk__membership=None))[NAME].verdict == "not tested"
