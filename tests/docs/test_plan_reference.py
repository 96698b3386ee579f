"""The plan reference covers and describes every key; the examples of the guide are valid plans."""

from __future__ import annotations

import re

import griffe
import pytest
import yaml

from flows.plan.model import Plan, load_plan
from tasks.policy.gates import GATES
from tests.docs.conftest import ROOT

GUIDE = (ROOT / "docs/how-to/plan.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
BASE = """
anonflow: 1
name: people
source: {path: people.csv}
variables: [{name: a, kind: continuous}, {name: b, kind: continuous}]
steps: [{method: spectral-swap}]
"""


def rows(text: str) -> list[tuple[str, ...]]:
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


def test_every_section_and_method_is_in_the_reference(hooks):
    reference = hooks.plan_reference()
    for name in set(Plan.model_fields) - {"anonflow", "name", "unit", "engine"}:
        assert re.search(rf"^## {name}( |$)", reference, re.MULTILINE)
    for method in hooks.methods():
        assert f"](methods/{method}.md)" in reference


def test_every_gate_is_in_the_reference_with_its_limits(hooks):
    reference = hooks.gate_reference()
    for gate in GATES:
        assert f"## {gate.name[:1].upper()}{gate.name[1:]}\n\n{gate.description}" in reference
    assert reference.count("(plan.md#policy): `membership_auc`, `membership_pass`.") == 6


def test_every_key_has_a_meaning(hooks):
    tables = [hooks.plan_reference(), *(hooks.method_parameters(name) for name in hooks.methods())]
    keys = [row for table in tables for row in rows(table) if row[0] not in ("`method`", "`edit`")]
    assert len(keys) > 100
    assert [row[0] for row in keys if len(row) != 4 or not row[3].strip("| ")] == []


def test_defaults_and_allowed_values_are_those_of_the_code(hooks):
    reference = hooks.plan_reference()
    assert "| `margin` | `0.05` | number, above 0, below 1 |" in reference
    assert "| `on_violation` | `refuse` | `refuse`, `set-aside`, `repair` |" in reference
    assert "| `k` | `10` | whole number, at least 2 |" in hooks.method_parameters("mdav")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.split("\n")[0])
def test_the_examples_of_the_guide_are_valid(example):
    Plan.model_validate(yaml.safe_load(BASE) | yaml.safe_load(example))


def test_the_complete_plan_of_the_guide_loads(tmp_path):
    (tmp_path / "people.csv").write_text("pid,sex,age,income\n1,f,30,100\n2,m,40,-9\n")
    (tmp_path / "plan.yaml").write_text(EXAMPLES[0])
    assert load_plan(tmp_path / "plan.yaml").plan.name == "people"


@pytest.mark.parametrize("module", ["anoncore.risk.report", "anoncore.risk.tail", "anoncore.partitions.close_records"])
def test_the_reference_of_the_library_states_the_defaults_of_the_code(hooks, module):
    """Also of parameters that share a line of a docstring."""
    extensions = griffe.load_extensions(hooks.DescriptionsOnOneLine)
    found = griffe.load(module, docstring_parser="numpy", extensions=extensions)
    stated = 0
    for one in found.members.values():
        if not one.is_alias and (one.is_class or one.is_function) and one.docstring:
            for section in one.docstring.parsed:
                if section.kind is griffe.DocstringSectionKind.parameters:
                    for item in section.value:
                        assert str(item.value) == str(one.parameters[item.name].default), (one.path, item.name)
                        stated += item.value is not None
    assert stated
