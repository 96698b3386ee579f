"""A home with candidates and releases, made without the steps that come before a decision."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.common import keys
from tasks.common.digests import digest_of, sha256_of
from tasks.common.home import Home, make_private, write_private
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.decision import conclude, outcomes
from tasks.decision.approval import decide
from tasks.policy.verdict import Verdict
from tasks.publication.candidate import Candidate
from tasks.record import approvers
from tasks.record.decision import ACTS, Decision, sign
from tasks.record.dossier import ApprovalTerms, History, PlanIdentity, ReleaseIdentity, SourceSummary
from tasks.record.members import Members
from tasks.tracking import mlflow as track
from tests.tasks.dossiers import RUN, small_dossier


class Office:
    """A home, and what a run leaves for `conclude`: an assessed candidate with its dossier.

    With a secret that other homes share, its releases hold digests for them.
    """

    def __init__(self, base: Path, secret: str = "") -> None:
        self.base, self.secret = base, secret
        self.home = Home.locate(base / "home")

    def assessed(self, decision: str = "await", content: str = "a", **more: Any) -> tuple[Run, Candidate]:
        """Return a run with a candidate; the same content has the same release."""
        run = Run.start(self.home, SeedSection())
        self.home.digest_secret()
        folder = make_private(run.workspace.folder / "candidate")
        book = json.dumps({"records": more.get("released", 50 if more.get("data", "2").startswith("8") else 10)})
        files = {"data.csv": f"x\n{content}\n", "codebook.json": book, "report.html": "<p>"}
        for name, text in files.items():
            write_private(folder / name, text.encode())
        name, data = more.get("name", "office"), more.get("data", "2" * 64)
        release = f"{name}-{digest_of(content)[:12]}"
        terms = {f.name: more[f.name] for f in fields(ApprovalTerms) if f.name in more}
        dossier = small_dossier(
            plan=PlanIdentity(name, more.get("plan", "1" * 64)),
            run=replace(RUN, id=run.id, rebuild=more.get("rebuild", False)),
            source=SourceSummary(2, 2, (), 1, (), data, records_digest=more.get("records", f"of {data}")),
            verdict=Verdict(decision, "every gate passed", ()),
            approval=ApprovalTerms(**terms | {"names": tuple(more.get("names", ()))}),
            release=ReleaseIdentity(release, name, 1),
            history=History(published=more.get("published", 0)),
            files={p.name: sha256_of(p) for p in sorted(folder.iterdir())},
        )
        kept = make_private(self.home.assessment(release))
        write_private(kept / "dossier.json", dossier.to_json())
        write_private(kept / "report.html", files["report.html"].encode())
        if more.get("custodian"):
            write_private(kept / "custodian-step1.html", more["custodian"].encode())
        return run, Candidate(folder, dossier)

    def units(self, candidate: Candidate) -> Members:
        """Return ten people, or fifty of data whose digest begins with 8, the same for the same data."""
        first = int(candidate.dossier.source.digest[0], 16)
        people = np.arange(50 if first == 8 else 10, dtype=np.uint64) + np.uint64(100 * first)
        members = Members.of(self.home, people, people, ["x"], named=10)
        return members.shared_by(self.secret, [people]) if self.secret else members

    def waiting(self, content: str = "a", **more: Any) -> tuple[str, str]:
        """Leave a candidate that waits; return its id and its dossier's digest."""
        run, candidate = self.assessed("await", content, **more)
        outcome = conclude.conclude(run, candidate, "0", self.units(candidate))
        run.workspace.wipe()
        assert outcome.status == "awaiting"
        return outcome.release, candidate.dossier.digest

    def published(self, content: str = "a", **more: Any) -> outcomes.Outcome:
        """Publish a candidate that needs nobody."""
        run, candidate = self.assessed("publish", content, **more)
        outcome = conclude.conclude(run, candidate, "0", self.units(candidate))
        run.workspace.wipe()
        return outcome

    def person(self, name: str, *accounts: str) -> Path:
        """Put somebody on the list; return their private key."""
        path = self.base / f"{name}.pem"
        write_private(path, keys.new_private())
        approvers.add(self.home, name, keys.read_private(path, name).public_key(), accounts)
        return path

    def settle(self, action: str, release: str, dossier: str, name: str, reason: str = "read") -> outcomes.Outcome:
        """Decide as a person on the list does, with their key."""
        decision = Decision(act=ACTS[action], release=release, dossier=dossier, by=name, reason=reason)
        return decide(self.home, replace(decision, signature=sign(self.base / f"{name}.pem", decision)))


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """A home whose decisions are mirrored nowhere: tests/flows has them with a real MLflow."""
    monkeypatch.setattr(track, "fingerprint", lambda run: {})
    monkeypatch.setattr(track, "set_status", lambda run, status, **tags: None)
    monkeypatch.setattr(track, "mirror_version", lambda plan, run, release, status: None)
    return Office(tmp_path)
