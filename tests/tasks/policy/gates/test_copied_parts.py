"""Parts of records that stand beside values of others, in files of other tools."""

from __future__ import annotations

import pytest

from tasks.policy.assessment import ExternalFiles
from tasks.policy.gates.copied_parts import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize(
    ("p", "verdict"), [(0.3, "pass"), (0.01, "pass"), (0.009, "inconclusive"), (float("nan"), "inconclusive")]
)
def test_the_sum_of_the_evidence_leaves_a_file_of_another_tool_open(p: float, verdict: str) -> None:
    given = changed(assessment(), risk__copied_parts__parts__0__p=p, external=ExternalFiles(0, 0))
    assert results(GATE, given)[NAME].verdict == verdict


def test_nothing_is_asked_of_a_plan_and_where_there_is_no_part() -> None:
    external = changed(assessment(), external=ExternalFiles(0, 0))
    assert not results(GATE, assessment())
    assert not results(GATE, changed(external, risk__copied_parts=None))
