"""Whether the released row that shares most of a person's rare values tells who is in the data."""

from __future__ import annotations

from tasks.policy.attack_family import family_gate

GATE = family_gate(
    "agreement",
    "agreement",
    meaning="whether the released row that shares most of a person’s rare values distinguishes members",
    attacker="An attacker who knows all, some or the identifying values of a person takes the released row that shares "
    "the most, weighed by rarity; numbers may differ by up to 100 units of their precision.",
    description="Members are distinguished from non-members by the released row with the largest agreement: the sum of "
    "−log of the share of people who hold each shared value. Tried with all variables, the quasi-identifiers, the "
    "levels, random subsets of 3, 5, 10 and half of the variables, and numbers within 1, 10 and 100 units of their "
    "precision.",
)
