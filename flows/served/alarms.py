"""The one alarm that the server of Prefect gives by itself, as the worker may be what does not run: a late run.

It sends to the notification block named ``anonflow`` (any kind: mail, Slack, a webhook), which an operator makes in
the Prefect page. Everything else is reported by `flows.served.notices`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.events.actions import DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.served.notices import BLOCK

NAME = "anonflow: a run is late"
TEXT = "A run is due and has not started: check the worker (anonflow serve --status)."
NO_BLOCK = f" Nothing is sent before there is a notification block named {BLOCK} (Blocks)."


def late_run_alarm(block: UUID | None) -> AutomationCore:
    """Return the automation, which sends with a notification block where there is one."""
    action: Any = DoNothing()
    if block is not None:
        body = "{{ event.resource.name }}: " + TEXT + " ({{ event.event }})"
        action = SendNotification(block_document_id=block, subject=NAME, body=body)
    return AutomationCore(
        name=NAME,
        description=TEXT + (NO_BLOCK if block is None else ""),
        trigger=EventTrigger(
            expect={"prefect.flow-run.Late"},
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[action],
    )


async def ready_alarm(client: PrefectClient) -> None:
    """Make the automation, and let it send where there is something to send with."""
    documents = await client.read_block_documents()
    automation = late_run_alarm(next((document.id for document in documents if document.name == BLOCK), None))
    existing = await client.read_automations_by_name(NAME)
    if not existing:
        await client.create_automation(automation)
    elif (existing[0].actions, existing[0].description) != (automation.actions, automation.description):
        update = automation.model_copy(update={"enabled": existing[0].enabled})
        await client.update_automation(existing[0].id, update)
