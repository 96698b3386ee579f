"""Prefect automations that report what needs a person: trouble, late runs, candidates that wait.

They send to the notification block named ``anonflow`` (any kind: mail, Slack, a webhook), which an operator
makes in the Prefect page; without one they only show up in the page's list of events.
"""

from __future__ import annotations

from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.events import emit_event
from prefect.events.actions import DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.served.waiting import Waiting

BLOCK = "anonflow"
NOBODY = f" Nobody is told before there is a notification block named {BLOCK} (Blocks)."
RELEASES: dict[str, str | list[str]] = {"prefect.resource.id": "anonflow.release.*"}
RUNS: dict[str, str | list[str]] = {"prefect.resource.id": "prefect.flow-run.*"}
TROUBLE = {"prefect.flow-run.Crashed", "prefect.flow-run.Failed", "prefect.flow-run.Refused"}

ALARMS: dict[str, tuple[str, set[str], dict[str, str | list[str]]]] = {
    "anonflow: a run stopped": (
        "A run crashed, failed or was refused; its page says why.",
        TROUBLE,
        RUNS,
    ),
    "anonflow: a run is late": (
        "A run is due and nothing runs it: look at the worker.",
        {"prefect.flow-run.Late"},
        RUNS,
    ),
    "anonflow: a release awaits a decision": (
        "A candidate waits for a person.",
        {"release.awaiting", "release.reminder"},
        RELEASES,
    ),
    "anonflow: a decision was not accepted": (
        "Somebody decided, and it was not accepted; the run says why.",
        {"release.decision-refused"},
        RELEASES,
    ),
}


async def ready_alarms(client: PrefectClient) -> None:
    """Make the automations, and let them send where there is something to send with."""
    block = await _block(client)
    for name, (told, expect, match) in ALARMS.items():
        action: Any = DoNothing()
        if block is not None:
            body = "{{ event.resource.name }}: " + told + " ({{ event.event }})"
            action = SendNotification(block_document_id=block, subject=name, body=body)
        wanted = AutomationCore(
            name=name,
            description=told + (NOBODY if block is None else ""),
            trigger=EventTrigger(
                expect=expect,
                match=ResourceSpecification(dict(match)),
                for_each={"prefect.resource.id"},
                posture=Posture.Reactive,
                threshold=1,
            ),
            actions=[action],
        )
        found = await client.read_automations_by_name(name)
        if not found:
            await client.create_automation(wanted)
        elif (found[0].actions, found[0].description) != ([action], wanted.description):
            await client.update_automation(found[0].id, wanted.model_copy(update={"enabled": found[0].enabled}))


async def _block(client: PrefectClient) -> Any:
    """Return the id of the block to send with, None without one."""
    for document in await client.read_block_documents():
        if document.name == BLOCK:
            return document.id
    return None


async def remind(entry: Waiting) -> None:
    """Tell that a candidate still waits."""
    emit_event(
        "release.reminder",
        resource={
            "prefect.resource.id": f"anonflow.release.{entry.release}",
            "prefect.resource.name": entry.release,
            "anonflow.plan": entry.plan,
        },
        related=[{"prefect.resource.id": f"prefect.flow-run.{entry.run}", "prefect.resource.role": "flow-run"}],
        payload={"release": entry.release, "plan": entry.plan, "until": entry.until},
    )
