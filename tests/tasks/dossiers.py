"""A small dossier, of which tests replace what they are about."""

from __future__ import annotations

from typing import Any

from expectations import ValidationReport
from tasks.policy.verdict import Verdict
from tasks.record.dossier import (
    Dossier,
    EditFacts,
    MethodFacts,
    MethodStep,
    PlanIdentity,
    ReleaseIdentity,
    RepairSummary,
    RunFacts,
    SourceSummary,
    SplitSummary,
)
from tests.tasks.policy.sample import assessment

REPORT = ValidationReport((), "5" * 64)
# One, since assessments are compared by identity.
RUN = RunFacts(
    id="20260101T000000Z-abcdef",
    created="2026-01-01T00:00:00+00:00",
    by="runner",
    requester="runner",
    code="c" * 64,
    versions={"anonflow": "0"},
    seed="drawn from the operating system",
)


def small_dossier(**parts: Any) -> Dossier:
    """Return a dossier with the parts given; the others are those of a release that passes."""
    known: dict[str, Any] = {
        "plan": PlanIdentity("office", "1" * 64),
        "run": RUN,
        "source": SourceSummary(2, 2, (), 1, dropped=(), digest="2" * 64, records_digest="3" * 64),
        "split": SplitSummary("holdout", 1, 1, 0, 1, 1, "no row number is on both sides", 0),
        "edits": EditFacts("refuse", 0, REPORT, REPORT, RepairSummary(0, 0, {}, 0.0)),
        "method": MethodFacts((MethodStep("mdav", {"k": 5}),)),
        "assessment": assessment(),
        "verdict": Verdict("publish", "every gate passed", ()),
        "release": ReleaseIdentity("office-0123456789ab", "office", 1),
    }
    return Dossier(**known | parts)
