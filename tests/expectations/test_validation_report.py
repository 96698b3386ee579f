"""Validation: the counts are the edits' own, and no value gets out."""

import gc
import json
import logging
import weakref
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.edits.serialization import from_dict
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from expectations import Suite, validate
from expectations import report as report_module

SCHEMA = Schema(
    [
        Variable("a", "continuous", precision=0.5),
        Variable("b", "continuous", precision=1),
        Variable("s", "nominal", levels=("x", "y")),
        Variable("o", "ordinal", levels=(0, 1, 2)),
    ]
)
EDITS = EditSet(
    [
        LinearEdit(name="sum", terms={"a": 1, "b": -1}),
        LinearEdit(name="near", terms={"a": 1, "o": -2}, tolerance=1.0),
        LinearEdit(
            name="some",
            terms={"a": 1},
            relation=">=",
            constant=1,
            when=(Condition(variable="s", missing=True),),
        ),
        BoundEdit(name="bound", variable="a", lower=0, upper=2),
        SetEdit(name="set", variable="s", values=("x",)),
        SetEdit(name="same set", variable="s", values=("x",)),
        ConditionalEdit(
            name="if",
            when=(Condition(variable="s", values=("x",)),),
            then=Condition(variable="o", values=(1, 2)),
        ),
        ConditionalEdit(
            name="gap", when=(Condition(variable="o", upper=0),), then=Condition(variable="a", missing=True)
        ),
        RatioEdit(name="ratio", numerator="a", denominator="b", upper=1),
        LookupEdit(name="lookup", dependent="o", of=("s", "b")),
    ]
)
SUITE = Suite.of(SCHEMA, EDITS)
CANARY, CANARY_NUMBER = "QZX-CANARY-7731", 918273.625


def assert_counts_agree(report, frame, edits):
    rules = {rule.name: rule for rule in report.rules}
    for outcome in edits.outcomes(frame):
        rule = rules[outcome.name]
        assert rule.error is None
        assert (rule.checked, rule.violated) == (outcome.applied, outcome.violated)
        assert rule.missing == len(frame) - outcome.applied
        assert rule.success == (outcome.violated == 0)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sampled_from([np.nan, -1.0, 0, 0.5, 1, 2]),
            st.sampled_from([np.nan, -1.0, 0, 1, 2]),
            st.sampled_from([None, "x", "y"]),
            st.sampled_from([None, 0, 1, 2]),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_counts_are_those_of_the_edits(rows, plain):
    data = Microdata(pd.DataFrame(rows, columns=list("abso")), SCHEMA)
    frame = data.plain() if plain else data.frame
    report = validate(frame, SUITE)
    assert_counts_agree(report, frame, EDITS)
    assert report.success == EDITS.satisfied(frame).all()


def test_a_lookup_is_checked_against_what_was_learned_which_the_suite_does_not_hold():
    source = Microdata(pd.DataFrame({"a": 0.0, "b": 0.0, "s": ["x", "y"] * 5, "o": [1, 2] * 5}), SCHEMA)
    learned = EditSet([LookupEdit(name="lookup", dependent="o", of=("s",))]).learned(source)
    suite = Suite.of(SCHEMA, learned)
    other = source.frame.assign(o=source.frame["o"].cat.rename_categories({1: 2, 2: 1}))
    assert suite.rules[-1].description == "o follows from s"
    assert suite.rules[-1].arguments == {"edit": {"edit": "lookup", "name": "lookup", "dependent": "o", "of": ["s"]}}
    assert [validate(f, suite, learned).rules[-1].violated for f in (source.frame, other)] == [0, 10]
    # A reader has no table: the records of a release agree among themselves.
    assert validate(other, suite).rules[-1].violated == 0


def test_what_the_schema_implies():
    frame = pd.DataFrame({"a": ["1", "oops", None], "b": [1, np.inf, 2.0], "s": ["x", "q", None], "o": [0, 5, 7]})
    rules = {rule.name: rule for rule in validate(frame, Suite.of(SCHEMA, EditSet())).rules}
    assert rules["schema: columns"].success
    counts = {name: (r.checked, r.violated, r.missing) for name, r in rules.items()}
    assert counts["schema: a"] == (2, 1, 1)
    assert counts["schema: b"] == (3, 1, 0)
    assert counts["schema: s"] == (2, 1, 1)
    assert counts["schema: o"] == (3, 2, 0)


def test_columns_in_their_order():
    frame = Microdata(pd.DataFrame({n: [1] for n in "ab"} | {"s": ["x"], "o": [1]}), SCHEMA).frame
    swapped = validate(frame[["b", "a", "s", "o"]], Suite.of(SCHEMA, EditSet()))
    assert [(r.name, r.checked, r.violated) for r in swapped.rules if not r.success] == [("schema: columns", 1, 1)]
    lacking = {r.name: r for r in validate(frame[["a", "s", "o"]], SUITE).rules}
    assert not lacking["schema: columns"].success
    for name in ("schema: b", "sum", "ratio"):
        assert not lacking[name].success
        assert lacking[name].error == "KeyError"
    assert lacking["bound"].success


def test_a_report_names_its_suite_and_all_of_its_rules():
    frame = Microdata(pd.DataFrame({"a": [1.0], "b": [1.0], "s": ["x"], "o": [1]}), SCHEMA).frame
    report = validate(frame, SUITE)
    assert report.success
    assert report.violated == ()
    assert report.suite_digest == SUITE.digest
    assert [r.name for r in report.rules] == [r.name for r in SUITE.rules]
    assert json.loads(SUITE.json)["name"] == "anonflow"


def canary_frame():
    return pd.DataFrame(
        {
            "a": [CANARY_NUMBER, 1.0, 2.0],
            "b": [1.0, CANARY_NUMBER, 1.0],
            "s": [CANARY, "x", "y"],
            "o": [CANARY, "1", "2"],
        }
    )


def everything(report, caplog, capfd):
    out, err = capfd.readouterr()
    return "\n".join([str(report), json.dumps(asdict(report)), SUITE.json, caplog.text, out, err])


def test_no_value_gets_out(caplog, capfd):
    caplog.set_level(logging.DEBUG)
    report = validate(canary_frame(), SUITE)
    rules = {rule.name: rule for rule in report.rules}
    assert rules["bound"].violated == 1
    assert rules["schema: s"].violated == 1
    # The text among the numbers makes these rules fail to run, which is not the same as violated.
    assert rules["near"].error == rules["gap"].error == "AnonymizationError"
    assert not report.success
    text = everything(report, caplog, capfd)
    assert CANARY not in text
    assert "918273" not in text


def test_no_value_gets_out_of_an_error(monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)

    def fail(self, frame):
        raise ZeroDivisionError(f"cannot use {frame['a'].iloc[0]}\nKeyError: {CANARY}")

    def fail_in_the_core(self, *args, **kwargs):
        raise LookupError(f"bad {CANARY}")

    monkeypatch.setattr(BoundEdit, "holds", fail)
    monkeypatch.setattr(pd.Series, "isin", fail_in_the_core)
    report = validate(canary_frame(), SUITE)
    rules = {rule.name: rule for rule in report.rules}
    assert rules["bound"].error == "ZeroDivisionError"
    assert rules["schema: s"].error == "LookupError"
    assert (rules["bound"].success, rules["bound"].checked, rules["bound"].violated) == (False, 0, 0)
    text = everything(report, caplog, capfd)
    assert CANARY not in text
    assert "918273" not in text


@pytest.mark.parametrize(
    ("traceback", "name"),
    [
        ("Traceback\n  File x\nValueError: no", "ValueError"),
        ("Traceback\n  File x\npandas.errors.InvalidIndexError", "InvalidIndexError"),
        ("Traceback\nQzxCanaryError: CANARY", "Exception"),
        ("RuntimeError: QzxCanary inside the rule", "Exception"),
        ("nothing known", "Exception"),
    ],
)
def test_only_known_classes_are_named(traceback, name):
    info = {"raised_exception": True, "exception_traceback": traceback, "exception_message": CANARY}
    assert report_module._error_class(info) == name
    assert report_module._error_class({"some metric": info}) == name
    assert report_module._error_class({"raised_exception": False}) is None


def test_lost_outcomes_are_an_error(monkeypatch):
    run = report_module._run
    monkeypatch.setattr(report_module, "_run", lambda *a: run(*a)[1:])
    suite = Suite.of(Schema([Variable(n, "continuous") for n in "abc"]), EditSet())
    with pytest.raises(AnonymizationError, match="3 outcomes for 4 rules"):
        validate(pd.DataFrame({"a": [1.0]}), suite)


def test_the_table_is_let_go():
    frame = canary_frame()
    validate(frame, SUITE)
    alive = weakref.ref(frame)
    del frame
    gc.collect()
    assert alive() is None


def test_input_and_logging_are_left_as_they_were():
    logger = logging.getLogger("great_expectations")
    logger.setLevel(logging.WARNING)
    frame = Microdata(pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2], "s": ["x", None], "o": [1, 2]}), SCHEMA).frame
    before = frame.copy(deep=True)
    validate(frame, SUITE)
    pd.testing.assert_frame_equal(frame, before)
    assert logger.level == logging.WARNING


def test_nhefs(nhefs, nhefs_plan):
    edits = EditSet([from_dict(rule) for rule in nhefs_plan["edits"]["rules"]])
    suite = Suite.of(nhefs.schema, edits)
    report = validate(nhefs.frame, suite)
    assert_counts_agree(report, nhefs.frame, edits)
    assert all(rule.success for rule in report.rules if rule.name.startswith("schema: "))
    assert report.rules == validate(nhefs.plain(), suite).rules
