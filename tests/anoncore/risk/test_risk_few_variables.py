"""Density ratios in a few variables, and in one group of people: who is found, and that nobody is found by chance."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from anoncore.encoding import EncodedTables
from anoncore.microdata import ComparedUnits, Microdata, Schema, Variable
from anoncore.risk import measure_risk
from anoncore.risk._values import drawn_records
from anoncore.risk.chosen_variables import by_chosen_variables
from anoncore.risk.coded_people import UNIT, CodedPeople
from anoncore.risk.contrasts import Contrasts
from anoncore.risk.density import density
from anoncore.risk.one_group import groupings, in_one_group
from anoncore.risk.scores import Certainty

NAMES = [f"x{j}" for j in range(12)]
SCHEMA = Schema([Variable(name, "continuous") for name in NAMES])


def halves(n, draw):
    order = draw.permutation(2 * n)
    return [np.sort(order[:n]), np.sort(order[n:])]


def coded(members, released, others, numeric=None):
    """Return tables of numbers from 0 to 1 as codes."""
    codes = [np.rint(UNIT * table).astype(np.int32) for table in (members, released, others)]
    of = np.ones(members.shape[1], dtype=bool) if numeric is None else numeric
    numbers = np.concatenate([members, others])[:, of], released[:, of]
    return CodedPeople(
        np.concatenate([codes[0], codes[2]]),
        np.ascontiguousarray(codes[1].T),
        of,
        len(members),
        numbers,
        tuple(f"v{j}" for j in range(members.shape[1])),
    )


def rng():
    return np.random.default_rng(5)


def area(scores, n):
    return (scores[:n, None] > scores[None, n:]).mean() + (scores[:n, None] == scores[None, n:]).mean() / 2.0


@pytest.mark.parametrize("kept", [(2, 5, 9), (0, 1, 2, 3, 4, 5, 6, 7)])
def test_what_is_kept_of_each_person_is_found_beside_the_values_of_others(kept):
    draw = np.random.default_rng(len(kept))
    members, others, released = draw.normal(size=(3, 1500, 12))
    released[:, kept] = members[:, kept] + 0.1 * draw.normal(size=(1500, len(kept)))
    a, c, b = (Microdata(pd.DataFrame(t, columns=NAMES), SCHEMA) for t in (members, released, others))
    density = measure_risk(a, c, b, rng=np.random.default_rng(1)).density
    found = {one.name: one.attack.area for one in density.attacks}
    assert found["density ratio, variables chosen by the other half of the people"].lower > 0.55
    if len(kept) == 3:
        assert density.driving == density.chosen == tuple(NAMES[at] for at in kept)
        assert found["density ratio, 1 neighbour"].auc < 0.55


@pytest.mark.parametrize("masked", [np.add, np.multiply])
def test_one_offset_or_factor_for_several_numbers_of_a_person_hides_nobody(masked):
    tables, draw = [], np.random.default_rng(8)
    for _ in range(2):
        first = np.exp(draw.normal(10.0, 0.7, 1500))
        tables.append(np.column_stack([first, *(first * np.exp(draw.normal(-1.0, 0.4, 1500)) for _ in range(3))]))
    members, others = tables
    unknown = draw.uniform(0.0, 2e4, 1500) if masked is np.add else np.exp(draw.normal(0.0, 0.5, 1500))
    a, c, b = (
        Microdata(pd.DataFrame(t, columns=NAMES[:4]), SCHEMA.select(NAMES[:4]))
        for t in (members, masked(members, unknown[:, None])[draw.permutation(1500)], others)
    )
    found = {one.name: one.attack.area for one in measure_risk(a, c, b, rng=rng()).density.attacks}
    assert found["density ratio, variables chosen by the other half of the people"].lower > 0.75


def test_an_index_of_two_numbers_and_residuals_of_a_regression_are_tried():
    draw = np.random.default_rng(3)

    def people():
        height = np.exp(draw.normal(5.1, 0.05, 1500))
        index = np.exp(draw.normal(3.2, 0.2, 1500))
        x = draw.normal(size=(1500, 2))
        rest = draw.normal(size=(1500, 3)) @ np.array([[1.0, 0.4, 0.2], [0.0, 0.8, 0.3], [0.0, 0.0, 0.6]])
        return height, index, x, rest

    slopes = np.array([[0.8, -0.5, 0.3], [0.2, 0.6, -0.9]])
    members, others, strangers = people(), people(), people()

    def table(height, index, x, rest, kept):
        columns = dict(zip("abc", (x @ slopes + rest).T, strict=True))
        if kept == "index":
            columns = {"height": height, "weight": index * height**2 / 1e4}
        return pd.DataFrame(columns | {"x0": x[:, 0], "x1": x[:, 1]})

    for kept in ("index", "residuals"):
        released = (others[0], members[1], others[2], others[3]) if kept == "index" else (*others[:3], members[3])
        frames = [table(*one, kept) for one in (members, released, strangers)]
        schema = Schema([Variable(name, "continuous") for name in frames[0]])
        a, c, b = (Microdata(frame, schema) for frame in frames)
        density = measure_risk(a, c, b, rng=rng()).density
        found = {one.name: one.attack.area for one in density.attacks}
        assert found["density ratio, variables chosen by the other half of the people"].lower > 0.6
        assert {"height", "weight"} <= set(density.driving) if kept == "index" else density.driving


def test_nobody_is_scored_by_a_choice_that_knew_them():
    areas = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        members, others, released = draw.random(size=(3, 120, 6)).round(1)
        chosen = by_chosen_variables(coded(members, released, others), halves(120, draw), draw)
        areas.append(area(chosen.scores, 120))
    error = np.std(areas) / np.sqrt(len(areas))
    assert abs(np.mean(areas) - 0.5) < 3.0 * error
    assert np.std(areas) == pytest.approx(np.sqrt(1.0 / 6.0 / 120), rel=0.4)


def test_too_few_people_or_variables_are_not_tried():
    draw = np.random.default_rng(0)
    tables = draw.random(size=(3, 30, 4))
    assert by_chosen_variables(coded(*tables), halves(30, draw), draw) is None
    levels = coded(*draw.integers(0, 3, size=(3, 100, 2)).astype(float), numeric=np.zeros(2, dtype=bool))
    assert by_chosen_variables(levels, halves(100, draw), draw) is not None
    tables = draw.random(size=(3, 100, 1))
    assert by_chosen_variables(coded(*tables), halves(100, draw), draw) is None


def test_codes_tell_levels_missing_values_and_what_nobody_holds_apart():
    schema = Schema([Variable("x", "continuous"), Variable("level", "nominal", levels=list("abc"))])
    tables = [
        Microdata(pd.DataFrame({"x": x, "level": level}), schema)
        for x, level in (([1.0, 2.0], ["a", None]), ([9.0], ["c"]), ([np.nan, 3.0], ["b", "a"]))
    ]
    found = CodedPeople.of(*tables)
    people, rows = found.levels
    assert people.ravel().tolist() == [1, 0, 2, 1]
    assert rows.ravel().tolist() == [3]
    assert found.rows[0, 0] == UNIT
    (_, by_quarters), (_, by_level) = found.groups(np.random.default_rng(0))
    assert by_level.tolist() == [1, 0, 2, 1]
    assert by_quarters.tolist() == [1, 2, 0, 4]


def test_members_of_one_group_stand_out():
    draw = np.random.default_rng(2)
    group, score = draw.integers(0, 20, 4000), draw.normal(size=4000)
    score[:2000][group[:2000] == 7] += 2.0
    found = in_one_group({"other": draw.normal(size=4000), "score": score}, [(group, None)], 2000, Certainty(), draw)
    assert found.p < 1e-8
    assert found.accepted_p < 1e-6
    assert found.n < 200
    assert found.precision > 0.8 > found.lower > 0.5


def test_groups_by_chance_do_not():
    p = []
    for seed in range(150):
        draw = np.random.default_rng(seed)
        groups = [(draw.integers(0, k, 800), draw.normal(size=800)) for k in (2, 5, 8)]
        p.append(in_one_group({"score": draw.normal(size=800)}, groups, 400, Certainty(), draw).p)
    assert np.mean(np.array(p) < 0.05) < 0.08
    assert kstest(p, "uniform", alternative="greater").pvalue > 0.01


def test_a_group_needs_twenty_units_of_either_side_and_at_most_half_of_all():
    draw = np.random.default_rng(3)
    score, few = {"score": draw.normal(size=200)}, np.repeat([0, 1, 1, 0], [19, 81, 81, 19])
    assert in_one_group(score, [(few, None)], 100, Certainty(), draw).n == 0
    assert in_one_group(score, [(np.zeros(200, dtype=int), None)], 100, Certainty(), draw).p == 1.0
    records = ComparedUnits(np.arange(100) // 4, np.arange(100) // 4)
    alternating = np.arange(200) % 2
    assert in_one_group(score, [(alternating, None)], 100, Certainty(), draw).n == 50
    # Twenty-five units, of whom each has two records in either group, are more than half of all.
    assert in_one_group(score, [(alternating, None)], 100, Certainty(units=records), draw).n == 0


def test_records_of_a_unit_do_not_add_to_what_is_shown():
    draw = np.random.default_rng(4)
    group, score = np.tile(np.repeat(np.arange(4), 60), 2), draw.normal(size=480)
    score[:60] += 2.0
    alone, many = (
        in_one_group(
            {"score": np.repeat(score, times)},
            [(np.repeat(group, times), None)],
            240 * times,
            Certainty(units=units),
            rng(),
        )
        for times, units in (
            (1, ComparedUnits()),
            (5, ComparedUnits(np.repeat(np.arange(240), 5), np.repeat(np.arange(240), 5))),
        )
    )
    assert (alone.n, alone.members, alone.p) == (many.n, many.members, many.p)


def test_pairs_of_levels_are_groups_and_of_many_levels_are_not():
    draw = np.random.default_rng(6)
    levels = np.column_stack([draw.integers(0, 3, 900), draw.integers(0, 4, 900), draw.integers(0, 50, 900)])
    codes = (UNIT * levels).astype(np.int32)
    groups = list(
        CodedPeople(
            codes, codes.T, np.zeros(3, dtype=bool), 450, (levels[:, :0], levels[:, :0]), ("a", "b", "c")
        ).groups(draw)
    )
    assert [(at, len(np.unique(one))) for at, one in groups] == [(0, 3), (1, 4), (2, 50), (None, 12)]
    together = (levels[:, 0] == 1) & (levels[:, 1] == 2)
    score = draw.normal(size=900)
    score[:450][together[:450]] += 3.0
    found = in_one_group({"score": score}, ((one, None) for _, one in groups), 450, Certainty(), draw)
    assert found.p < 1e-4
    assert found.n == together.sum() // 2


def test_equal_scores_tell_nothing_of_few_members():
    p = []
    for seed in range(100):
        draw = np.random.default_rng(seed)
        group, score = draw.integers(0, 4, 1600), np.zeros(1600)
        score[draw.permutation(1600)[:20]] = 1.0
        p.append(in_one_group({"score": score}, [(group, None)], 200, Certainty(), draw).p)
    assert np.mean(np.array(p) < 0.05) < 0.1
    assert min(p) > 1e-4


def test_numbers_near_members_of_one_level_are_told_among_its_records():
    draw = np.random.default_rng(9)
    tables = [
        pd.DataFrame(draw.normal(size=(2000, 4)), columns=list("abcd")).assign(level=draw.choice(list("xyz"), 2000))
        for _ in range(3)
    ]
    members, others, released = tables
    here, there = (np.flatnonzero(side["level"] == "y")[:200] for side in (members, released))
    noise = 0.1 * draw.normal(size=(200, 4))
    released.loc[there, list("abcd")] = members.loc[here, list("abcd")].to_numpy() + noise
    schema = Schema([*(Variable(name, "continuous") for name in "abcd"), Variable("level", "nominal")])
    a, c, b = (Microdata(one, schema) for one in (members, released, others))
    coded_people = CodedPeople.of(a, c, b)
    scores = {"by chance": draw.normal(size=4000)}
    found = in_one_group(scores, groupings(coded_people, halves(2000, draw), draw), 2000, Certainty(), draw)
    assert found.p < 1e-8
    assert in_one_group(scores, [(one, None) for _, one in coded_people.groups(draw)], 2000, Certainty(), draw).p > 1e-3


def test_what_is_published_of_a_group_is_no_share_of_it():
    draw = np.random.default_rng(3)
    group, score = draw.integers(0, 5, 1200), draw.normal(size=1200)
    score[:600][group[:600] == 1] += 2.0
    found = in_one_group({"score": score}, [(group, None)], 600, Certainty(), draw)
    assert found.baseline == 0.5
    assert found.n == (group == 1).sum() // 2


def test_records_are_drawn_by_whole_units():
    units = np.repeat(np.arange(40), np.arange(40) % 5 + 1)
    for seed in range(5):
        drawn = drawn_records(units, len(units), 50, np.random.default_rng(seed))
        assert 40 < len(drawn) <= 50
        assert (
            np.bincount(units[drawn], minlength=40)[np.unique(units[drawn])] == np.unique(units[drawn]) % 5 + 1
        ).all()
    assert len(drawn_records(None, 100, 30, np.random.default_rng(0))) == 30


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_many_more_records_of_one_side_are_no_leak(correlation):
    draw = np.random.default_rng(12)

    def households(n):
        shared, own = draw.normal(size=(n, 3)), draw.normal(size=(10 * n, 3))
        rows = np.sqrt(correlation) * np.repeat(shared, 10, axis=0) + np.sqrt(1.0 - correlation) * own
        table = pd.DataFrame(rows, columns=NAMES[:3])
        return Microdata(table, SCHEMA.select(NAMES[:3])).with_units(np.repeat(np.arange(n), 10))

    a, b, c = households(150), households(1500), households(150)
    tables = EncodedTables.of(a, c, b)
    certainty = Certainty(units=tables.units)
    found = density(tables.x, tables.r, tables.y, certainty=certainty, rng=draw)
    assert found.worst.attack.area.lower < 0.55
    assert found.p > 1e-3


def amounts(draw, n):
    """Amounts of which one in ten is 0."""
    return np.where(draw.random((n, 8)) < 0.1, 0.0, np.exp(0.8 * draw.normal(size=(n, 8)) + 3.0))


@pytest.mark.parametrize("kept", ["total", "three", "twice", "product", "ratio"])
def test_sums_that_show_nothing_in_their_parts_are_found(kept):
    """They were extended one number at a time."""
    draw = np.random.default_rng(len(kept))
    members, released, others = (amounts(draw, 800) for _ in range(3))
    if kept in ("product", "ratio"):
        members, released, others = (table + 1.0 for table in (members, released, others))
        sign = 1.0 if kept == "product" else -1.0
        value = [np.log(table[:, 0]) + sign * np.log(table[:, 1]) for table in (members, released)]
        released[:, 0] *= np.exp(value[0] - value[1])
    else:
        parts = {"total": np.arange(8), "three": np.arange(3), "twice": np.arange(2)}[kept]
        weights = np.array([2.0, 1.0]) if kept == "twice" else np.ones(len(parts))
        sums = [table[:, parts] @ weights for table in (members, released)]
        released[:, parts] *= (sums[0] / np.where(sums[1] > 0.0, sums[1], 1.0))[:, None]
    chosen = by_chosen_variables(coded(members, released, others), halves(800, draw), draw)
    assert area(chosen.scores, 800) > 0.9


def test_as_many_sums_are_tried_as_can_be_sorted():
    draw = np.random.default_rng(0)
    members, released, others = (draw.normal(size=(200, 40)) for _ in range(3))
    for rows, numbers, wider in ((released, 40, True), (np.tile(released, (100, 1)), 35, False)):
        tried = Contrasts.of(coded(members, rows, others), draw).tried
        pairs = [tuple(at for at, _ in one) for one in tried if len(one) == 2]
        assert {one for one in pairs if one[1] < numbers} == set(combinations(range(numbers), 2))
        assert len(set(tried)) == len(tried)
        assert any(len(one) in (3, 4, 5) for one in tried) == wider
