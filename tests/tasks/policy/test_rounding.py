"""Bounds hold as they are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.common.formatting import percent, points
from tasks.policy.attack import amounts, outwards
from tasks.policy.rounding import _worst_form, bounds_of_several, interval, rounded_down, rounded_up


@given(st.floats(-10, 10), st.integers(1, 4))
def test_a_bound_that_is_written_is_a_bound_and_off_by_less_than_its_last_digit(value: float, decimals: int) -> None:
    low, high = (float(write(value, decimals)) for write in (rounded_down, rounded_up))
    unit = 10.0**-decimals
    assert low - 1e-8 <= value <= high + 1e-8
    assert max(value - low, high - value) < unit * (1 + 1e-6)


@given(st.integers(-2000, 2000))
def test_what_has_the_digits_stays(thousandths: int) -> None:
    assert rounded_down(thousandths / 1000, 3) == rounded_up(thousandths / 1000, 3) == f"{thousandths / 1000 + 0.0:.3f}"


def test_texts() -> None:
    assert interval(0.51651, 0.60036, 3) == "[0.516, 0.601]"
    assert interval(-0.004, 0.0, 2, "+") == "[-0.01, +0.00]"
    assert rounded_up(-0.004, 2, "+") == "+0.00"
    assert bounds_of_several(-0.018, 0.271, 2, "+") == "shown > -0.02; of all ≤ +0.28"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stays_so(value: float) -> None:
    assert rounded_up(value, 3) == rounded_down(value, 3) == f"{value:.3f}"


def test_intervals_in_words() -> None:
    assert outwards(0.1249, 0.1251, percent, 3) == "12.4\u00a0% to 12.6\u00a0%"
    assert outwards(-0.004, 0.004, points, 2) == "−1 to +1"


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [(0.04, 0.16, "0.0 to 0.2"), (9.96, 10.04, "9.9 to 11"), (1234.6, 1234.6, "1,234 to 1,235")],
)
def test_expected_numbers_of_records(lower: float, upper: float, words: str) -> None:
    assert amounts(lower, upper) == words


def test_of_several_forms_of_a_test_the_worst_one_alone_is_published() -> None:
    forms = _worst_form((("near", 0.00045), ("wide", 0.11), ("undone", 0.33), ("both", 0.3)))
    assert [p for _, p in forms[1:]] == [0.5] * 3
    assert 4 * forms[0][1] == pytest.approx(0.001)
    # One of one person met, of several forms, is as good as nothing.
    assert dict(_worst_form((("near", 0.9), ("wide", 0.33)))) == {"near": 0.5, "wide": 0.25}
