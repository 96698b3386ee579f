"""A search from plan to plan: what it chooses, what it leaves behind, and how it is stopped."""

from __future__ import annotations

import json

import pytest

from flows.plan.model import load_plan
from flows.release import Direct
from flows.tune import TuneOptions, tune
from tasks.common.errors import ExitCode
from tasks.common.home import Home
from tasks.record import ledger

SEED = "seed: {public: 5, data_are_public: true}"
CANARIES = (b"Qx7-Canary", b"918273645")


@pytest.fixture
def searched(office, people, tmp_path):
    """Return a function that searches a small office's plan, and is stopped by Ctrl-C after some trials."""

    def search(most: int, minutes: float = 10.0, **options):
        file = load_plan(office(people(600), margin=0.4, more=SEED, **options))
        trials = []

        def on_trial(trial, known, stage):
            trials.append((trial, known, stage))
            if stage == "search" and sum(not known for _, known, _ in trials) == most:
                raise KeyboardInterrupt

        home = Home.locate(tmp_path / "home")
        return file, home, tune(file, home, Direct(), TuneOptions(minutes), on_trial), trials

    return search


def test_a_search_stopped_by_hand_judges_the_best_so_far_once_and_goes_on_from_there(searched) -> None:
    _, home, first, trials = searched(3)
    assert [(known, stage) for _, known, stage in trials] == [(False, "search")] * 3 + [(False, "judge")]
    assert (first.complete, first.tried, first.looks) == (False, 2, 1)
    assert first.judged is not None
    assert first.best is not None
    assert first.judged.name == first.best.name
    assert max(gate.records for gate in first.judged.gates) > max(gate.records for gate in first.best.gates)
    _, _, again, trials = searched(1)
    assert [known for _, known, stage in trials if stage == "search"] == [True, True, True, False]
    assert again.looks <= 2
    assert not ledger.entries(home)
    for path in home.path.rglob("*"):
        if path.is_file():
            assert not any(canary in path.read_bytes() for canary in CANARIES), path
    assert not any(home.workspaces.glob("*/"))


def test_what_fails_in_few_records_is_judged_and_refused_with_its_gates(searched) -> None:
    _, _, tuned, trials = searched(2, step="{method: additive-noise, b: 0.001}")
    assert [stage for _, _, stage in trials] == ["search", "search", "judge"]
    assert (tuned.exit_code, tuned.looks) == (ExitCode.REJECTED, 1)
    assert tuned.sentence.startswith("the search chose, and unseen units refuse, additive-noise b 0.001: failed: ")
    (nearest,) = tuned.nearest
    assert all(gate.figure and gate.limit for gate in nearest.failed)


def test_without_time_nothing_is_tried(searched) -> None:
    _, _, tuned, trials = searched(9, minutes=0.0)
    assert (trials, tuned.tried) == ([], 0)
    assert "more --minutes" in tuned.sentence


def test_the_command_writes_the_choice_into_the_plan(office, people, nursery, tmp_path) -> None:
    plan = office(people(600), margin=0.4, more=f"policy: {{approval: person}}  # as agreed\n{SEED}")
    before = plan.read_text()
    wanted = ("tune", plan, "--json", "--write", "--minutes", "0.1")
    code, out, _ = nursery.anonflow(*wanted, ANONFLOW_HOME=str(tmp_path / "home"))
    tuned = json.loads(out)
    assert code == tuned["exit_code"]
    assert tuned["judged"]["decision"] in ("publish", "await")
    assert tuned["written"] == bool(tuned["diff"])
    assert (plan.read_text() == before) == (not tuned["diff"])
    assert "# as agreed" in plan.read_text()
    assert load_plan(plan).plan.policy.approval == "person"
