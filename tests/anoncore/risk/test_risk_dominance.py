"""Numbers that one unit dominates: what follows it is found, and ordinary tails are left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema, Variable
from anoncore.methods import MDAV, AdditiveNoise, SequentialTrees
from anoncore.risk import dominance

SCHEMA = Schema([Variable("wealth", "continuous"), Variable("age", "continuous")])


def people(seed: int, richest: float | None = None, n: int = 600) -> Microdata:
    rng = np.random.default_rng(seed)
    wealth = np.exp(10 + rng.normal(size=n))
    if richest is not None:
        wealth[0] = richest
    return Microdata(pd.DataFrame({"wealth": wealth, "age": rng.normal(50, 10, n)}), SCHEMA)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("method", "followed"),
    [(MDAV(k=10), ()), (AdditiveNoise(b=0.1), ("wealth",)), (SequentialTrees(leaf=20), ())],
    ids=["pooled means", "noise", "trees"],
)
def test_noise_follows_the_one_who_dominates_and_pooled_averages_and_trees_do_not(method, followed, sign):
    source = people(1, 6e7)
    frame = source.frame.assign(wealth=sign * source.frame["wealth"])
    data = Microdata(frame, SCHEMA)
    released = anoncore.anonymize(data, method, rng=np.random.default_rng(0)).data
    found = dominance(data, released, people(2))
    assert found.dominated == 1
    assert found.followed == followed
    assert found.verdict == ("fail" if followed else "pass")


def test_plain_averages_follow_the_one_who_dominates():
    data = people(1, 6e7)
    order = np.argsort(data.frame["wealth"].to_numpy())
    means = data.frame.copy()
    means.iloc[order, 0] = np.repeat(means["wealth"].to_numpy()[order].reshape(-1, 10).mean(axis=1), 10)
    assert dominance(data, Microdata(means, SCHEMA), people(2)).verdict == "fail"


def test_independent_samples_with_heavy_tails_pass():
    verdicts = [dominance(people(s), people(s + 500), people(s + 900)).verdict for s in range(60)]
    assert verdicts.count("fail") == 0


@pytest.mark.parametrize(("released", "verdict"), [(6e7, "fail"), (6.1e7, "inconclusive"), (5e7, "inconclusive")])
def test_a_number_far_out_that_others_have_is_left_open_unless_it_is_the_units_own(released, verdict):
    assert dominance(people(1, 6e7), people(2, released), people(3, 5e7)).verdict == verdict


def test_many_records_of_one_unit_dominate_together():
    data = people(3)
    frame = data.frame.copy()
    frame.loc[:30, "wealth"] = 6e7
    units = np.maximum(np.arange(len(frame)), 30)
    assert dominance(Microdata(frame, SCHEMA, units), data).dominated == 1
    assert dominance(Microdata(frame, SCHEMA), data).dominated == 0


@pytest.mark.parametrize(
    ("values", "dominated"),
    [
        ([0.0] * 299 + [9e6], 1),
        ([0.0] * 280 + [1.0] * 19 + [9e6], 1),
        ([1.0, 2.0, 3.0, 9e6], 1),
        ([0.0] * 200 + [1.0] * 60 + [2.0] * 39 + [3.0], 0),
        ([0.0] * 299 + [1.0], 0),
        ([0.0] * 150 + [1.0] * 150, 0),
    ],
)
def test_one_number_beside_equal_or_few_ones_dominates_and_a_count_does_not(values, dominated):
    padded = [*values, *[np.nan] * (300 - len(values))]
    frame = pd.DataFrame({"wealth": padded, "age": np.random.default_rng(0).normal(50, 10, 300)})
    data = Microdata(frame, SCHEMA)
    released = anoncore.anonymize(data, MDAV(k=10), rng=np.random.default_rng(0)).data
    found = dominance(data, released)
    assert found.dominated == dominated
    # Of four numbers no method releases a mean.
    assert found.verdict == ("fail" if dominated and len(values) == 300 else "pass")
