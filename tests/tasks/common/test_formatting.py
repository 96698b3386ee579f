"""Text of others stays text."""

from __future__ import annotations

import pytest

from tasks.common.formatting import markdown_cell


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
