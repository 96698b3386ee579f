"""Pages of results that follow from stored figures, so that a test can tell whether a page is behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "docs" / "explanation"


@dataclass(frozen=True)
class Page:
    """A page of documentation, how its figures are measured, and how they are shown."""

    name: str
    measured: Callable[[], Sequence[Row]]
    rendered: Callable[[Sequence[Row]], str]

    @property
    def document(self) -> Path:
        return FOLDER / f"reproduction-{self.name}.md"

    @property
    def figures(self) -> Path:
        return FOLDER / "reproduction" / f"{self.name}.json"

    def stored(self) -> list[Row]:
        return json.loads(self.figures.read_text())

    def write(self) -> None:
        rows = [rounded(row) for row in self.measured()]
        self.figures.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
        self.document.write_text(self.rendered(self.stored()))
        sys.stderr.write(f"{self.document.name} is written\n")

    def behind(self) -> bool:
        return self.document.read_text() != self.rendered(self.stored())


def rounded(row: Row) -> Row:
    """Return a row with numbers to four digits, which other processors agree in."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
