"""Edits about recoded variables: whoever satisfied one satisfies it in the coarser levels, and few others do."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from anoncore import EditSet, Microdata, Schema, Variable
from anoncore.edits.coarser import coarser
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, SetEdit
from anoncore.edits.model import Edit
from anoncore.methods import GlobalRecoding, SequentialTrees
from anoncore.recoding import Intervals, Recoding, recoded
from tasks.masking.anonymize import masked_records


class Streams:
    """One random stream for each name, always the same."""

    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(len(stream))


SCHOOL = Recoding("school", {0: "0–1", 1: "0–1", 2: "2–3", 3: "2–3"})
AGE = Recoding("age", width=5.0)
ALL = pd.DataFrame(itertools.product(range(40), range(4), [0.0, 10.0]), columns=["age", "school", "wage"])
TABLE = Microdata(
    ALL.astype({"age": float}),
    Schema([Variable("age", "continuous"), Variable("school", "ordinal"), Variable("wage", "continuous")]),
)


def when(variable: str, then: Condition, **given: object) -> ConditionalEdit:
    return ConditionalEdit(name="rule", when=(Condition(variable=variable, **given),), then=then)


WORKS = Condition(variable="wage", lower=5)
ACADEMIC = Condition(variable="school", values=(2, 3))
CASES: list[tuple[Edit, float]] = [
    (SetEdit(name="rule", variable="school", values=(0, 2, 3)), 1.0),
    (SetEdit(name="rule", variable="school", values=(2, 3)), 0.5),
    (BoundEdit(name="rule", variable="age", lower=12, upper=31), 0.625),
    (when("school", WORKS, values=(2, 3)), 0.75),
    (when("school", WORKS, values=(1, 2, 3)), 0.75),
    (when("school", WORKS, lower=2), 0.75),
    (when("age", WORKS, lower=20), 0.75),
    (when("age", WORKS, lower=18, upper=31), 0.875),
    (when("wage", Condition(variable="school", values=(3,)), lower=5), 0.75),
    (when("wage", Condition(variable="age", upper=14), lower=5), 0.6875),
    (when("wage", Condition(variable="school", lower=2, missing=True), lower=5), 0.75),
    (LinearEdit(name="rule", terms={"wage": 1}, relation=">=", constant=5, when=(ACADEMIC,)), 0.75),
]


@pytest.mark.parametrize(("edit", "share"), CASES)
def test_what_satisfied_the_edit_satisfies_it_in_coarser_levels(edit: Edit, share: float) -> None:
    found, lost = coarser(EditSet([edit]), (SCHOOL, AGE))
    assert not lost
    satisfied = found.satisfied(recoded(TABLE, (SCHOOL, AGE)).frame)
    assert satisfied[edit.holds(TABLE.frame)].all()
    # Of all combinations, those that the coarser edit allows: no edit that says more follows from the levels alone.
    assert satisfied.mean() == share


@pytest.mark.parametrize(
    "edit",
    [
        LinearEdit(name="rule", terms={"age": 1, "wage": 1}, relation="<=", constant=45),
        when("school", WORKS, values=(0, 2)),
        when("age", WORKS, lower=12, upper=14),
        when("age", WORKS, missing=True),
        when("wage", Condition(variable="age", values=(3,)), lower=5),
    ],
)
def test_what_coarser_levels_do_not_tell_is_left_out_by_name(edit: Edit) -> None:
    found, lost = coarser(EditSet([edit, BoundEdit(name="wages", variable="wage", lower=0)]), (SCHOOL, AGE))
    assert lost == ("rule",)
    assert [e.name for e in found.edits] == ["wages"]


@pytest.mark.parametrize(
    "edit",
    [
        when("school", WORKS, values=(0, 1, 2, 3)),
        when("wage", Condition(variable="school", missing=True), lower=5),
        LinearEdit(name="rule", terms={"wage": 1}, relation=">=", constant=5, when=(ACADEMIC,)),
    ],
)
def test_one_level_for_all_also_holds_missing_values_and_says_nothing(edit: Edit) -> None:
    everyone = Recoding("school", dict.fromkeys(range(4), "*"))
    unknown = Microdata(TABLE.frame.assign(school=TABLE.frame["school"].where(TABLE.frame["age"] > 9)), TABLE.schema)
    found, _ = coarser(EditSet([edit]), (everyone,))
    assert found.satisfied(recoded(unknown, (everyone,)).frame)[edit.holds(unknown.frame)].all()


def test_a_release_holds_the_edits_in_the_levels_of_its_keys() -> None:
    draw = np.random.default_rng(1)
    age = draw.integers(0, 80, 400).astype(float)
    frame = pd.DataFrame({"age": age, "wage": np.where(age < 20, 0.0, draw.integers(10, 90, 400)), "zip": "1"})
    roles = {"age": "quasi-identifier"}
    kinds = {"zip": "nominal"}
    data = Microdata(frame, Schema([Variable(n, kinds.get(n, "continuous"), roles.get(n, "other")) for n in frame]))
    child = when("age", Condition(variable="wage", upper=0), upper=19)
    steps = (GlobalRecoding(k=20, hierarchies={"age": Intervals((20.0,))}), SequentialTrees())
    lost = LinearEdit(name="sum", terms={"age": 1, "wage": 1}, relation="<=", constant=500)
    whole = masked_records(Streams(), data, steps, EditSet([child, lost]))
    young = whole.released.frame["age"] < 15
    assert young.any()
    assert (whole.released.frame["wage"][young] <= 0).all()
    assert any("1 edit(s) about recoded variables" in note for note in whole.notes)
