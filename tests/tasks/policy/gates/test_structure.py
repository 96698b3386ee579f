"""What the source never holds rejects a release beyond what chance accounts for."""

from __future__ import annotations

import pytest

from anoncore.utility import Pattern
from tasks.policy.disclosure_control import published
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


def test_chance_excuses_no_large_part_of_the_records() -> None:
    """Of few units, chance accounts for nearly everything: a release of a panel held 12 % of impossible records."""
    wide = changed(assessment(), utility__structure__per_pattern=200)
    for change, gate in (
        ({"impossible": int(0.06 * N)}, "impossible combinations"),
        ({"combinations": (Pattern(("a", "b"), int(0.03 * N)),)}, "impossible combinations"),
        ({"broken": (Pattern(("a", "b"), int(0.03 * N)),)}, "dependencies"),
    ):
        given = changed(wide, **{f"utility__structure__{name}": value for name, value in change.items()})
        result = results(GATE, given)[gate]
        assert result.verdict == "to decide"
        assert "a person decides" in result.limit
    assert {one.verdict for one in results(GATE, wide).values()} == {"pass"}


def test_the_number_of_combinations_of_single_source_records_is_not_published() -> None:
    """What chance accounts for counts them: texts hold it to the next ten, and no metric does."""
    few, more = (changed(assessment(), utility__structure__by_chance=by_chance) for by_chance in (3.0, 7.0))
    texts = [decide(given, PolicySection(), [GATE]).gates for given in (few, more)]
    assert texts[0] == texts[1]
    assert GATE.metrics(few) == GATE.metrics(more)


def test_a_few_records_of_what_one_person_alone_may_hold_are_not_published() -> None:
    """Who holds a combination alone decides whether released records with it count: who knows all else would see it."""
    own = (Pattern(("sex", "relationship"), 2),)
    none, some = (
        changed(assessment(), utility__structure__impossible=len(held) and 2, utility__structure__combinations=held)
        for held in ((), own)
    )
    assert results(GATE, none)["impossible combinations"] == results(GATE, some)["impossible combinations"]
    assert published(none).utility == published(some).utility
    assert GATE.metrics(none) == GATE.metrics(some)


def test_whether_a_person_breaks_a_dependency_is_not_published() -> None:
    none, some = (changed(assessment(), utility__structure__broken=held) for held in ((), (Pattern(("a", "b"), 3),)))
    assert results(GATE, none)["dependencies"] == results(GATE, some)["dependencies"]
    assert published(none).utility == published(some).utility
    assert GATE.metrics(none) == GATE.metrics(some)


def test_which_and_how_many_dependencies_the_source_has_is_not_published() -> None:
    few, more = (
        changed(assessment(), utility__structure__dependencies=n, utility__structure__broken=(Pattern((name, "b"), 3),))
        for n, name in ((0, "a"), (2, "c"))
    )
    assert published(few).utility.structure == published(more).utility.structure
    texts = [decide(given, PolicySection(), [GATE]).gates for given in (few, more)]
    assert texts[0] == texts[1]
