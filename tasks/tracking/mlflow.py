"""The only module that knows MLflow: one run per release or compared setting, in batches, aggregates only."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tasks.common.digests import digest_of, sha256_of
from tasks.common.errors import DISK_FULL, InputOutputFault, lacks_space
from tasks.common.sections import Section
from tasks.record.dossier import PlanIdentity, SourceSummary

STATUS = "release.status"
# The home whose ledger a run mirrors.
HOME = "release.home"
KIND = "anonflow.kind"
# The run of the plan, by which an attempt that failed midway is recognised.
OWN = "anonflow.run"
# What MLflow shows as the description of a run or an experiment; people may go on writing there.
NOTE = "mlflow.note.content"
EXPERIMENT = (
    "One run for each assessed release of this plan, published or not: the curves of its metrics are risk "
    "and utility over releases. The experiment whose name ends in “curves” has those of the published releases "
    "beside the limits. The signed ledger is the record: `anonflow audit verify` compares the two."
)
TRIED = "Settings of this plan that were tried beside each other with `anonflow compare`; none is a release."
CURVE, TEXT = "curves", "text"
CurveRun = Literal["releases", "limits"]
CURVE_RUNS: tuple[CurveRun, ...] = get_args(CurveRun)
METRICS_AT_ONCE = 1000
# The limits of MLflow: parameters in one request, characters in a parameter, in a tag and in a digest.
PARAMS_AT_ONCE, PARAM_LENGTH, TAG_LENGTH, DIGEST_LENGTH = 100, 500, 5000, 36
# How many runs, and how many values of a metric, are asked for in one request; the server takes no more.
RUNS_AT_ONCE, VALUES_AT_ONCE = 100, 25_000
HISTORIES = "/ajax-api/2.0/mlflow/metrics/get-history-bulk"
RUN_ID = re.compile(r"[0-9a-f]{32}")
# How a server names the files that it keeps itself.
SERVED = "mlflow-artifacts:/"
# What the registry calls the newest version of a status.
ALIASES = {"awaiting": "candidate", "published": "published"}
# Tags that never change; those of a status mirror the ledger and change with it.
FIXED_TAGS = (
    "plan.sha256", "data.sha256", OWN, "anonflow.version", KIND, "release.id", "release.reason",
    "release.risk", "dossier.sha256", "mlflow.runName",
)  # fmt: skip


class TrackingSection(Section):
    """Where runs are logged for auditors.

    Parameters
    ----------
    experiment : The MLflow experiment; the plan's name when not stated.
    """

    experiment: str | None = None


@dataclass(frozen=True)
class RunIdentity:
    """A run of a plan on its data, by which its run in MLflow is recognised.

    Parameters
    ----------
    kind : of a release, or of a comparison, whose curves must not be mixed
    plan, source : the plan, and the table that was read
    version : of anonflow
    """

    id: str
    kind: Literal["release", "comparison"]
    plan: PlanIdentity
    source: SourceSummary
    version: str

    @property
    def tags(self) -> dict[str, str]:
        """The identity as tags."""
        digests = {"plan.sha256": self.plan.digest, "data.sha256": self.source.digest}
        return digests | {OWN: self.id, KIND: self.kind, "anonflow.version": self.version}


@dataclass(frozen=True)
class TrackedRun:
    """What is logged of one run: aggregates and names, no data.

    Parameters
    ----------
    experiment, name : of the run in MLflow
    tags : besides those of its identity
    description : in Markdown, for the first view of the run
    files : what to attach, by artifact path
    finished : False where the run could not be carried out
    """

    experiment: str
    name: str
    identity: RunIdentity
    tags: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    description: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    finished: bool = True


@dataclass(frozen=True)
class StoredRun:
    """The present state of a run in the store: digests of its parts, its tags, and whether it was deleted."""

    parts: Mapping[str, str]
    tags: Mapping[str, str]
    deleted: bool


@dataclass(frozen=True, order=True)
class CurvePoint:
    """A point of a curve over the releases of a plan: of what was measured, or of the limit.

    Parameters
    ----------
    run : in which it is; each chart of MLflow shows one metric of all runs
    step, time : the number of the release, and when it was published, in milliseconds since 1970
    """

    run: CurveRun
    metric: str
    value: float
    step: int
    time: int


def track(run: TrackedRun, nested: Iterable[TrackedRun] = ()) -> str:
    """Log a run, and others nested in it; return its id in MLflow.

    Logging the same run again completes what an attempt that failed midway has left.
    """
    from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

    with _store() as client:
        parent = _begin(client, run)
        for one in nested:
            _log(client, _begin(client, one, {MLFLOW_PARENT_RUN_ID: parent}), one)
        _log(client, parent, run)
    return parent


def _begin(client: Any, run: TrackedRun, more: Mapping[str, str] | None = None) -> str:
    """Return the id of the run in MLflow: a new one, or that of an attempt which failed midway."""
    existing = client.get_experiment_by_name(run.experiment)
    about = {NOTE: EXPERIMENT if run.identity.kind == "release" else TRIED}
    experiment = existing.experiment_id if existing else client.create_experiment(run.experiment, tags=about)
    if begun := client.search_runs([experiment], f"tags.`{OWN}` = '{run.identity.id}'", max_results=1):
        return str(begun[0].info.run_id)
    tags = {**run.identity.tags, **run.tags, **(more or {})} | ({NOTE: run.description} if run.description else {})
    created = client.create_run(experiment, run_name=run.name, tags={k: tag(v) for k, v in tags.items()})
    return str(created.info.run_id)


def _log(client: Any, run_id: str, run: TrackedRun) -> None:
    """Log source, metrics, parameters and files, in as few requests as MLflow allows, and end the run."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

    now = int(time.time() * 1000)
    metrics = [Metric(key, float(value), now, 0) for key, value in run.metrics.items()]
    params = [Param(key, str(value)[:PARAM_LENGTH]) for key, value in run.parameters.items()]
    source, plan = run.identity.source, run.identity.plan.name
    size = json.dumps({"num_rows": source.records, "num_columns": source.variables})
    # Neither the profile of the source nor its place; the whole digest stands in the run's tags.
    dataset = Dataset(plan, source.digest[:DIGEST_LENGTH], "local", "{}", profile=size)
    client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "source")])])
    client.log_batch(run_id, metrics=metrics, params=params[:PARAMS_AT_ONCE])
    for start in range(PARAMS_AT_ONCE, len(params), PARAMS_AT_ONCE):
        client.log_batch(run_id, params=params[start : start + PARAMS_AT_ONCE])
    for name, path in run.files.items():
        folder = str(Path(name).parent)
        client.log_artifact(run_id, str(path), None if folder == "." else folder)
    client.set_terminated(run_id, "FINISHED" if run.finished else "FAILED")


def set_status(run_id: str, status: str, **tags_: str) -> None:
    """Mirror a decision that the ledger holds in the run's tags."""
    from mlflow.entities import RunTag

    facts = {STATUS: status} | {f"release.{k}": v for k, v in tags_.items()}
    with _store() as client:
        client.log_batch(run_id, tags=[RunTag(k, tag(v)) for k, v in facts.items()])


def curves(experiment: str, home: str) -> set[CurvePoint]:
    """Return the points that the store has of a home's curves in an experiment."""
    with _store() as client:
        existing = client.get_experiment_by_name(experiment)
        runs = _curve_runs(client, existing.experiment_id, home) if existing else {}
        return {point for name, run in runs.items() for point in _curve(name, run)}


def show_curves(experiment: str, home: str, points: Iterable[CurvePoint], description: str) -> None:
    """Let the store have these points of a home's curves; a curve that has others is made anew."""
    from mlflow.entities import Metric

    wanted = sorted(points)
    with _store() as client:
        where = _described(client, experiment, description)
        runs = _curve_runs(client, where, home)
        for name in CURVE_RUNS:
            own = [point for point in wanted if point.run == name]
            stored = _curve(name, runs[name]) if name in runs else set()
            if name in runs and not stored <= {*own}:
                client.delete_run(runs.pop(name).info.run_id)
                stored = set()
            if name not in runs:
                tags = {KIND: CURVE, OWN: f"{home} {name}"}
                runs[name] = client.create_run(where, run_name=name, tags=tags)
            run_id = runs[name].info.run_id
            missing = [Metric(one.metric, one.value, one.time, one.step) for one in own if one not in stored]
            for start in range(0, len(missing), METRICS_AT_ONCE):
                client.log_batch(run_id, metrics=missing[start : start + METRICS_AT_ONCE])
            client.set_tag(run_id, NOTE, tag(description))
            client.set_terminated(run_id)


def show_text(experiment: str, home: str, description: str) -> None:
    """Show a text of a home as the description of an experiment, and of one run in it."""
    with _store() as client:
        where = _described(client, experiment, description)
        found = client.search_runs([where], f"tags.`{OWN}` = '{home} {TEXT}'")
        tags = {KIND: TEXT, OWN: f"{home} {TEXT}"}
        run = found[0] if found else client.create_run(where, run_name=experiment, tags=tags)
        client.set_tag(run.info.run_id, NOTE, tag(description))
        client.set_terminated(run.info.run_id)


def _described(client: Any, experiment: str, description: str) -> str:
    """Return an experiment, made if there is none, with a description."""
    existing = client.get_experiment_by_name(experiment)
    where = existing.experiment_id if existing else client.create_experiment(experiment)
    client.set_experiment_tag(where, NOTE, tag(description))
    return str(where)


def _curve_runs(client: Any, experiment: str, home: str) -> dict[CurveRun, Any]:
    """Return the runs of a home's curves, by their names."""
    found = client.search_runs([experiment], f"tags.`{KIND}` = '{CURVE}'")
    own = {run.data.tags.get(OWN): run for run in found}
    return {name: own[f"{home} {name}"] for name in CURVE_RUNS if f"{home} {name}" in own}


def _curve(name: CurveRun, run: Any) -> set[CurvePoint]:
    """Return the points that a run of curves has."""
    histories = _histories([run.info.run_id], run.data.metrics).items()
    return {CurvePoint(name, key, *point) for (_, key), history in histories for point in history}


def fingerprint(run_id: str) -> Mapping[str, str]:
    """Return digests of the parts of a run that must not change, read back part by part."""
    return stored_runs([run_id])[run_id].parts


def stored_runs(run_ids: Sequence[str], kept: Path | None = None, home: str = "") -> dict[str, StoredRun]:
    """Return the present state of runs, deleted or not, by their ids; without those of which the store has none.

    Parameters
    ----------
    run_ids : the runs that are asked for
    kept : where a server of this home keeps attached files, which are read there instead of through the server
    home : also those runs in which decisions of this home were mirrored, whoever made them
    """
    from mlflow.entities import ViewType

    found: dict[str, StoredRun] = {}
    with _store() as client:
        experiments = {e.experiment_id: e.name for e in client.search_experiments(ViewType.ALL, 50_000)}
        for runs in _searched(client, [*experiments], run_ids, home):
            histories = _histories([run.info.run_id for run in runs], {key for run in runs for key in run.data.metrics})
            for run in runs:
                attached = _artifacts(client, run.info.run_id, _folder(run.info.artifact_uri, kept))
                history = {key: sorted(histories[run.info.run_id, key]) for key in sorted(run.data.metrics)}
                parts = _parts(run, experiments[run.info.experiment_id], history, attached)
                deleted = run.info.lifecycle_stage != "active"
                found[run.info.run_id] = StoredRun(parts, dict(run.data.tags), deleted)
    return found


def _searched(client: Any, experiments: list[str], run_ids: Sequence[str], home: str) -> Iterator[list[Any]]:
    """Give runs as the store has them, so many at once as it takes: those of a home, then others by their ids."""
    from mlflow.entities import ViewType

    missing = dict.fromkeys(one for one in run_ids if RUN_ID.fullmatch(one)) if experiments else {}
    token: str | None = "" if home and experiments else None
    while token is not None:
        mirrored = f"tags.`{HOME}` = '{home}'"
        runs = client.search_runs(experiments, mirrored, ViewType.ALL, RUNS_AT_ONCE, page_token=token or None)
        yield list(runs)
        missing = {one: None for one in missing if one not in {run.info.run_id for run in runs}}
        token = runs.token or None
    left = [*missing]
    for start in range(0, len(left), RUNS_AT_ONCE):
        chunk = left[start : start + RUNS_AT_ONCE]
        named = ", ".join(f"'{one}'" for one in chunk)
        yield list(client.search_runs(experiments, f"attributes.run_id IN ({named})", ViewType.ALL, len(chunk)))


def _parts(run: Any, experiment: str, history: Mapping[str, object], attached: Mapping[str, str]) -> dict[str, str]:
    """Return a digest of each part of a run; tags that mirror a decision may change, and are left out.

    Parameters
    ----------
    history : every value that was ever logged, also those that later ones have replaced
    """
    tags = {k: v for k, v in run.data.tags.items() if k in FIXED_TAGS}
    sources = [[i.dataset.name, i.dataset.digest, i.dataset.profile] for i in run.inputs.dataset_inputs]
    info = run.info
    circumstances = {
        "experiment": experiment,
        "user": [info.user_id, run.data.tags.get("mlflow.user")],
        "times": [info.start_time, info.end_time],
        "status": str(info.status),
    }
    return {
        "run": digest_of(circumstances),
        "history": digest_of(history),
        "metrics": digest_of(dict(run.data.metrics)),
        "parameters": digest_of(dict(run.data.params)),
        "tags": digest_of(tags),
        "source": digest_of(sources),
        "artifacts": digest_of(attached),
    }


def _histories(run_ids: list[str], keys: Iterable[str]) -> dict[tuple[str, str], list[tuple[float, int, int]]]:
    """Return value, step and time of everything that was logged of these metrics, by run and metric.

    One query of the store, and through a server a request for each metric of all runs: one for each metric of each run
    takes a second for a run.
    """
    from mlflow import get_tracking_uri
    from mlflow.store.tracking import sqlalchemy_store
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from mlflow.utils import credentials, rest_utils

    sql: Any = sqlalchemy_store
    access: Any = credentials
    rest: Any = rest_utils
    uri = get_tracking_uri()
    histories: dict[tuple[str, str], list[tuple[float, int, int]]] = defaultdict(list)
    if not uri.startswith("http"):
        with sql.SqlAlchemyStore(uri, None).ManagedSessionMaker() as session:
            for one in session.query(SqlMetric).filter(SqlMetric.run_uuid.in_(run_ids)):
                value = math.nan if one.is_nan else one.value
                histories[one.run_uuid, one.key].append((value, one.step, one.timestamp))
        return histories
    for key in sorted(keys):
        asked = {"run_id": run_ids, "metric_key": key, "max_results": VALUES_AT_ONCE}
        answer = rest.http_request(access.get_default_host_creds(uri), HISTORIES, "GET", params=asked)
        logged = rest.verify_rest_response(answer, HISTORIES).json()["metrics"]
        for run_id, value, step, time_ in map(itemgetter("run_id", "value", "step", "timestamp"), logged):
            histories[run_id, key].append((value, step, time_))
    return histories


def _folder(place: str, kept: Path | None) -> Path | None:
    """Return the folder on this machine in which a run's files are, None where they are elsewhere."""
    inside, address = place.removeprefix(SERVED), urlsplit(place)
    folder = Path(url2pathname(address.path)) if address.scheme == "file" and not address.netloc else None
    if kept is not None and place.startswith(SERVED) and ".." not in inside:
        folder = kept / inside
    return folder if folder is not None and folder.is_dir() else None


def _artifacts(client: Any, run_id: str, folder: Path | None) -> dict[str, str]:
    """Return the SHA-256 of every attached file, by its path; without a folder they are downloaded."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with TemporaryDirectory() as scratch:
        root = folder or Path(client.download_artifacts(run_id, "", scratch))
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        return {path.relative_to(root).as_posix(): sha256_of(path) for path in files}


@contextmanager
def _store() -> Iterator[Any]:
    """Yield the client of the tracking store; of its exceptions only the error code is passed on."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    # It would log what it failed to store, and a traceback.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    try:
        yield MlflowClient()
    except MlflowException as error:
        kind, full = error.error_code, lacks_space(error)
    else:
        return
    if full:
        raise InputOutputFault(DISK_FULL)
    raise InputOutputFault(
        f"the MLflow store did not take the record ({kind}); see that it can be reached and written to, "
        "or which one MLFLOW_TRACKING_URI names"
    )


def tag(value: object) -> str:
    """Return text that every store takes: of bounded length, and without halves of characters."""
    return str(value)[:TAG_LENGTH].encode("utf-8", "replace").decode()


def page_of(run_id: str, server: str) -> str:
    """Return the address of a run's report in the pages of the MLflow ``server``, empty when unknown."""
    try:
        with _store() as client:
            experiment = client.get_run(run_id).info.experiment_id
    except InputOutputFault:
        return ""
    return f"{server}/#/experiments/{experiment}/runs/{run_id}/artifacts/report.html"


def mirror_version(plan: str, run_id: str, release: str, status: str) -> None:
    """Mirror the ledger in the registry: a version per release, ``candidate`` or ``published`` by its status.

    The registered model has the plan's name and points to the run's files. What can be
    changed on MLflow's pages proves nothing; the ledger does.
    """
    alias = ALIASES.get(status)
    with _store() as client:
        if not client.search_registered_models(f"name = '{plan}'", max_results=1):
            client.create_registered_model(plan, description="Releases of this plan, as the ledger has them.")
        versions = client.search_model_versions(f"name = '{plan}' and run_id = '{run_id}'", max_results=1)
        about = {"tags": {"release.id": release}, "description": release}
        model = versions[0] if versions else client.create_model_version(plan, f"runs:/{run_id}/", run_id, **about)
        version = model.version
        client.set_model_version_tag(plan, version, STATUS, status)
        if alias is not None:
            client.set_registered_model_alias(plan, alias, version)
        # A version that was withdrawn is published no more, one that was decided on is no candidate.
        for name, held in client.get_registered_model(plan).aliases.items():
            if name in ALIASES.values() and name != alias and str(held) == str(version):
                client.delete_registered_model_alias(plan, name)
