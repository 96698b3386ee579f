"""Amounts that few people have, read off averages that are multiplied by their number of records."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable, anonymize, microaggregation
from anoncore.method import Method
from anoncore.methods import (
    MDAV,
    RHS,
    AdditiveNoise,
    DataShuffling,
    FuzzyMicroaggregation,
    GowerMicroaggregation,
    OptimalBoxes,
    RankSwapping,
    SpectralRHS,
    SpectralSwap,
)
from anoncore.methods import gower_microaggregation as gower
from anoncore.risk import dominated_averages

NAMES = ("age", "rooms", "cost")
SCHEMA = Schema(Variable(name, "continuous", precision=1.0) for name in NAMES)
AVERAGES = [
    MDAV(k=10),
    MDAV(k=10, blocks=(("cost",), ("age", "rooms"))),
    GowerMicroaggregation(k=10),
    FuzzyMicroaggregation(k=10),
    RHS(k=10),
    SpectralRHS(k=10),
    OptimalBoxes(k=10, release="means"),
]


def people(seed: int, records: int = 600) -> Microdata:
    rng = np.random.default_rng(seed)
    cost = np.where(rng.random(records) < 0.03, np.round(rng.lognormal(6.0, 2.0, records)), 0.0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, records), "rooms": rng.integers(1, 9, records), "cost": cost})
    return Microdata(frame.astype("float64"), SCHEMA)


def averages(data: Microdata, method: Method) -> tuple[int, pd.DataFrame]:
    released = anonymize(data, method, rng=np.random.default_rng(1)).data
    own = released.frame.index.get_indexer(data.frame.index)
    return dominated_averages(data, released, own, 10).averages, released.frame


def multiplied(released: pd.DataFrame, data: Microdata) -> int:
    """Return how many people's cost is a group's average times its number of rows, up to rounding."""
    groups = released.groupby(list(NAMES)).size().reset_index(name="rows")
    totals, slack = groups["rows"] * groups["cost"], groups["rows"] / 2
    costs = data.frame["cost"][data.frame["cost"] > 0]
    return sum((np.abs(totals - cost) <= np.minimum(slack, 0.1 * cost)).any() for cost in costs)


@pytest.mark.parametrize("method", AVERAGES, ids=lambda method: f"{method.method}{getattr(method, 'blocks', '')}")
def test_no_average_gives_an_amount_away_and_totals_stay(method: Method) -> None:
    data = people(4)
    found, released = averages(data, method)
    assert found == 0
    others = max(multiplied(released, people(seed)) for seed in (100, 101, 102))
    assert multiplied(released, data) <= others + 2
    if method.method not in ("optimal-boxes", "fuzzy-microaggregation", "rhs", "spectral-rhs"):
        assert released["cost"].sum() == pytest.approx(data.frame["cost"].sum(), abs=len(released) / 2)


@pytest.mark.parametrize("method", [MDAV(k=10), GowerMicroaggregation(k=10)])
def test_plain_averages_give_amounts_away(method: Method) -> None:
    data = people(4, 1500)
    with (
        patch.object(microaggregation, "dominated_pools", lambda _, __, positions, *___: np.arange(len(positions))),
        patch.object(gower, "dominated_pools", lambda _, __, positions, *___: np.arange(len(positions))),
    ):
        found, released = averages(data, method)
    assert found >= 20
    assert multiplied(released, data) >= 20


@pytest.mark.parametrize("method", [SpectralSwap(), RankSwapping(), AdditiveNoise(b=0.3), DataShuffling()])
def test_methods_without_averages_have_none(method: Method) -> None:
    assert averages(people(4), method)[0] == 0


def test_two_giants_do_not_hide_one_another() -> None:
    turnover = np.concatenate([np.random.default_rng(5).lognormal(size=198), [8000.0, 7000.0]])
    schema = Schema([Variable("turnover", "continuous", precision=0.01)])
    data = Microdata(pd.DataFrame({"turnover": turnover}), schema)
    order = np.argsort(turnover)
    groups = np.empty(200, dtype=np.intp)
    groups[order] = np.repeat(np.arange(20), 10)
    means = pd.Series(turnover).groupby(groups).transform("mean").round(2)
    found = dominated_averages(data, Microdata(pd.DataFrame({"turnover": means}), schema), np.arange(200), 5)
    assert (found.variables, found.averages, found.verdict) == (("turnover",), 1, "fail")
