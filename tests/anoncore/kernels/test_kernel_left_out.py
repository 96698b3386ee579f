"""Nearest rows by some columns less one, or with one more: as a loop finds them."""

import numpy as np

from anoncore.kernels.left_out import MISSING, NONE, nearest_with_each, nearest_without_each


def test_distances_and_rows_are_those_of_a_loop():
    draw = np.random.default_rng(0)
    people, rows = draw.integers(0, 1000, (30, 5)), draw.integers(0, 1000, (5, 2100))
    people[draw.random(people.shape) < 0.1] = MISSING
    rows[draw.random(rows.shape) < 0.1] = MISSING
    rows[4] = MISSING
    caps = draw.integers(0, 400, (30, 5))
    distance, place = nearest_without_each(*(side.astype(np.int32) for side in (people, caps, rows)))
    for t in range(30):
        gaps = np.minimum(np.abs(rows - people[t][:, None]), caps[t][:, None])
        for j in range(4):
            expected = np.where(rows[j] == MISSING, np.inf, gaps.sum(axis=0) - gaps[j])
            assert (distance[t, j], place[t, j]) == (expected.min(), expected.argmin())
    assert (distance[:, 4] == NONE).all()
    assert (place[:, 4] == -1).all()


def test_distances_with_one_column_more_are_those_of_a_loop():
    draw = np.random.default_rng(1)
    people, rows = draw.integers(0, 1000, (20, 5)), draw.integers(0, 1000, (5, 2100))
    people[draw.random(people.shape) < 0.1] = MISSING
    rows[draw.random(rows.shape) < 0.1] = MISSING
    known = np.array([True, False, False, True, False])
    found = nearest_with_each(people.astype(np.int32), known, 300, rows.astype(np.int32))
    gaps = np.minimum(np.abs(rows - people[:, :, None]), 300)
    for j in range(5):
        columns = known.copy()
        columns[j] = True
        np.testing.assert_array_equal(found[:, j], gaps[:, columns].sum(axis=1).min(axis=1))


def test_without_rows_nothing_is_near():
    assert (
        nearest_with_each(np.zeros((2, 3), np.int32), np.ones(3, bool), 9, np.zeros((3, 0), np.int32)) == NONE
    ).all()
