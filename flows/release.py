"""One release: the tasks in their order, composed once, run through Prefect or directly."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from flows.plan import PlanFile
from tasks import ledger
from tasks.anonymize import mask
from tasks.assess import assess
from tasks.decide import decide
from tasks.dossier import gather
from tasks.faults import ExitCode, guarded
from tasks.home import Home, make_private, write_private
from tasks.ingest import ingest
from tasks.publish import (
    keep_candidate,
    load_candidate,
    prepare_data,
    prepare_documents,
    publish,
)
from tasks.split import split
from tasks.workspace import Run, wipe_abandoned

T = TypeVar("T")
Status = Literal["published", "unchanged", "rejected", "awaiting"]

STATUS: dict[str, Status] = {"publish": "published", "reject": "rejected", "await": "awaiting"}

EXIT_CODES: dict[Status, ExitCode] = {
    "published": ExitCode.PUBLISHED,
    "unchanged": ExitCode.PUBLISHED,
    "rejected": ExitCode.REJECTED,
    "awaiting": ExitCode.AWAITING,
}


UNCHANGED = (
    "the data and the plan are unchanged; repeated releases of one table can be averaged, so none is made"
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and where to look."""

    status: Status
    release: str
    reason: str
    folder: Path | None = None
    report: Path | None = None
    mlflow_run: str | None = None
    records: int | None = None
    gates: tuple[dict[str, Any], ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)


class Runner(Protocol):
    """Who carries out a step: directly, or as a Prefect task."""

    seconds: dict[str, float]

    def step(self, label: str, function: Callable[..., T], *args: Any, retry: bool = False) -> T:
        """Carry out one step under a name that a person understands."""

    def show(self, key: str, markdown: str, description: str) -> None:
        """Show a table of aggregates to whoever watches the run."""


class Direct:
    """Steps as plain calls, for development and tests."""

    def __init__(self, told: Callable[[str, float | None], None] = lambda label, seconds: None) -> None:
        self.told = told
        self.seconds: dict[str, float] = {}

    def step(self, label: str, function: Callable[..., T], *args: Any, retry: bool = False) -> T:
        """Call ``function``; tell when it starts and how long it took."""
        self.told(label, None)
        begun = time.perf_counter()
        result = self.call(label, guarded(function), *args, retry=retry)
        self.seconds[label] = time.perf_counter() - begun
        self.told(label, self.seconds[label])
        return result

    def call(self, label: str, function: Callable[..., T], *args: Any, retry: bool) -> T:
        """Carry out the step itself."""
        return function(*args)

    def show(self, key: str, markdown: str, description: str) -> None:
        """Nobody is watching."""


def carry_out(file: PlanFile, home: Home, runner: Runner, *, rebuild: bool = False) -> Outcome:
    """Take a plan's table through every step; publish it, refuse it, or keep it for a person.

    Parameters
    ----------
    file : PlanFile
    home : Home
    runner : Runner
    rebuild : bool
        Run even when the ledger holds a release of the same plan and data.

    Raises
    ------
    ReleaseError
        With a safe message; nothing is published then, and the workspace is wiped.
    """
    wipe_abandoned(home)
    run = Run.start(home, file.plan.seed)
    try:
        return replace(_carry_out(run, file, runner, rebuild), seconds=runner.seconds)
    finally:
        run.wipe()


def _carry_out(run: Run, file: PlanFile, runner: Runner, rebuild: bool) -> Outcome:
    from tasks.validate import validate_masked, validate_raw

    plan, step = file.plan, runner.step
    ingested = step("Read the source", ingest, run, plan.source, plan.variables, file.base, retry=True)
    standing = None if rebuild else _standing(run.home, plan.digest, ingested.digest)
    if standing is not None:
        return standing
    checked = step("Check the edits on the raw data", validate_raw, run, plan.edits)
    step("Set the reference apart", split, run, plan.reference, plan.variables, file.base, retry=True)
    step("Mask the records", mask, run, plan.steps, plan.edits.edit_set())
    step("Check the edits on the masked data", validate_masked, run, plan.edits)
    figures = step("Measure risk and utility", assess, run, plan.assessment, plan.policy.by_design)
    verdict = step("Decide by policy", decide, figures, plan.policy)
    release = step("Write the candidate", prepare_data, run, plan.name, plan.publication, plan.digest)
    dossier = gather(
        run,
        plan={
            "name": plan.name,
            "title": plan.publication.title,
            "description": plan.publication.description,
            "digest": plan.digest,
        },
        steps=plan.steps,
        seed=plan.seed,
        edit_policy=plan.edits.on_violation,
        set_aside=checked["set_aside"],
        verdict=verdict,
        release=release,
    )
    dossier = step("Write the report", _document, run, dossier, runner)
    mlflow_run = step("Log to MLflow", _track, run, dossier, file, retry=True)
    return step("Publish, keep or reject", _conclude, run, dossier, mlflow_run, retry=True)


def _standing(home: Home, plan_digest: str, data_digest: str) -> Outcome | None:
    """Return the release, or the candidate, that the same plan and data have led to already."""
    known = ledger.find(home, "published", "awaiting", "rejected", plan=plan_digest, data=data_digest)
    if not known or known[-1]["event"] == "rejected":
        return None
    last = known[-1]
    waits = last["event"] == "awaiting"
    return Outcome(
        status="awaiting" if waits else "unchanged",
        release=last["release"],
        reason="this candidate awaits a decision already" if waits else UNCHANGED,
        folder=None if waits else home.releases / last["name"] / last["release"],
        report=_assessment(home, last["release"]) / "report.html",
        mlflow_run=last.get("mlflow_run"),
    )


def _document(run: Run, dossier: dict[str, Any], runner: Runner) -> dict[str, Any]:
    """Draw the pictures, write the report and the candidate's documents, show the tables."""
    from anoncore.encoding import Encoder
    from tasks import pictures, report

    original, released = run.load("original"), run.load("released")
    encoder = Encoder.fit(original)
    drawn = {
        "curves": pictures.cumulative_curves(run.load_arrays("curves")),
        "marginals": pictures.marginals(original, released, k=dossier["figures"]["k"]),
        "correlations": pictures.correlations(
            encoder.encode(original),
            encoder.encode(released),
            encoder.column_names(),
            k=dossier["figures"]["k"],
        ),
    }
    folder = make_private(run.folder / "pictures")
    for name, content in drawn.items():
        write_private(folder / f"{name}.{'svg' if content.lstrip().startswith(b'<') else 'png'}", content)
    page = report.render(dossier, drawn)
    finished = prepare_documents(run, dossier, page)
    kept = make_private(_assessment(run.home, dossier["release"]["id"]))
    write_private(kept / "report.html", page.encode())
    write_private(kept / "dossier.json", json.dumps(finished, ensure_ascii=False, default=str).encode())
    runner.show("risk", report.risk_markdown(finished), "Disclosure risk beside its baseline")
    runner.show(
        "utility", report.utility_markdown(finished), "What the release keeps of the source's statistics"
    )
    runner.show("verdict", report.verdict_markdown(finished), "What the policy says, and why")
    return finished


def _track(run: Run, dossier: dict[str, Any], file: PlanFile) -> str:
    from tasks.track import track

    write_private(run.folder / "plan.yaml", file.text.encode())
    candidate = run.folder / "candidate"
    files = {
        "report.html": candidate / "report.html",
        "method.md": candidate / "method.md",
        "assessment.json": candidate / "assessment.json",
        "expectations.json": candidate / "expectations.json",
        "plan.yaml": run.folder / "plan.yaml",
    } | {f"pictures/{p.name}": p for p in sorted((run.folder / "pictures").iterdir())}
    return track(dossier, file.plan.tracking.experiment or file.plan.name, files)


def _conclude(run: Run, dossier: dict[str, Any], mlflow_run: str) -> Outcome:
    """Do what the verdict says, enter it in the ledger, and mirror it in MLflow."""
    from tasks.track import set_status

    decision = dossier["verdict"]["decision"]
    folder: Path | None = None
    status = STATUS[decision]
    if decision == "publish":
        folder = publish(run.home, run.folder / "candidate", dossier)
    elif decision == "await":
        keep_candidate(run, dossier)
    again = ledger.find(run.home, "published", release=dossier["release"]["id"])
    if status == "published" and again:
        status = "unchanged"
    ledger.append(run.home, status, **facts(dossier, mlflow_run))
    set_status(mlflow_run, status)
    return _outcome(run.home, status, dossier, mlflow_run, folder)


def approve(home: Home, release_id: str, *, by: str, reason: str) -> Outcome:
    """Publish a candidate that awaits a person.

    Raises
    ------
    Refused
        When no such candidate waits, or it is not the one that was assessed.
    """
    folder, dossier = load_candidate(home, release_id)
    mlflow_run = ledger.find(home, "awaiting", release=release_id)[-1]["mlflow_run"]
    ledger.append(home, "approved", **facts(dossier, mlflow_run), approver=by, approval_reason=reason)
    target = publish(home, folder, dossier)
    ledger.append(home, "published", **facts(dossier, mlflow_run), approver=by)
    return _settle(home, folder, dossier, mlflow_run, "published", by, reason, target)


def reject(home: Home, release_id: str, *, by: str, reason: str) -> Outcome:
    """Reject a candidate that awaits a person; it is removed.

    Raises
    ------
    Refused
        When no such candidate waits.
    """
    folder, dossier = load_candidate(home, release_id)
    mlflow_run = ledger.find(home, "awaiting", release=release_id)[-1]["mlflow_run"]
    ledger.append(home, "rejected", **facts(dossier, mlflow_run), approver=by, approval_reason=reason)
    return _settle(home, folder, dossier, mlflow_run, "rejected", by, reason, None)


def _settle(
    home: Home,
    folder: Path,
    dossier: dict[str, Any],
    mlflow_run: str,
    status: Status,
    by: str,
    reason: str,
    target: Path | None,
) -> Outcome:
    import shutil

    from tasks.track import set_status

    shutil.rmtree(folder)
    set_status(mlflow_run, status, approver=by, approval_reason=reason)
    return _outcome(home, status, dossier, mlflow_run, target)


def facts(dossier: dict[str, Any], mlflow_run: str) -> dict[str, Any]:
    """Return what the ledger keeps of a dossier."""
    return {
        "run": dossier["run"]["id"],
        "by": getpass.getuser(),
        "name": dossier["release"]["name"],
        "release": dossier["release"]["id"],
        "plan": dossier["plan"]["digest"],
        "data": dossier["source"]["digest"],
        "dossier": dossier["sha256"],
        "candidate": dossier["candidate"],
        "decision": dossier["verdict"]["decision"],
        "reason": dossier["verdict"]["reason"],
        "gates": {g["name"]: [g["verdict"], g["figure"]] for g in dossier["verdict"]["gates"]},
        "mlflow_run": mlflow_run,
        "version": dossier["run"]["versions"]["anonflow"],
    }


def _outcome(
    home: Home, status: Status, dossier: dict[str, Any], mlflow_run: str, folder: Path | None
) -> Outcome:
    reason = dossier["verdict"]["reason"]
    if status == "unchanged":
        reason += "; the release is identical to the one that stands, so nothing new is published"
    return Outcome(
        status=status,
        release=dossier["release"]["id"],
        reason=reason,
        folder=folder,
        report=(folder or _assessment(home, dossier["release"]["id"])) / "report.html",
        mlflow_run=mlflow_run,
        records=dossier["release"]["records"],
        gates=tuple(dossier["verdict"]["gates"]),
    )


def _assessment(home: Home, release_id: str) -> Path:
    return home.path / "assessments" / release_id
