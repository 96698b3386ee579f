"""Weight calibration: released weights meet totals, whatever steps follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.methods import SequentialTrees, WeightCalibration
from tasks.masking.anonymize import ShadowMask


def sample(n: int = 600) -> Microdata:
    """Return people of regions that were sampled at different rates."""
    draw = np.random.default_rng(1)
    region = draw.choice(["n", "e", "s"], n, p=[0.6, 0.3, 0.1])
    weight = np.round(draw.gamma(20, 1, n) * pd.Series(region).map({"n": 5, "e": 20, "s": 60}).to_numpy(), 1)
    income = np.round(np.exp(draw.normal(7, 0.5, n)) + weight, 1)
    frame = pd.DataFrame({"region": region, "sex": draw.choice(["f", "m"], n), "income": income, "weight": weight})
    frame.loc[:2, "region"] = ["w", "w", None]
    kinds = {"income": "continuous", "weight": "continuous"}
    schema = [Variable(name, kinds.get(name, "nominal"), "weight" if name == "weight" else "other") for name in frame]
    return Microdata(frame, Schema(schema))


def weighted(data: Microdata, name: str, level: str) -> float:
    return float(data.frame["weight"][data.frame[name] == level].sum())


def test_stated_totals_are_met_after_masking() -> None:
    source = sample()
    income = 1.05 * float(source.frame["weight"] @ source.frame["income"])
    step = WeightCalibration(totals={"sex": {"f": 95_000, "m": 85_000}}, sums={"income": income})
    released = ShadowMask((step, SequentialTrees()), EditSet())(source, np.random.default_rng(1)).data
    assert [weighted(released, "sex", level) for level in "fm"] == pytest.approx([95_000, 85_000], rel=1e-4)
    assert released.frame["weight"] @ released.frame["income"] == pytest.approx(income, rel=1e-4)


def test_totals_of_the_source_are_kept_nearly() -> None:
    source = sample()
    step = WeightCalibration(variables=("region", "sex", "income"))
    released = ShadowMask((step, SequentialTrees()), EditSet())(source, np.random.default_rng(2)).data
    claim = anoncore.anonymize(source, step, rng=np.random.default_rng(0)).claims[0]
    assert not claim.check(released).holds  # other totals are drawn
    # Left out: the level of two people, the one that with all others shows them, the sum that one person dominates.
    assert [(one.variable, one.level) for one in claim.totals] == [
        ("", ""),
        ("region", "e"),
        ("region", "n"),
        ("sex", "f"),
    ]
    for one in claim.totals:
        parts = source.frame["weight"] * one.column(source.frame)
        assert 0 < abs(one.total - parts.sum()) < 2 * np.sqrt(np.square(parts).sum())


def test_totals_show_little_of_a_person_even_where_all_weights_are_equal() -> None:
    everyone = sample()
    everyone = Microdata(everyone.frame.assign(weight=100.0), everyone.schema)
    others = everyone.take(np.arange(1, len(everyone)))
    step = WeightCalibration(variables=("region", "sex"))

    def totals(data: Microdata, seed: int) -> list[float]:
        release = anoncore.anonymize(data, step, rng=np.random.default_rng(seed))
        return [one.total for one in release.claims[0].totals]

    with_, without = (np.array([totals(data, seed) for seed in range(150)]) for data in (everyone, others))
    person = [
        float(one.column(everyone.frame)[0])
        for one in anoncore.anonymize(everyone, step, rng=np.random.default_rng(0)).claims[0].totals
    ]
    evidence = np.linalg.solve(np.cov(without.T), person)
    area = np.mean((with_ @ evidence)[:, None] > (without @ evidence)[None, :])
    assert 0.4 < area < 0.65


def test_a_total_missed_by_less_than_the_claim_allows_is_met_again() -> None:
    step = WeightCalibration(totals={"sex": {"f": 95_000, "m": 85_000}})
    release = anoncore.anonymize(sample(), step, rng=np.random.default_rng(0))
    claim = release.claims[0]
    frame = release.data.frame.copy()
    frame.loc[frame.index[frame["sex"] == "f"][0], "sex"] = "m"
    moved = Microdata(frame, release.data.schema)
    assert 1e-4 < claim.missed(frame) < 1e-2
    restored, notes = step.restore(moved, release.claims, edits=EditSet(), rng=np.random.default_rng(0))
    assert claim.missed(restored.frame) < 1e-6
    assert notes
    assert step.restore(restored, release.claims, edits=EditSet(), rng=np.random.default_rng(0)) == (restored, ())


def test_totals_of_a_variable_that_a_step_leaves_out_fail_as_a_claim() -> None:
    step = WeightCalibration(totals={"sex": {"f": 95_000}})
    release = anoncore.anonymize(sample(), step, rng=np.random.default_rng(0))
    without = release.data.select(["region", "income", "weight"])
    restored, notes = step.restore(without, release.claims, edits=EditSet(), rng=np.random.default_rng(0))
    assert (restored, notes) == (without, ())
    assert release.claims[0].check(restored).observed == "sex is not released"


def test_what_cannot_be_met_is_said() -> None:
    source = sample()
    with pytest.raises(AnonymizationError, match=r"between 0\.9 and 1\.1 times"):
        anoncore.anonymize(
            source, WeightCalibration(totals={"sex": {"f": 1}}, lower=0.9, upper=1.1), rng=np.random.default_rng(0)
        )
    with pytest.raises(AnonymizationError, match="no record has a stated level, or a value, of sex"):
        anoncore.anonymize(source, WeightCalibration(totals={"sex": {"x": 1}}), rng=np.random.default_rng(0))
    negative = Microdata(source.frame.assign(weight=-1.0), source.schema)
    with pytest.raises(AnonymizationError, match=r"600 record\(s\) have no weight above 0"):
        anoncore.anonymize(negative, WeightCalibration(totals={"sex": {"f": 1}}), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "state totals, sums or variables"),
        ({"weight": "sex", "variables": ("region",)}, "weight: name a released number"),
        ({"variables": ("age",)}, "age is not released"),
        ({"totals": {"income": {"1": 2}}}, "totals: income has no levels"),
        ({"sums": {"sex": 2}}, "sums: sex is no number"),
        ({"sums": {"income": 2}, "variables": ("income",)}, "income is of the source, which stated totals contradict"),
        ({"sums": {"weight": 2}}, "weight holds the weights"),
    ],
)
def test_parameters_that_do_not_suit_the_table_are_reported(given: dict[str, object], said: str) -> None:
    assert any(said in problem for problem in WeightCalibration(**given).problems(sample().schema, EditSet()))
