"""What a step of a release has done, as a sentence for the log of its run: counts, names and digests, no data."""

from __future__ import annotations

from collections import Counter
from functools import singledispatch

from tasks.assessment.assess import Assessed
from tasks.assessment.series import Followed
from tasks.common.formatting import count
from tasks.decision.outcomes import Outcome
from tasks.intake.ingest import Ingested
from tasks.intake.split import Split
from tasks.intake.validate import Checked, Validated
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import PriorReleases
from tasks.policy.verdict import Verdict
from tasks.publication.candidate import Candidate
from tasks.record.dossier import ReleaseIdentity


@singledispatch
def done(result: object) -> str:
    """Return what a step has done, by its result; empty where that says nothing more than the step's name."""
    return ""


@done.register
def _(result: Ingested) -> str:
    source = result.summary
    return f"Read {count(source.records)} records of {count(source.units)} units, {count(source.variables)} variables."


@done.register
def _(result: Checked) -> str:
    broken = ", ".join(rule.name for rule in result.report.violated) or "none"
    return (
        f"Checked {len(result.report.rules)} rules; violated: {broken}; records set aside: {count(result.set_aside)}."
    )


@done.register
def _(result: Split) -> str:
    sides = result.summary
    return (
        f"{count(sides.original)} records are to be masked; reference: {sides.kind}, {count(sides.reference)} records."
    )


@done.register
def _(result: Masked) -> str:
    return f"Masked; {len(result.claims)} claim(s) of the steps were checked on the released records."


@done.register
def _(result: Validated) -> str:
    broken = ", ".join(rule.name for rule in result.report.violated) or "none"
    return f"Checked {len(result.report.rules)} rules on the masked records; violated: {broken}."


@done.register
def _(result: Assessed) -> str:
    records = result.assessment.records
    reference = "no reference" if records.reference is None else f"{count(records.reference)} records of the reference"
    return f"Measured {count(records.released)} records for release against {count(records.original)} and {reference}."


@done.register
def _(result: Followed) -> str:
    return f"Compared with {len(result.earlier)} earlier release(s) of the same plan, data or units."


@done.register
def _(result: PriorReleases) -> str:
    return f"Attacked with {result.compared} of {result.releases} earlier release(s)."


@done.register
def _(result: Verdict) -> str:
    counted = Counter(gate.verdict for gate in result.gates)
    gates = ", ".join(f"{number} {verdict}" for verdict, number in counted.items())
    return f"Gates: {gates}. The policy says: {result.reason}."


@done.register
def _(result: ReleaseIdentity) -> str:
    return f"Wrote {result.id}: {count(result.records)} records, {count(len(result.variables))} variables."


@done.register
def _(result: Candidate) -> str:
    # The digest in full would be wider than a phone.
    return f"Wrote the report of {result.dossier.release.id}; dossier SHA-256 {result.dossier.digest[:16]}…"


@done.register
def _(result: Outcome) -> str:
    return f"{result.release} is {result.status}: {result.reason}."
