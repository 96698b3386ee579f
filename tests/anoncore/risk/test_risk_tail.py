"""Tail, isolated and extreme records: planted leaks are caught, chance is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from anoncore.errors import AnonymizationError
from anoncore.risk import (
    ClosePairs,
    TailTest,
    closeness,
    extreme_records,
    identical_records,
    isolated_test,
    prediction_measures,
    tail_test,
)

ONES = np.ones(100)


def test_by_hand():
    released = np.where(np.arange(100) < 9, 0.05, 1.0)
    reference = np.where((np.arange(100) >= 8) & (np.arange(100) < 10), 0.05, 1.0)
    found = tail_test(released, reference, ONES)
    assert (found.n_released, found.n_reference, found.only_released, found.only_reference) == (9, 2, 8, 1)
    assert found.p == pytest.approx((9 + 1) / 2**9)  # P(Bin(9, ½) ≥ 8)
    assert found.verdict == "pass"
    assert (found.n, found.n_duplicates, found.baseline) == (100, 0, 0.02)
    assert tail_test(released, ONES, ONES).verdict == "fail"  # 2⁻⁹


def pairs(p: float, among: int = 0) -> ClosePairs:
    return ClosePairs(n=7, n_released=7, n_people=200, n_among=among, n_cross=0, tau=0.1, p=p)


def test_the_level_is_shared_with_close_pairs():
    released = np.where(np.arange(100) < 5, 0.05, 1.0)
    alone = tail_test(released, ONES, ONES)
    assert (alone.p, alone.n_close_pairs, alone.close_pairs_released) == (2.0**-5, None, None)
    beside = tail_test(released, ONES, ONES, pairs=pairs(0.004))
    assert beside.p == pytest.approx(0.005)
    assert (beside.verdict, beside.n_close_pairs, beside.close_pairs_released) == ("fail", 7, 7)
    assert tail_test(released, ONES, ONES, pairs=pairs(0.5)).p == 5 * 2.0**-5
    assert tail_test(ONES, ONES, ONES, pairs=pairs(0.9)).p == 1.0
    with pytest.raises(AnonymizationError, match=r"pairs must be close at tau 0\.2, got those at 0\.1"):
        tail_test(released, ONES, ONES, tau=0.2, pairs=pairs(0.5))


def test_where_people_are_that_close_by_chance_mcnemar_is_alone():
    released = np.where(np.arange(100) < 5, 0.05, 1.0)
    found = tail_test(released, ONES, ONES, pairs=pairs(0.0, among=2))
    assert found == tail_test(released, ONES, ONES)


def test_near_twins_in_the_original_do_not_hide_copies():
    caught = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        original, reference, released = rng.normal(size=(3, 400, 6))
        original[200:] = original[:200] + 0.02 * rng.normal(size=(200, 6))
        reference[200:] = reference[:200] + 0.02 * rng.normal(size=(200, 6))
        alone = rng.normal(size=(40, 6))
        original[180:200], original[380:] = alone[:20], alone[20:]
        released[:20] = original[180:200] + 0.005 * rng.normal(size=(20, 6))
        close = closeness(original, released, reference, 5, queries=np.arange(400), rng=rng)
        caught += close.tail(0.1, 0.01).verdict == "fail"
    assert caught == 10


def test_closeness_is_strict():
    assert tail_test(0.1 * ONES, ONES, ONES).n_released == 0
    assert tail_test(0.0999 * ONES, ONES, ONES).n_released == 100


def test_duplicates_are_in_no_tail():
    own = np.where(np.arange(100) < 60, 0.0, 1.0)
    found = tail_test(0 * ONES, ONES, own)
    assert (found.n_duplicates, found.n_released) == (60, 40)
    nothing = tail_test(0 * ONES, ONES, 0 * ONES)
    assert (nothing.n_released, nothing.p, nothing.verdict) == (0, 1.0, "inconclusive")


@pytest.mark.parametrize(("n", "verdict"), [(1, "inconclusive"), (6, "inconclusive"), (7, "fail")])
def test_all_copied_in_tiny_tables(n, verdict):
    assert tail_test(np.zeros(n), np.ones(n), np.ones(n)).verdict == verdict


@pytest.mark.parametrize(("n", "verdict"), [(4, "inconclusive"), (5, "pass"), (9, "fail")])
def test_tiny_tables_beside_close_pairs(n, verdict):
    # Five copies reach the level by pairs, nine by McNemar's test alone.
    near = 0.01 if verdict == "fail" else 1.0
    assert tail_test(np.full(n, near), np.ones(n), np.ones(n), pairs=pairs(1.0)).verdict == verdict


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 80))
def test_exact_p_and_permutation_invariance(seed, n):
    rng = np.random.default_rng(seed)
    released, reference, own = rng.exponential(size=(3, n)) * [[0.1], [0.2], [1.0]]
    found = tail_test(released, reference, own)
    discordant = found.only_released + found.only_reference
    if discordant:
        expected = binomtest(found.only_released, discordant, alternative="greater").pvalue
        assert found.p == pytest.approx(expected)
    shuffle = rng.permutation(n)
    assert tail_test(released[shuffle], reference[shuffle], own[shuffle]) == found
    assert isolated_test(released[shuffle], reference[shuffle], own[shuffle]) == isolated_test(released, reference, own)
    assert tail_test(7 * released, 7 * reference, 7 * own) == found


def test_the_order_of_people_does_not_matter():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3, 300, 3))
    rows[1, :6] = rows[0, :6] + 0.01 * rng.normal(size=(6, 3))
    found = closeness(*rows, 5, queries=np.arange(300), rng=rng).tail(0.1, 0.01)
    shuffled = [side[rng.permutation(300)] for side in rows]
    assert closeness(*shuffled, 5, queries=np.arange(300), rng=rng).tail(0.1, 0.01) == found
    assert 0 < (found.close_pairs_released or 0) <= (found.n_close_pairs or 0)


@pytest.mark.parametrize("columns", [3, 5])
def test_copies_among_close_neighbours_are_caught_more_often_by_close_pairs(columns):
    caught = dict.fromkeys((False, True), 0)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(3, 1000, columns))
        original, released, _ = rows
        rows[:, :, 3:] = np.digitize(rows[:, :, 3:], [-0.5, 0.8])
        released[:7] = original[:7]
        released[:7, :3] += 0.01 * rng.normal(size=(7, 3))
        close = closeness(*rows, 5, queries=np.arange(1000), rng=rng)
        caught[True] += close.tail(0.1, 0.01).verdict == "fail"
        caught[False] += tail_test(close.released, close.reference, close.own).verdict == "fail"
    assert caught[True] >= caught[False] + 3


def test_planted_copies_are_caught_and_chance_is_not():
    caught = false_alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        original, reference, released = rng.normal(size=(3, 2000, 10))
        baseline = prediction_measures(original, reference)
        own = prediction_measures(original, None, leave_one_out=True)
        false_alarms += tail_test(prediction_measures(original, released), baseline, own).verdict == "fail"
        if seed < 10:
            released[:20] = original[:20] + 0.01 * rng.normal(size=(20, 10))
            caught += tail_test(prediction_measures(original, released), baseline, own).verdict == "fail"
    assert (caught, false_alarms) == (10, 0)


def test_isolated_looks_at_the_loneliest():
    own = np.arange(1000.0)
    released = np.where(own >= 990, 0.01, 1e3)
    found = isolated_test(released, 1e3 * np.ones(1000), own)
    assert (found.n, found.n_released, found.verdict) == (10, 10, "fail")
    assert isolated_test(released, released, own, share=0.05).n == 50
    assert isolated_test(ONES, ONES, ONES).n == 100  # all tie with the last


def test_extreme_record_recreated():
    rng = np.random.default_rng(1)
    original, reference, released = rng.normal(size=(3, 1000, 6))
    original[7] = 50.0
    own = prediction_measures(original, None, leave_one_out=True)
    baseline = prediction_measures(original, reference)
    clean = extreme_records(prediction_measures(original, released), baseline, own)
    assert (clean.n, clean.n_extreme, clean.n_matched, clean.verdict) == (1000, 1, 0, "pass")
    released[3] = 50.0 * 1.05
    leaked = extreme_records(prediction_measures(original, released), baseline, own)
    assert (leaked.n_extreme, leaked.n_matched, leaked.baseline, leaked.verdict) == (1, 1, 0, "fail")


@pytest.mark.parametrize(("repeated", "near", "verdict"), [
    (0, 0.0, "fail"), (40, 0.0, "fail"), (60, 0.0, "inconclusive"), (60, 0.01, "fail"), (60, 1.0, "pass"),
])  # fmt: skip
def test_an_extreme_record_that_is_repeated_proves_nothing_where_records_repeat_each_other(repeated, near, verdict):
    own = np.ones(1000)
    own[:repeated], own[-1] = 0.0, 40.0
    released = np.ones(1000)
    released[-1] = 40.0 * near
    assert extreme_records(released, np.ones(1000), own).verdict == verdict


def test_extreme_records_where_duplicates_are_the_rule():
    own = np.zeros(2000)
    own[:3] = [1.0, 1.0, 40.0]
    found = extreme_records(np.zeros(2000), np.ones(2000), own)
    assert found.n_extreme <= 1
    none = extreme_records(np.zeros(50), np.zeros(50), np.zeros(50))
    assert (none.n_extreme, none.verdict) == (0, "pass")


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_tables_do_not_crash(n):
    for test in (tail_test, isolated_test, extreme_records):
        assert test(np.zeros(n), np.ones(n), np.ones(n)).n >= 1


def test_errors():
    original = np.random.default_rng(2).normal(size=(60, 2))
    whole, half = (prediction_measures(original, original[:size]) for size in (60, 30))
    sampled = prediction_measures(original, None, leave_one_out=True, queries=np.arange(10))
    with pytest.raises(AnonymizationError, match="n_released must be equal"):
        tail_test(half, whole, whole)
    with pytest.raises(AnonymizationError, match="own must measure all 60 records, got 10"):
        extreme_records(sampled, sampled, sampled)
    with pytest.raises(AnonymizationError, match="own must hold 100 values"):
        tail_test(ONES, ONES, ONES[1:])
    with pytest.raises(AnonymizationError, match="tau must be between 0 and 1, got 1"):
        tail_test(ONES, ONES, ONES, tau=1)
    with pytest.raises(AnonymizationError, match="level must be between 0 and 1"):
        tail_test(ONES, ONES, ONES, level=0)
    with pytest.raises(AnonymizationError, match="share must be between 0 and 1"):
        isolated_test(ONES, ONES, ONES, share=0)


def test_people_alike_of_few_discrete_values_raise_no_alarm():
    alarms, sizes = [0, 0], (7, 2, 4, 3, 4)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        original, reference, released = (
            np.column_stack([rng.integers(0, size, 1500) for size in sizes]).astype(float) for _ in range(3)
        )
        close = closeness(original, released, reference, 5, queries=np.arange(1500), rng=rng)
        alarms[0] += close.tail(0.1, 0.01).verdict == "fail"
        alarms[1] += close.identical(0.01).verdict == "fail"
    assert max(alarms) <= 2


@pytest.mark.parametrize("others", [True, False])
def test_extreme_records_outside_a_sample_are_found(others):
    """As where all are queried, though not one of them is in the sample."""
    rng = np.random.default_rng(4)
    x, y, r = rng.normal(size=(3, 1500, 4))
    far = np.arange(6)
    x[far] += 40.0 * (1 + far[:, None])
    y[:2], r[5] = x[:2] + 0.01, x[5] - 0.01
    found = [
        closeness(x, y, r if others else None, 5, queries=queries, rng=np.random.default_rng(0)).extreme(0.1)
        for queries in (np.arange(1500), np.arange(700, 1200))
    ]
    # Chance is told by those who are measured.
    assert replace(found[0], p=found[1].p) == found[1]
    counts = (found[1].n, found[1].n_extreme, found[1].n_matched, found[1].baseline, found[1].verdict)
    assert counts == (1500, 6, 2, 1 if others else 0, "fail")


@pytest.mark.parametrize(
    ("rows", "verdict", "looked_at"), [(60, "pass", 10), (120, "pass", 20), (600, "inconclusive", 30)]
)
def test_a_part_of_the_release_leaves_so_many_copies(rows, verdict, looked_at):
    rng = np.random.default_rng(0)
    people, others, released = rng.normal(size=(60, 3)), rng.normal(size=(60, 3)), rng.normal(size=(rows, 3))
    close = closeness(people, released, others, 5, queries=np.arange(60), rng=rng)
    assert close.kept == 60 / rows
    assert close.tail(0.1, 0.001).verdict == verdict
    assert close.isolated(0.1, 0.001).n == looked_at


@pytest.mark.parametrize(("copied", "verdict"), [(0, "pass"), (1, "fail"), (3, "fail")])
def test_an_extreme_record_that_nobody_else_would_match_is_one_too_many(copied, verdict):
    rng = np.random.default_rng(0)
    people, others, released = rng.normal(size=(3, 1000, 6))
    people[:4] *= 30.0
    released[:copied] = people[:copied]
    found = closeness(people, released, others, 5, queries=np.arange(1000), rng=rng).extreme(0.1)
    assert (found.n_extreme, found.n_matched, found.verdict) == (4, copied, verdict)


def test_far_ends_of_one_number_are_matched_by_anybody():
    verdicts = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        people, released, others = rng.pareto(0.7, size=(3, 500, 1))
        verdicts.append(closeness(people, released, others, 5, queries=np.arange(500), rng=rng).extreme(0.1).verdict)
    assert verdicts.count("fail") <= 1
    assert verdicts.count("pass") >= 30


def test_extreme_records_among_duplicates_are_found():
    """Where hardly anyone has a distance at all, those who have one give the scale."""
    x = np.zeros((1000, 3))
    x[:100] = np.random.default_rng(0).normal(size=(100, 3))
    x[0] = 100.0
    sampled = closeness(x, x, None, 5, queries=np.arange(500, 900), rng=np.random.default_rng(0)).extreme(0.1)
    whole = closeness(x, x, None, 5, queries=np.arange(1000), rng=np.random.default_rng(0)).extreme(0.1)
    assert replace(sampled, p=whole.p) == whole
    assert sampled.n_extreme == 1


def test_non_members_whom_the_release_alone_comes_close_to_show_what_chance_does():
    own = np.append(np.ones(1990), np.full(10, 9.0))

    def test(copied):
        released = np.ones(2000)
        released[1990 : 1990 + copied] = 0.0
        return isolated_test(released, np.ones(2000), own), identical_records(released, np.ones(2000), own)

    for members, none, as_many in zip(test(6), test(0), test(6), strict=True):
        assert members.beside(none).p == pytest.approx(3.0**-6)
        assert members.beside(none).verdict == "fail"
        assert members.beside(as_many).verdict == none.beside(members).verdict == "pass"
    # Made from non-members as well: the reference alone excludes chance.
    for both in test(8):
        assert (both.verdict, both.beside(both).verdict) == ("fail", "inconclusive")
    # Six of ten and none of the reference are no proof without them.
    assert test(6)[0].verdict == "pass"


def test_sets_of_one_population_show_as_many_isolated_and_identical_records_as_the_level_says():
    failed = 0
    for seed in range(60):
        sides = np.random.default_rng(seed).integers(4, size=(3, 200, 5)).astype(float)
        close = closeness(sides[0], sides[1], sides[2], 5, queries=np.arange(200), rng=np.random.default_rng(seed))
        assert close.identical(0.01).only_released > 0
        failed += close.identical(0.05).p < 0.05
        failed += close.isolated(0.1, 0.05).p < 0.05
    assert failed <= 0.05 * 120 + 2 * np.sqrt(0.05 * 0.95 * 120)


def test_of_several_forms_each_has_its_share_of_the_level():
    ones = np.ones(200)
    near, clear = (tail_test(np.where(np.arange(200) < hits, 0.01, 1), ones, ones) for hits in (5, 9))
    both = TailTest.in_forms({"near": near, "clear": clear})
    assert (both.n_released, both.verdict, both.p) == (9, "fail", 2 * clear.p)
    assert both.forms == (("near", near.p), ("clear", clear.p))
    assert TailTest.in_forms({"clear": clear}) == replace(clear, forms=(("clear", clear.p),))
    many = TailTest.in_forms({str(number): clear for number in range(6)})
    assert (many.p, many.verdict) == (6 * clear.p, "pass")


@pytest.mark.parametrize("rows", [1000, 2000])
def test_zeros_and_long_tails_beside_few_others_are_matched_by_chance(rows):
    """One match was too many: a third of harmless files were rejected."""
    verdicts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)

        def people(size, rng=rng):
            return np.where(rng.random((size, 4)) < 0.8, 0.0, np.exp(1.5 * rng.normal(size=(size, 4))).round(1))

        tables = people(1000), people(rows), people(100)
        close = closeness(*tables, 5, queries=np.arange(1000), rng=np.random.default_rng(seed))
        assert close.within
        verdicts.append(close.extreme(0.1).verdict)
        if seed < 5:
            far = np.argsort(close.own)[-6:]
            copied = np.concatenate([tables[1][6:], tables[0][far] * 1.01])
            again = closeness(tables[0], copied, tables[2], 5, queries=np.arange(1000), rng=np.random.default_rng(seed))
            found = again.extreme(0.1)
            assert found.verdict == "fail" if found.n_matched > 2 else found.verdict != "pass"
    assert verdicts.count("fail") <= 1
