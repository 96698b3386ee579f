"""Density ratios: how much nearer released records are to a person than other people are, by several views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anoncore.encoding import EncodedTables
from anoncore.kernels.neighbors import nearest, nearest_of_others
from anoncore.microdata.units import ComparedUnits, unit_codes
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags
from anoncore.risk.coded_people import CodedPeople
from anoncore.risk.membership import matched_quantiles

Tables = tuple[Floats, Floats, Floats]

NUMBERS, KEYS, HALVES = "numbers alone", "quasi-identifiers alone", ("one half of the variables", "the other half")
SMALLEST = "the smallest principal components of numbers"
RAREST = "density ratio, numbers among the rarest level"
_FEWEST_KNOWN = 3  # variables of a part
_FAR = 1e3  # standard deviations, where nobody shares a level
_NEIGHBOURS = (1, 5)
# A spread of a column that is none, in standard deviations; and what is added to the variance of principal components.
STILL, _LEAST_VARIANCE = 1e-9, 0.02


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """Members and non-members in encoded form.

    Parameters
    ----------
    rows : (P, n), members first
    n_members : of them
    units : of their records
    """

    rows: Floats
    n_members: int
    units: ComparedUnits

    @property
    def codes(self) -> Indices | None:
        """The unit of each record; None where each is its own."""
        return self.units.together(self.n_members, len(self.rows) - self.n_members)

    def halves(self, rng: np.random.Generator) -> list[Indices]:
        """Return half of the units of members with half of those of non-members, and the rest."""
        n, others = self.n_members, len(self.rows) - self.n_members
        sides = unit_codes(self.units.members, n), unit_codes(self.units.nonmembers, others)
        one, other = (halves_of_units(codes, rng) for codes in sides)
        return [np.concatenate([half, n + rest]) for half, rest in zip(one, other, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """What else an attacker may look at than all columns of the encoded tables.

    Parameters
    ----------
    unshrunk : original, reference and release as `anoncore.risk.shrinkage.without_shrinkage` returns them
    parts : (n,) flags of the columns that an attacker knows, by the name of each part
    linear : the numbers of original, reference and release on their own scale, for principal components
    coded : people and released rows, variable by variable
    """

    unshrunk: Tables | None = None
    parts: Mapping[str, Flags] = field(default_factory=dict)
    linear: Tables | None = None
    coded: CodedPeople | None = None

    @classmethod
    def of(
        cls,
        tables: EncodedTables,
        unshrunk: EncodedTables | None,
        quasi_identifiers: Sequence[str],
        rng: np.random.Generator,
    ) -> Views:
        """Take parts of the variables that an attacker may know, of at least three: halves are drawn by chance."""
        blocks = tables.encoder.blocks
        names = [block.variable.name for block in blocks]
        levels = [block.variable.name for block in blocks if block.variable.is_categorical]
        halves = np.array_split(rng.permutation(len(names)), 2)
        known = {NUMBERS: set(names) - set(levels), KEYS: set(names) & set(quasi_identifiers)}
        known |= {name: {names[at] for at in half} for name, half in zip(HALVES, halves, strict=True)}
        parts = {name: _columns(tables, of) for name, of in known.items() if _FEWEST_KNOWN <= len(of) < len(names)}
        numbers, linear = parts.get(NUMBERS), None
        # Directions that a method or another tool keeps are straight on the numbers' own scale.
        x, y, r = tables.on_scale("linear") or (tables.x, tables.y, tables.r)
        if numbers is not None and r is not None:
            linear = x[:, numbers], r[:, numbers], y[:, numbers]
        coded = None
        if tables.reference is not None:
            coded = CodedPeople.of(tables.original, tables.released, tables.reference)
        return cls(
            unshrunk=None if unshrunk is None or unshrunk.r is None else (unshrunk.x, unshrunk.r, unshrunk.y),
            parts=parts,
            linear=linear,
            coded=coded,
        )

    def of_people(self, members: Indices, nonmembers: Indices) -> Views:
        """Return the views of some of the members and of the non-members."""
        return replace(
            self,
            unshrunk=_taken(self.unshrunk, members, nonmembers),
            linear=_taken(self.linear, members, nonmembers),
            coded=None if self.coded is None else self.coded.take(members, nonmembers),
        )


def _taken(tables: Tables | None, members: Indices, nonmembers: Indices) -> Tables | None:
    return None if tables is None else (tables[0][members], tables[1][nonmembers], tables[2])


def _columns(tables: EncodedTables, names: set[str]) -> Flags:
    """Return (n,) which columns of the encoded tables are of some variables, without those that say what is missing.

    Several variables are often missing together, so that their flags would be the smallest principal components.
    """
    flags = np.zeros(tables.x.shape[1], dtype=bool)
    for block in tables.encoder.blocks:
        flags[block.columns] = block.variable.name in names
    return flags


ALL_COLUMNS = Views()


def ratio_scores(people: People, points: Floats, views: Views, rng: np.random.Generator) -> dict[str, Floats]:
    """Return the scores of people by all views; see `anoncore.risk.density`.

    Parameters
    ----------
    people : those who are scored
    points : (M, n) released rows
    views : of the same people, as `Views.of_people` returns them
    rng : Generator, draws halves
    """
    rows, codes = people.rows, people.codes
    scores = _ratios(rows, points, codes)
    matched = matched_quantiles(points, rows[people.n_members :])
    if matched is not None:
        scores |= _named(_ratios(rows, matched, codes), "after matching the distributions")
    if views.unshrunk is not None:
        moved = np.concatenate(views.unshrunk[:2])
        scores |= _named(_ratios(moved, views.unshrunk[2], codes), "after undoing the shrinkage")
    parts = {name: (rows[:, columns], points[:, columns]) for name, columns in views.parts.items()}
    halves = [parts.pop(name) for name in HALVES if name in parts]
    if views.linear is not None:
        parts[SMALLEST] = _smallest_components(np.concatenate(views.linear[:2]), views.linear[2])
    for part, tables in parts.items():
        scores |= _named(_ratios(*tables, codes, (1,)), part)
    if len(halves) == len(HALVES):
        # Of each person one half, by chance: two forms would cost the others more than they find.
        one, other = (next(iter(_ratios(*tables, codes, (1,)).values())) for tables in halves)
        scores["density ratio, 1 neighbour, half of the variables"] = np.where(rng.random(len(one)) < 0.5, one, other)
    if views.coded is not None and NUMBERS in parts and not views.coded.numeric.all():
        scores[RAREST] = _among_rarest(*parts[NUMBERS], views.coded.levels, codes)
    return scores


def _named(scores: dict[str, Floats], part: str) -> dict[str, Floats]:
    return {f"{name}, {part}": values for name, values in scores.items()}


def _ratios(
    people: Floats, points: Floats, units: Indices | None, neighbours: tuple[int, ...] = _NEIGHBOURS
) -> dict[str, Floats]:
    """Return the scores by the ratio of distances, by the number of neighbours, of people those of other units."""
    largest = 1 if units is None else int(np.bincount(units).max())
    most = min(neighbours[-1], len(points), len(people) - largest)
    tiny = 1e-9 * np.sqrt(people.shape[1])
    if units is None:
        gaps, _ = nearest(people, people, most, skip_self=True)
    else:
        gaps, _ = nearest_of_others(people, people, most, own=units, units=units)
    among = np.log(gaps + tiny)
    near = np.log(nearest(people, points, most)[0] + tiny)
    return {
        f"density ratio, {k} neighbour{'s'[: k > 1]}": among[:, k - 1] - near[:, k - 1]
        for k in sorted({min(k, most) for k in neighbours})
    }


def _among_rarest(people: Floats, points: Floats, levels: tuple[Indices, Indices], units: Indices | None) -> Floats:
    """Return the ratio of distances to the nearest other person and row that hold the rarest of a person's levels."""
    held, released = levels
    frequency = np.column_stack([np.bincount(column)[column] for column in held.T])
    which = frequency.argmin(axis=1)
    far, tiny = _FAR * np.sqrt(people.shape[1]), 1e-9 * np.sqrt(people.shape[1])
    among, near = np.full(len(people), far), np.full(len(people), far)
    for column in range(held.shape[1]):
        asked = np.flatnonzero(which == column)
        own, codes = held[asked, column], np.unique(held[asked, column])
        there, rows, mine = (_by_code(one, codes) for one in (held[:, column], released[:, column], own))
        for others, beside, places in zip(there, rows, mine, strict=True):
            persons = asked[places]
            if len(beside):
                near[persons] = nearest(people[persons], points[beside], 1)[0][:, 0]
            # Who shares the level with the own unit alone is near to nobody.
            if units is None and len(others) > 1:
                itself = np.searchsorted(others, persons)
                among[persons] = nearest(people[persons], people[others], 1, skip_self=itself)[0][:, 0]
            elif units is not None and len(np.unique(units[others])) > 1:
                shared = units[persons], units[others]
                among[persons] = nearest_of_others(people[persons], people[others], 1, own=shared[0], units=shared[1])[
                    0
                ][:, 0]
    return np.asarray(np.log(among + tiny) - np.log(near + tiny))


def _by_code(column: Indices, codes: Indices) -> list[Indices]:
    """Return the places of each of some codes in a column, ascending."""
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    starts, ends = np.searchsorted(ordered, codes), np.searchsorted(ordered, codes, side="right")
    return [order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def uncorrelated(people: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Return both tables in principal components of people, of about unit variance."""
    middle, spread = people.mean(axis=0), people.std(axis=0)
    varies = spread > STILL
    people, points = ((table - middle)[:, varies] / spread[varies] for table in (people, points))
    variances, axes = np.linalg.eigh(people.T @ people / len(people))
    axes = axes / np.sqrt(np.maximum(variances, 0.0) + _LEAST_VARIANCE)
    return people @ axes, points @ axes


def _smallest_components(people: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Return both tables in the half of the principal components of people that vary least."""
    one, other = uncorrelated(people, points)
    half = max(one.shape[1] // 2, 1)
    return one[:, :half], other[:, :half]


def halves_of_units(codes: Indices, rng: np.random.Generator) -> list[Indices]:
    """Return the records of either half of the units, (N,) codes from 0."""
    return [np.flatnonzero(np.isin(codes, half)) for half in np.array_split(rng.permutation(int(codes.max()) + 1), 2)]
