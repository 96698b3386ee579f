"""What each method keeps exactly, computed from its release: no more and no less than it declares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.model import EditSet
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.methods import (
    MDAV,
    PRAM,
    RHS,
    AdditiveNoise,
    DataShuffling,
    ExtremeRecords,
    FuzzyMicroaggregation,
    GlobalRecoding,
    GowerMicroaggregation,
    GroupAnonymity,
    HouseholdTrees,
    LocalSuppression,
    OptimalBoxes,
    RankSwapping,
    RareLevels,
    RecordSwapping,
    SequentialTrees,
    SpectralRHS,
    SpectralSuppression,
    SpectralSwap,
    SpectralSynthesis,
    ValueCoding,
    WeightCalibration,
)
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import METHODS, anonymize

AREAS = {"vital": ({"binary": ("y",)},), "parameter": "area", "order": ("ak", "ca", "ny", "me"), "level": 1}
NUMBERS, LEVELS = ("normal", "skewed", "sum"), ("nominal", "binary", "area")
METHODS_TRIED: tuple[Method, ...] = (
    AdditiveNoise(b=0.3),
    DataShuffling(),
    DataShuffling(values="exact"),
    ExtremeRecords(),
    FuzzyMicroaggregation(k=5),
    GowerMicroaggregation(k=5),
    GowerMicroaggregation(k=5, numbers="median"),
    GroupAnonymity(**AREAS, raises={"ak": 60}),  # type: ignore[arg-type]
    HouseholdTrees(leaf=20),
    MDAV(k=5),
    OptimalBoxes(k=5),
    OptimalBoxes(k=5, release="means"),
    PRAM(variables=("nominal",), keep=0.5),
    RHS(k=5),
    RankSwapping(),
    RankSwapping(values="exact"),
    RareLevels(k=5),
    RecordSwapping(area="area", keys=("nominal",), rate=0.2),
    SequentialTrees(),
    SpectralRHS(k=5),
    SpectralSwap(),
    SpectralSwap(marginals="drawn"),
    SpectralSwap(marginals="exact"),
    SpectralSwap(released="mode"),
    SpectralSuppression(k=2, within=9.0),
    SpectralSynthesis(),
    ValueCoding(base=dict.fromkeys(NUMBERS, 5.0)),
)
OF_KEYS = (GlobalRecoding(keys=("nominal", "area"), k=60), LocalSuppression(keys=("nominal", "area", "binary"), k=30))

OF_WEIGHTS = WeightCalibration(weight="normal", variables=("binary",))


def table(n: int = 240) -> Microdata:
    rng = np.random.default_rng(0)
    normal, skewed = rng.normal(50, 9, n), np.exp(rng.normal(5, 0.7, n))
    levels = {
        "nominal": rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1]),
        "binary": np.where(rng.random(n) < 0.5, "n", "y"),
        "area": rng.choice(["ak", "ca", "ny", "me"], n),
    }
    frame = pd.DataFrame({"normal": normal, "skewed": skewed, "sum": 5 * normal + skewed + rng.normal(0, 9, n)})
    frame = frame.round(4).assign(**levels)
    kinds = dict.fromkeys(NUMBERS, "continuous") | {"nominal": "nominal", "binary": "binary", "area": "nominal"}
    return Microdata(frame, Schema(Variable(name, kind) for name, kind in kinds.items()))


def kept(source: Microdata, release: Microdata) -> set[str]:
    """Return which figures of the source a release has."""
    before, after = source.frame[list(NUMBERS)], release.frame[list(NUMBERS)]
    same = {
        LEVEL_COUNTS: all(
            {level: n for level, n in release.level_counts(name).items() if n} == source.level_counts(name)
            for name in LEVELS
        ),
        MEANS: bool(((after.mean() - before.mean()).abs() < 0.001 * before.std()).all()),
        VALUES: all(after[name].isin(before[name]).mean() > 0.9 for name in NUMBERS),
    }
    return {name for name, holds in same.items() if holds}


@pytest.mark.parametrize("method", METHODS_TRIED, ids=lambda method: method.method)
def test_a_method_keeps_exactly_what_it_declares(method: Method) -> None:
    data = table()
    release = anonymize(data, method, rng=np.random.default_rng(1), edits=EditSet(()))
    assert kept(data, release.points or release.data) == set(method.invariants)


OF_SOME = (
    MDAV(k=5, within=("binary",)),
    PRAM(variables=("nominal",), keep=0.5),
    DataShuffling(confidential=("normal", "nominal")),
    ValueCoding(base={"normal": 5.0}, rounding="random"),
)


@pytest.mark.parametrize("method", OF_SOME, ids=lambda method: method.method)
def test_what_a_method_does_not_treat_stays_as_it_is(method: Method) -> None:
    data = table()
    released = anonymize(data, method, rng=np.random.default_rng(1), edits=EditSet(())).data
    others = [name for name in data.schema.names if name not in method.treated(data.schema)]
    assert 0 < len(others) < len(data.schema)
    pd.testing.assert_frame_equal(released.frame[others], data.frame[others])


@pytest.mark.parametrize("method", OF_KEYS, ids=lambda method: method.method)
def test_a_method_that_treats_keys_leaves_everything_else(method: GlobalRecoding | LocalSuppression) -> None:
    data = table()
    released = anonymize(data, method, rng=np.random.default_rng(1), edits=EditSet(())).data
    others = [name for name in data.schema.names if name not in method.keys]
    pd.testing.assert_frame_equal(released.frame[others], data.frame[others])
    assert not released.frame[list(method.keys)].astype("string").equals(data.frame[list(method.keys)].astype("string"))


def test_a_method_that_changes_weights_leaves_everything_else() -> None:
    data = table()
    released = anonymize(data, OF_WEIGHTS, rng=np.random.default_rng(1), edits=EditSet(())).data
    assert (released.frame == data.frame).all().to_dict() == {name: name != "normal" for name in data.schema.names}


def test_every_method_is_tried() -> None:
    assert {method.method for method in (*METHODS_TRIED, *OF_KEYS, OF_WEIGHTS)} == set(METHODS)
