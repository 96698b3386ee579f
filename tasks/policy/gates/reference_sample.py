"""Whether the reference sample holds other people, as every figure supposes."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult
from tasks.policy.limits import ChanceLimit

# Equal and alike records come in groups, which widens chance: a level stricter than that of other gates.
STRICTER = 100


def evaluate(assessment: Assessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Ask a person where the reference seems to hold records of the original."""
    level = policy.tail_p / STRICTER
    overlap = None if assessment.external is None else assessment.external.overlap
    pairs = assessment.risk.close_pairs
    if overlap is not None and overlap.named:
        figure, limit, baseline, records = f"{overlap.named}", "0", "0", overlap.records
        meaning = "people of the reference who carry an identifier of a person of the original"
    elif overlap is not None and overlap.p < level:
        figure, limit, records = f"{overlap.matches}, p = {overlap.p:.3g}", f"p ≥ {level:g}", overlap.records
        baseline = f"{overlap.duplicates} with a duplicate in the original"
        meaning = "people of the original whose record is in the reference unchanged"
    elif pairs is not None and pairs.p_cross < level:
        figure = f"{pairs.n_cross} of {pairs.n_among}, p = {pairs.p_cross:.3g}"
        limit, baseline, records = f"p ≥ {level:g}", "at most half", pairs.n_among
        meaning = "close pairs of people that are of one of the original and one of the reference"
    else:
        return ()
    meaning += "; every other figure supposes that the reference holds non-members"
    return (GateResult("reference of other people", "inconclusive", figure, limit, baseline, records, meaning),)


GATE = Gate(
    name="reference sample",
    description="The reference must hold other people than the original. Inconclusive when its records carry "
    "identifiers of the original, when more of its records are identical to records of the original than chance "
    "explains (p below a hundredth of `tail_p`), or when close pairs of people are of one of the original and one of "
    "the reference more often than half of the time.",
    evaluate=evaluate,
    limits=ChanceLimit,
)
