"""Whether the density of the release around a person reveals who is in the data."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk import Density
from tasks.policy.attack_family import family_gate
from tasks.policy.rounded_attacks import attacks_in_steps


def published_density(density: Density | None, step: float) -> Density | None:
    """Publish the attacks in steps, and the chosen variables where theirs is the worst."""
    return None if density is None else attacks_in_steps(replace(density, chosen=density.driving), step)


FAMILY = family_gate(
    "density",
    "density",
    meaning="whether the release is denser around members than the population is",
    attacker="An attacker who knows a person’s record and the population, or which of half of the people took part, "
    "compares how near released rows are with how near other people are, compares the shares of levels, or trains a "
    "classifier to distinguish released rows from people.",
    description="Members are distinguished from non-members by the ratio of the distance to their nearest and fifth "
    "nearest released row and to other people, also once the columns of the release have the distributions of the "
    "reference where they are apart, by the numbers, the quasi-identifiers or half of the variables alone, by numbers "
    "among records with the rarest of a person's levels, and by the variables, sums and differences that distinguish "
    "the other half of the people best; by these ratios within each group of people who share one or two levels or a "
    "quarter of a number; by tracing (how much more frequent a person's values, and products of two columns, are in "
    "the release than in the reference); and by boosted trees trained to distinguish released rows from the reference.",
    of_everybody=True,
    variables=lambda found: found.driving,
)
GATE = replace(FAMILY, publishes={"risk.density": published_density})
