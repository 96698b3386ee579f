"""What externally produced files hold besides what was measured."""

from __future__ import annotations

from typing import Any

from anoncore.risk import IdentifierMatches, difference, three_way
from tasks.common.formatting import percent, shares
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult
from tasks.policy.rounding import at_least_ten, coarse, step_of

# By how much the share of the original's values may exceed the reference's in a column that looks like an identifier.
EXCESS = 0.05


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Fail where released records carry identifiers; inconclusive where columns were not measured."""
    files, released = assessment.external, assessment.records.released
    if files is None:
        return ()
    results = [_supposed(one, step_of(assessment.records.original)) for one in files.supposed]
    if files.named:
        meaning = "released rows that carry an identifier of a person of the original"
        figure = f"at most {at_least_ten(files.named)}"
        results.append(GateResult("identifiers of the original", "fail", figure, "0", "0", released, meaning))
    if files.unmeasured:
        meaning = "released columns that the original lacks, or whose values look like identifiers"
        figure = f"{files.unmeasured}"
        results.append(GateResult("columns not measured", "inconclusive", figure, "0", "0", released, meaning))
    if files.relabelling is not None and (names := files.relabelling.variables):
        results.append(_relabelled(names, files.relabelling.n_variables, released))
    if files.row_order is not None and (names := files.row_order.variables):
        meaning = (
            f"variables whose released values agree with the original’s in the same row: {', '.join(names)}; who knows "
            "the order of the original knows whose row is whose; shuffle the rows of the release"
        )
        results.append(GateResult("row order", "inconclusive", f"{len(names)}", "0", "0", released, meaning))
    return tuple(results)


def _relabelled(names: tuple[str, ...], looked_at: int, released: int) -> GateResult:
    meaning = (
        f"variables whose released levels are not the original’s of the same name, or fit those of other names better: "
        f"{', '.join(names)}; attacks compare levels by name, so nothing was tested of them; give levels their "
        "original names in the file that is assessed"
    )
    figure = f"{len(names)} of {looked_at}"
    return GateResult("levels of the original", "not tested", figure, "0", "0", released, meaning)


def _supposed(one: IdentifierMatches, step: float) -> GateResult:
    """Compare the share of the original's values in a release with that in the reference; never a failure."""
    harmless = one.released.value == 0.0
    if one.reference is not None:
        excess = difference(one.released, one.reference)
        harmless = three_way(excess.lower, excess.upper, EXCESS) == "pass"
    shown, reference = coarse(one.released, step), coarse(one.reference, step)
    return GateResult(
        name=f"possible identifier {one.variable}",
        verdict="pass" if harmless else "inconclusive",
        figure=f"{percent(shown.value)} [{shares(shown)}]",
        limit=f"excess ≤ {EXCESS:g}" if one.reference is not None else "0",
        baseline="no reference" if reference is None else f"{percent(reference.value)}, the reference",
        records=one.released.n,
        meaning="different released values that are the original’s, in a column that looks like an identifier; "
        "--identifier or a plan states whether it is one",
    )


GATE = Gate(
    name="files",
    description="Of externally produced files: fail when released rows carry an identifier of the original that a plan "
    "or `--identifier` states; inconclusive when a column that merely looks like an identifier has more values of the "
    "original than the reference has, by more than 0.05; inconclusive when released columns have no counterpart in the "
    "original, since nothing was measured of them, and when values agree with the original's in the same row more than "
    "in rows near by, as the files stand or sorted by a variable; not tested when the levels of a variable appear to "
    "have other names than in the original.",
    evaluate=evaluate,
)
