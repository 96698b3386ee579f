"""The masking steps in order: what is computed again, repaired, hidden, and reported of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.conditions import Condition
from anoncore.edits.dependents import without_dependents
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import Edit, EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES
from anoncore.methods import (
    MDAV,
    PRAM,
    AdditiveNoise,
    DataShuffling,
    ExtremeRecords,
    GroupAnonymity,
    OptimalBoxes,
    RareLevels,
    SequentialTrees,
    SpectralSwap,
    ValueCoding,
)
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import anonymize
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.masking.anonymize import Masked, Step, hidden_variables, kept_exactly, mask

N = 60
SPARE = Variable("wage", "continuous")
SUM = LinearEdit(name="sum", terms={"wage": 1, "rent": 1, "income": -1}, dependent="income")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.start(Home.locate(tmp_path / "home"), SeedSection(public=1, data_are_public=True))


def table() -> Microdata:
    rng = np.random.default_rng(0)
    wage, rent = rng.uniform(1000, 5000, (2, N)).round(1)
    land = np.array(["a", "b"] * (N // 2), dtype=object)
    land[0] = "rare"
    frame = pd.DataFrame({"wage": wage, "rent": rent, "income": wage + rent, "land": land, "ill": [0, 1, 1] * (N // 3)})
    variables = [Variable(name, "continuous") for name in ("wage", "rent", "income")]
    levels = [Variable("land", "nominal", levels=("a", "b", "rare")), Variable("ill", "binary")]
    return Microdata(frame, Schema([*variables, *levels]))


def masked(run: Run, *steps: Step, data: Microdata | None = None, edits: tuple[Edit, ...] = ()) -> Masked:
    return mask(run, run.workspace.store("original", data or table()), steps, EditSet(edits))


def test_what_an_edit_computes_is_computed_again_and_in_its_place(run: Run) -> None:
    released = masked(run, MDAV(k=3), edits=(SUM,)).released.load()
    assert released.schema.names == table().schema.names
    np.testing.assert_allclose(released.frame["income"], released.frame["wage"] + released.frame["rent"])
    assert not np.allclose(released.frame["income"], table().frame["income"])


def test_what_edits_still_violate_is_repaired_and_counted(run: Run) -> None:
    above = Condition(variable="wage", lower=1500)
    least = ConditionalEdit(name="least", when=(Condition(variable="ill", values=(0, 1)),), then=above)
    done = masked(run, AdditiveNoise(), edits=(least,))
    assert not done.source_values
    assert done.repair is not None
    assert done.released.load().frame["wage"].min() >= 1500
    assert done.repair.edits["least"] == done.repair.cells == round(done.repair.share * 5 * N) > 0


def test_numbers_beyond_limits_are_not_left_to_the_repair(run: Run) -> None:
    bound = BoundEdit(name="limits", variable="wage", lower=1250.04, upper=4000)
    done = masked(run, AdditiveNoise(), edits=(bound,))
    assert done.repair is not None
    assert done.repair.cells == 0
    assert done.released.load().frame["wage"].agg(["min", "max"]).tolist() == [1250.1, 4000]
    assert any("beyond the limits of edits" in note for note in done.notes)


def test_levels_that_no_record_holds_any_more_are_not_named(run: Run) -> None:
    done = masked(run, RareLevels(k=5, action="suppress"), SpectralSwap())
    assert "rare" not in (done.released.load().schema["land"].levels or ())
    assert not done.records_unchanged


def test_rare_levels_are_not_looked_up_and_the_claim_covers_them(run: Run) -> None:
    age = np.r_[np.arange(20, 84).repeat(10), np.repeat([90.0, 91.0], 2)].astype(float)
    group = np.where(age >= 90, "90+", np.where(age < 50, "young", "old")).astype(object)
    variables = [Variable("age", "continuous"), Variable("group", "ordinal", levels=("young", "old", "90+"))]
    data = Microdata(pd.DataFrame({"age": age, "group": group, "wage": age}), Schema([*variables, SPARE]))
    lookup = LookupEdit(name="group", dependent="group", of=("age",))
    done = masked(run, RareLevels(k=10, action="suppress"), SpectralSwap(), data=data, edits=(lookup,))
    assert set(done.released.load().frame["group"].dropna()) == {"young", "old"}
    (claim,) = [c for c in done.claims if c.kind == "NoRareLevels"]
    assert claim.holds
    assert claim.claim == "no level rarer than 10 in the source"
    # The claim is about the dependent too: it does not hold for the source.
    edits = EditSet((lookup,)).learned(data, 10)
    release = anonymize(without_dependents(data, edits), RareLevels(k=10), rng=np.random.default_rng(0), edits=edits)
    assert not release.claims[0].check(data).holds


def test_an_accepted_lookup_is_not_refused_among_fewer_records(run: Run) -> None:
    rng = np.random.default_rng(0)
    job = np.r_[np.arange(20).repeat(30), np.arange(1000, 1400)]
    frame = pd.DataFrame({"age": rng.normal(size=1000), "job": job, "team": np.where(job < 20, job % 10, job % 7)})
    frame = frame.astype({"job": str, "team": str})
    variables = [Variable("age", "continuous"), Variable("job", "nominal"), Variable("team", "nominal")]
    data, edits = Microdata(frame, Schema(variables)), (LookupEdit(name="e", dependent="team", of=("job",)),)
    EditSet(edits).refuse_identifying(data)
    few = data.take(np.r_[0:600:6, 600:1000])  # most of these have a job of their own
    with pytest.raises(AnonymizationError, match="nearly identifies"):
        EditSet(edits).refuse_identifying(few)
    released = masked(run, SpectralSwap(), data=few, edits=edits).released.load().frame
    assert set(released["job"][released["team"].notna()].astype(int)) == set(range(20))


def test_steps_that_only_prepare_leave_single_records_as_they_are(run: Run) -> None:
    done = masked(run, ExtremeRecords(action="winsorise", tail=0.1))
    assert done.records_unchanged
    assert done.keeps_records
    assert done.notes
    assert "no step masks numbers" in done.source_values[0]


SHUFFLED = DataShuffling()
NUMBERS = ("wage", "rent", "income")
TREES = SequentialTrees()


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ((SHUFFLED,), {LEVEL_COUNTS: ("land", "ill")}),
        ((PRAM(variables=("ill",), keep=0.9), SHUFFLED), {LEVEL_COUNTS: ("land",)}),
        ((PRAM(variables=("ill", "land"), keep=0.9), SHUFFLED), {}),
        (
            (DataShuffling(confidential=("wage",)),),
            {LEVEL_COUNTS: ("land", "ill"), MEANS: NUMBERS[1:], VALUES: NUMBERS[1:]},
        ),
        ((ValueCoding(base=dict.fromkeys(NUMBERS, 5.0)), MDAV(k=3)), {MEANS: NUMBERS}),
        ((ValueCoding(base={"rent": 5.0}, rounding="random"), MDAV(k=3)), {MEANS: ("wage", "income")}),
        ((MDAV(k=3, within=("ill",)),), {LEVEL_COUNTS: ("ill",), MEANS: NUMBERS}),
        ((RareLevels(k=3), TREES), {}),
        ((PRAM(variables=("ill",), keep=0.9), TREES), {}),
    ],
)
def test_what_is_kept_exactly_is_decided_for_each_variable(
    steps: tuple[Step, ...], kept: dict[str, tuple[str, ...]]
) -> None:
    assert kept_exactly(steps, table().schema) == kept


@pytest.mark.parametrize(
    ("steps", "of"), [((SHUFFLED,), ""), ((PRAM(variables=("ill",), keep=0.9), SHUFFLED), " (of land)")]
)
def test_the_note_names_the_variables_that_are_kept_exactly_where_not_all_are(
    run: Run, steps: tuple[Step, ...], of: str
) -> None:
    released = masked(run, *steps)
    assert f"kept exactly, but for what a step treats and repairs: {LEVEL_COUNTS}{of}" in released.notes


@pytest.mark.parametrize(
    ("steps", "exact"),
    [
        ((SHUFFLED,), {"land", "ill", *NUMBERS}),
        ((PRAM(variables=("ill",), keep=0.9999999), SHUFFLED), {"land", "ill", *NUMBERS}),
        ((PRAM(variables=("ill",), keep=0.0), SHUFFLED), {"land", *NUMBERS}),
        ((PRAM(variables=("ill",), keep=0.0, strata=("land",)), SHUFFLED), {"land", "ill", *NUMBERS}),
        ((RareLevels(k=3, action="redistribute"), SHUFFLED), {"land", "ill", *NUMBERS}),
        ((RareLevels(k=3), SequentialTrees(leaf=20)), set()),
    ],
)
def test_figures_follow_from_the_source_unless_a_step_draws_them_anew(
    run: Run, steps: tuple[Step, ...], exact: set[str]
) -> None:
    assert set(masked(run, *steps).exact) == exact


@pytest.mark.parametrize(("step", "exact"), [(SequentialTrees(leaf=20), set()), (SHUFFLED, {"land", "ill", *NUMBERS})])
def test_what_is_computed_from_figures_that_are_drawn_is_drawn(run: Run, step: Step, exact: set[str]) -> None:
    assert set(masked(run, step, edits=(SUM,)).exact) == exact


def test_a_hidden_group_hides_what_edits_compute_from_its_variables_too() -> None:
    step = GroupAnonymity(vital=({"ill": (1,)},), parameter="land", order=("a", "b"), level=1, raises={"a": 25})
    code = LinearEdit(name="code", terms={"land": 1, "code": -1}, dependent="code")
    region = LookupEdit(name="region", dependent="region", of=("code", "wage"))
    assert hidden_variables((step,), EditSet([region, code])) == ("code", "land", "region")
    assert hidden_variables((step,), EditSet([SUM])) == ("land",)
    assert hidden_variables((MDAV(),), EditSet([code])) == ()


def test_ranges_come_with_points_and_are_measured_as_such(run: Run) -> None:
    numbers = table().select(["wage", "rent"])
    done = masked(run, MDAV(k=3), OptimalBoxes(k=6), data=numbers)
    assert done.points is not None
    assert done.measured is done.points
    assert len(done.points.load()) == len(done.released.load())
    assert any("not of the source's" in note for note in done.notes)


@pytest.mark.parametrize(
    ("steps", "there"),
    [((RareLevels(k=5), SpectralSwap()), True), ((SpectralSwap(), SpectralSwap()), False), ((MDAV(k=3),), False)],
)
def test_the_continuous_form_is_that_of_one_masking(run: Run, steps: tuple[Step, ...], there: bool) -> None:
    done = masked(run, *steps)
    assert (done.continuous is not None) == there
    if done.continuous is not None:
        assert len(done.continuous.data.load()) == len(done.continuous.scores.load()["scores"]) == N


def test_figures_and_claims_say_of_which_step_they_are(run: Run) -> None:
    done = masked(run, ExtremeRecords(), MDAV(k=3))
    assert done.claims
    assert [claim.kind for claim in done.claims if claim.formal] == ["KAnonymity"]
    assert all(name.startswith(("step1.", "step2.")) for name in done.figures)


def test_the_same_seed_masks_alike_and_steps_draw_apart(run: Run, tmp_path: Path) -> None:
    again = Run.start(Home.locate(tmp_path / "other"), SeedSection(public=1, data_are_public=True))
    first, second = masked(run, AdditiveNoise()), masked(again, AdditiveNoise())
    pd.testing.assert_frame_equal(first.released.load().frame, second.released.load().frame)


def test_a_step_that_leaves_one_record_is_refused(run: Run) -> None:
    single = Microdata(table().frame.iloc[:1], table().schema)
    with pytest.raises(Refused, match="fewer than 2 records"):
        masked(run, ExtremeRecords(action="winsorise"), data=single)


def test_released_records_keep_their_units_until_a_step_parts_them(run: Run) -> None:
    data = table().with_units(np.arange(N) // 10)
    grouped = mask(
        run.branch("grouped", "1"), run.workspace.store("units", data), (RareLevels(k=5), MDAV(k=3)), EditSet([SUM])
    )
    assert grouped.released.load().units is not None
    assert grouped.claims[-1].holds
    assert "fewest units in a group" in grouped.claims[-1].observed
    swapped = mask(run.branch("swapped", "2"), run.workspace.store("units", data), (SpectralSwap(),), EditSet())
    assert swapped.released.load().units is None
