"""People and released rows in codes: variables one by one, and groups of people by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from anoncore.kernels.left_out import Codes, nearest_with_each
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags, aligned_values, codes_of_values, places_among, shared_variables

SAME = 1e-5  # of the unit, by variable, below which distances are alike
UNIT = 1 << 16  # numbers are placed among the people in such parts of the distribution; codes of levels are multiples
_LEVELS = 8000  # of a variable, whose codes have to stay below those of `anoncore.kernels.left_out`
_QUARTERS, _FEW_LEVELS, _PAIRS = 4, 20, 40  # parts of a number, levels, and pairs of variables that make groups


@dataclass(frozen=True, eq=False, repr=False)
class CodedPeople:
    """People and released rows in codes whose differences are distances, variable by variable.

    Parameters
    ----------
    people : (P, n) numbers by their place in the distribution of all people, levels by multiples of `UNIT`
    rows : (n, M) the same of the release; a level that no one of the people holds has a code of its own
    numeric : (n,) whether numbers
    n_members : of the people, who come first
    numbers : (P, c) and (M, c) values of the numbers, NaN where missing
    names : n variables
    """

    people: Codes
    rows: Codes
    numeric: Flags
    n_members: int
    numbers: tuple[Floats, Floats]
    names: tuple[str, ...]

    @classmethod
    def of(cls, original: Microdata, released: Microdata, reference: Microdata) -> CodedPeople | None:
        """Code the variables that all tables share, but those with more than 8000 levels; None where there is none."""
        people, rows, numeric, numbers, names = [], [], [], [], []
        for name in shared_variables((original, released, reference)):
            members, published, others = aligned_values((original, released, reference), name)
            asked, number = np.concatenate([members, others]), original.schema[name].kind == "continuous"
            if number or len(np.unique(asked)) <= _LEVELS:
                coded = (places_among if number else codes_of_values)(asked, published, UNIT)
                people.append(coded[0])
                rows.append(coded[1])
                numeric.append(number)
                names.append(name)
                numbers += [(asked, published)] if number else []
        if not numeric:
            return None
        values = [
            np.column_stack([np.empty((len(side), 0)), *(one[at] for one in numbers)])
            for at, side in enumerate((people[0], rows[0]))
        ]
        codes = np.stack(people, axis=1), np.stack(rows)
        return cls(*codes, np.array(numeric), len(original), (values[0], values[1]), tuple(names))

    def take(self, members: Indices, nonmembers: Indices) -> CodedPeople:
        """Return some of the members and of the non-members, beside all rows."""
        chosen = np.concatenate([members, self.n_members + nonmembers])
        numbers = self.numbers[0][chosen], self.numbers[1]
        return replace(self, people=self.people[chosen], n_members=len(members), numbers=numbers)

    def groups(self, rng: np.random.Generator) -> Iterator[tuple[int | None, Indices]]:
        """Give codes of groups, (P,): by levels or by quarters of numbers; by both levels, of some pairs of variables.

        With the place of the variable, None of pairs. Pairs are of variables with at most 20 levels: of more, hardly
        anyone shares two.
        """
        shares = np.where(self.numeric, UNIT // _QUARTERS + 1, UNIT)
        codes = np.maximum(self.people // shares, -1).astype(np.intp) + 1
        yield from enumerate(codes.T)
        few = np.flatnonzero(~self.numeric & (codes.max(axis=0, initial=0) <= _FEW_LEVELS))
        pairs = np.array([(i, j) for i in few for j in few if i < j])
        for i, j in pairs[rng.permutation(len(pairs))[:_PAIRS]]:
            yield None, codes[:, i] * (_FEW_LEVELS + 1) + codes[:, j]

    @property
    def levels(self) -> tuple[Indices, Indices]:
        """Codes of levels from 0 for missing ones: (P, c) of the people and (M, c) of the rows."""
        people, rows = (np.maximum(codes // UNIT + 1, 0) for codes in (self.people.T, self.rows))
        return people[~self.numeric].T.astype(np.intp), rows[~self.numeric].T.astype(np.intp)


def distance_ratios(people: Codes, rows: Codes, beside: Codes) -> Floats:
    """Return (T,) logarithms of the distances to the nearest of other people, less those to the nearest of some rows.

    Parameters
    ----------
    people, rows, beside : (T, n), (n, M) and (B, n), of the same variables
    """
    # By all known columns, a known one adds nothing.
    asked, known = np.ascontiguousarray(people), np.ones(len(rows), dtype=bool)
    tables = np.ascontiguousarray(rows), np.ascontiguousarray(beside.T)
    near, among = (nearest_with_each(asked, known, UNIT, table)[:, 0] for table in tables)
    return log_ratios(near, among, len(rows))


def log_ratios(near: Codes, among: Codes, variables: int) -> Floats:
    """Return the logarithms of the ratios of distances over so many variables."""
    same = SAME * UNIT * variables
    return np.asarray(np.log(among + same) - np.log(near + same))
