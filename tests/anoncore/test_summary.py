"""Summaries as text and as HTML."""

from collections.abc import Iterator

from anoncore.summary import Summarised, SummaryTable


class Result(Summarised):
    def summary_tables(self) -> Iterator[SummaryTable]:
        yield SummaryTable("First", ("name", "value"), [("<b>", 1.23456), ("none", None), ("holds", True)])
        yield SummaryTable("Without rows")
        yield SummaryTable("Second", (), [("records", 1000)])


def test_text_is_aligned_and_tables_without_rows_are_left_out():
    assert Result().summary() == (
        "First\n  name   value\n  <b>    1.235\n  none   –\n  holds  yes\n\nSecond\n  records  1000"
    )


def test_html_is_escaped_and_carries_no_script_or_style():
    html = Result()._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "<script" not in html
    assert "style" not in html
    assert html.count("<table>") == html.count("</table>") == 2
    assert "<thead><tr><th>name</th><th>value</th></tr></thead>" in html
