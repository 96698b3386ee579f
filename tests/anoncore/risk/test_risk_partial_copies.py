"""A random half of a member's values beside those of somebody else, in one released record."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable
from anoncore.kernels.agreement import agreement_sums
from anoncore.risk import partial_copies

LEVELS = tuple("abcdefgh")
NAMES = [f"v{j}" for j in range(12)]
SCHEMA = Schema([Variable(n, "nominal", levels=LEVELS) for n in NAMES[:9]] + [Variable(n, "continuous") for n in "xyz"])


def people(seed, n=400):
    """Return people each of whose variables is associated with the one before."""
    draw = np.random.default_rng(seed)
    hidden = draw.normal(size=(n, 13))
    hidden = hidden[:, 1:] + 0.7 * hidden[:, :-1]
    codes = np.clip(np.rint(2.0 * hidden[:, :9] + 3.5), 0, 7).astype(int)
    frame = pd.DataFrame(np.array(LEVELS)[codes], columns=NAMES[:9])
    frame[list("xyz")] = np.round(hidden[:, 9:], 1)
    return Microdata(frame.mask(draw.random(frame.shape) < 0.03), SCHEMA)


def with_halves(release, members, share):
    draw, frame = np.random.default_rng(9), release.frame.copy()
    for row in range(int(share * len(frame))):
        names = draw.choice(frame.columns, 6, replace=False)
        frame.loc[row, names] = members.frame.loc[row, names]
    return Microdata(frame, SCHEMA)


def attack(a, release, b):
    found = partial_copies(a, release, b, rng=np.random.default_rng(1))
    assert found is not None
    return found.worst.attack


def test_random_halves_of_one_record_in_ten_are_found():
    a, b, c = (people(seed) for seed in range(3))
    top = [attack(a, with_halves(c, a, share), b).top for share in (0.0, 0.1)]
    assert top[0].p > 0.05
    assert top[1].p < 1e-4


def test_independent_samples_are_distinguished_by_chance_alone():
    areas, p = [], []
    for seed in range(30):
        found = attack(*(people(100 + 3 * seed + side, 150) for side in (0, 1, 2)))
        areas.append(found.area.auc)
        p.append(found.top.p)
    assert abs(np.mean(areas) - 0.5) < 0.02
    assert np.mean(np.array(p) < 0.05) < 0.15


def test_members_and_non_members_are_treated_alike():
    a, b, c = (people(seed, 200) for seed in range(3))
    there, back = attack(a, c, b).area.auc, attack(b, c, a).area.auc
    assert there + back == pytest.approx(1.0)


def test_one_variable_is_enough_and_missing_or_constant_ones_break_nothing():
    a, b, c = (people(seed, 60) for seed in range(3))
    assert 0.4 < attack(*(t.select(["v0"]) for t in (a, c, b))).area.auc < 0.6
    schema = Schema([*SCHEMA, Variable("empty", "continuous"), Variable("one", "continuous")])
    wider = [Microdata(t.frame.assign(empty=np.nan, one=7.0), schema) for t in (a, c, b)]
    assert 0.0 <= attack(*wider).area.auc <= 1.0


def test_of_many_variables_some_are_drawn():
    draw, names = np.random.default_rng(0), [f"n{j}" for j in range(90)]
    schema = Schema([Variable(n, "continuous") for n in names])
    a, c, b = (Microdata(pd.DataFrame(draw.integers(4, size=(80, 90)) * 1.0, columns=names), schema) for _ in range(3))
    halves = Microdata(c.frame.assign(**{n: a.frame[n] for n in names[::2]}), schema)
    assert attack(a, halves, b).area.auc == 1.0


def test_sums_are_what_a_loop_finds():
    draw = np.random.default_rng(3)
    asked, rows = (draw.integers(0, 3, size).astype(np.int32) for size in ((20, 5), (5, 13)))
    weights, parents = draw.normal(size=(2, 5, 13)).astype(np.float32), np.array([-1, 0, 0, 2, 3], dtype=np.int32)
    none, weights[1, 0] = draw.normal(size=13).astype(np.float32), 0.0
    expected = np.tile(none, (20, 1))
    for t, y, j in product(range(20), range(13), range(5)):
        if asked[t, j] == rows[j, y]:
            p = parents[j]
            expected[t, y] += weights[0, j, y] + (weights[1, j, y] if asked[t, p] == rows[p, y] else 0.0)
    np.testing.assert_allclose(agreement_sums(asked, parents, rows, weights, none), expected, rtol=1e-4, atol=1e-5)
