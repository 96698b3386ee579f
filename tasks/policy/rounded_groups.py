"""How the groups of records with the same quasi-identifiers are published: those of other people in steps of ten."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk import Disclosure, GroupRisk, TableDisclosure
from anoncore.risk.population import PopulationRisk
from tasks.policy.rounding import at_least_ten, coarse, next_ten


def published_disclosure(full: Disclosure | None, step: float) -> Disclosure | None:
    """Publish groups of other people in steps of ten, without the smallest one, which single people decide."""
    shown = coarse(full, step)
    if shown is None:
        return None
    compared = shown.compared and _own(shown.compared)
    shown = replace(shown, released=_own(shown.released), compared=compared)
    if shown.reference is None:
        return shown
    groups, people = shown.reference.groups, shown.reference.population
    reference = TableDisclosure(
        groups=replace(_in_tens(groups), n_groups=at_least_ten(groups.n_groups), smallest=None, highest=None),
        population=people and replace(_published_population(people), highest=None, k_map=None, presence=None),
        sensitive=tuple(
            replace(one, n_groups=at_least_ten(one.n_groups), l_distinct=None, l_entropy=None, beta=None)
            for one in shown.reference.sensitive
        ),
    )
    return replace(shown, reference=reference)


def _own(table: TableDisclosure) -> TableDisclosure:
    return replace(table, population=table.population and _households_in_tens(table.population))


def _households_in_tens(risk: PopulationRisk) -> PopulationRisk:
    """Publish to the next ten what follows from which records of the source belong together."""
    return replace(risk, households=None if risk.households is None else next_ten(risk.households))


def _published_population(risk: PopulationRisk) -> PopulationRisk:
    """Publish the population risk of other people in steps of ten."""
    found = risk.records
    records = replace(
        found, expected=next_ten(found.expected), lower=next_ten(found.lower), upper=next_ten(found.upper)
    )
    return replace(_households_in_tens(risk), records=records, individual=next_ten(risk.individual))


def _in_tens(risk: GroupRisk) -> GroupRisk:
    return replace(
        risk,
        expected=next_ten(risk.expected),
        expected_lower=next_ten(risk.expected_lower),
        expected_upper=next_ten(risk.expected_upper),
    )
