"""Gather what is known about a candidate in one document, on which a person can decide."""

from __future__ import annotations

import getpass
import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks import ledger
from tasks.anonymize import told
from tasks.decide import PolicySection, Verdict
from tasks.workspace import Run, SeedSection

OURS = ("anoncore", "expectations", "tasks", "flows")
LIBRARIES = ("anonflow", "numpy", "scipy", "pandas", "prefect", "mlflow", "great-expectations")


def gather(
    run: Run,
    *,
    plan: dict[str, Any],
    steps: Sequence[Any],
    seed: SeedSection,
    edit_policy: str,
    set_aside: int,
    unprotected: str,
    published: int,
    verdict: Verdict,
    release: dict[str, Any],
    policy: PolicySection | None = None,
) -> dict[str, Any]:
    """Return the dossier of a candidate: counts, figures and names, never data.

    Parameters
    ----------
    run : Run
        Its workspace holds what the steps have found.
    plan : name, title, description and digest of the plan
    unprotected : why single records are not protected; empty where they are
    published : releases of the same data under other plans
    release : identity of the candidate, from `tasks.publish.prepare_data`
    policy : who must approve it, and until when
    """
    source = run.read_json("ingested")
    return {
        "plan": plan,
        "run": {
            "id": run.id,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "by": getpass.getuser(),
            "requester": os.environ.get("ANONFLOW_REQUESTER") or getpass.getuser(),
            "code": code_digest(),
            "versions": {name: version(name) for name in LIBRARIES},
            "seed": _seed(seed),
        },
        "source": source,
        "split": run.read_json("split"),
        "edits": {
            "policy": edit_policy,
            "set_aside": set_aside,
            "raw": run.read_json("validated-raw"),
            "masked": run.read_json("validated-masked"),
            "repaired": run.read_json("repaired"),
        },
        "method": {"steps": [told(step) for step in steps], "notes": run.read_json("masked")["notes"]},
        "individual_protection": f"none: {unprotected}" if unprotected else "required",
        "figures": run.read_json("figures"),
        "verdict": asdict(verdict),
        "approval": _approval(policy or PolicySection()),
        "release": release,
        "history": {
            "earlier_runs": len({e["run"] for e in ledger.find(run.home, data=source["digest"])}),
            "published": published,
        },
    }


@cache
def code_digest() -> str:
    """Return the SHA-256 over our own sources as they are installed, which a version number may not tell."""
    root = Path(__file__).resolve().parents[1]
    whole = hashlib.sha256()
    for file in sorted(path for room in OURS for path in (root / room).rglob("*.py")):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(root).as_posix()} {digest}\n".encode())
    return whole.hexdigest()


def _approval(policy: PolicySection) -> dict[str, Any]:
    return {
        "approvers": policy.approvers,
        "names": list(policy.approver_names),
        "requester_may_approve": policy.requester_may_approve,
        "within_days": policy.decide_within_days,
    }


def _seed(seed: SeedSection) -> str:
    if seed.public is not None:
        return "public, stated in the plan (demonstration on public data)"
    return "from a named secret" if seed.secret else "drawn from the operating system"
