"""What edits say of ranges: never against a range that holds a record which keeps the edit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.boxes.edits import narrowed, over_ranges
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.model import EditSet

NAMES = ("a", "b", "c")


def ranges(**bounds):
    return pd.DataFrame(
        {f"{n}_{end}": [v] for n, pair in bounds.items() for end, v in zip(("lo", "hi"), pair, strict=True)}
    )


@given(seed=st.integers(0, 10**6), relation=st.sampled_from(["==", "<=", ">="]))
@settings(max_examples=60, deadline=None)
def test_a_range_holds_exactly_when_some_record_in_it_does(seed, relation):
    """On a grid of corners, the extremes of a linear form decide."""
    rng = np.random.default_rng(seed)
    terms = {n: float(rng.integers(1, 4) * rng.choice([-1, 1])) for n in NAMES}
    edit = LinearEdit(name="e", terms=terms, relation=relation, constant=float(rng.integers(-5, 6)))
    low = rng.integers(-3, 4, 3).astype(float)
    high = low + rng.integers(0, 4, 3)
    frame = ranges(**{n: (low[i], high[i]) for i, n in enumerate(NAMES)})
    corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1).T
    forms = corners @ [terms[n] for n in NAMES] - edit.constant
    possible = {"==": forms.min() <= 0 <= forms.max(), "<=": forms.min() <= 0, ">=": forms.max() >= 0}[relation]
    told, silent = over_ranges(EditSet([edit]), NAMES)
    assert silent == ()
    assert bool(told.satisfied(frame)[0]) == possible


@pytest.mark.parametrize(
    ("lower", "upper", "pair", "holds"),
    [(0, 10, (-5, 3), True), (0, 10, (-5, -1), False), (0, None, (9, 20), True), (None, 10, (11, 20), False)],
)
def test_bounds_hold_when_the_range_reaches_into_them(lower, upper, pair, holds):
    edit = BoundEdit(name="e", variable="a", lower=lower, upper=upper)
    told, _ = over_ranges(EditSet([edit]), ["a"])
    assert bool(told.satisfied(ranges(a=pair))[0]) is holds


def test_every_range_begins_before_it_ends():
    told, _ = over_ranges(EditSet(), ["a"])
    assert told.satisfied(ranges(a=(1, 1))).all()
    assert not told.satisfied(ranges(a=(2, 1))).any()


def test_tolerances_stay():
    edit = LinearEdit(name="e", terms={"a": 1, "b": -1}, tolerance=0.5)
    told, _ = over_ranges(EditSet([edit]), ["a", "b"])
    assert told.satisfied(ranges(a=(0, 1), b=(1.4, 2))).all()
    assert not told.satisfied(ranges(a=(0, 1), b=(1.6, 2))).any()


def test_gaps_break_nothing():
    edit = LinearEdit(name="e", terms={"a": 1, "b": 1}, constant=100)
    told, _ = over_ranges(EditSet([edit, BoundEdit(name="f", variable="a", lower=5)]), ["a", "b"])
    assert told.satisfied(ranges(a=(np.nan, np.nan), b=(1.0, 2.0))).all()


def test_edits_that_ranges_cannot_show_are_named():
    edits = [
        SetEdit(name="set", variable="s", values=("x",)),
        RatioEdit(name="ratio", numerator="a", denominator="b", upper=1),
        LinearEdit(name="when", terms={"a": 1}, when=(Condition(variable="s", values=("x",)),)),
        ConditionalEdit(
            name="conditional",
            when=(Condition(variable="a", lower=0),),
            then=Condition(variable="b", missing=True),
        ),
        LinearEdit(name="other", terms={"a": 1, "z": 1}),
        BoundEdit(name="told", variable="a", lower=0),
    ]
    told, silent = over_ranges(EditSet(edits), ["a", "b"])
    assert silent == ("set", "ratio", "when", "conditional", "other")
    assert [e.name for e in told.edits] == [
        "a begins before it ends", "b begins before it ends", "told (least)"
    ]  # fmt: skip


@given(
    seed=st.integers(0, 10**6),
    relation=st.sampled_from(["==", "<=", ">="]),
    unit=st.sampled_from([None, 1.0, 0.1]),
    tolerance=st.sampled_from([None, 0.0, 0.3]),
)
@settings(max_examples=80, deadline=None)
def test_narrowed_ranges_hold_every_record_that_keeps_the_edits(seed, relation, unit, tolerance):
    rng = np.random.default_rng(seed)
    step = unit or 0.137
    own = rng.integers(-20, 20, (30, 3)) * step
    c = rng.integers(1, 4, 3) * rng.choice([-1, 1], 3)
    low, high = own - rng.integers(0, 9, own.shape) * step - 0.01, own + rng.integers(0, 9, own.shape) * step
    edits = []
    for number, row in enumerate(own):
        # Each record is a box of its own, and keeps an edit that just touches it.
        edits = [
            LinearEdit(
                name=f"e{number}",
                terms=dict(zip(NAMES, c, strict=True)),
                relation=relation,
                constant=float(row @ c),
                tolerance=tolerance,
            )
        ]
        here = slice(number, number + 1)
        less, more = narrowed(low[here], high[here], NAMES, edits, [unit] * 3)
        assert (low[here] <= less).all()
        assert (more <= high[here]).all()
        assert (less <= row).all()
        assert (row <= more).all()
    assert edits


def test_a_total_narrows_its_parts_and_gaps_narrow_nothing():
    total = LinearEdit(name="total", terms={"a": 1, "b": 1, "c": -1})
    low = np.array([[0.0, 0.0, 99.5], [0.0, np.nan, 99.5]])
    high = np.array([[90.0, 20.0, 105.5], [90.0, np.nan, 105.5]])
    less, more = narrowed(low, high, NAMES, [total], [1.0] * 3)
    # 100 … 105 less at most 20: from 80 on; less at most 90: from 10 on.
    np.testing.assert_array_equal(less, [[79.5, 9.5, 99.5], [0.0, np.nan, 99.5]])
    np.testing.assert_array_equal(more, high)
    less, _ = narrowed(low, high, NAMES, [total], [None] * 3)
    np.testing.assert_allclose(less[0], [79.5, 9.5, 99.5], atol=1e-6)
    assert (less[0, :2] <= [79.5, 9.5]).all()


def test_edits_under_conditions_and_about_others_narrow_nothing():
    low, high = np.zeros((1, 3)), np.full((1, 3), 9.0)
    edits = [
        LinearEdit(name="e", terms={"a": 1}, relation="<=", constant=3, when=(Condition(variable="b", lower=1),)),
        LinearEdit(name="f", terms={"a": 1, "z": 1}, relation="<=", constant=3),
    ]
    less, more = narrowed(low, high, NAMES, edits, [1.0] * 3)
    np.testing.assert_array_equal([less, more], [low, high])
