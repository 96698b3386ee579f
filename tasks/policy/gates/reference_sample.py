"""Whether the reference sample holds other people, as every figure supposes."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.attack import p_phrase
from tasks.policy.gate import Gate, GateResult
from tasks.policy.limits import ChanceLimit
from tasks.policy.rounding import at_least_ten, p_value

# Equal and alike records come in groups, which widens chance: a level stricter than that of other gates.
STRICTER = 100


def evaluate(assessment: Assessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Ask a person where the reference seems to hold records of the original."""
    level = policy.tail_p / STRICTER
    overlap, pairs = assessment.overlap, assessment.risk.close_pairs
    if overlap is not None and overlap.named:
        figure, limit, baseline, records = f"at most {at_least_ten(overlap.named)}", "0", "0", overlap.records
        meaning = "people of the reference who carry an identifier of a person of the original"
    elif overlap is not None and overlap.p < level:
        figure, limit, records = (
            f"at most {at_least_ten(overlap.matches)}, {p_phrase(p_value(overlap.p))}",
            f"p ≥ {level:g}",
            overlap.records,
        )
        baseline = f"at most {at_least_ten(overlap.duplicates)} with a duplicate in the original"
        meaning = "people of the original whose record is in the reference unchanged"
    elif pairs is not None and pairs.p_cross < level:
        shown = f"at most {at_least_ten(pairs.n_cross)} of {at_least_ten(pairs.n_among)}"
        figure = f"{shown}, {p_phrase(p_value(pairs.p_cross))}"
        limit, baseline, records = f"p ≥ {level:g}", "at most half", at_least_ten(pairs.n_among)
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
