"""Nothing of the input is left anywhere but in the release: a few outcomes here, all of them in `report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.limits import NO_LOSS
from tests.reliability.canaries import LENIENT, Canaries, leaky, told
from tests.reliability.outcomes import broken_steps, judge, refused_inputs
from tests.reliability.running import Nursery, Place, settled

pytestmark = pytest.mark.platform
PLANTED = Canaries.plant()


@pytest.mark.parametrize("form", leaky(PLANTED))
def test_the_search_finds_a_value_in_every_form(form: str, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(leaky(PLANTED)[form])
    hits, files, _ = PLANTED.search(tmp_path)
    assert files == 1
    assert {h.column for h in hits} & {"person", "passport", "net", "height"}, told(hits)


def test_the_search_finds_every_column_and_no_other_table(tmp_path: Path) -> None:
    PLANTED.frame.drop(columns=["sex", "children"]).to_csv(tmp_path / "a.csv")
    hits, _, _ = PLANTED.search(tmp_path)
    numbers = {"passport", "gross", "tax", "net", "height", "visits"}
    assert {h.column for h in hits} == numbers | {"person", "seen", "rare", "common"}
    other = Canaries.plant(seed=2).frame[["gross", "tax", "net", "height", "visits"]]
    other.to_csv(tmp_path / "a.csv")
    other.to_parquet(tmp_path / "a.parquet")
    assert PLANTED.search(tmp_path)[0] == []


def test_a_name_of_a_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / "Qx7Person00007z.txt").touch()
    assert [h.column for h in PLANTED.search(tmp_path)[0]] == ["name person"]


def test_no_canary_is_left_by_a_release_a_rejection_or_a_question(place: Place, nursery: Nursery) -> None:
    for policy, code in (
        (LENIENT, 0),
        (NO_LOSS, 3),
        (f"approval: person, {LENIENT}", 4),
    ):
        place.clear()
        done = nursery.command("run", place.write(policy=policy), "--inline")
        ended = judge(place, policy, "direct", done, {code})
        assert ended.problems == ()
        assert ended.files > 20
        assert settled(place.home) == []


def test_no_canary_is_left_by_input_that_is_refused(place: Place, nursery: Nursery) -> None:
    ended = list(refused_inputs(place, nursery.command, "direct"))
    assert [e.name for e in ended if e.problems] == []
    assert len(ended) == 9
    place.write()


def test_no_canary_is_left_by_an_exception_that_quotes_records(place: Place) -> None:
    """Through Prefect, which keeps exceptions; the run after it publishes."""
    ended = list(broken_steps(place, place.command, "Prefect", ("raise",), ("assess",)))
    assert [(e.code, e.problems) for e in ended] == [(1, ()), (0, ())]


@pytest.mark.parametrize("how", ["kill", "term"])
def test_no_canary_is_left_after_the_run_that_follows_a_killed_one(place: Place, nursery: Nursery, how: str) -> None:
    ended = list(broken_steps(place, nursery.command, "direct", (how,), ("document",)))
    assert [e.problems for e in ended] == [(), ()]
