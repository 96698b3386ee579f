"""Carry a decision out: publish, keep for a person, or reject; and enter it in the ledger.

The ledger is the truth and MLflow's tags mirror it. A publication is announced in the ledger before the
files are put in place, so that a crash in between is seen and settled by the next run.
"""

from __future__ import annotations

import getpass
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tasks import ledger
from tasks.faults import Refused, ReleaseError, visible
from tasks.home import Home
from tasks.publish import keep_candidate, load_candidate, publish, verify_release
from tasks.workspace import Run

Status = Literal["published", "unchanged", "rejected", "awaiting"]

LOCK = "decide.lock"
# A candidate waits until it is decided on, and again when its publication was cut short.
WAITS = ("awaiting", "approved", "abandoned")
CHAIN = ("number", "time", "event", "previous", "digest", "signature")
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


def standing(home: Home, plan_digest: str, data_digest: str) -> Outcome | None:
    """Return the release, or the candidate, that the same plan and data have led to already."""
    known = ledger.find(
        home, "published", "awaiting", "rejected", "abandoned", plan=plan_digest, data=data_digest
    )
    if not known or known[-1]["event"] in ("rejected", "abandoned"):
        return None
    last = known[-1]
    waits = last["event"] == "awaiting"
    folder = home.releases / last["name"] / last["release"]
    if not (waits or folder.is_dir()):
        return None
    return Outcome(
        status="awaiting" if waits else "unchanged",
        release=last["release"],
        reason="this candidate awaits a decision already" if waits else UNCHANGED,
        folder=None if waits else folder,
        report=home.assessment(last["release"]) / "report.html",
        mlflow_run=last.get("mlflow_run"),
    )


def published_before(home: Home, plan_digest: str, data_digest: str) -> int:
    """Count the releases of the same data that other plans have led to."""
    found = ledger.find(home, "published", data=data_digest)
    return len({e["release"] for e in found if e["plan"] != plan_digest})


def recover(home: Home) -> None:
    """Settle publications that a crash has cut short: whole ones are entered, others are given up."""
    with ledger.locked(home, LOCK):
        last = {entry["release"]: entry for entry in ledger.entries(home)}
        for entry in last.values():
            if entry["event"] != "publishing":
                continue
            folder = home.releases / entry["name"] / entry["release"]
            whole = folder.is_dir() and not verify_release(folder)
            kept = {k: v for k, v in entry.items() if k not in CHAIN}
            ledger.append(home, "published" if whole else "abandoned", **kept | {"recovered": True})


def conclude(run: Run, dossier: dict[str, Any], mlflow_run: str) -> Outcome:
    """Do what the verdict says and enter it in the ledger."""
    decision, release = dossier["verdict"]["decision"], dossier["release"]["id"]
    known = facts(dossier, mlflow_run)
    folder: Path | None = None
    with ledger.locked(run.home, LOCK):
        others = published_before(run.home, known["plan"], known["data"])
        if decision == "publish" and others > dossier["history"]["published"]:
            decision = "await"
        if decision == "publish":
            again = bool(ledger.find(run.home, "published", release=release))
            folder = _publish(run.home, run.folder / "candidate", dossier, known, again=again)
            status: Status = "unchanged" if again else "published"
        else:
            status = "awaiting" if decision == "await" else "rejected"
            if status == "awaiting":
                keep_candidate(run, dossier)
            ledger.append(run.home, status, **known)
    return _outcome(run.home, status, dossier, mlflow_run, folder)


def approve(home: Home, release_id: str, *, by: str, reason: str) -> Outcome:
    """Publish a candidate that awaits a person.

    Raises
    ------
    Refused
        When no such candidate waits, or it is not the one that was assessed.
    """
    with ledger.locked(home, LOCK):
        folder, dossier, known = _waiting(home, release_id)
        known |= {"approver": by, "approval_reason": reason}
        ledger.append(home, "approved", **known)
        target = _publish(home, folder, dossier, known)
        shutil.rmtree(folder)
    return _outcome(home, "published", dossier, known["mlflow_run"], target)


def reject(home: Home, release_id: str, *, by: str, reason: str) -> Outcome:
    """Reject a candidate that awaits a person; it is removed, even when it was changed meanwhile.

    Raises
    ------
    Refused
        When no such candidate waits.
    """
    with ledger.locked(home, LOCK):
        events = ledger.find(home, release=release_id)
        if not events or events[-1]["event"] not in WAITS:
            raise Refused(f"no candidate {visible(release_id)!r} awaits a decision; see anonflow list")
        known = {k: v for k, v in events[-1].items() if k not in CHAIN}
        ledger.append(home, "rejected", **known | {"approver": by, "approval_reason": reason})
        shutil.rmtree(home.candidates / events[-1]["release"], ignore_errors=True)
    return Outcome(
        status="rejected",
        release=known["release"],
        reason=f"rejected by {by}: {reason}",
        report=home.assessment(known["release"]) / "report.html",
        mlflow_run=known["mlflow_run"],
    )


def mirror(outcome: Outcome, **tags: str) -> bool:
    """Show an outcome in MLflow's tags; return False when MLflow does not take it, for the ledger has it."""
    from tasks.track import set_status

    if outcome.mlflow_run is None:
        return False
    try:
        set_status(outcome.mlflow_run, outcome.status, **tags)
    except ReleaseError:
        return False
    return True


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
        "individual_protection": dossier["individual_protection"],
        "gates": {g["name"]: [g["verdict"], g["figure"]] for g in dossier["verdict"]["gates"]},
        "mlflow_run": mlflow_run,
        "version": dossier["run"]["versions"]["anonflow"],
    }


def _waiting(home: Home, release_id: str) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Return a candidate whose last event says that it waits, or that its approval was cut short."""
    events = ledger.find(home, release=release_id)
    if events and events[-1]["event"] not in WAITS:
        last = events[-1]
        raise Refused(f"{release_id} awaits no decision any more: it is {last['event']} since {last['time']}")
    folder, dossier = load_candidate(home, release_id)
    return folder, dossier, facts(dossier, events[-1]["mlflow_run"])


def _publish(
    home: Home, folder: Path, dossier: dict[str, Any], known: dict[str, Any], *, again: bool = False
) -> Path:
    """Announce, publish, confirm; what stands already is confirmed as unchanged."""
    if not again:
        ledger.append(home, "publishing", **known)
    approval = {"by": known["approver"], "reason": known["approval_reason"]} if "approver" in known else None
    target = publish(home, folder, dossier, approval)
    ledger.append(home, "unchanged" if again else "published", **known)
    return target


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
        report=(folder or home.assessment(dossier["release"]["id"])) / "report.html",
        mlflow_run=mlflow_run,
        records=dossier["release"]["records"],
        gates=tuple(dossier["verdict"]["gates"]),
    )
