"""Every method's page has an example: it completes the plan of the examples, is accepted and masks the table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema
from anoncore.registry import METHODS
from flows.plan.model import load_plan
from tests.docs.conftest import ROOT

FOLDER = ROOT / "docs/reference/methods"
EXAMPLES = [
    (page.stem, example)
    for page in sorted(FOLDER.glob("*.md"))
    for example in re.findall(r"```yaml\n(steps:\n.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the table that the page's program writes."""
    path = tmp_path_factory.mktemp("examples")
    subprocess.run([sys.executable, FOLDER / "people.py"], cwd=path, check=True, env=os.environ)
    return path


def test_every_method_has_an_example() -> None:
    assert {name for name, _ in EXAMPLES} == set(METHODS)


@pytest.mark.parametrize(("method", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_the_example_is_accepted_and_masks(method: str, example: str, folder: Path) -> None:
    path = folder / "plan.yaml"
    path.write_text((FOLDER / "people.yaml").read_text() + example)
    plan = load_plan(path).plan
    assert method in [step.method for step in plan.steps]
    people = pd.read_csv(folder / "people.csv", dtype={"zip": str})
    data = Microdata(people, Schema(plan.variables))
    for step in plan.steps:
        data = anoncore.anonymize(data, step, rng=np.random.default_rng(1)).data
    assert not data.frame.equals(people.drop(columns="person"))
