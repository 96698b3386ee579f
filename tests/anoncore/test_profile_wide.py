"""That the searches which look at all pairs at once find what a search one by one finds."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.edits.kinds import ConditionalEdit
from anoncore.microdata import Microdata, Schema
from anoncore.profile import find_rules, find_sums, profile
from anoncore.profile.relations import deviation
from anoncore.profile.triples import triples


def rng(seed=0):
    return np.random.default_rng(seed)


def one_by_one(values):
    """Every exact sum of three columns, by trying all signs on all records."""
    signs = [(1.0, *s) for s in product((1.0, -1.0), repeat=2)]
    every = ((c, s) for c in combinations(range(values.shape[1]), 3) for s in signs)
    return {relation for relation in every if deviation(values, relation) == 0.0}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.5]), st.sampled_from([0.0, 1e6]))
def test_no_sum_of_three_is_passed_over(seed, gaps, shift):
    draw = rng(seed)
    x = draw.choice([draw.lognormal(3, 2, (600, 9)), draw.integers(0, 90, (600, 9)) + shift])
    x = np.round(x, 2) * (draw.random(x.shape) >= draw.choice([0.0, 0.8], 9))
    for total in (6, 7, 8):
        one, other = draw.choice(total, 2, replace=False)
        x[:, total] = np.round(x[:, one] + draw.choice([1, -1]) * x[:, other], 2)
    x[draw.random(x.shape) < gaps * draw.random(9)] = np.nan
    found = {r for r in triples(x, rng(seed)) if deviation(x, r) == 0.0}
    assert found == one_by_one(x)
    assert len(found) >= 1 or gaps


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e12, 1e60])
def test_sums_are_found_at_any_size(size):
    x = rng().normal(size=(500, 6)) * size
    x[:, 5] = x[:, 1] - x[:, 3]
    assert {r[0] for r in triples(x, rng())} == {(1, 3, 5)}


def test_parts_much_smaller_than_the_total_are_found():
    x = rng().lognormal(3, 1, (500, 6)) * [1e9, 1e9, 1e3, 1e3, 1.0, 1.0]
    frame = pd.DataFrame(np.round(x, 2), columns=list("abcdef")).assign(t=lambda f: (f.a + f.c + f.d + f.e).round(2))
    assert [set(f.edit.terms) for f in find_sums(frame, rng=rng()) if f.active] == [set("acdet")]


@pytest.mark.parametrize("seed", range(8))
def test_averages_do_not_hide_a_total(seed):
    frame = pd.DataFrame({c: rng(1).permuted(np.arange(900.0) * (5 + j)) for j, c in enumerate("abcde")})
    frame = frame.apply(lambda c: c.sample(frac=1, random_state=len(c.name) + ord(c.name)).to_numpy())
    frame = frame.assign(mean=(frame.a + frame.b) / 2, third=(frame.b + frame.c + frame.d) / 3)
    frame["total"] = frame.a + frame.b + frame.c + frame.e
    assert {*"abce", "total"} in [set(f.edit.terms) for f in find_sums(frame, rng=rng(seed)) if f.active]


def test_a_long_sum_of_a_column_with_gaps_of_its_own_is_found():
    draw = rng(2)
    frame = pd.DataFrame(draw.lognormal(4, 1, (3000, 40)).round(2), columns=[f"c{j}" for j in range(40)])
    frame["all"] = frame[["c1", "c2", "c3", "c4"]].sum(axis=1).round(2)
    for j in range(8):
        frame[f"part{j}"] = frame[[f"c{j + k}" for k in (5, 10, 15, 20)]].sum(axis=1).round(2)
        frame.loc[draw.random(3000) < 0.3, f"part{j}"] = np.nan
    found = {f.edit.name for f in find_sums(frame, rng=rng()) if f.active}
    assert found == {"all adds up", *(f"part{j} adds up" for j in range(8))}


def rules(frame):
    kept = [g.variable for g in profile(frame, rng=rng()).guesses if g.variable.is_masked]
    data = Microdata(frame[[v.name for v in kept]], Schema(kept))
    return [f for f in find_rules(data) if isinstance(f.edit, ConditionalEdit)], data


def stated(findings):
    return {(f.edit.when[0].variable, f.edit.when[0].values, f.edit.then.variable) for f in findings}


def test_a_module_that_is_skipped_as_a_whole_hangs_on_its_gate():
    asked = rng().random(1500) < 0.6
    frame = pd.DataFrame({f"q{j}": np.where(asked, rng(j).integers(0, 4, 1500), np.nan) for j in range(60)})
    frame["gate"] = np.where(asked, "yes", "no")
    found, _ = rules(frame)
    active = stated(f for f in found if f.active)
    assert {to for by, on, to in active if (by, on) == ("gate", ("no",))} == {f"q{j}" for j in range(60)}
    assert {to for by, on, to in active if (by, on) == ("gate", ("yes",))} == {f"q{j}" for j in range(60)}
    assert len(active) == len(found) == 120


def test_a_table_without_levels_and_gaps_has_no_implications():
    assert rules(pd.DataFrame({"x": rng().normal(size=200), "y": rng(1).normal(size=200)}))[0] == []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_levels_ruled_out_are_those_that_never_meet(seed):
    draw = rng(seed)
    score = draw.normal(size=700)
    frame = pd.DataFrame(
        {f"q{j}": np.digitize(score + 0.3 * draw.normal(size=700), [-1, 0, 1]) for j in range(4)}
    ).replace(dict(enumerate("abcd")))
    found, data = rules(frame)
    for finding in found:
        assert finding.edit.holds(data.frame).all()
        when, then = finding.edit.when[0], finding.edit.then
        left = set(frame[then.variable][frame[when.variable].isin(when.values)])
        assert left <= set(then.values)
        counts, size = frame[then.variable].value_counts(), frame[when.variable].isin(when.values).sum()
        lost = set(counts.index) - set(then.values)
        assert sum(counts[v] for v in lost) * size / len(frame) >= 20 - 1e-9
