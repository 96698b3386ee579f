"""What externally produced files hold besides what was measured."""

from __future__ import annotations

from tasks.policy.assessment import ExternalFiles
from tasks.policy.gates.files import GATE
from tests.tasks.policy.sample import assessment, changed, results


def test_identifiers_fail_and_unmeasured_columns_are_inconclusive() -> None:
    assert not results(GATE, assessment())
    assert not results(GATE, changed(assessment(), external=ExternalFiles(0, 0, None)))
    found = results(GATE, changed(assessment(), external=ExternalFiles(2, 7, None)))
    assert {name: (one.verdict, one.figure) for name, one in found.items()} == {
        "identifiers of the original": ("fail", "7"),
        "columns not measured": ("inconclusive", "2"),
    }
