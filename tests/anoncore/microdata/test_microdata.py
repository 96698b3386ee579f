"""The one place that checks input."""

import warnings

import numpy as np
import pandas as pd
import pytest

from anoncore import AnonymizationError, Microdata, Schema, Variable
from anoncore.microdata import observed_precision, round_to

CANARY = 987654.125


def _refusal(frame: pd.DataFrame, *variables: Variable) -> str:
    with pytest.raises(AnonymizationError) as caught:
        Microdata(frame, Schema(variables))
    return str(caught.value)


def test_schema_is_completed_from_the_data():
    frame = pd.DataFrame({"x": [1.25, 3.5], "g": ["b", "a"]})
    schema = Microdata(frame, Schema([Variable("x", "continuous"), Variable("g", "nominal")])).schema
    assert schema["x"].precision == 0.01
    assert schema["g"].levels == ("a", "b")


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        (["1", "secret-word"], "continuous", "not a number"),
        ([CANARY, np.inf], "continuous", "infinite"),
        ([1, 2, 987654], "binary", "3 different values"),
        ([1, "secret-word", 3], "nominal", "mixes numbers and text"),
    ],
)
def test_a_refusal_names_the_variable_and_no_value(column, kind, said):
    message = _refusal(pd.DataFrame({"v": column}), Variable("v", kind))
    assert "'v'" in message
    assert said in message
    assert "secret-word" not in message
    assert "987654" not in message


def test_everything_wrong_is_said_at_once():
    frame = pd.DataFrame({"a": ["x"], "b": [np.inf]})
    message = _refusal(frame, Variable("a", "continuous"), Variable("b", "continuous"))
    assert "'a'" in message
    assert "'b'" in message


def test_columns_must_match_the_declarations():
    frame = pd.DataFrame({"a": [1], "b": [2]})
    assert "not in the data: c" in _refusal(frame, Variable("a", "continuous"), Variable("c", "continuous"))
    assert "without a declaration: b" in _refusal(frame, Variable("a", "continuous"))
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert "twice: a" in _refusal(twice, Variable("a", "continuous"))


def test_levels_outside_the_declared_ones_are_counted():
    message = _refusal(pd.DataFrame({"g": ["a", "z", "z"]}), Variable("g", "nominal", levels=("a", "b")))
    assert "2 record(s)" in message


@pytest.mark.parametrize("codes", [(-1,), ("-1",)])
def test_missing_codes_become_gaps_in_numbers_and_text(codes):
    frame = pd.DataFrame({"x": [-1, 5], "t": ["-1", "5"]})
    schema = Schema([Variable("x", "continuous", missing=codes), Variable("t", "nominal", missing=codes)])
    if codes == ("-1",):
        frame = frame.astype("str")
    assert Microdata(frame, schema).frame.isna().to_numpy().tolist() == [[True, True], [False, False]]


def test_declared_number_levels_meet_text_and_float_columns():
    for column in (["0", "1", None], [0.0, 1.0, np.nan], pd.Categorical(["0", "1", None])):
        data = Microdata(pd.DataFrame({"s": column}), Schema([Variable("s", "binary", levels=(0, 1))]))
        assert data.plain()["s"].tolist()[:2] == [0, 1]
        assert data.plain()["s"].isna().tolist() == [False, False, True]


def test_input_is_not_modified_and_round_trips(mixed):
    again = Microdata(mixed.plain(), mixed.schema)
    pd.testing.assert_frame_equal(again.frame, mixed.frame)


def test_take_keeps_levels_precision_and_identity(mixed):
    part = mixed.take(np.array([5, 2]))
    assert part.frame.index.tolist() == [5, 2]
    assert part.schema == mixed.schema


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "number"},
        {"kind": "continuous", "role": "victim"},
        {"kind": "continuous", "levels": (1, 2)},
        {"kind": "binary", "levels": (1, 2, 3)},
        {"kind": "nominal", "levels": (1, "a")},
        {"kind": "nominal", "levels": (1, 1)},
        {"kind": "nominal", "levels": (1, 2), "missing": (2,)},
        {"kind": "continuous", "precision": 0},
        {"kind": "nominal", "precision": 1},
        {"kind": "nominal", "levels": "abc"},
    ],
)
def test_contradictory_declarations_are_refused(wrong):
    with pytest.raises(AnonymizationError, match="'v'"):
        Variable("v", **wrong)


@pytest.mark.parametrize(
    ("values", "unit"),
    [([1, 2], 1.0), ([0.5, 2], 0.1), ([1.25], 0.01), ([1 / 3], None), ([np.nan], None)],
)
def test_observed_precision(values, unit):
    found = observed_precision(np.array(values, dtype=float))
    assert found == unit if unit is None else found == pytest.approx(unit)


def test_round_to_a_unit_that_is_no_power_of_ten():
    np.testing.assert_allclose(round_to(np.array([7.4, 8.1]), 5.0), [5.0, 10.0])


def test_no_rounded_zero_is_negative():
    for unit in (1.0, 5.0):
        assert not np.signbit(round_to(np.array([-0.2, -0.0, 0.2]), unit)).any()


def test_a_wide_table_is_not_fragmented():
    wide = pd.DataFrame({f"x{at}": [1.5, 2.0] for at in range(130)})
    data = Microdata(wide, Schema(Variable(name, "continuous") for name in wide))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.PerformanceWarning)
        data.frame.assign(more=1.0)


def test_an_unmasked_column_does_not_hold_the_table_it_came_from():
    frame = pd.DataFrame(np.arange(20).reshape(5, 4), columns=[*"abcd"])
    schema = Schema([Variable("a", "nominal", role="household"), *(Variable(name, "continuous") for name in "bcd")])
    assert not np.shares_memory(Microdata(frame, schema).frame["a"].to_numpy(), frame["a"].to_numpy())
