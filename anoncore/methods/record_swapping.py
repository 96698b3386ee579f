"""Targeted record swapping: units that are rare in their area exchange areas with units like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import NoFormalGuarantee, key_codes
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.key_groups import agreeing_units
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release

EVIDENCE = "linkage of released records to their sources, by area and keys, not beyond the share of a guess"


@dataclass(frozen=True, kw_only=True)
class RecordSwapping(Method):
    """Targeted record swapping: statistical units that are rare in their area exchange areas with units like them.

    Whole units, such as households, exchange the area alone, with units of as many records and the same values of the
    variables ``similar``: for these, counts in every area are exactly those of the source. Nothing is proven about a
    single record, and other variables stay as they are, so it is a step before masking.

    Source: Dalenius and Reiss 1982, Data-swapping; targeting as in Shlomo, Tudor and Groom 2010, Data swapping for
    protecting census tables. Departs from it: areas go round among the selected units that are
    alike, in place of pairs.

    Parameters
    ----------
    area : str
        The variable that is exchanged; by default the one with the role area.
    keys : tuple of variable names
        By which units are rare; empty for all quasi-identifiers.
    k : int, at least 2
        A unit is rare where a record of it shares area and keys with fewer units.
    similar : tuple of variable names
        Units exchange areas with units that have the same values of these, record by record.
    rate : float in [0, 1]
        Share of the units that are selected at random besides.
    """

    title: ClassVar[str] = "Targeted record swapping"
    description: ClassVar[str] = (
        "People or households that are rare where they live, and some others at random, are placed in another area, in "
        "exchange with some who are like them."
    )
    prepares: ClassVar[bool] = True

    method: Literal["record-swapping"] = "record-swapping"
    area: str = ""
    keys: tuple[str, ...] = ()
    k: int = 3
    similar: tuple[str, ...] = ()
    rate: float = 0.02

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        if not 0 <= self.rate <= 1:
            raise AnonymizationError(f"rate must lie in [0, 1], got {self.rate}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """All counts and values of one variable."""
        return LEVEL_COUNTS, MEANS, VALUES

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        area, keys, released = self._area(schema), self._keys(schema), set(schema.masked)
        if area not in released:
            return ["area: name a released variable, or give one the role area"]
        wrong = (
            ("keys", set(keys) - released, "is not released; name released variables"),
            ("similar", set(self.similar) - released, "is not released; name released variables"),
            ("keys, similar", {area} & {*keys, *self.similar}, "is the area; name it once"),
        )
        problems = [f"{what}: {', '.join(sorted(names))} {problem}" for what, names, problem in wrong if names]
        return problems if keys else ["keys: there is no quasi-identifier; name the keys", *problems]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Exchange areas.

        Raises
        ------
        AnonymizationError
            When a variable is not released, or there is no area.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        name, unit = self._area(data.schema), np.unique(data.unit_codes, return_inverse=True)[1]
        codes = key_codes(data, [name])[:, 0]
        n = int(unit.max(initial=-1)) + 1
        first = np.unique(unit, return_index=True)[1]
        apart = np.bincount(unit, codes != codes[first][unit], minlength=n) > 0
        rare = agreeing_units(key_codes(data, [name, *self._keys(data.schema)]), data.units, enough=self.k) < self.k
        wanted = (np.bincount(unit, rare, minlength=n) > 0) | (rng.random(n) < self.rate)
        alike = _alike(key_codes(data, self.similar) if self.similar else np.zeros((len(data), 1), np.int32), unit)
        source = exchanged(codes[first], alike, wanted & ~apart, ~apart, rng)
        rows = np.where(source[unit] == unit, np.arange(len(data)), first[source[unit]])
        frame = data.frame.copy()
        frame[name] = pd.Series(frame[name].iloc[rows].array, index=frame.index)
        moved = codes[first][source] != codes[first]
        return Release(
            data=Microdata.trusted(frame, data.schema, data.units),
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=True,
            notes=(
                f"people or households that share {name} and {', '.join(self._keys(data.schema))} with fewer than "
                f"{self.k}, and {self.rate:.1%} of all at random, exchanged {name} with others of as many records"
                + (f" and the same {', '.join(self.similar)}" if self.similar else ""),
            ),
            figures={"moved_units": int(moved.sum()), "unmoved_targets": int((wanted & ~moved).sum())},
        )

    def _area(self, schema: Schema) -> str:
        return self.area or next((v.name for v in schema if v.role == "area"), "")

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        area = self._area(schema)
        return self.keys or tuple(v.name for v in schema if v.role == "quasi-identifier" and v.name != area)


def _alike(codes: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return (n,) a number for each unit, the same for units of as many records with the same rows of codes (N, p)."""
    row = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    order = np.lexsort((row, unit))
    place = np.arange(len(unit)) - np.searchsorted(unit[order], unit[order])
    number = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.int64)
    for at in range(int(place.max(initial=-1)) + 1):
        here = order[place == at]
        # The units so far alike are told apart by their next record; those without one keep a number of their own.
        following = np.full(len(number), -1, dtype=np.int64)
        following[unit[here]] = row[here]
        number = np.unique(np.stack([number, following]), axis=1, return_inverse=True)[1].ravel()
    return number


def exchanged(
    area: np.ndarray, alike: np.ndarray, wanted: np.ndarray, may: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return (n,) the unit whose area each unit takes.

    Parameters
    ----------
    area, alike : (n,) int, the area of each unit, and which units may exchange areas
    wanted, may : (n,) bool, the units that are to move, and those that may
    rng : numpy Generator, which draws as many others to move with them

    Notes
    -----
    Claim: every area keeps its number of units of each kind. Among the selected units of a kind, sorted by area, each
    takes the area of the one as many places on as the largest area has; all move where that has at most half of them.

    Source: elementary.

    Examples
    --------
    >>> moves = exchanged(*np.array([[0, 0, 1], [0, 0, 0]]), *np.array([[True, False, False], [True] * 3]),
    ...                   np.random.default_rng(1))
    >>> sorted(moves.tolist())
    [0, 1, 2]
    """
    n = len(area)
    chance = rng.random(n)
    # Of each kind the wanted, then as many others.
    rank = np.lexsort((chance, ~wanted, alike))
    rank = rank[may[rank]]
    place = np.arange(len(rank)) - np.searchsorted(alike[rank], alike[rank])
    number = np.bincount(alike, wanted & may, minlength=int(alike.max(initial=-1)) + 1)
    chosen = rank[place < 2 * number[alike[rank]]]
    chosen = chosen[np.lexsort((chance[chosen], area[chosen], alike[chosen]))]
    kind = alike[chosen]
    start, size = np.searchsorted(kind, kind), np.bincount(kind, minlength=len(number))[kind]
    both = kind * (int(area.max(initial=0)) + 1) + area[chosen]
    largest = np.zeros(len(number), dtype=np.int64)
    np.maximum.at(largest, kind, np.bincount(both, minlength=1)[both])
    source = np.arange(n)
    source[chosen] = chosen[start + (np.arange(len(chosen)) - start + largest[kind]) % np.maximum(size, 1)]
    return source
