"""Interactions that a draft finds, and limits of numbers."""

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.edits.product import ProductEdit
from anoncore.microdata import Microdata, Schema
from anoncore.profile import find_rules, profile
from anoncore.profile.limits import sensible_limits


def found(frame, kind):
    profiled = profile(frame, rng=np.random.default_rng(0))
    variables = [g.variable for g in profiled.guesses if g.variable.is_masked]
    data = Microdata(frame[[v.name for v in variables]], Schema(variables))
    return [f.edit for f in find_rules(data, profiled.sums) if f.active and isinstance(f.edit, kind)]


@pytest.fixture(scope="module")
def interacted():
    draw = np.random.default_rng(3)
    n = 900
    frame = pd.DataFrame({"after": draw.integers(0, 2, n), "woman": draw.integers(0, 2, n)})
    frame["schooling"] = draw.integers(6, 19, n)
    frame["pay"] = draw.lognormal(3, 1, n).round(2)
    frame["after_schooling"] = frame.after * frame.schooling
    frame["pay_woman"] = frame.woman * frame.pay
    frame["after_woman"] = frame.after * frame.woman
    frame["either"] = np.where(frame.after + frame.woman > 0, "yes", "no")
    return frame


def test_numbers_times_an_indicator_are_products(interacted):
    products = {e.dependent: dict(e.of) for e in found(interacted, ProductEdit)}
    assert products == {
        "after_schooling": {"after": 1, "schooling": 1},
        "pay_woman": {"woman": 1, "pay": 1},
    }
    assert all(e.holds(interacted).all() for e in found(interacted, ProductEdit))


def test_levels_that_follow_from_two_variables_jointly(interacted):
    lookups = {e.dependent: set(e.of) for e in found(interacted, LookupEdit)}
    assert lookups == {"after_woman": {"after", "woman"}, "either": {"after", "woman"}}


def test_neither_where_one_record_differs(interacted):
    frame = interacted.copy()
    for name in ("after_schooling", "pay_woman"):
        frame.loc[frame.index[frame.woman.eq(1) & frame.after.eq(1)][0], name] += 1
    frame.loc[frame.index[frame.after_woman.eq(0)][0], "after_woman"] = 1
    assert not found(frame, ProductEdit)
    assert not [e for e in found(frame, LookupEdit) if e.dependent in ("after_woman", "after_schooling", "pay_woman")]


@pytest.mark.parametrize("rest", ["of others", "bonus"])
def test_nothing_is_computed_from_what_it_has_a_part_in(rest):
    """A part of a total may be the total times an indicator, or follow from the total."""
    draw = np.random.default_rng(1)
    works, pay = draw.integers(0, 2, 900), draw.lognormal(3, 1, 900).round(2)
    frame = pd.DataFrame({"works": works, "paid": pay * works})
    frame[rest] = (0.1 * frame.paid).round(2) if rest == "bonus" else pay - frame.paid
    frame["total"] = (frame.paid + frame[rest]).round(2)
    edits = found(frame, LinearEdit | ProductEdit | LookupEdit)
    assert "total" in {e.dependent for e in EditSet(edits).dependents}


def test_nothing_jointly_among_independent_indicators():
    draw = np.random.default_rng(5)
    frame = pd.DataFrame({f"item{j}": draw.random(150) < draw.uniform(0.02, 0.5) for j in range(14)}).astype(int)
    assert not found(frame, LookupEdit | ProductEdit)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limits_follow_from_what_many_units_hold(sign):
    ages = np.sort(np.random.default_rng(1).normal(50, 12, 4000).round())
    ends = []
    for oldest in (ages[-2], ages[-2] + 2, 101.0):  # only the last one is beyond the limit of the others
        ages[-1] = oldest
        lower, upper = sensible_limits(sign * ages, None, 1.0)
        ends.append(upper if sign > 0 else -lower)
    assert ends == [100, 100, 110]


def test_limits_hold_every_number_and_are_no_ones():
    draw = np.random.default_rng(2)
    for law in (draw.normal, draw.standard_exponential, lambda size: draw.pareto(1.2, size)):
        for n in (40, 300, 3000):
            values = law(size=n)
            lower, upper = sensible_limits(values, None, None)
            assert lower < values.min()
            assert values.max() < upper


def test_limits_of_many_units_lack_the_noise_of_single_precision():
    numbers = np.r_[
        np.random.default_rng(4).uniform(2, 9, 300), np.full(9, np.float32(0.1)), np.full(9, np.float32(18.17))
    ]
    assert sensible_limits(numbers, None, None) == (0.1, 18.2)


def test_one_unit_with_many_records_sets_no_limit():
    values = np.r_[np.random.default_rng(6).normal(40, 5, 500), np.full(20, 75.0)]
    units = np.r_[np.arange(500), np.full(20, 500)]
    assert sensible_limits(values, units, 1.0)[1] > 75
    assert (
        found(pd.DataFrame({"age": np.r_[18:90, 18:90, 18:90, 18:90, 18:90].astype(float)}), BoundEdit)[0].upper == 89
    )


def test_numbers_of_industries_are_codes():
    codes = np.random.default_rng(8).choice([1011, 1520, 2834, 3571, 4911, 5812, 6021, 7372], 400)
    frame = pd.DataFrame({"sic": codes, "sales": np.random.default_rng(9).lognormal(8, 1, 400).round()})
    kinds = {g.variable.name: g.variable.kind for g in profile(frame, rng=np.random.default_rng(0)).guesses}
    assert kinds == {"sic": "nominal", "sales": "continuous"}


def test_a_constant_that_an_indicator_switches_is_a_term_of_the_sum():
    draw = np.random.default_rng(10)
    n = 600
    frame = pd.DataFrame({"later": draw.integers(0, 2, n), "schooling": draw.integers(6, 19, n)})
    frame["exper"] = draw.integers(0, 40, n)
    frame["age"] = frame.exper + frame.schooling + 5 + frame.later
    sums = [e for e in found(frame, LinearEdit) if e.relation == "=="]
    assert [(set(e.terms), e.tolerance, e.holds(frame).all()) for e in sums] == [(set(frame), None, True)]
    # By chance no indicator tells the two constants apart.
    frame["later"] = draw.permutation(frame.later)
    assert [(e.tolerance, "later" in e.terms) for e in found(frame, LinearEdit) if e.relation == "=="] == [(1.0, False)]
