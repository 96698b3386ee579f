"""Groups of records with the same quasi-identifiers; reported without a criterion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from anoncore.risk import Disclosure, GroupRisk, SampleRisk, TableDisclosure
from tasks.common.formatting import amount, count, number, percent, shares
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_QUASI_IDENTIFIERS, NO_SENSITIVE, Aim, Attack, beside, untested
from tasks.policy.gate import Gate, Metrics, fields_of
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import at_least_ten, coarse, next_ten

AIM = Aim.GROUPS
KNOWS = "An attacker who knows a person’s quasi-identifiers and that the person is in the data"
# Releases of drawn or swapped records would otherwise seem to disclose as many people as they have combinations.
AS_IF = (
    "counted as if each record were its person’s own, so that in masked records it says how many look unique, and not "
    "how many are recognised, which linkage measures."
)
READS = "An attacker who knows which combination is a person’s reads what all records with it have in common."
whole = partial(percent, digits=0)
R = TypeVar("R", GroupRisk, SampleRisk)
Sides = tuple[TableDisclosure, TableDisclosure | None, TableDisclosure | None]


def metrics(assessment: Assessment) -> Metrics:
    """Return the sizes of the groups."""
    disclosure = assessment.risk.disclosure
    if disclosure is None:
        return {}
    groups = disclosure.released.groups
    rare = {f"risk/groups/{name}": getattr(groups, name).value for name in ("uniques", "below_k")}
    return fields_of(groups, ("smallest", "expected", "highest"), "risk/groups/") | rare


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return what the quasi-identifiers alone disclose."""
    disclosure = assessment.risk.disclosure
    if disclosure is None:
        attacker = f"{KNOWS} looks for the combination."
        return (untested(AIM, "Disclosure by quasi-identifiers", attacker, NO_QUASI_IDENTIFIERS),)
    sides = (disclosure.released, disclosure.compared, disclosure.reference)
    return (*_groups(disclosure), _population(sides), *_diversity(sides))


def _groups(disclosure: Disclosure) -> list[Attack]:
    ours = disclosure.released.groups
    sides = [side and side.groups for side in (disclosure.released, disclosure.compared, disclosure.reference)]
    rows = [
        Attack(
            AIM,
            name,
            f"{KNOWS} {does}",
            whole(getattr(ours, key).value),
            shares(getattr(ours, key)),
            beside([side and getattr(side, key) for side in sides], lambda share: whole(share.value)),
            count(ours.n),
        )
        for name, does, key in (
            ("Uniqueness", "finds one record only with that combination.", "uniques"),
            (f"Combinations below k = {ours.k}", f"finds fewer than {ours.k} records.", "below_k"),
        )
    ]
    return [
        *rows,
        Attack(
            AIM,
            "k-anonymity, smallest group",
            f"{KNOWS} is left with this many records at least.",
            count(ours.smallest),
            "counted in full",
            beside(sides, lambda groups: count(groups.smallest)),
            count(ours.n),
        ),
        Attack(
            AIM,
            "Expected re-identifications in the sample",
            f"{KNOWS} picks one of the records with that combination, for every person in turn; {AS_IF}",
            f"{amount(ours.expected)} of {count(ours.n)}",
            f"{amount(ours.expected_lower)} to {amount(ours.expected_upper)}",
            beside(sides, lambda groups: amount(groups.expected)),
            count(ours.n),
        ),
    ]


def published_disclosure(full: Disclosure | None, step: float) -> Disclosure | None:
    """Publish groups of other people in steps of ten, without the smallest one, which single people decide."""
    shown = coarse(full, step)
    if shown is None or shown.reference is None:
        return shown
    groups, sample = shown.reference.groups, shown.reference.sample
    reference = TableDisclosure(
        groups=replace(_in_tens(groups), n_groups=at_least_ten(groups.n_groups), smallest=None, highest=None),
        sample=sample and replace(_in_tens(sample), highest=None),
        sensitive=tuple(
            replace(one, n_groups=at_least_ten(one.n_groups), l_distinct=None, l_entropy=None)
            for one in shown.reference.sensitive
        ),
    )
    return replace(shown, reference=reference)


def _in_tens(risk: R) -> R:
    return replace(
        risk,
        expected=next_ten(risk.expected),
        expected_lower=next_ten(risk.expected_lower),
        expected_upper=next_ten(risk.expected_upper),
    )


def _population(sides: Sides) -> Attack:
    name = "Expected re-identifications in the population"
    attacker = (
        "An attacker who knows the quasi-identifiers of the whole population, but not who is in the data, looks for "
        "each released combination."
    )
    one = sides[0].sample
    if one is None:
        return untested(AIM, name, attacker, "no released variable holds sampling weights")
    return Attack(
        AIM,
        name,
        f"{attacker} The weights stand for {amount(one.population)} people; {AS_IF}",
        f"{amount(one.expected)} of {count(one.n)}",
        f"{amount(one.expected_lower)} to {amount(one.expected_upper)}",
        beside([side and side.sample for side in sides], lambda sample: amount(sample.expected)),
        count(one.n),
    )


def _diversity(sides: Sides) -> list[Attack]:
    """Return what groups disclose of the sensitive variable that they disclose most."""
    tables = [side and {row.name: row for row in side.sensitive} for side in sides]
    first = tables[0]
    if not first:
        return [untested(AIM, "ℓ-diversity and t-closeness", READS, NO_SENSITIVE)]

    def worst(name: str, key: str, form: Callable[..., str], sign: int, says: str) -> Attack:
        """Return the row of the variable with the largest figure, or with sign −1 the smallest."""

        def value(row: object) -> float:
            share = getattr(row, key)
            return float(getattr(share, "value", share))

        row = max(first.values(), key=lambda one: sign * value(one))
        figure = getattr(row, key)
        return Attack(
            AIM,
            name,
            f"{READS} {says} Worst of {count(len(first))}: {row.name}.",
            form(figure),
            shares(figure) if hasattr(figure, "lower") else "counted in full",
            beside([table and table[row.name] for table in tables], lambda one: form(getattr(one, key))),
            count(row.n),
        )

    one_value = "Counted are records whose group holds one value only."
    return [
        worst("Sensitive value disclosed", "homogeneous", lambda share: whole(share.value), 1, one_value),
        worst("ℓ-diversity", "l_distinct", count, -1, "Fewest different values in a group."),
        worst("t-closeness", "t", partial(number, digits=2), 1, "Largest distance of a group from all records."),
    ]


GATE = Gate(
    name="quasi-identifiers",
    description="Groups of records that are identical on the quasi-identifiers: uniqueness, k-anonymity, ℓ-diversity, "
    "t-closeness and expected re-identifications, beside the same of the reference. Reported without a gate; what a "
    "method claims of them is checked as a claim.",
    publishes={"risk.disclosure": published_disclosure},
    metrics=metrics,
    attacks=attacks,
)
