"""Boxes cut for a ratio, a slope and quantiles, read back: the guaranteed range holds the truth and is narrower."""

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, Microdata, Schema, Variable, read_boxes
from anoncore.methods import OptimalBoxes, Statistic

TRUTHS = {
    "ratio": lambda y, x: y.mean() / x.mean(),
    "slope": lambda y, x: np.polyfit(x, y, 1)[0],
    "lower_quartile": lambda y, x: np.quantile(y, 0.25, method="inverted_cdf"),
    "median": lambda y, x: np.quantile(y, 0.5, method="inverted_cdf"),
    "upper_quartile": lambda y, x: np.quantile(y, 0.75, method="inverted_cdf"),
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    x, z = rng.lognormal(1, 0.5, 900), rng.normal(size=900)
    frame = pd.DataFrame({"y": 2 * x + rng.normal(size=900) + 5, "x": x, "z": z}).round(3)
    frame.loc[rng.choice(900, 60, replace=False), "y"] = np.nan
    return Microdata(frame, Schema(Variable(n, "continuous") for n in frame))


def width(data, name, statistics):
    of = ("y", "x") if name in ("ratio", "slope") else ("y",)
    asked = tuple(Statistic(statistic=s, of=of if s == name else ("z",)) for s in statistics)
    release = anoncore.anonymize(data, OptimalBoxes(k=5, statistics=asked), rng=np.random.default_rng(0))
    found = read_boxes(release.data.frame).estimate(name, *of)
    known = data.frame.dropna()
    low, high = found.guaranteed
    assert low <= TRUTHS[name](known["y"].to_numpy(), known["x"].to_numpy()) <= high
    assert f"{name}({', '.join(of)})" in str(found)
    return high - low


@pytest.mark.parametrize("name", TRUTHS)
def test_boxes_cut_for_a_statistic_tell_it_better_than_boxes_cut_for_another(people, name):
    assert width(people, name, (name,)) < width(people, name, ("mean",)) / 2


def test_a_pair_needs_two_variables_and_a_slope_one_that_varies(people):
    with pytest.raises(AnonymizationError, match="slope: of must name two different variables"):
        Statistic(statistic="slope", of=("y",))
    flat = Microdata(people.frame.assign(x=1.0), people.schema)
    stated = OptimalBoxes(k=5, statistics=(Statistic(statistic="slope", of=("y", "x")),))
    with pytest.raises(AnonymizationError, match="x does not vary"):
        anoncore.anonymize(flat, stated, rng=np.random.default_rng(0))
