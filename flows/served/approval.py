"""People decide in the Prefect page: the form, what it shows, and what becomes of an answer.

Prefect carries the question and the answer; who may decide, on what, and that it was decided, is checked and
recorded by `tasks.decision.approval`, as for ``anonflow approve``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal, cast
from uuid import UUID

from prefect import get_run_logger, suspend_flow_run
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.input import RunInput, delete_flow_run_input, keyset_from_paused_state
from prefect.input.run_input import Keyset
from prefect.states import Cancelled, Completed, Failed, Suspended
from pydantic import Field, ValidationError

from flows.orchestration.prefect import PrefectRunner
from flows.release import hand_over
from flows.served import monitor
from flows.served.notices import Notice
from flows.served.state import PendingDecision, pending_decisions
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.formatting import markdown_cell, markdown_table, sentence
from tasks.common.home import Home
from tasks.decision import conclude, outcomes
from tasks.decision.approval import decide
from tasks.policy.gate import WORST_FIRST
from tasks.publication.candidate import load_candidate
from tasks.publication.deliver import pending, targets_of
from tasks.record import ledger
from tasks.record.approval_rule import WaitingCandidate
from tasks.record.decision import Decision
from tasks.record.entry import NOBODY, LedgerEntry, MirrorFacts, ReleaseFacts
from tasks.record.mirrored import Mirrors

DAY = 86_400
# Prefect's own clock is the backstop only: a wait ends by ours, which also records it in the ledger.
GRACE = 7 * DAY
# The wait of a plan that names no end; and the time after which people are reminded at the latest.
ENDLESS = 36_500 * DAY
REMIND_AFTER = 3 * DAY
# What people are told to do about a candidate that was not published.
CLOSED = {
    "expired": "run the plan again for a new candidate",
    "superseded": "decide on the newer candidate",
    "rejected": "change the plan or the data; until then the rejection stands",
}
MARKS = {"fail": "FAIL", "inconclusive": "open"}


class Form(RunInput):
    """What a person fills in."""

    decision: Literal["approve", "reject"] = Field(title="Decision", description="Approve or reject.")
    approver: str = Field(title="Your name", min_length=2, max_length=200, description="As on the list of people.")
    reason: str = Field(title="Reason", min_length=3, max_length=2000, description="Recorded in the ledger.")
    dossier_sha256: str = Field(
        title="Dossier SHA-256",
        pattern=r"^\s*[0-9a-f]{64}\s*$",
        description="Of the dossier you have read; the decision is bound to it.",
    )
    signature: str = Field(
        title="Signature",
        default="",
        max_length=2000,
        description="Printed by: anonflow sign. Needed where the home has a list of people.",
    )

    @classmethod
    def offer(cls, key: str) -> None:
        """Store what the page will show of the form once the run is suspended, in place of what is there.

        Prefect stores it later: an answer that comes before is refused, and a process that dies in between leaves a
        run that nobody can answer.
        """
        keyset = keyset_from_paused_state(Suspended(pause_key=key))
        for name in (keyset["schema"], keyset["description"]):
            try:
                delete_flow_run_input(name)
            except PrefectHTTPStatusError as error:
                if error.response.status_code != HTTPStatus.NOT_FOUND:
                    raise
        super().save(keyset)

    @classmethod
    def save(cls, keyset: Keyset, flow_run_id: UUID | None = None) -> None:
        """Store nothing when the run is suspended: `offer` has."""

    @classmethod
    def load(cls, keyset: Keyset, flow_run_id: UUID | None = None) -> Form:
        """Return the answer; one that cannot be read is none."""
        try:
            return cast(Form, super().load(keyset, flow_run_id))
        except ValidationError as error:
            raise ObjectNotFound(error) from None


def enter(home: Home, outcome: outcomes.Outcome, run: str, name: str, plan: str) -> PendingDecision | None:
    """Tie a candidate to the run that waits with it; None when another run does already."""
    if pending_decisions(home).get(outcome.release) is not None:
        return None
    candidate = outcomes.waiting_candidate(home, outcome.release)
    now, expires = time.time(), candidate.terms.expires
    until = datetime.fromisoformat(expires).timestamp() if expires else 0.0
    half = (until - now) / 2 if expires else REMIND_AFTER
    entry = PendingDecision(
        release=outcome.release,
        dossier=candidate.facts.dossier,
        plan=plan,
        run=run,
        name=name,
        until=until,
        remind=now + min(half, REMIND_AFTER),
    )
    pending_decisions(home).put(entry.release, entry)
    _notify(home, entry, "awaiting", "a release awaits a decision", candidate.facts.reason, monitor.DECIDE)
    return entry


def _notify(home: Home, entry: PendingDecision, event: str, subject: str, text: str, action: str) -> None:
    notice = Notice(event, subject, entry.plan, entry.release, text, until=entry.deadline, action=action)
    monitor.notify_of_release(home, notice)


def ask(home: Home, entry: PendingDecision) -> State[Any]:
    """Return how the run ends, once it was decided; until then leave it suspended.

    Called again from the top when the run is resumed, it finds the answer under the same key, or the decision
    in the ledger. An answer that is not accepted is followed by a form that says why.
    """
    while (state := decided(home, entry)) is None:
        text = describe(home, entry)
        monitor.note(entry.plan, "decision", text, "What people decide on")
        left = int(entry.until - time.time()) if entry.until else ENDLESS
        form, key = Form.with_initial_data(description=text), f"{entry.dossier[:16]}-{entry.asked}"
        form.offer(key)
        try:
            answer = suspend_flow_run(wait_for_input=form, timeout=max(left, 0) + GRACE, key=key)
        except ObjectNotFound:
            refusal = "no answer that can be read came with the form; please decide again"
        else:
            refusal = _carry_out(home, entry, answer)
        entry = replace(entry, asked=entry.asked + 1, refused=refusal)
        pending_decisions(home).put(entry.release, entry)
        if refusal:
            get_run_logger().warning("A decision was not accepted: %s", refusal)
            monitor.emit("decision-refused", entry.plan, entry.release, reason=refusal)
            _notify(home, entry, f"refused-{entry.asked}", "a decision was not accepted", refusal, monitor.DECIDE)
    return state


def decided(home: Home, entry: PendingDecision) -> State[Any] | None:
    """Return how a release was decided, by the ledger; an approval that was interrupted is carried out.

    Raises `Refused` when enough have approved, and the candidate is not what they have approved.
    """
    sanitise_errors(conclude.recover)(home)
    last = ledger.of_release(home, entry.release)[-1]
    if last.event in outcomes.WAITS:
        if outcomes.waiting_candidate(home, entry.release).approved:
            # It would be published by now, were it what was approved: this raises why it is not.
            sanitise_errors(load_candidate)(home, entry.release)
        return None
    event = "published" if last.event == "unchanged" else last.event
    decided = last.facts.decided
    by = decided.approver if decided else NOBODY
    why = f"{event} by {by}: {decided.reason if decided else last.facts.reason}"
    if event == "expired":
        why = f"{why_expired(last)}; run the plan again for a new candidate"
    if event == "superseded":
        why = f"{last.facts.superseded_by}, of the same plan, took its place before it was decided"
    monitor.emit(event, entry.plan, entry.release, approver=by, reason=why)
    outcomes.mirror_entry(home, last)
    text = f"**{event.capitalize()}.** {entry.release}: {markdown_cell(why)}"
    monitor.note(entry.plan, "decision", text, "What was decided")
    try:
        if event == "published":
            step = PrefectRunner(entry.plan, lambda label, seconds, records, under_way=False: None).step
            hand_over(home, entry.release, pending(home, entry.release, targets_of(home, entry.release)), step)
    finally:
        pending_decisions(home).remove(entry.release)
    if event in CLOSED:
        closed = Notice(event, f"a release is {event}", entry.plan, entry.release, why, action=CLOSED[event])
        monitor.notify_of_release(home, closed)
    kind = {"expired": Cancelled, "superseded": Cancelled, "rejected": Failed}.get(event, Completed)
    return kind(name=event.capitalize(), message=f"{entry.release}: {why}")


def why_expired(entry: LedgerEntry[ReleaseFacts]) -> str:
    """Return why an entry ended the wait: its time was over, or another release was published meanwhile."""
    until = entry.facts.terms.expires if entry.facts.terms else ""
    if until and datetime.fromisoformat(entry.time) >= datetime.fromisoformat(until):
        return "the time to decide is over"
    return "another release of the same data or units was published, and this one was not measured together with it"


def _carry_out(home: Home, entry: PendingDecision, answer: Form) -> str:
    """Carry a person's answer out; return why it is not accepted, else nothing."""
    decision = Decision(
        act=answer.decision,
        release=entry.release,
        by=answer.approver.strip(),
        reason=answer.reason,
        dossier=answer.dossier_sha256,
        signature=answer.signature,
    )
    try:
        outcome = sanitise_errors(decide)(home, decision)
    except Refused as error:
        return str(error)
    if outcome.status == "awaiting":
        # Others must approve, too; the entry that ends the wait is mirrored with what came of it.
        outcomes.mirror_entry(home, outcome.entry)
    if answer.decision == "approve":
        monitor.emit("approved", entry.plan, entry.release, approver=decision.by)
    return ""


def describe(home: Home, entry: PendingDecision) -> str:
    """Return the text above the form: why approval is needed, the figures, and where to read more.

    The figures are those of the candidate, checked against the ledger: what lies in files beside it decides
    nothing. Of a candidate that was changed nothing is shown but that it was.
    """
    candidate = outcomes.waiting_candidate(home, entry.release)
    key = " --key PRIVATE.pem" if candidate.terms.signed else ""
    approvers = markdown_cell("; ".join(a.approver for a in candidate.approvals))
    parts = [
        f"> **The last decision was not accepted:** {markdown_cell(entry.refused)}" if entry.refused else "",
        *_assessment(home, entry, candidate),
        f"Approved so far by {approvers}; {candidate.terms.approvers} must approve." if approvers else "",
        f"Decide until **{entry.deadline}**." if entry.until else "",
        f"Dossier SHA-256: `{candidate.facts.dossier}`",
        f"In a terminal: `anonflow approve {entry.release} --by NAME --reason TEXT{key}`",
    ]
    return "\n\n".join(part for part in parts if part)


def _assessment(home: Home, entry: PendingDecision, waits: WaitingCandidate) -> list[str]:
    """Return the verdict, the gates and where the report is."""
    try:
        candidate = sanitise_errors(load_candidate)(home, entry.release)
    except Refused as error:
        return [f"## `{entry.release}`", f"**Do not approve it:** {markdown_cell(sentence(str(error)))}"]
    page = monitor.mlflow_page(Mirrors.of(ledger.find(home, MirrorFacts)).run_of(waits.facts))
    head = ("Gate", "Verdict", "Observed", "Limit", "Baseline")
    # What decides comes first.
    gates = sorted(candidate.dossier.verdict.gates, key=lambda gate: WORST_FIRST.index(gate.verdict))
    rows = ((g.name, MARKS.get(g.verdict, g.verdict), g.figure, g.limit, g.baseline) for g in gates)
    asked = [g for g in gates if g.verdict in ("fail", "inconclusive", "to decide")]
    return [
        f"## {markdown_cell(candidate.dossier.plan.title or entry.plan)}: `{entry.release}`",
        markdown_cell(sentence(candidate.dossier.verdict.reason)),
        f"[Report and figures in MLflow]({page})" if page else "",
        *(f"- **{markdown_cell(g.cause)}**: {markdown_cell(g.explanation)}" for g in asked),
        markdown_table(head, rows),
        f"Report: `{candidate.folder / 'report.html'}`",
    ]
