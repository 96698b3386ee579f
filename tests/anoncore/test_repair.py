"""Repair: every edit holds afterwards, little changes, nothing that was alike becomes different."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.claims import KAnonymity
from anoncore.edits.conditions import Condition
from anoncore.edits.dependents import complete, without_dependents
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.model import EditSet
from anoncore.edits.repair import repair
from anoncore.edits.serialization import from_dict
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.microdata import Microdata, Schema, Variable

TOTAL = LinearEdit(name="total", terms={"income": 1, "wages": -1, "benefits": -1}, dependent="income")


def rng(seed=1):
    return np.random.default_rng(seed)


def table(columns, **kinds):
    """Microdata from columns; a kind is a name, or a name with levels, or a precision."""
    variables = []
    for name in columns:
        kind = kinds.get(name, 1.0)
        if isinstance(kind, float):
            variables.append(Variable(name, "continuous", precision=kind))
        else:
            kind, levels = kind if isinstance(kind, tuple) else (kind, None)
            variables.append(Variable(name, kind, levels=levels))
    return Microdata(pd.DataFrame(columns), Schema(variables))


def repaired(data, *edits):
    before = data.frame.copy(deep=True)
    result = repair(data, EditSet(edits), rng=rng())
    assert EditSet(edits).satisfied(result.data.frame).all()
    pd.testing.assert_frame_equal(data.frame, before)
    assert list(result.data.frame.index) == list(before.index)
    assert [v.name for v in result.data.schema] == [v.name for v in data.schema]
    return result


def column(result, name):
    return result.data.frame[name].tolist()


# --- dependents ----------------------------------------------------------------------------------


def test_dependents_leave_and_come_back():
    data = table({"income": [12, 13.5, np.nan], "wages": [10.0, 9, 1], "benefits": [2.0, np.nan, 3]}, income=0.5)
    edits = EditSet([TOTAL])
    parts = without_dependents(data, edits)
    assert parts.schema.names == ("wages", "benefits")
    whole = complete(parts, edits, data.schema)
    assert whole.schema.names == ("income", "wages", "benefits")
    assert np.allclose(whole.frame["income"], [12, np.nan, 4], equal_nan=True)
    assert whole.schema["income"].precision == 0.5


def test_a_computed_column_keeps_the_decimals_its_edit_needs():
    data = table({"a": [1.25, 2.5], "total": [0.0, 0.0]}, a=0.01, total=1.0)
    for constant, precision in ((0.75, 0.1), (0.0, 0.01)):
        edit = LinearEdit(name="e", terms={"total": 1, "a": -1}, constant=constant, dependent="total")
        if constant:
            data = table({"a": [1.25, 2.35], "total": [0.0, 0.0]}, a=0.01, total=1.0)
        whole = complete(without_dependents(data, EditSet([edit])), EditSet([edit]), data.schema)
        assert edit.holds(whole.frame).all()
        assert whole.schema["total"].precision == precision
    loose = LinearEdit(name="e", terms={"total": 1, "a": -1}, tolerance=0.5, dependent="total")
    whole = complete(without_dependents(data, EditSet([loose])), EditSet([loose]), data.schema)
    assert whole.frame["total"].tolist() == [1.0, 2.0]


def test_a_computed_variable_with_levels():
    edit = LinearEdit(name="sum", terms={"t": 1, "a": -1, "b": -1}, dependent="t")
    columns = {"a": [0, 1, None], "b": [1, 1, 1], "t": [1, 2, 2]}
    level = ("ordinal", (0, 1, 2))
    data = table(columns, a=level, b=level, t=level)
    whole = complete(without_dependents(data, EditSet([edit])), EditSet([edit]), data.schema)
    assert whole.frame["t"].tolist()[:2] == [1, 2]
    assert whole.frame["t"].isna().tolist() == [False, False, True]
    short = table(columns, a=level, b=level, t=("ordinal", (1, 2, 0)))
    assert complete(without_dependents(short, EditSet([edit])), EditSet([edit]), short.schema)
    few = table({**columns, "t": [1, 1, 1]}, a=level, b=level, t=("ordinal", (0, 1)))
    with pytest.raises(InfeasibleError, match=r"'sum': 1 record\(s\) give a sum that is none of the 2 levels of 't'"):
        complete(without_dependents(few, EditSet([edit])), EditSet([edit]), few.schema)


def test_a_part_that_was_dropped_is_named():
    data = table({"income": [1.0], "wages": [1.0], "benefits": [0.0]})
    with pytest.raises(AnonymizationError, match="lack benefits"):
        complete(data.select(["wages"]), EditSet([TOTAL]), data.schema)


# --- numbers -------------------------------------------------------------------------------------


def test_what_satisfies_the_edits_is_not_touched():
    data = table({"income": [12.0, 13.0], "wages": [10.0, 10.0], "benefits": [2.0, 3.0]})
    result = repaired(data, TOTAL)
    pd.testing.assert_frame_equal(result.data.frame, data.frame)
    assert result.changed == {"total": 0}
    assert (result.cells_changed, result.records_changed) == (0, 0)


def test_projection_in_standard_deviations():
    values = rng(0).normal(size=(400, 3)) * [1.0, 10, 100]
    data = table(dict(zip("abc", values.T, strict=True)), a=1e-6, b=1e-6, c=1e-6)
    edit = LinearEdit(name="e", terms={"a": 1, "b": 1, "c": 1})
    moved = repaired(data, edit).data.frame.to_numpy() - values
    variance = values.var(axis=0)
    expected = -values.sum(axis=1)[:, None] * variance / variance.sum()
    assert np.abs(moved - expected).max() < 1e-5


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (5.0, 0.1, 0.1), (0.25, 0.5, 0.25), (0.01, 1.0, 0.01)])
def test_rounding_keeps_equalities_bounds_and_units(units):
    r = rng(3)
    columns = {
        n: np.round(r.normal(50, 20, 300) / u) * u for n, u in zip(("income", "wages", "benefits"), units, strict=True)
    }
    kinds = dict(zip(columns, units, strict=True))
    data = table(columns, **kinds)
    bounds = [BoundEdit(name=n, variable=n, lower=10, upper=90) for n in columns]
    result = repaired(data, TOTAL, *bounds)
    for name, unit in kinds.items():
        steps = result.data.frame[name] / unit
        assert np.allclose(steps, np.round(steps), atol=1e-6)
        assert result.data.schema[name].precision == unit


def test_an_equality_that_needs_decimals_refines_the_precision():
    data = table({"a": [1.0, 4.0], "b": [1.0, 1.0]})
    result = repaired(data, LinearEdit(name="e", terms={"a": 2, "b": -2}, constant=1))
    assert result.data.schema["b"].precision == 0.1
    assert result.data.schema["a"].precision == 1.0


def test_tolerance_bounds_the_distance():
    data = table({"a": [10.0], "b": [20.0]}, a=0.01, b=0.01)
    result = repaired(data, LinearEdit(name="e", terms={"a": 1, "b": -1}, tolerance=0.5))
    assert abs(result.data.frame["a"][0] - result.data.frame["b"][0]) == pytest.approx(0.5, abs=0.011)


def test_missing_terms_switch_an_equality_off():
    data = table({"income": [99.0, 99.0], "wages": [np.nan, 1.0], "benefits": [1.0, 1.0]})
    result = repaired(data, TOTAL, BoundEdit(name="b", variable="income", upper=50))
    assert column(result, "income")[0] == 50.0
    assert np.isnan(result.data.frame["wages"][0])


def test_edits_for_some_records_and_ratios():
    quit_ = LinearEdit(name="quit", terms={"then": 1, "change": 1}, when=(Condition(variable="q", values=(1,)),))
    ratio = RatioEdit(name="ratio", numerator="then", denominator="now", upper=2)
    data = table(
        {"q": [1, 0, 1], "then": [20.0, 20, 10], "change": [-5.0, -5, -10], "now": [30.0, 4, 30]},
        q=("binary", (0, 1)),
    )
    result = repaired(data, quit_, ratio)
    assert column(result, "q") == [1, 0, 1]
    assert result.changed == {"quit": 1, "ratio": 1}
    assert result.data.frame.iloc[2].tolist() == [1, 10.0, -10.0, 30.0]


def test_levels_stay_while_numbers_can_move_and_move_when_they_cannot():
    level = ("ordinal", (0, 1, 2, 3))
    edit = LinearEdit(name="e", terms={"a": 1, "b": 1, "x": -1})
    data = table({"a": [1, 3], "b": [1, 3], "x": [9.0, 1.0]}, a=level, b=level)
    result = repaired(data, edit)
    assert column(result, "a") == [1, 3]
    assert column(result, "x") == [2.0, 6.0]
    result = repaired(data, edit, BoundEdit(name="x", variable="x", upper=4))
    assert column(result, "a") + column(result, "b") != [1, 3, 1, 3]
    data = table({"a": [3, 0], "b": [3, 0], "x": [0, 3]}, a=level, b=level, x=level)
    repaired(data, edit)


# --- levels --------------------------------------------------------------------------------------


def test_set_edits():
    data = table(
        {"o": [1, 4, 9], "n": list("aab"), "x": [1.0, 7.0, 12.0]},
        o=("ordinal", (1, 2, 4, 8, 9)),
        n=("nominal", ("a", "b", "c")),
    )
    result = repaired(
        data,
        SetEdit(name="o", variable="o", values=(2, 8)),
        SetEdit(name="n", variable="n", values=("b", "c")),
        SetEdit(name="x", variable="x", values=(0, 10)),
    )
    assert column(result, "o") == [2, 2, 8]
    assert column(result, "n") == ["b", "b", "b"]  # c is nobody's
    assert column(result, "x") == [0.0, 10.0, 10.0]
    assert result.changed == {"o": 3, "n": 2, "x": 3}


def test_a_nominal_level_is_drawn_as_often_as_it_occurs():
    n = 6000
    names = np.array(["x"] * (n // 2) + ["a"] * (n // 8) + ["b"] * (3 * n // 8))
    data = table({"n": names, "i": np.arange(n, dtype=float)}, n=("nominal", ("a", "b", "x")))
    result = repaired(data, SetEdit(name="e", variable="n", values=("a", "b")))
    drawn = result.data.frame["n"][: n // 2]
    assert (drawn == "b").mean() == pytest.approx(0.75, abs=0.03)


def conditional(then, **when):
    conditions = tuple(Condition(variable=k, values=(v,)) for k, v in when.items())
    return ConditionalEdit(name="if", when=conditions, then=Condition(**then))


def test_conditional_edits_settle_their_consequent():
    sex = ("binary", ("f", "m"))
    data = table({"sex": list("mmff"), "p": [2.0, np.nan, 1, 3]}, sex=sex)
    result = repaired(data, conditional({"variable": "p", "missing": True}, sex="m"))
    assert column(result, "sex") == list("mmff")
    assert np.isnan(column(result, "p")[:2]).all()
    assert result.changed == {"if": 1}
    result = repaired(data, conditional({"variable": "p", "values": (0,)}, sex="m"))
    assert column(result, "p") == [0, 0, 1, 3]
    data = table({"sex": list("mmff"), "age": [15.0, 40, 12, 90]}, sex=sex, age=5.0)
    result = repaired(data, conditional({"variable": "age", "lower": 18, "upper": 33}, sex="m"))
    assert column(result, "age") == [20, 30, 12, 90]


def test_donors_are_records_to_which_the_edit_applies():
    n = 400
    sex = np.array(list("mf") * (n // 2))
    job = np.where(sex == "m", "a", "b")
    job[:40] = "z"
    data = table(
        {"sex": sex, "job": job, "i": np.arange(n, dtype=float)},
        sex="binary",
        job=("nominal", ("a", "b", "c", "z")),
    )
    result = repaired(data, conditional({"variable": "job", "values": ("a", "b", "c")}, sex="m"))
    assert set(result.data.frame["job"][:40:2]) == {"a"}
    gaps = table({"sex": sex, "job": [None, *job[1:]]}, sex="binary", job=("nominal", ("a", "b", "c", "z")))
    result = repaired(gaps, conditional({"variable": "job", "missing": False}, sex="m"))
    assert column(result, "job")[0] in ("a", "z")
    # Nobody to draw from: one of the allowed levels.
    result = repaired(
        table({"sex": ["m"], "job": ["z"]}, sex="binary", job=("nominal", ("a", "b", "z"))),
        conditional({"variable": "job", "values": ("a", "b")}, sex="m"),
    )
    assert column(result, "job")[0] in ("a", "b")


def test_a_range_that_must_not_be_missing_is_filled():
    data = table({"q": [1, 1, 0], "x": [np.nan, 7.0, np.nan]}, q=("binary", (0, 1)))
    result = repaired(data, conditional({"variable": "x", "lower": 5}, q=1))
    assert column(result, "x")[:2] == [7.0, 7.0]
    assert np.isnan(column(result, "x")[2])


def test_a_consequent_range_is_met_together_with_equalities():
    edits = [
        LinearEdit(name="sum", terms={"a": 1, "b": 1}, constant=60),
        conditional({"variable": "a", "lower": 51}, older=1),
        BoundEdit(name="b", variable="b", lower=0),
    ]
    data = table({"older": [1, 0], "a": [40.0, 40.0], "b": [20.0, 20.0]}, older=("binary", (0, 1)))
    result = repaired(data, *edits)
    assert result.data.frame.iloc[0].tolist() == [1, 51.0, 9.0]
    # When the equality leaves no room for the consequent, the antecedent gives way.
    edits[2] = BoundEdit(name="b", variable="b", lower=15)
    result = repaired(data, *edits)
    assert column(result, "older") == [0, 0]


def test_when_consequents_contradict_an_antecedent_gives_way():
    three = ("nominal", (1, 2, 3))
    first = ConditionalEdit(
        name="first",
        when=(Condition(variable="a", values=(1,)),),
        then=Condition(variable="b", values=(2,)),
    )
    second = ConditionalEdit(
        name="second",
        when=(Condition(variable="c", values=(1,)),),
        then=Condition(variable="b", values=(3,)),
    )
    data = table({"a": [1, 1, 2], "b": [1, 2, 3], "c": [1, 1, 1]}, a=three, b=three, c=three)
    result = repaired(data, first, second)
    assert column(result, "b")[2] == 3
    again = repaired(data, first, second)
    pd.testing.assert_frame_equal(result.data.frame, again.data.frame)


def test_a_computed_cell_follows_its_parts():
    gone = conditional({"variable": "wages", "missing": True}, out=1)
    there = ConditionalEdit(
        name="there",
        when=(Condition(variable="out", values=(0,)),),
        then=Condition(variable="wages", missing=False),
    )
    data = table(
        {"out": [1, 0, 0], "wages": [5.0, np.nan, 7.0], "benefits": [1.0, 2, 3], "income": [6.0, np.nan, 10]},
        out=("binary", (0, 1)),
    )
    result = repaired(data, TOTAL, gone, there)
    assert np.isnan(column(result, "income")[0])
    assert column(result, "income")[1:] == [9.0, 10.0]


# --- the whole -----------------------------------------------------------------------------------


def test_what_cannot_be_settled_is_named_and_counted_without_values():
    data = table({"a": [123456.0, 1.0], "b": [5.0, 5.0]})
    edits = [
        LinearEdit(name="sum", terms={"a": 1, "b": 1}, constant=10),
        BoundEdit(name="low", variable="a", upper=1),
        BoundEdit(name="high", variable="b", upper=1),
    ]
    with pytest.raises(InfeasibleError, match=r"2 record\(s\) .* still violated: sum") as caught:
        repair(data, EditSet(edits), rng=rng())
    assert "123456" not in str(caught.value)
    with pytest.raises(AnonymizationError, match="unknown variable"):
        repair(data, EditSet([BoundEdit(name="e", variable="c", upper=1)]), rng=rng())


def test_small_tables():
    data = table({"a": [5.0], "b": [1.0]})
    edit = LinearEdit(name="e", terms={"a": 1, "b": -1})
    assert column(repaired(data, edit), "a") == column(repaired(data, edit), "b")
    assert len(repaired(data.take(np.array([], dtype=int)), edit).data) == 0
    assert repaired(data).changed == {}


def test_identifiers_do_not_set_alike_records_apart():
    schema = Schema(
        [
            Variable("id", "nominal", role="identifier"),
            Variable("n", "nominal", levels=tuple("abcx")),
        ]
    )
    data = Microdata(pd.DataFrame({"id": range(60), "n": list("x" * 30 + "abc" * 10)}), schema)
    result = repaired(data, SetEdit(name="e", variable="n", values=("a", "b", "c")))
    assert len(set(column(result, "n")[:30])) == 1


def test_k_anonymity_survives():
    r = rng(5)
    k, groups = 4, 60
    centre = pd.DataFrame(
        {
            "wages": np.round(r.normal(100, 30, groups)),
            "benefits": np.round(r.normal(30, 10, groups)),
            "income": np.round(r.normal(130, 40, groups)),
            "sex": r.choice(["f", "m"], groups),
            "job": r.choice(list("abcd"), groups),
            "p": np.where(r.random(groups) < 0.5, np.nan, 1.0),
        }
    )
    frame = centre.loc[np.repeat(np.arange(groups), k)].reset_index(drop=True)
    frame = frame.iloc[r.permutation(len(frame))]
    data = table({n: frame[n].array for n in frame}, sex="binary", job="nominal")
    edits = [
        TOTAL,
        SetEdit(name="job", variable="job", values=("a", "b", "c")),
        ConditionalEdit(
            name="p",
            when=(Condition(variable="sex", values=("f",)),),
            then=Condition(variable="p", missing=False),
        ),
        conditional({"variable": "job", "values": ("a", "b")}, sex="m"),
    ]
    assert KAnonymity(k=k).check(data).holds
    result = repaired(data, *edits)
    assert result.records_changed > 100
    assert KAnonymity(k=k).check(result.data).holds


def random_case(seed):
    """Edits around one record that satisfies them all, and records that do not."""
    r = rng(seed)
    n = int(r.integers(5, 40))
    numbers = ["x", "y", "z"]
    columns = {name: np.where(r.random(n) < 0.1, np.nan, np.round(r.normal(20, 9, n))) for name in numbers}
    columns |= {"o": r.integers(0, 4, n), "n": r.choice(list("abc"), n)}
    data = table(columns, o=("ordinal", (0, 1, 2, 3)), n=("nominal", tuple("abc")))
    good = {"x": 20.0, "y": 18.0, "z": 25.0, "o": int(r.integers(0, 4)), "n": str(r.choice(list("abc")))}
    edits = []
    for i in range(int(r.integers(1, 3))):
        names = [*r.choice(numbers, 2, replace=False), "o"][: int(r.integers(2, 4))]
        terms = {str(m): float(r.choice([-1, 1, 2])) for m in names}
        relation = str(r.choice(["==", "<=", ">="]))
        constant = sum(c * good[m] for m, c in terms.items())
        edits.append(LinearEdit(name=f"l{i}", terms=terms, relation=relation, constant=constant))
    edits.append(BoundEdit(name="b", variable="x", lower=15, upper=25))
    then = (
        Condition(variable="y", lower=10, upper=20)
        if r.random() < 0.5
        else Condition(variable="o", values=(good["o"], 3))
    )
    edits.append(ConditionalEdit(name="c", when=(Condition(variable="n", values=(good["n"],)),), then=then))
    return data, edits


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000))
def test_every_edit_holds_after_repair(seed):
    data, edits = random_case(seed)
    first, second = repaired(data, *edits), repaired(data, *edits)
    pd.testing.assert_frame_equal(first.data.frame, second.data.frame)
    sound = EditSet(edits).satisfied(data.frame)
    pd.testing.assert_frame_equal(first.data.frame[sound], data.frame[sound])
    again = repair(first.data, EditSet(edits), rng=rng(2))
    assert again.records_changed == 0


# --- real data -----------------------------------------------------------------------------------


def shuffled(data, r):
    """Each column in an order of its own: what masking without edits can do at worst."""
    frame = {n: data.frame[n].iloc[r.permutation(len(data))].array for n in data.frame}
    return Microdata(pd.DataFrame(frame, index=data.frame.index), data.schema)


def nhefs_edits():
    def when(variable, *values):
        return (Condition(variable=variable, values=values),)

    def follows(name, when_, **then):
        return ConditionalEdit(name=name, when=when_, then=Condition(**then))

    smoking = {"smokeintensity": 1, "smkintensity82_71": 1}
    return EditSet(
        [
            LinearEdit(name="weight", terms={"wt82_71": 1, "wt82": -1, "wt71": 1}),
            LinearEdit(name="price", terms={"price71_82": 1, "price71": -1, "price82": 1}, tolerance=0.0004),
            LinearEdit(name="tax", terms={"tax71_82": 1, "tax71": -1, "tax82": 1}, tolerance=0.00013),
            LinearEdit(name="smokes", terms=smoking, relation=">="),
            LinearEdit(name="quit", terms=smoking, when=when("qsmk", 1)),
            follows("men", when("sex", 0), variable="birthcontrol", values=(2,)),
            follows("no pregnancies", when("sex", 0), variable="pregnancies", missing=True),
            follows("alive", when("death", 0), variable="yrdth", missing=True),
            follows("older", when("older", 1), variable="age", lower=51),
            follows("51", (Condition(variable="age", lower=51),), variable="older", values=(1,)),
            follows("censored", when("censored", 1), variable="wt82", missing=True),
            follows("weighed", when("censored", 0), variable="wt82", missing=False),
            follows("gap", (Condition(variable="wt82", missing=True),), variable="censored", values=(1,)),
            BoundEdit(name="cigarettes", variable="smokeintensity", lower=1, upper=80),
        ]
    )


@pytest.fixture(scope="module")
def nhefs_raw(nhefs_frame):
    """NHEFS as published, with its own code 2 for birth control."""
    binary = ("qsmk", "sex", "death", "older", "censored")
    names = sorted({n for e in nhefs_edits().edits for n in e.variables})
    variables = [
        Variable(n, "binary", levels=(0, 1))
        if n in binary
        else Variable(n, "nominal" if n == "birthcontrol" else "continuous")
        for n in names
    ]
    return Microdata(nhefs_frame[names], Schema(variables))


def test_nhefs_satisfies_its_edits_before_and_after(nhefs_raw):
    edits = nhefs_edits()
    assert edits.problems(nhefs_raw.schema) == []
    assert edits.satisfied(nhefs_raw.frame).all()
    masked = shuffled(nhefs_raw, rng(0))
    assert sum(v > 0 for v in edits.violations(masked.frame).values()) >= 10
    result = repaired(masked, *edits.edits)
    assert result.data.schema == masked.schema
    # Consequents are settled, antecedents kept.
    for name in ("qsmk", "sex", "death"):
        assert result.data.frame[name].equals(masked.frame[name])


def test_nhefs_a_small_disturbance_stays_small(nhefs_raw):
    names = ["wt71", "wt82", "wt82_71"]
    data = Microdata(nhefs_raw.frame.assign(wt82_71=nhefs_raw.frame["wt82_71"] + 0.5), nhefs_raw.schema)
    result = repaired(data, *nhefs_edits().edits)
    moved = (result.data.frame[names] - data.frame[names]).abs()
    assert moved.max().max() < 0.5
    assert result.cells_changed == 3 * result.changed["weight"]


def test_nhefs_with_the_edits_of_the_demonstration(nhefs, nhefs_plan):
    edits = EditSet([from_dict(rule) for rule in nhefs_plan["edits"]["rules"]]).learned(nhefs)
    masked = shuffled(nhefs, rng(0))
    whole = complete(without_dependents(masked, edits), edits, nhefs.schema)
    for edit in edits.dependents:
        assert edit.holds(whole.frame).all()
    result = repaired(whole, *edits.edits)
    assert result.cells_changed < 0.07 * whole.frame.size
