"""Random streams: the same again, apart from each other, and from a seed that no one can read."""

from __future__ import annotations

import hashlib
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from anoncore.microdata import Microdata
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.randomness import RandomStreams, SeedSection
from tasks.common.run import Run

SECRET = "730274627364518273645182736451827364518273"
# A process of its own, without the seconds that its imports would take.
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def draws(run: Run, stream: str = "a") -> list[float]:
    return run.rng(stream).random(4).tolist()


def test_streams_draw_the_same_again_and_apart_from_each_other(home: Home) -> None:
    run = Run.start(home, SeedSection())
    assert draws(run) == draws(run)
    assert draws(run, "a") != draws(run, "b")
    many = np.array([run.rng(f"s{i}").standard_normal(2000) for i in range(20)])
    between = np.corrcoef(many)[np.triu_indices(20, 1)]
    assert np.abs(between).max() < 5 / np.sqrt(2000)


def test_runs_draw_apart_and_another_process_draws_the_same(home: Home) -> None:
    first, second = Run.start(home, SeedSection()), Run.start(home, SeedSection())
    assert draws(first) != draws(second)
    said = FORK.SimpleQueue()
    other = FORK.Process(
        target=lambda: said.put(RandomStreams(first.workspace.folder).generator("a").random(4).tolist())
    )
    other.start()
    assert said.get() == draws(first)
    other.join(60)


def test_the_same_secret_draws_the_same_on_the_same_data_only(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANONFLOW_TEST_SEED", SECRET)
    seed = SeedSection(secret="ANONFLOW_TEST_SEED")
    first, again, other = (Run.start(home, seed).bound_to(data * 64) for data in ("a", "a", "b"))
    assert draws(first) == draws(again)
    assert draws(first) != draws(other)


def test_binding_changes_the_run_that_is_returned_alone(home: Home) -> None:
    run = Run.start(home, SeedSection(public=1, data_are_public=True))
    before = draws(run)
    bound = run.bound_to("a" * 64)
    assert draws(bound) == draws(bound.bound_to("a" * 64)) != before
    assert draws(run) == before


def test_the_persistent_key_stays_in_a_home_and_with_a_stated_seed(home: Home, tmp_path: Path) -> None:
    elsewhere = Home.locate(tmp_path / "elsewhere")
    keys = [Run.start(where, SeedSection()).streams.persistent_key() for where in (home, home, elsewhere)]
    assert keys[0] == keys[1] != keys[2]
    assert all(len(key) == 16 for key in keys)
    stated = SeedSection(public=1, data_are_public=True)
    assert len({Run.start(where, stated).streams.persistent_key() for where in (home, elsewhere)}) == 1


def test_a_public_seed_is_used_as_stated(home: Home) -> None:
    assert draws(Run.start(home, SeedSection(public=5, data_are_public=True))) == draws(
        Run.start(home, SeedSection(public=5, data_are_public=True))
    )
    assert draws(Run.start(home, SeedSection(public=5, data_are_public=True))) != draws(
        Run.start(home, SeedSection(public=6, data_are_public=True))
    )


@pytest.mark.parametrize(
    "value", [None, "", "twelve-CANARY", "-5", "1e5", "0x12", "1 2", "²", "٣٤٥", "9" * 5000, "1.5"]
)
def test_a_secret_that_is_no_whole_number_is_refused_and_not_shown(
    home: Home, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("ANONFLOW_TEST_SEED", raising=False)
    if value is not None:
        monkeypatch.setenv("ANONFLOW_TEST_SEED", value)
    with pytest.raises(Refused) as raised:
        Run.start(home, SeedSection(secret="ANONFLOW_TEST_SEED"))
    assert "ANONFLOW_TEST_SEED must hold a whole number" in str(raised.value)
    assert not value or f" {value}" not in str(raised.value)
    assert raised.value.__context__ is None
    assert not home.workspaces.exists() or not list(home.workspaces.iterdir())


def test_the_entropy_stands_in_no_other_file(home: Home, monkeypatch: pytest.MonkeyPatch, mixed: Microdata) -> None:
    monkeypatch.setenv("ANONFLOW_TEST_SEED", SECRET)
    run = Run.start(home, SeedSection(secret="ANONFLOW_TEST_SEED"))
    run = run.bound_to("a" * 64)
    run.workspace.store("source", mixed)
    run.workspace.store_arrays("x", x=run.rng("x").random(5))
    entropy = (run.workspace.folder / "entropy").read_text()
    secrets_ = [entropy, str(int(hashlib.sha256(f"{entropy}|{'a' * 64}".encode()).hexdigest(), 16))]
    forms = [
        form
        for text in secrets_
        for form in (
            text.encode(),
            f"{int(text):x}".encode(),
            int(text).to_bytes(32),
            int(text).to_bytes(32, "little"),
        )
    ]
    for file in home.path.rglob("*"):
        if file.is_file() and file.name != "entropy":
            assert not any(form in file.read_bytes() for form in forms)
    assert SECRET not in repr(run)


@pytest.mark.parametrize(
    "given",
    [
        {"public": 1},
        {"public": -1, "data_are_public": True},
        {"public": 1, "secret": "X", "data_are_public": True},
        {"public": "one", "data_are_public": True},
        {"seed": 1},
    ],
    ids=str,
)
def test_an_impossible_seed_is_refused_with_the_plan(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SeedSection(**given)
