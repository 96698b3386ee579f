"""Whether a hidden group can be found again: promises about counts per area, and attacks on them.

What is hidden are the counts before and where they were largest; no statement, finding or figure here reveals
them, nor which area an attack exposes. That stands on the custodian's own page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from anoncore.claims import Claim, ClaimCheck
from anoncore.kernels.wavelet.inversion import Audit, audit
from anoncore.kernels.wavelet.redistribution import Goals
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.microdata import Microdata, Schema
from anoncore.microdata.units import Units, unit_codes
from anoncore.risk.reinference import (
    FOLDS,
    Coding,
    Membership,
    Odds,
    Origin,
    Recount,
    expected_origins,
    folds,
    is_learned_from,
    learned_shares,
    origin_information,
    recount_by_membership,
    recount_by_origin,
    relearned_from,
    relearning_numbers,
)

LEAD = 3.0  # standard errors by which an area must lead to be known as the first
NOT_RELEASED = "its variables are not released"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Who is hidden, and the areas.

    Parameters
    ----------
    vital : mappings of variable to values; a member has, for one of them, one of the values of each variable
    parameter : the variable whose values are the areas
    order : the m areas, in their stated order
    weight : the variable whose sums are counted; records are counted where None
    """

    vital: tuple[Mapping[str, tuple[Any, ...]], ...]
    parameter: str
    order: tuple[Any, ...]
    weight: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that say who belongs to the group."""
        return tuple(dict.fromkeys(n for one in self.vital for n in one))

    def others(self, schema: Schema) -> list[str]:
        """Return the released variables that say neither who belongs to the group nor where."""
        return [n for n in schema.masked if n not in (self.parameter, *self.variables)]

    def is_stated_by(self, schema: Schema) -> bool:
        """Whether the variables by which the group is counted are there."""
        counted = () if self.weight is None else (self.weight,)
        return all(n in schema for n in (self.parameter, *self.variables, *counted))

    def members(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the record belongs to the group."""
        member = np.zeros(len(frame), dtype=bool)
        for one in self.vital:
            holds = np.ones(len(frame), dtype=bool)
            for name, values in one.items():
                holds &= _among(frame[name], values)
            member |= holds
        return member

    def level_codes(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (m,) int: the code of each area among the levels of the parameter, −1 where it is none."""
        at = {str(level): code for code, level in enumerate(frame[self.parameter].cat.categories)}
        return np.array([at.get(str(a), -1) for a in self.order])

    def areas(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) int: the position of each record's area in ``order``, −1 elsewhere."""
        codes = self.level_codes(frame)
        place = np.full(len(frame[self.parameter].cat.categories) + 1, -1)
        place[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
        return np.asarray(place[frame[self.parameter].cat.codes.to_numpy()])

    def counts(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (m,) int: members per area, the quantity signal; float, the sums of their weights, with these."""
        return self.totals(frame, self.members(frame))

    def totals(self, frame: pd.DataFrame, chosen: np.ndarray) -> np.ndarray:
        """Return (m,) the records (N,) chosen per area, or the sums of their weights."""
        area = self.areas(frame)
        chosen = chosen & (area >= 0)
        weights = None if self.weight is None else self.weights(frame)[chosen]
        return np.bincount(area[chosen], weights, minlength=len(self.order))

    def weights(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) float: what each record counts."""
        return np.ones(len(frame)) if self.weight is None else frame[self.weight].to_numpy(dtype="float64")


def _among(column: pd.Series, values: tuple[Any, ...]) -> np.ndarray:
    listed = {str(v) for v in values}
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.isin([float(v) for v in values]).to_numpy()
    good = np.array([str(level) in listed for level in column.cat.categories] + [False])
    return np.asarray(good[column.cat.codes.to_numpy()])


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Hidden:
    """What was hidden and how; the original counts are confidential and are never disclosed.

    Parameters
    ----------
    group : Group, of m areas
    original, target : (m,) int, or float where weights are counted
    goals : Goals
    model, details, share : of the redistribution; the exact share of the details kept
    tolerance : a count restored within this share of the truth is found
    match_on : variables by which counterparts are chosen; all others than the group's when empty
    """

    group: Group
    original: np.ndarray = field(repr=False)
    target: np.ndarray
    goals: Goals = field(repr=False)
    model: SignalModel
    details: str
    share: float = field(repr=False)
    tolerance: float
    match_on: tuple[str, ...] = ()

    @property
    def population(self) -> np.ndarray:
        """Records of any kind per area, (m,) int, or the sums of their weights."""
        return np.asarray(self.model.population)

    @property
    def concealed(self) -> list[int]:
        """The positions whose count was to be hidden: a small one that is merely kept is no secret."""
        return self._bound or [int(self.original.argmax())]

    @property
    def _bound(self) -> list[int]:
        """The positions that a goal binds."""
        capped = [i for i, most in self.goals.caps.items() if most < self.original[i]]
        raised = [i for i, least in self.goals.raises.items() if least > self.original[i]]
        return sorted({*capped, *raised})

    def attacks(self) -> tuple[Audit, ...]:
        """Invert the target by the largest gain, and by the share of details, which the release reveals."""
        # Where no goal binds, the largest count is what there is to hide.
        attacked = self if self._bound else replace(self, goals=Goals())
        return tuple(attacked.audit(share) for share in ((None, self.share) if self.share > 0 else (None,)))

    def audit(self, share: float | None) -> Audit:
        """Invert the target by the largest gain, or by a known share of details, and compare with the original."""
        return audit(self.original, self.target, self.goals, self.model, tolerance=self.tolerance, share=share)

    def recounted(self, recount: Recount) -> list[int]:
        """Return positions of hidden counts that a recount finds, and knows that it finds.

        Found is a count that comes out within the tolerance, or first (a raised one: last) as it is, with a
        standard error that reveals it; unless sharing the group out by population reveals as much.
        """
        return [i for i in self.concealed if self._is_close(recount, i) or self._is_first(recount, i)]

    @property
    def _by_population(self) -> np.ndarray:
        return np.asarray(self.target.sum() * self.population / max(self.population.sum(), 1))

    def _is_close(self, recount: Recount, at: int) -> bool:
        truth, reach = float(self.original[at]), self.tolerance * max(float(self.original[at]), 1.0)
        sure = recount.errors[at] <= self.tolerance * max(recount.counts[at], 1.0)
        shared_out = abs(self._by_population[at] - truth) <= reach
        return bool(sure and abs(recount.counts[at] - truth) <= reach and not shared_out)

    def _is_first(self, recount: Recount, at: int) -> bool:
        heads = np.maximum(self.population, 1) if self.model.ratio else np.ones(len(self.original))
        sign = -1.0 if self.goals.raises.get(at, 0) > self.original[at] else 1.0
        truth, recounted, even = (sign * c / heads for c in (self.original, recount.counts, self._by_population))
        rivals = np.arange(len(truth)) != at
        error = recount.errors / heads
        ahead = recounted[at] - recounted[rivals] > LEAD * np.hypot(error[at], error[rivals])
        clear = ahead & (np.abs(recounted[at] - recounted[rivals]) > self.tolerance * np.abs(recounted[rivals]))
        shared_out = (even[at] > even[rivals]).all()
        return bool((truth[at] > truth[rivals]).all() and clear.all() and not shared_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupCounts(Claim):
    """The release holds exactly the stated number of members of the group in every area.

    Source: Chertov and Tavrov 2010, section 2.1.
    """

    hidden: Hidden

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        group = self.hidden.group
        return f"the group's counts in {len(group.order)} areas of {group.parameter} are the chosen ones"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the group in the release, area by area."""
        group = self.hidden.group
        if not group.is_stated_by(released.schema):
            return self.outcome(False, NOT_RELEASED, released)
        return self.compared(group.counts(released.frame), released)

    def compared(self, counts: np.ndarray, released: Sized) -> ClaimCheck:
        """Compare (m,) counts of the release with the chosen ones."""
        off = int((~np.isclose(counts, self.hidden.target, rtol=1e-9)).sum())
        sentence = f"{len(counts) - off} of {len(counts)} counts as chosen, {counts.sum():.10g} members in all"
        return self.outcome(off == 0, sentence, released, counts_off=off)


@dataclass(frozen=True, eq=False, kw_only=True)
class InversionAudit(Claim):
    """Who knows the wavelet cannot restore a hidden count from the released ones.

    Two attacks, each a linear program: the largest gain of the details that leaves no count negative, and the
    same with the stated share of details. The audit fails when a hidden count comes out within the tolerance,
    when its area comes out first (a raised one: last) as it truly is, or when it remains an outlier.

    Source: refutes Chertov and Tavrov 2010, section 1, on there being no way back.
    """

    hidden: Hidden
    recomputed: ClassVar[bool] = False

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return "no hidden count is restored by inverting the wavelet route"

    def check(self, released: Sized) -> ClaimCheck:
        """Attack the chosen counts; of the outcome only how many are exposed is reported."""
        hidden, attacks = self.hidden, self.hidden.attacks()
        concealed = set(hidden.concealed)
        attacked = len(concealed)
        exposed = concealed & {int(i) for a in attacks for i in a.positions[a.exposed]}
        standing = concealed & set(attacks[0].shared_outliers.tolist())
        parts = [f"{attacked} hidden count(s) attacked, none restored within {hidden.tolerance:.0%}"]
        if exposed:
            parts = [
                f"the released counts give away {len(exposed)} of {attacked} hidden count(s): inverting "
                f"the wavelet route restores a count within {hidden.tolerance:.0%} of the truth or shows "
                "its area as the extreme one, as it is"
            ]
        if standing:
            parts.append(f"{len(standing)} hidden count(s) remain outliers")
        if (exposed or standing) and hidden.details != "winsorised":
            parts.append("take the details from a winsorised signal (details: winsorised)")
        elif exposed or standing:
            parts.append("state goals further from the truth, other levels or a smaller share")
        figures = {"attacked": attacked, "exposed": len(exposed), "outliers_left": len(standing)}
        return self.outcome(not (exposed or standing), "; ".join(parts), released, **figures)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReinferenceAudit(Claim):
    """Counting the group once more from the other variables does not find a hidden count.

    Two attacks, both on the release itself. One learns who looks like a member, without the area, and finds
    for every area the share of members under which its records are likeliest. The other learns from everybody
    else which areas people look to be from, and finds the shares of areas under which the members' values are
    likeliest. Both know the group's size. A hidden count is found when it comes out within the tolerance, or
    its area first (a raised one: last) as it truly is, the attack's own standard error confirming it (at
    most the tolerance; a lead of three), where sharing the group out by population does not show it.

    Source: the adversary whom Chertov and Tavrov 2010 leave out; Saerens, Latinne and Decaestecker 2002.
    """

    hidden: Hidden
    recomputed: ClassVar[bool] = False

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return "no hidden count is found again from the other variables"

    def check(self, released: Microdata) -> ClaimCheck:
        """Learn, count again, compare with the truth and with sharing out by population."""
        if not self.hidden.group.is_stated_by(released.schema):
            return self.outcome(False, NOT_RELEASED, released)
        return self.compared(*recounts(released, self.hidden), released)

    def compared(self, by_membership: Recount | None, by_origin: Recount | None, released: Sized) -> ClaimCheck:
        """Compare what the attacks count with the truth and with sharing out by population."""
        hidden = self.hidden
        alike = [] if by_membership is None else hidden.recounted(by_membership)
        traced = [] if by_origin is None else hidden.recounted(by_origin)
        attacked = len(hidden.concealed)
        parts = []
        if alike:
            parts.append(
                f"counting who looks like the group finds {len(alike)} of {attacked} hidden count(s): those "
                "who changed places with members resemble them too much; match on fewer variables (match_on)"
            )
        if traced:
            parts.append(
                f"tracing members to where they look to be from finds {len(traced)} of {attacked} hidden "
                "count(s): a variable that stays with them follows the area; coarsen it or do not release it"
            )
        sentence = "; ".join(parts) or f"{attacked} hidden count(s) attacked twice, none found"
        figures = {"attacked": attacked, "found_by_looks": len(alike), "found_by_origin": len(traced)}
        return self.outcome(not parts, sentence, released, **figures)


def recounts(released: Microdata, hidden: Hidden) -> tuple[Recount | None, Recount | None]:
    """Count a group per area by who looks like a member, and by where members look to be from.

    Parameters
    ----------
    released : Microdata, N records
    hidden : Hidden
        Its group, its areas and, with more than 64 areas, which of them are of interest.

    Returns
    -------
    two Recount, over the m areas; None where there is nothing to learn from
    """
    group, m = hidden.group, len(hidden.group.order)
    if not (names := group.others(released.schema)):
        return None, None
    area, everyone = group.areas(released.frame), group.members(released.frame)
    rows = np.flatnonzero(area >= 0)
    part, area, vital = released.take(rows), area[rows], everyone[rows]
    fold = unit_folds(vital, part.units)
    heads, sides = np.bincount(area, minlength=m), np.bincount(vital, minlength=2)
    shares, kept = learned_shares(sides), np.array(hidden.concealed, dtype=np.intp)
    at = np.flatnonzero(is_learned_from(0, everyone, shares)[rows])
    lesson = Lesson(area[at], vital[at], None if fold is None else fold[at], 1.0 / shares[vital[at].astype(np.intp)])
    coding, membership, origin = lesson.learned(part.select(names).take(at), heads, kept)
    codes, total, by_origin, by_membership = coding.of(part), int(sides[1]), None, None
    if origin is not None and shares[0] < 1:
        others = np.flatnonzero(~vital)
        missed = origin.missed(codes[others], area[others], m, kept)
        numbers = relearning_numbers(0, len(everyone))[rows[others]]
        again, stands_for = relearned_from(numbers, missed, float(missed.sum()), sides)
        origin = Origin.learned(codes[others[again]], area[others[again]], heads, kept, stands_for)
    if origin is not None:
        own = origin.likelihoods(codes[vital])
        by_origin = recount_by_origin(
            origin, m, total, partial(expected_origins, own), partial(origin_information, own)
        )
    weight = None if group.weight is None else group.weights(part.frame)
    if membership is not None and fold is not None:
        log_odds = membership.log_odds(codes, fold)
        by_membership = recount_by_membership(Odds.of(log_odds, area), m, total)
        if weight is not None:
            by_membership = _weighted_by_looks(by_membership, log_odds, area, weight)
    if by_origin is not None and weight is not None:
        by_origin = by_origin.weighted(np.bincount(area, weight, m) / np.maximum(heads, 1))
    return by_membership, by_origin


def _weighted_by_looks(recount: Recount, log_odds: np.ndarray, area: np.ndarray, weight: np.ndarray) -> Recount:
    """Return sums of weights: members stand for the mean weight of those in their area who look like members."""
    m, heads = len(recount.counts), np.bincount(area, minlength=len(recount.counts))
    share = np.clip(recount.counts / np.maximum(heads, 1), 1e-9, 1.0)
    counted, weighed = Odds.of(log_odds, area), Odds.of(log_odds, area, weight)
    looks = share[counted.areas] * counted.odds / (1.0 + share[counted.areas] * (counted.odds - 1.0))
    alike, total = (np.bincount(counted.areas, one.counts * looks, m) for one in (counted, weighed))
    return recount.weighted(total / np.maximum(alike, np.finfo(float).tiny))


def unit_folds(vital: np.ndarray, units: Units | None) -> np.ndarray | None:
    """Return (N,) the part of each record, all records of a unit in one; None where a side is of fewer than five units.

    Parameters
    ----------
    vital : (N,) bool
    units : (N,) statistical unit of each record; each its own where None
    """
    unit = unit_codes(units, len(vital))
    has_members, has_others = (np.bincount(unit, side) > 0 for side in (vital, ~vital))
    if min(has_members.sum(), has_others.sum()) < FOLDS:
        return None
    return folds(np.where(has_members & has_others, 2, has_members))[unit]


@dataclass(frozen=True, eq=False, repr=False)
class Lesson:
    """What is known of n records from which an attacker learns.

    Parameters
    ----------
    area : (n,) int, 0..m-1
    vital : (n,) bool
    fold : (n,) int, see `unit_folds`; None where too few are members, or others
    weight : (n,) float, how many records each stands for
    """

    area: np.ndarray
    vital: np.ndarray
    fold: np.ndarray | None
    weight: np.ndarray

    def learned(
        self, data: Microdata, heads: np.ndarray, kept: np.ndarray
    ) -> tuple[Coding, Membership | None, Origin | None]:
        """Return how values are coded, who looks like a member, and where records look to be from.

        Parameters
        ----------
        data : Microdata, n records, of the variables that are learned from
        heads : (m,) int, all records of each area
        kept : (h,) int, areas that are distinguished in any case
        """
        coding = Coding.fit(data, data.schema.names, self.weight)
        codes, others = coding.of(data), np.flatnonzero(~self.vital)
        origin = Origin.learned(codes[others], self.area[others], heads, kept) if self.vital.any() else None
        if self.fold is None or not coding.width:
            return coding, None, origin
        return coding, Membership.learned(codes, self.vital, self.fold), origin
