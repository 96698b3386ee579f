"""Published releases that are not known by their units: which of them are compared by their figures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from anoncore.method import LEVEL_COUNTS
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Threads
from anoncore.partitions.table import partitioned
from tasks.assessment import series
from tasks.common.partitions import StoredPartitions


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """Records of each published release; None where its codebook is gone."""
    held: dict[str, int | None] = {"same": 1000, "nearly": 985, "smaller": 900, "gone": None}
    entries = [SimpleNamespace(facts=SimpleNamespace(name="plan", release=name)) for name in held]
    monkeypatch.setattr(series.ledger, "find", lambda *_: entries)
    monkeypatch.setattr(series, "released_records", lambda folder: held[folder.name])
    return held


@pytest.mark.parametrize(
    ("kept", "hidden", "known", "asked"),
    [
        (("a",), (), set(), 3),
        (("a",), (), {"same", "gone"}, 1),
        (("a",), ("a",), set(), 0),
        ((), (), set(), 0),
    ],
)
def test_tables_in_partitions_ask_beside_releases_that_may_hold_nearly_as_many(sizes, kept, hidden, known, asked):
    frame = pd.DataFrame({"a": np.tile(["u", "v"], 500)})
    threads, data = Threads(), Microdata(frame, Schema([Variable("a", "nominal")]))
    stored = StoredPartitions(partitioned(threads.store, "original", data, 400), threads)
    run = SimpleNamespace(home=SimpleNamespace(files_of=lambda name, release: Path(name) / release))
    masked = SimpleNamespace(kept={LEVEL_COUNTS: kept}, hidden_variables=hidden, measured=stored)
    assert series._alike(run, known, SimpleNamespace(original=stored), masked) == (0, asked)
