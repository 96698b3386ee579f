"""Values beyond the source's range."""

from __future__ import annotations

from tasks.policy.gates.value_limits import GATE, NAME
from tests.tasks.policy.sample import N, assessment, changed, results

BEYOND = "utility__variables__variables__1__released_shift__beyond"


def test_values_beyond_the_range_fail_but_for_those_of_chance() -> None:
    for values, verdict in ((0, "pass"), (12, "pass"), (13, "fail")):
        found = results(GATE, changed(assessment(), **{BEYOND: values / N}))[NAME]
        assert found.verdict == verdict
        assert found.variables == (("height",) if values else ())
    wide = results(GATE, changed(assessment(), **{BEYOND: 0.05}), utility={"beyond": 0.05})
    assert wide[NAME].verdict == "pass"


def test_without_numbers_there_is_no_question() -> None:
    without = changed(assessment(), utility__variables__variables=())
    assert not results(GATE, without)
