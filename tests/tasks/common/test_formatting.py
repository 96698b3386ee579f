"""Text of others stays text, and ends of intervals are rounded outwards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tasks.common.formatting import markdown_cell, shares


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("www.evil.example WWW.evil.example", r"www\.evil.example WWW\.evil.example"),
        ("http://evil.example", r"http:\//evil.example"),
        ("[a](b) <c> | d", r"\[a\](b) \<c\> \| d"),
        ("two\nlines\x1b", "two lines "),
        ("swww", "swww"),
    ],
)
def test_a_cell_holds_no_link_no_markup_and_one_line(text: str, cell: str) -> None:
    assert markdown_cell(text) == cell


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [(0.291, 0.291, "29 to 30"), (0.29, 0.57, "29 to 57"), (0.0, 0.001, "0 to <0.5"), (0.996, 1.0, ">99.5 to 100")],
)
def test_intervals_of_shares_are_never_narrower_than_they_are(lower: float, upper: float, text: str) -> None:
    shown = shares(SimpleNamespace(lower=lower, upper=upper))
    assert shown.replace("\u00a0", "").replace("%", "") == text
