"""Interval disclosure, decided where a policy gives a limit."""

from __future__ import annotations

from anoncore.risk import IntervalDisclosure
from anoncore.risk._proportions import proportion
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import published
from tasks.policy.gates.intervals import GATE, NAME
from tests.tasks.policy.sample import changed, results


def test_the_worst_variable_is_compared_with_the_limit(measured: Assessment) -> None:
    assert not results(GATE, measured)
    most = max(one.lower for one in measured.risk.intervals)
    for limit, verdict in ((most, "inconclusive"), (0.01, "fail"), (1.0, "pass")):
        assert results(GATE, measured, interval_disclosure=limit)[NAME].verdict == verdict
    assert GATE.attacks(published(measured))[0].gate == NAME


def test_a_variable_that_is_not_shown_to_be_within_the_limit_leaves_it_open(measured: Assessment) -> None:
    many = IntervalDisclosure("many", proportion(600, 10_000, 0.99), 0.02)
    few = IntervalDisclosure("few", proportion(2, 40, 0.99), 0.02)
    for found, verdict in (((many,), "pass"), ((many, few), "inconclusive"), ((), "not tested")):
        given = changed(measured, risk__intervals=found)
        assert results(GATE, given, interval_disclosure=0.05)[NAME].verdict == verdict


def test_without_rows_that_keep_their_records_nothing_is_disclosed(measured: Assessment) -> None:
    bare = changed(measured, risk__intervals=None)
    assert results(GATE, bare, interval_disclosure=0.1)[NAME].verdict == "pass"
    assert not GATE.attacks(published(bare))
