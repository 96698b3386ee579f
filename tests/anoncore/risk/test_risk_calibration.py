"""Calibration: the more of a copy is perturbed, the smaller every measure of risk; the ends are anchors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.risk import (
    DisclosureSettings,
    InferenceSettings,
    LinkageSettings,
    attribute_inference,
    compare,
    disclosure_risk,
    identical_records,
    isolated_test,
    linkage,
    nearest_distance_attack,
    prediction_measures,
    score_coincidence_attack,
    tail_test,
)

N = 1200
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
SCHEMA = Schema(
    [
        Variable("age", "continuous", role="quasi-identifier"),
        Variable("height", "continuous", role="quasi-identifier"),
        Variable("size", "continuous", role="quasi-identifier"),
        Variable("region", "nominal", role="quasi-identifier", levels=("e", "n", "w")),
        Variable("income", "continuous", role="sensitive"),
        Variable("illness", "nominal", role="sensitive", levels=("a", "b", "c", "d")),
    ]
)
MEASURES = (
    "linked",
    "linked among non-members",
    "membership by distance",
    "membership by scores",
    "income inferred",
    "illness inferred",
    "in the tail",
    "isolated in the tail",
    "identical",
    "excess of distance",
    "excess of ambiguity",
    "excess of uncertainty",
)


def draw(seed: int) -> Microdata:
    """Return people of one population."""
    rng = np.random.default_rng([seed, 17])
    latent = rng.normal(size=(N, 1))
    numbers = 0.6 * latent + 0.8 * rng.normal(size=(N, 4))
    frame = pd.DataFrame(numbers.round(4), columns=["age", "height", "size", "income"])
    frame["region"] = rng.choice(["e", "n", "w"], N)
    frame["illness"] = rng.choice(["a", "b", "c", "d"], N, p=[0.4, 0.3, 0.2, 0.1])
    return Microdata(frame, SCHEMA)


def perturbed(original: Microdata, share: float) -> Microdata:
    """Replace cells by those of other people; what a smaller share replaces, a larger one does too."""
    chosen = np.random.default_rng(3).random((N, len(SCHEMA))) < share
    other = draw(99)
    frame = {
        v.name: original.frame[v.name].where(~chosen[:, j], other.frame[v.name]) for j, v in enumerate(original.schema)
    }
    return Microdata(pd.DataFrame(frame), SCHEMA)


def measured(original: Microdata, reference: Microdata, released: Microdata) -> dict[str, float]:
    encoder = Encoder.fit(original)
    x, r, y = (encoder.encode(data) for data in (original, reference, released))
    near, other = prediction_measures(x, y), prediction_measures(x, r)
    own = prediction_measures(x, None, leave_one_out=True)
    linked = linkage(x, y, reference=r, settings=LinkageSettings(measures=near), rng=np.random.default_rng(4))
    *_, income, illness = attribute_inference(
        original, reference, released, settings=InferenceSettings(trees=0), rng=np.random.default_rng(5)
    ).variables
    isolated = isolated_test(near, other, own)
    figures = (
        linked.rate.value,
        linked.among_nonmembers.value,
        nearest_distance_attack(x, r, y).auc,
        score_coincidence_attack(x, r, y).attack.auc,
        income.excess.value,
        illness.excess.value,
        tail_test(near, other, own).n_released / N,
        isolated.n_released / isolated.n,
        identical_records(near, other, own).n_released / N,
        *(one.sup_excess for one in compare(near, other).measures),
    )
    return dict(zip(MEASURES, figures, strict=True))


@pytest.fixture(scope="module")
def ladder() -> pd.DataFrame:
    original, reference = draw(1), draw(2)
    rows = [measured(original, reference, perturbed(original, share)) for share in SHARES]
    return pd.DataFrame([*rows, measured(original, reference, draw(7))], index=[*SHARES, "independent"])


@pytest.mark.parametrize("name", MEASURES)
def test_risk_falls_with_perturbation(ladder, name):
    values = ladder[name].to_numpy()[: len(SHARES)]
    # Two standard errors of an area or of a difference of shares at this size.
    chance = 0.0 if name in ("linked", "in the tail", "identical") else 0.03
    assert (np.diff(values) <= chance).all()
    assert values[0] > values[2] > values[4] - chance
    # Uncertainty is that of five neighbours, of whom a copy is one.
    assert values[0] > values[-1] + (0.1 if name == "excess of uncertainty" else 0.3)


@pytest.mark.parametrize("name", MEASURES)
def test_the_original_itself_is_worst(ladder, name):
    assert ladder[name].idxmax() == 0.0
    assert ladder.loc[0.0, name] == 1 or name.endswith(("inferred", "uncertainty"))


def test_an_independent_sample_scores_as_the_baseline(ladder):
    baseline = {"linked": 1 / N, "linked among non-members": 1 / N} | {
        "membership by distance": 0.5,
        "membership by scores": 0.5,
        "income inferred": 0,
        "illness inferred": 0,
        "in the tail": 0,
        "isolated in the tail": 0,
        "identical": 0,
        "excess of distance": 0,
        "excess of ambiguity": 0,
        "excess of uncertainty": 0,
    }
    assert set(baseline) == set(MEASURES)
    for name, value in baseline.items():
        assert ladder.loc["independent", name] == pytest.approx(value, abs=0.045)
        if name not in ("membership by scores", "income inferred"):
            assert ladder.loc[0.9, name] == pytest.approx(value, abs=0.07)
    # One number in ten is a member's own, and stands in the release exactly.
    assert 0.0 < ladder.loc[0.9, "income inferred"] < 0.15
    assert 0.6 < ladder.loc[0.9, "membership by scores"] < 0.7


def test_independent_samples_pass_and_copies_fail():
    failed = 0
    for seed in range(8):
        original, reference, released = (draw(100 * seed + part) for part in range(10, 13))
        x, r, y = (Encoder.fit(original).encode(data) for data in (original, reference, released))
        found = linkage(x, y, rng=np.random.default_rng(seed)).rate
        failed += found.lower > 1 / N
        failed += score_coincidence_attack(x, r, y).attack.verdict == "fail"
        settings = InferenceSettings(trees=0)
        inferred = attribute_inference(original, reference, released, settings=settings, rng=np.random.default_rng(1))
        failed += inferred.verdict == "fail"
    assert failed <= 1


def test_coarser_quasi_identifiers_disclose_less():
    original, reference = draw(1), draw(2)
    found = [
        disclosure_risk(
            original,
            original=original,
            reference=reference,
            settings=DisclosureSettings(bins=bins),
            rng=np.random.default_rng(1),
        )
        for bins in (20, 10, 5, 3, 2)
    ]
    for side in ("released", "reference"):
        groups = [getattr(one, side).groups for one in found]
        for figure in ("expected", "highest", "n_groups"):
            values = [getattr(one, figure) for one in groups]
            assert values == sorted(values, reverse=True)
        assert groups[0].uniques.value > groups[-1].uniques.value
    # The figures are those of records, not of who they belong to: non-members' look alike.
    assert found[1].released.groups.uniques.lower <= found[1].reference.groups.uniques.upper
    assert found[1].reference.groups.uniques.lower <= found[1].released.groups.uniques.upper
