"""Columns of a draft that were computed from all records of a group, and are excluded until a person decides."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from anoncore.microdata import Microdata
from anoncore.profile import Guess
from anoncore.risk import GroupFigure, find_group_figures
from tasks.common.errors import visible

COMPUTED = "computed from all records of a group: "
WHY = "released, it gives one person's value away; another role releases it"


def without_group_figures(
    guesses: tuple[Guess, ...], frame: pd.DataFrame, data: Microdata
) -> tuple[tuple[Guess, ...], Microdata]:
    """Exclude what was computed from all records of a group, so that no lookup keeps it, and ask about it.

    Parameters
    ----------
    guesses : of all columns
    frame : (N, n) all columns as they were read, dropped ones too
    data : those that are released, with their units
    """
    # Numbers that seem to be codes are looked up from their groups as well.
    asked = [v.name for v in data.schema if v.role != "weight"]
    columns = pd.DataFrame({name: data.frame[name] if name in data.schema else frame[name] for name in frame.columns})
    figures = {one.variable: one for one in find_group_figures(columns, asked, data.units)}
    rest = [name for name in data.schema.names if name not in figures]
    if not figures or not rest:
        return guesses, data
    return tuple(_excluded(g, figures.get(g.variable.name)) for g in guesses), data.select(rest)


def _excluded(guess: Guess, figure: GroupFigure | None) -> Guess:
    if figure is None:
        return guess
    group = "its own groups" if figure.group == figure.variable else f"the same {visible(figure.group)}"
    if figure.part is not None:
        group += f" and one value of {visible(figure.part)}"
    reason = f"{COMPUTED}{figure.kind} {visible(figure.number)} of {group}; {WHY}"
    return Guess(replace(guess.variable, role="excluded"), reason, confirm=True)
