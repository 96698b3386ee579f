"""Sections of the page about reliability that programs of their own write."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "reliability.md"


def section_of(name: str) -> str:
    """Return the text between the marks of a section of the page, empty where there is none."""
    found = re.search(_marked(name), PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return found[2].strip("\n") if found else ""


def replace_section(name: str, text: str) -> None:
    """Write a section of the page, in the place of the one that stands there."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(_marked(name), lambda m: f"{m[1]}\n{text.strip()}\n{m[3]}", page, flags=re.DOTALL))


def _marked(name: str) -> str:
    return f"(<!-- begin {name} -->)(.*?)(<!-- end {name} -->)"
