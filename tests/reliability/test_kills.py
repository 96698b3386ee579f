"""A run that is killed leaves no release or a whole one: a few kills here, a hundred and more in `report`."""

from __future__ import annotations

import pytest

from tasks.record import ledger
from tests.reliability.kills import Kill, kill_after, kill_at, operations
from tests.reliability.running import Nursery, Place

pytestmark = pytest.mark.platform

# Between the steps of a publication: what is about to happen, and which time.
POINTS = {
    "the release is announced and nothing is there": ("open home/publish.lock", 0),
    "the release is half staged": ("open home/releases/office/.", 2),
    "the release is staged and not in place": ("rename home/releases/office/office-", 0),
    "the release is in place and not entered": ("fsync home/releases/office", -1),
    "the release is entered and the head is not written": ("open home/.ledger.head", -1),
}


@pytest.fixture(scope="module")
def lines(place: Place, nursery: Nursery) -> list[str]:
    return operations(place, nursery)


def survived(kill: Kill) -> None:
    assert kill.killed
    assert kill.problems == ()


@pytest.mark.parametrize("point", POINTS)
def test_a_publication_is_whole_or_not_at_all(place: Place, nursery: Nursery, lines: list[str], point: str) -> None:
    begins, which = POINTS[point]
    numbers = [n for n, line in enumerate(lines, start=1) if line.startswith(begins)]
    kill = kill_at(place, nursery, numbers[which])
    survived(kill)
    assert kill.left_workspace
    # That the head was behind is entered too.
    assert [e for e in kill.events if e != "settled"][-1] == "published"


def test_power_fails_while_the_ledger_is_written(place: Place, nursery: Nursery, lines: list[str]) -> None:
    last = max(n for n, line in enumerate(lines, start=1) if line == "fsync home/ledger.jsonl")
    survived(kill_at(place, nursery, last, "tear"))
    assert ledger.problems(place.home) == []


def test_killed_at_any_moment(place: Place, nursery: Nursery) -> None:
    survived(kill_after(place, nursery, 1.0))


def test_killed_before_the_very_first_head(place: Place, nursery: Nursery, lines: list[str]) -> None:
    first = next(n for n, line in enumerate(lines, start=1) if line.startswith("rename home/ledger.head"))
    survived(kill_at(place, nursery, first))
