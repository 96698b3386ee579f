"""A changed plan in its file's text: comments, order and layout stay."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import pytest

from anoncore.methods import ExtremeRecords, RareLevels, SpectralRHS, SpectralSwap
from flows.plan.edit import with_changes
from flows.plan.model import Plan, PlanFile, load_plan

BLOCK = """
# The plan of the year.
anonflow: 1
name: p
source: {path: people.csv}
variables:
  # Years.
  - {name: a, kind: continuous}  # as asked
  - name: b
    kind: continuous
    precision: 1  # in euros

edits:
  rules:
    - {edit: bound, name: a, variable: a, lower: 0}  # no one is younger
    - {edit: bound, name: b, variable: b, lower: 0}

steps:
  # Rare ones go first.
  - {method: rare-levels, k: 5}  # five
  - method: spectral-swap
    numeric: normal

  # Nothing more.
policy:
  approval: person  # always
"""
FLOW = """
anonflow: 1
name: p
source: {path: people.csv}
variables: [{name: a, kind: continuous}, {name: b, kind: continuous, precision: 1}]
steps: [{method: spectral-swap}]
"""


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> PlanFile:
        (tmp_path / "people.csv").write_text("a,b\n1,2\n3,4\n")
        path = tmp_path / "p.yaml"
        path.write_text(text)
        return load_plan(path)

    return write


def changed(plan: Plan, *steps, by_design: tuple[str, ...] = ()) -> Plan:
    """Return the plan without its variable a, b in tens, and with other steps."""
    first, second = plan.variables
    update = {
        "variables": (replace(first, role="excluded"), replace(second, precision=10.0)),
        "edits": plan.edits.model_copy(update={"rules": plan.edits.rules[1:]}),
        "steps": steps,
        "policy": plan.policy.model_copy(update={"by_design": by_design}),
    }
    return plan.model_copy(update=update)


def test_only_what_changes_is_written_anew(written) -> None:
    file = written(BLOCK)
    steps = (ExtremeRecords(), RareLevels(k=10), SpectralRHS(k=7))
    text = with_changes(file, changed(file.plan, *steps, by_design=("uncertainty",)))
    lines = [line for line in difflib.ndiff(BLOCK.splitlines(), text.splitlines()) if line[0] in "+-"]
    assert [line for line in lines if line[0] == "+"] == [
        "+   - {name: a, kind: continuous, role: excluded}  # as asked",
        "+     precision: 10.0  # in euros",
        "+   - {method: extreme-records}  # by anonflow tune",
        "+   - {method: rare-levels, k: 10}  # five",
        "+   - {method: spectral-rhs, k: 7}  # by anonflow tune",
        "+   by_design: [uncertainty]  # by anonflow tune",
    ] or sorted(lines)
    assert "# Rare ones go first." in text
    assert "  # Nothing more.\npolicy:" in text
    assert "no one is younger" not in text


def test_lists_in_one_line_and_absent_sections_are_written_too(written) -> None:
    file = written(FLOW)
    text = with_changes(file, changed(file.plan, SpectralRHS(), by_design=("uncertainty",)))
    assert "steps: [{method: spectral-rhs}]" in text
    assert text.endswith("policy: {by_design: [uncertainty]}  # by anonflow tune\n")


def test_the_last_rule_that_goes_leaves_an_empty_list(written) -> None:
    file = written(BLOCK)
    none = file.plan.model_copy(update={"edits": file.plan.edits.model_copy(update={"rules": ()})})
    assert "  rules: []\n\nsteps:" in with_changes(file, none)
    assert with_changes(file, file.plan) == file.text


def test_steps_are_removed_and_added_in_their_places(written) -> None:
    file = written(BLOCK)
    steps = (SpectralSwap(numeric="normal"), ExtremeRecords(action="winsorise"))
    new = file.plan.model_copy(update={"steps": steps})
    text = with_changes(file, new)
    assert text.count("- ") == BLOCK.count("- ")
    assert "    numeric: normal\n  - {method: extreme-records, action: winsorise}  # by anonflow tune\n" in text
