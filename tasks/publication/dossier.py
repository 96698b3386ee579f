"""Gather what is known about a candidate in one document, on which a person can decide."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from itertools import compress
from pathlib import Path
from typing import Any

from tasks.common.digests import plain
from tasks.common.home import account
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.connectors.fingerprint import same_table
from tasks.intake.ingest import Ingested
from tasks.intake.split import Split
from tasks.intake.validate import Checked, Validated
from tasks.masking.anonymize import Masked, told
from tasks.policy.verdict import PolicySection, Verdict
from tasks.record import ledger

OURS = ("anoncore", "expectations", "tasks", "flows")
LIBRARIES = ("anonflow", "numpy", "scipy", "pandas", "prefect", "mlflow", "great-expectations")


@dataclass(frozen=True)
class Results:
    """What the steps of a run returned."""

    ingested: Ingested
    checked: Checked
    split: Split
    masked: Masked
    validated: Validated
    figures: dict[str, Any]


def gather(
    run: Run,
    results: Results,
    *,
    plan: dict[str, Any],
    steps: Sequence[Any],
    seed: SeedSection,
    edit_policy: str,
    unprotected: str,
    published: int,
    verdict: Verdict,
    release: dict[str, Any],
    policy: PolicySection | None = None,
    rebuild: bool = False,
) -> dict[str, Any]:
    """Return the dossier of a candidate: counts, figures and names, never data.

    Parameters
    ----------
    run : Run
    results : what its steps returned
    plan : name, title, description and digest of the plan
    unprotected : why single records are not protected; empty where they are
    published : releases of the same data under other plans
    release : identity of the candidate, from `tasks.publication.publish.prepare_data`
    policy : who must approve it, and until when
    rebuild : whether it was asked to draw anew, though plan and data may be unchanged
    """
    source, masked = results.ingested.summary, results.masked
    return {
        "plan": plan,
        "run": {
            "id": run.id,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "by": account(),
            "requester": os.environ.get("ANONFLOW_REQUESTER") or account(),
            "code": code_digest(),
            "versions": {name: version(name) for name in LIBRARIES},
            "seed": _seed(seed),
        }
        | ({"rebuild": True} if rebuild else {}),
        "source": plain(asdict(source)),
        "split": asdict(results.split.summary),
        "edits": {
            "policy": edit_policy,
            "set_aside": results.checked.set_aside,
            "raw": results.checked.report.to_dict(),
            "masked": results.validated.report.to_dict() | {"silent": list(results.validated.silent)},
            "repaired": asdict(masked.repair) if masked.repair else None,
        },
        "method": {"steps": [told(step) for step in steps], "notes": list(masked.notes)},
        "individual_protection": f"none: {unprotected}" if unprotected else "required",
        "figures": without_levels_of_source(results.figures, release),
        "verdict": asdict(verdict),
        "approval": _approval(policy or PolicySection()),
        "release": release,
        "history": {
            "earlier_runs": len(
                {e["run"] for e in ledger.entries(run.home) if same_table(e, source.digest, source.bag)}
            ),
            "published": published,
        },
    }


def without_levels_of_source(figures: dict[str, Any], release: dict[str, Any]) -> dict[str, Any]:
    """Leave out levels that are not released: one that few people hold is a value of theirs."""
    released = {v["name"]: {str(level) for level in v["levels"] or ()} for v in release["variables"]}
    variables = []
    for row in figures["utility_variables"]:
        if row["levels"] is not None:
            keep = [level in released.get(row["name"], ()) for level in row["levels"]]
            sides = {name: _kept(row[name], keep) for name in ("original", "released", "reference")}
            row = row | sides | {"levels": list(compress(row["levels"], keep))}
        variables.append(row)
    regressions = []
    for one in figures["utility_regressions"]:
        kept = {row["term"] for row in one["released"]["coefficients"] if row["other"] is not None}
        sides = {name: _without_other_terms(one[name], kept) for name in ("released", "reference")}
        regressions.append(one | sides)
    return figures | {"utility_variables": variables, "utility_regressions": regressions}


def _kept(side: dict[str, Any] | None, keep: list[bool]) -> dict[str, Any] | None:
    if side is None or side["shares"] is None:
        return side
    return side | {"shares": list(compress(side["shares"], keep))}


def _without_other_terms(side: dict[str, Any] | None, kept: set[str]) -> dict[str, Any] | None:
    """Leave out the names of coefficients that the release does not have: a level stands in them."""
    if side is None:
        return None
    rows = [row if row["term"] in kept else row | {"term": ""} for row in side["coefficients"]]
    worst = side["worst"] if side["worst"] in kept else None
    return side | {"coefficients": rows, "worst": worst}


@cache
def code_digest() -> str:
    """Return the SHA-256 over our own sources as they are installed, which a version number may not tell."""
    root = Path(__file__).resolve().parents[2]
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
