"""The three parts of a table's units, and what is kept of trials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.methods import SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from tasks.assessment.tuning.parts import LEAST_UNITS, SCREEN_UNITS, Parts, cut
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import Trial
from tasks.assessment.tuning.variation import Variation
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Split
from tasks.record.dossier import SplitSummary

VARIABLES = (Variable("a", "continuous", precision=1.0), Variable("b", "continuous"))
SUMMARY = SplitSummary("holdout", 1, 1, 0, 1, 1, "", 0)
SWAP = Variation((SpectralSwap(),))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.opened(Home.locate(tmp_path / "home"), SeedSection()) as running:
        yield running


def people(units: int, first: int = 0) -> Microdata:
    """Return a table with two records of each unit."""
    numbers = np.repeat(np.arange(first, first + units), 2)
    frame = pd.DataFrame({"a": numbers.astype(float), "b": numbers + 0.5})
    return Microdata(frame, Schema(VARIABLES), numbers)


def parts(run: Run, units: int, *, reference: bool = True, name: str = "") -> Parts:
    store = run.workspace.store
    members, others = store(f"members{name}", people(units)), store(f"others{name}", people(units, 10**6))
    return cut(run, Split(members, others if reference else None, summary=SUMMARY), "holdout")


def units_of(data: Microdata | None) -> set[int]:
    assert data is not None
    assert data.units is not None
    return set(data.units.tolist())


def test_the_search_never_sees_the_members_that_its_choice_is_judged_on(run: Run) -> None:
    cut_in_three = parts(run, 120)
    search, judge = cut_in_three.search, cut_in_three.judge
    sides = [units_of(search.original), units_of(search.reference), units_of(judge.original)]
    assert [len(side) for side in sides] == [60, 60, 120]
    assert sum(map(len, sides)) == len(set.union(*sides))
    assert units_of(judge.reference) == sides[0] | sides[1]
    assert cut_in_three.confirm is not None
    assert [units_of(cut_in_three.confirm.original), units_of(cut_in_three.confirm.reference)] == sides[1::-1]
    assert cut_in_three.screen is None
    assert units_of(parts(run, 120, name=" again").search.original) == sides[0]


def test_without_a_reference_the_search_has_one_half_of_the_units(run: Run) -> None:
    halves = parts(run, 200, reference=False)
    assert not units_of(halves.search.original) & units_of(halves.judge.original)
    assert (halves.search.reference, halves.confirm, halves.judge.reference) == (None, None, None)


def test_a_first_look_has_a_part_of_a_large_table_and_a_small_one_is_refused(run: Run) -> None:
    large = parts(run, 4 * SCREEN_UNITS)
    assert large.screen is not None
    assert len(units_of(large.screen.original)) == SCREEN_UNITS
    assert units_of(large.screen.original) < units_of(large.search.original)
    with pytest.raises(Refused, match=f"at least {LEAST_UNITS} statistical units"):
        parts(run, 2 * LEAST_UNITS - 2, name=" small")


def test_a_variation_leaves_variables_out_with_their_edits_and_rounds_others() -> None:
    data = Variation((SpectralSwap(),), ("b",), (("a", 10.0),)).of(people(3))
    assert data.schema.names == ("a",)
    assert data.schema["a"].precision == 10.0
    assert len(data) == 6
    assert [v.role for v in Variation((), ("b",)).variables(VARIABLES)] == ["other", "excluded"]


def test_trials_are_kept_for_the_owner_until_plan_or_data_change(run: Run) -> None:
    trial = Trial("swap", "publish", "every gate passed", (), 1.5, None, 0, 2.0)
    store = TrialStore(run.home, "p", "plan and data")
    assert store.get(SWAP, "search") is None
    store.add(SWAP, "search", trial)
    store.add(SWAP, "judge", trial)
    path = run.home.tuning("p")
    assert path.stat().st_mode & 0o777 == 0o600
    again = TrialStore(run.home, "p", "plan and data")
    assert (again.get(SWAP, "search"), again.get(SWAP, "screen"), again.judged) == (trial, None, 1)
    assert TrialStore(run.home, "p", "plan and data", ("uncertainty",)).get(SWAP, "search") is None
    assert TrialStore(run.home, "p", "other data").get(SWAP, "search") is None
    path.write_text("{")
    assert TrialStore(run.home, "p", "plan and data").get(SWAP, "search") is None
