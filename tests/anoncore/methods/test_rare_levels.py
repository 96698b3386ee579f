"""Redistributed rare levels: nothing marks their holders, frequencies and edits hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema, Variable
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
from anoncore.edits.model import EditSet
from anoncore.methods import RareLevels

PARAMS = RareLevels(k=10, action="redistribute")


def table(values, kind="nominal", units=None, **others) -> Microdata:
    schema = Schema([Variable("v", kind), *(Variable(name, "nominal") for name in others)])
    return Microdata(pd.DataFrame({"v": values, **others}), schema, units)


def redistributed(data: Microdata, seed: int = 0, edits: EditSet | None = None) -> anoncore.Release:
    release = anoncore.anonymize(data, PARAMS, rng=np.random.default_rng(seed), edits=edits or EditSet())
    assert all(check.holds for check in release.check())
    return release


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
def test_only_cells_with_a_rare_level_change_and_none_is_marked(kind):
    values = ["a"] * 300 + ["b"] * 100 + ["c"] * 9 + ["d"]
    release = redistributed(table(values, kind)).data
    assert release.schema["v"].levels == ("a", "b")
    assert release.frame["v"].tolist()[:400] == values[:400]
    assert not release.frame["v"].isna().any()


def test_cells_take_the_frequencies_of_the_levels_that_are_not_rare():
    values = ["a"] * 600 + ["b"] * 200 + [None] * 200 + [f"r{i}" for i in range(1000)]
    drawn = redistributed(table(values)).data.frame["v"].iloc[1000:].value_counts()
    # Standard deviations are √(1000 · 0.75 · 0.25) = 13.7.
    assert np.abs(drawn[["a", "b"]].to_numpy() - [750, 250]).max() < 55


def test_what_only_some_are_asked_for_stays_with_these():
    asked = redistributed(table([None] * 900 + ["a"] * 60 + ["r1"] * 5 + ["r2"] * 4)).data.frame["v"]
    assert (asked.notna() == (np.arange(969) >= 900)).all()


def test_missing_that_few_units_have_is_redistributed_by_itself_too():
    assert not redistributed(table(["a"] * 100 + ["b"] * 100 + [None] * 9)).data.frame["v"].isna().any()
    assert redistributed(table(["a"] * 100 + ["b"] * 100 + [None] * 10)).data.frame["v"].isna().sum() == 10


def test_a_binary_variable_keeps_no_trace_and_one_of_rare_levels_alone_is_empty():
    assert set(redistributed(table(["no"] * 1492 + ["yes"] * 8, "binary")).data.frame["v"]) == {"no"}
    assert redistributed(table([f"r{i}" for i in range(40)])).data.frame["v"].isna().all()


def test_the_note_is_the_same_with_and_without_a_rare_level():
    for action in ("merge", "suppress", "redistribute"):
        params = RareLevels(k=10, action=action)
        with_rare, without = (
            anoncore.anonymize(table(v), params, rng=np.random.default_rng(0)).notes
            for v in (["a"] * 99 + ["r"], ["a"] * 100)
        )
        assert with_rare == without


def test_levels_are_the_same_whether_one_person_or_nobody_holds_a_rare_one():
    schema = Schema([Variable("v", "nominal", levels=("a", "b", "r"))])
    held = [Microdata(pd.DataFrame({"v": ["a"] * 50 + ["b"] * 50 + last}), schema) for last in (["r"], ["a"])]
    assert [redistributed(data).data.schema["v"].levels for data in held] == [("a", "b")] * 2


def test_a_record_that_satisfied_the_edits_still_does_and_another_stays_free():
    v = ["wife"] * 100 + ["husband"] * 100 + ["twin", "aunt"] + ["wife"]
    sex = ["f"] * 100 + ["m"] * 100 + ["f", "m"] + ["m"]
    wife, husband = (Condition(variable="v", values=(level,)) for level in ("wife", "husband"))
    female, male = (Condition(variable="sex", values=(level,)) for level in ("f", "m"))
    pairs = ((wife, female), (husband, male))
    edits = EditSet(ConditionalEdit(name=str(when.values), when=(when,), then=then) for when, then in pairs)
    for seed in range(12):
        frame = redistributed(table(v, sex=sex), seed, edits).data.frame
        assert frame["v"].tolist()[-3:] == ["wife", "husband", "wife"]
