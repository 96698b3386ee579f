"""Every attack in one form: who the attacker is, what came of it, and beside what it must be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from scipy.stats import binomtest

from anoncore.risk import Disclosure, Linkage, MembershipAttack, RiskReport, TailTest, ValuesTogether
from tasks.common.formatting import (
    NOTHING,
    Interval,
    amount,
    count,
    number,
    pairs_of_variables,
    percent,
    plain,
    points,
    pvalue,
    shares,
)
from tasks.policy.assessment import PriorReleases
from tasks.policy.disclosure_control import PublishedAssessment

NOT_TESTED = "not tested"
NO_OTHERS = "it takes people who are known not to have taken part, and this run had none"
NO_KEYS = "no released variable has the role quasi-identifier"
NO_SENSITIVE = "no released variable has the role sensitive"


@dataclass(frozen=True)
class Attack:
    """One attack, or one rule.

    Parameters
    ----------
    name : of the figure
    who : the attacker, what he knows and does, a sentence; also why nothing was tested
    found, interval, baseline, records : as they are read
    gate : name of the gate that rests on it, "" for none
    """

    name: str
    who: str
    found: str = NOT_TESTED
    interval: str = NOTHING
    baseline: str = NOTHING
    records: str = NOTHING
    gate: str = ""


@dataclass(frozen=True)
class Group:
    """Attacks with one aim."""

    name: str
    findings: tuple[Attack, ...]


def findings(assessment: PublishedAssessment) -> list[Group]:
    """Return the attacks of an assessment, those that could not be tried with the reason.

    Parameters
    ----------
    assessment : as published
    """
    groups = {
        "Tracing a released row to its person": _linkage(assessment.risk.linkage),
        "Finding out who took part": _membership(assessment),
        "Meeting single people too closely": _closeness(assessment.risk),
        "Knowing the quasi-identifiers": _disclosure(assessment.risk.disclosure),
        "Guessing sensitive values": _inference(assessment),
    }
    return [Group(name, tuple(found)) for name, found in groups.items()]


def _untested(name: str, who: str, reason: str, gate: str = "") -> Attack:
    return Attack(name, f"{who} Not tested: {reason}.", gate=gate)


def _between(share: Interval, form: Callable[[float], str]) -> str:
    return f"{form(share.lower)} to {form(share.upper)}"


def _whole(value: float) -> str:
    return percent(value, 0)


def _value(share: Any) -> str:
    return _whole(share.value)


def _two(value: float) -> str:
    return number(value, 2)


def _linkage(link: Linkage | None) -> list[Attack]:
    who = "Somebody who knows all values of all people takes the nearest released row for each person’s."
    if link is None:
        reason = "no released row belongs to one person, so there is no right row to find"
        return [_untested("Linkage", who, reason, "linkage")]
    rate, chance = link.rate, f"{percent(link.guess, 2)}, guessing"
    if link.n_suppressed:
        who += f" {count(link.n_suppressed)} of the people have no row in the release."
    found = [
        Attack(
            "Linkage, people traced",
            who,
            _whole(rate.value),
            shares(rate),
            chance,
            count(rate.n),
            "linkage",
        ),
        Attack(
            "Linkage, if everybody’s group were found",
            "Somebody has found the right group of identical rows for each person and picks one row of it.",
            _whole(link.group_rate),
            "counted in full",
            chance,
            count(rate.n),
        ),
    ]
    alone = link.among_strangers
    if alone is not None:
        found.append(
            Attack(
                "Linkage, own row among strangers’",
                "Somebody who knows all values of a person finds that person’s row among records of the "
                "reference instead of the other released rows.",
                _whole(alone.value),
                shares(alone),
                f"{percent(1 / ((link.n_reference or 0) + 1), 2)}, guessing",
                count(alone.n),
            )
        )
    for name in ("distance", "ambiguity", "uncertainty"):
        signal = getattr(link, name)
        right, wrong = signal.n_right, signal.n_wrong
        settled = not (right and wrong)
        found.append(
            Attack(
                f"Right matches told by {name}",
                f"The same attacker wants to know which matches are right, and trusts a small {name}."
                + (" All matches are of one kind, so nothing can be told." if settled else ""),
                NOTHING if settled else f"AUC {_two(signal.auc)}",
                NOTHING if settled else _between(signal, _two),
                f"{_two(signal.baseline)}, guessing",
                f"{count(right)} right, {count(wrong)} wrong",
            )
        )
    return found


def _membership(assessment: PublishedAssessment) -> list[Attack]:
    scores, boxes = assessment.risk.score_coincidence, assessment.risk.boxes
    axes = ""
    if scores is not None:
        axes = f" on {count(scores.n_axes)} axes of the "
        axes += "published loadings" if scores.loadings_known else "release"
    tried = [
        (
            "Membership by nearest record",
            "Somebody who knows a person’s full record takes those for participants whom a released row "
            "comes close to.",
            assessment.risk.membership,
            "membership",
        ),
        (
            "Membership by principal scores",
            f"Somebody who knows a person’s full record looks whether its principal scores{axes} recur in it.",
            scores.attack if scores else None,
            "membership by scores",
        ),
    ]
    if assessment.risk.membership_rescaled is not None:
        tried.append(
            (
                "Membership, moved back",
                "The same attacker sees that the release stands apart from other people, gives it their "
                "means and spreads, and looks again.",
                assessment.risk.membership_rescaled,
                "membership, moved back",
            )
        )
    if boxes is not None:
        tried.append(
            (
                "Membership by boxes",
                "Somebody who knows a person’s full record looks how densely people stand in its box.",
                boxes.membership,
                "membership by boxes",
            )
        )
    return [
        *(_told(*one) for one in tried),
        *(_all_releases(assessment.prior_releases) if assessment.prior_releases else []),
    ]


def _all_releases(earlier: PriorReleases) -> list[Attack]:
    """Return what all releases of these data tell together."""
    name, gate = "Membership by all releases together", "earlier releases of these data"
    who = "Somebody who knows a person’s full record puts all releases of these data together."
    before, attack = earlier.releases, earlier.attack
    if not before:
        return [Attack(name, f"{who} There is no earlier one.", "0 earlier releases", gate=gate)]
    if attack is None:
        reason = (
            f"none of the {count(before)} earlier release(s) can be compared with this one, or nobody is "
            "known who took no part"
        )
        return [_untested(name, who, reason, gate)]
    who += f" {count(earlier.compared)} of {count(before)} earlier release(s) can be compared."
    alone = number(attack.newest.auc)
    return [
        replace(told, baseline=f"{told.baseline}; {alone} by this release alone")
        for told in (
            _told(f"{name}, averaged", f"{who} The nearest rows are averaged.", attack.averaged, gate),
            _told(f"{name}, gathered", f"{who} Every release adds evidence.", attack.gathered, gate),
        )
    ]


def _told(name: str, who: str, attack: MembershipAttack | None, gate: str) -> Attack:
    if attack is None:
        return _untested(name, who, NO_OTHERS, gate)
    return Attack(
        name,
        who,
        f"AUC {number(attack.auc)}",
        f"{_between(attack, number)} at {percent(attack.confidence, 0)}",
        f"{number(attack.baseline)}, guessing",
        f"{count(attack.n_members)} took part, {count(attack.n_nonmembers)} did not",
        gate,
    )


def _closeness(risk: RiskReport) -> list[Attack]:
    tail, isolated, extreme = risk.tail, risk.isolated, risk.extreme
    near = f"within {plain(tail.tau)} times the distance to the person’s own nearest neighbour"
    found = [
        _counted(
            "Identical records",
            "Somebody who knows all values of a person finds them in the release, value by value.",
            risk.identical,
            "identical records",
        ),
        _counted(
            "Unusually close records (the tail rule)",
            f"Somebody who knows a person nearly exactly meets a released row {near}.",
            tail,
            "unusually close records",
        ),
        _counted(
            "Isolated records",
            "The same, for the most isolated 1 % of the people, who are the easiest to recognise.",
            isolated,
            "",
        ),
    ]
    who = (
        f"The same, for people more than {plain(extreme.factor)} times as far from their neighbour as "
        "99 % of the people are."
    )
    n, met = extreme.n_extreme, extreme.n_matched
    found.append(
        Attack(
            "Extreme records",
            who if n else f"{who} Nobody is so far away.",
            f"{count(met)} of {count(n)}",
            _share(met, n),
            f"{count(extreme.baseline)}, reference",
            f"{count(n)} of {count(extreme.n)}",
            "extreme records",
        )
    )
    return [*found, _values_together(risk.value_pairs)]


def _values_together(pair: ValuesTogether | None) -> Attack:
    name, who = "Values taken together", "Somebody who knows two values of a person finds them in one record."
    if pair is None:
        return _untested(name, who, NO_OTHERS, name.lower())
    if not pair.pair:
        return _untested(name, who, "no two variables have values rare enough to point at people")
    return Attack(
        name,
        f"{who} The worst of {pairs_of_variables(pair.n_pairs, pair.n_possible)}: {' and '.join(pair.pair)}.",
        f"{count(pair.released)} of {count(pair.n)}",
        f"{points(pair.lower)} to {points(pair.upper)} beyond the reference",
        f"{count(pair.reference)}, reference",
        count(pair.n),
        name.lower(),
    )


def _counted(name: str, who: str, rule: TailTest, gate: str) -> Attack:
    p = pvalue(rule.p)
    return Attack(
        name,
        who,
        f"{count(rule.n_released)} of {count(rule.n)}",
        _share(rule.n_released, rule.n),
        f"{count(rule.n_reference)}, reference; p\u00a0{p if p.startswith('<') else '= ' + p}",
        count(rule.n),
        gate,
    )


def _share(met: int, n: int) -> str:
    if not n:
        return NOTHING
    bounds = binomtest(min(met, n), n).proportion_ci(0.95, method="wilson")
    return f"{percent(bounds.low)} to {percent(bounds.high)}"


def _disclosure(found: Disclosure | None) -> list[Attack]:
    knows = "Somebody who knows a person’s quasi-identifiers and that the person took part"
    if found is None:
        return [_untested("Disclosure by quasi-identifiers", f"{knows} looks for the combination.", NO_KEYS)]
    sides = (found.released, found.compared, found.reference)
    ours = found.released.groups
    groups = tuple(side and side.groups for side in sides)
    told = []
    for name, does, key in (
        ("Uniqueness", "finds one record only with that combination.", "uniques"),
        (f"Combinations below k = {ours.k}", f"finds fewer than {ours.k} records.", "below_k"),
    ):
        baseline = _beside(tuple(side and getattr(side, key) for side in groups), _value)
        told.append(
            Attack(
                name,
                f"{knows} {does}",
                _value(getattr(ours, key)),
                shares(getattr(ours, key)),
                baseline,
                count(ours.n),
            )
        )
    told.append(
        Attack(
            "k-anonymity, smallest group",
            f"{knows} is left with this many records at least.",
            count(ours.smallest),
            "counted in full",
            _beside(groups, lambda g: count(g.smallest)),
            count(ours.n),
        )
    )
    told.append(
        Attack(
            "Expected re-identifications in the sample",
            f"{knows} picks one of the records with that combination, for everybody in turn.",
            f"{amount(ours.expected)} of {count(ours.n)}",
            f"{amount(ours.expected_lower)} to {amount(ours.expected_upper)}",
            _beside(groups, lambda g: amount(g.expected)),
            count(ours.n),
        )
    )
    return [*told, _population(sides), *_diversity(sides)]


Side = Any


def _beside(sides: tuple[Side, ...], form: Callable[[Any], str]) -> str:
    """Return the reference's figure; and the release's at the same size, where sizes differ."""
    whole, compared, reference = sides
    if whole is None or compared is None or reference is None:
        return "no reference sample"
    text = f"{form(reference)}, reference"
    if compared.n != whole.n:
        text += f" ({form(compared)} for the release at its size, {count(reference.n)})"
    return text


def _population(sides: tuple[Side, ...]) -> Attack:
    name = "Expected re-identifications in the population"
    who = (
        "Somebody who knows the quasi-identifiers of the whole population, but not who took part, looks for "
        "each released combination."
    )
    one, compared, reference = (side and side.sample for side in sides)
    if one is None:
        return _untested(name, who, "no released variable holds sampling weights")
    return Attack(
        name,
        f"{who} The weights stand for {amount(one.population)} people.",
        f"{amount(one.expected)} of {count(one.n)}",
        f"{amount(one.expected_lower)} to {amount(one.expected_upper)}",
        _beside((one, compared, reference), lambda s: amount(s.expected)),
        count(one.n),
    )


def _diversity(sides: tuple[Side, ...]) -> list[Attack]:
    """Return what groups give away of the sensitive variable that they give away most."""
    who = "Somebody who knows which combination is a person’s reads what all records with it have in common."
    tables = [side and {row.name: row for row in side.sensitive} for side in sides]
    first = tables[0]
    if not first:
        return [_untested("ℓ-diversity and t-closeness", who, NO_SENSITIVE)]

    def worst(name: str, key: str, form: Callable[[float], str], most: bool, says: str) -> Attack:
        row = (max if most else min)(first.values(), key=attrgetter(key))
        rows = tuple(table and table[row.name] for table in tables)
        return Attack(
            name,
            f"{who} {says} Worst of {count(len(first))}: {row.name}.",
            form(getattr(row, key)),
            "counted in full",
            _beside(rows, lambda one: form(getattr(one, key))),
            count(row.n),
        )

    row = max(first.values(), key=lambda one: one.homogeneous.value)
    rows = tuple(table and table[row.name] for table in tables)
    return [
        Attack(
            "Sensitive value given away",
            f"{who} Counted are records whose group holds one value only. Worst of {count(len(first))}: {row.name}.",
            _whole(row.homogeneous.value),
            shares(row.homogeneous),
            _beside(rows, lambda one: _whole(one.homogeneous.value)),
            count(row.n),
        ),
        worst("ℓ-diversity", "l_distinct", count, False, "Fewest different values in a group."),
        worst("t-closeness", "t", _two, True, "Largest distance of a group from all records, 0 to 1."),
    ]


def _inference(assessment: PublishedAssessment) -> list[Attack]:
    name, gate, guessed = "Attribute inference", "attribute inference", assessment.risk.inference
    who = (
        "Somebody who knows a person’s quasi-identifiers takes the sensitive value of the nearest released "
        "record for the person’s; what counts is how much more often that is right than for strangers."
    )
    if guessed is None or not guessed.variables:
        keyless = assessment.risk.disclosure is None
        alone = assessment.records.reference is None
        return [_untested(name, who, NO_KEYS if keyless else NO_OTHERS if alone else NO_SENSITIVE, gate)]
    worst = max(guessed.variables, key=lambda one: one.excess.lower)
    right = f"right for {_whole(worst.members.value)} of those who took part"
    return [
        Attack(
            name,
            f"{who} Worst of {count(len(guessed.variables))}: {worst.name}, {right}.",
            f"{points(worst.excess.value)} points",
            f"{_between(worst.excess, points)} points",
            f"{_whole(worst.strangers.value)} right for strangers",
            f"{count(worst.members.n)} took part, {count(worst.strangers.n)} did not",
            gate,
        )
    ]
