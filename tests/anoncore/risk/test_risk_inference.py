"""Attribute inference: brute force, what is due to taking part, and variables that say nothing."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.errors import AnonymizationError
from anoncore.risk import InferenceSettings, attribute_inference


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def finite(figures: object) -> bool:
    if isinstance(figures, dict):
        return all(map(finite, figures.values()))
    if isinstance(figures, (list, tuple)):
        return all(map(finite, figures))
    return not isinstance(figures, float) or bool(np.isfinite(figures))


SCHEMA = Schema(
    [
        Variable("age", "continuous", role="quasi-identifier"),
        Variable("height", "continuous", role="quasi-identifier"),
        Variable("region", "nominal", role="quasi-identifier", levels=("e", "n", "w")),
        Variable("income", "continuous", role="sensitive"),
        Variable("illness", "nominal", role="sensitive", levels=("a", "b", "c")),
        Variable("grade", "ordinal", role="sensitive", levels=(1, 2, 3)),
    ]
)


def table(n: int, seed: int, gaps: float = 0.0, discrete: bool = False) -> Microdata:
    """People whose income follows age closely, whose illness does a little, whose grade does not."""
    draw = rng([seed, n])
    age = draw.normal(size=n).round(0 if discrete else 6)

    def gap(values):
        return pd.Series(values).mask(draw.random(n) < gaps)

    frame = pd.DataFrame(
        {
            "age": gap(age),
            "height": draw.normal(size=n).round(0 if discrete else 6),
            "region": draw.choice(["e", "n", "w"], n),
            "income": gap(age + 0.1 * draw.normal(size=n)),
            "illness": gap(np.where(draw.random(n) < 0.3, "b", np.where(age > 0, "a", "c"))),
            "grade": gap(draw.integers(1, 4, n)),
        }
    )
    return Microdata(frame, SCHEMA)


def brute(people: Microdata, released: Microdata, original: Microdata, name: str, k: int) -> np.ndarray:
    """Guess one person after another."""
    quasi = ["age", "height", "region"]
    encoder = Encoder.fit(original.select(quasi))
    told = released.frame[name].notna().to_numpy()
    if not told.any():
        return np.zeros(people.frame[name].notna().sum())
    points, where = np.unique(encoder.encode(released.select(quasi))[told], axis=0, return_inverse=True)
    values, truths = released.frame[name].to_numpy(), people.frame[name].to_numpy()
    if name == "income" and original.frame[name].notna().any():
        # Few known values may all be positive, and are logged then.
        scale = Encoder.fit(original.select([name]))
        values, truths = (scale.encode(side.select([name]))[:, 0] for side in (released, people))
        truths = np.where(people.frame[name].isna(), np.nan, truths)
    values = values[told]
    right = []
    for gaps, truth in zip(cdist(encoder.encode(people.select(quasi)), points), truths, strict=True):
        if pd.isna(truth):
            continue
        taken: list = []
        for point in np.argsort(gaps, kind="stable"):
            if len(taken) < k:
                taken += list(values[where.ravel() == point])
        if name == "income":
            right.append(float(abs(np.mean(taken) - truth) <= 0.1))
            continue
        counts = pd.Series(taken, dtype=object).value_counts()
        modes = list(counts.index[counts == counts.max()])
        right.append((truth in modes) / len(modes))
    return np.array(right)


@settings(max_examples=24, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(20, 60),
    k=st.sampled_from([1, 3]),
    gaps=st.sampled_from([0.0, 0.2, 0.9]),
    discrete=st.booleans(),
)
def test_by_brute_force(seed, n, k, gaps, discrete):
    original, reference, released = (table(n, seed + part, gaps, discrete) for part in range(3))
    found = attribute_inference(original, reference, released, settings=InferenceSettings(neighbours=k), rng=rng())
    assert [one.name for one in found.variables] == ["income", "illness", "grade"]
    for one in found.variables:
        if discrete and k > 1:
            continue  # which of several equally near combinations comes next is a matter of rounding
        for side, people in ((one.members, original), (one.strangers, reference)):
            expected = brute(people, released, original, one.name, k)
            assert side.n == len(expected)
            if not discrete:
                assert side.value == pytest.approx(expected.mean() if len(expected) else 0)
        known = one.members.n > 0 and one.strangers.n > 0
        difference = one.members.value - one.strangers.value if known else 0
        assert one.excess.value == pytest.approx(difference)
    assert finite(asdict(found))
    shuffled = released.take(rng(seed).permutation(n))
    again = attribute_inference(original, reference, shuffled, settings=InferenceSettings(neighbours=k), rng=rng())
    for one, other in zip(found.variables, again.variables, strict=True):
        assert one.members.value == pytest.approx(other.members.value)


def test_all_copies_of_a_combination_vote():
    schema = Schema([Variable("area", "nominal"), Variable("ill", "nominal")])
    frame = pd.DataFrame({"area": list("xxxxyyyy"), "ill": list("aaabccdd")})
    data = Microdata(frame, schema)
    found = attribute_inference(
        data, data, data, settings=InferenceSettings(quasi_identifiers=["area"], sensitive=["ill"]), rng=rng()
    ).variables[0]
    # In x three of four are told right; in y two levels share the guess.
    assert found.members.value == pytest.approx((3 + 4 * 0.5) / 8)
    assert found.constant_guess == pytest.approx(3 / 8)
    assert found.excess.value == 0


def test_useful_release_is_no_leak():
    original, reference, released = (table(5000, seed) for seed in (21, 22, 23))
    found = attribute_inference(original, reference, released, rng=rng())
    income, illness, grade = found.variables
    assert found.verdict == "pass"
    assert income.strangers.value > 3 * income.constant_guess
    assert illness.strangers.value > illness.constant_guess
    assert grade.strangers.value == pytest.approx(1 / 3, abs=0.05)
    assert (income.tolerance, illness.tolerance) == (0.1, None)
    for one in found.variables:
        assert one.excess.lower < 0 < one.excess.upper


def test_copy_leaks():
    original, reference = table(800, 4), table(800, 5)
    found = attribute_inference(original, reference, original, rng=rng())
    assert found.verdict == "fail"
    for one in found.variables:
        assert one.members.value == 1
        assert one.excess.lower > 0.2
    # A release of the strangers says nothing about the members.
    reverse = attribute_inference(original, reference, reference, rng=rng())
    assert reverse.verdict == "pass"
    assert all(one.excess.upper < 0 for one in reverse.variables)


def test_interval_covers():
    held = []
    for seed in range(80):
        sides = [table(120, 1000 * seed + part) for part in range(3)]
        found = attribute_inference(*sides, settings=InferenceSettings(sensitive=["grade"]), rng=rng()).variables[0]
        held.append(found.excess.lower <= 0 <= found.excess.upper)
    assert np.mean(held) >= 0.88


def test_logs_and_tolerance():
    original, reference = table(300, 6), table(300, 7)
    logged = [
        Microdata(side.frame.assign(income=np.exp(side.frame["income"])), SCHEMA) for side in (original, reference)
    ]
    for tolerance in (0.05, 0.5):
        plain = attribute_inference(
            original,
            reference,
            original,
            settings=InferenceSettings(sensitive=["income"], tolerance=tolerance, neighbours=3),
            rng=rng(),
        )
        logs = attribute_inference(
            *logged,
            logged[0],
            settings=InferenceSettings(sensitive=["income"], tolerance=tolerance, neighbours=3),
            rng=rng(),
        )
        assert logs.variables[0].members.value == pytest.approx(plain.variables[0].members.value, abs=0.02)


def test_sampled_people():
    original, reference, released = (table(2000, seed) for seed in (8, 9, 10))
    found = attribute_inference(original, reference, released, settings=InferenceSettings(epsilon=0.08), rng=rng(1))
    assert (found.n_members, found.n_strangers, found.n_released) == (414, 414, 2000)
    assert 0.079 < found.sampling_error <= 0.08
    assert found == attribute_inference(
        original, reference, released, settings=InferenceSettings(epsilon=0.08), rng=rng(1)
    )
    whole = attribute_inference(original, reference, released, rng=rng())
    assert (whole.n_members, whole.sampling_error) == (2000, 0)
    for one, other in zip(found.variables, whole.variables, strict=True):
        assert abs(one.members.value - other.members.value) <= found.sampling_error


@pytest.mark.parametrize("n", [1, 2, 7])
def test_tiny_constant_and_missing(n):
    some = table(n, 11)
    none = Microdata(some.frame.assign(age=np.nan, height=1.0, region="e"), SCHEMA)
    empty = Microdata(pd.DataFrame({v.name: pd.Series([np.nan] * n) for v in SCHEMA}), SCHEMA)
    constant = Microdata(some.frame.assign(income=2.0, illness="a", grade=1), SCHEMA)
    for sides in ((none,) * 3, (some, some, empty), (empty,) * 3, (empty, some, some), (constant,) * 3):
        found = attribute_inference(*sides, settings=InferenceSettings(neighbours=3), rng=rng())
        assert finite(asdict(found))
        for one in found.variables:
            assert -1 <= one.excess.lower <= one.excess.value <= one.excess.upper <= 1
    nothing = attribute_inference(empty, empty, empty, rng=rng()).variables[0]
    assert (nothing.members.n, nothing.excess.value, nothing.verdict) == (0, 0, "inconclusive")
    certain = attribute_inference(constant, constant, constant, rng=rng())
    assert all(one.members.value == one.strangers.value == one.constant_guess == 1 for one in certain.variables)
    assert attribute_inference(some, some, some, settings=InferenceSettings(sensitive=[]), rng=rng()).verdict == "pass"


def test_recoded_levels_are_no_right_guess():
    original, reference = table(200, 12), table(200, 13)
    schema = Schema([*SCHEMA.variables[:4], Variable("illness", "nominal", role="sensitive", levels=("a", "rest"))])
    frame = original.frame.drop(columns="grade").assign(
        illness=original.frame["illness"].astype(object).where(original.frame["illness"] == "a", "rest")
    )
    found = attribute_inference(
        original, reference, Microdata(frame, schema), settings=InferenceSettings(sensitive=["illness"]), rng=rng()
    )
    assert found.variables[0].members.value == pytest.approx((original.frame["illness"] == "a").mean())


def test_explained_and_errors():
    data = table(30, 14)
    found = attribute_inference(data, data, data, rng=rng())
    assert found.meaning.endswith(".")
    assert found.variables[0].meaning.endswith(".")
    for message, given_ in {
        "neighbours must be at least 1": {"neighbours": 0},
        "tolerance must be above 0": {"tolerance": 0},
        "margin must be between 0 and 1": {"margin": 0},
        "epsilon must be between 0 and 1": {"epsilon": 1},
        "confidence must be between 0 and 1": {"confidence": 1},
        "different variables": {"sensitive": ["age"]},
        "released must hold shoe": {"quasi_identifiers": ["shoe"]},
    }.items():
        with pytest.raises(AnonymizationError, match=message):
            attribute_inference(data, data, data, settings=InferenceSettings(**given_), rng=rng())
    with pytest.raises(AnonymizationError, match="reference must hold grade"):
        attribute_inference(data, data.select(SCHEMA.names[:5]), data, rng=rng())
    with pytest.raises(AnonymizationError, match="released must hold at least one record"):
        attribute_inference(data, data, data.take(np.arange(0)), rng=rng())
