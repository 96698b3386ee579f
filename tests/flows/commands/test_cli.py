"""The command line as a person and a script meet it, with a real Prefect server and a real MLflow store."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.nursery import Nursery

CANARIES = (b"Qx7-Canary", b"918273645")

pytestmark = pytest.mark.platform


def anonflow(*arguments: str | Path, home: Path, expect: int = 0, **environment: str) -> tuple[str, str]:
    """Run the command as a user does; return what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=inherited | {"ANONFLOW_HOME": str(home)} | environment,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def inline(nursery: Nursery, tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """The function that carries out a command that needs no Prefect, in a home of the test's own."""

    def give(*arguments: str | Path, expect: int = 0) -> tuple[str, str]:
        code, out, err = nursery.anonflow(*arguments, ANONFLOW_HOME=str(tmp_path / "home"))
        assert code == expect, out + err
        assert "Traceback" not in err
        return out, err

    return give


def leaks(folder: Path) -> list[str]:
    """Return the files below ``folder`` that hold a canary."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and any(canary in path.read_bytes() for canary in CANARIES)
    ]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    home = tmp_path_factory.mktemp("demo") / "home"
    out, _ = anonflow("demo", "--json", home=home)
    return home, json.loads(out)


def test_demo_publishes_real_microdata(demo, nhefs_frame):
    home, outcome = demo
    assert outcome["status"] == "published"
    folder = Path(outcome["folder"])
    assert folder.is_relative_to(home / "releases" / "nhefs")
    published = pd.read_parquet(folder / "data.parquet")
    assert not {"seqn", "id"} & set(published)
    assert len(published) == 814
    source = nhefs_frame.apply(pd.to_numeric)[list(published)]
    # In the source's missing codes and precision; a released record must not be one of the source.
    ours = {tuple(row) for row in published.astype("float64").round(2).fillna(-1).to_numpy()}
    theirs = {tuple(row) for row in source.astype("float64").round(2).fillna(-1).to_numpy()}
    assert not ours & theirs


def test_demo_satisfies_every_edit(demo, nhefs_plan):
    from flows.plan.model import load_plan
    from tasks.intake.validate import EditsSection

    _, outcome = demo
    published = pd.read_parquet(Path(outcome["folder"]) / "data.parquet")
    section = EditsSection.model_validate(nhefs_plan["edits"])
    assert len(section.rules) > 30
    assert sum(section.edit_set().violations(published).values()) == 0
    assert (published["wt82"] - published["wt71"] - published["wt82_71"]).abs().max() < 1e-9
    assert load_plan is not None


def test_prefect_kept_every_step_by_name_with_its_duration(demo):
    home, outcome = demo
    with sqlite3.connect(home / "prefect" / "prefect.db") as database:
        flows = database.execute("select name, state_name, state_type from flow_run").fetchall()
        tasks = database.execute("select name, state_type, total_run_time from task_run order by start_time").fetchall()
        artifacts = dict(database.execute("select key, data from artifact").fetchall())
    assert flows == [("nhefs", "Published", "COMPLETED")]
    assert [name for name, _, _ in tasks] == list(outcome["seconds"])
    assert {state for _, state, _ in tasks} == {"COMPLETED"}
    assert set(artifacts) == {"nhefs-risk", "nhefs-utility", "nhefs-verdict"}
    assert "membership" in artifacts["nhefs-verdict"]


def test_prefect_stored_no_result(demo):
    home, _ = demo
    storage = home / "prefect" / "storage"
    assert not storage.exists() or not any(storage.iterdir())


def test_mlflow_kept_grouped_figures_and_files(demo):
    home, outcome = demo
    with sqlite3.connect(home / "mlflow" / "mlflow.db") as database:
        of_release = "select run_uuid from tags where key = 'release.id'"
        metrics = dict(database.execute(f"select key, value from metrics where run_uuid in ({of_release})").fetchall())
        tags = dict(database.execute("select key, value from tags").fetchall())
        params = dict(database.execute("select key, value from params").fetchall())
    assert {"risk", "utility", "claim", "edits", "size"} == {key.split("/")[0] for key in metrics}
    assert metrics["edits/violations_masked"] == 0
    assert tags["release.status"] == "published"
    assert tags["release.id"] == outcome["release"]
    assert len(tags["data.sha256"]) == 64
    assert params["step2.method"] == "sequential-trees"
    names = {p.name for p in (home / "mlflow" / "artifacts").rglob("*") if p.is_file()}
    assert {"report.html", "plan.yaml", "curves.svg", "marginals.svg", "correlations.svg"} <= names


def test_everything_is_private_and_the_seed_is_nowhere_else(demo):
    home, _ = demo
    for path in [home, *home.rglob("*")]:
        if path.is_symlink() or path.is_socket():
            continue
        assert path.stat().st_mode & 0o077 == 0, path
    assert not any((home / "workspace").iterdir())


def test_no_canary_is_left_by_a_failure_in_a_task(office, people, tmp_path):
    """Of a run that publishes, tests/reliability/test_canaries.py searches all that it leaves."""
    frame = people()
    frame["age"] = frame["age"].astype(object)
    frame.loc[3, "age"] = "918273645-Qx7-Canary"
    home = tmp_path / "home"
    out, err = anonflow("run", office(frame), "--json", home=home, expect=2)
    assert json.loads(out)["status"] == "refused"
    assert "'age'" in out
    assert leaks(home) == []
    assert not any(canary.decode() in out + err for canary in CANARIES)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("policy: {utility: {pair: 0, two_samples: 0, exceeded: reject}}", 3),
        ("policy: {approval: person}", 4),
        ("policy: {approval: nobody}", 2),
    ],
)
def test_exit_codes(office, inline, tmp_path, more, code):
    out, err = inline("run", office(more=more), "--inline", expect=code)
    if code == 4:
        release = json.loads((tmp_path / "home" / "ledger.jsonl").read_text().splitlines()[-1])["release"]
        assert f"anonflow approve {release}" in out
        inline("approve", release, "--by", " ", "--reason", "x", expect=2)
        out, _ = inline("approve", release, "--by", "A. Smith", "--reason", "read it")
        assert "Published" in out
        out, _ = inline("show", release)
        assert "A. Smith" in out
        out, _ = inline("list", "--json")
        assert [e["event"] for e in json.loads(out)] == ["awaiting", "approved", "publishing", "published"]
    if code == 2:
        assert "policy.approval" in err


@pytest.mark.parametrize("arguments", [("check", "no-such.yaml"), ("run", "no-such.yaml"), ("show", "nothing")])
def test_what_is_not_there_is_refused_in_one_message(inline, arguments):
    _, err = inline(*arguments, expect=2)
    assert "Refused" in err


def test_plan_check_run_from_a_csv_alone(office, inline):
    """A newcomer's road: draft a plan, check it, run it, approve."""
    data = office().parent / "people.csv"
    plan = data.parent / "drafted.yaml"
    inline("plan", data, "-o", plan)
    inline("check", plan)
    text = plan.read_text()
    assert "Qx7-Canary" not in text
    inline("plan", data, "-o", plan, expect=2)
