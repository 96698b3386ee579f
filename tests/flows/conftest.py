"""A small office: a table with planted canaries, and plans that end in every way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.limits import with_any_loss
from tests.nursery import Nursery
from tests.steady import steady

CANARY_TEXT = "Qx7-Canary-Zw"
CANARY_NUMBER = 918273645

PLAN = """
anonflow: 1
name: office
source: {{path: {source}}}
variables:
  - {{name: person, kind: nominal, role: identifier}}
  - {{name: gross, kind: continuous, role: sensitive, precision: 1}}
  - {{name: tax, kind: continuous, role: sensitive, precision: 1}}
  - {{name: net, kind: continuous, role: sensitive, precision: 1}}
  - {{name: age, kind: continuous, role: quasi-identifier, precision: 1}}
  - {{name: sex, kind: binary, role: quasi-identifier, levels: [f, m]}}
  - {{name: children, kind: ordinal, levels: [0, 1, 2, 3]}}
  - {{name: region, kind: nominal, role: quasi-identifier}}
  - {{name: births, kind: continuous, precision: 1}}
edits:
  on_violation: {on_violation}
  rules:
    - {{edit: linear, name: net and tax make gross, terms: {{net: 1, tax: 1, gross: -1}}, dependent: gross}}
    - {{edit: bound, name: age, variable: age, lower: 18, upper: 99}}
    - edit: conditional
      name: men give no birth
      when: [{{variable: sex, values: [m]}}]
      then: {{variable: births, missing: true}}
assessment: {{margin: {margin}}}
steps:
  - {step}
{more}
"""


def make_people(records: int = 1500, seed: int = 1) -> pd.DataFrame:
    """Return a table with sums, gaps and canaries."""
    rng = np.random.default_rng(seed)
    net = np.exp(rng.normal(7.5, 0.6, records)).round()
    tax = (net * rng.uniform(0.1, 0.4, records)).round()
    sex = rng.choice(["f", "m"], records)
    frame = pd.DataFrame(
        {
            "person": [f"{CANARY_TEXT}-{i}" for i in range(records)],
            "gross": net + tax,
            "tax": tax,
            "net": net,
            "age": rng.integers(18, 90, records),
            "sex": sex,
            "children": rng.choice([0, 1, 2, 3], records, p=[0.4, 0.3, 0.2, 0.1]),
            "region": rng.choice(["north", "east", "south"], records),
            "births": np.where(sex == "m", np.nan, rng.poisson(1.5, records)),
        }
    )
    return frame


@pytest.fixture(scope="session")
def people():
    """Return the function that makes the table."""
    return make_people


@pytest.fixture(scope="session")
def write_office() -> Callable[..., Path]:
    """Return the function that writes table and plan into a folder, and returns the plan's path."""

    def write(
        folder: Path,
        frame: pd.DataFrame | None = None,
        *,
        step: str = "{method: spectral-swap}",
        on_violation: str = "refuse",
        more: str = "",
        margin: float = 0.15,
    ) -> Path:
        (make_people() if frame is None else frame).to_csv(folder / "people.csv", index=False)
        path = folder / "office.yaml"
        more = with_any_loss(more)
        path.write_text(
            PLAN.format(source="people.csv", step=step, on_violation=on_violation, more=more, margin=margin)
        )
        return path

    return write


@pytest.fixture
def office(tmp_path: Path, write_office: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that writes table and plan, and returns the plan's path."""
    return partial(write_office, tmp_path)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """What carries out commands without Prefect as processes of their own that need not import everything anew."""
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "_MLFLOW", "ANONFLOW"))
    }
    with Nursery(inherited) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def steady_chance() -> Iterator[None]:
    """For what a module makes once and its tests share: what the system would draw, from a stream of its own."""
    with pytest.MonkeyPatch.context() as patch:
        steady(patch.setattr, 1)
        yield


@pytest.fixture(autouse=True)
def chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system would draw, from a stream of its own."""
    steady(monkeypatch.setattr, 1)
