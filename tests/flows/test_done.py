"""What the log of a run says of its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from anoncore.microdata import Variable
from flows.done import done
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.home import Home
from tests.limits import UTILITY

PLAN = """
anonflow: 1
name: census
source: {path: people.csv}
variables:
  - {name: income, kind: continuous, role: sensitive, precision: 1}
  - {name: age, kind: continuous, role: quasi-identifier, precision: 1}
edits: {rules: [{edit: bound, name: adult, variable: age, lower: 0, upper: 120}]}
assessment: {margin: 0.9}
steps: [{method: spectral-swap}]
policy: {approval: person, UTILITY}
""".replace("UTILITY", UTILITY)


class Told(Direct):
    """Keeps what the log would say of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, str] = {}

    def call(self, label, function, *args, retry):
        result = super().call(label, function, *args, retry=retry)
        self.lines[label] = done(result)
        return result


@pytest.fixture
def told(tmp_path: Path, tracking: Path) -> Told:
    rows = "\n".join(f"{900 + 7 * i},{20 + i % 60}" for i in range(120))
    (tmp_path / "people.csv").write_text(f"income,age\n{rows}\n")
    (tmp_path / "plan.yaml").write_text(PLAN)
    runner = Told()
    carry_out(load_plan(tmp_path / "plan.yaml"), Home.locate(tmp_path / "home"), runner)
    return runner


def test_the_log_of_a_run_says_what_its_steps_have_done(told: Told) -> None:
    assert told.lines["Read the source"] == "Read 120 records of 120 units, 2 variables."
    assert "violated: none; records set aside: 0" in told.lines["Check the edits on the raw data"]
    assert "60 records are to be masked" in told.lines["Set the reference apart"]
    assert "The policy says: " in told.lines["Decide by policy"]
    assert " is awaiting: " in told.lines["Publish, keep or reject"]
    silent = {label for label, line in told.lines.items() if not line}
    looked = {"Look for figures of groups", "Look for records of one unit"}
    assert silent == looked | {"Log to MLflow", "Mirror the outcome in MLflow"}


def test_a_result_without_a_sentence_is_not_logged() -> None:
    assert done(Variable(name="age", kind="continuous")) == ""
