"""Numbers that one unit dominates, in releases of plans and in files of other tools."""

from __future__ import annotations

import pytest

from tasks.policy.assessment import ExternalFiles
from tasks.policy.gates.dominance import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize(
    ("external", "as_far", "verdict"),
    [
        (None, False, "fail"),
        (None, True, "inconclusive"),
        (ExternalFiles(0, 0), False, "inconclusive"),
        (ExternalFiles(0, 0), True, "pass"),
    ],
)
def test_a_far_number_fails_a_release_and_leaves_another_tools_file_open_unless_other_people_have_one(
    external: ExternalFiles | None, as_far: bool, verdict: str
) -> None:
    dominance = {"risk__dominance__followed": ("wealth",), "risk__dominance__as_far": as_far}
    given = changed(assessment(), **dominance, external=external)
    assert results(GATE, given)[NAME].verdict == verdict
