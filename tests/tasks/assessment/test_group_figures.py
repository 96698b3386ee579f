"""Figures of groups that were found in the whole table, and what a release of a part of its columns repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.recoding import Recoding, recoded
from anoncore.risk import find_group_figures, group_figures
from tasks.assessment.assess import AssessmentSection, MaskedSides, assess
from tasks.assessment.group_figures import with_group_figures
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Assessment
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide


def employees() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    firm = np.repeat(np.arange(20), 15)
    frame = pd.DataFrame({"firm": [f"F{f}" for f in firm], "age": rng.integers(18, 65, 300) * 1.0})
    frame["wage"] = np.exp(8 + rng.normal(0, 0.4, 300)).round()
    return frame.assign(top=frame.groupby("firm")["wage"].transform("max"))


def test_half_of_a_table_repeats_figures_of_all_its_records_and_the_assessment_is_stored_with_them(
    tmp_path: Path,
) -> None:
    frame = employees()
    figures = find_group_figures(frame, ["age", "top"])
    schema = Schema([Variable("firm", "nominal"), Variable("age", "continuous"), Variable("top", "continuous")])
    half = Microdata(frame[["firm", "age", "top"]].iloc[::2].reset_index(drop=True), schema)
    run = Run.start(Home.locate(tmp_path), SeedSection(public=3, data_are_public=True))
    sides = Sides(run.workspace.store("original", half), None)
    masked = Masked(released=run.workspace.store("released", half), keeps_records=False)
    assessed = assess(run, sides, masked, AssessmentSection(), PolicySection()).assessment
    assert "group figures" not in {gate.name for gate in decide(assessed, PolicySection()).gates}
    found = with_group_figures(assessed, MaskedSides(sides, masked), figures)
    (gate,) = [gate for gate in decide(found, PolicySection()).gates if gate.name == "group figures"]
    assert (gate.verdict, gate.variables, gate.records) == ("inconclusive", ("top",), 150)
    stored = Assessment.from_json(found.to_json())
    assert stored.risk.group_figures == found.risk.group_figures


def test_figures_stand_beside_the_levels_that_their_groups_have_in_the_release(tmp_path: Path) -> None:
    frame = employees()
    figures = find_group_figures(frame, ["age", "top"])
    schema = Schema([Variable("firm", "nominal"), Variable("age", "continuous"), Variable("top", "continuous")])
    source = Microdata(frame[["firm", "age", "top"]], schema)
    recodings = (Recoding("firm", {f"F{f}": f"region {f % 4}" for f in range(20)}),)
    release = recoded(source, recodings)
    run = Run.start(Home.locate(tmp_path), SeedSection(public=3, data_are_public=True))
    sides = Sides(run.workspace.store("original", source), None)
    masked = Masked(released=run.workspace.store("released", release), keeps_records=False, recodings=recodings)
    assessed = assess(run, sides, masked, AssessmentSection(), PolicySection()).assessment
    found = with_group_figures(assessed, MaskedSides(sides, masked), figures).risk.group_figures
    assert found == group_figures(release, release, figures)
    assert found != group_figures(source, release, figures)
