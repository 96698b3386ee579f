"""Groups of records with the same quasi-identifiers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydantic import Field

from anoncore.risk import Disclosure, TableDisclosure
from tasks.common.formatting import amount, count, number, percent, shares
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_QUASI_IDENTIFIERS, NO_SENSITIVE, Aim, Attack, amounts, beside, untested
from tasks.policy.gate import Gate, GateResult, GateVerdict, Metrics, fields_of
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_groups import published_disclosure

AIM = Aim.GROUPS
KNOWS = "An attacker who knows a person’s quasi-identifiers and that the person is in the data"
# Releases of drawn or swapped records would otherwise seem to disclose as many people as they have combinations.
AS_IF = (
    "counted as if each record were its person’s own, so that in masked records it says how many look unique, and not "
    "how many are recognised, which linkage measures."
)
READS = "An attacker who knows which combination is a person’s reads what all records with it have in common."
whole = partial(percent, digits=0)
Sides = tuple[TableDisclosure, TableDisclosure | None, TableDisclosure | None]


class GroupLimits(Section):
    """Limits of what groups disclose of sensitive variables, each without effect until it is given.

    Parameters
    ----------
    t_closeness : Largest distance between a group's distribution of a sensitive variable and that of all records.
    beta_likeness : By how much, relative to its share of all records, a value's share of a group may be larger.
    """

    t_closeness: float | None = Field(default=None, ge=0, le=1)
    beta_likeness: float | None = Field(default=None, gt=0)


class GroupLimit(Section):
    """What is accepted of groups on the quasi-identifiers.

    Parameters
    ----------
    groups : Limits of what groups disclose of sensitive variables.
    """

    groups: GroupLimits = GroupLimits()


def evaluate(assessment: Assessment | PublishedAssessment, policy: GroupLimit) -> tuple[GateResult, ...]:
    """Compare the sensitive variables that groups disclose most with the limits that are given."""
    disclosure, limits = assessment.risk.disclosure, policy.groups
    rows = disclosure.released.sensitive if disclosure else ()
    asked = (
        ("t-closeness", "t", limits.t_closeness, "largest distance of a group’s distribution from that of all records"),
        ("β-likeness", "beta", limits.beta_likeness, "largest relative gain of a value’s share in a group"),
    )
    results = []
    for name, key, limit, meaning in asked:
        if limit is None:
            continue
        values = [(getattr(row, key), row.name) for row in rows if getattr(row, key) is not None]
        if not values:
            results.append(GateResult(name, "not tested", NO_SENSITIVE, f"{limit:g}", "0", 0, meaning))
            continue
        value, variable = max(values)
        # Groups of single values lie within those of classes, and disclose at least as much.
        cut = disclosure.cut if disclosure else ()
        verdict: GateVerdict = "fail" if value > limit else "not tested" if cut else "pass"
        shown = number(value, 2) + (f" at least: {', '.join(cut)} in classes, more values are released" if cut else "")
        results.append(GateResult(name, verdict, shown, f"{limit:g}", "0", rows[0].n, meaning, variables=(variable,)))
    return tuple(results)


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
    return (*_groups(disclosure), *_diversity(sides))


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
            amounts(ours.expected_lower, ours.expected_upper),
            beside(sides, lambda groups: amount(groups.expected)),
            count(ours.n),
        ),
    ]


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
        worst("β-likeness", "beta", partial(number, digits=2), 1, "Largest relative gain of a value in a group."),
    ]


GATE = Gate(
    name="quasi-identifiers",
    description="Groups of records that are identical on the quasi-identifiers: uniqueness, k-anonymity, ℓ-diversity, "
    "t-closeness and expected re-identifications, beside the same of the reference. Decided are t-closeness and "
    "β-likeness where `policy: groups` gives limits; what a method claims is checked as a claim.",
    evaluate=evaluate,
    limits=GroupLimit,
    individual=True,
    publishes={"risk.disclosure": published_disclosure},
    metrics=metrics,
    attacks=attacks,
)
