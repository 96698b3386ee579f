"""Nearest rows by all columns but one: as a loop finds them."""

import numpy as np

from anoncore.kernels.left_out import MISSING, NONE, nearest_without_each


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
