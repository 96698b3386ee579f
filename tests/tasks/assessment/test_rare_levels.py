"""Levels of one or two units of the source are found in a release in whatever form it names them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore.methods import OptimalBoxes, SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Threads
from anoncore.partitions.table import partitioned
from tasks.assessment.full_release import _holds_rare
from tasks.assessment.rare_levels import rare_levels_named
from tasks.common.partitions import StoredPartitions


def found_in(original, released, **given):
    return rare_levels_named(original, released, released, **given)


@pytest.mark.parametrize(
    ("original", "released", "found"),
    [
        (["a"] * 9 + ["b"] * 2, ["a"] * 9 + ["b"] * 2, ("v",)),
        (["a"] * 9 + ["b"] * 2, ["a"] * 11, ()),
        (["a"] * 9 + ["b"] * 3, ["a"] * 11 + ["b"], ()),
        (["a"] * 9 + [None] * 2, ["a"] * 10 + [None], ("v",)),
        (["a"] * 9 + [None] * 2, ["a"] * 11, ()),
    ],
    ids=["rare and released", "rare and gone", "held by three", "missing for two", "two filled"],
)
def test_levels_of_few_people_that_are_released_are_found(original, released, found):
    schema = Schema([Variable("v", "nominal", levels=("a", "b"))])
    tables = (Microdata(pd.DataFrame({"v": column}), schema) for column in (original, released))
    assert found_in(*tables) == found


def test_levels_are_counted_by_people():
    schema = Schema([Variable("v", "nominal", levels=("a", "b"))])
    frame = pd.DataFrame({"v": ["a"] * 9 + ["b"] * 6})
    records = Microdata(frame, schema)
    people = records.with_units([*range(9), 9, 9, 9, 10, 10, 10])
    assert found_in(records, records) == ()
    assert found_in(people, records) == ("v",)


def test_values_that_are_missing_together_in_few_people_and_their_rows_are_found():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame.loc[:20, "a"] = frame.loc[10:40, "b"] = np.nan
    frame.loc[[5, 6], "c"] = frame.loc[60:90, "c"] = np.nan
    schema = Schema([Variable(name, "continuous") for name in frame])
    original = Microdata(frame, schema)
    # Two people lack a and c, and nobody else both; the same people's rows lack them, too, or those of others do.
    kept = Microdata(frame.where(frame.isna(), 0.0), schema)
    moved = Microdata(kept.frame.set_axis(rng.permutation(200)), schema)
    assert found_in(original, kept, rows_linked=True) == ("a", "c")
    assert found_in(original, kept) == ()
    assert found_in(original, moved, rows_linked=True) == ()
    # Nothing is compared where a release has other variables, as probabilities of levels.
    renamed = Microdata(frame[["a"]].rename(columns={"a": "z"}), Schema([Variable("z", "continuous")]))
    assert found_in(original, renamed, rows_linked=True) == ()


def staff(rare):
    """Numbers and a job, which two people have that nobody else has, or nobody."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(300, 2)).round(2), columns=["u", "v"])
    frame["job"] = rng.choice(["clerk", "nurse", "cook"], 300)
    frame.loc[[4, 5][: 2 * rare], "job"] = "pilot"
    frame.loc[[7, 8][: 2 * rare], "desk"] = None
    frame["desk"] = frame.get("desk", pd.Series(dtype=object)).where(frame.index.isin([7, 8][: 2 * rare]), "yes")
    kinds = {"u": "continuous", "v": "continuous", "job": "nominal", "desk": "nominal"}
    return Microdata(frame, Schema(Variable(name, kind) for name, kind in kinds.items()))


FORMS = {"sets": OptimalBoxes(k=30), "probabilities": SpectralSwap(released="probabilities")}


@pytest.mark.parametrize("rare", [True, False])
@pytest.mark.parametrize(("form", "found"), [("sets", ("job", "desk")), ("probabilities", ("job",))])
def test_they_are_found_in_sets_and_in_the_names_of_columns(form, found, rare):
    data = staff(rare)
    release = anoncore.anonymize(data, FORMS[form], rng=np.random.default_rng(0))
    measured = release.points or release.data
    assert rare_levels_named(data, measured, release.data, rows_linked=True) == (found if rare else ())
    threads = Threads()
    sides = {"original": data, "measured": measured, "released": release.data}
    stored = [StoredPartitions(partitioned(threads.store, name, side, 100), threads) for name, side in sides.items()]
    assert tuple(name for name in data.schema.names if _holds_rare(name, *stored)) == (found if rare else ())
