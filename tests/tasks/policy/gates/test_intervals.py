"""Interval disclosure, decided where a policy gives a limit."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import published
from tasks.policy.gates.intervals import GATE, NAME
from tests.tasks.policy.sample import changed, results


def test_the_worst_variable_is_compared_with_the_limit(measured: Assessment) -> None:
    assert not results(GATE, measured)
    worst = max(measured.risk.intervals, key=lambda one: one.excess)
    for limit, verdict in ((worst.within.lower - worst.chance, "inconclusive"), (0.01, "fail"), (1.0, "pass")):
        asked = results(GATE, measured, interval_disclosure=limit)[NAME]
        assert (asked.verdict, asked.variables) == (verdict, (worst.name,))
    assert GATE.attacks(published(measured))[0].gate == NAME


def test_without_rows_that_keep_their_records_nothing_is_disclosed(measured: Assessment) -> None:
    bare = changed(measured, risk__intervals=None)
    assert results(GATE, bare, interval_disclosure=0.1)[NAME].verdict == "pass"
    assert not GATE.attacks(published(bare))
