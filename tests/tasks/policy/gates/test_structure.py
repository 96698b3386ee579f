"""What the source never holds rejects a release beyond what chance accounts for."""

from __future__ import annotations

import pytest

from anoncore.utility import Pattern
from tasks.policy.gates.structure import GATE
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import N, assessment, changed, results

PAIR = (Pattern(("sex", "relationship"), 12),)


@pytest.mark.parametrize(
    ("change", "gate", "fails"),
    [
        ({"impossible": 30}, "impossible combinations", False),
        ({"impossible": 31}, "impossible combinations", True),
        ({"impossible": 12, "combinations": PAIR}, "impossible combinations", False),
        ({"impossible": 13, "combinations": (Pattern(("a", "b"), 13),)}, "impossible combinations", True),
        ({"broken": PAIR}, "dependencies", False),
        ({"broken": (Pattern(("state", "division"), 13),)}, "dependencies", True),
    ],
)
def test_more_than_chance_accounts_for_fails(change: dict[str, object], gate: str, fails: bool) -> None:
    given = changed(assessment(), **{f"utility__structure__{name}": value for name, value in change.items()})
    proven = "impossible" not in change or change["impossible"] == 13
    assert results(GATE, given)[gate].verdict == (("fail" if proven else "to decide") if fails else "pass")
    accepted = results(GATE, given, utility={"impossible": 0.01})
    assert accepted[gate].verdict == "pass", f"1 % of {N} records more are accepted"


def test_the_number_of_combinations_of_single_source_records_is_not_published() -> None:
    """What chance accounts for counts them: texts hold it to the next ten, and no metric does."""
    few, more = (changed(assessment(), utility__structure__by_chance=by_chance) for by_chance in (3.0, 7.0))
    texts = [decide(given, PolicySection(), [GATE]).gates for given in (few, more)]
    assert texts[0] == texts[1]
    assert GATE.metrics(few) == GATE.metrics(more)


def test_without_a_dependency_there_is_no_question() -> None:
    given = changed(assessment(), utility__structure__dependencies=0)
    assert set(results(GATE, given)) == {"impossible combinations"}
