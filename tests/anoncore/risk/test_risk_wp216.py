"""Singling out, linkability, densities and classifiers: tables with known answers, non-members as control."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable, measure_risk
from anoncore.kernels.agreement import sole_units
from anoncore.microdata import ComparedUnits
from anoncore.risk._proportions import proportion
from anoncore.risk._residual import residual_risk
from anoncore.risk.density import density
from anoncore.risk.linkability import linkability
from anoncore.risk.scores import Certainty
from anoncore.risk.singling_out import SinglingOutBySize, _Singled, singling_out

LEVELS = tuple("abcdefgh")
SCHEMA = Schema(
    [Variable(f"number{j}", "continuous") for j in range(4)]
    + [Variable(f"level{j}", "nominal", levels=LEVELS) for j in range(6)]
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    weights = np.array([0.4, 0.2, 0.15, 0.1, 0.07, 0.05, 0.02, 0.01])
    table = {f"number{j}": np.round(rng.gamma(2.0, 3.0, n), 1) for j in range(4)}
    table |= {f"level{j}": rng.choice(LEVELS, n, p=weights) for j in range(6)}
    frame = pd.DataFrame(table)
    return Microdata(frame.mask(rng.random(frame.shape) < 0.03), SCHEMA)


def rng():
    return np.random.default_rng(11)


def flipped(members, others, share, seed=7):
    """Return the members' records with a share of the cells taken from other people."""
    replace = np.random.default_rng(seed).random(members.frame.shape) < share
    return Microdata(members.frame.mask(replace, others.frame), SCHEMA)


@pytest.mark.parametrize("attack", [singling_out, linkability])
def test_risk_falls_as_cells_are_replaced_and_is_none_for_an_independent_sample(attack):
    a, b, c = (people(1500, i) for i in range(3))

    def risk(release):
        found = attack(a, release, b, rng=rng())
        return found.residual if attack is linkability else found.sizes[-1].residual

    ladder = [risk(flipped(a, c, share)) for share in (0.0, 0.1, 0.3, 0.6, 1.0)]
    values = [step.value for step in ladder]
    assert values == sorted(values, reverse=True)
    assert ladder[0].lower > 0.3
    assert ladder[-1].lower < 0.0 < ladder[-1].upper


def test_predicates_are_counted_as_a_loop_counts_them():
    draw = np.random.default_rng(0)
    rows = draw.integers(0, 5, (3, 40)).astype(np.int32)
    lower = draw.integers(0, 4, (60, 2)).astype(np.int32)
    upper = lower + draw.integers(1, 3, (60, 2)).astype(np.int32)
    columns = np.stack([draw.permutation(3)[:2] for _ in range(60)]).astype(np.int32)
    columns[::7, 1] = -1
    units = draw.integers(0, 30, 40)
    for t, found in enumerate(sole_units(lower, upper, columns, rows, units)):
        inside = np.ones(40, dtype=bool)
        for j in range(2):
            if columns[t, j] >= 0:
                row = rows[columns[t, j]]
                inside &= (row >= lower[t, j]) & (row < upper[t, j])
        held = np.unique(units[inside])
        assert found == (held[0] if len(held) == 1 else -min(2, 1 + len(held)))


def test_the_residual_risk_covers_what_it_says():
    draw, covered = np.random.default_rng(1), 0
    for _ in range(400):
        attack, control = draw.binomial(200, 0.5), draw.binomial(200, 0.2)
        found = residual_risk(proportion(attack, 200), proportion(control, 200))
        covered += found.lower <= 0.375 <= found.upper
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize(("attack", "control"), [((0, 50), (0, 50)), ((50, 50), (0, 50)), ((50, 50), (50, 50))])
def test_the_residual_risk_is_defined_at_its_ends(attack, control):
    found = residual_risk(proportion(*attack), proportion(*control))
    assert -1.0 <= found.lower <= found.value <= found.upper <= 1.0


def test_the_blind_baseline_is_at_most_one_in_e():
    a, b, c = (people(400, i) for i in range(3))
    assert all(0.0 <= one.blind <= np.exp(-1) + 0.01 for one in singling_out(a, c, b, rng=rng()).sizes)


def test_members_near_the_release_are_told_by_densities_and_nonmembers_are_not():
    a, b, c = np.random.default_rng(3).normal(size=(3, 600, 4))
    leaked, harmless = (density(a, b, release, rng=rng()) for release in (a + 0.01, c))
    assert leaked.worst.attack.area.auc > 0.95
    assert all(one.attack.area.lower < 0.5 < one.attack.area.upper < 0.6 for one in harmless.attacks)
    assert harmless.p > 0.01


def with_numbers_of(members, others, rows, share=0.1, seed=9):
    """Return other people, the first of whom have the numbers of members with noise of a share of its deviation."""
    frame, draw = others.frame.copy(), np.random.default_rng(seed)
    for name in (f"number{j}" for j in range(4)):
        noise = share * members.frame[name].std() * draw.normal(size=len(rows))
        frame.loc[: len(rows) - 1, name] = members.frame[name].to_numpy()[rows] + noise
    return Microdata(frame, SCHEMA)


def test_numbers_near_members_are_told_beside_levels_of_other_people():
    a, b, c = (people(1200, i) for i in range(3))
    leaked = measure_risk(a, with_numbers_of(a, c, np.arange(1200)), b, rng=rng()).density
    areas = {one.name: one.attack.area for one in leaked.attacks}
    assert areas["density ratio, 1 neighbour, numbers alone"].lower > 0.6
    assert areas["density ratio, 1 neighbour"].auc < 0.6
    harmless = measure_risk(a, c, b, rng=rng()).density
    names = {one.name.removeprefix("density ratio, ") for one in harmless.attacks}
    parts = (
        "numbers alone",
        "half of the variables",
        "the smallest principal components of numbers",
    )
    assert names >= {f"1 neighbour, {part}" for part in parts}
    assert all(one.attack.area.lower < 0.5 < one.attack.area.upper < 0.6 for one in harmless.attacks)
    assert harmless.p > 0.01


def test_small_differences_between_numbers_are_told_beside_large_ones_of_other_people():
    draw = np.random.default_rng(4)
    tables = [
        3.0 * draw.normal(size=(1500, 3))[:, [0, 1, 2, 0, 1, 2]]
        + draw.normal(size=(1500, 6))
        for _ in range(3)
    ]  # fmt: skip
    axes = np.linalg.svd(tables[0] - tables[0].mean(axis=0), full_matrices=False)[2]
    kept = tables[0] @ axes[3:].T + 0.1 * draw.normal(size=(1500, 3))
    released = tables[2] @ axes[:3].T @ axes[:3] + kept @ axes[3:]
    schema = Schema([Variable(f"x{j}", "continuous") for j in range(6)] + [Variable("sex", "binary")])
    a, b, c = (
        Microdata(
            pd.DataFrame(side, columns=[f"x{j}" for j in range(6)]).assign(sex=draw.choice(["f", "m"], 1500)), schema
        )
        for side in (tables[0], tables[1], released)
    )
    found = measure_risk(a, c, b, rng=rng()).density
    assert found.worst.name.endswith("the smallest principal components of numbers")
    assert found.worst.attack.area.lower > 0.6


def test_numbers_of_the_few_with_a_rare_level_are_told_among_them():
    a, b, c = (people(3000, i) for i in range(3))
    rare, there = (np.flatnonzero(side.frame["level0"] == "f") for side in (a, c))
    few = min(len(rare), len(there))
    frame = c.frame.iloc[np.concatenate([there[:few], np.setdiff1d(np.arange(3000), there[:few])])]
    release = with_numbers_of(a, Microdata(frame.reset_index(drop=True), SCHEMA), rare[:few], share=0.05)
    found = {one.name: one.attack.top.p for one in measure_risk(a, release, b, rng=rng()).density.attacks}
    assert found["density ratio, numbers among the rarest level"] < 1e-4


def test_a_transformed_release_is_told_once_its_distributions_are_matched():
    a, b = np.random.default_rng(3).normal(size=(2, 800, 4))
    found = density(a, b, np.exp(a) + 5.0, rng=rng())
    assert found.worst.name.endswith("after matching the distributions")
    assert found.worst.attack.area.auc > 0.95


def test_a_classifier_learns_what_a_release_has_too_much_of():
    draw = np.random.default_rng(3)
    a, b = draw.normal(size=(2, 1500, 3))
    a[:300, 0] = 2.25
    release = draw.normal(size=(1500, 3))
    release[:300, 0] = 2.25
    found = {one.name: one.attack for one in density(a, b, release, rng=rng()).attacks}
    assert found["classifier"].top.members / found["classifier"].top.n > 0.9
    assert "classifier" not in {one.name for one in density(a[:30], b, release, rng=rng()).attacks}


@pytest.mark.parametrize("attack", [singling_out, linkability])
def test_too_little_to_compare_is_not_tested(attack):
    a, one = people(50, 0), people(1, 1)
    assert attack(one, a, a, rng=rng()) is None


def test_tracing_finds_released_means_of_the_members_and_nothing_in_others():
    # Every column is shuffled by itself: no released row resembles a person, but the shares are the members'.
    areas = {"shares": [], "others": []}
    for seed in range(6):
        a, b, c = (np.random.default_rng(3 * seed + i).normal(size=(150, 40)) for i in range(3))
        for name, released in (("shares", np.random.default_rng(seed).permuted(a, axis=0)), ("others", c)):
            found = {one.name: one.attack for one in density(a, b, released, rng=rng()).attacks}
            areas[name].append(found["tracing"].area.auc)
    assert np.mean(areas["shares"]) > 0.6
    assert abs(np.mean(areas["others"]) - 0.5) < 0.03


@pytest.mark.parametrize("units", [1, 3])
def test_tracing_by_products_finds_released_covariances_of_the_members_and_nothing_in_others(units):
    """A release with the members' covariances and none of their records; and one of other people."""
    areas = {"members": [], "others": []}
    for seed in range(6):
        draw = np.random.default_rng(seed)
        weights = np.random.default_rng(1).normal(size=(5, 30))

        def drawn(n, draw=draw, weights=weights):
            return draw.normal(size=(n, 5)) @ weights + draw.normal(size=(n, 30))

        sides = [np.repeat(drawn(600 // units), units, axis=0) for _ in range(3)]
        members, others, strangers = (side + 0.2 * draw.normal(size=side.shape) for side in sides)
        codes = np.repeat(np.arange(600 // units), units)
        for kind, table in (("members", members), ("others", strangers)):
            released = draw.multivariate_normal(table.mean(axis=0), np.cov(table, rowvar=False), 600)
            certainty = Certainty(units=ComparedUnits(codes, codes) if units > 1 else ComparedUnits())
            found = density(members, others, released, certainty=certainty, rng=draw)
            areas[kind].append(next(a.attack.area.auc for a in found.attacks if a.name == "tracing by products"))
    assert np.mean(areas["members"]) > 0.6
    assert abs(np.mean(areas["others"]) - 0.5) < 0.03


def test_few_different_predicates_count_once_and_are_judged_with_those_of_other_sizes():
    # One record in a hundred holds one of eight rare levels: the same dozen predicates are drawn thousands of times.
    def sparse(seed):
        draw, table = np.random.default_rng(seed), people(600, seed)
        rare = np.where(draw.random(600) < 0.99, "a", draw.choice(LEVELS, 600))
        return Microdata(table.frame.assign(level0=rare), SCHEMA).select([f"level{j}" for j in range(6)])

    first, *others = singling_out(*(sparse(seed) for seed in (0, 2, 1)), rng=rng()).sizes
    assert first.residual.attack.n < 30
    assert first.residual.upper > 0.1 > first.upper
    assert first.pooled.attack.n == sum(one.residual.attack.n for one in (first, *others) if one.pooled == first.pooled)


@pytest.mark.parametrize("repeated", [1, 4])
def test_predicates_that_succeed_together_count_as_one(repeated):
    # Rows single out one unit each, or none; by each of several predicates alike.
    draw = np.random.default_rng(0)
    rows = np.arange(4000)
    sides = [np.where(draw.random(4000) < 0.3, draw.permutation(4000), -1) for _ in range(2)]
    alike = _Singled(*(np.repeat(side, repeated) for side in (rows, *sides)), nobody=0.0)
    assert alike.design_effects((4000, 4000)) == pytest.approx((repeated, repeated), rel=0.05)
    # The same unit by predicates of different rows.
    sides = [np.repeat(side, repeated) for side in sides]
    other_rows = _Singled(draw.permutation(4000 * repeated), *sides, nobody=0.0)
    assert other_rows.design_effects((4000, 4000)) == pytest.approx((repeated, repeated), rel=0.2)


def test_people_of_a_large_table_are_singled_out_as_often_as_those_of_a_small_one():
    # Of a sample of the members, those whom conditions are true of would mostly be missing.
    members, others = people(9000, 0), people(9000, 1)
    released = flipped(members, others, 0.2)
    large = singling_out(members, released, others, rng=rng())
    small = singling_out(*(table.take(np.arange(1500)) for table in (members, released, others)), rng=rng())
    assert large.n_members == large.n_nonmembers == 9000
    assert large.worst.residual.lower > 0.8 * small.worst.residual.value > 0.1


@pytest.mark.parametrize("n", [60, 400])
def test_few_non_members_count_as_many_as_the_members(n):
    # Members, release and reference are independent: alike in expectation, and less sure.
    rates = []
    for seed in range(25):
        members, released, others = people(2000, seed), people(2000, seed + 50), people(n, seed + 100)
        found = singling_out(members, released, others, predicates=3000, confidence=0.99, rng=rng())
        assert (found.n_members, found.n_nonmembers) == (2000, n)
        assert found.worst.residual.lower <= 0.0
        rates.append([(one.residual.attack.value, one.residual.control.value) for one in found.sizes[1:]])
    attack, control = np.moveaxis(np.array(rates), 2, 0)
    assert abs((attack - control).mean()) < 4.0 * (attack - control).mean(axis=1).std() / 5.0


def test_copies_are_found_by_few_non_members():
    members, others = people(2000, 0), people(100, 1)
    found = singling_out(members, flipped(members, people(2000, 2), 0.3), others, rng=rng())
    assert found.worst.residual.lower > 0.2


def test_a_few_conditions_that_single_many_out_are_not_bounded_by_the_others():
    few, all_sizes = (residual_risk(proportion(*one), proportion(2, one[1])) for one in ((90, 100), (150, 5000)))
    assert SinglingOutBySize(1, few, 0.3, all_sizes).upper == few.upper
    alike = residual_risk(proportion(4, 100), proportion(2, 100))
    assert SinglingOutBySize(1, alike, 0.3, all_sizes).upper == all_sizes.upper


def test_predicates_that_single_few_out_do_not_excuse_those_that_single_many_out():
    many, all_sizes = (residual_risk(proportion(*one), proportion(20, one[1])) for one in ((260, 2500), (620, 20_000)))
    assert all_sizes.upper < many.value < many.upper
    many = replace(many, lower=0.0)  # as beside few non-members
    found = SinglingOutBySize(1, many, 0.3, all_sizes)
    assert found.is_pooled
    assert found.upper == many.value


def test_a_few_non_members_are_not_enough():
    members, released = people(200, 0), people(200, 1)
    assert singling_out(members, released, people(9, 2), rng=rng()) is None
    assert singling_out(members, released, people(10, 2), rng=rng()).n_nonmembers == 10


def test_units_with_several_records_are_alike_beside_few_non_members():
    gaps = []
    for seed in range(20):
        members, released, others = (
            people(3 * n, seed + at).with_units(np.arange(3 * n) // 3) for n, at in ((400, 0), (400, 50), (40, 100))
        )
        found = singling_out(members, released, others, predicates=2000, confidence=0.99, rng=rng())
        assert (found.n_members, found.n_nonmembers) == (400, 40)
        assert found.worst.residual.lower <= 0.0
        gaps.append(found.sizes[-1].residual.attack.value - found.sizes[-1].residual.control.value)
    assert abs(np.mean(gaps)) < 4.0 * np.std(gaps) / np.sqrt(20)


def test_tracing_with_few_non_members_is_bounded_as_by_many():
    # A release that keeps means and covariances of the members tells of each by all of them together.
    found = {}
    for seed in range(3):
        draw = np.random.default_rng(seed)
        members, others, fresh = draw.normal(size=(3, 3000, 30))
        root, own = (np.linalg.cholesky(np.cov(table.T)) for table in (members, fresh))
        released = (fresh - fresh.mean(axis=0)) @ np.linalg.inv(own).T @ root.T + members.mean(axis=0)
        for n in (3000, 750):
            attacks = density(members, others[:n], released, rng=rng()).attacks
            found.setdefault(n, []).append({one.name: one.attack.area for one in attacks})
    many, few = ([one["tracing by products"] for one in found[n]] for n in (3000, 750))
    assert np.mean([one.auc for one in many]) > np.mean([one.auc for one in few]) + 0.01
    assert np.mean([one.upper - 0.5 for one in few]) > 1.3 * np.mean([one.upper - 0.5 for one in many])
    assert all(one.verdict != "pass" for one in few if one.upper > 0.6)
    nearest = [[one["density ratio, 1 neighbour"] for one in found[n]] for n in (3000, 750)]
    assert np.mean([one.upper for one in nearest[1]]) < 0.56
