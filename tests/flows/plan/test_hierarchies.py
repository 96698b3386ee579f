"""Hierarchies in files beside a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from anoncore.methods import GlobalRecoding
from anoncore.recoding import Rows
from flows.plan.model import PlanFile, load_plan
from tasks.common.errors import Refused

PLAN = """
anonflow: 1
name: p
source: {path: people.csv}
variables:
  - {name: s, kind: nominal, levels: [x, y], role: quasi-identifier}
  - {name: t, kind: nominal, levels: [x, y]}
steps:
  - method: global-recoding
    hierarchies:
      s: HIERARCHY
  - {method: spectral-swap}
"""


def loaded(folder: Path, rows: str, stated: str = "{file: s.csv}") -> PlanFile:
    (folder / "s.csv").write_text(rows, encoding="utf-8")
    (folder / "people.csv").write_text("s,t\nx,x\ny,y\n")
    (folder / "p.yaml").write_text(PLAN.replace("HIERARCHY", stated))
    return load_plan(folder / "p.yaml")


def test_the_digest_covers_the_rows_of_the_file(tmp_path: Path) -> None:
    one, other = (loaded(tmp_path, f"x;{label};*\ny;{label};*\n").plan for label in ("both", "all"))
    step = one.steps[0]
    assert isinstance(step, GlobalRecoding)
    assert step.hierarchies == {"s": Rows((("x", "both", "*"), ("y", "both", "*")))}
    assert one.digest != other.digest
    assert one.masking != other.masking
    assert "both" not in one.public_text()
    assert loaded(tmp_path, "x,both,*\ny,both,*\n", '{file: s.csv, delimiter: ","}').plan.digest == one.digest


@pytest.mark.parametrize(
    ("rows", "stated", "problem"),
    [
        ("x;a\n", "{file: s.csv}", "have no row"),
        ("x;a\ny\n", "{file: s.csv}", "line 11: steps.1.hierarchies.s: a hierarchy must have rows, all with"),
        ("x;\x1ba\ny;a\n", "{file: s.csv}", "must not hold control characters"),
        ("x;a\n", "{file: other.csv}", "hierarchy other.csv does not exist"),
        ("x;a\n", "{file: ../s.csv}", "must lie in the plan's folder"),
        ("x;a\n", "{file: s.csv, sep: a}", "must hold a file, and its delimiter"),
    ],
)
def test_what_is_wrong_with_a_file_is_stated_with_its_line(
    tmp_path: Path, rows: str, stated: str, problem: str
) -> None:
    with pytest.raises(Refused, match=problem):
        loaded(tmp_path, rows, stated)
