"""The policy, gate by gate: what rejects, what asks a person, what publishes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from pydantic import ValidationError

from anoncore.risk._proportions import Difference
from tasks.policy.assessment import Assessment, ExternalFiles, PriorReleases, ReferenceOverlap
from tasks.policy.verdict import PolicySection, UtilityLimits, decide
from tests.tasks.policy.sample import assessment, averaging, changed, measure

NAN = float("nan")
GOOD = assessment()
OWN = {f.name for f in fields(Assessment)}
LIMITS = UtilityLimits(mean=0.05, variance=0.05, correlation=0.05, rank_correlation=0.05)
POLICY = PolicySection(utility=LIMITS)


def figures(**changes: Any) -> Assessment:
    """Return the good assessment with some parts changed, by path: ``tail__p=0.001``."""
    return changed(GOOD, **{path if path.split("__")[0] in OWN else f"risk__{path}": v for path, v in changes.items()})


def verdicts(given: Assessment, policy: PolicySection = POLICY) -> dict[str, str]:
    return {gate.name: gate.verdict for gate in decide(given, policy).gates}


def test_when_every_gate_passes_it_is_published() -> None:
    verdict = decide(GOOD, POLICY)
    assert (verdict.decision, verdict.reason) == ("publish", "every gate passed")
    assert list(verdicts(GOOD)) == [
        "prediction distance",
        "prediction ambiguity",
        "prediction uncertainty",
        "identical records",
        "unusually close records",
        "extreme records",
        "values taken together",
        "membership",
        "membership by scores",
        "linkage",
        "attribute inference",
        "earlier releases of these data",
        "5-anonymity",
        "utility: mean",
        "utility: variance",
        "utility: correlation",
        "utility: rank correlation",
    ]
    assert set(verdicts(GOOD).values()) == {"pass"}


FAILURES = {
    "prediction distance": {"comparison__distance__verdict": "fail"},
    "prediction ambiguity": {"comparison__ambiguity__verdict": "fail"},
    "prediction uncertainty": {"comparison__uncertainty__verdict": "fail"},
    "identical records": {"identical__p": 0.0099},
    "unusually close records": {"tail__p": 0.0099},
    "extreme records": {"extreme__verdict": "fail", "extreme__n_matched": 1},
    "values taken together": {"value_pairs__verdict": "fail"},
    "membership": {"membership__lower": 0.551},
    "membership by scores": {"score_coincidence__attack__lower": 0.551},
    "linkage": {"linkage__rate__lower": 0.201},
    "attribute inference": {"inference__variables__0__excess": Difference(0.1, 0.051, 0.2)},
    "5-anonymity": {"claims__0__holds": False},
    "utility: mean": {"utility__figures__figures__0__released_median": 0.051},
    "utility: variance": {"utility__figures__figures__1__released_median": 0.051},
    "utility: correlation": {"utility__figures__figures__2__released_median": 0.051},
    "utility: rank correlation": {"utility__figures__figures__3__released_median": 0.051},
}


@pytest.mark.parametrize("gate", FAILURES)
@pytest.mark.parametrize("policy", [{}, {"approval": "person"}, {"inconclusive": "reject"}], ids=str)
def test_each_gate_alone_rejects_and_is_named(gate: str, policy: dict[str, str]) -> None:
    given = figures(**FAILURES[gate])
    verdict = decide(given, PolicySection(utility=LIMITS, **policy))
    assert (verdict.decision, verdict.reason) == ("reject", f"failed: {gate}")
    assert [g.name for g in verdict.gates if g.verdict == "fail"] == [gate]


def test_all_failed_gates_are_named() -> None:
    every = {path: value for change in FAILURES.values() for path, value in change.items()}
    assert decide(figures(**every), POLICY).reason == f"failed: {', '.join(FAILURES)}"


OPEN = {
    "identical records": {"identical__n_released": 1, "identical__p": 0.5, "identical__n_duplicates": 0},
    "reference of other people": {"close_pairs__n_among": 60, "close_pairs__n_cross": 58},
    "prediction distance": {"comparison__distance__verdict": "inconclusive"},
    "prediction uncertainty": {"comparison__uncertainty__verdict": "inconclusive"},
    "unusually close records": {"tail__verdict": "inconclusive", "tail__p": 1.0},
    "extreme records": {"queries__used": 700},
    "membership": {"membership": None},
}


@pytest.mark.parametrize("gate", OPEN)
def test_an_open_gate_asks_a_person_or_rejects(gate: str) -> None:
    asked = decide(figures(**OPEN[gate]), POLICY)
    assert asked.decision == "await"
    assert asked.reason.endswith(f"a person must decide: {gate}")
    refused = decide(figures(**OPEN[gate]), PolicySection(inconclusive="reject"))
    assert refused.decision == "reject"
    assert refused.reason == f"not proven safe at this sample size: {gate}"


def test_the_bound_that_decides_is_shown() -> None:
    def shown(verdict: str, **change: float) -> str:
        one = measure("distance", verdict, **change)
        return decide(figures(comparison__distance=one), PolicySection()).gates[0].figure

    assert shown("pass") == "excess ≤ 0.030 (95% sure)"
    assert shown("inconclusive", upper=0.08) == "excess ≤ 0.080 (95% sure)"
    assert shown("fail", lower=0.12, upper=1.001) == "excess ≥ 0.120 (95% sure)"
    assert shown("inconclusive", upper=1.001) == "excess ≤ 1.000 (95% sure)"


def test_close_pairs_are_told_where_they_were_looked_at() -> None:
    told = {g.name: g for g in decide(GOOD, POLICY).gates}["unusually close records"]
    assert told.figure == "2 (pairs 3 of 9), p = 0.6"
    assert told.meaning.endswith("of close pairs chance gives the release a third at most")
    alone = {g.name: g for g in decide(figures(tail__n_close_pairs=None), POLICY).gates}["unusually close records"]
    assert alone.figure == "2, p = 0.6"
    assert "pairs" not in alone.meaning


def test_what_people_repeat_among_themselves_asks_nobody() -> None:
    for there in ({"identical__n_reference": 1}, {"identical__n_duplicates": 1}):
        given = figures(**{"identical__n_released": 1, "identical__p": 0.5, "identical__n_duplicates": 0, **there})
        assert verdicts(given)["identical records"] == "pass"


def test_names_in_files_of_others_fail_and_members_in_a_reference_ask() -> None:
    files = ExternalFiles(0, 0, ReferenceOverlap(0, 0, 814, 1.0, 0))
    assert decide(figures(external=files), POLICY).decision == "publish"
    named = decide(figures(external=replace(files, named=7)), POLICY)
    assert (named.decision, named.reason) == ("reject", "failed: identifiers of the original")
    asked = decide(figures(external=changed(files, overlap__named=7)), POLICY)
    assert (asked.decision, asked.gates[-1].figure) == ("await", "7")
    assert asked.gates[-1].name == "reference of other people"


def test_a_failure_outweighs_an_open_gate() -> None:
    verdict = decide(figures(tail__p=0.001, comparison__distance__verdict="inconclusive"), POLICY)
    assert (verdict.decision, verdict.reason) == ("reject", "failed: unusually close records")


def test_approval_by_a_person_is_asked_though_every_gate_passes() -> None:
    verdict = decide(GOOD, PolicySection(approval="person"))
    assert verdict.decision == "await"
    assert "asks for a person's approval" in verdict.reason


@pytest.mark.parametrize("inconclusive", ["person", "reject"])
def test_what_is_void_by_design_is_shown_and_not_counted(inconclusive: str) -> None:
    given = figures(comparison__uncertainty__verdict="by design")
    policy = PolicySection(by_design=("uncertainty",), inconclusive=inconclusive)
    assert verdicts(given, policy)["prediction uncertainty"] == "by design"
    assert decide(given, policy).decision == "publish"


def test_membership_without_a_reference_is_not_tested_and_a_plan_may_accept_that() -> None:
    given = figures(membership=None, score_coincidence=None)
    accepted = PolicySection(untested=("membership",))
    for policy, decision in ((POLICY, "await"), (accepted, "publish")):
        verdict = decide(given, policy)
        gate = next(g for g in verdict.gates if g.name == "membership")
        assert gate.verdict == "not tested"
        assert gate.figure == "needs people who took no part"
        assert verdict.decision == decision


def test_a_sample_that_met_an_extreme_record_fails_and_one_that_met_none_proves_nothing() -> None:
    assert verdicts(figures(queries__used=700))["extreme records"] == "inconclusive"
    met = figures(queries__used=700, extreme__verdict="fail", extreme__n_matched=1)
    assert verdicts(met)["extreme records"] == "fail"


def earlier(lower: float = 0.48, *, releases: int = 2, compared: int = 2) -> Assessment:
    return figures(prior_releases=PriorReleases(releases, compared, averaging(lower) if compared else None))


def test_of_a_wide_table_it_is_said_how_many_pairs_were_looked_at() -> None:
    def meaning(given: Assessment) -> str:
        return next(g.meaning for g in decide(given, POLICY).gates if g.name == "values taken together")

    assert meaning(figures()).endswith("the worst of 21 pairs of variables")
    assert meaning(figures(value_pairs__n_possible=21)).endswith("the worst of 21 pairs of variables")
    drawn = meaning(figures(value_pairs__n_possible=1225))
    assert drawn.endswith("the worst of 21 pairs of variables, drawn from 1,225")


def test_earlier_releases_that_tell_nothing_together_pass() -> None:
    verdict = decide(earlier(), POLICY)
    gate = next(g for g in verdict.gates if g.name == "earlier releases of these data")
    assert (verdict.decision, gate.verdict, gate.records) == ("publish", "pass", 1628)
    assert gate.figure == "AUC 0.510 [0.480, 0.540] with 2 of 2"


def test_earlier_releases_that_tell_members_together_reject_whoever_compares_them() -> None:
    assert decide(earlier(0.56), POLICY).decision == "reject"
    assert decide(earlier(0.56, releases=3), POLICY).decision == "reject"


@pytest.mark.parametrize("compared", [0, 1])
def test_earlier_releases_that_cannot_be_compared_ask_a_person(compared: int) -> None:
    verdict = decide(earlier(compared=compared), POLICY)
    assert verdict.decision == "await"
    assert verdict.reason.endswith("earlier releases of these data")
    assert decide(earlier(compared=compared), PolicySection(inconclusive="reject")).decision == "reject"


@pytest.mark.parametrize(("lower", "verdict"), [(0.55, "pass"), (0.5501, "fail"), (0.3, "pass")])
def test_membership_is_gated_on_the_lower_bound(lower: float, verdict: str) -> None:
    assert verdicts(figures(membership__lower=lower, membership__auc=0.9))["membership"] == verdict


def test_membership_limit_is_the_policys() -> None:
    given = figures(membership__lower=0.6)
    assert verdicts(given, PolicySection(membership_auc=0.65))["membership"] == "pass"


@pytest.mark.parametrize(("p", "verdict"), [(0.01, "pass"), (0.00999, "fail")])
def test_the_tail_is_gated_at_the_policys_level(p: float, verdict: str) -> None:
    assert verdicts(figures(tail__p=p))["unusually close records"] == verdict
    assert verdicts(figures(tail__p=p), PolicySection(tail_p=0.001))["unusually close records"] == "pass"


def test_a_limit_that_is_not_stated_is_not_gated() -> None:
    given = figures(utility__figures__figures__0__released_median=9.0)
    assert not any(name.startswith("utility") for name in verdicts(given, PolicySection()))
    only = PolicySection(utility=UtilityLimits(correlation=0.02))
    assert [n for n in verdicts(given, only) if n.startswith("utility")] == ["utility: correlation"]
    assert decide(given, only).decision == "publish"


def test_utility_without_a_reference_says_so() -> None:
    gate = decide(figures(utility__figures__figures__0__reference_median=None), POLICY).gates[-4]
    assert (gate.verdict, gate.baseline) == ("pass", "no reference sample")


@pytest.mark.parametrize(
    "broken",
    [
        {"tail__p": NAN},
        {"identical__p": NAN},
        {"membership__lower": NAN},
        {"utility__figures__figures__0__released_median": NAN},
    ],
    ids=str,
)
def test_a_figure_that_is_not_a_number_never_passes(broken: dict[str, Any]) -> None:
    assert decide(figures(**broken), POLICY).decision == "reject"


def test_no_formal_guarantee_is_no_gate() -> None:
    assert "none" not in verdicts(GOOD)


def test_every_gate_says_figure_limit_baseline_and_meaning() -> None:
    for gate in decide(GOOD, POLICY).gates:
        assert all((gate.figure, gate.limit, gate.baseline, gate.meaning))
        counted = {"earlier releases of these data": 0} | dict.fromkeys(
            ("membership", "membership by scores", "attribute inference"), 1628
        )
        assert gate.records == counted.get(gate.name, 814)


@pytest.mark.parametrize(
    "wrong",
    [
        {"approval": "nobody"},
        {"by_design": ("distance",)},
        {"tail_p": 0},
        {"membership_auc": 0.4},
        {"utility": {"mean": -1}},
        {"utility": {"kurtosis": 1}},
        {"surplus": 1},
    ],
    ids=str,
)
def test_impossible_policies_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PolicySection(**wrong)
