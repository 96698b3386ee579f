"""The only room that knows MLflow: one run per release, logged in batches, aggregates only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.faults import InputOutputFault
from tasks.workspace import Section

STATUS = "release.status"
# What MLflow takes in one request, and in one tag.
PARAMS_AT_ONCE = 100
TAG_LENGTH = 5000


class TrackingSection(Section):
    """Where auditors read: the experiment's name, by default the plan's."""

    experiment: str | None = None


def track(dossier: dict[str, Any], experiment: str, files: dict[str, Path]) -> str:
    """Log one assessed candidate and return the MLflow run's id.

    Parameters
    ----------
    dossier : the run's dossier; figures and names, no data
    experiment : name of the MLflow experiment
    files : what to attach, by artifact folder and path
    """
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    logged = [Metric(k, float(v), now, 0) for k, v in metrics(dossier).items()]
    params = [Param(k, str(v)[:500]) for k, v in parameters(dossier).items()]
    with _store() as client:
        run_id = _run(client, dossier, experiment)
        client.log_inputs(run_id, [_dataset(dossier)])
        client.log_batch(run_id, metrics=logged, params=params[:PARAMS_AT_ONCE])
        for start in range(PARAMS_AT_ONCE, len(params), PARAMS_AT_ONCE):
            client.log_batch(run_id, params=params[start : start + PARAMS_AT_ONCE])
        for name, path in files.items():
            folder = str(Path(name).parent)
            client.log_artifact(run_id, str(path), None if folder == "." else folder)
        client.set_terminated(run_id, "FINISHED")
    return run_id


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
        client.log_batch(run_id, tags=[RunTag(k, _tag(v)) for k, v in facts.items()])


@contextmanager
def _store() -> Iterator[Any]:
    """Give the client of the tracking store; of what it raises only the kind is passed on."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

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


def _run(client: Any, dossier: dict[str, Any], experiment: str) -> str:
    """Return the MLflow run of this dossier: a new one, or that of an attempt which failed midway."""
    found = client.get_experiment_by_name(experiment)
    experiment_id = found.experiment_id if found else client.create_experiment(experiment)
    ours = f"tags.`anonflow.run` = '{dossier['run']['id']}'"
    begun = client.search_runs([experiment_id], ours, max_results=1)
    if begun:
        return str(begun[0].info.run_id)
    identity = {k: _tag(v) for k, v in tags(dossier).items()}
    run = client.create_run(experiment_id, run_name=dossier["release"]["id"], tags=identity)
    return str(run.info.run_id)


def _tag(value: object) -> str:
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
    for number, step in enumerate(dossier["method"]["steps"], start=1):
        flat |= {f"step{number}.{key}": value for key, value in step.items()}
    return flat


def metrics(dossier: dict[str, Any]) -> dict[str, float]:
    """Return the figures in groups: risk/…, utility/…, claim/…, method/…, edits/…, size/…."""
    figures, edits = dossier["figures"], dossier["edits"]
    flat: dict[str, Any] = {
        "size/source": dossier["source"]["records"],
        "size/released": figures["records"]["released"],
        "size/reference": figures["records"]["reference"],
        "risk/gates_failed": sum(g["verdict"] == "fail" for g in dossier["verdict"]["gates"]),
        "risk/gates_inconclusive": sum(g["verdict"] == "inconclusive" for g in dossier["verdict"]["gates"]),
    }
    for measure in figures["comparison"]["measures"]:
        for key in ("sup_excess", "upper", "lower", "ks_p"):
            flat[f"risk/{measure['name']}/{key}"] = measure[key]
    for rule in ("tail", "isolated", "extreme"):
        flat |= {f"risk/{rule}/{k}": v for k, v in figures[rule].items() if isinstance(v, int | float)}
    if figures["membership"] is not None:
        flat |= {f"risk/membership/{k}": figures["membership"][k] for k in ("auc", "lower", "upper")}
    for name, figure in figures["utility"].items():
        for side in ("released", "reference"):
            if figure[side] is not None:
                flat |= {f"utility/{name}/{side}_{k}": v for k, v in figure[side].items()}
    flat |= _of_the_method(figures)
    flat["edits/repaired_records"] = edits["repaired"]["records"]
    flat["edits/repaired_cells"] = edits["repaired"]["cells"]
    flat["edits/set_aside"] = edits["set_aside"]
    for side in ("raw", "masked"):
        flat[f"edits/violated_{side}"] = sum(not r["success"] for r in edits[side]["rules"])
        flat[f"edits/violations_{side}"] = sum(r["violated"] or 0 for r in edits[side]["rules"])
    return {k: float(v) for k, v in flat.items() if v is not None}


def _of_the_method(figures: dict[str, Any]) -> dict[str, Any]:
    """Return what only some methods have: promises with their figures, steps' own figures, boxes."""
    flat = {f"method/{name}": value for name, value in figures["method"].items()}
    for claim in figures["claims"]:
        if claim["kind"] != "NoFormalGuarantee":
            found = claim["figures"] | {"holds": claim["holds"]}
            flat |= {f"claim/{claim['kind']}/{key}": value for key, value in found.items()}
    if figures["boxes"] is not None:
        flat |= {f"risk/boxes/{key}": value for key, value in figures["boxes"]["original"].items()}
        attack = figures["boxes"]["membership"]
        flat |= {f"risk/boxes/membership_{key}": attack[key] for key in ("auc", "lower", "upper") if attack}
    return flat


def tags(dossier: dict[str, Any]) -> dict[str, str]:
    """Return what identifies the run and says in one look how it ended."""
    return {
        STATUS: {"publish": "accepted", "reject": "rejected", "await": "awaiting"}[
            dossier["verdict"]["decision"]
        ],
        "release.id": dossier["release"]["id"],
        "release.reason": dossier["verdict"]["reason"],
        "plan.sha256": dossier["plan"]["digest"],
        "data.sha256": dossier["source"]["digest"],
        "dossier.sha256": dossier["sha256"],
        "anonflow.run": dossier["run"]["id"],
        "anonflow.version": dossier["run"]["versions"]["anonflow"],
    }
