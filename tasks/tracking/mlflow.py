"""The only room that knows MLflow: one run per release or compared setting, in batches, aggregates only."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tasks.common.digests import digest_of, sha256_of
from tasks.common.errors import InputOutputFault
from tasks.common.formatting import markdown_cell, sentence
from tasks.common.sections import Section
from tasks.tracking.metrics import metrics

STATUS = "release.status"
# Curves of releases must not be mixed with those of settings that were only tried.
KIND = "anonflow.kind"
OWN = "anonflow.run"
VERDICT = {"setting": "name", "status": "status", "reason": "reason"}
COMPARISONS = " comparisons"
# What MLflow shows as the description of a run or an experiment; people may go on writing there.
NOTE = "mlflow.note.content"
EXPERIMENT = (
    "One run for each assessed release of this plan, published or not: the curves of its metrics are risk "
    "and utility over releases. The signed ledger is the record: `anonflow audit verify` compares the two."
)
TRIED = "Settings of this plan that were tried beside each other with `anonflow compare`; none is a release."
# What MLflow takes in one request, and in one tag.
PARAMS_AT_ONCE = 100
TAG_LENGTH = 5000
# Tags that are given once; those of a status mirror the ledger and change with it.
LASTING = (
    "plan.sha256", "data.sha256", OWN, "anonflow.version", KIND, "release.id", "release.reason",
    "dossier.sha256", "mlflow.runName",
)  # fmt: skip


class TrackingSection(Section):
    """Where runs are logged for auditors.

    Parameters
    ----------
    experiment : The MLflow experiment; the plan's name when not stated.
    """

    experiment: str | None = None


def track(dossier: dict[str, Any], experiment: str, files: dict[str, Path]) -> str:
    """Log one assessed candidate and return the MLflow run's id.

    Parameters
    ----------
    dossier : the run's dossier; figures and names, no data
    experiment : name of the MLflow experiment
    files : what to attach, by artifact folder and path
    """
    with _store() as client:
        run_id = _run(client, experiment, dossier["release"]["id"], tags(dossier) | _description(dossier))
        _log(client, run_id, dossier, metrics(dossier), parameters(dossier))
        _attach(client, run_id, files)
        client.set_terminated(run_id, "FINISHED")
    return run_id


def track_comparison(comparison: dict[str, Any], experiment: str, files: dict[str, Path]) -> str:
    """Log compared settings as runs nested in one, and return that one's id.

    Parameters
    ----------
    comparison : plan, run, source, axes, best and sentence; and ``settings``, each with its dossier, which
        is None where the setting could not be carried out
    experiment : name of the releases' experiment; comparisons have one of their own beside it
    files : what to attach to the outer run, by artifact folder and path
    """
    from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

    beside = experiment + COMPARISONS
    axes = {f"axis.{name}": axis for name, axis in comparison["axes"].items()}
    settings = comparison["settings"]
    counted = {s: sum(one["status"] == s for one in settings) for s in ("passes", "awaiting", "rejected")}
    with _store() as client:
        name = f"compare {comparison['plan']['name']}"
        told = {"comparison.best": comparison["best"] or "", "comparison.reason": comparison["sentence"]}
        parent = _run(client, beside, name, _identity(comparison) | {KIND: "comparison"} | told)
        for number, one in enumerate(settings, start=1):
            _setting(client, beside, comparison, one, number, {MLFLOW_PARENT_RUN_ID: parent}, axes)
        figures = {f"comparison/{status}": n for status, n in counted.items()}
        stated = {"plan": comparison["plan"]["name"]} | axes
        _log(client, parent, comparison, figures | {"comparison/settings": len(settings)}, stated)
        _attach(client, parent, files)
        client.set_terminated(parent, "FINISHED")
    return parent


def _setting(
    client: Any,
    experiment: str,
    comparison: dict[str, Any],
    one: dict[str, Any],
    number: int,
    nested: dict[str, str],
    axes: dict[str, str],
) -> None:
    """Log one setting: its figures under the names that releases have, or why there are none."""
    identity = _identity(comparison) | {OWN: f"{comparison['run']['id']}-{number}", KIND: "comparison"}
    told = {f"comparison.{key}": one[value] for key, value in VERDICT.items()}
    run_id = _run(client, experiment, one["name"], identity | told | nested)
    dossier = one["dossier"]
    figures = {f"comparison/{key}": one[key] for key in ("risk", "limit", "loss", "baseline", "seconds")}
    stated = {"plan": comparison["plan"]["name"]} | axes
    if dossier is None:
        stated |= _of_steps(one["steps"])
    else:
        figures |= metrics(dossier)
        stated |= parameters(dossier)
    _log(client, run_id, comparison, {k: v for k, v in figures.items() if v is not None}, stated)
    client.set_terminated(run_id, "FAILED" if dossier is None else "FINISHED")


def _log(client: Any, run_id: str, facts: dict[str, Any], figures: dict[str, Any], stated: dict[str, Any]) -> None:
    """Log the source of ``facts``, figures and parameters, in as few requests as MLflow allows."""
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    logged = [Metric(k, float(v), now, 0) for k, v in figures.items()]
    params = [Param(k, str(v)[:500]) for k, v in stated.items()]
    client.log_inputs(run_id, [_dataset(facts)])
    client.log_batch(run_id, metrics=logged, params=params[:PARAMS_AT_ONCE])
    for start in range(PARAMS_AT_ONCE, len(params), PARAMS_AT_ONCE):
        client.log_batch(run_id, params=params[start : start + PARAMS_AT_ONCE])


def _attach(client: Any, run_id: str, files: dict[str, Path]) -> None:
    for name, path in files.items():
        folder = str(Path(name).parent)
        client.log_artifact(run_id, str(path), None if folder == "." else folder)


def _dataset(dossier: dict[str, Any]) -> Any:
    """Name the source as the run's input: its digest and size, neither its profile nor its place."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = dossier["source"]
    facts = json.dumps({"num_rows": source["records"], "num_columns": source["variables"]})
    # MLflow keeps 36 characters of a digest; the whole of it stands in the run's tags.
    dataset = Dataset(dossier["plan"]["name"], source["digest"][:36], "local", "{}", profile=facts)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "source")])


def set_status(run_id: str, status: str, **tags_: str) -> None:
    """Mirror a decision that the ledger holds in the run's tags."""
    from mlflow.entities import RunTag

    facts = {STATUS: status} | {f"release.{k}": v for k, v in tags_.items()}
    with _store() as client:
        client.log_batch(run_id, tags=[RunTag(k, tag(v)) for k, v in facts.items()])


def fingerprint(run_id: str) -> dict[str, str]:
    """Return digests of what a run holds and nobody should change, read back part by part."""
    with _store() as client:
        return _parts(client, client.get_run(run_id))


def seen(run_id: str) -> dict[str, Any] | None:
    """Return what a run is now: its parts' digests, its tags and whether it was deleted; None without it."""
    from mlflow.exceptions import MlflowException

    with _store() as client:
        try:
            run = client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        deleted = run.info.lifecycle_stage != "active"
        return {"parts": _parts(client, run), "tags": dict(run.data.tags), "deleted": deleted}


def recorded(home: str) -> list[dict[str, str]]:
    """Return the tags of every run, deleted or not, in which a home's decisions were mirrored."""
    from mlflow.entities import ViewType

    found: list[dict[str, str]] = []
    with _store() as client:
        experiments = [e.experiment_id for e in client.search_experiments(view_type=ViewType.ALL)]
        token: str | None = None
        while experiments:
            page = client.search_runs(experiments, f"tags.`release.home` = '{home}'", ViewType.ALL, page_token=token)
            found += [dict(run.data.tags) for run in page]
            if not (token := page.token):
                break
    return found


def _parts(client: Any, run: Any) -> dict[str, str]:
    """Return a digest of each part of a run; tags that mirror a decision may change, and are left out."""
    given = {k: v for k, v in run.data.tags.items() if k in LASTING}
    sources = [[i.dataset.name, i.dataset.digest, i.dataset.profile] for i in run.inputs.dataset_inputs]
    return {
        "run": digest_of(_circumstances(client, run)),
        "history": digest_of(_history(client, run)),
        "metrics": digest_of(dict(run.data.metrics)),
        "parameters": digest_of(dict(run.data.params)),
        "tags": digest_of(given),
        "source": digest_of(sources),
        "artifacts": digest_of(_artifacts(client, str(run.info.run_id))),
    }


def _circumstances(client: Any, run: Any) -> dict[str, Any]:
    """Return in which experiment a run is, whose it is, from when to when it went, and how it ended."""
    info = run.info
    return {
        "experiment": client.get_experiment(info.experiment_id).name,
        "user": [info.user_id, run.data.tags.get("mlflow.user")],
        "times": [info.start_time, info.end_time],
        "status": str(info.status),
    }


def _history(client: Any, run: Any) -> dict[str, list[tuple[float, int, int]]]:
    """Return every value that was ever logged, of which curves are drawn; the latest ones stand elsewhere."""
    return {
        key: sorted((m.value, m.step, m.timestamp) for m in client.get_metric_history(run.info.run_id, key))
        for key in sorted(run.data.metrics)
    }


def _artifacts(client: Any, run_id: str) -> dict[str, str]:
    """Return the SHA-256 of every attached file, by its path."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with TemporaryDirectory() as scratch:
        root = Path(client.download_artifacts(run_id, "", scratch))
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        return {path.relative_to(root).as_posix(): sha256_of(path) for path in files}


@contextmanager
def _store() -> Iterator[Any]:
    """Give the client of the tracking store; of what it raises only the kind is passed on."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    # It would print what it was told to store, and a traceback; what failed is said below.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    try:
        yield MlflowClient()
    except MlflowException as error:
        kind = error.error_code
    else:
        return
    raise InputOutputFault(
        f"the MLflow store did not take the record ({kind}); see that it can be reached and written to, "
        "or which one MLFLOW_TRACKING_URI names"
    )


def _run(client: Any, experiment: str, name: str, identity: dict[str, str]) -> str:
    """Return the MLflow run of this identity: a new one, or that of an attempt which failed midway."""
    found = client.get_experiment_by_name(experiment)
    about = {NOTE: EXPERIMENT if identity[KIND] == "release" else TRIED}
    experiment_id = found.experiment_id if found else client.create_experiment(experiment, tags=about)
    begun = client.search_runs([experiment_id], f"tags.`{OWN}` = '{identity[OWN]}'", max_results=1)
    if begun:
        return str(begun[0].info.run_id)
    run = client.create_run(experiment_id, run_name=name, tags={k: tag(v) for k, v in identity.items()})
    return str(run.info.run_id)


def tag(value: object) -> str:
    """Return text that every store takes: of bounded length, and without halves of characters."""
    return str(value)[:TAG_LENGTH].encode("utf-8", "replace").decode()


def parameters(dossier: dict[str, Any]) -> dict[str, Any]:
    """Return what the plan set, in flat names."""
    flat: dict[str, Any] = {
        "plan": dossier["plan"]["name"],
        "reference": dossier["split"]["kind"],
        "edits.policy": dossier["edits"]["policy"],
        "assessment.k": dossier["figures"]["k"],
    }
    return flat | _of_steps(dossier["method"]["steps"])


def _of_steps(steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {f"step{number}.{k}": v for number, step in enumerate(steps, start=1) for k, v in step.items()}


def tags(dossier: dict[str, Any]) -> dict[str, str]:
    """Return what identifies the run and says in one look how it ended."""
    return _identity(dossier) | {
        STATUS: {"publish": "accepted", "reject": "rejected", "await": "awaiting"}[dossier["verdict"]["decision"]],
        KIND: "release",
        "release.id": dossier["release"]["id"],
        "release.reason": dossier["verdict"]["reason"],
        "dossier.sha256": dossier["sha256"],
    }


def _description(dossier: dict[str, Any]) -> dict[str, str]:
    """Return what a person reads first about a run: what it is, what the policy says, by which method."""
    verdict, release = dossier["verdict"], dossier["release"]
    title = dossier["plan"]["title"] or dossier["plan"]["name"]
    methods = ", ".join(step["method"] for step in dossier["method"]["steps"])
    words = {"publish": "may be published", "reject": "is rejected", "await": "waits for a person"}
    text = (
        f"**{markdown_cell(title)}**: {words[verdict['decision']]}. "
        f"{markdown_cell(sentence(verdict['reason']))}\n\n"
        f"{release['records']} records, {len(release['variables'])} variables; {markdown_cell(methods)}. "
        "The whole of it: `report.html` among the artifacts."
    )
    return {NOTE: text, "mlflow.user": dossier["run"]["requester"], "mlflow.source.name": "anonflow"}


def _identity(facts: dict[str, Any]) -> dict[str, str]:
    """Return which run it was, of which plan and data."""
    return {
        "plan.sha256": facts["plan"]["digest"],
        "data.sha256": facts["source"]["digest"],
        OWN: facts["run"]["id"],
        "anonflow.version": facts["run"]["versions"]["anonflow"],
    }


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

    The registered model has the plan's name and points to the run's files. What MLflow's pages let anybody
    change proves nothing; the ledger does.
    """
    alias = {"awaiting": "candidate", "published": "published"}.get(status)
    with _store() as client:
        if not client.search_registered_models(f"name = '{plan}'", max_results=1):
            client.create_registered_model(plan, description="Releases of this plan, as the ledger has them.")
        known = client.search_model_versions(f"name = '{plan}' and run_id = '{run_id}'", max_results=1)
        if known:
            version = known[0].version
        else:
            made = client.create_model_version(
                plan, f"runs:/{run_id}/", run_id=run_id, tags={"release.id": release}, description=release
            )
            version = made.version
        client.set_model_version_tag(plan, version, STATUS, status)
        if alias is not None:
            client.set_registered_model_alias(plan, alias, version)
        aliases = client.get_registered_model(plan).aliases
        if alias != "candidate" and str(aliases.get("candidate")) == str(version):
            client.delete_registered_model_alias(plan, "candidate")
