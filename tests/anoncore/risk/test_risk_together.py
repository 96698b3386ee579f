"""Values taken together: a few copied variables are found, and other people's records are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.methods import SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import anonymize
from anoncore.risk.together import values_together as looked_for


def values_together(*tables, **options):
    return looked_for(*tables, rng=np.random.default_rng(0), **options)


NAMES = [f"x{i}" for i in range(8)]


def table(seed: int, n: int = 800, digits: int = 3) -> Microdata:
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(77).normal(size=(8, 8)) / 2 + np.eye(8)
    frame = pd.DataFrame((rng.normal(size=(n, 8)) @ mix).round(digits), columns=NAMES)
    frame["sex"] = rng.choice(["f", "m"], n)
    frame["land"] = rng.choice(list("abcdefgh"), n)
    variables = [Variable(name, "continuous") for name in NAMES]
    return Microdata(frame, Schema([*variables, Variable("sex", "binary"), Variable("land", "nominal")]))


@pytest.mark.parametrize("copied", [2, 3, 5])
def test_a_few_variables_copied_from_everybody_are_found(copied):
    original, reference, release = table(0), table(1), table(2)
    frame = release.frame.copy()
    frame[NAMES[:copied]] = original.frame[NAMES[:copied]].to_numpy()[::-1]
    found = values_together(original, Microdata(frame, release.schema), reference)
    assert found.verdict == "fail"
    assert set(found.pair) <= set(NAMES[:copied])
    assert found.released == 800
    assert found.lower > 0.9


def test_a_tenth_of_the_people_is_found_too():
    original, reference, release = table(0), table(1), table(2)
    frame = release.frame.copy()
    frame.loc[:99, NAMES[:2]] = original.frame.loc[:99, NAMES[:2]].to_numpy()
    assert values_together(original, Microdata(frame, release.schema), reference).verdict == "inconclusive"


def test_other_people_of_the_original_stand_for_a_reference():
    original, release = table(0), table(2)
    twice = original.frame.copy()
    twice.loc[:9, NAMES[:2]] = twice.loc[10:19, NAMES[:2]].to_numpy()
    frame = release.frame.copy()
    frame[NAMES[:2]] = twice[NAMES[:2]].to_numpy()[::-1]
    members = Microdata(twice, original.schema)
    assert values_together(members, release, members, within=True).verdict == "pass"
    found = values_together(members, Microdata(frame, release.schema), members, within=True)
    assert (set(found.pair), found.verdict, found.released) == (set(NAMES[:2]), "fail", 800)
    # Who shares both values with another person is found among these, too.
    assert found.reference == 20
    one_household = members.with_units([*range(10), *range(10), *range(20, 800)])
    alone = values_together(members, Microdata(frame, release.schema), one_household, within=True)
    assert alone.reference == 0


@pytest.mark.parametrize("digits", [0, 1, 3])
def test_other_peoples_records_are_never_held_against_a_release(digits):
    failed = sum(
        values_together(
            *(table(10 * seed + i, n=400, digits=digits) for i in (0, 1, 2))
        ).verdict == "fail"
        for seed in range(20)
    )  # fmt: skip
    assert failed == 0


def test_swapping_leaves_no_pair_together():
    original, reference = table(0), table(1)
    for seed in range(3):
        release = anonymize(original, SpectralSwap(), rng=np.random.default_rng(seed)).data
        found = values_together(original, release, reference)
        assert (found.verdict, found.n_pairs >= 20) == ("pass", True)
        assert found.excess < 0.02


def test_exact_values_handed_out_anew_are_no_copies():
    """Shuffling gives everybody's exact values to others; sums follow their terms, and fix nobody."""
    original, reference = table(0), table(1)
    rng = np.random.default_rng(4)
    for share in (False, True):
        frame = original.frame.copy()
        for name in NAMES:
            frame[name] = rng.permutation(frame[name].to_numpy())
        tables = [original.frame, frame, reference.frame]
        if share:
            tables = [t.assign(x1=t["x0"] * 2) for t in tables]
        one, release, other = (Microdata(t, original.schema) for t in tables)
        assert values_together(one, release, other).verdict == "pass"


def test_levels_alone_point_at_nobody_and_gaps_are_not_found():
    original = table(0)
    few = original.select(["sex", "land"])
    assert values_together(few, few, table(1).select(["sex", "land"])).n_pairs == 0
    frame = original.frame.copy()
    frame[NAMES] = np.nan
    empty = Microdata(frame, original.schema)
    assert values_together(empty, empty, table(1)).verdict == "pass"


def test_the_count_is_that_of_a_plain_loop():
    original, release, reference = (table(seed, n=2000, digits=2).select(NAMES[:2]) for seed in (3, 4, 5))
    found = values_together(original, release, reference)
    assert found.pair == ("x0", "x1")
    assert found.released > 0
    for side, count in ((release, found.released), (reference, found.reference)):
        there = set(map(tuple, side.frame.to_numpy()))
        assert count == sum(tuple(row) in there for row in original.frame.to_numpy())


def wide(seed: int, columns: int, n: int = 60) -> Microdata:
    names = [f"w{i}" for i in range(columns)]
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, columns)).round(3), columns=names)
    return Microdata(frame, Schema([Variable(name, "continuous") for name in names]))


def test_every_pair_of_a_wide_table_is_looked_at_in_seconds():
    original, release, reference = (wide(seed, 400) for seed in range(3))
    frame = release.frame.copy()
    frame[["w7", "w311"]] = original.frame[["w7", "w311"]].to_numpy()[::-1]
    found = values_together(original, Microdata(frame, release.schema), reference)
    assert (found.pair, found.verdict) == (("w7", "w311"), "fail")
    assert found.n_pairs == found.n_possible == 400 * 399 // 2


def test_of_too_many_pairs_some_are_drawn_and_the_result_says_so(monkeypatch):
    monkeypatch.setattr("anoncore.risk.together._WORK", 0)
    monkeypatch.setattr("anoncore.risk.together._AT_LEAST", 200)
    original, release, reference = (wide(seed, 40) for seed in range(3))
    found = values_together(original, release, reference)
    assert (found.n_pairs, found.n_possible) == (200, 780)
    assert found == values_together(original, release, reference)
    copied = values_together(original, original, reference)
    assert copied.verdict == "fail"


def test_missing_values_and_levels_are_counted_as_by_a_plain_loop():
    def holed(seed):
        draw = np.random.default_rng(seed)
        frame = pd.DataFrame({"a": draw.integers(0, 60, 300).astype(float), "b": draw.integers(0, 50, 300)})
        frame = frame.assign(b="l" + frame.b.astype(str)).mask(draw.random((300, 2)) < 0.1)
        return Microdata(frame, Schema([Variable("a", "continuous"), Variable("b", "nominal")]))

    original, release, reference = map(holed, range(3))
    found = values_together(original, release, reference)
    for side, count in ((release, found.released), (reference, found.reference)):
        there = set(map(tuple, side.frame.dropna().astype(object).to_numpy()))
        assert count == sum(tuple(row) in there for row in original.frame.dropna().astype(object).to_numpy())
    assert found.released > 0
