"""Linkage by some of the variables: those that stayed as they were, the quasi-identifiers, and other subsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anoncore.encoding import EncodedTables
from anoncore.kernels.agreement import largest_agreement
from anoncore.kernels.groups import distinct_counts
from anoncore.kernels.neighbors import nearest
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._proportions import Proportion, proportion
from anoncore.risk._values import Flags, SortedValues, aligned_values, drawn_people, shared_variables
from anoncore.risk.linkage import linked_chances, own_rows

_ASKED = 2000  # people linked, and non-members asked about; of more a sample
_ALONE = 40  # variables tried one by one: those with the most values
_SIZES = (3, 5, 10)
_DRAWS = 3  # random subsets of each size
_UNCHANGED = (0.9, 0.5)  # chance-corrected shares of unchanged values from which a variable counts as unchanged


@dataclass(frozen=True)
class LinkedBySubset:
    """People linked to their own row by an attacker who knows some of their values.

    Parameters
    ----------
    name : what the attacker knows
    n_variables : how many variables that are
    certain : share of the people for whom exactly one released row agrees on all of them, and it is their own
    chance : that share if rows were given to people at random
    nonmembers : share of the non-members with whom exactly one released row agrees, to whom the attacker would be as
        certain to have found a row; None without a reference sample
    linked : share of the people whose most similar released row is their own, ties shared; 1/M by chance
    """

    name: str
    n_variables: int
    certain: Proportion
    chance: float
    nonmembers: float | None
    linked: Proportion

    @property
    def rate(self) -> Proportion:
        """Return the larger of the two shares, by lower bound."""
        return max(self.certain, self.linked, key=lambda one: (one.lower, one.upper))


@dataclass(frozen=True)
class SubsetLinkage:
    """Linkage by some of the variables, for each subset that was tried.

    Parameters
    ----------
    subsets : results; lower bounds hold for all of them together, upper bounds for each by itself
    unchanged : variables whose released values are those of the records
    guess : 1/M, the rate of picking any of the M rows
    n_people : people linked, by one record of each statistical unit, of more than 2000 a sample
    confidence : of the bounds
    """

    meaning: ClassVar[str] = (
        "The share of people whose released row is found by some of their values; with certainty where no other "
        "released row has these values."
    )

    subsets: tuple[LinkedBySubset, ...]
    unchanged: tuple[str, ...]
    guess: float
    n_people: int
    confidence: float

    @property
    def worst(self) -> LinkedBySubset:
        """Return the subset by which most people are shown to be linked."""
        return max(self.subsets, key=lambda one: (one.rate.lower, one.rate.value))

    @property
    def surest(self) -> LinkedBySubset:
        """Return the subset by which most people are shown to be linked with certainty."""
        return max(self.subsets, key=lambda one: (one.certain.lower, one.certain.value))

    @property
    def upper_certain(self) -> float:
        """Return the largest upper bound of a share linked with certainty."""
        return max(one.certain.upper for one in self.subsets)

    @property
    def upper(self) -> float:
        """Return the largest upper bound."""
        return max(max(one.certain.upper, one.linked.upper) for one in self.subsets)


def subset_linkage(
    tables: EncodedTables,
    own: ArrayLike | None = None,
    *,
    quasi_identifiers: Sequence[str] = (),
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> SubsetLinkage | None:
    """Link people to released rows by subsets of the variables, where it is known which row is whose.

    A method that masks some variables and leaves others leaves rows that are found by the latter alone, though the
    nearest row over all variables is another one. The attacker is therefore given, in turn: every variable alone (40
    with the most values at most), the variables whose released values are the records' own, the quasi-identifiers,
    random subsets of 3, 5, 10 and half of the variables, three of each, and all. On each subset he takes the only
    released row that agrees with the person exactly, or the nearest one in the encoding; on all variables also the
    row that agrees best, each agreeing value weighing −log of its share among the released ones.

    A row of the person's statistical unit is as right as the own one; of each unit one record is asked about.
    Variables count as unchanged by Cohen's κ = (a − e)/(1 − e) of the people's values and those of their own rows,
    with a the share of equal ones and e that expected by chance: above 0.9, and once more above 0.5. The rows' origin
    serves for this and for counting alone.

    Parameters
    ----------
    tables : EncodedTables
    own : (N,) number of the released row that stems from each person, −1 for none; 0 … N − 1 by default
    quasi_identifiers : names of what the attacker may know
    confidence : 0 … 1, two-sided
    rng : Generator, for samples and random subsets

    Returns
    -------
    SubsetLinkage, or None where no variable is in both tables or there are no records

    Raises
    ------
    AnonymizationError
        When ``own`` does not fit the tables.

    Notes
    -----
    Sources: Domingo-Ferrer and Torra 2003, "Disclosure risk assessment in statistical microdata protection via
    advanced record linkage", *Statistics and Computing* 13, 343–354 (linkage by subsets of variables); Fellegi and
    Sunter 1969 for agreement; Cohen 1960 for κ; Wilson 1927 for intervals, with Bonferroni's correction of the lower
    bounds. Departing from the first: certainty is counted as well, and non-members are a control.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Microdata, Schema, Variable
    >>> schema = Schema([Variable(name, "continuous") for name in "ab"])
    >>> draw = np.random.default_rng(1)
    >>> people = Microdata(pd.DataFrame(draw.normal(size=(200, 2)), columns=["a", "b"]), schema)
    >>> frame = people.frame.assign(a=draw.permutation(people.frame["a"]))
    >>> found = subset_linkage(EncodedTables.of(people, Microdata(frame, schema), None), rng=draw)
    >>> found.unchanged, found.worst.certain.value
    (('b',), 1.0)
    """
    given = [side for side in (tables.original, tables.released, tables.reference) if side is not None]
    names = shared_variables(given)
    place = own_rows(own, len(tables.original), len(tables.released))
    if not names or not len(place) or not len(tables.released):
        return None
    asked = drawn_people(tables.original, _ASKED, rng)
    others = None if tables.reference is None else drawn_people(tables.reference, _ASKED, rng)
    columns = {}
    for name in names:
        sides = aligned_values(given, name)
        parts = [sides[1], sides[0][asked]] + ([] if others is None else [sides[2][others]])
        columns[name] = SortedValues(np.concatenate(parts)).places
    search = _Search(tables, columns, (asked, place[asked]), rng)
    kappas = [search.kappa(j) for j in range(len(names))]
    knowledge = _knowledge(search, kappas, quasi_identifiers, rng)
    attempts = [(label, subset, search.link(subset)) for label, subset in knowledge]
    if len(names) > 1:
        attempts.append(("the best agreement on all variables", range(len(names)), search.link_by_agreement()))
    single = _bounds(confidence, 2 * len(attempts))
    return SubsetLinkage(
        subsets=tuple(
            LinkedBySubset(
                label, len(subset), single(found.certain), found.chance, found.nonmembers, single(found.right)
            )
            for label, subset, found in attempts
        ),
        unchanged=tuple(name for name, kappa in zip(names, kappas, strict=True) if kappa > _UNCHANGED[0]),
        guess=1.0 / len(tables.released),
        n_people=len(asked),
        confidence=confidence,
    )


def _bounds(confidence: float, tests: int) -> Callable[[Floats], Proportion]:
    """Return the function that gives a share its bounds: a lower one for all tests together, an upper one by itself."""

    def bounded(right: Floats) -> Proportion:
        alone, all_ = (proportion(float(right.sum()), len(right), 1.0 - (1.0 - confidence) / n) for n in (1, tests))
        return Proportion(alone.value, all_.lower, alone.upper, alone.n)

    return bounded


def _knowledge(
    search: _Search, kappas: Sequence[float], quasi_identifiers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, Sequence[int]]]:
    """Return what the attacker may know: a name, and the numbers of the variables."""
    n = len(search.names)
    alone = sorted(range(n), key=lambda j: -search.distinct(j))[:_ALONE]
    subsets: list[tuple[str, Sequence[int]]] = [(f"the variable {search.names[j]}", [j]) for j in alone]
    for label, bound in zip(("unchanged variables", "mostly unchanged variables"), _UNCHANGED, strict=True):
        subsets.append((label, [j for j, kappa in enumerate(kappas) if kappa > bound]))
    subsets.append(("the quasi-identifiers", [j for j, name in enumerate(search.names) if name in quasi_identifiers]))
    for size in sorted({*(size for size in _SIZES if size < n), (n + 1) // 2} - {1, n}):
        subsets += [(f"{size} random variables", rng.choice(n, size, replace=False).tolist()) for _ in range(_DRAWS)]
    subsets.append(("all variables", range(n)))
    tried: set[frozenset[int]] = set()
    fresh = []
    for label, subset in subsets:
        if subset and frozenset(subset) not in tried:
            tried.add(frozenset(subset))
            fresh.append((f"{len(subset)} {label}" if label.endswith("changed variables") else label, subset))
    return fresh


@dataclass(frozen=True, eq=False, repr=False)
class _Linked:
    """(q,) chances of the own row by certainty and by similarity; for the others see `LinkedBySubset`."""

    certain: Floats
    right: Floats
    chance: float
    nonmembers: float | None


class _Search:
    """The released rows, the people asked about and the non-members, by codes and by the encoding.

    Parameters
    ----------
    codes : by variable (M + q + c,) places of values, released rows first, then people, then non-members
    people : (q,) numbers of the people asked about, and the own row of each, −1 for none
    """

    def __init__(
        self,
        tables: EncodedTables,
        codes: dict[str, Indices],
        people: tuple[Indices, Indices],
        rng: np.random.Generator,
    ) -> None:
        asked, place = people
        self.names, self._codes, self._place = list(codes), np.stack(list(codes.values())), place
        self._rows, self._people = len(tables.released), tables.x[asked]
        self._released = tables.y
        self._there = place >= 0
        units, row_units = tables.original.units, tables.released.units
        self._units = None if units is None or row_units is None else (units[asked], row_units)
        self._marks = [rng.integers(2**64, size=int(row.max()) + 1, dtype=np.uint64) for row in self._codes]
        self._blocks = {
            block.variable.name: range(block.start, block.start + block.width + (block.indicator is not None))
            for block in tables.encoder.blocks
        }

    def distinct(self, variable: int) -> int:
        """Return how many values of a variable are released."""
        return len(np.unique(self._codes[variable, : self._rows]))

    def kappa(self, variable: int) -> float:
        """Return the chance-corrected share of the people whose own row holds their value."""
        released, people = self._sides(self._codes[variable])[:2]
        if not self._there.any():
            return 0.0
        equal = float((released[self._place] == people)[self._there].mean())
        most = int(self._codes[variable].max()) + 1
        shares = [np.bincount(side, minlength=most) / len(side) for side in (released, people[self._there])]
        chance = float(shares[0] @ shares[1])
        return (equal - chance) / (1.0 - chance) if chance < 1.0 else 0.0

    def link(self, subset: Iterable[int]) -> _Linked:
        """Link by a subset of the variables."""
        subset = list(subset)
        # Sums of random 64-bit numbers differ unless values do: of N records two collide with probability N²/2⁶⁵.
        keys = np.zeros(self._codes.shape[1], dtype=np.uint64)
        for j in subset:
            keys += self._marks[j][self._codes[j]]
        code = np.unique(keys, return_inverse=True)[1]
        released, people, others = self._sides(code)
        copies = self._holders(released, int(code.max()) + 1)
        row = np.zeros(len(copies), dtype=np.intp)
        row[released] = np.arange(self._rows)
        certain = (copies[people] == 1) & self._own(row[people])
        columns = [column for j in subset for column in self._blocks.get(self.names[j], ())]
        if columns:
            sides = np.ascontiguousarray(self._people[:, columns]), np.ascontiguousarray(self._released[:, columns])
            place = self._place
            if self._units is not None:
                near = nearest(*sides, 1)[1][:, 0]
                place = np.where(self._own(near), near, place)
            right = linked_chances(*sides, place, None if self._units is None else self._units[1])
        else:
            right = self._there / self._rows
        return _Linked(
            certain=certain.astype(np.float64),
            right=right,
            chance=float((copies[people] == 1).mean()) / self._rows,
            nonmembers=float((copies[others] == 1).mean()) if len(others) else None,
        )

    def link_by_agreement(self) -> _Linked:
        """Link by the largest agreement on all variables; ties count as errors."""
        released, people, _ = self._sides(self._codes)
        most = int(self._codes.max()) + 1
        weights = np.stack(
            [-np.log((np.bincount(row, minlength=most) + 0.5) / (self._rows + 1.0)) for row in released]
        ).clip(0.0)
        rows = np.ascontiguousarray(released, dtype=np.int32)

        def search(asked: Indices) -> tuple[Flags, Indices]:
            low = np.ascontiguousarray(asked.T, dtype=np.int32)
            weight = np.take_along_axis(weights, asked, axis=1).T.astype(np.float32)
            best, second, place = largest_agreement(low, low + 1, np.ascontiguousarray(weight), rows)
            return best > second, place.astype(np.intp)

        single, place = search(people)
        right = (single & self._own(place)).astype(np.float64)
        return _Linked(np.zeros(len(right)), right, float(single.mean()) / self._rows, None)

    def _holders(self, released: Indices, size: int) -> Indices:
        """Return (size,) how many rows hold each code, or rows of how many statistical units."""
        if self._units is None:
            return np.bincount(released, minlength=size)
        kinds, at = np.unique(released, return_inverse=True)
        holders = np.zeros(size, dtype=np.intp)
        holders[kinds] = distinct_counts(at, self._units[1])
        return holders

    def _own(self, rows: Indices) -> Flags:
        """Return (q,) whether a row is the person's own, or of the person's statistical unit."""
        own = rows == self._place
        return own if self._units is None else own | (self._units[1][rows] == self._units[0])

    def _sides(self, codes: Indices) -> list[Indices]:
        return np.split(codes, [self._rows, self._rows + len(self._place)], axis=-1)
