"""Whether released records that hold a part of a person's values reveal who is in the data."""

from __future__ import annotations

from tasks.policy.attack_family import family_gate

GATE = family_gate(
    "partial copies",
    "partial_copies",
    meaning="whether released records seem to hold a random half of members’ values",
    attacker="An attacker who knows a person’s record looks for released records that share a rare part of it and "
    "whose other values do not belong to that part.",
    description="Members are distinguished from non-members by the expected number of released records that hold a "
    "random half of their values beside another person's: likelihood ratios that weigh shared values by rarity and by "
    "their association with the others, along a tree of the most associated pairs of variables.",
)
