"""Decide by policy: publish, reject, or ask a person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, model_validator

from anoncore.risk import MembershipAttack, TailTest
from tasks.common.formatting import pairs_of_variables
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment

Measure = Literal["ambiguity", "uncertainty"]
GateVerdict = Literal["pass", "fail", "inconclusive", "by design", "not tested", "waived"]
Decision = Literal["publish", "reject", "await"]


class UtilityLimits(Section):
    """The largest median differences that are accepted. A limit that is not stated is reported and has no gate.

    Parameters
    ----------
    mean : Of the variables' means, in standard deviations.
    variance : Of their variances, as a share of the variance.
    correlation : Of their correlations.
    rank_correlation : Of their rank correlations.
    """

    mean: float | None = Field(default=None, ge=0)
    variance: float | None = Field(default=None, ge=0)
    correlation: float | None = Field(default=None, ge=0)
    rank_correlation: float | None = Field(default=None, ge=0)


class PolicySection(Section):
    """When a release may be published. A failed gate always rejects.

    Parameters
    ----------
    approval : ``automatic`` publishes when every gate passes; ``person`` asks a person even then.
    approvers : How many different people must approve when a person decides.
    requester_may_approve : ``false``: the person who ran the plan may not approve it. Needs a list of people.
    approver_names : Only these people may approve; everyone on the list when empty.
    decide_within_days : A candidate that waits longer expires and is removed. Without it a candidate waits
        indefinitely.
    inconclusive : When the sample is too small to prove the release safe or unsafe: ask a person, or reject.
    by_design : Measures that carry no information about the method, as with groups of identical records.
    untested : Accepts that membership inference cannot be tested without a reference sample (leave-one-out).
        Otherwise a person is asked.
    individual_protection : ``none`` is for plans that only hide a group (``group-anonymity`` without another
        masking step): what is measured of single records is reported without a gate, and a person decides.
    individual_protection_reason : Why, with ``individual_protection: none``. It is written in the report and the
        ledger.
    tail_p : Fail when chance alone produces as many identical, or unusually close, records less often than this.
    membership_auc : Fail when an attack distinguishes members from non-members better than this, at 99 %
        confidence. 0.5 is guessing.
    linkage_rate : Fail when, at 95 % confidence, more than this share of people is linked to their own row. Applies
        where rows keep the identity of their records.
    utility : The largest median differences that are accepted.
    """

    approval: Literal["automatic", "person"] = "automatic"
    approvers: int = Field(default=1, ge=1, le=5)
    requester_may_approve: bool = True
    approver_names: tuple[str, ...] = ()
    decide_within_days: float | None = Field(default=None, gt=0, le=3650)
    inconclusive: Literal["person", "reject"] = "person"
    by_design: tuple[Measure, ...] = ()
    untested: tuple[Literal["membership"], ...] = ()
    individual_protection: Literal["required", "none"] = "required"
    individual_protection_reason: str = ""
    tail_p: float = Field(default=0.01, gt=0, lt=1)
    membership_auc: float = Field(default=0.55, ge=0.5, le=1)
    linkage_rate: float = Field(default=0.2, gt=0, le=1)
    utility: UtilityLimits = UtilityLimits()

    @model_validator(mode="after")
    def _waiving_has_a_reason(self) -> PolicySection:
        if (self.individual_protection == "none") != bool(self.individual_protection_reason.strip()):
            raise ValueError("individual_protection: none needs an individual_protection_reason, and only it has one")
        return self

    @model_validator(mode="after")
    def _enough_can_approve(self) -> PolicySection:
        names = {" ".join(name.split()).casefold() for name in self.approver_names}
        if "" in names or len(names) < len(self.approver_names):
            raise ValueError("approver_names must be different names, none of them empty")
        if names and len(names) < self.approvers:
            raise ValueError(
                f"approvers asks for {self.approvers} people, approver_names lists {len(names)}; name more"
            )
        return self


@dataclass(frozen=True)
class Gate:
    """One question the policy asks, its answer, and the figures behind it."""

    name: str
    verdict: GateVerdict
    figure: str
    limit: str
    baseline: str
    records: int
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """What the policy says about a candidate."""

    decision: Decision
    reason: str
    gates: tuple[Gate, ...]


def decide(assessment: Assessment, policy: PolicySection) -> Verdict:
    """Put every gate to the figures of one assessment.

    A failed gate rejects; one about single records is waived where the plan waives their protection, and
    a person decides then. An inconclusive one asks a person, or rejects when the plan says so:
    the sample was then too small to prove the release safe or unsafe.
    """
    waived = policy.individual_protection == "none"
    individual = (
        *_comparison_gates(assessment),
        *_tail_gates(assessment, policy),
        *_together_gates(assessment),
        *_membership_gates(assessment, policy),
        *_linkage_gates(assessment, policy),
        *_inference_gates(assessment),
        *_earlier_gates(assessment, policy),
    )
    gates = (
        *(replace(g, verdict="waived") if waived else g for g in individual),
        *_claim_gates(assessment),
        *_utility_gates(assessment, policy),
        *_file_gates(assessment),
        *_reference_gates(assessment, policy),
    )
    failed = [g.name for g in gates if g.verdict == "fail"]
    open_ = [
        g.name
        for g in gates
        if g.verdict == "inconclusive" or (g.verdict == "not tested" and g.name.split()[0] not in policy.untested)
    ]
    if failed:
        return Verdict("reject", f"failed: {', '.join(failed)}", gates)
    if open_ and policy.inconclusive == "reject":
        return Verdict("reject", f"not proven safe at this sample size: {', '.join(open_)}", gates)
    if open_:
        return Verdict("await", f"a person must decide: {', '.join(open_)}", gates)
    if waived:
        return Verdict("await", "a person must decide: single records are not protected, by the plan", gates)
    if policy.approval == "person":
        return Verdict("await", "every gate passed; the plan asks for a person's approval", gates)
    return Verdict("publish", "every gate passed", gates)


MEANINGS = {
    "distance": "how close the nearest released record comes to a person, beside a sample without them",
    "ambiguity": "how clearly the nearest released record stands out from the next ones",
    "uncertainty": "how much the nearest released records disagree with each other",
}


def _comparison_gates(assessment: Assessment) -> list[Gate]:
    gates = []
    for measure in assessment.risk.comparison.measures:
        # What decides: a failure is proved from below, everything else from above; a share is 1 at most.
        proved = measure.verdict == "fail"
        bound = f"≥ {measure.lower:.3f}" if proved else f"≤ {min(measure.upper, 1.0):.3f}"
        gates.append(
            Gate(
                name=f"prediction {measure.name}",
                verdict=measure.verdict,
                figure=f"excess {bound} ({1 - measure.alpha:.0%} sure)",
                limit=f"≤ {measure.margin:.3f}",
                baseline="0, the reference",
                records=measure.n,
                meaning=MEANINGS[measure.name],
            )
        )
    return gates


def _tail_gates(assessment: Assessment, policy: PolicySection) -> list[Gate]:
    tail, extreme, same = assessment.risk.tail, assessment.risk.extreme, assessment.risk.identical
    paired = tail.n_close_pairs is not None
    pairs = f" (pairs {tail.close_pairs_released} of {tail.n_close_pairs})" if paired else ""
    third = "; of close pairs chance gives the release a third at most" if paired else ""
    # A sample that matches none says nothing about the extreme records outside it.
    unseen = assessment.risk.queries.sampled and extreme.verdict == "pass"
    return [
        Gate(
            name="identical records",
            verdict=_identical_verdict(same, policy),
            figure=f"{same.n_released}, p = {same.p:.3g}",
            limit=f"p ≥ {policy.tail_p:g}",
            baseline=f"{same.n_reference}, the reference",
            records=same.n,
            meaning="people of the source whose record stands in the release as it is; one alone is open "
            "where nobody is like another",
        ),
        Gate(
            name="unusually close records",
            verdict=_tail_verdict(tail, policy),
            figure=f"{tail.n_released}{pairs}, p = {tail.p:.3g}",
            limit=f"p ≥ {policy.tail_p:g}",
            baseline=f"{tail.n_reference}, the reference",
            records=tail.n,
            meaning=f"records the release meets ten times closer than their nearest neighbour does{third}",
        ),
        Gate(
            name="extreme records",
            verdict="inconclusive" if unseen else extreme.verdict,
            figure=f"{extreme.n_matched} of {extreme.n_extreme} matched",
            limit="0",
            baseline=f"{extreme.baseline}, the reference",
            records=extreme.n,
            meaning="people far from everyone else, whom a close released record would give away",
        ),
    ]


def _together_gates(assessment: Assessment) -> list[Gate]:
    found = assessment.risk.value_pairs
    if found is None or not found.pair:
        return []
    return [
        Gate(
            name="values taken together",
            verdict=found.verdict,
            figure=f"{' and '.join(found.pair)}: {found.excess:+.2f} [{found.lower:+.2f}, {found.upper:+.2f}]",
            limit=f"lower bound ≤ {found.margin:g}",
            baseline=f"{found.reference}, the reference",
            records=found.n,
            meaning="people two of whose values stand side by side in the release, the worst of "
            f"{pairs_of_variables(found.n_pairs, found.n_possible)}",
        )
    ]


def _identical_verdict(same: TailTest, policy: PolicySection) -> GateVerdict:
    """Fail on proof; ask where the release repeats people and neither the original nor others ever do."""
    # Not "below": what is not a number is no proof of anything good.
    if not same.p >= policy.tail_p:
        return "fail"
    alone = same.n_reference == same.n_duplicates == 0
    return "inconclusive" if same.n_released and alone else "pass"


def _tail_verdict(tail: TailTest, policy: PolicySection) -> GateVerdict:
    if tail.verdict == "inconclusive":
        return "inconclusive"
    # In this form a figure that is not a number fails.
    return "pass" if tail.p >= policy.tail_p else "fail"


def _membership_gates(assessment: Assessment, policy: PolicySection) -> list[Gate]:
    scores = assessment.risk.score_coincidence
    attacks: dict[str, tuple[MembershipAttack | None, str]] = {
        "membership": (assessment.risk.membership, "whether an attacker can tell who took part from who did not"),
        "membership by scores": (
            scores.attack if scores else None,
            "whether principal scores that recur in the release tell who took part",
        ),
    }
    if assessment.risk.membership_rescaled is not None:
        meaning = "the same once the release is given the means and spreads of other people"
        attacks["membership, moved back"] = (assessment.risk.membership_rescaled, meaning)
    if assessment.risk.boxes is not None:
        meaning = "whether how densely people stand in a box tells who took part from who did not"
        attacks["membership by boxes"] = (assessment.risk.boxes.membership, meaning)
    return [_membership_gate(name, attack, meaning, policy) for name, (attack, meaning) in attacks.items()]


def _membership_gate(name: str, attack: MembershipAttack | None, meaning: str, policy: PolicySection) -> Gate:
    limit = f"lower bound ≤ {policy.membership_auc:.2f}"
    if attack is None:
        return Gate(name, "not tested", "needs people who took no part", limit, "0.50, guessing", 0, meaning)
    return Gate(
        name=name,
        verdict="pass" if attack.lower <= policy.membership_auc else "fail",
        figure=f"AUC {attack.auc:.3f} [{attack.lower:.3f}, {attack.upper:.3f}]",
        limit=limit,
        baseline="0.50, guessing",
        records=attack.n_members + attack.n_nonmembers,
        meaning=meaning,
    )


def _linkage_gates(assessment: Assessment, policy: PolicySection) -> list[Gate]:
    """Ask how often a row is traced to its person, where rows carry the identity of their records."""
    link = assessment.risk.linkage
    if link is None:
        return []
    rate = link.rate
    return [
        Gate(
            name="linkage",
            verdict="pass" if rate.lower <= policy.linkage_rate else "fail",
            figure=f"{rate.value:.2f} [{rate.lower:.2f}, {rate.upper:.2f}]",
            limit=f"lower bound ≤ {policy.linkage_rate:g}",
            baseline=f"{link.guess:.3g}, guessing",
            records=rate.n,
            meaning="the share of people whose nearest released row is their own, to one who knows everybody",
        )
    ]


def _inference_gates(assessment: Assessment) -> list[Gate]:
    """Ask whether sensitive values are guessed better for those who took part; one gate for all of them."""
    guessed = assessment.risk.inference
    if guessed is None or not guessed.variables:
        return []
    worst = max(guessed.variables, key=lambda v: v.excess.lower)
    excess, others = worst.excess, worst.strangers
    interval = f"[{excess.lower:+.2f}, {excess.upper:+.2f}]"
    return [
        Gate(
            name="attribute inference",
            verdict="pass" if excess.lower <= guessed.margin else "fail",
            figure=f"{worst.name}: {excess.value:+.2f} {interval}",
            limit=f"lower bound ≤ {guessed.margin:g}",
            baseline=f"{others.value:.2f} right about strangers",
            records=guessed.n_members + guessed.n_strangers,
            meaning="how much more often a sensitive value is guessed right for those who took part; worst "
            f"of {len(guessed.variables)}",
        )
    ]


def _earlier_gates(assessment: Assessment, policy: PolicySection) -> list[Gate]:
    """Ask what all releases of these data give away together; a person where that cannot be measured."""
    earlier = assessment.prior_releases
    if earlier is None:
        return []
    attack, limit = earlier.attack, f"lower bound ≤ {policy.membership_auc:.2f}"
    gate = Gate(
        name="earlier releases of these data",
        verdict="pass" if not earlier.releases else "inconclusive",
        figure=f"{earlier.releases}, of which {earlier.compared} can be compared" if earlier.releases else "0",
        limit=limit if earlier.releases else "measured from the second release on",
        baseline="0.50, guessing" if earlier.releases else "0, a first release",
        records=0,
        meaning="whether all releases of these data in this home tell together who took part: fresh noise averages out",
    )
    if attack is None:
        return [gate]
    worst = max((attack.averaged, attack.gathered), key=lambda a: a.lower)
    verdict: GateVerdict = "pass" if earlier.compared == earlier.releases else "inconclusive"
    return [
        replace(
            gate,
            verdict=verdict if worst.lower <= policy.membership_auc else "fail",
            figure=f"AUC {worst.auc:.3f} [{worst.lower:.3f}, {worst.upper:.3f}] with "
            f"{earlier.compared} of {earlier.releases}",
            records=worst.n_members + worst.n_nonmembers,
        )
    ]


def _file_gates(assessment: Assessment) -> list[Gate]:
    """Look at what files of others hold besides what was measured: names, and columns of their own."""
    files = assessment.external
    if files is None:
        return []
    released = assessment.records.released
    gates = [
        Gate(
            name="identifiers of the original",
            verdict="fail",
            figure=f"{files.named}",
            limit="0",
            baseline="0",
            records=released,
            meaning="released rows that carry an identifier of somebody of the original",
        ),
        Gate(
            name="columns not measured",
            verdict="inconclusive",
            figure=f"{files.unmeasured}",
            limit="0",
            baseline="0",
            records=released,
            meaning="released columns that the original lacks, or has as identifiers, under other values",
        ),
    ]
    return [gate for gate, found in zip(gates, (files.named, files.unmeasured), strict=True) if found]


def _reference_gates(assessment: Assessment, policy: PolicySection) -> list[Gate]:
    """Ask a person where the reference seems to hold people of the original: every figure rests on it."""
    # Equal and alike records come in groups, which widens chance: a level stricter than that of other gates.
    level = policy.tail_p / 100
    external, pairs = assessment.external, assessment.risk.close_pairs
    members = None if external is None else external.overlap
    if members is not None and members.named:
        figure, limit, baseline, records = f"{members.named}", "0", "0", members.records
        meaning = "people of the reference who carry an identifier of somebody of the original"
    elif members is not None and members.p < level:
        figure, limit, records = f"{members.matches}, p = {members.p:.3g}", f"p ≥ {level:g}", members.records
        baseline = f"{members.duplicates} with a twin in the original"
        meaning = "people of the original whose record stands in the reference as it is"
    elif pairs is not None and pairs.p_cross < level:
        figure = f"{pairs.n_cross} of {pairs.n_among}, p = {pairs.p_cross:.3g}"
        limit, baseline, records = f"p ≥ {level:g}", "at most half", pairs.n_among
        meaning = "close pairs of people that are of one of the original and one of the reference"
    else:
        return []
    return [
        Gate(
            name="reference of other people",
            verdict="inconclusive",
            figure=figure,
            limit=limit,
            baseline=baseline,
            records=records,
            meaning=f"{meaning}; every other figure takes the reference for people who took no part",
        )
    ]


# Promises that rest on what only the method knows, and cannot be recounted from the release.
BY_THE_METHOD = (
    "LinkagePosterior",
    "EffectiveRecords",
    "InversionAudit",
    "ReinferenceAudit",
)


def _claim_gates(assessment: Assessment) -> list[Gate]:
    return [
        Gate(
            name=claim.claim,
            verdict="pass" if claim.holds else "fail",
            figure=claim.found,
            limit="holds",
            baseline="by the method" if claim.kind in BY_THE_METHOD else "the release alone",
            records=claim.records,
            meaning="what the method promises",
        )
        for claim in assessment.claims
        if claim.formal
    ]


def _utility_gates(assessment: Assessment, policy: PolicySection) -> list[Gate]:
    gates = []
    for name, limit in policy.utility:
        if limit is None:
            continue
        figure = assessment.utility.figure(name)
        found = None if figure is None else figure.released_median
        gates.append(
            Gate(
                name=f"utility: {name.replace('_', ' ')}",
                # Where nothing varies nothing was measured, and a limit on it is not kept.
                verdict="pass" if found is not None and found <= limit else "fail",
                figure="nothing to compare" if found is None else f"median difference {found:.2f}",
                limit=f"≤ {limit:g}",
                baseline=f"{figure.reference_median:.2f} in the reference"
                if figure is not None and figure.reference_median is not None
                else "no reference sample",
                records=assessment.records.released,
                meaning="how much of the statistics survives",
            )
        )
    return gates
