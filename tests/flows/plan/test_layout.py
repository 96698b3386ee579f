"""Single values of a plan's text: set, added, removed, and nothing else touched."""

from __future__ import annotations

import pytest

from flows.plan.file import parse
from flows.plan.layout import with_item, with_value, without_value
from tasks.common.errors import Fault

TEXT = """
# Head.
variables:
  - {name: a, kind: continuous, precision: 1}  # as asked
  - name: b  # the second
    kind: nominal
steps: [{method: mdav, k: 5}]
policy:
  approval: person  # always

# End.
"""


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        (("variables", 0, "kind"), "ordinal", "  - {name: a, kind: ordinal, precision: 1}  # as asked"),
        (("variables", 0, "role"), "other", "  - {name: a, kind: continuous, precision: 1, role: other}  # as asked"),
        (("variables", 1, "role"), "other", "    role: other"),
        (("steps", 0, "k"), 7, "steps: [{method: mdav, k: 7}]"),
        (("policy", "approval"), "automatic", "  approval: automatic  # always"),
        (("policy", "approvers"), 2, "  approvers: 2"),
        (("publication", "title"), "=1: <b>", "publication: {title: '=1: <b>'}"),
    ],
)
def test_one_line_changes_and_says_the_value(place, value, line):
    changed = with_value(TEXT, place, value)
    assert line in set(changed.split("\n")) - set(TEXT.split("\n"))
    assert len(set(TEXT.split("\n")) - set(changed.split("\n"))) <= 1
    document = parse(changed, "p")[0]
    for part in place:
        document = document[part]
    assert document == value


@pytest.mark.parametrize(
    "text",
    ["Height, in cm", "Height, levels", "a}", "b]", "c #d", "e: f", "g\nh", "i\n", "\u2028j", "k\x85l", "", "- m"],
)
def test_any_text_is_written_in_one_line_within_braces_and_lists(text):
    for place in (("variables", 0, "description"), ("variables", 1, "description"), ("policy", "description")):
        changed = with_value(TEXT, place, text)
        document = parse(changed, "p")[0]
        for part in place:
            document = document[part]
        assert document == text
        assert parse(without_value(changed, place), "p")[0] == parse(TEXT, "p")[0]
        assert changed.count("\n") - TEXT.count("\n") == (place[:2] != ("variables", 0))
    assert parse(with_item(TEXT, ("steps",), 0, text), "p")[0]["steps"][0] == text


def test_items_and_keys_are_removed_with_their_line_alone():
    assert "{name: a, kind: continuous}  # as asked" in without_value(TEXT, ("variables", 0, "precision"))
    assert without_value(TEXT, ("variables", 0)) == TEXT.replace(TEXT.split("\n")[3] + "\n", "")
    assert "steps: []" in without_value(TEXT, ("steps", 0))


def test_items_are_added_where_they_are_asked_for():
    assert "steps: [{method: x}, {method: mdav, k: 5}]" in with_item(TEXT, ("steps",), 0, {"method": "x"})
    assert "steps: [{method: mdav, k: 5}, {method: x}]" in with_item(TEXT, ("steps",), 1, {"method": "x"})
    assert "# as asked\n  - {name: c}\n  - name: b" in with_item(TEXT, ("variables",), 1, {"name": "c"})


def test_a_place_that_is_not_there_is_a_fault():
    with pytest.raises(Fault):
        with_value(TEXT, ("variables", 9, "role"), "other")
