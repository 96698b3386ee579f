"""Figures that a release keeps are found by the figures themselves."""

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import METHODS, anonymize
from anoncore.risk import kept_figures

SCHEMA = Schema([Variable(name, "nominal") for name in "abcdef"] + [Variable(name, "continuous") for name in "xyz"])


def people(draw, n):
    levels = {name: draw.choice(list("pqrs"), n, p=[0.4, 0.3, 0.2, 0.1]) for name in "abcdef"}
    numbers = {name: draw.normal(size=n).round(3) for name in "xyz"}
    return Microdata(pd.DataFrame(levels | numbers), SCHEMA)


def masked(data, method, **parameters):
    return anonymize(data, METHODS[method](**parameters), rng=np.random.default_rng(1)).data


@pytest.mark.parametrize(
    ("method", "parameters", "kept"),
    [("data-shuffling", {}, {*"abcdef"}), ("pram", {"variables": [*"abcdef"], "keep": 0.9999999}, {*"abcdefxyz"})],
)
def test_figures_that_nothing_changes_are_found(method, parameters, kept):
    data = people(np.random.default_rng(1), 2000)
    assert kept <= kept_figures(data, masked(data, method, **parameters), 200)


def test_those_left_as_they_are_are_found_beside_others_that_change():
    draw = np.random.default_rng(2)
    data = people(draw, 2000)
    frame = data.frame.copy()
    for name in "abcxyz":
        frame[name] = frame[name].to_numpy()[draw.integers(2000, size=2000)]
    assert kept_figures(data, Microdata(frame, data.schema), 200) >= {*"def"}


def test_missing_numbers_count():
    draw = np.random.default_rng(3)
    data = people(draw, 2000)
    frame = data.frame[[*"xyz"]].mask(draw.random((2000, 3)) < 0.1)
    lacking = Microdata(frame, SCHEMA.select([*"xyz"]))
    moved = frame.apply(lambda column: column.mask(column.notna(), column + draw.normal(size=2000)))
    assert kept_figures(lacking, Microdata(moved, lacking.schema), 200) == {*"xyz"}


def test_figures_that_are_drawn_are_seldom_taken_for_kept():
    found = 0
    for seed in range(300):
        draw = np.random.default_rng([4, seed])
        data = people(draw, 1000)
        # As noisy as the least that hides single records, and as other people.
        some = data.take(draw.permutation(1000)[200:])
        others = data.take(draw.integers(1000, size=1000))
        found += bool(kept_figures(data, some, 200)) + bool(kept_figures(data, others, 200))
    assert found <= 24


def test_a_number_without_values_and_a_level_of_the_release_alone_hide_no_other_figure():
    draw = np.random.default_rng(5)
    data = people(draw, 500)
    schema = Schema([*data.schema, Variable("empty", "continuous", precision=1.0)])
    frame = data.frame.assign(empty=np.nan)
    given = frame.assign(a=frame["a"].astype(str).where(np.arange(500) > 0, "new"))
    other = Schema([Variable("a", "nominal"), *(one for one in schema if one.name != "a")])
    kept = kept_figures(Microdata(frame, schema), Microdata(given[[*other.names]], other), 200)
    assert kept == {*"abcdefxyz"}


def test_one_variable_alone_is_found_where_it_seldom_coincides():
    draw = np.random.default_rng(6)
    data = people(draw, 2000)
    for alone in "ax":
        frame = data.take(draw.integers(2000, size=2000)).frame.reset_index(drop=True)
        frame[alone] = data.frame[alone].to_numpy()[draw.permutation(2000)]
        assert kept_figures(data, Microdata(frame, data.schema), 200) == {alone}


def test_the_probability_of_coinciding_is_that_of_leaving_out_records():
    names = [f"v{i}" for i in range(12)]
    schema = Schema([Variable(name, "binary") for name in names] + [Variable("n", "continuous", precision=1.0)])
    found, exact = 0, 0
    for seed in range(300):
        draw = np.random.default_rng([7, seed])
        frame = pd.DataFrame({name: draw.choice(list("pq"), 1000) for name in names} | {"n": draw.poisson(1.0, 1000)})
        data = Microdata(frame, schema)
        some = data.take(draw.permutation(1000)[200:])
        others = data.take(draw.integers(1000, size=1000))
        exact += any(data.frame[n].value_counts().equals(others.frame[n].value_counts()) for n in names)
        found += bool(kept_figures(data, some, 200)) + bool(kept_figures(data, others, 200))
    assert exact > 40
    assert found <= 24
