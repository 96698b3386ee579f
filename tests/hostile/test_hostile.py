"""Every hostile input ends in one clear refusal: exit code 2, no value told, nothing left behind.

The cases stand in cases.py; ``python tests/hostile/run.py`` runs those too that take gigabytes or minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anoncore.errors import AnonymizationError
from anoncore.microdata import Schema, Variable
from anoncore.names import look_alikes
from tasks.intake.columns import like_a_formula
from tests.hostile.cases import CASES, Case
from tests.hostile.run import Home, meet, ready

pytestmark = pytest.mark.platform

# One of each kind, as a person's shell starts it, with four gigabytes of address space.
OUTSIDE = ("plan: a bomb of aliases", "csv: a formula", "parquet: one long text in every record")


@pytest.fixture(scope="module")
def home(tracking: Path) -> Iterator[Home]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        patch.setenv("ANONFLOW_HOME", "")
        yield ready(tracking)


@pytest.mark.parametrize("case", [c for c in CASES if not c.heavy], ids=lambda c: c.name)
def test_a_case_ends_as_it_must(case: Case, home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    met, found = meet(case, folder, home)
    assert not found, met.out + met.err


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_process_ends_as_it_must(name: str, home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    met, found = meet(next(c for c in CASES if c.name == name), folder, home, outside=True)
    assert not found, met.out + met.err


def test_names_that_can_be_told_apart_are_left_alone() -> None:
    names = [
        "age",
        "Age",
        "ag",
        "a1",
        "al",
        "a-b",
        "a_b",
        "\u00e9",
        "e",
        "\u0436",
        "\u65e5\u672c",
        "x\ny",
        "x y",
        "\x7f",
        "\u200b",
    ]
    assert look_alikes(names) == []


def test_names_that_look_alike_are_written_out() -> None:
    with pytest.raises(AnonymizationError, match=r"'age' and '\\u0430ge'; rename one of each"):
        Schema([Variable("age", "continuous"), Variable("\u0430ge", "continuous")])


@pytest.mark.parametrize(
    "text",
    ["-1", "+1.5", "-1,5", "-1e5", "+3 %", "-", "+", "--", "-10-20", "a=b", "5-9", "", "\t", "e@x.org"],
)
def test_numbers_ranges_and_signs_are_no_formulas(text: str) -> None:
    assert not like_a_formula(text)


@pytest.mark.parametrize(
    "text", ["=1", "=A1", "@x", "+A1", "-A1", " =1", "\t=1", "\n@x", "\uff1d1", "\u200b=1", "-2+cmd|x"]
)
def test_formulas_are_known_behind_what_is_not_drawn(text: str) -> None:
    assert like_a_formula(text)
