"""A typed assessment in which every gate passes, and changes to parts of it by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from anoncore.claims import ClaimCheck
from anoncore.risk import (
    Agreement,
    AttackFamily,
    AttributeInference,
    AveragingAttack,
    ClosePairs,
    Comparison,
    CopiedPart,
    CopiedParts,
    Density,
    Dominance,
    DominatedAverages,
    ExtremeRecords,
    GroupFigure,
    GroupFigures,
    InferenceRisk,
    Linkability,
    Linkage,
    LinkedBySubset,
    MatchSignal,
    MeasureComparison,
    MembershipAttack,
    NamedAttack,
    PartialCopies,
    Queries,
    ReleasedFigures,
    RiskReport,
    ScoreAttack,
    ScoreCoincidence,
    SinglingOut,
    SinglingOutBySize,
    SubsetLinkage,
    TailTest,
    TopScores,
    ValuePresence,
    ValuesTogether,
)
from anoncore.risk._proportions import Difference, Proportion
from anoncore.risk._residual import ResidualRisk
from anoncore.risk.inference import NEAREST, NEAREST_BY_HALF, NEAREST_BY_KEYS, TREES
from anoncore.utility import (
    Figure,
    FigureComparison,
    PairChange,
    PairUtility,
    Shift,
    Structure,
    Summary,
    UtilityComparison,
    UtilityFigures,
    UtilityReport,
    VariableTable,
    VariableUtility,
    WeightUse,
)
from tasks.policy.assessment import Assessment, PriorReleases, Records
from tasks.policy.gate import Gate, GateResult
from tasks.policy.section import PolicySection

N = 814
SHARE = Proportion(0.1, 0.08, 0.12, N)
# A level of the original that no released record holds.
SECRET = "only-before"
FIRM_WAGE = GroupFigure("firm_wage", "wage", "firm", "mean")
KNOWLEDGE = ("all variables", "half of the variables", "quasi-identifiers")
STATISTICS = ("mean", "variance", "correlation", "rank_correlation")


def measure(name: str, verdict: Any = "pass", **more: Any) -> MeasureComparison:
    figures = {"sup_excess": 0.01, "upper": 0.03, "lower": -0.01, "ks_p": 1.0, "margin": 0.05, "alpha": 0.05, "n": N}
    medians = {"released_median": 0.5, "reference_median": 0.5}
    return MeasureComparison(name=name, verdict=verdict, **figures | medians | more)


def attack(auc: float = 0.51, lower: float = 0.48, upper: float = 0.54) -> MembershipAttack:
    return MembershipAttack(auc, lower, upper, N, N, "pass")


def family(kind: type[AttackFamily] = AttackFamily, p: float = 0.3, **area: float) -> Any:
    """Return a family of equal attacks; ``p`` is that of all its tests together."""
    forms = KNOWLEDGE if kind is Agreement else KNOWLEDGE[:1]
    scores = ScoreAttack(attack(**area), TopScores(50, 26, 0.52, 0.3, p / len(forms), p / len(forms), 0.5))
    more = (
        {
            "variable": "income",
            "unique_members": SHARE,
            "unique_nonmembers": SHARE,
            "excess": Difference(0.0, -0.1, 0.1),
        }
        if kind is ValuePresence
        else {}
    )
    return kind(tuple(NamedAttack(name, scores) for name in forms), N, N, **more)


def residual(value: float = 0.0) -> ResidualRisk:
    return ResidualRisk(value, value - 0.02, value + 0.02, SHARE, SHARE)


def harmless_attacks() -> dict[str, Any]:
    """Return the attacks that compare members with non-members, by their names in the report."""
    sizes = (SinglingOutBySize(1, residual(), 0.3), SinglingOutBySize(2, residual(), 0.3))
    families = {"presence": family(ValuePresence), "agreement": family(Agreement), "density": family(Density)}
    families["partial_copies"] = family(PartialCopies)
    families["copied_parts"] = CopiedParts((CopiedPart("levels", 0.5, 0.3),), N, N)
    return families | {"singling_out": SinglingOut(sizes, N, N), "linkability": Linkability(residual(), N, N, 9)}


def by_subset(lower: float, upper: float, certain: tuple[float, float] = (0.018, 0.02)) -> SubsetLinkage:
    """Return linkage by subsets with these bounds of the largest rate, and of that of certain links."""
    none, found = Proportion(0.0, 0.0, 0.01, N), Proportion(lower, lower, upper, N)
    sure = Proportion(certain[0], *certain, N)
    subsets = (
        LinkedBySubset("the variable age", 1, none, 0.0, None, none),
        LinkedBySubset("4 unchanged variables", 4, sure, 0.001, 0.1, found),
    )
    return SubsetLinkage(subsets, ("age",), 1 / N, N, 0.95)


def averaging(lower: float) -> AveragingAttack:
    one = attack(lower + 0.03, lower, lower + 0.06)
    return AveragingAttack(attack(lower + 0.03, 0.3, lower + 0.06), one, one, 2, 2 * N)


def inferred(name: str, excess: float, attack: str = NEAREST) -> AttributeInference:
    other = Proportion(0.4, 0.37, 0.43, N)
    interval = Difference(excess, excess - 0.04, excess + 0.04)
    return AttributeInference(name, attack, 25, other, other, interval, excess + 0.04, "pass")


def tail(**changes: Any) -> TailTest:
    given = {"n": N, "n_duplicates": 3, "n_released": 2, "n_reference": 3, "only_released": 2, "only_reference": 3}
    return TailTest(**given | {"tau": 0.1, "level": 0.01, "p": 0.6, "verdict": "pass"} | changes)


def variable(name: str, distance: float, **shift: Any) -> VariableUtility:
    """Return a variable that moved by so much, 0.06 being the worst between two samples."""
    moved = Shift(distance, 0.0, kolmogorov=distance, **{"beyond": 0.0, "spike": 0.01, "spike_error": 0.01} | shift)
    none = Summary(0.0)
    return VariableUtility(name, "continuous", None, none, none, none, moved, Shift(0.03, 0.0), 0.06)


def utility(**medians: tuple[float, float | None]) -> UtilityReport:
    """Return a report with these medians of release and reference, by figure."""
    none = np.zeros(0)
    figures = UtilityFigures(*(Figure(name, 0.02, 0.2, none) for name in STATISTICS), N, N)
    given = medians or dict.fromkeys(STATISTICS, (0.02, 0.03))
    compared = tuple(
        FigureComparison(name, a, b, 0.2, None if b is None else 0.3, None, None, ("income",))
        for name, (a, b) in given.items()
    )
    return UtilityReport(
        columns=(),
        left_out=0,
        figures=UtilityComparison(figures, None, compared, None),
        variables=VariableTable((variable("income", 0.02), variable("height", 0.03)), (), ()),
        pairs=PairUtility(
            1, 0.01, 0.01, (PairChange(("income", "height"), "Pearson correlation", 0.5, 0.47, 0.03, 0.02, 0.05),)
        ),
        structure=Structure(9, (), 0, 3.0, 2.0, 1, (), 12),
        propensity=None,
        tree=None,
        marginals=(),
        regressions=(),
        automatic=(),
        weights=WeightUse(None, False, (0, 0, 0)),
    )


def risk() -> RiskReport:
    signals = (MatchSignal(name, 0.5, 0.4, 0.6, 80, 734) for name in ("distance", "ambiguity", "uncertainty"))
    return RiskReport(
        k=5,
        columns=20,
        queries=Queries(N, N, None),
        comparison=Comparison(*map(measure, ("distance", "ambiguity", "uncertainty")), N, N, N, 1, "pass"),
        tail=tail(n_close_pairs=9, close_pairs_released=3),
        isolated=tail(n=10, p=0.4),
        extreme=ExtremeRecords(N, 4, 0, 0, 5.0, 0.1, "pass"),
        dominance=Dominance(8, 1, (), False),
        averages=DominatedAverages(4, (), 0),
        group_figures=GroupFigures(N, 4, (ReleasedFigures(FIRM_WAGE, 30, 2, 2.5, 0.7, 0.1),)),
        identical=tail(n_released=0, n_reference=0, tau=0.0, p=1.0),
        close_pairs=ClosePairs(9, 3, 2 * N, 9, 5, 0.1, 0.5),
        value_pairs=ValuesTogether(("income", "height"), 11, 3, N, 0.01, -0.01, 0.03, 21, 21, 0.05, 0.95, "pass"),
        membership=attack(),
        score_coincidence=ScoreCoincidence(attack(0.5, 0.47, 0.53), 20, N),
        **harmless_attacks(),
        linkage=Linkage(Proportion(0.1, 0.08, 0.12, N), 1 / N, 0.1, None, *signals, N, N, N, 0, 5, 0.0, 0.95),
        inference=InferenceRisk(
            (inferred("income", 0.01), inferred("smokes", 0.06)),
            tuple(inferred("smokes", 0.06, attack) for attack in (NEAREST, TREES, NEAREST_BY_HALF, NEAREST_BY_KEYS)),
            0.05,
            0.99,
            N,
            N,
            N,
            2,
            24,
            "pass",
        ),
    )


def assessment() -> Assessment:
    """Return an assessment in which every gate passes."""
    return Assessment(
        records=Records(N, N, N),
        risk=risk(),
        utility=utility(),
        claims=(
            ClaimCheck("KAnonymity", "5-anonymity", True, "smallest group: 5", N, {"smallest_group": 5.0}),
            ClaimCheck("NoFormalGuarantee", "none", True, "measured", N, formal=False),
        ),
        prior_releases=PriorReleases(0),
    )


def changed(value: Any, **changes: Any) -> Any:
    """Return a value with some parts changed, by path: ``risk__tail__p=0.001``; numbers are places in tuples."""
    for path, new in changes.items():
        value = _changed(value, path.split("__"), new)
    return value


def _changed(value: Any, way: list[str], new: Any) -> Any:
    if not way:
        return new
    name, *rest = way
    if isinstance(value, tuple):
        at = int(name)
        return (*value[:at], _changed(value[at], rest, new), *value[at + 1 :])
    return replace(value, **{name: _changed(getattr(value, name), rest, new)})


def texts_replaced(value: Any, text: str, keep: tuple[str, ...] = ()) -> Any:
    """Return a value with every text in it replaced but those of the fields ``keep``."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple | list):
        return type(value)(texts_replaced(one, text, keep) for one in value)
    if isinstance(value, Mapping):
        return {key: texts_replaced(one, text, keep) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in fields(value) if f.name not in keep)
        return replace(value, **{name: texts_replaced(getattr(value, name), text, keep) for name in names})
    return value


def results(gate: Gate, given: Assessment, **policy: Any) -> dict[str, GateResult]:
    """Return a gate's results by their names."""
    return {one.name: one for one in gate.evaluate(given, PolicySection(**policy))}
