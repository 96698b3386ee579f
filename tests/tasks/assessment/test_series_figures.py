"""Published releases that are not known by their units: which of them are compared by their figures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Threads
from anoncore.partitions.table import partitioned
from tasks.assessment import series
from tasks.common.partitions import StoredPartitions


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """Records of each published release; None where its codebook is gone."""
    held: dict[str, int | None] = {"same": 1000, "nearly": 920, "smaller": 750, "gone": None}
    entries = [SimpleNamespace(facts=SimpleNamespace(name="plan", release=name)) for name in held]
    monkeypatch.setattr(series.ledger, "find", lambda *_: entries)
    monkeypatch.setattr(series, "released_records", lambda folder: held[folder.name])
    return held


@pytest.mark.parametrize(
    ("exact", "hidden", "known", "asked"),
    [
        (("a",), (), set(), 3),
        (("a",), (), {"same", "gone"}, 1),
        (("a",), ("a",), set(), 0),
        ((), (), set(), 0),
    ],
)
def test_tables_in_partitions_ask_beside_releases_that_may_hold_nearly_as_many(sizes, exact, hidden, known, asked):
    frame = pd.DataFrame({"a": np.tile(["u", "v"], 500)})
    threads, data = Threads(), Microdata(frame, Schema([Variable("a", "nominal")]))
    stored = StoredPartitions(partitioned(threads.store, "original", data, 400), threads)
    run = SimpleNamespace(home=SimpleNamespace(files_of=lambda name, release: Path(name) / release))
    masked = SimpleNamespace(exact=exact, hidden_variables=hidden, measured=stored)
    stated = series._exact(SimpleNamespace(original=stored), masked)
    assert series._alike(run, known, masked, stated) == (0, asked)


def test_a_release_with_coarser_levels_and_as_many_records_asks(sizes, monkeypatch):
    draw = np.random.default_rng(1)
    finer = pd.DataFrame({name: draw.choice(list("pqrs"), 1000) for name in "abc"})
    coarser = finer.replace({"p": "pq", "q": "pq", "r": "rs", "s": "rs"}).iloc[1:]
    schema = Schema(Variable(name, "nominal") for name in "abc")
    before = Microdata(finer, schema)
    monkeypatch.setattr(series, "whole_release", lambda *_: before)
    run = SimpleNamespace(home=SimpleNamespace(files_of=lambda name, release: Path(name) / release))
    crossed = pd.DataFrame({"x": finer.a + finer.b, "y": finer.b + finer.c, "z": finer.a + finer.c}).iloc[1:]
    for table, asked in ((coarser, (0, 3)), (crossed, (0, 3)), (finer.iloc[1:], (4, 0))):
        own = Schema(Variable(name, "nominal") for name in table)
        measured = SimpleNamespace(load=lambda table=table, own=own: Microdata(table, own))
        masked = SimpleNamespace(hidden_variables=(), measured=measured)
        assert series._alike(run, set(), masked, {*table}) == asked


def test_nothing_is_compared_where_no_figure_is_kept(sizes):
    data = Microdata(pd.DataFrame({"a": ["u", "v"]}), Schema([Variable("a", "nominal")]))
    masked = SimpleNamespace(hidden_variables=(), measured=SimpleNamespace(load=lambda: data))
    assert series._alike(SimpleNamespace(), set(), masked, set()) == (0, 0)


def test_a_step_that_changes_nothing_takes_no_figure_away():
    draw = np.random.default_rng(2)
    frame = pd.DataFrame({name: draw.choice(list("pqrs"), 1000) for name in "abc"})
    data = Microdata(frame, Schema(Variable(name, "nominal") for name in "abc"))
    original = SimpleNamespace(load=lambda: data)
    stated = SimpleNamespace(
        exact=(), recodings=(), measured=SimpleNamespace(load=lambda: data.take(draw.permutation(1000)))
    )
    assert series._exact(SimpleNamespace(original=original), stated) == {*"abc"}


@pytest.mark.parametrize(
    ("records", "joined", "drawn", "asked"),
    [(60, True, False, 1), (60, False, False, 0), (5, True, False, 0), (5, True, True, 1)],
)
def test_a_unit_with_many_records_that_joined_asks(records, joined, drawn, asked):
    units = np.append(np.arange(1500), np.full(records, 1500))
    data = Microdata(pd.DataFrame({"a": ["u", "v"] * 750 + ["u"] * records}), Schema([Variable("a", "nominal")]))
    sides = SimpleNamespace(original=SimpleNamespace(load=lambda: data.with_units(units)))
    who = np.arange(1501) == (1500 if joined else 3)
    one = SimpleNamespace(joined=who, changed=np.zeros(1501, dtype=bool))
    assert series._beside_large_units(sides, [one], drawn=drawn) == asked
