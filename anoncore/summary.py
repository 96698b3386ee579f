"""Summaries of results, as text and as HTML for notebooks, without values of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class SummaryTable:
    """One table of a summary.

    Parameters
    ----------
    title : what the table shows, in one line
    header : names of its columns; empty for none
    rows : cells of each row; numbers are written with four significant digits, None as a dash

    Examples
    --------
    >>> print(SummaryTable("Distances", ("figure", "released"), [("mean", 0.12345), ("largest", None)]).text())
    Distances
      figure   released
      mean     0.1235
      largest  –
    """

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()

    def text(self) -> str:
        """Return the table as aligned plain text."""
        lines = [list(self.header), *self._cells()] if self.header else self._cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n  ".join([self.title, *shown])

    def html(self) -> str:
        """Return the table as HTML, escaped, without styles or scripts."""
        head = f"<thead>{_html_row('th', self.header)}</thead>" if self.header else ""
        body = "".join(_html_row("td", row) for row in self._cells())
        return f"<table><caption>{escape(self.title)}</caption>{head}<tbody>{body}</tbody></table>"

    def _cells(self) -> list[list[str]]:
        return [[_cell(value) for value in row] for row in self.rows]


class Summarised(ABC):
    """A result that summarises itself; a subclass returns its tables from ``summary_tables``."""

    @abstractmethod
    def summary_tables(self) -> Iterable[SummaryTable]:
        """Return the tables of the summary; none of them holds a value of a record."""

    def summary(self) -> str:
        """Return the result's main figures as plain text."""
        return "\n\n".join(table.text() for table in self.summary_tables() if table.rows)

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.summary_tables() if table.rows)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _html_row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
