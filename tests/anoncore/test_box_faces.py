"""Outer faces that enclose the values without telling them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anoncore.boxes.faces import beyond, on_grid, round_number

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 2)), min_size=1, max_size=40)


@given(values=NUMBERS, k=st.integers(1, 12), precision=st.sampled_from([None, 0.01, 1.0]))
def test_faces_lie_strictly_beyond_and_not_too_far(values, k, precision):
    known = np.array(values)
    low, high = beyond(known, k, precision)
    ordered, k = np.sort(known), min(k, len(known))
    assert low < ordered[0] or low == 0.0 <= ordered[0]
    assert high > ordered[-1] or high == 0.0 >= ordered[-1]
    least = precision or (ordered[-1] - ordered[0]) / 100 or 1.0
    for face, extreme, spread in (
        (low, ordered[0], ordered[k - 1] - ordered[0]),
        (high, ordered[-1], ordered[-1] - ordered[-k]),
    ):
        assert abs(face - extreme) <= 2.51 * max(spread, least) * (1 + 1e-9) + 1e-9 * abs(extreme)


@given(shift=st.integers(0, 9))
def test_neighbouring_extremes_share_a_face(shift):
    """Which of the values between two multiples the largest is, the face does not tell."""
    values = np.arange(20.0)
    assert beyond(np.append(values, 20.0 + shift), 10, 1.0)[1] in (40.0, 30.0)


def test_zero_is_not_crossed():
    assert beyond(np.array([0.0, 3.0, 9.0]), 2, 1.0)[0] == 0.0
    assert beyond(np.array([-9.0, -3.0, 0.0]), 2, 1.0)[1] == 0.0
    assert beyond(np.array([]), 2, 1.0) == (0.0, 0.0)


@pytest.mark.parametrize(("width", "expected"), [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (6, 10.0), (0.1, 0.1), (0, 1.0)])
def test_round_numbers(width, expected):
    assert round_number(width) == expected


def test_grids_take_their_unit_from_the_faces_and_stay_within():
    faces = np.array([0.0, -3.0]), np.array([100.0, 3.0])
    lower, upper = np.array([[0.4, -2.99], [np.nan, 0.0]]), np.array([[99.5, 2.99], [np.nan, 0.001]])
    low, high = on_grid(lower, upper, [None, None], [1.0, None], faces)
    np.testing.assert_array_equal(low, [[0.0, -3.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(high, [[100.0, 3.0], [np.nan, 0.1]])
