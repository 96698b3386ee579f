"""Every plan of a folder as a Prefect deployment; brought in step again whenever the folder changes."""

from __future__ import annotations

from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.workers.process import ProcessWorker

from flows.plan.model import PlanFile
from flows.served.plans import Folder
from flows.served.settings import POOL
from flows.servers.layout import secret
from tasks.common.digests import digest_of
from tasks.common.errors import Refused
from tasks.common.home import Home

TAG = "anonflow"
OWNER = "Pool of the home "
ENTRYPOINT = "flows.served.release.release"


async def ready_pool(client: PrefectClient, home: Home) -> None:
    """Make the work pool, whose runs are processes of the worker's own machine.

    Raises
    ------
    Refused
        When the pool of this Prefect belongs to another home, whose plans would be run here.
    """
    owner = f"{OWNER}{digest_of([secret(home, 'pool')])[:16]}"
    template = ProcessWorker.get_default_base_job_template()
    try:
        await client.create_work_pool(
            WorkPoolCreate(
                name=POOL,
                type="process",
                description=f"Releases run here, each in a process of its own. {owner}",
                base_job_template=template,
            )
        )
    except ObjectAlreadyExists:
        about = (await client.read_work_pool(POOL)).description or ""
        if OWNER in about and owner not in about:
            raise Refused(
                f"the pool {POOL} of this Prefect belongs to another home; give each home a Prefect of its own, or "
                "delete the pool in the page if that home is no more"
            ) from None


async def deploy(client: PrefectClient, folder: Folder) -> dict[str, str]:
    """Make the deployments what the folder says; return what was done, by plan.

    A plan that did not change is left alone, with the runs that are scheduled. The deployment of a plan that
    is gone is removed; one whose file cannot be read any more stays, and its runs say what is wrong.
    """
    from flows.served.release import release

    flow_id = await client.create_flow(release)
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    deployed = {d.name: d for d in await client.read_deployments(deployment_filter=tagged)}
    changes = {}
    for name, file in folder.plans.items():
        body = _deployment(file)
        version = digest_of([str(body)])[:16]
        if name in deployed and deployed[name].version == version:
            changes[name] = "unchanged"
            continue
        await client.create_deployment(flow_id, name, version=version, **body)
        changes[name] = "changed" if name in deployed else "new"
    for name, old in deployed.items():
        if name not in folder.plans and not folder.problems:
            try:
                await client.delete_deployment(old.id)
            except ObjectNotFound:
                continue
            changes[name] = "removed"
    return changes


def _deployment(file: PlanFile) -> dict[str, Any]:
    """Return the arguments of Prefect's client."""
    plan, schedule = file.plan, file.plan.schedule
    schedules = []
    if schedule.cron is not None:
        cron = CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
        schedules = [DeploymentScheduleCreate(schedule=cron, active=schedule.active, slug="plan")]
    runs = f"Runs {schedule.in_words}." if schedule.cron is not None else ""
    source = f"Plan `{file.path.name}`, SHA-256 `{plan.digest[:16]}…`"
    return {
        "description": "\n\n".join(filter(None, (plan.publication.title, plan.publication.description, runs, source))),
        "tags": [TAG, f"plan:{plan.name}"],
        "parameters": {"plan": plan.name},
        "parameter_openapi_schema": {
            "type": "object",
            "properties": {"plan": {"type": "string", "title": "Plan", "default": plan.name}},
        },
        "entrypoint": ENTRYPOINT,
        "work_pool_name": POOL,
        # No second run of a plan beside a first; one that was approved waits its turn and is not dropped.
        "concurrency_limit": 1,
        "concurrency_options": ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
        "schedules": schedules,
    }
