"""The in/out game of a plan: played once for the same plan and data, and what of it is kept."""

from __future__ import annotations

import json
import multiprocessing
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.kinds import LinearEdit
from anoncore.edits.model import EditSet
from anoncore.methods import MDAV, AdditiveNoise, GlobalRecoding, OptimalBoxes, RareLevels
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Threads
from anoncore.partitions.table import partitioned
from anoncore.recoding import Rows
from anoncore.risk import ShadowRelease, _shadows
from anoncore.risk._shadows import Shadows
from anoncore.risk._target_scores import TargetScores
from tasks.assessment import game
from tasks.assessment.game import GamePlan, GameSection, play_game
from tasks.assessment.remedies import changes
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.partitions import StoredPartitions
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.common.workspace import StoredMicrodata
from tasks.masking.anonymize import ShadowMask
from tasks.masking.partitions import for_parts
from tasks.reporting.custodian import custodian_page

SUM = LinearEdit(name="sum", terms={"wage": 1, "rent": 1, "income": -1}, dependent="income")
CANARY = 7318.25


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.start(Home.locate(tmp_path / "home"), SeedSection())


def table() -> Microdata:
    rng = np.random.default_rng(0)
    wage, rent = rng.gamma(2.0, 900.0, (2, 80)).round(2)
    wage[5] = CANARY
    frame = pd.DataFrame({"wage": wage, "rent": rent, "income": wage + rent, "land": ["a", "b", "b", "rare"] * 20})
    frame.index = frame.index + 100  # rows of a source of which others are held out
    numbers = [Variable(name, "continuous") for name in ("wage", "rent", "income")]
    return Microdata(frame, Schema([*numbers, Variable("land", "nominal")]))


@pytest.fixture
def data(run: Run) -> StoredMicrodata:
    return run.workspace.store("original", table())


def plan(*steps, **section) -> GamePlan:
    settings = {"shadows": 64, "isolated": 4, "random": 4} | section
    return GamePlan("people", ShadowMask(steps or (AdditiveNoise(b=0.01),), EditSet((SUM,))), GameSection(**settings))


def silent(done: int, of: int) -> None:
    pass


def test_the_whole_masking_is_played_and_progress_is_shown(run: Run, data: StoredMicrodata) -> None:
    seen: list[tuple[int, int]] = []
    played = play_game(run, plan(), data, lambda done, of: seen.append((done, of)))
    game = played.result.game
    assert game is not None
    assert (game.rounds, game.n_people, game.n_targets, game.groups) == (64, 80, 8, ("isolated", "random"))
    assert game.worst("isolated").lower > 0.7
    assert seen[0] == (3, 64)
    assert len(seen) == 21


def test_shadow_releases_satisfy_the_edits_and_ranges_come_as_values() -> None:
    rng = np.random.default_rng(0)
    released = ShadowMask((AdditiveNoise(),), EditSet((SUM,)))(table(), rng).data
    np.testing.assert_allclose(released.frame["income"], released.frame["wage"] + released.frame["rent"])
    assert released.schema.names == table().schema.names
    boxes = ShadowMask((OptimalBoxes(k=5),), EditSet(()))(table(), rng).data
    assert {"wage", "rent"} <= set(boxes.schema.names)


def test_a_game_on_a_sub_table_keeps_the_levels_of_the_whole_table_and_is_another_one_for_another(run: Run) -> None:
    threads, rng = Threads(), np.random.default_rng(0)
    stored = StoredPartitions(partitioned(threads.store, "original", table(), 40), threads)
    stated = (RareLevels(k=20, action="redistribute"),)
    sub, decided = table().take(np.arange(40)), for_parts(run, stored, stated)
    shown = [ShadowMask(steps, EditSet())(sub, rng).data.frame["land"] for steps in (stated, decided)]
    assert list(map(set, shown)) == [{"b"}, {"a", "b", "rare"}]
    one, other, alone = (
        GamePlan("people", ShadowMask(steps, EditSet()), GameSection(), stated=stated, counted=counted).settings
        for steps, counted in ((decided, "x"), (stated, "y"), (stated, ""))
    )
    assert "tallies" not in json.dumps(one)
    assert one["steps"] == other["steps"] == alone["steps"]
    assert len({json.dumps(settings) for settings in (one, other, alone)}) == 3


def test_a_game_is_kept_for_the_same_plan_and_data_alone(run: Run, data: StoredMicrodata) -> None:
    first = play_game(run, plan(), data, silent)
    path = run.home.game("people")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def not_again(done: int, of: int) -> None:
        raise AssertionError

    assert play_game(run, plan(), data, not_again) == first
    for other in (plan(AdditiveNoise(b=0.02)), plan(random=5)):
        with pytest.raises(AssertionError):
            play_game(run, other, data, not_again)
    changed = run.workspace.store("changed", table().take(np.arange(79)))
    with pytest.raises(AssertionError):
        play_game(run, plan(), changed, not_again)
    path.write_text("cut sh")
    with pytest.raises(AssertionError):
        play_game(run, plan(), data, not_again)


def test_what_is_kept_holds_row_numbers_and_no_value_or_seed(
    run: Run, data: StoredMicrodata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(game, "changes", lambda *given: list(changes(*given))[-1:])
    groups = [{"name": "few", "variable": "land", "level": "rare"}]
    played = play_game(run, plan(groups=groups, remedies=True), data, silent)
    text = run.home.game("people").read_text()
    assert set(json.loads(text)) == {"key", "played"}
    assert str(CANARY) not in text
    assert '"rare"' not in text
    assert (run.workspace.folder / "entropy").read_text() not in text
    assert set(played.rows) <= set(range(101, 181))
    page = custodian_page(played.custodian_report)
    assert "few" in page
    (remedy,) = played.remedies
    assert remedy.change == "without the variable land"
    assert remedy.change in page
    assert f">{played.rows[0]}<" in page
    assert str(CANARY) not in page


def test_records_of_one_unit_are_in_or_out_together(run: Run) -> None:
    seen: list[int] = []

    class Watched(ShadowMask):
        def __call__(self, data: Microdata, rng: np.random.Generator) -> ShadowRelease:
            assert data.units is not None
            seen.append(int((np.bincount(data.units) % 2).sum()))
            return ShadowRelease(data)

    watched = replace(plan(), mask=Watched((AdditiveNoise(),), EditSet(())))
    stored = run.workspace.store("units", table().with_units(np.arange(80) // 2))
    game = play_game(run, watched, stored, silent).result.game
    assert game is not None
    assert (game.n_people, seen) == (40, [0] * 64)


def test_people_are_known_in_levels_that_the_plan_recodes(run: Run) -> None:
    rng = np.random.default_rng(5)
    places = {f"q{j}": rng.choice(["a1", "a2", "b1", "b2"], 80, p=[0.45, 0.05, 0.45, 0.05]) for j in range(12)}
    data = Microdata(pd.DataFrame(places), Schema([Variable(name, "nominal") for name in places]))
    rows = Rows((("a1", "a", "*"), ("a2", "a", "*"), ("b1", "b", "*"), ("b2", "b", "*")))
    steps = [GlobalRecoding(k=20, keys=(n,), hierarchies={n: rows}, suppression=0.0) for n in places]
    masked = replace(plan(*steps), mask=ShadowMask(tuple(steps), EditSet(())))
    game = play_game(run, masked, run.workspace.store("places", data), silent).result.game
    assert game is not None
    # Of the 4096 combinations of the coarser levels most are of one person.
    assert game.worst("isolated").mean > 0.95


def test_a_shadow_release_that_cannot_be_made_leaves_the_game_unplayed(run: Run, data: StoredMicrodata) -> None:
    played = play_game(run, plan(MDAV(k=79)), data, silent)
    assert played.result.game is None
    assert "a shadow release could not be made" in played.result.problem
    assert played.custodian_report is None
    assert not run.home.game("people").exists()


def test_a_group_without_people_and_settings_that_show_nothing_are_refused(run: Run, data: StoredMicrodata) -> None:
    with pytest.raises(Refused, match="no record has the level that the group none names"):
        play_game(run, plan(groups=[{"name": "none", "variable": "land", "level": "x"}]), data, silent)
    with pytest.raises(ValueError, match="at least 64"):
        GameSection(shadows=10)
    with pytest.raises(ValueError, match="different names"):
        GameSection(groups=[{"name": "random", "variable": "land", "level": "x"}])


def test_processes_make_the_same_shadow_releases_and_end_when_the_game_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_shadows, "_WORTH_SECONDS", 0.0)
    people, inside = table(), np.arange(64).reshape(32, 2) % 3 > 0
    attacker = TargetScores.of(people.take(np.arange(2)), people.take(np.arange(2, 80)), people.schema.names)
    owners = np.where(np.arange(80) < 2, np.arange(80), -1)
    one, other = (
        Shadows(people, plan().mask, attacker, owners, np.arange(2), inside, np.random.default_rng(1).spawn(32))
        for _ in range(2)
    )
    stream = one.scored(2)
    scores = [next(stream).scores for _ in range(7)]
    assert multiprocessing.active_children()
    stream.close()
    assert not multiprocessing.active_children()
    for number, found in enumerate(scores):
        np.testing.assert_array_equal(found, other.score(number).scores)
