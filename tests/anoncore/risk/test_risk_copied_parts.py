"""Parts of members beside values of others, in one released record."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable
from anoncore.risk import copied_parts
from anoncore.risk.copied_parts import with_halves
from anoncore.risk.partial_copies import ScoredHalves
from anoncore.risk.scores import Certainty

LEVELS = tuple("abcdef")
SCHEMA = Schema([Variable(f"level{j}", "nominal", levels=LEVELS) for j in range(3)] + [Variable("x", "continuous")])


def people(seed, n=600, size=1):
    """Return people whose levels follow a number, in units of a size."""
    draw = np.random.default_rng(seed)
    x = np.repeat(draw.normal(size=n // size), size)
    codes = np.clip(np.rint(x[:, None] + draw.normal(0, 1.2, (n, 3)) + 2.5), 0, 5).astype(int)
    table = {f"level{j}": np.array(LEVELS)[codes[:, j]] for j in range(3)} | {"x": x}
    data = Microdata(pd.DataFrame(table), SCHEMA)
    return data if size == 1 else data.with_units(np.repeat(np.arange(n // size), size))


def parts_of(a, release, b, **more):
    return copied_parts(a, release, b, rng=np.random.default_rng(3), **more)


def with_levels_of(members, others, share):
    rows = np.arange(int(share * len(others)))
    frame = others.frame.copy()
    frame.loc[rows, SCHEMA.names[:3]] = members.frame.loc[rows, SCHEMA.names[:3]]
    return Microdata(frame, others.schema)


def test_levels_of_members_beside_numbers_of_others_are_found():
    a, b, c = (people(seed) for seed in range(3))
    excess = [parts_of(a, with_levels_of(a, c, share), b).parts[0].excess for share in (0.0, 0.3, 1.0)]
    assert excess == sorted(excess)
    assert abs(excess[0]) < 2.5
    assert excess[-1] > 4.0


def test_independent_samples_have_the_standard_errors_that_are_stated():
    for size in (1, 3):
        found = [parts_of(*(people(3 * seed + i, 300, size) for i in range(3))) for seed in range(20)]
        assert 0.6 < np.std([one.parts[0].excess for one in found]) < 1.4
        assert found[0].n_members == 300 // size


def test_parts_are_each_tested_once_and_need_another_variable():
    a, b, c = (people(seed, 200) for seed in range(3))
    keys = {"levels": ["level0", "level1", "level2"], "levels and keys": ["level0", "x"]}
    assert [len(parts_of(a, c, b, quasi_identifiers=names).parts) for names in keys.values()] == [1, 2]
    numbers = [one.select(["level0", "x"]) for one in (a, c, b)]
    assert parts_of(*numbers, quasi_identifiers=["level0", "x"]) is None
    assert parts_of(a, c, people(5, 39)) is None


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_missing_values_are_values(missing):
    draw = np.random.default_rng(1)
    a, b, c = (
        Microdata(one.frame.mask(draw.random(one.frame.shape) < missing), SCHEMA)
        for one in (people(seed) for seed in range(3))
    )
    assert parts_of(a, with_levels_of(a, c, 1.0), b).p < 1e-3


def test_a_variable_without_any_value_breaks_no_figure():
    wider = Schema([*SCHEMA, Variable("empty", "continuous")])
    a, b, c = (Microdata(people(seed).frame.assign(empty=np.nan), wider) for seed in range(3))
    assert parts_of(a, with_levels_of(a, c, 1.0), b).parts[0].excess > 3


def test_a_release_that_holds_nobodys_part_shows_nothing():
    draw = np.random.default_rng(4)
    schema = Schema([Variable(name, "continuous") for name in "xyz"])
    a, c, b = (Microdata(pd.DataFrame(draw.normal(size=(200, 3)), columns=list("xyz")), schema) for _ in range(3))
    (found,) = parts_of(a, c, b, quasi_identifiers=["x", "y"]).parts
    assert (found.excess, found.p) == (0.0, 0.5)


def test_a_half_of_a_few_levels_adds_up_where_highest_scores_show_nothing():
    schema = Schema([Variable(f"v{j}", "nominal", levels=LEVELS) for j in range(10)])
    draw = np.random.default_rng(2)
    a, b, c = (
        Microdata(pd.DataFrame(draw.choice(list(LEVELS), (400, 10)), columns=schema.names), schema) for _ in "abc"
    )
    kept = np.argsort(draw.random((400, 10)), axis=1) < 5
    halves = Microdata(c.frame.mask(kept & (np.arange(400) < 280)[:, None], a.frame), schema)
    excess = []
    for release in (c, halves):
        scored = ScoredHalves.of(a, release, b, np.random.default_rng(1))
        part = with_halves(None, scored).parts[0]
        assert scored.attack(Certainty()).p > 0.01
        excess.append(part.excess)
    assert abs(excess[0]) < 2.5 < excess[1]
    few = ScoredHalves.of(a, c, b.take(np.arange(39)), np.random.default_rng(1))
    assert with_halves(None, few) is None
