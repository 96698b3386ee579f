"""Prefect automations that report what needs a person: trouble, late runs, candidates that wait.

They send to the notification block named ``anonflow`` (any kind: mail, Slack, a webhook), which an operator
makes in the Prefect page; without one they only show up in the page's list of events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.events.actions import DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.served import monitor
from flows.served.state import PendingDecision

BLOCK = "anonflow"
NO_BLOCK = f" Nothing is sent before there is a notification block named {BLOCK} (Blocks)."
RELEASES, RUNS = "anonflow.release.*", "prefect.flow-run.*"


@dataclass(frozen=True)
class Alarm:
    """One automation: its name, what it reports, and the events of which resources set it off."""

    name: str
    text: str
    events: frozenset[str]
    resources: str

    def automation(self, block: UUID | None) -> AutomationCore:
        """Return the automation, which sends with a notification block where there is one."""
        action: Any = DoNothing()
        if block is not None:
            body = "{{ event.resource.name }}: " + self.text + " ({{ event.event }})"
            action = SendNotification(block_document_id=block, subject=self.name, body=body)
        return AutomationCore(
            name=self.name,
            description=self.text + (NO_BLOCK if block is None else ""),
            trigger=EventTrigger(
                expect=set(self.events),
                match=ResourceSpecification({"prefect.resource.id": self.resources}),
                for_each={"prefect.resource.id"},
                posture=Posture.Reactive,
                threshold=1,
            ),
            actions=[action],
        )


ALARMS = (
    Alarm(
        "anonflow: a run stopped",
        "A run crashed, failed or was refused; its page says why.",
        frozenset({"prefect.flow-run.Crashed", "prefect.flow-run.Failed", "prefect.flow-run.Refused"}),
        RUNS,
    ),
    Alarm(
        "anonflow: a run is late",
        "A run is due and has not started: check the worker.",
        frozenset({"prefect.flow-run.Late"}),
        RUNS,
    ),
    Alarm(
        "anonflow: a release awaits a decision",
        "A candidate waits for a person.",
        frozenset({"release.awaiting", "release.reminder"}),
        RELEASES,
    ),
    Alarm(
        "anonflow: a decision was not accepted",
        "A decision was not accepted; the run says why.",
        frozenset({"release.decision-refused"}),
        RELEASES,
    ),
)


async def ready_alarms(client: PrefectClient) -> None:
    """Make the automations, and let them send where there is something to send with."""
    block = await _block(client)
    for alarm in ALARMS:
        automation = alarm.automation(block)
        existing = await client.read_automations_by_name(alarm.name)
        if not existing:
            await client.create_automation(automation)
        elif (existing[0].actions, existing[0].description) != (automation.actions, automation.description):
            update = automation.model_copy(update={"enabled": existing[0].enabled})
            await client.update_automation(existing[0].id, update)


async def _block(client: PrefectClient) -> UUID | None:
    """Return the id of the block to send with, None without one."""
    documents = await client.read_block_documents()
    return next((document.id for document in documents if document.name == BLOCK), None)


async def remind(pending: PendingDecision) -> None:
    """Report that a candidate still waits."""
    monitor.emit("reminder", pending.plan, pending.release, run=pending.run, until=pending.until)
