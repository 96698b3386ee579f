"""What each kind of edit says, and what an edit set refuses."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anoncore.edits.conditions import Condition, numbers
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.model import EditSet
from anoncore.edits.serialization import from_dict, to_dict
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable

FRAME = pd.DataFrame(
    {
        "wages": [10.0, 10, 10, np.nan],
        "benefits": [2.0, 3, 2, 2],
        "income": [12.0, 12, np.nan, 12],
        "sex": ["m", "f", "m", None],
        "pregnancies": [np.nan, 2, 1, 0],
    }
)
TOTAL = LinearEdit(name="total", terms={"income": 1, "wages": -1, "benefits": -1}, dependent="income")


def outcome(edit):
    return edit.applies(FRAME).tolist(), edit.holds(FRAME).tolist()


def test_linear_edit_does_not_apply_to_gaps():
    assert outcome(TOTAL) == ([True, True, False, False], [True, False, True, True])


def test_linear_edit_for_some_records():
    men = Condition(variable="sex", values=("m",))
    edit = LinearEdit(name="e", terms={"benefits": 1}, relation="<=", constant=1, when=(men,))
    assert outcome(edit) == ([True, False, True, False], [False, True, False, True])


@pytest.mark.parametrize(("tolerance", "holds"), [(None, False), (0.0, False), (0.9, False), (1.0, True)])
def test_tolerance(tolerance, holds):
    edit = LinearEdit(name="e", terms={"benefits": 1}, constant=2, tolerance=tolerance)
    assert bool(edit.holds(FRAME)[1]) is holds


def test_decimals_are_not_held_to_their_binary_noise():
    frame = pd.DataFrame({"a": [0.1], "b": [0.2], "c": [0.3]})
    for tolerance in (0.0, None):
        edit = LinearEdit(name="e", terms={"a": 1, "b": 1, "c": -1}, tolerance=tolerance)
        assert edit.holds(frame).all()


def test_bounds_sets_and_ratios():
    assert outcome(BoundEdit(name="e", variable="wages", upper=9))[1] == [False, False, False, True]
    assert outcome(SetEdit(name="e", variable="sex", values=("f",))) == (
        [True, True, True, False],
        [False, True, False, True],
    )
    ratio = RatioEdit(name="e", numerator="benefits", denominator="pregnancies", upper=1.5)
    assert outcome(ratio) == ([False, True, True, False], [True, True, False, True])


@pytest.mark.parametrize(
    ("stated", "holds"),
    [
        ({"values": (2,)}, [False, True, False, False]),
        ({"values": (2,), "missing": True}, [True, True, False, False]),
        ({"lower": 1}, [False, True, True, False]),
        ({"lower": 1, "upper": 1, "missing": True}, [True, False, True, False]),
        ({"missing": True}, [True, False, False, False]),
        ({"missing": False}, [False, True, True, True]),
    ],
)
def test_conditions(stated, holds):
    assert Condition(variable="pregnancies", **stated).holds(FRAME).tolist() == holds


def test_conditional_edit_speaks_of_gaps_in_its_consequent():
    men = (Condition(variable="sex", values=("m",)),)
    none = Condition(variable="pregnancies", missing=True)
    zero = Condition(variable="pregnancies", values=(0,))
    assert outcome(ConditionalEdit(name="e", when=men, then=none))[1] == [True, True, False, True]
    assert outcome(ConditionalEdit(name="e", when=men, then=zero))[1] == [False, True, False, True]


def test_all_storage_forms_of_a_table_agree():
    schema = Schema(
        [
            *(Variable(n, "continuous") for n in ("wages", "benefits", "income")),
            Variable("sex", "nominal"),
            Variable("pregnancies", "ordinal"),
        ]
    )
    data = Microdata(FRAME, schema)
    edits = EditSet(
        [
            TOTAL,
            BoundEdit(name="bound", variable="pregnancies", upper=1),
            SetEdit(name="set", variable="sex", values=("f",)),
            ConditionalEdit(
                name="if",
                when=(Condition(variable="sex", values=("m",)),),
                then=Condition(variable="pregnancies", missing=True),
            ),
            RatioEdit(name="ratio", numerator="benefits", denominator="pregnancies", upper=1.5),
        ]
    )
    expected = edits.outcomes(FRAME)
    assert edits.outcomes(data.frame) == expected
    assert edits.outcomes(data.plain()) == expected
    assert edits.violations(FRAME) == {o.name: o.violated for o in expected}


def test_text_is_refused_without_showing_it():
    for column in (pd.Series(["SECRET"], name="city"), pd.Series(["SECRET"], name="city").astype("category")):
        with pytest.raises(AnonymizationError, match="'city'") as caught:
            numbers(column)
        assert "SECRET" not in str(caught.value)
        assert caught.value.__context__ is None


def test_dependents_are_ordered_and_solved():
    net = LinearEdit(name="net", terms={"net": 2, "income": -1}, constant=1, dependent="net")
    assert [e.name for e in EditSet([net, TOTAL]).dependents] == ["total", "net"]
    assert np.allclose(TOTAL.solve(FRAME), [12, 13, 12, np.nan], equal_nan=True)
    with pytest.raises(AnonymizationError, match="in a circle: total, back"):
        EditSet([TOTAL, LinearEdit(name="back", terms={"wages": 1, "income": -1}, dependent="wages")])
    with pytest.raises(AnonymizationError, match="more than one edit: income"):
        EditSet([TOTAL, LinearEdit(name="again", terms={"income": 1, "wages": -1}, dependent="income")])


def test_matrices():
    edits = EditSet(
        [
            TOTAL,
            LinearEdit(name="min", terms={"wages": 1}, relation=">=", constant=3),
            RatioEdit(name="share", numerator="benefits", denominator="wages", upper=0.5),
            BoundEdit(name="b", variable="wages", lower=1, upper=8),
        ]
    )
    a, b = edits.equalities(["wages", "benefits", "income"])
    g, h = edits.inequalities(["wages", "benefits", "income"])
    lower, upper = edits.bounds(["wages", "income"])
    assert a.tolist() == [[-1, -1, 1]]
    assert b.tolist() == [0]
    assert g.tolist() == [[-1, 0, 0], [-0.5, 1, 0]]
    assert h.tolist() == [-3, 0]
    assert lower.tolist() == [1, -np.inf]
    assert upper.tolist() == [8, np.inf]
    assert edits.equalities(["wages", "income"])[0].shape == (0, 2)


def test_conflicts_are_named():
    edits = EditSet(
        [
            TOTAL,
            BoundEdit(name="low", variable="income", upper=1),
            BoundEdit(name="high", variable="wages", lower=5),
            BoundEdit(name="kind", variable="benefits", lower=0),
            BoundEdit(name="idle", variable="benefits", upper=9),
        ]
    )
    assert set(edits.conflict()) == {"total", "low", "high", "kind"}
    assert EditSet([TOTAL]).conflict() == ()


def test_problems_with_a_schema():
    schema = Schema(
        [
            Variable("wages", "continuous"),
            Variable("sex", "binary", levels=("f", "m")),
            Variable("id", "nominal", role="identifier"),
        ]
    )
    edits = EditSet(
        [
            BoundEdit(name="a", variable="wage", upper=1),
            SetEdit(name="b", variable="id", values=(1,)),
            BoundEdit(name="c", variable="sex", upper=1),
            SetEdit(name="d", variable="sex", values=("x",)),
        ]
    )
    told = "\n".join(edits.problems(schema))
    for words in ("'a' names unknown", "'b' uses id", "'c' computes with 'sex'", "'d' lists a value"):
        assert words in told
    assert len(edits.problems(schema)) == 4
    assert len(edits.obstacles(schema)) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Condition(variable="a"),
        lambda: Condition(variable="a", values=()),
        lambda: Condition(variable="a", values=(1,), lower=0),
        lambda: BoundEdit(name="e", variable="a"),
        lambda: BoundEdit(name="e", variable="a", lower=2, upper=1),
        lambda: BoundEdit(name="e", variable="a", lower=float("-inf"), upper=1),
        lambda: SetEdit(name="e", variable="a", values=()),
        lambda: LinearEdit(name="e", terms={}),
        lambda: LinearEdit(name="e", terms={"a": 0}),
        lambda: LinearEdit(name="e", terms={"a": 1}, constant=float("nan")),
        lambda: LinearEdit(name="e", terms={"a": 1}, tolerance=-1),
        lambda: LinearEdit(name="e", terms={"a": 1}, dependent="b"),
        lambda: LinearEdit(name="e", terms={"a": 1}, relation="<=", dependent="a"),
        lambda: ConditionalEdit(name="e", when=(), then=Condition(variable="a", missing=True)),
        lambda: RatioEdit(name="e", numerator="a", denominator="a", upper=1),
        lambda: RatioEdit(name="e", numerator="a", denominator="b"),
        lambda: EditSet([BoundEdit(name="e", variable="a", upper=1)] * 2),
        lambda: from_dict({"edit": "magic", "name": "e"}),
        lambda: from_dict({"edit": "bound", "name": "e", "variabel": "a"}),
        lambda: from_dict({"edit": "bound", "variable": "a", "upper": 1}),
        lambda: from_dict({"edit": "conditional", "name": "e", "when": [{"column": "a"}], "then": {"variable": "a"}}),
    ],
)
def test_contradictions_are_refused(make):
    with pytest.raises(AnonymizationError):
        make()


@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(0.1, 9), min_size=1),
    st.sampled_from(["==", "<=", ">="]),
    st.booleans(),
)
def test_edits_survive_json(terms, relation, conditional):
    when = (Condition(variable="s", values=(np.int64(1),), missing=True),) if conditional else ()
    for edit in (
        LinearEdit(name="e", terms=terms, relation=relation, when=when, tolerance=0.0),
        ConditionalEdit(
            name="e",
            when=when or (Condition(variable="x", missing=False),),
            then=Condition(variable="y", upper=0),
        ),
        BoundEdit(name="e", variable="a", lower=0),
        SetEdit(name="e", variable="a", values=("x", "y")),
        RatioEdit(name="e", numerator="a", denominator="b", lower=0, upper=1.0),
    ):
        assert from_dict(to_dict(edit)) == edit
