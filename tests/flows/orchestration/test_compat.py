"""The private names of Prefect and MLflow: only `compat` has them, and the installed versions have them, too."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.orchestration import compat

ROOT = Path(__file__).parents[3]
COMPAT = ROOT / "flows" / "orchestration" / "compat.py"
FRAMEWORKS = ("prefect", "mlflow", "uvicorn", "starlette", "alembic", "great_expectations")
# Variables that configure the frameworks from inside.
INTERNAL = re.compile(r"_MLFLOW_\w+|PREFECT__\w+")
PYTHONS_OWN = {*dir(type), *dir(object), *dir(BaseException), "__version__"}
UPGRADE = "{name} is gone or has changed in the installed version: look at compat.{function}"


def private_names(path: Path) -> Iterator[str]:
    """Yield every private name of a framework that a module uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours: set[str] = {"self", "cls"}
    uses_a_framework = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = [alias.name for alias in node.names]
            of_framework = any(name.split(".")[0] in FRAMEWORKS for name in ([module] if module else names))
            uses_a_framework |= of_framework
            parts = [part for name in (*names, module) for part in name.split(".")]
            if of_framework:
                yield from (part for part in parts if part.startswith("_"))
            else:
                ours |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and INTERNAL.fullmatch(node.value):
            yield node.value
    for node in ast.walk(tree):
        if uses_a_framework and isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            if base not in ours and node.attr not in PYTHONS_OWN:
                yield node.attr


def modules() -> list[Path]:
    folders = ("flows", "tasks", "expectations", "anoncore")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if path != COMPAT]


def test_no_other_module_uses_a_private_name() -> None:
    found = {path.relative_to(ROOT).as_posix(): sorted({*private_names(path)}) for path in modules()}
    assert len(found) > 500
    assert {path: names for path, names in found.items() if names} == {}


def test_private_names_are_recognised(tmp_path: Path) -> None:
    assert {"_topics", "_initialize_tables", "_internal", "__ui_v2_static_path__"} <= set(private_names(COMPAT))
    module = tmp_path / "module.py"
    module.write_text('import mlflow\nfrom tasks import x\nself._a\nx._b\nmlflow.y._c\n"_MLFLOW_SERVER_FILE_STORE"\n')
    assert list(private_names(module)) == ["_MLFLOW_SERVER_FILE_STORE", "_c"]


# --- contracts: an upgrade that changes one of these names fails here, and says where to look


def require(condition: object, name: str, function: Any) -> None:
    assert condition, UPGRADE.format(name=name, function=getattr(function, "__name__", function))


@pytest.fixture(scope="module", autouse=True)
def settings(tracking: Path) -> Path:
    """The frameworks read where their state is when they are imported."""
    return tracking


def test_mlflow_reads_the_variables_that_configure_its_server() -> None:
    from mlflow.server import constants

    for ours, theirs in {
        "MLFLOW_BACKEND_STORE": "BACKEND_STORE_URI_ENV_VAR",
        "MLFLOW_REGISTRY_STORE": "REGISTRY_STORE_URI_ENV_VAR",
        "MLFLOW_ARTIFACT_ROOT": "ARTIFACT_ROOT_ENV_VAR",
        "MLFLOW_ARTIFACTS_DESTINATION": "ARTIFACTS_DESTINATION_ENV_VAR",
        "MLFLOW_SERVE_ARTIFACTS": "SERVE_ARTIFACTS_ENV_VAR",
    }.items():
        require(getattr(compat, ours) == getattr(constants, theirs, None), f"mlflow.server.constants.{theirs}", ours)


def test_prefects_second_interface_lies_where_it_is_replaced() -> None:
    import prefect
    from prefect.server.api import server

    require(
        hasattr(prefect, "__ui_v2_static_path__"), "prefect.__ui_v2_static_path__", compat.serve_first_interface_only
    )
    used = "prefect.__ui_v2_static_path__" in inspect.getsource(server)
    require(used, "prefect.__ui_v2_static_path__", compat.serve_first_interface_only)
    parameters = inspect.signature(server.create_app).parameters
    require({"ephemeral", "webserver_only"} <= set(parameters), "create_app", "none, but flows.embedded.child._prefect")


def test_prefects_queues_of_events_can_be_looked_into() -> None:
    from prefect.server.utilities.messaging import memory

    require(isinstance(memory.Topic._topics, dict), "memory.Topic._topics", compat.events_are_stored)
    subscription = memory.Subscription(memory.Topic("some"))
    for queue in ("_queue", "_retry"):
        require(hasattr(getattr(subscription, queue, None), "empty"), f"Subscription.{queue}", compat.events_are_stored)
    topic = memory.Topic("other")
    require(hasattr(topic, "_subscriptions"), "Topic._subscriptions", compat.events_are_stored)
    counted = {"published", "consumed"} <= set(memory.METRICS["other"])
    require(counted, "memory.METRICS", compat.events_are_stored)
    assert compat.events_are_stored() in (True, False)


def test_prefects_client_can_be_emptied_and_silenced() -> None:
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        drained = "timeout" in inspect.signature(worker.drain_all).parameters
        require(drained, f"{worker.__name__}.drain_all", compat.send_queued)
    before = EventsWorker._client_override
    try:
        compat.emit_events(enabled=False)
        silenced = EventsWorker._client_override is not None and EventsWorker._client_override[0] is NullEventsClient
        require(silenced, "EventsWorker.set_client_override", compat.emit_events)
        compat.emit_events(enabled=True)
        require(EventsWorker._client_override is None, "EventsWorker.set_client_override", compat.emit_events)
    finally:
        EventsWorker._client_override = before


def test_prefects_worker_takes_our_command_and_our_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.workers import process

    source = inspect.getsource(process.ProcessWorker.run)
    for name, function in (
        ("configuration._command_configured", compat.run_command),
        ("configuration.command", compat.run_command),
        ("resolve_flow=load_flow_from_flow_run", compat.load_flow_with),
    ):
        require(name in source, f"{name} in ProcessWorker.run", function)
    monkeypatch.setattr(process, "load_flow_from_flow_run", process.load_flow_from_flow_run)
    compat.load_flow_with(_no_flow)
    require(process.load_flow_from_flow_run is _no_flow, "process.load_flow_from_flow_run", compat.load_flow_with)
    configuration = process.ProcessJobConfiguration()
    compat.run_command(configuration, "true")
    require(configuration._command_configured, "ProcessJobConfiguration._command_configured", compat.run_command)


def test_prefects_worker_leaves_a_run_for_later_that_it_holds() -> None:
    from types import SimpleNamespace
    from uuid import uuid4

    import anyio
    from prefect.workers.process import ProcessWorker

    async def submit() -> list[Any]:
        worker, run = ProcessWorker("pool"), uuid4()
        worker._limiter = anyio.CapacityLimiter(2)
        worker._limiter.acquire_on_behalf_of_nowait(run)
        compat.pass_over_held(worker)
        again: Any = SimpleNamespace(flow_run=SimpleNamespace(id=run))
        return await worker._submit_scheduled_flow_runs(flow_run_response=[again])

    require(asyncio.run(submit()) == [], "ProcessWorker._submit_scheduled_flow_runs", compat.pass_over_held)
    source = inspect.getsource(ProcessWorker.get_and_submit_flow_runs)
    called = "self._submit_scheduled_flow_runs(flow_run_response=" in source
    require(called, "_submit_scheduled_flow_runs in get_and_submit_flow_runs", compat.pass_over_held)


def test_prefects_engine_learns_of_cancellation_from_the_environment() -> None:
    name = "prefect._internal.control_listener"
    require(importlib.util.find_spec(name), name, compat.report_cancellation)
    from prefect._internal import control_listener
    from prefect.runner import _control_channel as channel

    require(hasattr(control_listener, "configure_from_env"), f"{name}.configure_from_env", compat.report_cancellation)
    spoken = "PREFECT__CONTROL_PORT" in inspect.getsource(control_listener.configure_from_env)
    require(spoken and channel, "PREFECT__CONTROL_PORT", compat.report_cancellation)


def test_mlflows_tables_are_made_and_migrated_by_one_function(tmp_path: Path) -> None:
    from mlflow.store.db import utils
    from sqlalchemy import create_engine
    from sqlalchemy import inspect as inspected

    require(
        hasattr(utils, "_initialize_tables"), "mlflow.store.db.utils._initialize_tables", compat.create_mlflow_tables
    )
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    compat.create_mlflow_tables(uri)
    compat.create_mlflow_tables(uri)
    engine = create_engine(uri)
    tables = set(inspected(engine).get_table_names())
    engine.dispose()
    require(
        {"runs", "alembic_version"} <= tables, "mlflow.store.db.utils._initialize_tables", compat.create_mlflow_tables
    )


async def _no_flow(*_: Any) -> Any:
    return None
