"""The units of a table in three parts: members and non-members of the search, and those it never sees."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from anoncore.microdata import Microdata
from tasks.assessment.tuning.search import Stage
from tasks.assessment.tuning.variation import Variation
from tasks.common.errors import Refused
from tasks.common.run import Run
from tasks.intake.split import Sides, Split, draw_units
from tasks.policy.limits import SHARE

# Fewer units than this on a side of the search prove nothing about any setting.
LEAST_UNITS = 50
# With so many on each side a harmless release passes every gate.
ENOUGH_UNITS = 1200
# Statistical units on each side of a first look at many settings.
SCREEN_UNITS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Members and, where there is one, the reference sample, in memory."""

    original: Microdata
    reference: Microdata | None

    def stored(self, run: Run, variation: Variation) -> Sides:
        """Put the sides into a run's workspace as a variation has them."""
        store = run.workspace.store
        reference = None if self.reference is None else store("reference", variation.of(self.reference))
        return Sides(store("original", variation.of(self.original)), reference)


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """What a search looks at, a part of it for a first look, and what the choice is judged on.

    Parameters
    ----------
    screen : None where the search's tables are small enough for every setting
    confirm : the search's tables, members and non-members exchanged; None without non-members
    search, judge : no unit of the judged members is in any of the others
    released_units : of a release by a run of the plan
    """

    screen: Table | None
    search: Table
    confirm: Table | None
    judge: Table
    released_units: int

    @property
    def all_units(self) -> int:
        """Of the table, those that are its reference sample included."""
        judged = (self.judge.original, self.judge.reference or self.search.original)
        return sum(side.n_units for side in judged)

    @property
    def records(self) -> dict[Stage, int]:
        """The records of each stage, of both sides."""
        first, whole, last = (
            len(one.original) + len(one.reference or ())
            for one in (self.screen or self.search, self.search, self.judge)
        )
        return {"screen": first, "search": whole, "confirm": whole, "judge": last}


def level_of_half(level: float) -> float:
    """Return the level at which half of the records show what all of them show at ``level``.

    A deviation of z standard errors among all is one of z / √2 among half of them. The level is that of a family of
    attacks, each test of which has a share of it.

    Examples
    --------
    >>> round(level_of_half(0.01), 3)
    0.122
    """
    return float(norm.sf(norm.isf(level * SHARE) / np.sqrt(2.0)) / SHARE)


def cut(run: Run, split: Split, kind: str) -> Parts:
    """Cut a table's units in three.

    The reference sample is cut into halves: members and non-members of the search. The members of the release, which
    the search never sees, are judged with the whole reference sample. Without a reference sample the search has one
    random half of the units and the judgement the other. The same home cuts the same data alike. A reference of
    ``kind`` cross is half of the records that are released.
    """
    original = split.original.load()
    rng = np.random.default_rng(int(hashlib.sha256(f"tune {run.streams.persistent_key()}".encode()).hexdigest(), 16))
    if split.reference is None:
        seen, unseen = _halves(original, rng)
        search, confirm, judge = Table(seen, None), None, Table(unseen, None)
        released = original.n_units
    else:
        reference = split.reference.load()
        one, other = _halves(reference, rng)
        search, confirm, judge = Table(one, other), Table(other, one), Table(original, reference)
        released = original.n_units + (reference.n_units if kind == "cross" else 0)
    least = min(side.n_units for side in (search.original, search.reference) if side is not None)
    if least < LEAST_UNITS:
        raise Refused(
            f"a search needs at least {LEAST_UNITS} statistical units on each of its sides, and has {least}; a table "
            "this small is best judged by anonflow compare"
        )
    return Parts(_screen(search, rng), search, confirm, judge, released)


def _screen(search: Table, rng: np.random.Generator) -> Table | None:
    if search.original.n_units < 2 * SCREEN_UNITS:
        return None
    sides = (search.original, search.reference)
    original, reference = (None if side is None else draw_units(side, SCREEN_UNITS, rng)[0] for side in sides)
    assert original is not None
    return Table(original, reference)


def _halves(data: Microdata, rng: np.random.Generator) -> tuple[Microdata, Microdata]:
    return draw_units(data, data.n_units // 2, rng)
