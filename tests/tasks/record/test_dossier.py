"""The dossier: what is read back is what was stored, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anoncore.microdata import Variable
from expectations import RuleOutcome, ValidationReport
from tasks.common.errors import Refused
from tasks.common.home import Home, make_private, write_private
from tasks.policy.gate import GateResult
from tasks.policy.verdict import Verdict
from tasks.record.dossier import (
    ApprovalTerms,
    Dossier,
    EditFacts,
    History,
    MethodFacts,
    MethodStep,
    ReleasedFile,
    ReleaseIdentity,
    RepairSummary,
    find_dossier,
    read_dossier,
)
from tasks.record.entry import TargetFacts
from tests.tasks.dossiers import RUN, small_dossier

RULE = RuleOutcome("age", "age lies within its stated bounds", "bound", False, 80, 3, 2, None)
FULL = small_dossier(
    run=replace(RUN, rebuild=True),
    edits=EditFacts(
        policy="repair",
        set_aside=0,
        raw=ValidationReport((RULE,), "5" * 64),
        masked=ValidationReport((replace(RULE, success=True, violated=0),), "6" * 64),
        repaired=RepairSummary(3, 4, {"age": 3}, 0.02),
        unverifiable=("income",),
    ),
    method=MethodFacts((MethodStep("mdav", {"k": 5, "columns": ["a", "b"], "seeded": None}),), ("a note",)),
    verdict=Verdict(
        "await", "a person must decide", (GateResult("tail", "inconclusive", "2", "0", "1", 80, "close records"),)
    ),
    release=ReleaseIdentity(
        id="office-0123456789ab",
        name="office",
        records=80,
        variables=(
            Variable("age", "continuous", role="quasi-identifier", precision=0.5, description="in years"),
            Variable("sex", "binary", levels=("f", "m")),
        ),
        files=(ReleasedFile("data.csv", 12, "7" * 64, 80),),
        targets=(TargetFacts(folder="/srv/releases"),),
    ),
    approval=ApprovalTerms(2, ("Ann", "Bob"), False, 2),
    history=History(3, 1),
    unprotected="only a group is hidden",
    files={"data.csv": "7" * 64},
)


@pytest.mark.parametrize("dossier", [small_dossier(), FULL], ids=["small", "full"])
def test_a_dossier_comes_back_as_it_was_stored(dossier: Dossier) -> None:
    again = Dossier.from_json(dossier.to_json())
    assert replace(again, assessment=dossier.assessment) == dossier
    assert again.assessment.to_json() == dossier.assessment.to_json()
    assert again.digest == dossier.digest
    assert again.to_json() == dossier.to_json()


def test_every_part_counts_in_the_digest() -> None:
    changed_risk = replace(FULL.assessment.risk, k=3)
    small = small_dossier(assessment=replace(FULL.assessment, risk=changed_risk)).parts
    differing = [name for name, part in FULL.parts.items() if part != small[name]]
    digests = {replace(FULL, **{name: small[name]}).digest for name in differing}
    assert len(differing) == 10
    assert len(digests | {FULL.digest}) == 11


def test_a_number_has_one_digest_whether_it_is_whole_or_not() -> None:
    assert (
        replace(FULL, approval=ApprovalTerms(within_days=2)).digest
        == replace(FULL, approval=ApprovalTerms(within_days=2.0)).digest
    )


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    stored = json.loads(FULL.to_json())
    change(stored)
    return json.dumps(stored).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        changed(lambda d: d.update(format=2)),
        changed(lambda d: d.pop("format")),
        changed(lambda d: d.pop("sha256")),
        changed(lambda d: d.update(sha256="0" * 64)),
        changed(lambda d: d.update(extra=1)),
        changed(lambda d: d.pop("plan")),
        changed(lambda d: d["verdict"].update(decision="publish")),
        changed(lambda d: d["verdict"].update(decision="CANARY4711")),
        changed(lambda d: d["release"].update(records="80")),
        changed(lambda d: d["release"]["variables"][1].update(kind="CANARY4711")),
    ],
)
def test_what_is_no_whole_dossier_of_this_format_is_refused(content: bytes) -> None:
    with pytest.raises(Refused, match="the dossier was changed, or is of another format") as raised:
        Dossier.from_json(content)
    assert raised.value.__context__ is None
    assert "CANARY" not in str(raised.value)


def test_a_home_has_the_dossiers_of_its_assessments(tmp_path: Path) -> None:
    home = Home.locate(tmp_path / "home")
    write_private(make_private(home.assessment(FULL.release.id)) / "dossier.json", FULL.to_json())
    assert read_dossier(home, FULL.release.id).digest == FULL.digest
    assert find_dossier(home, "office-none") is None
    with pytest.raises(Refused, match="office-none is not in the home any more"):
        read_dossier(home, "office-none")
