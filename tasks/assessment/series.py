"""The releases that a candidate follows: who joined, left or changed since, and what subtracting them reveals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anoncore.microdata import Microdata
from anoncore.risk import differencing
from tasks.assessment.prior_releases import comparable, released_table
from tasks.common.run import Run
from tasks.common.workspace import StoredArrays
from tasks.intake.members import recognise, unit_numbers
from tasks.intake.split import Sides
from tasks.intake.validate import Checked
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import PairDifferencing, Series, UnitChanges
from tasks.record.entry import ReleaseFacts
from tasks.record.members import Members, members_of

# Earlier releases that are subtracted: those since which fewest units joined or changed.
AT_MOST = 12
# People of the control.
PEOPLE = 2000


@dataclass(frozen=True, eq=False, repr=False)
class _Earlier:
    """An earlier release, and by unit of the candidate whether it joined since or changed."""

    facts: ReleaseFacts
    changes: UnitChanges
    new: np.ndarray


@dataclass(frozen=True)
class Followed:
    """What earlier releases and the candidate reveal together, and the `Members` behind the candidate by reference."""

    series: Series
    members: StoredArrays


def follow(
    run: Run, earlier: tuple[ReleaseFacts, ...], checked: Checked, sides: Sides, masked: Masked, least: int
) -> Followed:
    """Compare the units behind a candidate with those of every published release that it follows.

    Each of the releases with the fewest new units is subtracted from the candidate; how well that returns the values
    of new units is set beside the reference sample, or beside units of both releases where there is none.

    Parameters
    ----------
    earlier : the published releases, oldest first
    least : so many units have to join, leave or change, or none; smaller numbers are not shown
    """
    stored = recognise(run, checked, sides)
    now = Members(**stored.load())
    known = ((facts, members_of(run.home, facts.release)) for facts in earlier)
    compared = [_compared(now, before, facts, least) for facts, before in known if before is not None]
    pairs, untested = _subtracted(run, compared, sides, masked)
    series = Series(
        releases=len(earlier),
        known=len(compared),
        least=least,
        identified=checked.keys is not None,
        few=tuple(one.changes for one in compared if one.changes.few),
        newest=compared[-1].changes if compared else None,
        pairs=pairs,
        untested=untested,
    )
    return Followed(series, stored)


def _compared(now: Members, before: Members, facts: ReleaseFacts, least: int) -> _Earlier:
    joined, changed = ~now.in_common(before), now.changed(before)
    counts = joined.sum(), (~before.in_common(now)).sum(), changed.sum()
    # No count below the least leaves this function.
    shown = (None if 0 < n < least else int(n) for n in counts)
    return _Earlier(facts, UnitChanges(facts.release, *shown), joined | changed)


def _subtracted(
    run: Run, compared: list[_Earlier], sides: Sides, masked: Masked
) -> tuple[tuple[PairDifferencing, ...], int]:
    """Return the attack with each of some releases, and with how many it could not be carried out."""
    changed = sorted((one for one in compared if one.new.any()), key=lambda one: int(one.new.sum()))[:AT_MOST]
    if not changed:
        return (), 0
    original, candidate = sides.original.load(), masked.measured.load()
    names = comparable(original, candidate, masked)
    pairs = []
    for one in changed if names else ():
        folder = run.home.files_of(one.facts.name, one.facts.release)
        before = released_table(run, folder, original.schema.select(names))
        people = _people(run, one.new, original, sides)
        attack = before and differencing(
            before, candidate.select(names), *(side.select(names) for side in people), tests=len(changed)
        )
        pairs += [PairDifferencing(one.facts.release, attack)] if attack else []
    return tuple(pairs), len(changed) - len(pairs)


def _people(run: Run, new: np.ndarray, original: Microdata, sides: Sides) -> Iterator[Microdata]:
    """Yield all records of the new units, and a random part of the control."""
    units = unit_numbers(original)
    yield original.take(np.flatnonzero(new[units]))
    rng = run.rng("series")
    if sides.reference is None:
        control, codes, stayed = original, units, np.flatnonzero(~new)
    else:
        control = sides.reference.load()
        codes = unit_numbers(control)
        stayed = np.arange(control.n_units)
    drawn = rng.permutation(stayed)[:PEOPLE]
    yield control.take(np.flatnonzero(np.isin(codes, drawn)))
