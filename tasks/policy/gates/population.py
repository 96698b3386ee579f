"""Risk in the population that the records are a sample of, and the variables that make records special."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from anoncore.risk import Disclosure, three_way
from anoncore.risk.population import PopulationRisk
from tasks.common.formatting import amount, count, percent
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_QUASI_IDENTIFIERS, Aim, Attack, amounts, beside, between, untested
from tasks.policy.gate import BoundedFigure, Bounds, Gate, GateResult, GateVerdict, Metrics
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_groups import published_disclosure
from tasks.policy.rounding import rounded_down, rounded_up

NAME = "risk in the population"
NO_POPULATION = "the size of the population is not known; give a variable the role weight, or assessment: population"
KNOWS = (
    "An attacker who knows the quasi-identifiers of the whole population, but not who is in the data, looks for each "
    "released combination"
)
K_MAP, PRESENCE = "k-map", "δ-presence"
NO_KEY = "no record has all quasi-identifiers"
COUNTED = 0.95  # share of the records that figures must be of to pass
AS_IF = "counted as if each record were its person’s own"


class PopulationLimits(Section):
    """Limits of risk in the population, each without effect until it is given.

    Parameters
    ----------
    risk : Largest share of released records that an attacker who knows the population may be expected to trace.
        Fail when the share is shown to be larger; pass when it is shown to be within the limit.
    households : Largest share of released records of which a record of the same unit may be expected to be traced.
    uniques : Largest estimated share of the population that is unique on the quasi-identifiers.
    k_map : Fewest people of the population, by the weights, who have the quasi-identifiers of a released record.
    presence : Largest share of the people with the quasi-identifiers of a released record, by the weights, who are in
        the data (δ-presence).
    """

    risk: float | None = Field(default=None, gt=0, le=1)
    households: float | None = Field(default=None, gt=0, le=1)
    uniques: float | None = Field(default=None, ge=0, le=1)
    k_map: float | None = Field(default=None, ge=1)
    presence: float | None = Field(default=None, gt=0, le=1)

    @property
    def given(self) -> list[str]:
        """The names of the limits that are given."""
        return [name for name in type(self).model_fields if getattr(self, name) is not None]


class PopulationLimit(Section):
    """What is accepted of risk in the population.

    Parameters
    ----------
    population : Limits of risk in the population that the records are a sample of.
    """

    population: PopulationLimits = PopulationLimits()


def evaluate(assessment: Assessment | PublishedAssessment, policy: PopulationLimit) -> tuple[GateResult, ...]:
    """Compare the figures of the release with the limits that are given."""
    limits = policy.population
    if not limits.given:
        return ()
    found = _found(assessment)
    if found is None:
        missing = "no quasi-identifier, or no size of the population"
        return (GateResult(NAME, "not tested", missing, ", ".join(limits.given), "–", 0, "records traced"),)
    results = tuple(_results(found, limits, _driving(assessment)))
    if found.counted >= COUNTED:
        return results
    left = f"{percent(found.counted)} of the records are counted, others lack a quasi-identifier"
    return tuple(_of_few(one, left) for one in results)


def _of_few(one: GateResult, left: str) -> GateResult:
    """Return a result that rests on some of the records: only the worst figure of one of them can fail then."""
    verdict: GateVerdict = one.verdict
    if verdict == "pass" or (verdict == "fail" and one.name not in (K_MAP, PRESENCE)):
        verdict = "inconclusive"
    return replace(one, verdict=verdict, figure=f"{one.figure}; {left}", bounds=None)


def _found(assessment: Assessment | PublishedAssessment) -> PopulationRisk | None:
    disclosure = assessment.risk.disclosure
    return None if disclosure is None else disclosure.released.population


def _driving(assessment: Assessment | PublishedAssessment) -> tuple[str, ...]:
    """Return the quasi-identifier that most minimal uniques have."""
    special = assessment.risk.disclosure.special if assessment.risk.disclosure else None
    return tuple(one.name for one in special.contributions[:1]) if special and special.few.value else ()


def _results(found: PopulationRisk, limits: PopulationLimits, driving: tuple[str, ...]) -> Iterator[GateResult]:
    records, n = found.records, found.records.n
    people = f"a census of {count(n)}: every combination"
    if limits.risk is not None:
        form = BoundedFigure(NAME, records.expected / n, records.lower / n, records.upper / n, 0.0)
        low, high = rounded_down(100 * form.lower, 1), rounded_up(100 * form.upper, 1)
        yield GateResult(
            name=NAME,
            verdict=three_way(form.lower, form.upper, limits.risk, fails_above=limits.risk),
            figure=f"{percent(form.value)}, {low} to {high}\u00a0%",
            limit=percent(limits.risk),
            baseline=people,
            records=n,
            meaning="released records that an attacker who knows the population would trace",
            variables=driving,
            bounds=Bounds((form,), limits.risk, limits.risk),
            needed="; a coarser quasi-identifier decides it",
        )
    traced = None if found.households is None else found.households / n
    of_units = "records of which one of the same unit is traced"
    presence = "largest share of the people with a key who are in the data"
    fewest = "fewest people of the population, by the weights, with the key of a released record"
    tested = (
        ("households traced", limits.households, traced, percent, "no released row is of a known unit", of_units),
        ("unique in the population", limits.uniques, found.uniqueness.dankar, percent, "", "people unique on the key"),
        (PRESENCE, limits.presence, found.presence, percent, NO_KEY, presence),
        (K_MAP, limits.k_map, found.k_map, amount, NO_KEY, fewest),
    )
    for name, limit, value, shown, lacking, meaning in tested:
        if limit is None:
            continue
        least = name == K_MAP
        verdict: GateVerdict = "not tested"
        if value is not None:
            verdict = "pass" if (value >= limit if least else value <= limit) else "fail"
        figure, allowed = lacking if value is None else shown(value), f"{'≥ ' * least}{shown(limit)}"
        yield GateResult(name, verdict, figure, allowed, people, n, meaning, variables=driving)


def metrics(assessment: Assessment) -> Metrics:
    """Return the figures of the release."""
    found = _found(assessment)
    if found is None:
        return {}
    n = found.records.n
    return {
        "risk/population/traced": found.records.expected / n,
        "risk/population/traced_lower": found.records.lower / n,
        "risk/population/traced_upper": found.records.upper / n,
        "risk/population/individual": found.individual / n,
        "risk/population/households": None if found.households is None else found.households / n,
        "risk/population/uniques": found.uniqueness.dankar,
        "risk/population/k_map": found.k_map,
    }


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return what an attacker achieves who knows the population, and which records few variables make unique."""
    disclosure = assessment.risk.disclosure
    name = "Expected re-identifications in the population"
    if disclosure is None:
        return (untested(Aim.GROUPS, name, f"{KNOWS}.", NO_QUASI_IDENTIFIERS, NAME),)
    tables = (disclosure.released, disclosure.compared, disclosure.reference)
    sides = [None if table is None else table.population for table in tables]
    found = sides[0]
    if found is None:
        return (untested(Aim.GROUPS, name, f"{KNOWS}.", NO_POPULATION, NAME), *_special(disclosure))
    records = found.records
    return (
        Attack(
            Aim.GROUPS,
            name,
            f"{KNOWS}. The records stand for {amount(records.population)} people; {AS_IF}. Interval: by two estimates "
            "of the number of combinations in the population, at 99 %.",
            f"{amount(records.expected)} of {count(records.n)}",
            amounts(records.lower, records.upper),
            beside(sides, lambda side: amount(side.records.expected)),
            count(records.n),
            NAME,
        ),
        Attack(
            Aim.GROUPS,
            "Unique in the population",
            f"{KNOWS} that one person alone has. The estimate is by Dankar’s rule, here {found.uniqueness.chosen}.",
            percent(found.uniqueness.dankar),
            "an estimate",
            beside(sides, lambda side: percent(side.uniqueness.dankar)),
            count(records.n),
        ),
        *_special(disclosure),
    )


def _special(disclosure: Disclosure) -> tuple[Attack, ...]:
    special = disclosure.special
    if special is None:
        return ()
    shares = ", ".join(f"{one.name} {percent(one.share, 0)}" for one in special.contributions[:3])
    return (
        Attack(
            Aim.GROUPS,
            "Special uniques",
            f"An attacker who knows {special.known} quasi-identifiers or fewer of a person finds one record "
            f"only; {AS_IF}. Shares of the scores by variable: {shares}.",
            percent(special.few.value),
            between(special.few, percent, 3),
            "0, where every key is shared",
            count(special.few.n),
        ),
    )


GATE = Gate(
    name=NAME,
    description="What an attacker who knows the whole population traces: records expected to be traced, households, "
    "people unique in the population, and the fewest people with the quasi-identifiers of a record (k-map). The "
    "number of combinations in the population is estimated by the Pitman–Ewens distribution and by Shlosser’s "
    "estimator, and the interval reaches from one to the other. Reported where the population’s size is known, by a "
    "variable with the role weight or by `assessment: population`; decided where `policy: population` gives limits. "
    "Special uniques (SUDA2) name the variables that make records unique.",
    evaluate=evaluate,
    limits=PopulationLimit,
    individual=True,
    publishes={"risk.disclosure": published_disclosure},
    metrics=metrics,
    attacks=attacks,
)
