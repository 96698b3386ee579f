"""Functional dependencies: learned from a source, looked up again, and never shown."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.edits.conditions import Condition
from anoncore.edits.dependents import complete, without_dependents
from anoncore.edits.functions import function_of
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.edits.repair import repair
from anoncore.edits.serialization import from_dict, to_dict
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.methods import AdditiveNoise, SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import anonymize

STATES = {"ak": "west", "ca": "west", "ny": "east", "me": "east"}
DIVISION = LookupEdit(name="division", dependent="division", of=("state",))
GROUP = LookupEdit(name="group", dependent="group", of=("age",))


def rng(seed=1):
    return np.random.default_rng(seed)


def frame_of(states, **columns):
    return pd.DataFrame({"state": states, "division": [STATES.get(s) for s in states], **columns})


def people(n=200, seed=0):
    """A table with two dependencies, the second of a computed sum, and a skip pattern."""
    draw = rng(seed)
    first, second = draw.integers(0, 20, n), draw.integers(0, 60, n)
    smokes = draw.choice(["no", "yes"], n)
    started = np.where(smokes == "yes", draw.integers(10, 30, n), np.nan)
    frame = frame_of(draw.choice(list(STATES), n), first=first, second=second, age=first + second)
    frame = frame.assign(group=np.where(frame["age"] < 40, "young", "old"), smokes=smokes, started=started)
    kinds = dict.fromkeys(("first", "second", "age", "started"), "continuous")
    kinds |= {"state": "nominal", "division": "nominal", "group": "ordinal", "smokes": "binary"}
    levels = {"group": ("young", "old")}
    return Microdata(frame, Schema(Variable(n, kinds[n], levels=levels.get(n)) for n in frame))


SUM = LinearEdit(name="sum", terms={"first": 1, "second": 1, "age": -1}, dependent="age")
SKIP = ConditionalEdit(
    name="skip",
    when=(Condition(variable="smokes", values=("no",)),),
    then=Condition(variable="started", missing=True),
)
ASKED = ConditionalEdit(
    name="asked",
    when=(Condition(variable="smokes", values=("yes",)),),
    then=Condition(variable="started", missing=False),
)
LIMITS = tuple(
    BoundEdit(name=f"limits {n}", variable=n, lower=low, upper=high)
    for n, low, high in (("first", 0, 19), ("second", 0, 59), ("started", 10, 29))
)


def test_the_majority_of_a_combination_decides():
    frame = frame_of(["ca"] * 5 + ["ny"] * 4 + ["me"])
    frame.loc[[0, 5], "division"] = ["east", None]
    assert np.flatnonzero(~DIVISION.holds(frame)).tolist() == [0]
    assert DIVISION.applies(frame).sum() == 9


def test_a_table_is_learned_once_and_judges_other_records():
    learned = DIVISION.learned(frame_of(list(STATES) * 5))
    other = frame_of(["ca", "ca", None, "tx"]).assign(division=["east", "west", "west", None])
    assert learned.holds(other).tolist() == [False, True, False, True]
    assert learned.look_up(other).tolist() == ["west", "west", None, None]
    assert learned.unknown(other) == 1
    # Without the source, records are held against each other.
    assert DIVISION.holds(other).sum() == 3


def test_a_number_takes_the_value_of_the_nearest_within_the_same_levels():
    frame = pd.DataFrame({"sex": ["f", "m"] * 30, "age": np.repeat(np.arange(30.0), 2)})
    frame["group"] = np.where(frame["age"] < np.where(frame["sex"] == "f", 10, 20), "young", "old")
    learned = LookupEdit(name="g", dependent="group", of=("sex", "age")).learned(frame)
    assert learned.holds(frame).all()
    asked = pd.DataFrame({"sex": ["f", "m", "f", "f"], "age": [9.6, 9.6, 300.0, np.nan]})
    assert learned.look_up(asked).tolist() == ["old", "young", "old", None]


def test_a_number_on_a_curve_is_interpolated():
    frame = pd.DataFrame({"income": np.repeat(np.arange(10.0, 200.0, 10.0), 3)})
    frame = pd.concat([frame, pd.DataFrame({"income": [95.0, np.nan]})])
    frame["log"] = np.log(frame["income"])
    edit = LookupEdit(name="log", dependent="log", of=("income",))
    learned = edit.learned(frame)
    assert edit.holds(frame).all()
    assert learned.holds(frame).all()
    asked = pd.DataFrame({"income": [50.0, 57.0, 300.0, 1.0, 95.0, np.nan]})
    found = learned.look_up(asked)
    between = np.log(50) + 0.7 * (np.log(60) - np.log(50))
    np.testing.assert_allclose(found, [np.log(50), between, np.log(190), np.log(10), np.nan, np.nan])
    assert learned.holds(asked.assign(log=found)).all()
    assert not learned.holds(asked.assign(log=found + 0.01))[:4].any()
    # What one unit holds is neither looked up nor interpolated from.
    assert learned.look_up(pd.DataFrame({"income": [92.0]}))[0] == pytest.approx(
        np.interp(92, [90, 100], np.log([90, 100]))
    )


@pytest.mark.parametrize("follows", [lambda x: x // 30, lambda x: np.cos(x)])
def test_steps_and_waves_are_no_curve(follows):
    frame = pd.DataFrame({"x": np.repeat(np.arange(10.0, 200.0, 10.0), 3)})
    frame["y"] = follows(frame["x"])
    learned = LookupEdit(name="y", dependent="y", of=("x",)).learned(frame)
    assert learned.look_up(pd.DataFrame({"x": [54.0]})).tolist() == [follows(50.0)]


@pytest.mark.parametrize(
    ("function", "digits"), [(np.log, 15), (np.log1p, 3), (np.log10, 15), (np.square, 6), (lambda x: 2.54 * x - 7, 15)]
)
def test_a_function_of_numbers_that_hardly_repeat_is_computed(function, digits):
    x = np.random.default_rng(4).lognormal(3, 1, 400).round(4)
    frame = pd.DataFrame({"x": [*x, np.nan], "y": [*function(x).round(digits), np.nan]})
    edit = LookupEdit(name="y", dependent="y", of=("x",))
    edit.refuse_identifying(frame)
    learned = edit.learned(frame)
    assert edit.holds(frame).all()
    asked = pd.DataFrame({"x": [0.5, 27.00005, 5000.0, np.nan]})
    followed = learned.look_up(asked)
    np.testing.assert_allclose(followed, [*function(asked["x"][:3]).round(digits), np.nan], rtol=1e-9)
    assert learned.holds(asked.assign(y=followed)).all()
    np.testing.assert_allclose(learned.look_up(frame[["x"]]), frame["y"], rtol=1e-12)


def test_a_logarithm_that_is_zero_at_zero_is_computed():
    """Costs are 0 in some claims, and so is their logarithm."""
    x = np.random.default_rng(4).lognormal(3, 2, 400).round(2)
    x[:40] = 0
    frame = pd.DataFrame({"x": x, "y": np.where(x == 0, 0, np.log(np.where(x == 0, 1, x)))})
    edit = LookupEdit(name="y", dependent="y", of=("x",))
    edit.refuse_identifying(frame)
    followed = edit.learned(frame).look_up(pd.DataFrame({"x": [0.0, 0.5, 27.005]}))
    np.testing.assert_allclose(followed, [0, np.log(0.5), np.log(27.005)])
    assert function_of(np.r_[-1.0, x], np.r_[0.0, frame["y"]]) is None


def test_the_digits_of_a_function_do_not_show_which_numbers_the_source_holds():
    x = np.arange(50.0, 450.0, 2.0)
    frame = pd.DataFrame({"x": x, "y": np.log(x).astype("float32").astype("float64")})
    edit = LookupEdit(name="y", dependent="y", of=("x",))
    learned = edit.learned(frame)
    assert edit.holds(frame).all()
    assert learned.holds(frame).all()
    held_and_not = learned.look_up(pd.DataFrame({"x": [100.0, 101.0]}))
    np.testing.assert_array_equal(held_and_not, np.log([100.0, 101.0]).astype("float32").astype("float64"))
    assert not learned.holds(frame.assign(y=frame["y"] + 1e-4)).any()


@pytest.mark.parametrize("written", [lambda y: y, lambda y: np.array([float(f"{v:.16g}") for v in y])])
def test_what_follows_by_a_function_equals_the_values_of_the_source_that_many_share(written):
    """With more digits no logarithm of an age was one of the source, and the largest was beyond it."""
    frame = pd.DataFrame({"x": np.repeat(np.arange(18.0, 90.0), 5)})
    frame["y"] = written(np.log(frame["x"]).astype("float32").astype("float64"))
    learned = LookupEdit(name="y", dependent="y", of=("x",)).learned(frame)
    np.testing.assert_array_equal(learned.look_up(frame[["x"]]), frame["y"])
    assert learned.holds(frame).all()


def test_what_follows_in_single_precision_does_not_show_which_numbers_the_source_holds():
    x = np.r_[np.repeat(np.arange(50.0, 250.0, 2.0), 5), 251.0]
    frame = pd.DataFrame({"x": x, "y": np.log(x).astype("float32").astype("float64")})
    asked = np.array([50.0, 51.0, 240.0, 251.0, 253.0])
    learned = LookupEdit(name="y", dependent="y", of=("x",)).learned(frame)
    expected = np.log(asked).astype("float32").astype("float64")
    np.testing.assert_array_equal(learned.look_up(pd.DataFrame({"x": asked})), expected)


def test_one_record_off_the_function_makes_it_none():
    x = np.random.default_rng(4).lognormal(3, 1, 400).round(4)
    frame = pd.DataFrame({"x": x, "y": np.log(x)})
    frame.loc[7, "y"] += 0.001
    assert function_of(frame["x"].to_numpy(), frame["y"].to_numpy()) is None
    learned = LookupEdit(name="y", dependent="y", of=("x",)).learned(frame)
    assert np.isnan(learned.look_up(frame[["x"]])).mean() > 0.9


def test_numbers_far_from_zero_that_differ_little_follow_from_nothing():
    """Seconds of a clock on one day agree to one part in ten thousand."""
    draw = np.random.default_rng(4)
    assert function_of(np.arange(500.0), 1.7e9 + 1000 * draw.random(500)) is None
    assert function_of(draw.normal(size=500), 1e12 + draw.normal(size=500)) is None


def test_an_interpolated_whole_number_stays_whole():
    frame = pd.DataFrame({"x": np.repeat(np.arange(0.0, 40.0, 2.0), 3)})
    frame["square"] = frame["x"] ** 2
    learned = LookupEdit(name="square", dependent="square", of=("x",)).learned(frame)
    assert learned.look_up(pd.DataFrame({"x": [3.0, 3.3]})).tolist() == [10.0, 12.0]


def test_a_missing_determinant_gives_a_value_only_where_the_source_determines_one():
    frame = frame_of(["ca"] * 6 + [None] * 6)
    assert DIVISION.learned(frame).look_up(frame)[-1] is None
    frame.loc[6:, "division"] = "abroad"
    assert DIVISION.learned(frame).look_up(frame)[-1] == "abroad"
    frame.loc[6:8, "division"] = "west"
    assert DIVISION.holds(frame).all()
    assert not DIVISION.applies(frame)[6:].any()
    assert DIVISION.learned(frame).look_up(frame)[-1] is None


def test_missing_values_and_values_of_few_units_are_not_looked_up():
    frame = frame_of(["ca"] * 5 + ["ny"] * 5 + ["me"] * 2).assign(division=["west"] * 5 + ["east"] * 5 + ["north"] * 2)
    frame.loc[:2, "division"] = None
    assert pd.unique(DIVISION.learned(frame).look_up(frame)).tolist() == [None, "east"]
    # Five records of two units.
    units = np.array([0, 0, 0, 1, 1, *range(2, 9)])
    assert pd.isna(DIVISION.learned(frame_of(["ca"] * 5 + ["ny"] * 7), units).look_up(frame)[:5]).all()


def test_the_value_of_a_combination_of_few_units_is_not_looked_up():
    # 400 of 1000 people have an occupation of their own; the values themselves are held by many.
    job = np.r_[np.arange(20).repeat(30), np.arange(1000, 1400)]
    frame = pd.DataFrame({"job": job.astype(str), "diagnosis": rng().integers(0, 10, len(job)).astype(str)})
    frame.loc[:599, "diagnosis"] = (job[:600] % 10).astype(str)
    learned = LookupEdit(name="e", dependent="diagnosis", of=("job",)).learned(frame)
    LookupEdit(name="e", dependent="diagnosis", of=("job",)).refuse_identifying(frame)
    assert pd.notna(learned.look_up(frame)).tolist() == [True] * 600 + [False] * 400
    # Two of three people of a combination agree: no value there is held by three.
    three = frame_of(["ca"] * 5 + ["ny"] * 3).assign(division=["west"] * 5 + ["west", "west", "east"])
    assert DIVISION.learned(three).look_up(three).tolist() == ["west"] * 5 + [None] * 3
    # Single numbers inside bands of one value, of one number and of two; a number between other values stands alone.
    age = np.arange(60.0)
    ages = pd.DataFrame({"age": age, "height": age[::-1], "group": np.where(age < 30, "young", "old")})
    ages.loc[45, "group"] = "young"
    for of in (("age",), ("age", "height")):
        looked_up = LookupEdit(name="e", dependent="group", of=of).learned(ages).look_up(ages)
        assert np.flatnonzero(pd.isna(looked_up)).tolist() == [45]


def test_determinants_that_identify_records_are_refused():
    frame = pd.DataFrame({"age": rng().permutation(100).astype(float), "group": rng().choice(["a", "b"], 100)})
    with pytest.raises(AnonymizationError, match="nearly identifies records"):
        GROUP.refuse_identifying(frame)
    # Bands of neighbouring numbers are no single record's, of one number or two.
    two = frame.assign(height=rng(2).random(100))
    two["group"] = np.where((two["age"] < 50) == (two["height"] < 0.5), "a", "b")
    LookupEdit(name="g", dependent="group", of=("age", "height")).refuse_identifying(two)
    GROUP.refuse_identifying(frame.assign(group=np.where(frame["age"] < 50, "a", "b")))
    # A value that most records share, and one end of the range does not.
    GROUP.refuse_identifying(frame.assign(group=np.where(frame["age"].rank() < 5, "a", "b")))


def test_a_table_is_neither_shown_nor_stored():
    learned = DIVISION.learned(frame_of(list(STATES) * 5))
    assert "west" not in repr(learned) + str(learned.table) + repr(EditSet([learned]))
    assert to_dict(learned) == to_dict(DIVISION) == {**to_dict(learned), "of": ["state"]}
    assert from_dict(to_dict(learned)) == DIVISION
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="confidential"):
            store(learned)


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([DIVISION, LookupEdit(name="b", dependent="division", of=("age",))], "more than one edit: division"),
        ([GROUP, LookupEdit(name="b", dependent="age", of=("group",))], "in a circle: group, b"),
        ([SUM, LookupEdit(name="b", dependent="first", of=("age",))], "in a circle"),
    ],
)
def test_circles_and_doubled_dependents_are_refused(edits, message):
    with pytest.raises(AnonymizationError, match=message):
        EditSet(edits)


@pytest.mark.parametrize("of", [(), ("division",), ("a", "a")])
def test_contradictory_determinants_are_refused(of):
    with pytest.raises(AnonymizationError, match="of"):
        LookupEdit(name="e", dependent="division", of=of)


def test_problems_with_a_schema_name_the_variables():
    schema = Schema([Variable("state", "nominal", role="identifier"), Variable("division", "nominal")])
    assert EditSet([DIVISION, GROUP]).problems(schema) == [
        "edit 'division' uses state, which is not released",
        "edit 'group' names unknown variable(s) age, group",
    ]


def test_chains_leave_masking_and_come_back():
    data = people()
    chain = LookupEdit(name="pays", dependent="smokes", of=("division",))
    whole = data.frame.assign(smokes=np.where(data.frame["division"] == "west", "yes", "no"))
    data = Microdata(whole, data.schema)
    edits = EditSet([chain, GROUP, DIVISION, SUM])
    parts = without_dependents(data, edits)
    assert parts.schema.names == ("state", "first", "second", "started")
    with pytest.raises(AnonymizationError, match="has not been learned"):
        complete(parts, edits, data.schema)
    pd.testing.assert_frame_equal(complete(parts, edits.learned(data), data.schema).frame, data.frame)


def test_repair_looks_up_again_and_changes_determinants_only_where_it_must():
    data = people()
    edits = EditSet([DIVISION, GROUP, SUM]).learned(data)
    wrong = data.frame.copy()
    wrong.loc[:9, "division"] = ["east" if d == "west" else "west" for d in wrong.loc[:9, "division"]]
    wrong.loc[20, ["first", "age"]] = np.nan
    done = repair(Microdata(wrong, data.schema), edits, rng=rng())
    pd.testing.assert_series_equal(done.data.frame["division"], data.frame["division"])
    assert pd.isna(done.data.frame.loc[20, "group"])
    assert done.share == done.cells_changed / data.frame.size == 11 / data.frame.size


def test_a_determinant_is_changed_where_another_edit_forbids_what_follows_from_it():
    data = people()
    data = Microdata(data.frame.assign(started=20.0), data.schema)
    asked = Condition(variable="started", missing=False)
    forbidden = ConditionalEdit(name="no west", when=(asked,), then=Condition(variable="division", values=("east",)))
    keep = ConditionalEdit(name="keep", when=(Condition(variable="age", lower=0),), then=asked)
    rules = EditSet([DIVISION, forbidden, keep]).learned(data)
    moved = repair(data, rules, rng=rng()).data.frame
    assert rules.satisfied(moved).all()
    assert set(moved["state"]) == {"ny", "me"}
    pd.testing.assert_frame_equal(
        moved.drop(columns=["state", "division"]), data.frame.drop(columns=["state", "division"])
    )


def test_what_nothing_else_settles_takes_the_tied_variables_of_the_nearest_sound_record(monkeypatch):
    monkeypatch.setattr("anoncore.edits.repair.PASSES", 0)
    data = people()
    edits = EditSet([DIVISION, GROUP, SUM, SKIP]).learned(data)
    wrong = data.frame.copy()
    wrong.loc[[3, 4], "division"] = wrong.loc[[3, 4], "division"].map({"west": "east", "east": "west"})
    wrong.loc[5, "age"] += 1
    done = repair(Microdata(wrong, data.schema), edits, rng=rng())
    changed = (done.data.frame != wrong) & ~(done.data.frame.isna() & wrong.isna())
    assert changed.any(axis=1).to_numpy().nonzero()[0].tolist() == [3, 4, 5]
    assert changed.loc[[3, 4]].any()[lambda one: one].index.isin(["state", "division"]).all()
    assert not changed.loc[5, ["state", "division", "smokes", "started"]].any()
    assert done.changed == {"division": 2, "group": 0, "sum": 1, "skip": 0} | {"group": done.changed["group"]}
    many = data.frame.assign(age=data.frame["age"] + 1)
    with pytest.raises(InfeasibleError, match=r"200 record\(s\) could not"):
        repair(Microdata(many, data.schema), edits, rng=rng())


def test_a_number_that_is_looked_up_does_not_move():
    data = people()
    frame = data.frame.assign(
        second=data.frame["state"].map({"ak": 1.0, "ca": 2.0, "ny": 3.0, "me": 4.0}).astype(float)
    )
    frame["age"] = frame["first"] + frame["second"]
    data = Microdata(frame, data.schema)
    rules = EditSet([LookupEdit(name="code", dependent="second", of=("state",)), SUM]).learned(data)
    disturbed = Microdata(frame.assign(first=frame["first"] + 3), data.schema)
    done = repair(disturbed, rules, rng=rng()).data.frame
    assert rules.satisfied(done).all()
    pd.testing.assert_series_equal(done["second"], frame["second"])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([SpectralSwap(), AdditiveNoise(b=0.5)]))
def test_every_edit_holds_after_masking_and_repair(seed, method):
    data = people(60, seed)
    edits = EditSet([DIVISION, GROUP, SUM, SKIP, ASKED, *LIMITS]).learned(data)
    assert not any(edits.violations(data.frame).values())
    masked = anonymize(without_dependents(data, edits), method, rng=rng(seed), edits=edits).data
    masked = Microdata(masked.frame.reset_index(drop=True), masked.schema)
    done = repair(complete(masked, edits, data.schema), edits, rng=rng(seed))
    assert not any(edits.violations(done.data.frame).values())
