"""Suites: built from what is declared, complete, the same every time."""

import hashlib
import json
import subprocess
import sys

import pytest

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.model import EditSet
from anoncore.edits.product import ProductEdit
from anoncore.errors import AnonymizationError
from anoncore.microdata import Schema, Variable
from expectations import Suite
from expectations.suite import describe

SCHEMA = Schema(
    [
        Variable("id", "nominal", role="identifier", levels=("CANARY-ID",)),
        Variable("wages", "continuous", precision=1),
        Variable("income", "continuous", precision=1),
        Variable("sex", "binary", levels=("f", "m")),
        Variable("size", "ordinal", levels=(1, 2, 3)),
        Variable("home", "nominal", role="household", levels=("CANARY-HOME",)),
    ]
)
FEW = (Condition(variable="size", lower=2),)
EDITS = EditSet(
    [
        LinearEdit(
            name="cap",
            terms={"wages": 1, "income": -2.5},
            relation="<=",
            constant=4711,
            tolerance=0.5,
            when=FEW,
        ),
        BoundEdit(name="bound", variable="wages", lower=0),
        # Alike but for the name: Great Expectations' own sets would keep one.
        BoundEdit(name="bound again", variable="wages", lower=0),
        SetEdit(name="set", variable="sex", values=("f", "m")),
        ConditionalEdit(name="if", when=FEW, then=Condition(variable="sex", values=("f",), missing=True)),
        RatioEdit(name="ratio", numerator="wages", denominator="income", upper=1.5),
        ProductEdit(name="product", dependent="income", of={"wages": -2}, factor=4711),
    ]
)


def test_importing_the_package_is_cheap():
    code = "import sys, expectations; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rules_in_order():
    assert [(r.name, r.kind) for r in Suite.of(SCHEMA, EDITS).rules] == [
        ("schema: columns", "columns"),
        ("schema: wages", "numbers"),
        ("schema: income", "numbers"),
        ("schema: sex", "levels"),
        ("schema: size", "levels"),
        ("cap", "linear"),
        ("bound", "bound"),
        ("bound again", "bound"),
        ("set", "set"),
        ("if", "conditional"),
        ("ratio", "ratio"),
        ("product", "product"),
    ]


def test_a_name_is_given_once():
    with pytest.raises(AnonymizationError, match="share a name: schema: wages; rename"):
        Suite.of(SCHEMA, EditSet([BoundEdit(name="schema: wages", variable="wages", lower=0)]))


def test_descriptions_hold_no_value():
    descriptions = {r.name: r.description for r in Suite.of(SCHEMA, EDITS).rules}
    assert descriptions["cap"] == (
        "wages − 2.5·income is at most its stated constant within its tolerance, where size is as stated"
    )
    assert descriptions["if"] == "where size is as stated, sex is one of 1 stated value(s) or empty"
    assert descriptions["product"] == "income is wages^-2, times its stated factor, within its tolerance"
    assert "4711" not in "".join(descriptions.values())
    reverse = LinearEdit(name="e", terms={"a": -1, "b": 1})
    assert describe(reverse) == "−a + b equals 0"
    empty = ConditionalEdit(name="e", when=FEW, then=Condition(variable="a", missing=False))
    assert describe(empty).endswith("a is not empty")


def test_a_column_that_is_added_at_publication_is_expected_at_the_end():
    columns = Suite.of(SCHEMA, EDITS).with_column("who").rules[0]
    assert columns.arguments == {"column_list": [*SCHEMA.names, "who"]}
    assert columns.description.startswith(f"the table has exactly the {len(SCHEMA) + 1} declared columns")


def test_suite_is_complete_and_the_same_every_time():
    suite = Suite.of(SCHEMA, EDITS)
    assert [e.meta["rule"] for e in suite.expectations().expectations] == [r.name for r in suite.rules]
    text = suite.json
    assert text == Suite.of(SCHEMA, EDITS).json
    assert suite.digest == hashlib.sha256(text.encode()).hexdigest()
    assert suite.digest != Suite.of(SCHEMA, EditSet()).digest
    kinds = {e["type"] for e in json.loads(text)["expectations"]}
    assert {
        "expect_linear_edit",
        "expect_bound_edit",
        "expect_conditional_edit",
        "expect_ratio_edit",
        "expect_product_edit",
        "expect_column_values_to_be_finite_numbers",
        "expect_column_values_to_be_in_set",
        "expect_table_columns_to_match_ordered_list",
    } == kinds


def test_no_level_of_an_identifier_is_in_the_suite():
    assert "CANARY" not in Suite.of(SCHEMA, EDITS).json


def test_the_suite_can_be_read_back():
    from great_expectations import ExpectationSuite

    text = Suite.of(SCHEMA, EDITS).json
    loaded = ExpectationSuite(**json.loads(text))
    assert json.dumps(loaded.to_json_dict(), sort_keys=True, ensure_ascii=False) == text


def test_a_rule_lost_on_the_way_is_an_error(monkeypatch):
    import great_expectations

    class Forgetful(great_expectations.ExpectationSuite):
        def __init__(self, **kwargs):
            kwargs["expectations"] = kwargs["expectations"][:-1]
            super().__init__(**kwargs)

    monkeypatch.setattr(great_expectations, "ExpectationSuite", Forgetful)
    with pytest.raises(AnonymizationError, match="kept 11 of 12 rules"):
        Suite.of(SCHEMA, EDITS).expectations()


def test_an_edit_of_another_kind_is_refused():
    from expectations.edits import ExpectBoundEdit, ExpectLinearEdit

    with pytest.raises(ValueError, match="kind linear"):
        ExpectLinearEdit(edit={"edit": "bound", "name": "e", "variable": "a", "upper": 1})
    with pytest.raises(ValueError, match="give lower, upper or both"):
        ExpectBoundEdit(edit={"edit": "bound", "name": "e", "variable": "a"})
