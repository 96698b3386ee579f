"""Decide by policy: publish, reject, or ask a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import published
from tasks.policy.gate import Chance, Gate, GateResult
from tasks.policy.gates import GATES
from tasks.policy.halves import WHOLE_IS_WITHIN, results_of
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import rounded_up
from tasks.policy.section import PolicySection

Decision = Literal["publish", "reject", "await"]
NOT_SHOWN = "decided by figures of all units; the half of them that is published has none"


@dataclass(frozen=True)
class Verdict:
    """What the policy says about a candidate: the decision, why, and the results of all gates."""

    decision: Decision
    reason: str
    gates: tuple[GateResult, ...]

    @property
    def nearest_limit(self) -> GateResult | None:
        """The question about risk whose upper bound is the largest part of what the policy accepts."""
        used = {
            one.bounds.upper / one.bounds.passes_within: one
            for one in self.gates
            if one.topic == "Risk" and one.bounds is not None and one.bounds.passes_within > 0
        }
        return used[max(used)] if used else None

    @property
    def risk_in_words(self) -> str:
        """The gates on risk that failed, are open or were waived, and the one nearest its limit."""
        named = {"failed": ("fail",), "open": ("inconclusive", "not tested"), "waived": ("waived",)}
        risk = {
            words: ", ".join(one.name for one in self.gates if one.topic == "Risk" and one.verdict in verdicts)
            for words, verdicts in named.items()
        }
        parts = [f"{words}: {names}" for words, names in risk.items() if names]
        worst = self.nearest_limit
        if worst is not None and worst.bounds is not None:
            upper, limit = worst.bounds.upper, worst.bounds.passes_within
            within = ", within it by exact figures" if worst.verdict == "pass" else ", not shown to be within it"
            shown = rounded_up(upper, 3)
            figure = f"at most {shown}, limit {limit:.3g}{within if float(shown) > limit else ''}"
            parts.append(f"{'nearest its limit: ' * bool(parts)}{worst.name}: {figure}")
        return "; ".join(parts)


def decide(assessment: Assessment, policy: PolicySection, gates: Sequence[Gate] = GATES) -> Verdict:
    """Put every gate to an assessment.

    A failed gate rejects; one about single records is waived where the plan waives their protection, and
    a person decides then. An inconclusive one asks a person, or rejects when the plan says so:
    the sample was then too small to prove the release safe or unsafe. Where more is lost than the plan accepts, a
    person decides, unless the plan says that it fails.
    """
    waived = policy.individual_protection == "none"
    shown = published(assessment)
    asked = [(gate, result) for gate in gates for result in _results(gate, assessment, shown, policy)]
    results = [
        replace(one, verdict="waived") if waived and gate.individual and one.topic == "Risk" else one
        for gate, one in asked
    ]
    undecided = [
        one.cause
        for (gate, _), one in zip(asked, results, strict=True)
        if one.verdict == "inconclusive" or (one.verdict == "not tested" and gate.untested_as not in policy.untested)
    ]
    failed = [one.cause for one in results if one.verdict == "fail"]
    lost = [one.cause for one in results if one.verdict == "to decide"]
    return Verdict(*_decision(failed, undecided, lost, policy), tuple(results))


def _results(gate: Gate, assessment: Assessment, shown: PublishedAssessment, policy: PolicySection) -> list[GateResult]:
    """Return a gate's results with the figures as they are published: texts must not be finer than the rounding.

    Exact figures of all units decide, also on what moved by more than two samples differ. Where a published figure
    is on the other side of its limit, the text says so.
    """
    exact = results_of(gate, assessment, policy)
    if not gate.publishes:
        return list(exact)
    texts = {one.name: one for one in results_of(gate, shown, policy)}
    of_part = shown.risk_of_part and any(name.startswith("risk.") for name in gate.publishes)
    return [_with_verdict(one, texts.get(one.name) or _without_figures(one), of_part) for one in exact]


def _without_figures(exact: GateResult) -> GateResult:
    """Return what the published part of the units has no figure for."""
    static = GateResult(exact.name, exact.verdict, "not shown", exact.limit, "not shown", 0, NOT_SHOWN)
    return replace(static, topic=exact.topic)


def _with_verdict(exact: GateResult, text: GateResult, of_part: bool) -> GateResult:
    # Of tests, counts in tens look worse than they are; a p-value below its level would contradict the verdict.
    is_compared = text.topic == "Utility" or text.bounds is not None or (text.chance and _by_chance(text, text.chance))
    how, meaning = "", text.meaning
    if text.verdict != exact.verdict and (of_part or is_compared):
        how = ", decided by exact figures of all units" if of_part else ", decided before it was rounded"
    if exact.verdict == "fail":
        meaning = meaning.partition(WHOLE_IS_WITHIN)[0]
    # The variables that drive the exact figure are those to change.
    shown = replace(text, variables=exact.variables, moved=exact.moved)
    return replace(shown, verdict=exact.verdict, figure=f"{text.figure}{how}", meaning=meaning)


def _by_chance(text: GateResult, chance: Chance) -> bool:
    return text.verdict == "fail" or (bool(chance.asks) and chance.is_doubtful)


def _decision(failed: list[str], undecided: list[str], lost: list[str], policy: PolicySection) -> tuple[Decision, str]:
    """Return the decision and its reason."""
    if failed:
        return "reject", f"failed: {', '.join(failed)}"
    if undecided and policy.inconclusive == "reject":
        return "reject", f"not proven safe at this sample size: {', '.join(undecided)}"
    if undecided or lost:
        much = f"more is lost than the plan accepts: {', '.join(lost)}" if lost else ""
        return "await", f"a person must decide: {'; '.join(part for part in (', '.join(undecided), much) if part)}"
    if policy.individual_protection == "none":
        return "await", "a person must decide: single records are not protected, by the plan"
    if policy.approval == "person":
        return "await", "every gate passed; the plan asks for a person's approval"
    return "publish", "every gate passed"
