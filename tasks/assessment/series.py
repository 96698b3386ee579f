"""The releases that a candidate follows: who joined, left or changed since, and what subtracting them reveals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.method import enough_left_out, unit_weight
from anoncore.microdata import Microdata
from anoncore.recoding import Recoding, recoded
from anoncore.risk import classified_otherwise, differencing, kept_figures, nearly_same
from anoncore.risk.scores import Certainty
from tasks.assessment.prior_releases import comparable, in_levels_of, whole_release
from tasks.common.partitions import StoredPartitions
from tasks.common.run import Run
from tasks.intake.members import recognise
from tasks.intake.split import Sides
from tasks.intake.validate import Checked
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import PairDifferencing, Series, UnitChanges
from tasks.record import ledger
from tasks.record.attempts import rejected_attempts
from tasks.record.entry import ReleaseFacts
from tasks.record.exchange import by_other_secrets, releases_elsewhere
from tasks.record.members import Members, counted
from tasks.record.predecessors import IN_COMMON, Lineage, Predecessor, nearly_as_many, predecessors, released_records

# Earlier releases that are subtracted: those since which fewest units joined.
AT_MOST = 12
# Releases that are compared by their figures: those whose numbers of records are nearest.
BY_FIGURES = 50
# A unit is large where the square of its records times this is more than the variance of a count, in shares: it moves
# the count by more than twice what one unit does where 200 of one record are left out.
LARGE = 50.0
# People who joined or changed, and people of the control, at most.
PEOPLE = 2000


@dataclass(frozen=True, eq=False, repr=False)
class _Earlier:
    """An earlier release, and how many units of the candidate joined since, or changed; by unit for tables in memory.

    Where the variables differ it is not known who changed: then no one did, and all others stayed.
    """

    facts: ReleaseFacts
    changes: UnitChanges
    now: Members
    before: Members
    n_joined: int
    n_left: int
    n_changed: int

    @property
    def n_in_common(self) -> int:
        """How many units of the candidate are in this release, too."""
        return self.now.count - self.n_joined

    @property
    def differs(self) -> bool:
        """Whether some units are in both releases, and others joined, left or changed, or it is not known."""
        differ = self.n_joined or self.n_left or self.n_changed or not self.changes.same_variables
        return bool(differ) and self.n_in_common > 0

    @property
    def joined(self) -> NDArray[np.bool_]:
        """Whether a unit joined since, (U,)."""
        return ~np.concatenate([*self.now.in_common(self.before)])

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Whether a unit is in both releases with different values, (U,)."""
        changed = self.now.changed(self.before)
        return np.zeros(self.now.count, dtype=np.bool_) if changed is None else np.concatenate([*changed])

    @property
    def stayed(self) -> NDArray[np.bool_]:
        """Whether a unit is in both releases with the same values."""
        return ~(self.joined | self.changed)


@dataclass(frozen=True)
class Terms:
    """How releases are compared.

    Parameters
    ----------
    lineage : by what earlier releases are found
    least : so many units have to join, leave or change, or none: smaller numbers are not shown
    limit : of what the difference of two releases reveals
    drawn : whether each release is of a random part of the units, of which enough are left out
    left_out : L where a random part is released and too few are left out; else 0
    masking : digest of what masks, by which rejected attempts are found
    shared : the name of a secret by which the units of other homes' releases are known
    """

    lineage: Lineage
    least: int
    limit: float
    drawn: bool
    left_out: int
    masking: str
    shared: str | None = None


@dataclass(frozen=True)
class Followed:
    """What earlier releases and the candidate reveal together, and the units behind the candidate.

    Parameters
    ----------
    earlier : the published releases that it follows, oldest first
    """

    series: Series
    members: Members
    earlier: tuple[Predecessor, ...]


def follow(run: Run, checked: Checked, sides: Sides, masked: Masked, terms: Terms) -> Followed:
    """Compare the units behind a candidate with those of every published release that it follows.

    Each of the releases since which fewest units joined is subtracted from the candidate; how well that returns the
    values of those who joined, or changed, is set beside the reference sample, or beside units of both releases that
    did not change where there is none.
    """
    as_of, now, least = ledger.last_number(run.home), recognise(run, checked, sides, terms.shared), terms.least
    earlier = predecessors(run.home, terms.lineage, now)
    known = [(one, one.members(run.home)) for one in earlier]
    compared = [_compared(one.known(now), before, one.facts, least) for one, before in known if before is not None]
    pairs, untested = _subtracted(run, compared, sides, masked, terms.limit)
    # A person is asked already about those whose units are not known.
    unknown = {one.facts.release for one, before in known if before is None}
    by_units = unknown | {one.facts.release for one in compared if one.n_in_common >= IN_COMMON}
    exact = _exact(sides, masked)
    alike, unread = _alike(run, by_units, masked, exact)
    series = Series(
        releases=len(earlier),
        known=len(compared),
        least=least,
        identified=bool(now.named[0]),
        few=tuple(one.changes for one in compared if one.changes.few),
        newest=compared[-1].changes if compared else None,
        pairs=pairs,
        untested=untested,
        not_tried=max(sum(one.n_joined > 0 for one in compared) - AT_MOST, 0),
        left=sum(one.n_left > 0 and not one.n_joined for one in compared) if exact else 0,
        exact=sum(one.differs for one in compared) if exact and not terms.drawn else 0,
        large=_beside_large_units(sides, compared, drawn=bool(exact)),
        left_out=terms.left_out,
        alike=alike,
        unread=unread,
        elsewhere=tuple(_elsewhere(run, now, least)) if terms.shared else (),
        by_other_secrets=by_other_secrets(run.home, now.shared_key) if terms.shared else 0,
        rejected=rejected_attempts(run.home, terms.masking, now),
        as_of=as_of,
        keeps_figures=bool(exact - {*masked.hidden_variables}),
    )
    return Followed(series, now, earlier)


def _elsewhere(run: Run, now: Members, least: int) -> Iterator[UnitChanges]:
    """Give the releases of other homes that hold units of the candidate; no count below the least is shown.

    Counted are the values of those two keys, one of either home, that have most in common.
    """
    for other in releases_elsewhere(run.home, now.shared_key):
        pairs = [(own, theirs, np.intersect1d(own, theirs).size) for own in now.by_key for theirs in other.units]
        if not any(both for *_, both in pairs):
            continue
        by_keys = [(both, own.size - both, theirs.size - both) for own, theirs, both in pairs if both]
        both, joined, left = max(by_keys, key=itemgetter(0))
        name, few = f"{other.office}/{other.release}", any(0 < n < least for one in by_keys for n in one)
        counts = UnitChanges(name, joined, left, None, same_variables=False, in_common=both)
        yield replace(counts, joined=None, left=None, in_common=None) if few else counts


def _compared(now: Members, before: Members, facts: ReleaseFacts, least: int) -> _Earlier:
    changed = now.changed(before)
    joined, left = (one.count - counted(one.in_common(other)) for one, other in ((now, before), (before, now)))
    n_changed = 0 if changed is None else counted(changed)
    # No count below the least leaves this function, nor one from which it could be computed.
    came, gone, others = (None if 0 < n < least else n for n in (joined, left, n_changed))
    if came is None or gone is None:
        came = gone = None
    counts = UnitChanges(facts.release, came, gone, None if changed is None else others, changed is not None)
    return _Earlier(facts, counts, now, before, joined, left, n_changed)


def _beside_large_units(sides: Sides, compared: list[_Earlier], *, drawn: bool) -> int:
    """Count the earlier releases since which a unit joined or changed that moves counts more than chance does.

    A unit of m records moves a count by m at most. Rows that are drawn anew let it vary by the root of their number, N,
    and where units are ``drawn`` by that of the squares of as many units' records as are left out.
    """
    if isinstance(sides.original, StoredPartitions):
        return 0
    original = sides.original.load()
    sizes = np.bincount(original.unit_codes)
    varies = enough_left_out(original.n_units) * unit_weight(original) if drawn else len(original)
    large = sizes.astype(np.float64) ** 2 * LARGE > varies
    return sum(bool((large & (one.joined | one.changed)).any()) for one in compared) if large.any() else 0


def _exact(sides: Sides, masked: Masked) -> set[str]:
    """Return the variables whose level counts, means or values follow from the source, as far as is known.

    They are those that no step states to draw anew, and those whose figures are so near that nothing seems to have
    been drawn. Of tables in partitions only what the steps state is known.
    """
    exact = set(masked.exact)
    if isinstance(masked.measured, StoredPartitions) or isinstance(sides.original, StoredPartitions):
        return exact
    original, candidate = recoded(sides.original.load(), masked.recodings), masked.measured.load()
    return exact | kept_figures(original, candidate, enough_left_out(original.n_units) * unit_weight(original))


def _alike(run: Run, by_units: set[str], masked: Masked, exact: set[str]) -> tuple[int, int]:
    """Count the releases, not compared by their units, whose figures are as near as those of nearly the same units.

    Identifiers may have been given out anew, or others be named first, in this plan, too. Compared are figures that no
    step draws anew, whatever the earlier release calls the variables and their levels. The second count is of those
    that could not be compared, though they hold nearly as many records: they cannot be read, tables are in partitions,
    or most variables have other names or other levels.

    Parameters
    ----------
    by_units : releases that hold at least `IN_COMMON` of the units
    exact : variables whose figures follow from the source
    """
    if isinstance(masked.measured, StoredPartitions):
        near = _nearest_in_size(run, by_units, len(masked.measured)) if exact - {*masked.hidden_variables} else []
        return 0, sum(as_large for as_large, _ in near)
    candidate = masked.measured.load()
    names = [name for name in candidate.schema.names if name in exact and name not in masked.hidden_variables]
    asked = _nearest_in_size(run, by_units, len(candidate)) if names else []
    candidate = candidate.select(names) if asked else candidate
    alike = unread = 0
    for as_large, folder in asked:
        before = whole_release(run, folder)
        if before is None:
            unread += as_large
        else:
            same = nearly_same(before, candidate, tests=len(asked))
            alike += same
            unread += as_large and not same and classified_otherwise(before, candidate)
    return alike, unread


def _nearest_in_size(run: Run, but: set[str], records: int) -> list[tuple[bool, Path]]:
    """Return the published releases whose numbers of records are nearest, at most `BY_FIGURES`, newer ones first.

    Also whether each holds nearly as many records; where that is not known, as its codebook is gone, it may.
    """
    published = {one.facts.release: one.facts for one in ledger.find(run.home, ReleaseFacts, "published")}
    newer = reversed(published.values())
    folders = [run.home.files_of(one.name, one.release) for one in newer if one.release not in but]
    sizes = [(released_records(folder), folder) for folder in folders]
    differences = [(0 if size is None else abs(size - records), folder) for size, folder in sizes]
    nearest = sorted(differences, key=itemgetter(0))[:BY_FIGURES]
    return [(nearly_as_many(records, records + difference), folder) for difference, folder in nearest]


def _subtracted(
    run: Run, compared: list[_Earlier], sides: Sides, masked: Masked, limit: float
) -> tuple[tuple[PairDifferencing, ...], int]:
    """Return the attacks with some releases since which units joined or changed, and how many could not be attacked.

    Where all of a panel changed there is no one to compare them with: nothing is asked about those who changed, and
    they do not count. People are in the levels of the candidate.
    """
    joined, changed = _fewest(compared, "n_joined"), _fewest(compared, "n_changed")
    if not (joined or changed) or isinstance(sides.original, StoredPartitions):
        return (), len(joined)
    original, candidate = recoded(sides.original.load(), masked.recodings), masked.measured.load()
    names = comparable(original, candidate, masked)
    targets = [(one, one.joined, False) for one in joined] + [(one, one.changed, True) for one in changed]
    pairs, untested = [], 0 if names else len(targets)
    for one, units, only_changed in targets if names else ():
        folder = run.home.files_of(one.facts.name, one.facts.release)
        before, lacking = in_levels_of(original.select(names), whole_release(run, folder), masked.recodings)
        shared = [] if before is None else [*before.schema.names]
        tables = (
            candidate,
            _some(run, original, np.flatnonzero(units)),
            _control(run, one, original, sides, masked.recodings),
        )
        attack = before and differencing(
            before,
            *(table.select(shared) for table in tables),
            arrived=int(one.joined[original.unit_codes].sum()),
            certainty=Certainty(tests=len(targets)),
        )
        if attack:
            shown = None if one.changes.few else attack
            pairs.append(PairDifferencing(one.facts.release, attack.verdict(limit), shown, only_changed, lacking))
        elif before is None or not only_changed:
            untested += 1
    return tuple(pairs), untested


def _fewest(compared: list[_Earlier], what: Literal["n_joined", "n_changed"]) -> list[_Earlier]:
    """Return the releases since which units joined, or changed, those since which fewest did first."""
    some = [(getattr(one, what), one) for one in compared]
    return [one for n, one in sorted(some, key=itemgetter(0)) if n][:AT_MOST]


def _control(
    run: Run, earlier: _Earlier, original: Microdata, sides: Sides, recodings: tuple[Recoding, ...]
) -> Microdata:
    """Return a random part of the people who joined neither, nor changed."""
    control, others = original, np.flatnonzero(earlier.stayed)
    if sides.reference is not None:
        control = recoded(sides.reference.load(), recodings)
        others = np.arange(control.n_units)
    return _some(run, control, others)


def _some(run: Run, data: Microdata, units: NDArray[np.intp]) -> Microdata:
    """Return all records of some units, at most `PEOPLE`, drawn at random."""
    drawn = run.rng("series").permutation(units)[:PEOPLE]
    return data.take(np.flatnonzero(np.isin(data.unit_codes, drawn)))
