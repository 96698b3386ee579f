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


def means_of_sorted(values: np.ndarray, k: int) -> tuple[Microdata, Microdata]:
    """Numbers, and averages of k neighbours each."""
    schema = Schema([Variable("turnover", "continuous", precision=0.01)])
    groups = np.argsort(np.argsort(values)) // k
    means = pd.Series(values).groupby(groups).transform("mean").round(2)
    return tuple(Microdata(pd.DataFrame({"turnover": of}), schema) for of in (values, means))


def test_two_giants_do_not_hide_one_another() -> None:
    source, means = means_of_sorted(
        np.concatenate([np.random.default_rng(5).lognormal(size=198), [8000.0, 7000.0]]), 10
    )
    found = dominated_averages(source, means, np.arange(200), 5)
    assert (found.variables, found.averages, found.verdict) == (("turnover",), 1, "fail")


@pytest.mark.parametrize("seed", range(4))
def test_one_giant_among_zeros_is_found(seed: int) -> None:
    turnover = np.zeros(200)
    turnover[np.random.default_rng(seed).integers(200)] = 8000.0
    source, means = means_of_sorted(turnover, 10)
    assert dominated_averages(source, means, np.arange(200), 5).averages == 1


def test_totals_that_are_true_by_chance_are_none() -> None:
    """Numbers of other people tell nothing: of 60 such tables two were rejected."""
    schema = Schema([Variable("visits", "continuous", precision=1.0)])
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        one, other = (
            Microdata(pd.DataFrame({"visits": np.round(rng.lognormal(0.5, 2.0, 1000))}), schema) for _ in range(2)
        )
        found += dominated_averages(one, other, np.arange(1000), 10).averages
    assert found == 0


@pytest.mark.parametrize("noise", [0.0, 80.0, 200.0])
def test_ordinary_groups_with_noise_hide_no_giant(noise: float) -> None:
    """Totals of ordinary groups are true by chance as often as not; those of giants are not."""
    rng = np.random.default_rng(3)
    wages = rng.lognormal(6.0, 0.5, 3000)
    wages[[7, 900, 2500]] = 150_000.0, 260_000.0, 390_000.0
    groups = np.repeat(np.arange(600), 5)
    means = pd.Series(wages).groupby(groups).transform("mean") + rng.normal(scale=noise, size=600)[groups]
    schema = Schema([Variable("wage", "continuous", precision=0.01)])
    source, released = (Microdata(pd.DataFrame({"wage": np.round(of, 2)}), schema) for of in (wages, means))
    assert dominated_averages(source, released, np.arange(3000), 5).averages >= 3
