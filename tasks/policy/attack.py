"""Rows of the report's table of attacks: who the attacker is, what the attack achieves, and beside what to read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scipy.stats import binomtest

from anoncore.risk import MembershipAttack, TailTest
from tasks.common.formatting import NOTHING, WHOLE_FROM, Interval, amount, count, number, percent
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.rounding import HALF, ceil_to, floor_to

NOT_TESTED = "not tested"
# The largest p-value that is published.
NO_NON_MEMBERS = "it needs records of people who are known not to be in the data, and this run has none"
NO_QUASI_IDENTIFIERS = "no released variable has the role quasi-identifier"
ONE_VARIABLE = "no two variables are released"
NO_SENSITIVE = "no released variable has the role sensitive"


class Aim(StrEnum):
    """What the attacker aims at; reports group attacks by it, in this order."""

    LINKAGE = "Linkage: tracing a released row to its person"
    MEMBERSHIP = "Membership inference: detecting who is in the data"
    SINGLING_OUT = "Singling out: records that are released nearly as they were"
    GROUPS = "Disclosure by quasi-identifiers"
    INFERENCE = "Attribute inference: guessing sensitive values"


@dataclass(frozen=True)
class Attack:
    """One attack, or one rule.

    Parameters
    ----------
    aim : by which the rows are grouped
    name : of the figure
    attacker : what the attacker knows and does, a sentence; also why nothing was tested
    outcome, interval, baseline, records : the figure as it is read
    gate : name of the gate result that rests on it, "" for none
    place : on the page for an authority; None where it stands in the report's table alone
    advantage : success beyond the control; None where nothing was tested
    reason : why nothing was tested, a clause
    """

    aim: Aim
    name: str
    attacker: str
    outcome: str = NOT_TESTED
    interval: str = NOTHING
    baseline: str = NOTHING
    records: str = NOTHING
    gate: str = ""
    place: Place | None = None
    advantage: Advantage | None = None
    reason: str = ""


def untested(aim: Aim, name: str, attacker: str, reason: str, gate: str = "", place: Place | None = None) -> Attack:
    """Return the row of an attack that could not be carried out."""
    return Attack(aim, name, f"{attacker} Not tested: {reason}.", gate=gate, place=place, reason=reason)


def between(interval: Interval, form: Callable[[float], str], digits: int) -> str:
    """Return an interval in words, given as how many decimals of it the form shows; never narrower than it is."""
    return outwards(interval.lower, interval.upper, form, digits)


def outwards(lower: float, upper: float, form: Callable[[float], str], digits: int) -> str:
    """Return two bounds in words, as `between` does."""
    step = 10.0**-digits
    return f"{form(floor_to(lower, step))} to {form(ceil_to(upper, step))}"


def amounts(lower: float, upper: float) -> str:
    """Return the bounds of an expected number of records, each whole where it is large."""
    first, last = (0 if abs(one) >= WHOLE_FROM else 1 for one in (lower, upper))
    return f"{amount(floor_to(lower, 10.0**-first))} to {amount(ceil_to(upper, 10.0**-last))}"


def by_auc(
    aim: Aim, name: str, attacker: str, attack: MembershipAttack | None, gate: str, place: Place | None = None
) -> Attack:
    """Return the row of an attack that distinguishes members from non-members."""
    if attack is None:
        return untested(aim, name, attacker, NO_NON_MEMBERS, gate, place)
    return Attack(
        aim,
        name,
        attacker,
        f"AUC {number(attack.auc)}",
        f"{between(attack, number, 3)} at {percent(attack.confidence, 0)}",
        f"{number(attack.baseline)}, guessing",
        f"{count(attack.n_members)} members, {count(attack.n_nonmembers)} non-members",
        gate,
        place,
        Advantage.of_area(attack.auc, attack, attack.n_members + attack.n_nonmembers),
    )


def by_count(aim: Aim, name: str, attacker: str, rule: TailTest, gate: str) -> Attack:
    """Return the row of a rule that counts records matched too closely."""
    return Attack(
        aim,
        name,
        attacker,
        f"at most {count(rule.n_released)} of {count(rule.n)}",
        share_interval(rule.n_released, rule.n),
        f"at most {count(rule.n_reference)}, others; {p_phrase(rule.p)}",
        count(rule.n),
        gate,
        Place(Criterion.SINGLING_OUT, Knowledge.EVERYTHING),
        Advantage.of_counts(rule.n_released, rule.n_reference, rule.n),
    )


def p_phrase(p: float) -> str:
    """Return a published p-value in words; one half stands for all above it."""
    return "p\u00a0≥ 0.5" if p >= HALF else f"p\u00a0= {p:.1g}"


def share_interval(part: int, whole: int) -> str:
    """Return Wilson's 95 % interval of a share."""
    if not whole:
        return NOTHING
    bounds = binomtest(min(part, whole), whole).proportion_ci(0.95, method="wilson")
    return outwards(bounds.low, bounds.high, percent, 3)


def beside(sides: Sequence[Any], form: Callable[[Any], str]) -> str:
    """Return the reference's figure; and the release's at the same size, where sizes differ.

    Parameters
    ----------
    sides : the figures of the release, of the release at the reference's size, and of the reference
    """
    whole, compared, reference = sides
    if whole is None or compared is None or reference is None:
        return "no reference sample"
    text = f"{form(reference)}, reference"
    if compared.n != whole.n:
        text += f" ({form(compared)} for the release at its size, {count(reference.n)})"
    return text
