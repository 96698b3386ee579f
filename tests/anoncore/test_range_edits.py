"""What edits say of ranges: never against a range that holds a record which keeps the edit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.edits import BoundEdit, Condition, ConditionalEdit, EditSet, LinearEdit, RatioEdit, SetEdit
from anoncore.range_edits import over_ranges

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
    possible = {"==": forms.min() <= 0 <= forms.max(), "<=": forms.min() <= 0, ">=": forms.max() >= 0}[
        relation
    ]
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
