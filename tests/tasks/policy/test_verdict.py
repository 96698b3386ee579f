"""The policy, gate by gate: what rejects, what asks a person, what publishes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from pydantic import ValidationError

from anoncore.risk._proportions import Difference
from anoncore.utility import Pattern
from tasks.policy.assessment import Assessment, ExternalFiles, ReferenceOverlap
from tasks.policy.gates import linkage
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, by_subset, changed

NAN = float("nan")
GOOD = assessment()
OWN = {f.name for f in fields(Assessment)}
POLICY = PolicySection()
REJECTS = {"utility": {"exceeded": "reject"}}


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
        "isolated records",
        "extreme records",
        "dominated numbers",
        "dominated averages",
        "group figures",
        "value pairs",
        "singling out",
        "membership",
        "membership by scores",
        "value presence",
        "agreement",
        "density",
        "partial copies",
        "linkage",
        "linkability",
        "attribute inference",
        "earlier releases",
        "5-anonymity",
        "values beyond limits",
        "impossible combinations",
        "dependencies",
        "worst variable",
        "spikes",
        "worst pair",
    ]
    assert set(verdicts(GOOD).values()) == {"pass"}


FAILURES = {
    "prediction distance": {"comparison__distance__verdict": "fail"},
    "prediction ambiguity": {"comparison__ambiguity__verdict": "fail"},
    "prediction uncertainty": {"comparison__uncertainty__verdict": "fail"},
    "identical records": {"identical__p": 0.0014},
    "unusually close records": {"tail__p": 0.0014},
    "extreme records": {"extreme__verdict": "fail", "extreme__n_matched": 1},
    "dominated numbers": {"dominance__followed": ("wealth",)},
    "dominated averages": {"averages__variables": ("wealth",)},
    "value pairs": {"value_pairs__verdict": "fail"},
    "membership": {"membership__lower": 0.551},
    "membership by scores": {"score_coincidence__attack__lower": 0.551},
    "linkage": {"linkage__rate__lower": 0.201},
    "linkage with certainty": {"subset_linkage": by_subset(0.1, 0.15, (0.021, 0.03))},
    "attribute inference": {"inference__variables__0__excess": Difference(0.1, 0.051, 0.2)},
    "5-anonymity": {"claims__0__holds": False},
    "values beyond limits": {"utility__variables__variables__0__released_shift__beyond": 0.02},
    "impossible combinations": {"utility__structure__impossible": 31},
    "dependencies": {"utility__structure__broken": (Pattern(("income", "height"), 13),)},
    "worst variable": {"utility__variables__variables__1__released_shift__distance": 0.13},
    "spikes": {"utility__variables__variables__1__released_shift__spike": 0.08},
    "worst pair": {"utility__pairs__worst__0__change": 0.11},
}


# Where single variables drive the figure the reason names them.
CAUSES = dict(zip(FAILURES, FAILURES, strict=True)) | {
    "dominated numbers": "dominated numbers (wealth)",
    "dominated averages": "dominated averages (wealth)",
    "value pairs": "value pairs (income, height)",
    "attribute inference": "attribute inference (income)",
    "values beyond limits": "values beyond limits (income)",
    "worst variable": "worst variable (height)",
    "spikes": "spikes (height)",
    "worst pair": "worst pair (income, height)",
}
LOSSES = ("impossible combinations", "worst variable", "spikes", "worst pair")


@pytest.mark.parametrize("gate", FAILURES)
@pytest.mark.parametrize("policy", [{}, {"approval": "person"}, {"inconclusive": "reject"}], ids=str)
def test_each_gate_alone_rejects_and_is_named(gate: str, policy: dict[str, str]) -> None:
    given = figures(**FAILURES[gate])
    verdict = decide(given, PolicySection(**REJECTS, **policy))
    assert (verdict.decision, verdict.reason) == ("reject", f"failed: {CAUSES[gate]}")
    assert [g.name for g in verdict.gates if g.verdict == "fail"] == [gate]


def test_all_failed_gates_are_named() -> None:
    every = {path: value for change in FAILURES.values() for path, value in change.items()}
    assert decide(figures(**every), PolicySection(**REJECTS)).reason == f"failed: {', '.join(CAUSES.values())}"


@pytest.mark.parametrize("gate", LOSSES)
def test_a_loss_beyond_its_limit_asks_a_person_unless_the_plan_rejects_it(gate: str) -> None:
    verdict = decide(figures(**FAILURES[gate]), POLICY)
    assert verdict.decision == "await"
    assert verdict.reason == f"a person must decide: more is lost than the plan accepts: {CAUSES[gate]}"
    assert decide(figures(**FAILURES[gate]), PolicySection(inconclusive="reject")).decision == "await"


OPEN = {
    "identical records": {"identical__n_released": 1, "identical__p": 0.5, "identical__n_duplicates": 0},
    "reference of other people": {"close_pairs__n_among": 60, "close_pairs__n_cross": 58},
    "prediction distance": {"comparison__distance__verdict": "inconclusive"},
    "prediction uncertainty": {"comparison__uncertainty__verdict": "inconclusive"},
    "unusually close records": {"tail__verdict": "inconclusive", "tail__p": 1.0},
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


def test_texts_are_rounded_as_figures_are_published() -> None:
    few = decide(figures(records__original=60), POLICY)
    texts = {one.name: f"{one.figure} {one.baseline}" for one in few.gates}
    assert (
        texts.items()
        >= {
            "linkage": "0.10 [0.00, 0.20] 0.00123, guessing",
            "worst variable": "income: distance 0.00 0.10, the worst between two samples",
        }.items()
    )
    assert verdicts(figures(records__original=60)) == verdicts(GOOD)


def test_a_failed_gate_shows_its_own_figure_though_rounding_hides_the_failure() -> None:
    """Of 60 people shares are published in tenths: a certain link of 0.021 to 0.03 rounds to none."""
    given = figures(records__original=60, subset_linkage=by_subset(0.1, 0.19, (0.021, 0.03)))
    shown = {one.name: (one.limit, one.verdict) for one in decide(given, POLICY).gates if "linkage" in one.name}
    assert shown == {"linkage": ("≤ 0.2", "pass"), "linkage with certainty": ("≤ 0.02", "fail")}


def test_names_in_files_of_others_fail_and_members_in_a_reference_ask() -> None:
    files, overlap = ExternalFiles(0, 0), ReferenceOverlap(0, 0, 814, 1.0, 7)
    assert decide(figures(external=files), POLICY).decision == "publish"
    named = decide(figures(external=replace(files, named=7)), POLICY)
    assert (named.decision, named.reason) == ("reject", "failed: identifiers of the original")
    asked = decide(figures(external=files, overlap=overlap), POLICY)
    assert (asked.decision, asked.gates[-1].figure) == ("await", "at most 10")
    assert asked.gates[-1].name == "reference of other people"


def test_a_failure_outweighs_an_open_gate() -> None:
    verdict = decide(figures(tail__p=0.001, comparison__distance__verdict="inconclusive"), POLICY)
    assert (verdict.decision, verdict.reason) == ("reject", "failed: unusually close records")


def test_gates_on_single_records_are_waived_where_the_plan_waives_their_protection() -> None:
    reason = {"individual_protection": "none", "individual_protection_reason": "a group alone is hidden"}
    policy = PolicySection(**reason)
    verdict = decide(figures(**FAILURES["membership"]), policy)
    assert (verdict.decision, verdict.reason.split(":")[1]) == (
        "await",
        " single records are not protected, by the plan",
    )
    single = {gate.name for gate in verdict.gates if gate.verdict == "waived"}
    assert single == {gate.name for gate in verdict.gates if gate.topic == "Risk"}
    assert decide(figures(**FAILURES["5-anonymity"]), policy).decision == "reject"


def test_the_verdict_is_a_fold_over_the_gates_it_is_given() -> None:
    assert decide(GOOD, POLICY, gates=()).reason == "every gate passed"
    alone = decide(figures(**FAILURES["linkage"]), POLICY, gates=[linkage.GATE])
    assert (alone.decision, [gate.name for gate in alone.gates]) == ("reject", ["linkage"])


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
        assert gate.figure == "needs non-members"
        assert verdict.decision == decision


@pytest.mark.parametrize(
    "broken",
    [
        {"tail__p": NAN},
        {"identical__p": NAN},
        {"membership__lower": NAN},
        {"utility__structure__broken": (Pattern(("a", "b"), NAN),)},
    ],
    ids=str,
)
def test_a_figure_that_is_not_a_number_never_passes(broken: dict[str, Any]) -> None:
    assert decide(figures(**broken), POLICY).decision == "reject"


def test_every_gate_says_figure_limit_baseline_and_meaning() -> None:
    for gate in decide(GOOD, POLICY).gates:
        assert all((gate.figure, gate.limit, gate.baseline, gate.meaning))
        counted = {"earlier releases": 0, "isolated records": 10} | dict.fromkeys(
            (
                "membership",
                "membership by scores",
                "attribute inference",
                "value presence",
                "agreement",
                "density",
                "partial copies",
                "singling out",
                "linkability",
            ),
            1628,
        )
        assert gate.records == counted.get(gate.name, 814)


@pytest.mark.parametrize(
    "wrong",
    [
        {"approval": "nobody"},
        {"by_design": ("distance",)},
        {"tail_p": 0},
        {"membership_auc": 0.4},
        {"surplus": 1},
    ],
    ids=str,
)
def test_impossible_policies_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PolicySection(**wrong)


@pytest.mark.parametrize("change", [0.08, 0.1, 0.105, 0.13])
def test_a_figure_that_its_rounding_brings_to_the_other_side_of_the_limit_says_so(change: float) -> None:
    (pair, *_) = GOOD.utility.pairs.worst
    given = figures(utility__pairs__worst=(replace(pair, change=change, two_samples=0.0),))
    shown = next(one for one in decide(given, POLICY).gates if one.name == "worst pair")
    figure, _, decided = shown.figure.partition(",")
    is_within = float(figure.split()[-1]) <= float(shown.limit.removeprefix("≤ "))
    assert (shown.verdict == "pass") == (change <= 0.1)
    assert (shown.verdict == "pass") == (is_within != bool(decided))


def test_the_risk_in_words_names_what_failed_and_what_is_open() -> None:
    passed = decide(GOOD, POLICY)
    nearest = passed.risk_in_words
    assert nearest.startswith(f"{passed.nearest_limit.name}: at most ")
    assert ";" not in nearest
    risk = [one.name for one in passed.gates if one.topic == "Risk"]
    worse = {risk[0]: "fail", risk[1]: "fail", risk[2]: "inconclusive", risk[3]: "not tested"}
    gates = tuple(replace(one, verdict=worse.get(one.name, one.verdict)) for one in passed.gates)
    words = replace(passed, gates=gates).risk_in_words
    assert words == f"failed: {risk[0]}, {risk[1]}; open: {risk[2]}, {risk[3]}; nearest its limit: {nearest}"
    assert replace(passed, gates=()).risk_in_words == ""
