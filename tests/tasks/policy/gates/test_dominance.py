"""Numbers that one unit dominates, in releases of plans and in files of other tools."""

from __future__ import annotations

import pytest

from tasks.policy.assessment import ExternalFiles
from tasks.policy.gates.dominance import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize(("external", "verdict"), [(None, "fail"), (ExternalFiles(0, 0, None), "inconclusive")])
def test_a_far_number_fails_a_release_and_leaves_another_tools_file_open(
    external: ExternalFiles | None, verdict: str
) -> None:
    given = changed(assessment(), risk__dominance__followed=("wealth",), external=external)
    assert results(GATE, given)[NAME].verdict == verdict
