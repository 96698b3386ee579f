"""Forms change single values of a plan's text, and nothing that they do not know is lost."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from anoncore.methods.local_suppression import LocalSuppression
from flows.studio import forms, workbook
from flows.studio.workbook import Stale, changed, last_change, opened, undone
from tasks.common.errors import Refused
from tasks.common.home import Home

TEXT = """\
# My plan: nothing of this may be lost.
anonflow: 1
name: p
source: {path: people.csv}
variables:
  - {name: id, kind: nominal, role: identifier}
  - {name: a, kind: continuous, precision: 1}  # confirm: whole numbers that hardly repeat
  - name: b
    kind: nominal
    levels: [x, y]
edits:
  rules:
    # Limits.
    - {edit: bound, name: a is positive, variable: a, lower: 0}  # by law
    # - {edit: bound, name: 'a is small', variable: a, upper: 9}  # proposed
steps:
  - {method: rare-levels, k: 5}  # five
  - {method: spectral-swap}
assessment: {margin: 0.07}  # no form knows this
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "people.csv").write_text("id,a,b\n1,2,x\n2,4,y\n")
    (tmp_path / "p.yaml").write_text(TEXT)
    return Home.locate(tmp_path / "home")


def document(home: Home) -> workbook.Document:
    return opened(home.path.parent, "p.yaml")


def moved(text: str) -> list[str]:
    """Return the lines that differ from the plan as it was."""
    both = difflib.ndiff(TEXT.splitlines(), text.splitlines())
    return [line for line in both if line[:1] in "+-"]


@pytest.mark.parametrize(
    ("change", "form", "lines"),
    [
        (forms.with_variables, {"v1.role": "sensitive"}, 2),
        (forms.with_variables, {"v1.kind": "ordinal", "v1.description": "<b>=1+1"}, 2),
        (forms.with_variables, {"v2.kind": "continuous"}, 3),
        (forms.with_variables, {"unit": "", "unit.id": "1"}, 1),
        (forms.confirmed, {"confirm.7": "1"}, 2),
        (forms.with_rules, {"rule.14": "1", "rule.15": "1"}, 2),
        (forms.with_rules, {}, 4),
        (forms.with_rules, {"rule.14": "1", "on_violation": "repair"}, 1),
        (forms.with_steps, {"s0.k": "7", "policy.approval": "person"}, 3),
        (forms.with_steps, {"action": "earlier:1"}, 2),
        (forms.with_steps, {"action": "remove:0"}, 1),
        (forms.with_steps, {"action": "add", "method": "extreme-records"}, 1),
    ],
)
def test_each_form_changes_its_lines_alone_and_can_be_undone(home, change, form, lines):
    one = document(home)
    text = change(one, form)
    assert len(moved(text)) == lines
    assert text.startswith(TEXT.split("\n")[0])
    assert "# no form knows this" in text
    after = changed(home, one, one.version, text)
    assert after.plan is not None
    assert document(home).text == text
    assert last_change(home, after)
    assert undone(home, after, after.version).text == TEXT


def test_a_new_step_is_the_last_and_its_lists_are_written_with_commas_alone(home):
    one = document(home)
    added = changed(home, one, one.version, forms.with_steps(one, {"action": "add", "method": "local-suppression"}))
    text = forms.with_steps(added, {"s2.keys": "b, a"})
    after = changed(home, added, added.version, text)
    assert after.plan is not None
    assert after.plan.steps[2] == LocalSuppression(keys=("b", "a"))
    assert [f.value for row in forms.step_rows(after) for f in row.parameters if f.name == "s2.keys"] == ["b, a"]
    assert forms.with_steps(after, {"s2.keys": ""}).count("keys: []") == 1


def test_rules_become_comments_and_rules_again(home):
    one = document(home)
    without = changed(home, one, one.version, forms.with_rules(one, {}))
    assert without.plan is not None
    assert without.plan.edits.rules == ()
    again = forms.with_rules(without, {"rule.14": "1"})
    assert again == TEXT


def test_a_stale_form_and_what_is_no_plan_are_refused(home):
    one = document(home)
    changed(home, one, one.version, forms.with_variables(one, {"v1.role": "sensitive"}))
    with pytest.raises(Stale):
        changed(home, one, one.version, TEXT + "# mine\n")
    now = document(home)
    for change, form in (
        (forms.with_variables, {"v1.role": "king"}),
        (forms.with_steps, {"s0.k": "-1"}),
        (forms.with_steps, {"s0.k": "{"}),
        (forms.with_steps, {"policy.approval": "everyone"}),
    ):
        with pytest.raises(Refused):
            changed(home, now, now.version, change(now, form))
    with pytest.raises(Refused, match="no plan"):
        opened(home.path.parent, "../p.yaml")
    assert document(home).text == now.text
