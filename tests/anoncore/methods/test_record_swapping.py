"""Record swapping: rare households move as a whole, and counts by area and likeness stay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, Microdata, Schema, Variable
from anoncore.methods import RecordSwapping


def households(n=300) -> Microdata:
    rng = np.random.default_rng(0)
    house = np.repeat(np.arange(n), rng.integers(1, 4, n))
    size = len(house)
    frame = pd.DataFrame(
        {
            "area": np.array(["a", "b", "c", "d"])[rng.integers(0, 4, n)][house],
            "sex": rng.integers(0, 2, size),
            "job": rng.geometric(0.3, size).clip(max=9),
        }
    )
    kinds = [Variable("area", "nominal", role="area"), Variable("sex", "binary")]
    return Microdata(frame, Schema([*kinds, Variable("job", "nominal", role="quasi-identifier")]), house)


def test_rare_households_move_as_a_whole_and_counts_stay():
    data = households()
    release = anoncore.anonymize(data, RecordSwapping(k=8, similar=("sex",), rate=0.0), rng=np.random.default_rng(1))
    before, after = data.frame, release.data.frame
    pd.testing.assert_frame_equal(after[["sex", "job"]], before[["sex", "job"]])
    moved = (before["area"].astype(str) != after["area"].astype(str)).to_numpy()
    assert len(set(zip(data.units, after["area"], strict=True))) == data.n_units
    pairs = [frame.groupby(["area", "sex"], observed=True).size() for frame in (before, after)]
    pd.testing.assert_series_equal(*pairs)
    sizes = [
        frame.groupby(data.units)["area"].agg(["first", "size"]).value_counts().sort_index()
        for frame in (before, after)
    ]
    pd.testing.assert_series_equal(*sizes)
    units = pd.DataFrame({"area": before["area"], "job": before["job"], "unit": data.units})
    shared = units.groupby(["area", "job"], observed=True)["unit"].transform("nunique")
    targets = np.unique(data.units[shared < 8])
    assert len(targets) > 20
    assert release.figures["moved_units"] == len(np.unique(data.units[moved]))
    assert np.isin(targets, data.units[moved]).sum() == len(targets) - release.figures["unmoved_targets"]
    assert release.figures["unmoved_targets"] < len(targets) / 4


def test_none_moves_without_targets_and_an_area_is_needed():
    data = households()
    release = anoncore.anonymize(data, RecordSwapping(keys=("sex",), k=2, rate=0.0), rng=np.random.default_rng(1))
    assert release.figures["moved_units"] == 0
    with pytest.raises(AnonymizationError, match="area: name a released variable"):
        anoncore.anonymize(data.select(["sex", "job"]), RecordSwapping(), rng=np.random.default_rng(0))
