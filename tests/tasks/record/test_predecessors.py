"""Which published releases a candidate follows: its plan's, its data's, and those of the same people."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tasks.common.home import Home
from tasks.record.members import Members, counted
from tasks.record.predecessors import Lineage, predecessors
from tests.tasks.facts import enter

MONTHLY = Lineage("monthly", "d" * 64, "r" * 64)


def units(home: Home, people: np.ndarray, variables: str = "abc", *, named: bool = True) -> Members:
    """Return people with an identifier, or known by their values alone."""
    values = people.astype(np.uint64) + np.uint64(10**6)
    return Members.of(home, people.astype(np.uint64) if named else values, values, variables, named=len(people) * named)


def published(home: Home, members: Members, release: str) -> None:
    members.keep(home, release)
    enter(home, release=release, name="another", data=release, records=release)


def test_releases_of_the_same_people_are_followed_under_any_name(tmp_path: Path) -> None:
    home = Home.locate(tmp_path)
    everyone = np.arange(100)
    published(home, units(home, everyone), "identified")
    published(home, units(home, everyone + 96), "others")
    published(home, units(home, everyone, named=False), "by-values")

    def followed(now: Members | None, after: int = 0) -> dict[str, str | None]:
        return {one.facts.release: one.units for one in predecessors(home, MONTHLY, now, after=after)}

    assert followed(units(home, everyone[1:])) == {"identified": "identities", "by-values": "values"}
    assert followed(units(home, everyone[1:]), after=1) == {"by-values": "values"}
    assert followed(units(home, everyone[1:], named=False)) == {
        "identified": "values",
        "others": None,
        "by-values": "identities",
    }
    assert followed(units(home, everyone + 500)) == {"by-values": None}, "only one of the two has identifiers"
    assert followed(units(home, everyone + 500, "bc", named=False)) == dict.fromkeys(
        ("identified", "others", "by-values")
    ), "they may be the same people with other values"
    assert followed(units(home, everyone + 500, "xyz", named=False)) == {}, "nothing in common to subtract"
    assert len(followed(None)) == 3, "of units that are not known nothing is known"


def test_units_known_by_values_are_told_apart_by_number(tmp_path: Path) -> None:
    home = Home.locate(tmp_path)
    people = units(home, np.array([1, 1, 1, 2, 3, 4, 5]), named=False).by_values
    once = units(home, np.arange(1, 6)).by_values
    assert counted(people.in_common(once)) == counted(once.in_common(people)) == once.count
