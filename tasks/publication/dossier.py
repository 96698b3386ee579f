"""Gather the results of a run in the dossier of its candidate, on which a person can decide."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version

from anoncore.method import public_parameters
from anoncore.microdata import Variable
from tasks.common.home import account
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.common.sources import source_folders
from tasks.intake.ingest import Ingested
from tasks.intake.split import Split
from tasks.intake.validate import Checked, EditsSection, Validated
from tasks.masking.anonymize import Masked, Step
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import without_source_levels
from tasks.policy.section import PolicySection
from tasks.policy.verdict import Verdict
from tasks.record import ledger
from tasks.record.dossier import (
    ApprovalTerms,
    Dossier,
    EditFacts,
    History,
    MethodFacts,
    MethodStep,
    PlanIdentity,
    ReleaseIdentity,
    RepairSummary,
    RunFacts,
    SourceSummary,
)
from tasks.record.entry import ReleaseFacts

LIBRARIES = ("anonflow", "numpy", "scipy", "pandas", "prefect", "mlflow", "great-expectations")


@dataclass(frozen=True)
class Stated:
    """What the plan of a run states; ``rebuild`` asks to draw anew, though plan and data may be unchanged."""

    plan: PlanIdentity
    steps: tuple[Step, ...]
    seed: SeedSection
    edits: EditsSection
    policy: PolicySection
    rebuild: bool = False


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the steps of a run returned; ``published`` counts releases of the same data under other plans."""

    ingested: Ingested
    checked: Checked
    split: Split
    masked: Masked
    validated: Validated
    assessment: Assessment
    verdict: Verdict
    release: ReleaseIdentity
    published: int = 0


def gather(run: Run, stated: Stated, results: Results) -> Dossier:
    """Return the dossier of a candidate, before its documents are written."""
    source, masked = results.ingested.summary, results.masked
    return Dossier(
        plan=stated.plan,
        run=_run_facts(run, stated),
        source=source,
        split=results.split.summary,
        edits=EditFacts(
            policy=stated.edits.on_violation,
            set_aside=results.checked.set_aside,
            raw=results.checked.report,
            masked=results.validated.report,
            repaired=masked.repair or RepairSummary(0, 0, {}, 0.0),
            unverifiable=results.validated.unverifiable,
            unpublished=stated.edits.unpublished,
        ),
        method=MethodFacts(tuple(MethodStep.of(public_parameters(step)) for step in stated.steps), masked.notes),
        assessment=without_source_levels(results.assessment, released_levels(results.release.variables)),
        verdict=results.verdict,
        release=results.release,
        approval=_approval_terms(stated.policy),
        history=History(_earlier_runs(run, source), results.published),
        unprotected=stated.policy.individual_protection_reason,
    )


def _run_facts(run: Run, stated: Stated) -> RunFacts:
    return RunFacts(
        id=run.id,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        by=account(),
        requester=os.environ.get("ANONFLOW_REQUESTER") or account(),
        code=code_digest(),
        versions={name: version(name) for name in LIBRARIES},
        seed=_seed(stated.seed),
        rebuild=stated.rebuild,
    )


def _approval_terms(policy: PolicySection) -> ApprovalTerms:
    return ApprovalTerms(
        approvers=policy.approvers,
        names=policy.approver_names,
        requester_may_approve=policy.requester_may_approve,
        within_days=policy.decide_within_days,
    )


def _earlier_runs(run: Run, source: SourceSummary) -> int:
    """Count the runs on the same data that the ledger knows."""
    known = [entry.facts for entry in ledger.find(run.home, ReleaseFacts)]
    return len({facts.run for facts in known if facts.is_about(source.digest, source.records_digest)})


def _seed(seed: SeedSection) -> str:
    if seed.public is not None:
        return "public, stated in the plan (demonstration on public data)"
    return "from a named secret" if seed.secret else "drawn from the operating system"


@cache
def code_digest() -> str:
    """Return the SHA-256 over the installed sources, which a version number may not identify."""
    whole = hashlib.sha256()
    for file in sorted(path for folder in source_folders() for path in folder.rglob("*.py")):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        name = next(file.relative_to(f.parent) for f in source_folders() if file.is_relative_to(f))
        whole.update(f"{name.as_posix()} {digest}\n".encode())
    return whole.hexdigest()


def released_levels(variables: Iterable[Variable]) -> dict[str, set[str]]:
    """Return the levels of each released variable, by its name."""
    return {v.name: {str(level) for level in v.levels or ()} for v in variables}
