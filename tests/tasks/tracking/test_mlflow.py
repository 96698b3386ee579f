"""What auditors read in MLflow: one run per release, aggregates only, in a real SQLite store."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from tasks.common.digests import sha256_of
from tasks.common.home import Home
from tasks.record.dossier import Dossier, read_dossier
from tasks.tracking.runs import description
from tests.limits import UTILITY

ROOT = Path(__file__).resolve().parents[3]
CANARY = "CANARY4711"
NUMBER = 98765.4321
PLAN = """
anonflow: 1
name: people
source: {path: people.csv}
variables:
  - {name: id, kind: nominal, role: identifier}
  - {name: income, kind: continuous}
  - {name: age, kind: continuous}
  - {name: town, kind: nominal, levels: [x, y, z]}
  - {name: sex, kind: binary}
edits: {rules: [{edit: bound, name: age, variable: age, lower: 18, upper: 90}]}
steps: [{method: spectral-swap}]
assessment: {margin: 0.4}
policy: {approval: person, membership_auc: 0.9, UTILITY}
seed: {secret: ANONFLOW_TEST_SEED}
""".replace("UTILITY", UTILITY)
SEED = "730274627364518273645182736451827364518273"

# A process of its own, because MLflow reads its settings at import and other tests have theirs.
RELEASE = """
import json, sys
from pathlib import Path
from flows import embedded
home, plan = Path(sys.argv[1]), Path(sys.argv[2])
embedded.apply(home)
embedded.tracking_ready(home)
from flows.plan.model import load_plan
from flows import release
from flows.release import Direct, carry_out
from tasks.tracking import mlflow as track
from tasks.common.home import Home
found = {}
def tracked(run):
    found["run"] = track.track(run)
    found["again"] = track.track(run)
    found["files"] = sorted(run.files)
    found["tracked"] = run
    return found["run"]
release.track = tracked
outcome = carry_out(load_plan(plan), Home.locate(home), Direct())
found["release"] = outcome.release
track.set_status(found["run"], "approved", decided_by="me", decision_reason="wörks \\udc80" + "x" * 9000)
found["status"] = outcome.status
# The same calls on a store that nobody can reach: the discard port, in an address with a password.
import mlflow
from tasks.common.errors import Fault, sanitise_errors
mlflow.set_tracking_uri("http://me:hunter2@127.0.0.1:9")
found["unreachable"] = []
calls = ((track.track, (found.pop("tracked"),)), (track.set_status, (found["run"], "published")))
for function, arguments in calls:
    try:
        sanitise_errors(function)(*arguments)
    except Fault as error:
        clean = error.__context__ is None and error.__cause__ is None
        found["unreachable"].append([type(error).__name__, str(error), clean, int(error.code)])
print(json.dumps(found, default=str))
"""


@dataclass(frozen=True)
class Tracked:
    """The home of one tracked release, and what the process said."""

    home: Path
    said: dict[str, Any]
    told: str

    @property
    def dossier(self) -> Dossier:
        return read_dossier(Home(self.home), self.said["release"])

    def ask(self, sql: str, *arguments: str) -> list[tuple[Any, ...]]:
        database = self.home / "mlflow" / "mlflow.db"
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, arguments).fetchall()

    def pairs(self, sql: str) -> dict[str, Any]:
        return dict(self.ask(sql, self.said["run"]))


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program with no other setting of the frameworks than a quick refusal."""
    own = {
        "ANONFLOW_TEST_SEED": SEED,
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
        "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "2",
    }
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "PREFECT"))} | own,
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Tracked:
    base = tmp_path_factory.mktemp("tracked")
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "id": [f"{CANARY}-{i}" for i in range(240)],
            "income": np.exp(rng.normal(8, 1, 240)).round(2),
            "age": rng.integers(18, 91, 240),
            "town": rng.choice(["x", "y", "z"], 240),
            "sex": rng.integers(0, 2, 240),
        }
    )
    people.loc[:5, "income"] = [NUMBER + i for i in range(6)]
    people.to_csv(base / "people.csv", index=False)
    (base / "plan.yaml").write_text(PLAN)
    done = python(RELEASE, base / "home", base / "plan.yaml")
    assert done.returncode == 0, done.stderr
    return Tracked(base / "home", json.loads(done.stdout.splitlines()[-1]), done.stderr)


pytestmark = pytest.mark.platform


def test_one_release_is_one_run_even_when_it_is_tried_again(tracked: Tracked) -> None:
    rows = tracked.ask("SELECT run_uuid, name, status, lifecycle_stage FROM runs")
    assert rows == [(tracked.said["run"], tracked.said["release"], "FINISHED", "active")]
    assert tracked.said["again"] == tracked.said["run"]
    names = tracked.ask("SELECT e.name FROM runs r JOIN experiments e ON r.experiment_id = e.experiment_id")
    assert names == [("people",)]


def test_parameters_are_the_plans(tracked: Tracked) -> None:
    found = tracked.pairs("SELECT key, value FROM params WHERE run_uuid = ?")
    assert found["plan"] == "people"
    assert found["reference"] == "holdout"
    assert found["assessment.k"] == "5"
    assert found["step1.method"] == "spectral-swap"
    assert found["step1.released"] == "calibrated"


def test_metrics_are_grouped_and_the_dossiers(tracked: Tracked) -> None:
    found = tracked.pairs("SELECT key, value FROM latest_metrics WHERE run_uuid = ?")
    near = partial(pytest.approx, rel=1e-4)
    assert {name.split("/")[0] for name in found} == {"size", "risk", "utility", "edits"}
    figures = tracked.dossier.assessment
    assert found["size/source"] == 240
    assert found["size/released"] == found["size/reference"] == 120
    for measure in figures.risk.comparison.measures:
        for key in ("sup_excess", "upper", "lower", "ks_p"):
            assert found[f"risk/{measure.name}/{key}"] == near(getattr(measure, key))
    assert found["risk/membership/auc"] == near(figures.risk.membership.auc)
    for key in ("auc", "lower", "upper"):
        assert found[f"risk/membership_by_scores/{key}"] == near(getattr(figures.risk.score_coincidence.attack, key))
    assert found["risk/prior_releases"] == 0
    assert 0 <= found["utility/propensity/released_pmse"] <= 0.25
    assert found["utility/marginals_2/mean"] == near(figures.utility.marginals[0].mean)
    assert found["risk/tail/p"] == near(figures.risk.tail.p)
    median = figures.utility.figure("correlation").released_median
    assert found["utility/correlation/released_median"] == near(median)
    assert found["edits/violated_masked"] == 0
    assert not tracked.ask("SELECT key FROM metrics WHERE is_nan")
    # Digits that nobody reads would only hide those that count.
    assert all(v.is_integer() or v == float(f"{v:.5g}") for v in found.values())


def test_tags_say_what_it_was_and_how_it_ended(tracked: Tracked) -> None:
    found = tracked.pairs("SELECT key, value FROM tags WHERE run_uuid = ?")
    dossier = tracked.dossier
    assert tracked.said["status"] == "awaiting"
    assert found["release.status"] == "approved"
    assert found["release.decided_by"] == "me"
    assert found["release.decision_reason"].startswith("wörks ?xxx")
    assert found["release.id"] == dossier.release.id
    assert found["release.reason"] == dossier.verdict.reason
    assert found["plan.sha256"] == dossier.plan.digest
    assert found["data.sha256"] == sha256_of(tracked.home.parent / "people.csv")
    assert found["dossier.sha256"] == dossier.digest
    assert found["anonflow.run"] == dossier.run.id
    assert found["mlflow.user"] == dossier.run.requester
    assert found["mlflow.note.content"].startswith("**people**: ")
    assert "120 records, 4 variables; spectral-swap." in found["mlflow.note.content"]
    (about,) = tracked.ask("SELECT value FROM experiment_tags WHERE key = 'mlflow.note.content'")[0]
    assert "curves of its metrics are risk and utility over releases" in about


def test_the_source_is_named_by_its_digest_and_size(tracked: Tracked) -> None:
    (row,) = tracked.ask("SELECT name, digest, dataset_source, dataset_profile FROM datasets")
    assert row[:3] == ("people", sha256_of(tracked.home.parent / "people.csv")[:36], "{}")
    assert json.loads(row[3]) == {"num_rows": 240, "num_columns": 4}


def test_artifacts_are_the_documents_and_the_pictures(tracked: Tracked) -> None:
    ((place,),) = tracked.ask("SELECT artifact_uri FROM runs")
    folder = Path(place.removeprefix("file://"))
    assert folder.is_relative_to(tracked.home / "mlflow" / "artifacts")
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    assert sorted(found) == tracked.said["files"]
    assert {"report.html", "method.md", "assessment.json", "plan.yaml"} <= set(found)
    assert sum(name.startswith("pictures/") for name in found) == 3
    assert not any(p.suffix in (".csv", ".parquet") for p in found.values())
    assert yaml.safe_load(found["plan.yaml"].read_text())["name"] == "people"
    published = tracked.dossier
    for name in ("report.html", "assessment.json"):
        assert sha256_of(found[name]) == published.files[name]


def test_nothing_in_mlflow_is_a_value_an_identifier_or_the_seed(tracked: Tracked) -> None:
    canaries = [CANARY, *(str(NUMBER + i) for i in range(6)), "98765.4", SEED]
    files = [p for p in (tracked.home / "mlflow").rglob("*") if p.is_file()]
    assert any(p.name == "mlflow.db" for p in files)
    for file in files:
        content = file.read_bytes()
        assert not any(canary.encode() in content for canary in canaries), file.name
    assert not any(canary in json.dumps(tracked.said) + tracked.told for canary in canaries)


def test_the_store_is_the_owners_alone(tracked: Tracked) -> None:
    wide = [p for p in (tracked.home / "mlflow").rglob("*") if p.stat().st_mode & 0o077]
    assert wide == []


def test_a_store_that_cannot_be_reached_is_a_fault_with_a_safe_message(tracked: Tracked) -> None:
    said = tracked.said["unreachable"]
    assert [s[0] for s in said] == ["InputOutputFault", "InputOutputFault"]
    for _, message, clean, code in said:
        assert message.startswith("the MLflow store did not take the record (")
        assert clean
        assert code == 1
    assert "hunter2" not in json.dumps(tracked.said)
    assert "hunter2" not in tracked.told


def test_markup_of_a_title_or_a_reason_stays_text_in_the_description(tracked: Tracked) -> None:
    dossier = tracked.dossier
    title = "![t](http://evil.example/a.png) <script>alert(1)</script>"
    verdict = replace(dossier.verdict, reason="by <script>alert(2)</script>")
    note = description(replace(dossier, plan=replace(dossier.plan, title=title), verdict=verdict))
    assert "alert(1)" in note
    assert "alert(2)" in note
    assert not re.search(r"(?<!\\)[<\[]|://", note)
