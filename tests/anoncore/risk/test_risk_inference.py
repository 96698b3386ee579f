"""Attribute inference: every variable as the secret, no role needed, none by chance, shares as a loop counts them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable
from anoncore.errors import AnonymizationError
from anoncore.risk import InferenceSettings, attribute_inference
from anoncore.risk.inference import AGREEING, NEAREST, NEAREST_BY_HALF, NEAREST_BY_KEYS, PERCENT, TREES, _most_confident

LEVELS = ("a", "b", "c", "d", "e")
SCHEMA = Schema(
    [Variable(f"number{j}", "continuous") for j in range(3)]
    + [Variable(f"level{j}", "nominal", levels=LEVELS) for j in range(5)]
)


def people(n, seed, missing=0.03):
    rng = np.random.default_rng([seed, n])
    latent = rng.normal(size=n)
    table = {f"number{j}": np.round(latent + rng.normal(size=n), 2) for j in range(3)}
    table |= {f"level{j}": rng.choice(LEVELS, n, p=[0.4, 0.3, 0.15, 0.1, 0.05]) for j in range(5)}
    return Microdata(pd.DataFrame(table).mask(rng.random((n, 8)) < missing), SCHEMA)


def guessed(original, reference, released, seed=0, **settings):
    rng = np.random.default_rng(seed)
    return attribute_inference(original, reference, released, settings=InferenceSettings(**settings), rng=rng)


def flipped(members, others, share):
    replace = np.random.default_rng(7).random(members.frame.shape) < share
    return Microdata(members.frame.mask(replace, others.frame), SCHEMA)


def test_risk_falls_as_cells_are_replaced_and_is_none_for_an_independent_sample():
    a, b, c = (people(600, seed) for seed in range(3))
    ladder = [guessed(a, b, flipped(a, c, share), trees=1) for share in (0.0, 0.2, 0.4, 0.7, 1.0)]
    figures = [found.worst.excess.lower for found in ladder]
    assert figures == sorted(figures, reverse=True)
    assert [found.verdict == "fail" for found in ladder[:3]] == [True] * 3
    assert ladder[-1].verdict == "pass"
    assert ladder[0].worst.members.value == pytest.approx(1.0)
    assert len(ladder[0].variables) == 8
    assert ladder[0].attacks == (NEAREST, AGREEING, TREES, NEAREST_BY_HALF)


def test_one_variable_of_a_tenth_of_the_people_is_found_by_its_name():
    a, b, c = (people(1000, seed) for seed in (3, 4, 5))
    released = Microdata(pd.concat([a.frame[:200], c.frame[200:]], ignore_index=True), SCHEMA)
    found = guessed(a, b, released, trees=0)
    assert found.verdict == "fail"
    assert found.worst.percent < 100
    # A release of the non-members says nothing about members.
    reverse = guessed(a, b, b, trees=0)
    assert reverse.verdict == "pass"
    assert reverse.worst.excess.value < 0


def test_trees_find_what_they_learned():
    draw = np.random.default_rng(0)
    schema = Schema([Variable("x", "continuous"), Variable("y", "binary", levels=(0, 1))])
    x = draw.normal(size=(2, 800))

    def table(side, sign):
        return Microdata(pd.DataFrame({"x": x[side], "y": (sign * x[side] > 0).astype(int)}), schema)

    found = guessed(table(0, 1), table(1, -1), table(0, 1).take(np.arange(400)))
    y = found.variables[1]
    assert y.verdict == "fail"
    assert y.members.value > 0.99
    assert found.n_grown == 2
    assert TREES in found.attacks


def test_quasi_identifiers_alone_are_an_attack_of_their_own():
    a, b, c = (people(800, seed) for seed in (6, 7, 8))
    keys = ["number0", "number1", "level0"]
    copied = {name: a.frame[name] for name in (*keys, "level4")}
    released = Microdata(c.frame.assign(**copied), SCHEMA)
    found = guessed(a, b, released, quasi_identifiers=keys, trees=0)
    assert found.attacks == (NEAREST, AGREEING, NEAREST_BY_KEYS, NEAREST_BY_HALF)
    assert {one.attack: one.verdict for one in found.by_attack}[NEAREST_BY_KEYS] == "fail"
    level = found.variables[-1]
    assert (level.attack, level.verdict) == (NEAREST_BY_KEYS, "fail")


def test_most_confident_guesses_share_ties_as_a_loop_does():
    draw = np.random.default_rng(1)
    right, confidence = draw.random(137) < 0.4, draw.integers(0, 9, 137).astype(float)
    for percent, (hits, size) in zip(PERCENT, _most_confident(right, confidence), strict=True):
        order, taken, expected = sorted(set(confidence), reverse=True), 0, 0.0
        for level in order:
            group = right[confidence == level]
            part = min(len(group), size - taken)
            taken, expected = taken + part, expected + part * group.mean()
        assert size == int(np.ceil(percent * 137 / 100))
        assert hits == pytest.approx(expected)
    assert _most_confident(right[:0], confidence[:0])[-1] == (0.0, 0)


def test_independent_samples_do_not_fail():
    found = [guessed(*(people(300, 10 * seed + part) for part in range(3)), trees=seed % 2) for seed in range(10)]
    assert not any(one.verdict == "fail" for one in found)
    assert np.mean([one.worst.excess.lower for one in found]) < 0


@pytest.mark.parametrize("n", [1, 7, 50])
def test_tiny_constant_and_missing_tables_have_figures(n):
    some = people(n, 11)
    empty = Microdata(pd.DataFrame({v.name: pd.Series([np.nan] * n) for v in SCHEMA}), SCHEMA)
    constant = Microdata(some.frame.assign(**dict.fromkeys(SCHEMA.names[:3], 2.0), level0="a"), SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sides in ((some, some, empty), (empty,) * 3, (empty, some, some), (constant,) * 3):
            for one in guessed(*sides, people=50).variables:
                assert -1 <= one.excess.lower <= one.excess.value <= one.excess.upper <= 1
                assert one.verdict != "fail"


def test_levels_that_no_one_holds_are_no_right_guess():
    a, b = people(200, 12, missing=0.0), people(200, 13, missing=0.0)
    other = Schema([*SCHEMA.variables[:-1], Variable("level4", "nominal", levels=("p", "q"))])
    released = Microdata(a.frame.assign(level4=np.where(a.frame["level4"] == "a", "p", "q")), other)
    level = guessed(a, b, released).variables[-1]
    assert level.members.value == level.nonmembers.value == 0.0


def test_people_are_sampled_and_the_same_seed_gives_the_same_figures():
    a, b, c = (people(500, seed) for seed in (14, 15, 16))
    found = guessed(a, b, c, people=100)
    assert (found.n_members, found.n_nonmembers, found.n_released) == (100, 100, 500)
    assert found == guessed(a, b, c, people=100)


def test_nothing_to_guess_and_settings_out_of_range():
    a = people(20, 17)
    assert guessed(a.select(["number0"]), a, a) is None
    assert guessed(a, a, a.take(np.arange(0))) is None
    for message, given in {
        "margin must be between 0 and 1": {"margin": 0},
        "confidence must be between 0 and 1": {"confidence": 1},
        "people must be at least 1": {"people": 0},
        "trees must be at least 0": {"trees": -1},
    }.items():
        with pytest.raises(AnonymizationError, match=message):
            guessed(a, a, a, **given)


def test_a_statistical_unit_is_asked_about_once():
    a, b, c = (people(100, seed) for seed in (18, 19, 20))
    found = guessed(a.with_units(np.arange(100) // 4), b, c, trees=0)
    assert (found.n_members, found.n_nonmembers) == (25, 100)


def test_what_is_the_same_for_everybody_is_no_secret():
    def with_constant(table):
        schema = Schema([*SCHEMA, Variable("weight", "continuous"), Variable("country", "nominal")])
        return Microdata(table.frame.assign(weight=100.0, country="x"), schema)

    members, others, released = (people(400, seed) for seed in range(3))
    found = guessed(*map(with_constant, (members, others, released)), trees=1)
    assert {one.name for one in found.variables} == set(SCHEMA.names)
    assert found.n_tests == guessed(members, others, released, trees=1).n_tests
    alone = [with_constant(table).select(["level0", "weight"]) for table in (members, others, released)]
    assert {one.name for one in guessed(*alone, trees=1).variables} == {"level0", "weight"}
