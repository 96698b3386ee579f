"""Rules that hold in every household of a table: what its members share, who they are, how they relate to the head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammainccinv

from anoncore.claims import Claim, ClaimCheck
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.model import Edit, EditSet
from anoncore.microdata import Microdata, Schema, outer_limits

Integers = NDArray[np.intp]
Flags = NDArray[np.bool_]

HEAD = "head: "
# A rule needs so many households in which it could have been broken.
EVIDENCE = 20
# Fewer households that break a rule do not undo it: the release would show whether one of them is in the source.
FEW = 5
# Two levels never meet if chance would have brought them together with a probability of 1 − e⁻¹².
_NEVER = float(gammainccinv(1, np.exp(-12.0)))


@dataclass(frozen=True)
class Members:
    """How many members of a household have a level of the relation.

    Parameters
    ----------
    level : of the relation
    fewest, most : in every household; None for no limit
    """

    level: Any
    fewest: int
    most: int | None


@dataclass(frozen=True, eq=False, repr=False)
class HouseholdRules:
    """What holds in every household of a table.

    Parameters
    ----------
    constant : variables of which all members have the same value
    of_size : those of them that households of as many members have in common, too
    relation, head : the variable that says how members belong to the household, and its level that exactly one
        member has; "" and None without such a variable
    members : how many members have each level of the relation
    edits : what holds of a member and the head, whose variables are called ``head: name``
    """

    constant: tuple[str, ...]
    of_size: tuple[str, ...]
    relation: str
    head: Any
    members: tuple[Members, ...]
    edits: EditSet

    def __len__(self) -> int:
        return len(self.constant) + len(self.of_size) + len(self.members) + len(self.edits)

    def broken(self, frame: pd.DataFrame, household: Integers) -> Flags:
        """Return (H,) whether each household breaks a rule.

        Parameters
        ----------
        frame : (N, n), the members
        household : (N,) from 0, each one's household
        """
        size = np.bincount(household)
        first = np.unique(household, return_index=True)[1]
        bad = np.zeros(len(size), dtype=bool)
        for name in self.constant:
            bad |= _differs(frame[name], household, first)
        for name in self.of_size:
            # The households of a size that do not hold what most of them hold.
            held = pd.factorize(frame[name].iloc[first])[0]
            bad |= held != pd.Series(held).groupby(size).transform(lambda codes: codes.mode().iloc[0]).to_numpy()
        for one in self.members:
            number = _number(frame, self.relation, one.level, household)
            bad |= (number < one.fewest) | (one.most is not None and number > one.most)
        if self.relation:
            rows, view = head_view(frame, household, self.relation, self.head)
            bad[household[rows[~self.edits.satisfied(view)]]] = True
        return bad


@dataclass(frozen=True, kw_only=True)
class HouseholdRulesHold(Claim):
    """Every released household keeps all rules that hold in every household of the source.

    Of what follows from the size, the check sees whether households of a size agree, not whether with the source's.

    Parameters
    ----------
    household : the variable that numbers the released households
    rules : HouseholdRules
    """

    household: str
    rules: HouseholdRules

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        # Their number would reveal the one household that breaks a rule: counted in the release, it is one more.
        return "every household keeps the rules that hold in every household of the source, or in all but a few"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the households that break a rule."""
        if self.household not in released.frame:
            return self.outcome(False, "the number of the household is not released", released)
        household = pd.factorize(released.frame[self.household])[0].astype(np.intp)
        broken = int(self.rules.broken(released.frame, household).sum())
        observed = f"{broken} of {int(household.max(initial=-1)) + 1} households break a rule"
        return self.outcome(not broken, observed, released, households_breaking=broken)


def household_rules(data: Microdata, household: Integers, relation: str = "") -> HouseholdRules:
    """Find the rules that hold in every household, but for a few.

    Parameters
    ----------
    data : Microdata, N records
    household : (N,) from 0, each one's household
    relation : the variable that says how members belong to the household; found where it is not stated

    Returns
    -------
    HouseholdRules

    Notes
    -----
    Fewer than five households that break a rule do not undo it. Variables are constant where no household has two
    values; they follow from the size where all households of a size have one. A relation has a level that exactly one
    member of every household has, the head. Limits of a relation's
    numbers, and of what they are above those of the head, are rounded outward where fewer than five households reach
    them. Levels of a member and the head never meet, and limits are not exceeded, where chance would have given 12
    such households; each rule could have been broken by at least 20.
    """
    frame, names = data.frame, list(data.schema.masked)
    first, size = np.unique(household, return_index=True)[1], np.bincount(household)
    several = int((size > 1).sum()) >= EVIDENCE
    constant = [n for n in names if several and _differs(frame[n], household, first).sum() < FEW]
    of_size = [n for n in constant if _follows(frame[n].iloc[first], size)]
    candidates = [relation] if relation else [n for n in names if data.schema[n].is_categorical and n not in constant]
    for name in candidates if several else []:
        for level in data.schema[name].levels or ():
            if (_number(frame, name, level, household) != 1).sum() < FEW:
                members = tuple(_members(data, name, household))
                edits = EditSet(_of_head(data, household, name, level, [n for n in names if n not in constant]))
                return HouseholdRules(tuple(constant), tuple(of_size), name, level, members, edits)
    return HouseholdRules(tuple(constant), tuple(of_size), "", None, (), EditSet())


def head_view(frame: pd.DataFrame, household: Integers, relation: str, head: object) -> tuple[Integers, pd.DataFrame]:
    """Return the rows of the members who are not the head, and their values beside those of their head."""
    is_head = (frame[relation] == head).to_numpy()
    at = np.full(int(household.max(initial=-1)) + 1, -1)
    at[household[is_head]] = np.flatnonzero(is_head)
    rows = np.flatnonzero(~is_head & (at[household] >= 0))
    view = frame.iloc[rows].reset_index(drop=True)
    heads = frame.iloc[at[household[rows]]].reset_index(drop=True).add_prefix(HEAD)
    return rows, pd.concat([view, heads], axis=1)


def _differs(column: pd.Series, household: Integers, first: Integers) -> Flags:
    """Return (H,) whether a household has more than one value; a missing one is a value."""
    codes = pd.factorize(column)[0]
    return np.bincount(household, codes != codes[first][household]) > 0


def _follows(values: pd.Series, size: Integers) -> bool:
    """Whether a value of (H,) households follows from their size, and is not the same for all."""
    codes = pd.factorize(values)[0]
    usual = pd.Series(codes).groupby(size).transform(lambda own: own.mode().iloc[0]).to_numpy()
    return len(np.unique(usual)) > 1 and int((codes != usual).sum()) < FEW


def _number(frame: pd.DataFrame, relation: str, level: object, household: Integers) -> Integers:
    """Return (H,) the members with a level of the relation."""
    return np.bincount(household, (frame[relation] == level).to_numpy()).astype(np.intp)


def _members(data: Microdata, relation: str, household: Integers) -> Iterator[Members]:
    for level in data.schema[relation].levels or ():
        number = _number(data.frame, relation, level, household)
        # Without the few that have the fewest and the most members of the level.
        fewest, most = (int(np.sort(number)[at]) for at in (min(FEW, len(number)) - 1, -min(FEW, len(number))))
        sharp = int((number == most).sum()) >= EVIDENCE
        if fewest or (sharp and most):
            yield Members(level, fewest, most if sharp else None)


def _of_head(data: Microdata, household: Integers, relation: str, head: object, names: list[str]) -> Iterator[Edit]:
    """Yield what holds of a member and the head, for each relation apart."""
    rows, view = head_view(data.frame, household, relation, head)
    unit = household[rows]
    levels = [n for n in names if data.schema[n].is_categorical and n != relation]
    numbers = [n for n in names if not data.schema[n].is_categorical and data.frame[n].notna().any()]
    for name in numbers:
        lower, upper = outer_limits(*_present(data.frame[name], household))
        yield BoundEdit(name=f"{name} of a member", variable=name, lower=lower, upper=upper)
    for name in levels:
        yield from _never(view, unit, data.schema, (HEAD + name, relation), None)
    for level in data.schema[relation].levels or ():
        own = (view[relation] == level).to_numpy()
        if len(np.unique(unit[own])) < EVIDENCE:
            continue
        here, when = view[own].reset_index(drop=True), Condition(variable=relation, values=(level,))
        for one, other in product(levels, levels):
            yield from _never(here, unit[own], data.schema, (HEAD + one, other), when)
        for name in numbers:
            yield from _limits(here, view, unit[own], name, when)


def _never(
    view: pd.DataFrame, unit: Integers, schema: Schema, names: tuple[str, str], when: Condition | None
) -> Iterator[ConditionalEdit]:
    """Yield for each level of the head's variable which levels of the member's never meet it."""
    one, other = (view[name] for name in names)
    codes = np.stack([one.cat.codes.to_numpy(), other.cat.codes.to_numpy(), unit])
    i, j, _ = np.unique(codes[:, (codes[:2] >= 0).all(axis=0)], axis=1)
    held = np.zeros((len(one.cat.categories), len(other.cat.categories)), dtype=np.intp)
    np.add.at(held, (i, j), 1)
    expected = held.sum(axis=1, keepdims=True) * held.sum(axis=0) / max(int(held.sum()), 1)
    never = (held < FEW) & (expected >= _NEVER)
    levels = schema[names[1]].levels or ()
    for row in map(int, np.flatnonzero(never.any(axis=1))):
        allowed = tuple(level for level, no in zip(levels, never[row], strict=True) if not no)
        of_head = Condition(variable=names[0], values=(one.cat.categories[row],))
        yield ConditionalEdit(
            name=f"{names[1]} beside {names[0]} {row} {'' if when is None else when.values}",
            when=(of_head,) if when is None else (when, of_head),
            then=Condition(variable=names[1], values=allowed, missing=True),
        )


def _limits(
    here: pd.DataFrame, view: pd.DataFrame, unit: Integers, name: str, when: Condition
) -> Iterator[ConditionalEdit | LinearEdit]:
    """Yield the limits of a number, and of what it is above that of the head, which chance would have broken."""
    gap = here[name] - here[HEAD + name]
    for values, beside in ((here[name], view[name]), (gap, _paired_by_chance(here[name], here[HEAD + name]))):
        present, units = _present(values, unit)
        if len(np.unique(units)) < EVIDENCE:
            return
        limits = outer_limits(present, units)
        others = beside.to_numpy(dtype=np.float64)
        for side, relation, bound in zip((1.0, -1.0), ("lower", "upper"), limits, strict=True):
            if np.mean(side * others < side * bound) * len(np.unique(units)) < _NEVER:
                continue
            if values is gap:
                yield _gap_edit(name, relation, bound, when)
            else:
                limit = Condition(variable=name, missing=True, **{relation: bound})  # type: ignore[arg-type]
                yield ConditionalEdit(name=f"{name} {relation} {when.values}", when=(when,), then=limit)


def _gap_edit(name: str, relation: str, bound: float, when: Condition) -> LinearEdit:
    return LinearEdit(
        name=f"{name} less that of the head, {relation} {when.values}",
        terms={name: 1.0, HEAD + name: -1.0},
        relation=">=" if relation == "lower" else "<=",
        constant=bound,
        when=(when,),
    )


def _present(values: pd.Series, unit: Integers) -> tuple[NDArray[np.float64], Integers]:
    """Return the numbers that are not missing, and their units."""
    numbers = values.to_numpy(dtype=np.float64)
    present = ~np.isnan(numbers)
    return numbers[present], unit[present]


def _paired_by_chance(values: pd.Series, heads: pd.Series) -> pd.Series:
    """Return differences between members and the heads of others."""
    one, other = (column.dropna().to_numpy(dtype=np.float64) for column in (values, heads))
    if not len(other):
        return pd.Series(dtype=np.float64)
    # Heads may lack the number more often than members: they are taken again from the first.
    shifted = (np.resize(np.roll(other, 1 + 7 * shift), len(one)) for shift in range(20))
    return pd.Series(np.concatenate([one - heads_of_others for heads_of_others in shifted]))
