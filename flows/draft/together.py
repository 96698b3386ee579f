"""One schema for several files of the same variables: the original, a reference, a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp

from anoncore.microdata import Variable
from anoncore.microdata.inference import Guess, facts_of, guess
from anoncore.profile import profile
from flows.draft.readable import readable
from flows.draft.table import Table

# Two samples of one population are rarely this far apart: Kolmogorov's distance, beyond its 1 % point.
APART, ONE_PERCENT = 0.1, 1.63


def declared_together(original: Path, reference: Path | None, released: Path) -> tuple[Variable, ...]:
    """Return the variables of the original as they would be drafted, of kinds that suit all files.

    Whether a column looks like an identifier is seen in the original alone, since a copy of it repeats every value.
    Whole numbers that nearly all records have for themselves are amounts or identifiers. They are taken for amounts,
    and so measured, unless the reference's are distributed otherwise, as numbers that were given out in order are.

    Raises
    ------
    Refused
        When a file cannot be read; the message holds no value.

    Examples
    --------
    >>> declared_together(Path("survey.csv"), None, Path("masked.csv"))[0].kind  # doctest: +SKIP
    'continuous'
    """
    table = _open(original)
    people = table.natural()
    others = None if reference is None else _open(reference).natural()
    frames = [frame for frame in (people, others, _open(released).natural()) if frame is not None]
    guesses = [
        _numeric(one, people, others) or _wider(one, [frame[name] for frame in frames if name in frame])
        for one in profile(people, rng=np.random.default_rng(0)).guesses
        if (name := one.variable.name)
    ]
    return tuple(one.variable for one in readable(table, guesses, people)[0])


def _open(file: Path) -> Table:
    return Table.open(file, file.parent.resolve())


def _numeric(one: Guess, people: pd.DataFrame, others: pd.DataFrame | None) -> Guess | None:
    """Return what a supposed identifier is as an amount; None where it cannot be one."""
    name = one.variable.name
    facts = facts_of(people[name])
    if one.variable.role != "identifier" or facts.content != "number" or facts.problem:
        return None
    amount = guess(facts, adds_up=True)
    if not amount.variable.is_masked:
        return None
    if others is None or name not in others or facts_of(others[name]).content != "number":
        return amount
    mine, other = (known[~np.isnan(known)] for known in (facts.to_numbers(side[name]) for side in (people, others)))
    within = APART + ONE_PERCENT * np.sqrt(1 / len(mine) + 1 / len(other))
    return amount if ks_2samp(mine, other).statistic <= within else None


def _wider(one: Guess, columns: Sequence[pd.Series]) -> Guess:
    """Return the guess from the columns of all files that hold what the original's does; its role stays."""
    content = facts_of(columns[0]).content
    same = [column for column in columns if facts_of(column).content == content]
    if not one.variable.is_categorical or not one.variable.is_masked or len(same) == 1:
        return one
    if len({column.dtype for column in same}) > 1:
        numeric = content == "number"
        same = [pd.Series(facts_of(c).to_numbers(c)) if numeric else c.astype(object) for c in same]
    wider = guess(facts_of(pd.concat(same, ignore_index=True).rename(one.variable.name)))
    return replace(wider, variable=replace(wider.variable, role=one.variable.role)) if wider.variable.is_masked else one
