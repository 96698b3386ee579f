"""Edits that carry the structure of a table hold after every method: lookups, skip patterns, sums and limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.methods import (
    MDAV,
    RHS,
    AdditiveNoise,
    DataShuffling,
    FuzzyMicroaggregation,
    GroupAnonymity,
    OptimalBoxes,
    RareLevels,
    SequentialTrees,
    SpectralRHS,
    SpectralSwap,
)
from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.validate import EditsSection, validate_masked
from tasks.masking.anonymize import Step, mask

N = 240
DIVISIONS = {"ak": "west", "ca": "west", "ny": "east", "me": "east", "zz": "north"}
RULES = (
    LinearEdit(name="income", terms={"wage": 1, "rent": 1, "income": -1}, dependent="income"),
    LookupEdit(name="class", dependent="class", of=("income",)),
    LookupEdit(name="division", dependent="division", of=("state",)),
    ConditionalEdit(
        name="non-smokers are not asked",
        when=(Condition(variable="smokes", values=("no",)),),
        then=Condition(variable="started", missing=True),
    ),
    ConditionalEdit(
        name="smokers are asked",
        when=(Condition(variable="smokes", values=("yes",)),),
        then=Condition(variable="started", missing=False),
    ),
    BoundEdit(name="limits of wage", variable="wage", lower=0, upper=5000),
    BoundEdit(name="limits of started", variable="started", lower=10, upper=30),
)
SECTION = EditsSection(rules=RULES)


def table() -> Microdata:
    rng = np.random.default_rng(0)
    wage = np.where(rng.random(N) < 0.3, 0, rng.uniform(0, 5000, N).round(-1))
    rent = rng.uniform(0, 900, N).round(-1)
    states = rng.choice(["ak", "ca", "ny", "me"], N)
    states[:3] = "zz"
    smokes = rng.choice(["no", "yes"], N)
    frame = pd.DataFrame(
        {
            "wage": wage,
            "rent": rent,
            "income": wage + rent,
            "class": np.where(wage + rent > 2500, "high", "low"),
            "state": states,
            "division": [DIVISIONS[state] for state in states],
            "smokes": smokes,
            "started": np.where(smokes == "yes", rng.integers(10, 31, N), np.nan),
        }
    )
    kinds = {"state": "nominal", "division": "nominal", "class": "binary", "smokes": "binary"}
    return Microdata(frame, Schema(Variable(n, kinds.get(n, "continuous")) for n in frame))


AREAS = {"vital": ({"smokes": ("yes",)},), "parameter": "state", "order": ("ak", "ca", "ny", "me"), "level": 1}


@pytest.mark.parametrize(
    "steps",
    [
        (SequentialTrees(),),
        (SpectralSwap(),),
        (SpectralSwap(numeric="normal", marginals="drawn"),),
        (RareLevels(k=5), SpectralRHS(k=5)),
        (RHS(k=5),),
        (MDAV(k=5),),
        (FuzzyMicroaggregation(k=5),),
        (DataShuffling(confidential=("wage", "rent", "started")),),
        (AdditiveNoise(b=0.3),),
        (GroupAnonymity(**AREAS, raises={"ak": 45}),),
        (OptimalBoxes(k=5, release="means"),),
    ],
    ids=lambda steps: "-".join(step.method for step in steps),
)
def test_every_edit_holds_after_masking(steps: tuple[Step, ...], tmp_path: Path) -> None:
    run = Run.start(Home.locate(tmp_path / "home"), SeedSection(public=1, data_are_public=True))
    original = run.workspace.store("original", table())
    assert not any(SECTION.edit_set().violations(table().frame).values())
    done = mask(run, original, steps, SECTION.edit_set())
    assert validate_masked(done, SECTION, original).report.success
    # Four areas are too few to hide a count from inversion, with or without edits.
    assert all(claim.holds for claim in done.claims if claim.formal and "inverting" not in claim.claim)
    released = done.released.load()
    assert released.schema.names == table().schema.names
    notes = {note.split(":")[0] for note in done.notes if "looked up again" in note}
    assert notes == {"class follows from income", "division follows from state"}
    assert set(released.frame["division"].dropna()) <= {"west", "east", "north"}
    assert done.repair is not None
    assert done.repair.edits["class"] == done.repair.edits["division"] == 0


def test_what_ranges_cannot_be_shown_to_satisfy_is_named(tmp_path: Path) -> None:
    run = Run.start(Home.locate(tmp_path / "home"), SeedSection(public=1, data_are_public=True))
    original = run.workspace.store("original", table())
    done = mask(run, original, (OptimalBoxes(k=5),), SECTION.edit_set())
    skips = ("non-smokers are not asked", "smokers are asked")
    assert validate_masked(done, SECTION, original).unverifiable == ("class", "division", *skips)
    assert not any("looked up" in note for note in done.notes)
