"""Which units are behind a release of a series: a secret part, drawn anew, by the stated law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.members import recognised
from tasks.intake.series import SeriesSection, draw
from tasks.intake.split import Split
from tasks.intake.units import hashed_parts, keys_of, units_of
from tasks.record.dossier import SplitSummary
from tasks.record.members import counted, members_of

UNITS = 120
REGISTER = SeriesSection(kind="register")


def table() -> Microdata:
    """Return two records of each unit."""
    frame = pd.DataFrame({"x": np.arange(2.0 * UNITS), "a": ["n", "y"] * UNITS})
    return Microdata(frame, Schema([Variable("x", "continuous"), Variable("a", "binary")])).with_units(
        np.repeat(np.arange(UNITS), 2)
    )


def started(home: Path) -> Run:
    return Run.start(Home.locate(home), SeedSection())


def test_whole_units_are_left_out_by_the_law_and_others_every_time(tmp_path: Path) -> None:
    drawn = []
    for _ in range(2):
        run = started(tmp_path)
        summary = SplitSummary("leave-one-out", 2 * UNITS, 2 * UNITS - 1, 0, UNITS, UNITS - 1, "", 0)
        split = draw(run, Split(run.workspace.store("source", table()), None, summary=summary), REGISTER)
        data = split.original.load()
        assert (split.summary.original, split.summary.original_units, split.summary.unused) == (90, 45, 150)
        assert (np.unique(data.units, return_counts=True)[1] == 2).all()
        drawn.append(set(data.units))
    assert drawn[0] != drawn[1]
    (note,) = REGISTER.notes(UNITS)
    assert note.startswith("of 120 statistical units 75 were left out")
    assert "too few" not in note
    assert SeriesSection(kind="snapshot").omitted(UNITS) == len(SeriesSection().notes(UNITS)) == 0


def test_fewer_left_out_than_hide_exact_figures_are_too_few() -> None:
    few = SeriesSection(kind="panel", left_out=199)
    assert (few.draws, few.too_few) == (True, 199)
    assert "too few to hide figures that are kept exactly" in few.notes(UNITS)[-1]
    enough = (REGISTER, SeriesSection(kind="snapshot", left_out=1), SeriesSection(kind="register", left_out=500))
    assert [section.too_few for section in enough] == [0, 0, 0]


def test_units_are_recognised_whatever_the_order_and_the_writing(tmp_path: Path) -> None:
    run, data = started(tmp_path), table()
    keys = pd.DataFrame({"person": [f"p{i}" for i in np.repeat(np.arange(UNITS), 2)]})
    now = recognised(run, data, keys)
    later = data.take(np.random.default_rng(1).permutation(2 * UNITS)[:-3])
    later = later.with_units(later.units)
    frame = later.frame.assign(x=later.frame["x"].where(later.frame["x"] > 1, 7.0))
    later = Microdata(frame, data.schema, later.units)
    then = recognised(run, later, keys)
    assert counted(then.in_common(now)) == then.count
    changed = then.changed(now)
    assert changed is not None
    assert 1 <= counted(changed) <= 5
    now.keep(run.home, "r-1")
    stored = members_of(run.home, "r-1")
    assert stored is not None
    assert np.array_equal(np.concatenate([*stored.identities()]), np.sort(*now.identities()))
    assert not np.any([*now.changed(stored)])
    assert members_of(run.home, "r-2") is None
    run.home.digest_key.unlink()
    assert members_of(run.home, "r-1") is None, "what was made with a lost key is not known any more"
    others = recognised(started(tmp_path / "other"), data, keys)
    assert not counted(now.in_common(others)), "another home has another key"
    assert replace(then, variables=now.variables[:1]).changed(now) is None, "other variables: not known"


def test_who_has_no_identifier_is_not_known_to_other_homes(tmp_path: Path) -> None:
    run, data = started(tmp_path), table()
    person = np.repeat(np.arange(UNITS), 2)
    keys = pd.DataFrame({"person": [f"p{i}" if i >= 7 else None for i in person]})
    offices = [recognised(one, data, keys, shared="s" * 32) for one in (run, started(tmp_path / "other"))]
    assert np.array_equal(*(one.shared for one in offices))
    assert offices[0].shared_sizes.tolist() == [UNITS - 7]


def test_offices_that_name_units_by_other_keys_recognise_those_they_have_in_common(tmp_path: Path) -> None:
    data, person = table(), np.repeat(np.arange(UNITS), 2)
    keys = pd.DataFrame({"person": [f"p{i}" for i in person], "household": [f"h{i // 2}" for i in person]})
    one, other = (
        recognised(started(tmp_path / office), data.with_units(units_of(keys[columns])), keys[columns], shared="s" * 32)
        for office, columns in (("north", ["person"]), ("south", ["person", "household"]))
    )
    assert other.shared_sizes.tolist() == [UNITS, UNITS // 2]
    assert np.array_equal(one.by_key[0], other.by_key[0])


def test_offices_that_name_a_unit_by_the_same_columns_in_another_order_recognise_it(tmp_path: Path) -> None:
    data, person = table(), np.repeat(np.arange(UNITS), 2)
    frame = pd.DataFrame({"hid": [f"h:{i // 2}" for i in person], "line": [f"{i % 2}" for i in person]})
    north, south = (
        recognised(started(tmp_path / office), data, keys_of(frame, [columns]), shared="s" * 32)
        for office, columns in (("north", ("hid", "line")), ("south", ("line", "hid")))
    )
    assert north.shared_sizes.tolist() == [UNITS]
    assert np.array_equal(north.shared, south.shared)


@pytest.mark.parametrize("columns", [("pid",), ("pid", "line")])
def test_offices_that_write_identifiers_otherwise_recognise_them(tmp_path: Path, columns: tuple[str, ...]) -> None:
    data, person = table(), np.repeat(np.arange(UNITS), 2)
    frame = pd.DataFrame({"pid": [f"p{i:06d}" for i in person], "line": [f"{i % 2}" for i in person]})
    south = frame.assign(pid=[f" P-{i:06d}" for i in person], line=[f"0{i % 2}" for i in person])
    other = frame.assign(pid=[f"p{i:06d}" for i in person + UNITS])
    one, same, apart = (
        recognised(started(tmp_path / office), data, keys_of(own, [columns]), shared="s" * 32).shared
        for office, own in (("north", frame), ("south", south), ("east", other))
    )
    assert np.array_equal(one, same)
    assert not np.isin(one, apart).any()


def test_a_column_whose_name_is_like_that_of_several_is_read_as_one(tmp_path: Path) -> None:
    values = ["P1", "3:ab", "²:x", "", ":", "1:a2:bc", "99999999999:z"]
    (one,) = hashed_parts(pd.DataFrame({"home and work": values}))
    assert len(set(one.tolist())) == len(values)


def test_units_that_a_second_key_names_otherwise_are_not_taken_for_others(tmp_path: Path) -> None:
    run, data, person = started(tmp_path), table(), np.repeat(np.arange(UNITS), 2)
    keys = pd.DataFrame({"person": [f"p{i}" for i in person], "household": [f"h{i // 2}" for i in person]})
    one, other, apart = (
        recognised(run, data.with_units(units_of(own)), own)
        for own in (keys[["person"]], keys, keys.replace("^", "other ", regex=True))
    )
    assert not counted(other.in_common(one))
    assert other.names_otherwise(one, 5)
    assert not apart.names_otherwise(one, 5)


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:300], lambda raw: raw[:200] + bytes(100)])
def test_the_units_of_a_damaged_file_are_not_known(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    run = started(tmp_path)
    recognised(run, table(), None).keep(run.home, "r-1")
    file = run.home.members_of("r-1")
    file.write_bytes(damage(file.read_bytes()))
    assert members_of(run.home, "r-1") is None


def test_without_an_identifier_a_record_is_its_values(tmp_path: Path) -> None:
    run, data = started(tmp_path), table().with_units(None)
    doubled = data.take(np.r_[0, 0, np.arange(len(data))])
    now, then = recognised(run, data, None), recognised(run, doubled, None)
    assert counted(then.in_common(now)) == len(data), "a copy is one more unit"
    assert not np.any([*then.changed(now)])
