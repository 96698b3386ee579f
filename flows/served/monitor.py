"""What people and automations see of a release besides the run itself: events, notes, reports of trouble."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.events import emit_event
from prefect.runtime import flow_run

from flows.served import notices
from flows.served.notices import Notice
from flows.servers.layout import MLFLOW_PAGE
from tasks.common.errors import Refused
from tasks.common.formatting import markdown_cell, markdown_table
from tasks.common.home import Home
from tasks.decision.outcomes import Outcome
from tasks.engine.progress import rate
from tasks.record.dossier import read_dossier
from tasks.tracking.mlflow import page_of

CHANGE_PLAN = "change the plan or the data as the report says; until then the rejection stands"
DECIDE = "read the report, then decide: Resume in the run's page, or anonflow approve or reject at a terminal"


def emit(event: str, plan: str, release: str, *, run: str = "", **facts: Any) -> None:
    """Emit ``release.EVENT`` about one release, tied to a run, by default this one; counts, names, reasons only."""
    run = run or str(flow_run.id or "")
    related = [{"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.role": "flow-run"}]
    emit_event(
        f"release.{event}",
        resource={
            "prefect.resource.id": f"anonflow.release.{release or plan}",
            "prefect.resource.name": release or plan,
            "anonflow.plan": plan,
        },
        related=related if run else [],
        payload={"release": release, "plan": plan} | facts,
    )


def report_assessment(home: Home, plan: str, outcome: Outcome) -> None:
    """Report how a run of a plan ended, apart from what people decide."""
    facts = {"status": outcome.status, "reason": outcome.reason}
    if outcome.gates:
        emit("assessed", plan, outcome.release, **facts)
        _note_edits(home, plan, outcome.release)
    emit(outcome.status, plan, outcome.release, **facts)
    if outcome.status == "rejected":
        notice = Notice("rejected", "a release was rejected", plan, outcome.release, outcome.reason, action=CHANGE_PLAN)
        notify_of_release(home, notice)


def notify_of_release(home: Home, notice: Notice) -> None:
    """Tell people what became of a release in this run, once for each event, which ``key`` names, and release."""
    link = notices.page_of(str(flow_run.id or ""))
    notices.enqueue(home, replace(notice, key=f"{notice.key}-{notice.release}", link=link))


def report_failure(home: Home, error: Exception) -> None:
    """Report that a run could not go on; the message holds no data, by rule.

    It may hold counts of records, and stays in the pages: mail may cross other people's machines.
    """
    plan = str(flow_run.parameters.get("plan", ""))
    notices.enqueue(home, notices.stopped(plan, str(flow_run.id), is_refused=isinstance(error, Refused)))
    emit("failed", plan, "", reason=str(error))
    lines = ["**The run could not go on.**", *map(markdown_cell, str(error).split("\n"))]
    note(plan, "trouble", "\n\n".join(lines), "Why the run could not go on")


class Progress:
    """How far a run is, as a bar in its page that names the step: steps take very different times."""

    STEPS = 13

    def __init__(self, plan: str) -> None:
        self.key = _key(plan, "progress")
        self.done = 0
        self.artifact: Any = None

    def __call__(self, label: str, seconds: float | None, records: int, /, *, under_way: bool = False) -> None:
        """Move on when a step begins (no ``seconds`` yet) and when it has ended."""
        if seconds is not None:
            self.done += 1
            label = f"{label}, {seconds:.0f} s{rate(records, seconds)}"
        percent = min(100.0 * self.done / self.STEPS, 100.0)
        number = min(self.done + (seconds is None), self.STEPS)
        description = f"Step {number} of {self.STEPS}: {label}"
        # A bar that is not drawn must not end the run it is about.
        with suppress(Exception):
            if self.artifact is None:
                self.artifact = create_progress_artifact(percent, self.key, description)
            else:
                update_progress_artifact(self.artifact, percent, description)


def _note_edits(home: Home, plan: str, release: str) -> None:
    """Note how many records violate each edit, before and after: counts, never values."""
    facts = read_dossier(home, release).edits
    after = {rule.name: rule.violated for rule in facts.masked.rules}
    rows = ((r.name, r.checked, r.violated, after.get(r.name, "")) for r in facts.raw.rules)
    below = f"{facts.repaired.records} records and {facts.repaired.cells} cells were repaired after masking."
    head = ("Edit", "Checked", "Violations in the source", "Violations in the release")
    note(plan, "edits", f"{markdown_table(head, rows)}\n\n{below}", "Edits before and after")


def note(plan: str, key: str, markdown: str, description: str) -> None:
    """Leave a note in the run and in the plan's history; a note that fails stops nothing."""
    with suppress(Exception):
        create_markdown_artifact(markdown=markdown, key=_key(plan, key), description=description)


def _key(plan: str, key: str) -> str:
    return f"{plan.replace('_', '-')}-{key}"


def mlflow_page(run_id: str | None) -> str:
    """Return the address of a run's page in MLflow, empty where there is none."""
    # Where a browser finds it, if that is elsewhere than for us.
    uri = os.environ.get(MLFLOW_PAGE) or os.environ.get("MLFLOW_TRACKING_URI", "")
    return page_of(run_id, uri) if run_id and uri.startswith("http") else ""
