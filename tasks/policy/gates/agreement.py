"""Whether the released row that shares most of a person's rare values reveals who is in the data."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk.agreement import ALL, HALF, QUASI_IDENTIFIERS
from tasks.policy.attack import NO_NON_MEMBERS, NO_QUASI_IDENTIFIERS, Aim, Attack, by_auc, untested
from tasks.policy.attack_family import family_gate
from tasks.policy.criteria import Criterion, Knowledge, Place
from tasks.policy.published import PublishedAssessment

NAME = "agreement"
KNOWLEDGE = (
    (QUASI_IDENTIFIERS, Knowledge.QUASI_IDENTIFIERS, f"{NO_QUASI_IDENTIFIERS}, or every one has it"),
    (HALF, Knowledge.HALF, "there is one variable only"),
    (ALL, Knowledge.EVERYTHING, ""),
)


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by agreement, and the worst form of each attacker of the page for an authority."""
    agreement, rows = assessment.risk.agreement, list(FAMILY.attacks(assessment))
    for knows, knowledge, absent in KNOWLEDGE:
        name, place = f"Agreement, {knows}", Place(Criterion.LINKABILITY, knowledge)
        attacker = f"An attacker who knows a person’s {knows} takes the released row that shares the most."
        one = None if agreement is None else agreement.with_knowledge(knows)
        if one is None:
            reason = NO_NON_MEMBERS if agreement is None else absent
            rows.append(untested(Aim.LINKAGE, name, attacker, reason, NAME, place))
        else:
            rows.append(by_auc(Aim.LINKAGE, name, attacker, one.attack.area, NAME, place))
    return tuple(rows)


FAMILY = family_gate(
    NAME,
    "agreement",
    meaning="whether the released row that shares most of a person’s rare values distinguishes members",
    attacker="An attacker who knows all, some or the identifying values of a person takes the released row that shares "
    "the most, weighed by rarity; numbers may differ by up to 100 units of their precision.",
    description="Members are distinguished from non-members by the released row with the largest agreement: the sum of "
    "−log of the share of people who hold each shared value. Tried with all variables, the quasi-identifiers, the "
    "levels, random subsets of 3, 5, 10 and half of the variables, and numbers within 1, 10 and 100 units of their "
    "precision; and with all variables by the likelihood ratio of the release, under the probabilities by which the "
    "masking keeps values, and under those estimated from the release.",
)
GATE = replace(FAMILY, attacks=attacks)
