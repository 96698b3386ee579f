"""Hierarchies that stand in files beside a plan: the plan holds their rows, so that its digest covers them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anoncore.errors import AnonymizationError
from anoncore.recoding import parse_hierarchy
from flows.plan.file import Lines, Place, place_in_words, read_text
from tasks.common.errors import CONTROL, Refused

KEY, ALLOWED = "file", {"file", "delimiter"}


def with_hierarchies(document: Any, base: Path, lines: Lines) -> list[str]:
    """Replace each ``{file: age.csv}`` of a document's hierarchies by the rows of the file.

    Parameters
    ----------
    document : what a plan's YAML states; changed in place
    base : the plan's folder, in which the files lie
    lines : of its places

    Returns
    -------
    What is wrong with the files, one sentence each with its line.
    """
    problems = []
    for place, hierarchies, name in _stated(document):
        try:
            hierarchies[name] = {"rows": _rows(hierarchies[name], base)}
        except (Refused, AnonymizationError) as error:
            hierarchies[name] = {"widths": [1]}
            problems.append(f"line {lines[place]}: {place_in_words(place)}: {error}")
    return problems


def _stated(document: Any) -> Iterator[tuple[Place, dict[str, Any], str]]:
    """Yield the hierarchies that name a file, each with its place and the mapping that holds it."""
    steps = document.get("steps") if isinstance(document, dict) else None
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        hierarchies = step.get("hierarchies") if isinstance(step, dict) else None
        if isinstance(hierarchies, dict):
            for name in [name for name, one in hierarchies.items() if isinstance(one, dict) and KEY in one]:
                yield ("steps", number, "hierarchies", name), hierarchies, name


def _rows(stated: dict[str, Any], base: Path) -> list[list[str | int | float]]:
    """Return the rows of a file; raises `Refused` where it is not one in the plan's folder."""
    if set(stated) - ALLOWED or not all(isinstance(value, str) and value for value in stated.values()):
        raise Refused("must hold a file, and its delimiter where that is not the semicolon")
    path = (base / stated[KEY]).resolve()
    if not path.is_relative_to(base.resolve()):
        raise Refused("the file must lie in the plan's folder")
    text = read_text(path, "hierarchy")
    if CONTROL.search(text.replace("\n", "").replace("\t", "")):
        raise Refused("the file must not hold control characters")
    return [list(row) for row in parse_hierarchy(text, delimiter=stated.get("delimiter", ";")).rows]
