"""Decisions carried out: who may take them, on what, until when; and taking a release back."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks.audit import verification as audit
from tasks.common import keys
from tasks.common.errors import Fault, InputOutputFault, Refused
from tasks.common.home import account, make_private, write_private
from tasks.decision import conclude, outcomes
from tasks.decision.approval import decide
from tasks.decision.cleanup import leftovers
from tasks.policy.assessment import Series
from tasks.policy.gate import GateResult
from tasks.policy.gates.unit_changes import NAME as CHANGE
from tasks.publication import deliver, withdraw
from tasks.publication.manifest import verify_release
from tasks.publication.targets import Target
from tasks.record import approvers, exchange, ledger, secret_keys
from tasks.record.approval_rule import APPROVAL
from tasks.record.decision import Decision, sign
from tasks.record.dossier import read_dossier
from tasks.record.entry import ReleaseFacts, SignedDecision
from tasks.record.signing import public_key
from tasks.tracking import mlflow as track
from tests.tasks.facts import enter


def events(office: Any) -> list[str]:
    return [e.event for e in ledger.entries(office.home)]


def approve(office: Any, release: str, by: str, **more: Any) -> outcomes.Outcome:
    return decide(office.home, Decision(act="approve", release=release, by=by, reason="read", **more))


def last(office: Any, *events: Any) -> outcomes.Entry:
    """The last entry about a release."""
    return ledger.find(office.home, ReleaseFacts, *events)[-1]


def in_order(office: Any) -> None:
    """Nothing is left that an auditor would ask about."""
    assert audit.verify(office.home, mlflow=False) == []


# What is entered


def test_an_entry_says_who_when_what_and_with_which_code(office: Any) -> None:
    release, dossier = office.waiting(approvers=2, names=["Ann", "Bob"], within_days=2)
    facts = last(office).facts
    assert (facts.code, facts.version, facts.requester, facts.by) == ("c" * 64, "0", "runner", account())
    assert (facts.release, facts.dossier, facts.verdict, facts.reason) == (
        release,
        dossier,
        "await",
        "every gate passed",
    )
    assert set(facts.candidate) == {"data.csv", "codebook.json", "report.html"}
    assert (facts.terms.approvers, facts.terms.names) == (2, ("Ann", "Bob"))
    waiting = outcomes.waiting_candidate(office.home, release)
    assert (waiting.facts, waiting.approvals, outcomes.has_expired(waiting)) == (facts, (), False)


def test_a_run_by_somebody_who_may_not_publish_alone_awaits_a_decision(
    office: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(APPROVAL, "person")
    outcome = office.published()
    assert (outcome.status, outcome.reason) == ("awaiting", conclude.OTHERS)
    assert approve(office, outcome.release, "Ann").status == "published"
    assert office.published().status == "unchanged"
    in_order(office)


def test_a_publication_is_entered_with_the_digests_of_its_files(office: Any) -> None:
    outcome = office.published()
    entry = last(office)
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert entry.facts.files == manifest["files"]
    announced = last(office, "publishing")
    assert manifest["ledger"] == {"entry": announced.number, "digest": announced.digest}
    assert outcomes.record_of(office.home, outcome.entry) == {
        "entry": f"{entry.number} {entry.digest}",
        "home": ledger.identity(office.home),
    }


# One person at a desk


def test_at_a_desk_a_typed_name_decides_and_is_entered_as_unverified(office: Any) -> None:
    release, dossier = office.waiting()
    outcome = approve(office, release, "A. Smith", dossier=dossier.upper())
    assert outcome.status == "published"
    assert last(office, "approved").facts.decided == SignedDecision(approver="A. Smith", reason="read")
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert manifest["approved"] == {"by": "A. Smith", "reason": "read"}
    in_order(office)


def test_two_must_be_two_names_at_a_desk_too(office: Any) -> None:
    release, _ = office.waiting(approvers=2)
    assert approve(office, release, "A. Smith").status == "awaiting"
    with pytest.raises(Refused, match=r"a\.  smith has approved this already; 2 different people"):
        approve(office, release, "a.  smith")
    assert approve(office, release, "B. Jones").status == "published"


@pytest.mark.parametrize(("by", "reason"), [("", "x"), ("x", " ")])
def test_a_decision_without_name_or_reason_is_refused(office: Any, by: str, reason: str) -> None:
    release, _ = office.waiting()
    with pytest.raises(Refused, match="state who decides and why"):
        decide(office.home, Decision(act="approve", release=release, by=by, reason=reason))


def test_nobody_decides_under_the_name_of_no_person(office: Any) -> None:
    release, _ = office.waiting()
    with pytest.raises(Refused, match="stands for decisions without a person"):
        approve(office, release, "The  Policy alone")
    assert events(office) == ["awaiting"]


# People with keys


def test_with_a_list_every_decision_needs_a_listed_name_and_its_signature(office: Any) -> None:
    office.person("Ann")
    release, dossier = office.waiting()
    with pytest.raises(Refused, match="approve needs Ann's signature"):
        approve(office, release, "Ann")
    with pytest.raises(Refused, match="Eve is not on the list"):
        approve(office, release, "Eve")
    with pytest.raises(Refused, match="reject needs Ann's signature"):
        decide(office.home, Decision(act="reject", release=release, by="Ann", reason="no"))
    rejection = Decision(act="reject", release=release, dossier=dossier, by="Ann", reason="read")
    other = sign(office.base / "Ann.pem", rejection)
    with pytest.raises(Refused, match="this is not Ann's signature under this decision"):
        approve(office, release, "Ann", signature=other)
    assert events(office) == ["approver-added", "awaiting"]
    assert office.settle("approve", release, dossier, "Ann").status == "published"
    with pytest.raises(Refused, match="withdraw needs Ann's signature"):
        decide(office.home, Decision(act="withdraw", release=release, by="Ann", reason="no"))
    assert office.settle("withdraw", release, dossier, "Ann").status == "withdrawn"
    in_order(office)


def test_a_candidate_of_before_the_list_needs_a_signature_after_it(office: Any) -> None:
    release, dossier = office.waiting()
    office.person("Ann")
    with pytest.raises(Refused, match="approve needs Ann's signature"):
        approve(office, release, "Ann")
    assert office.settle("reject", release, dossier, "Ann").status == "rejected"


def test_emptying_the_list_does_not_open_what_waits(office: Any) -> None:
    office.person("Ann")
    release, _ = office.waiting()
    approvers.remove(office.home, "Ann")
    with pytest.raises(Refused, match="the list is empty; add them again"):
        approve(office, release, "Ann")


def test_wrong_dossier(office: Any) -> None:
    office.person("Ann")
    release, _ = office.waiting()
    with pytest.raises(Refused, match="is not the one that was assessed"):
        office.settle("approve", release, "e" * 64, "Ann")
    with pytest.raises(Refused, match="is not the one that was assessed"):
        office.settle("reject", release, "e" * 64, "Ann")
    assert (office.home.candidates / release).is_dir()


def test_a_candidate_changed_after_an_approval_is_not_published(office: Any) -> None:
    for name in ("Ann", "Bob"):
        office.person(name)
    release, dossier = office.waiting(approvers=2)
    assert office.settle("approve", release, dossier, "Ann").status == "awaiting"
    (office.home.candidates / release / "data.csv").write_text("x\nother\n")
    with pytest.raises(Refused, match=r"data\.csv of office-.* differ"):
        office.settle("approve", release, dossier, "Bob")
    assert not office.home.releases.exists()
    assert [f.kind for f in audit.verify(office.home, mlflow=False)] == ["candidate changed"]
    assert office.settle("reject", release, dossier, "Bob").status == "rejected"


# Separation of duties


def test_two_approvers_are_two_people(office: Any) -> None:
    for name in ("Ann", "Bob"):
        office.person(name)
    release, dossier = office.waiting(approvers=2)
    first = office.settle("approve", release, dossier, "Ann")
    assert (first.status, first.reason) == ("awaiting", "1 of 2 approvals; another person must approve")
    assert not office.home.releases.exists()
    with pytest.raises(Refused, match="Ann has approved this already; 2 different people must approve"):
        office.settle("approve", release, dossier, "Ann")
    second = office.settle("approve", release, dossier, "Bob")
    assert second.status == "published"
    assert events(office)[2:] == ["awaiting", "approved", "approved", "publishing", "published"]
    assert [a.approver for a in last(office).facts.approvals] == ["Ann", "Bob"]
    assert json.loads((second.folder / "manifest.json").read_text())["approved"]["by"] == "Ann; Bob"
    in_order(office)


def test_a_rejection_ends_it_though_one_has_approved(office: Any) -> None:
    for name in ("Ann", "Bob"):
        office.person(name)
    release, dossier = office.waiting(approvers=2)
    office.settle("approve", release, dossier, "Ann")
    assert office.settle("reject", release, dossier, "Bob", "too risky").reason == "rejected by Bob: too risky"
    with pytest.raises(Refused, match="awaits no decision any more: it is rejected"):
        office.settle("approve", release, dossier, "Bob")
    assert not (office.home.candidates / release).exists()
    in_order(office)


def test_an_approval_counts_while_its_giver_is_on_the_list(office: Any) -> None:
    for name in ("Ann", "Bob", "Carl"):
        office.person(name)
    release, dossier = office.waiting(approvers=2)
    office.settle("approve", release, dossier, "Ann")
    approvers.remove(office.home, "Ann")
    assert office.settle("approve", release, dossier, "Bob").status == "awaiting"
    assert office.settle("approve", release, dossier, "Carl").status == "published"
    in_order(office)


def test_only_those_whom_the_plan_names(office: Any) -> None:
    for name in ("Ann", "Bob"):
        office.person(name)
    release, dossier = office.waiting(names=["ann"])
    with pytest.raises(Refused, match="Bob may not approve this: the plan names ann"):
        office.settle("approve", release, dossier, "Bob")
    assert office.settle("approve", release, dossier, "Ann").status == "published"


def test_the_requester_may_not_approve(office: Any) -> None:
    office.person("Ann", "runner")
    office.person("Bob")
    release, dossier = office.waiting(requester_may_approve=False)
    with pytest.raises(Refused, match=r"Ann asked for this release \(as runner\).*another approver must"):
        office.settle("approve", release, dossier, "Ann")
    assert office.settle("approve", release, dossier, "Bob").status == "published"
    in_order(office)


def test_a_requester_whom_nobody_knows_must_be_named_first(office: Any) -> None:
    office.person("Ann")
    office.person("Bob")
    release, dossier = office.waiting(requester_may_approve=False)
    with pytest.raises(Refused, match="say who does: anonflow people account NAME runner"):
        office.settle("approve", release, dossier, "Ann")
    known = approvers.find(office.home, "Bob")
    approvers.add(office.home, "Bob", keys.public_of(known.public_key), ("runner",))
    assert office.settle("approve", release, dossier, "Ann").status == "published"


def test_the_terms_are_those_that_were_signed(office: Any) -> None:
    """A dossier with softer terms has another digest; the ledger's entry is what counts."""
    release, _ = office.waiting(approvers=2)
    file = office.home.candidates / release / "dossier.json"
    file.write_text(file.read_text().replace('"approvers": 2', '"approvers": 1'))
    with pytest.raises(Refused, match=r"dossier of office-.* was changed after it was assessed"):
        approve(office, release, "A. Smith")


def test_an_account_is_the_systems_whatever_the_environment_says(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = pwd.getpwuid(os.getuid()).pw_name
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "bjones")
    office.person("Ann")
    release, dossier = office.waiting()
    office.settle("approve", release, dossier, "Ann")
    assert {e.facts.by for e in ledger.entries(office.home)} == {mine}
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert account() == "4000000000"


def test_whoever_ran_a_plan_for_another_may_not_approve_it(office: Any) -> None:
    office.person("Ann", "runner")
    office.person("Bob", account())
    office.person("Carl")
    release, dossier = office.waiting(requester_may_approve=False)
    with pytest.raises(Refused, match=r"Bob ran the plan .*another approver must"):
        office.settle("approve", release, dossier, "Bob")
    assert office.settle("approve", release, dossier, "Carl").status == "published"
    in_order(office)


def test_what_waits_for_people_is_not_published_by_policy_meanwhile(office: Any) -> None:
    release, _ = office.waiting()
    again = office.published(data="2" * 64)
    assert (again.status, again.release) == ("awaiting", release)
    assert again.reason.startswith("people were asked about the same release before")
    assert approve(office, release, "A. Smith").status == "published"
    in_order(office)


# What is read


@pytest.mark.parametrize("page", ["report.html", "dossier.json", "custodian-step1.html"])
@pytest.mark.parametrize("gone", [False, True])
def test_nothing_is_approved_on_pages_that_were_changed(office: Any, page: str, gone: bool) -> None:
    release, _ = office.waiting(custodian="<p>counts before")
    path = office.home.assessment(release) / page
    before = path.read_bytes()
    path.unlink() if gone else path.write_bytes(before.replace(b"p", b"q"))
    with pytest.raises(Refused, match=f"{page} (was changed since|is gone).*read it anew, or reject it"):
        approve(office, release, "A. Smith")
    path.write_bytes(before)
    assert approve(office, release, "A. Smith").status == "published"
    in_order(office)


# Time


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    now = outcomes.now() + timedelta(days=days)
    monkeypatch.setattr(outcomes, "now", lambda: now)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_that_comes_too_late_is_refused(office: Any, monkeypatch: pytest.MonkeyPatch, decision: str) -> None:
    release, _ = office.waiting(within_days=2)
    later(monkeypatch, 2.01)
    with pytest.raises(Refused, match=r"waited until .*too few decided in time.*Run the plan again"):
        decide(office.home, Decision(act=decision, release=release, by="A. Smith", reason="read"))
    assert events(office) == ["awaiting", "expired"]
    assert not (office.home.candidates / release).exists()
    with pytest.raises(Refused, match="awaits no decision any more: it is expired"):
        approve(office, release, "A. Smith")
    assert outcomes.standing(office.home, "1" * 64, "2" * 64, "r") is None
    in_order(office)


def test_a_decision_in_time_is_taken(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    release, _ = office.waiting(within_days=2)
    later(monkeypatch, 1.99)
    assert approve(office, release, "A. Smith").status == "published"


def test_one_of_two_approvals_does_not_stop_the_clock(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    release, _ = office.waiting(within_days=2, approvers=2)
    approve(office, release, "A. Smith")
    later(monkeypatch, 3)
    conclude.recover(office.home)
    assert events(office) == ["awaiting", "approved", "expired"]
    assert outcomes.standing(office.home, "1" * 64, "2" * 64, "r") is None


# What a crash cuts short


def crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_approval_cut_short_is_carried_out_by_the_next_run(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    office.person("Ann")
    release, dossier = office.waiting(within_days=2)
    with monkeypatch.context() as patch:
        patch.setattr(conclude, "_publish", crash)
        with pytest.raises(KeyboardInterrupt):
            office.settle("approve", release, dossier, "Ann")
    assert events(office)[-1] == "approved"
    later(monkeypatch, 3)
    shown: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(track, "set_status", lambda run, status, **tags: shown.append((status, tags)))
    conclude.recover(office.home)
    assert events(office)[-3:] == ["approved", "publishing", "published"]
    in_order(office)
    (status, tags), *more = shown
    assert (status, tags["decided_by"], tags["decision_reason"], more) == ("published", "Ann", "read", [])
    assert tags["status_since"] == last(office).time
    assert audit.mirror(office.home) == 1
    assert shown[1:] == [(status, tags)]


@pytest.mark.parametrize(
    ("event", "status"),
    [("unchanged", "published"), ("approved", "awaiting"), ("expired", "expired"), ("publishing", None)],
)
def test_what_mlflow_is_told_of_an_entry(
    office: Any, monkeypatch: pytest.MonkeyPatch, event: Any, status: str | None
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(track, "set_status", lambda run, status, **tags: shown.append(status))
    entry = enter(office.home, event)
    assert outcomes.mirror_entry(office.home, entry) is (status is not None)
    assert shown == ([status] if status else [])
    monkeypatch.setattr(track, "set_status", crash_of_mlflow)
    assert not outcomes.mirror_entry(office.home, entry)


def crash_of_mlflow(*_: object, **__: object) -> None:
    raise InputOutputFault("not reached")


def test_an_approval_cut_short_can_be_given_again(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    release, _ = office.waiting(approvers=2)
    approve(office, release, "A. Smith")
    with monkeypatch.context() as patch:
        patch.setattr(conclude, "publish", crash)
        with pytest.raises(KeyboardInterrupt):
            approve(office, release, "B. Jones")
    assert events(office)[-1] == "publishing"
    with monkeypatch.context() as patch:
        patch.setattr(conclude, "load_candidate", lambda *_: (_ for _ in ()).throw(Refused("gone")))
        conclude.recover(office.home)
    assert events(office)[-1] == "abandoned"
    assert approve(office, release, "B. Jones").status == "published"
    in_order(office)


# Withdrawal


def test_a_withdrawn_release_is_kept_apart_and_a_signed_notice_takes_its_place(office: Any) -> None:
    outcome = office.published()
    before = {p.name: p.read_bytes() for p in outcome.folder.iterdir()}
    done = decide(
        office.home, Decision(act="withdraw", release=outcome.release, by="A. Smith", reason="a wrong column")
    )
    assert done.status == "withdrawn"
    assert "Copies that others have taken cannot be called back" in done.reason
    assert done.folder == office.home.withdrawn / "office" / outcome.release
    assert {p.name: p.read_bytes() for p in done.folder.iterdir()} == before
    assert verify_release(done.folder) == []
    assert stat.S_IMODE(done.folder.stat().st_mode) == 0o500
    assert {stat.S_IMODE(p.stat().st_mode) for p in done.folder.iterdir()} == {0o400}
    notice = json.loads((outcome.folder / "WITHDRAWN.json").read_text())
    entry = last(office, "withdrawing")
    assert notice["reason"] == "a wrong column"
    assert notice["withdrawn"] == entry.time
    assert notice["ledger"]["entry"] == entry.number
    assert withdraw.notice_problems(outcome.folder, entry, ledger.public_keys(office.home)) == []
    assert events(office)[-2:] == ["withdrawing", "withdrawn"]
    assert office.home.files_of("office", outcome.release) == done.folder
    in_order(office)


def test_a_notice_does_not_stand_beside_what_a_crash_left_of_an_earlier_one(office: Any) -> None:
    outcome = office.published()
    staged = make_private(outcome.folder.with_name(f".{outcome.release}.withdrawn"))
    write_private(staged / ".WITHDRAWN.json.0badcafe", b"half")
    decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y"))
    assert sorted(p.name for p in outcome.folder.iterdir()) == [
        withdraw.NOTICE,
        withdraw.NOTICE_SIGNATURE,
        withdraw.PUBLIC_KEY,
    ]


def test_what_is_not_published_cannot_be_withdrawn(office: Any) -> None:
    release, _ = office.waiting("b")
    for unknown in (release, "../x", "nothing", ""):
        with pytest.raises(Refused, match="is published; see anonflow list"):
            decide(office.home, Decision(act="withdraw", release=unknown, by="x", reason="y"))
    outcome = office.published()
    with pytest.raises(Refused, match="is not the one of"):
        decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y", dossier="e" * 64))
    decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y"))
    with pytest.raises(Refused, match="is withdrawn already"):
        decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y"))


def test_the_same_records_in_another_file_are_the_same_data(office: Any) -> None:
    plan, file, other = "1" * 64, "2" * 64, "3" * 64
    office.published(records="r")
    assert last(office, "published").facts.records == "r"
    assert outcomes.standing(office.home, plan, other, "r").status == "unchanged"
    assert outcomes.standing(office.home, plan, other, "s") is None
    assert outcomes.standing(office.home, plan, file, "s") is not None
    assert outcomes.published_before(office.home, "4" * 64, other, "r") == 1
    assert outcomes.published_before(office.home, "4" * 64, other, "s") == 0
    again, candidate = office.assessed("publish", "b", plan="4" * 64, data=other, records="r")
    assert conclude.conclude(again, candidate, "0").status == "awaiting"


def test_what_was_not_measured_with_a_release_published_since_is_not_approved(office: Any) -> None:
    first, second = (office.waiting(content, plan=content * 64, name=f"plan-{content}")[0] for content in "ab")
    alike, _ = office.waiting("c", plan="c" * 64, data="9" * 64, name="alike")
    other, _ = office.waiting("d", plan="d" * 64, data="8" * 64, name="elsewhere")
    assert approve(office, first, "A. Smith").status == "published"
    with pytest.raises(Refused, match=f"{second} was made before {first} was published, and was not measured together"):
        approve(office, second, "A. Smith")
    assert last(office).event == "expired"
    assert not (office.home.candidates / second).exists()
    assert outcomes.standing(office.home, "b" * 64, "2" * 64, "of " + "2" * 64) is None, "the plan can be run again"
    # As many people under other identifiers may be the same: a new run compares their figures.
    with pytest.raises(Refused, match=f"{alike} was made before {first} was published, and was not measured together"):
        approve(office, alike, "A. Smith")
    assert approve(office, other, "A. Smith").status == "published", "of many more people, other data and another plan"
    in_order(office)


@pytest.mark.parametrize(
    ("released", "keeps", "is_refused"), [(100, True, True), (900, True, False), (100, False, False)]
)
def test_a_run_is_not_published_beside_as_large_a_release_of_meanwhile(
    office: Any, released: int, keeps: bool, is_refused: bool
) -> None:
    """Other identifiers hide that the people are the same; the plans may count other units, with as many records."""
    run, candidate = office.assessed("publish", "b", plan="b" * 64, data="8" * 64, name="other", released=released)
    series = Series(0, 0, 5, identified=True, as_of=ledger.last_number(office.home), keeps_figures=keeps)
    dossier = replace(candidate.dossier, assessment=replace(candidate.dossier.assessment, series=series))
    candidate = replace(candidate, dossier=dossier)
    assert office.published("a", released=103).status == "published"
    if is_refused:
        with pytest.raises(Refused, match=r"was published while this run was under way.*run the plan again"):
            conclude.conclude(run, candidate, "0", office.units(candidate))
        series = replace(series, as_of=ledger.last_number(office.home))
        candidate = replace(candidate, dossier=replace(dossier, assessment=replace(dossier.assessment, series=series)))
    assert conclude.conclude(run, candidate, "0", office.units(candidate)).status == "published"


def test_a_waiting_candidate_is_run_again_where_a_release_of_other_units_holds_as_many_records(office: Any) -> None:
    release, _ = office.waiting("b", plan="b" * 64, data="8" * 64, name="other", released=100)
    other = office.published("a", released=101).release
    with pytest.raises(Refused, match=f"{release} was made before {other} was published"):
        approve(office, release, "A. Smith")


def test_a_candidate_made_before_another_home_s_digests_came_is_not_approved(office: Any, tmp_path: Path) -> None:
    secret = "s3cret" * 6
    office.secret = secret
    north = type(office)(tmp_path / "north", secret)
    north.published()
    for home in (office.home, north.home):
        make_private(home.path / "secrets")
        write_private(home.path / "secrets" / "population", secret.encode())
    write_private(tmp_path / "public.pem", public_key(north.home).encode())
    release, _ = office.waiting()
    exchange.export_digests(north.home, "population", tmp_path / "north.json")
    exchange.import_digests(office.home, "north", tmp_path / "north.json", tmp_path / "public.pem", "population")
    with pytest.raises(Refused, match="was made before a release of north was published, and was not measured"):
        approve(office, release, "A. Smith")
    assert not (office.home.candidates / release).exists()
    later, _ = office.waiting("b", plan="b" * 64)
    assert approve(office, later, "A. Smith").status == "published", "it was made after they came"
    in_order(office)


@pytest.mark.parametrize("then", [conclude.recover, None])
def test_of_two_candidates_that_a_crash_left_the_newer_one_waits(
    office: Any, monkeypatch: pytest.MonkeyPatch, then: Callable[..., None] | None
) -> None:
    first, _ = office.waiting("a", plan="a" * 64)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(conclude, "_supersede", crash)
        with pytest.raises(KeyboardInterrupt):
            office.waiting("b", plan="b" * 64)
    second = last(office).facts.release
    if then is not None:
        then(office.home)
        assert events(office) == ["awaiting", "awaiting", "superseded"]
    with pytest.raises(Refused, match="awaits no decision any more: it is superseded"):
        approve(office, first, "A. Smith")
    assert approve(office, second, "A. Smith").status == "published"


def test_a_newer_candidate_or_release_of_a_plan_supersedes_the_one_that_waits(office: Any) -> None:
    first, second = (office.waiting(content, plan=content * 64)[0] for content in "ab")
    other, _ = office.waiting("c", name="elsewhere")
    assert events(office) == ["awaiting", "awaiting", "superseded", "awaiting"]
    assert (last(office, "superseded").facts.release, last(office, "superseded").facts.superseded_by) == (first, second)
    with pytest.raises(Refused, match="awaits no decision any more: it is superseded"):
        approve(office, first, "A. Smith")
    third = office.published("d", plan="d" * 64, data="8" * 64).release
    assert last(office).facts.superseded_by == third
    assert [p.name for p in office.home.candidates.iterdir()] == [other]
    in_order(office)


def test_files_placed_by_a_publication_that_was_cut_short_overtake_too(
    office: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (office.waiting(content, name=f"plan-{content}")[0] for content in "ab")
    with monkeypatch.context() as patch:
        patch.setattr(conclude, "_with_files", crash)
        with pytest.raises(KeyboardInterrupt):
            approve(office, first, "A. Smith")
    assert events(office)[-1] == "publishing"
    with pytest.raises(Refused, match=f"{second} was made before {first} was published"):
        approve(office, second, "A. Smith")
    assert events(office)[-2:] == ["published", "expired"]


def test_an_undecided_gate_on_risk_is_entered_but_not_that_of_few_changes(office: Any) -> None:
    release, _ = office.waiting()
    dossier = read_dossier(office.home, release)
    some = GateResult(name="distance", verdict="inconclusive", figure="", limit="", baseline="", records=1, meaning="")
    found = {}
    for gate in (some, replace(some, name=CHANGE), replace(some, topic="Utility"), replace(some, verdict="pass")):
        judged = replace(dossier, verdict=replace(dossier.verdict, gates=(gate,)))
        found[gate.name, gate.topic, gate.verdict] = conclude.release_facts(office.home, judged, "0").open_risk
    assert [key for key, open_ in found.items() if open_] == [("distance", "Risk", "inconclusive")]


def test_digests_of_units_stay_with_what_waits_or_is_published(office: Any) -> None:
    release, _ = office.waiting()
    other = office.published("b", data="8" * 64, name="other").release
    make_private(office.home.members)
    for name in (release, other, "office-000000000000"):
        write_private(office.home.members_of(name), b"")
    assert leftovers(office.home) == [office.home.members_of("office-000000000000")]
    conclude.expire(office.home, outcomes.waiting_candidate(office.home, release))
    assert not office.home.members_of(release).exists()
    rejected, _ = office.waiting("c")
    decide(office.home, Decision(act="reject", release=rejected, by="A. Smith", reason="no"))
    assert office.home.members_of(rejected).exists(), "the attempt counts"
    assert office.home.members_of(other).exists()


def test_the_ledger_tells_that_a_release_was_drawn_anew(office: Any) -> None:
    run, candidate = office.assessed("publish", rebuild=True)
    conclude.conclude(run, candidate, "0")
    office.published("b", plan="4" * 64, data="5" * 64)
    assert [e.facts.rebuild for e in ledger.find(office.home, ReleaseFacts, "published")] == [True, False]


def test_a_withdrawn_release_stands_no_more_and_still_counts(office: Any) -> None:
    outcome = office.published()
    assert outcomes.standing(office.home, "1" * 64, "2" * 64, "r").status == "unchanged"
    assert outcomes.published_before(office.home, "1" * 64, "2" * 64, "r") == 0
    decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y"))
    assert outcomes.standing(office.home, "1" * 64, "2" * 64, "r") is None
    assert outcomes.published_before(office.home, "1" * 64, "2" * 64, "r") == 1
    assert outcomes.published_before(office.home, "3" * 64, "2" * 64, "r") == 1
    again = office.published("b", published=1)
    assert again.status == "published"
    assert json.loads((again.folder / "manifest.json").read_text())["version"] == 2
    in_order(office)


def test_the_very_same_content_is_not_published_again(office: Any) -> None:
    outcome = office.published()
    decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y"))
    again = office.published(published=1)
    assert again.status == "rejected"
    assert again.reason.startswith("identical to what was withdrawn on 2")
    run, candidate = office.assessed("await", published=1)
    assert conclude.conclude(run, candidate, "0").status == "rejected"
    in_order(office)


def test_a_forged_notice_is_put_nowhere_else(office: Any, tmp_path: Path) -> None:
    outcome = office.published()
    deliver.deliver(office.home, outcome.release, Target(folder=str(tmp_path / "out")))
    decide(office.home, Decision(act="withdraw", release=outcome.release, by="A. Smith", reason="a wrong column"))
    path = outcome.folder / "WITHDRAWN.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b"a wrong column", b"keep using it!"))
    (problem,) = deliver.recall(office.home, outcome.release)
    assert "the data are removed, and the notice of the withdrawal is not put there" in problem
    there = tmp_path / "out" / outcome.release
    assert {p.name for p in there.iterdir()} & {"data.csv", "manifest.json"} == set()
    assert json.loads((there / path.name).read_text()) == {"release": outcome.release}
    path.write_bytes(before)
    assert deliver.recall(office.home, outcome.release) == []
    assert (there / path.name).read_bytes() == before
    in_order(office)


STEPS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "before the notice": lambda p: p.setattr(withdraw, "_stage_notice", crash),
    "before the move": lambda p: p.setattr(os, "rename", crash),
    "before it is made read-only": lambda p: p.setattr(withdraw, "_make_read_only", crash),
    "before the notice is put in place": lambda p: p.setattr(os, "rename", _second(os.rename)),
    "before it is entered": lambda p: p.setattr(conclude, "move_aside", _then_crash(conclude.move_aside)),
}


def _second(rename: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    calls = iter((True, False))
    return lambda old, new: rename(old, new) if next(calls) else crash()


def _then_crash(move: Callable[..., Any]) -> Callable[..., Any]:
    def moved(*given: Any) -> None:
        move(*given)
        crash()

    return moved


@pytest.mark.parametrize("step", STEPS)
def test_a_withdrawal_that_is_killed_is_ended_by_the_next_command(
    office: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    outcome = office.published()
    with monkeypatch.context() as patch:
        STEPS[step](patch)
        with pytest.raises(KeyboardInterrupt):
            decide(
                office.home, Decision(act="withdraw", release=outcome.release, by="A. Smith", reason="a wrong column")
            )
    assert events(office)[-1] == "withdrawing"
    assert outcomes.standing(office.home, "1" * 64, "2" * 64, "r") is None
    assert "cut short" in {f.kind for f in audit.verify(office.home, mlflow=False)}
    conclude.recover(office.home)
    assert events(office)[-1] == "withdrawn"
    assert (outcome.folder / "WITHDRAWN.json").is_file()
    assert verify_release(office.home.withdrawn / "office" / outcome.release) == []
    assert not [p for p in outcome.folder.parent.iterdir() if p.name.startswith(".")]
    in_order(office)


def test_a_release_that_is_gone_can_still_be_withdrawn(office: Any) -> None:
    outcome = office.published()
    shutil.rmtree(outcome.folder)
    assert (
        decide(office.home, Decision(act="withdraw", release=outcome.release, by="x", reason="y")).status == "withdrawn"
    )
    assert [f.kind for f in audit.verify(office.home, mlflow=False)] == ["release missing"]


def test_nothing_is_decided_on_a_ledger_that_was_cut_off(office: Any) -> None:
    release, _ = office.waiting()
    office.published("b")
    lines = office.home.ledger.read_text().splitlines(keepends=True)
    office.home.ledger.write_text("".join(lines[:-1]))
    with pytest.raises(Refused, match="the ledger is not in order, so nothing is decided"):
        approve(office, release, "A. Smith")
    with pytest.raises(Fault, match="nothing is entered"):
        office.published("c")


# Who is held out


def test_a_run_is_refused_when_others_would_be_held_out(office: Any) -> None:
    office.published()
    kept = office.home.holdout_key.read_bytes()
    secret_keys.check(office.home)
    ledger.rotate_key(office.home, by="x", reason="yearly")
    secret_keys.check(office.home)
    office.home.holdout_key.write_bytes(b"f" * 64)
    with pytest.raises(Refused, match=r"keys/holdout.*is not the key of the earlier runs.*restore it") as told:
        secret_keys.check(office.home)
    assert "f" * 8 not in str(told.value)
    ledger.resume(office.home, by="x", reason="the disk was replaced")
    secret_keys.check(office.home)
    office.published("b", data="3" * 64)
    secret_keys.check(office.home)
    office.home.holdout_key.write_bytes(kept)
    with pytest.raises(Refused, match="is not the key of the earlier runs"):
        secret_keys.check(office.home)


def test_a_run_is_refused_when_its_data_would_not_be_recognised(office: Any) -> None:
    office.published()
    office.home.digest_key.unlink()
    with pytest.raises(Refused, match=r"keys/digests is gone: the same data would not be recognised.*restore it"):
        secret_keys.check(office.home)
    office.home.digest_secret()
    with pytest.raises(Refused, match=r"keys/digests is not the key of the earlier runs"):
        secret_keys.check(office.home)
    ledger.resume(office.home, by="x", reason="the disk was replaced")
    secret_keys.check(office.home)
