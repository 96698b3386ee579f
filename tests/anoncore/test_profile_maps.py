import numpy as np
import pandas as pd
import pytest

import anoncore.profile.maps as maps
from anoncore import Microdata, Schema, Variable


def microdata(frame):
    kinds = (Variable(n, "nominal", role="area" if n == "area" else "other") for n in frame)
    return Microdata(frame.astype(str), Schema(kinds))


def table(seed, records=500, areas=8):
    """Six columns that have nothing to do with the areas."""
    r = np.random.default_rng(seed)
    frame = {"area": r.choice(areas, records, p=r.dirichlet(np.full(areas, 1.0)))}
    frame |= {f"v{j}": r.choice(5, records, p=r.dirichlet(np.full(5, 0.5))) for j in range(6)}
    return microdata(pd.DataFrame(frame))


def test_random_columns_stand_out_no_more_often_than_stated(monkeypatch):
    # Without the requirements on sizes chance alone decides.
    for name, value in {"TIMES": 1.0, "PART": 0.0, "FEWEST": 1, "MINORITY": 1.0, "CHANCE": 0.3}.items():
        monkeypatch.setattr(maps, name, value)
    found = sum(bool(maps.groups_that_stand_out(table(seed, records=200))) for seed in range(40))
    assert 0 < found <= 18  # 12 expected at most; more than 18 in one of 50 cases


def test_what_follows_from_the_area_is_no_group():
    frame = table(0).frame.astype(str).assign(region=lambda f: f["area"].map(lambda a: f"r{int(a) // 2}"))
    assert maps.groups_that_stand_out(microdata(frame)) == ()


@pytest.mark.parametrize("units", [False, True])
def test_records_of_one_unit_count_once(units):
    """A household with forty members is no group that stands out."""
    frame = table(1).frame.astype(str)
    frame.loc[frame.index[:40], ["area", "v0"]] = ["0", "rare"]
    data = microdata(frame)
    if units:
        data = data.with_units(np.maximum(np.arange(len(frame)), 39))
    found = [one.level for one in maps.groups_that_stand_out(data)]
    assert found == ([] if units else ["rare"])
