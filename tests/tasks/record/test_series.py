"""The releases of each plan, one line a plan."""

from __future__ import annotations

from pathlib import Path

from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.series import series_of
from tests.tasks.facts import enter


def test_each_plan_has_its_releases_by_what_became_of_them(tmp_path: Path) -> None:
    home = Home.locate(tmp_path)
    for release, events in (("a-1", ("published", "withdrawn")), ("a-2", ("published",)), ("a-3", ("rejected",))):
        for event in events:
            enter(home, event, name="a", release=release)
    enter(home, "awaiting", name="b", release="b-1")
    first, second = series_of(ledger.entries(home))
    assert (first.plan, first.published, first.withdrawn, first.waiting) == ("a", ("a-2",), ("a-1",), ())
    assert (second.plan, second.published, second.waiting, second.last) == ("b", (), ("b-1",), "")
    assert first.last.startswith("20")
