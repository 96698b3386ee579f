"""Auditors and approvers at the command line, and what was done to MLflow, on a real store."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows import embedded
from flows.cli import app, exit_code_of
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.audit import rebuild, tracked_runs
from tasks.audit import verification as audit
from tasks.common import keys
from tasks.common.errors import Refused
from tasks.common.formatting import to_minute
from tasks.common.home import Home, make_private, write_private
from tasks.decision import conclude, outcomes
from tasks.decision.approval import decide
from tasks.record import approvers, ledger
from tasks.record.decision import ACTS, Decision, sign
from tasks.record.entry import ApproverFacts, ReleaseFacts
from tasks.tracking import mlflow as track
from tests.nursery import Nursery

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

CANARIES = ("Qx7-Canary", "918273645")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def run(plan: Path, home: Home, **options: Any) -> outcomes.Outcome:
    return carry_out(load_plan(plan), home, Direct(), **options)


def last_facts(home: Home) -> ReleaseFacts:
    return ledger.find(home, ReleaseFacts)[-1].facts


def client() -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient()


def ask(capsys: pytest.CaptureFixture[str], home: Home, *arguments: str) -> tuple[int, str, str]:
    """Give a command that needs no MLflow, in this process; return how it ended and what it said."""
    capsys.readouterr()
    code = exit_code_of(lambda: app([*arguments, "--home", str(home.path)], standalone_mode=True), False)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def anonflow(nursery: Nursery, home: Home) -> Callable[..., str]:
    """The function that carries out a command as a user does, and returns what it printed."""

    def give(*arguments: str | Path, expect: int = 0) -> str:
        code, out, err = nursery.anonflow(*arguments, ANONFLOW_HOME=str(home.path), COLUMNS="200")
        assert code == expect, out + err
        assert "Traceback" not in err
        assert not any(canary in out + err for canary in CANARIES)
        return out + err

    return give


# MLflow


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory, people_table: Any, tracking: None) -> tuple[Home, str, str]:
    """A home with one release, its MLflow run, and the ledger's last digest."""
    base = tmp_path_factory.mktemp("audited")
    home = Home.locate(base / "home")
    outcome = run(people_table(base), home)
    assert outcome.status == "published", outcome.reason
    assert outcomes.mirror_entry(home, outcome.entry)
    assert audit.verify(home) == []
    assert outcome.mlflow_run is not None
    return home, outcome.mlflow_run, outcome.release


@pytest.fixture(scope="module")
def people_table(people: Callable[..., Any], write_office: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that writes a small table and its plan."""
    return lambda folder, more="": write_office(folder, people(1400), margin=0.25, more=more)


def kinds(home: Home) -> set[str]:
    return {f.kind for f in audit.verify(home)}


def artifact(run_id: str) -> Path:
    place = client().get_run(run_id).info.artifact_uri
    return Path(place.removeprefix("file://"))


Change = tuple[Callable[[str], object], str]


def renamed(name: str) -> Callable[[str], object]:
    """Return what gives the experiment of a run another name."""
    return lambda r: client().rename_experiment(client().get_run(r).info.experiment_id, name)


# Changes of one copy of a run, each with the finding that it adds to those of the changes before.
CHANGES: dict[str, tuple[Change, ...]] = {
    "values replaced": (
        (lambda r: client().set_tag(r, "data.sha256", "0" * 64), "mlflow tags"),
        (lambda r: client().log_metric(r, "risk/membership/auc", 0.5), "mlflow metrics"),
        (lambda r: client().set_tag(r, "release.decided_by", "Eve"), "mlflow decision"),
        (lambda r: client().set_tag(r, "mlflow.user", "Eve"), "mlflow run"),
        (lambda r: client().log_param(r, "approved", "yes"), "mlflow parameters"),
        (lambda r: (artifact(r) / "method.md").write_text("nothing was done"), "mlflow artifacts"),
        (lambda r: client().set_tag(r, "release.entry", f"1 {'0' * 64}"), "truncated"),
        (lambda r: client().delete_run(r), "mlflow deleted"),
    ),
    "values added": (
        (lambda r: client().log_metric(r, "risk/membership/auc", 0.5, timestamp=0, step=0), "mlflow history"),
        (lambda r: client().log_metric(r, "risk/none", 0.0), "mlflow metrics"),
        (lambda r: client().set_tag(r, "release.decision_reason", "fine"), "mlflow decision"),
        (lambda r: client().log_text(r, "x", "more.txt"), "mlflow artifacts"),
        (lambda r: client().set_terminated(r, "FAILED", end_time=1), "mlflow run"),
    ),
    "names and files": (
        (renamed("another"), "mlflow run"),
        (lambda r: client().set_tag(r, "release.status_since", "2026-01-01"), "mlflow decision"),
        (lambda r: shutil.rmtree(artifact(r)), "mlflow artifacts"),
    ),
}


@pytest.fixture
def own(tmp_path: Path, tracked: tuple[Home, str, str]) -> tuple[Home, str]:
    """A copy of the home whose ledger names a copy of the run, to be spoilt."""
    home, run_id, _ = tracked
    run = client().get_run(run_id)
    copy = client().create_run(run.info.experiment_id, run_name=run.info.run_name, tags=dict(run.data.tags))
    from mlflow.entities import Metric, Param

    client().log_batch(
        copy.info.run_id,
        [Metric(k, v, 10, 0) for k, v in run.data.metrics.items()],
        [Param(k, v) for k, v in run.data.params.items()],
    )
    client().log_inputs(copy.info.run_id, run.inputs.dataset_inputs)
    for path in sorted(artifact(run_id).iterdir()):
        if path.is_dir():
            client().log_artifacts(copy.info.run_id, str(path), path.name)
        else:
            client().log_artifact(copy.info.run_id, str(path))
    mine = Home(tmp_path / "own")
    shutil.copytree(home.path, mine.path)
    client().set_terminated(copy.info.run_id)
    facts = replace(last_facts(mine), mlflow_run=copy.info.run_id, mlflow=track.fingerprint(copy.info.run_id))
    entry = ledger.append(mine, "published", facts)
    client().set_tag(copy.info.run_id, "release.entry", f"{entry.number} {entry.digest}")
    client().set_tag(copy.info.run_id, "release.status_since", entry.time)
    assert audit.verify(mine) == []
    return mine, copy.info.run_id


@pytest.mark.parametrize("changes", CHANGES.values(), ids=list(CHANGES))
def test_what_was_done_to_a_run_in_mlflow_is_found(own: tuple[Home, str], changes: tuple[Change, ...]) -> None:
    home, run_id = own
    before: set[str] = set()
    try:
        for change, kind in changes:
            change(run_id)
            after = kinds(home)
            assert kind in after - before, kind
            before = after
    finally:
        client().restore_run(run_id)
        renamed("office")(run_id)
        client().set_tag(run_id, "release.home", "another")


def test_a_status_changed_in_mlflow_is_found_and_mirrored_again(own: tuple[Home, str]) -> None:
    home, run_id = own
    client().set_tag(run_id, "release.status", "approved")
    assert kinds(home) == {"mlflow status"}
    assert audit.mirror(home) == 2
    assert kinds(home) == set()
    client().set_tag(run_id, "release.home", "another")


def test_curves_over_the_releases_stand_beside_their_limits_and_are_compared(
    own: tuple[Home, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, run_id = own
    curves = client().get_experiment_by_name("office curves").experiment_id

    def runs() -> dict[str, Any]:
        return {run.info.run_name: run for run in client().search_runs([curves])}

    shown, limits = (runs()[name].data.metrics for name in ("releases", "limits"))
    assert shown.keys() == limits.keys()
    assert {"risk at most/linkability", "risk p-value at least/identical records", "utility at least/regressions"} <= {
        *shown
    }
    assert all(shown[key] <= limits[key] for key in shown if "at most/" in key)
    assert all(shown[key] >= limits[key] for key in shown if "at least/" in key)
    (first, *_) = client().get_metric_history(runs()["releases"].info.run_id, "risk at most/linkability")
    entry = ledger.find(home, ReleaseFacts, "published")[0]
    assert (first.step, first.timestamp) == (1, datetime.fromisoformat(entry.time).timestamp() * 1000)
    about = runs()["releases"].data.tags["mlflow.note.content"]
    row = f"| {to_minute(entry.time)} | {entry.facts.release} | the policy alone |"
    assert f"| 1 {row}" in about
    (overview,) = client().search_runs([client().get_experiment_by_name("published releases").experiment_id])
    assert row in overview.data.tags["mlflow.note.content"]
    code, listed, _ = ask(capsys, home, "list", "--risk", "--json")
    (row,) = json.loads(listed)
    assert (code, row["Release"], row["Approved by"]) == (0, entry.facts.release, "the policy alone")
    assert ", limit " in row["Risk"]
    assert row["Risk"] in about
    # Names of releases are there to be copied, also from a narrow terminal.
    monkeypatch.setenv("COLUMNS", "60")
    shown = ask(capsys, home, "list", "--risk")[1]
    assert entry.facts.release in shown
    assert "…" not in shown
    client().log_metric(runs()["limits"].info.run_id, "risk at most/linkability", 0.9, step=2)
    assert kinds(home) == {"mlflow curves"}
    audit.mirror(home)
    assert kinds(home) == set()
    assert len(runs()) == 2
    client().set_tag(run_id, "release.home", "another")


def test_the_registry_names_a_release_published_until_it_is_withdrawn(
    own: tuple[Home, str], capsys: pytest.CaptureFixture[str]
) -> None:
    home, run_id = own
    entry = ledger.find(home, ReleaseFacts, "published")[-1]
    assert outcomes.mirror_entry(home, entry)
    assert client().get_run(run_id).data.tags["release.risk"] in ask(capsys, home, "list", "--risk", "--json")[1]
    version = client().get_model_version_by_alias("office", "published")
    assert (version.run_id, version.tags["release.status"]) == (run_id, "published")
    track.mirror_version("office", run_id, entry.facts.release, "withdrawn")
    assert client().get_model_version("office", version.version).tags["release.status"] == "withdrawn"
    assert client().get_registered_model("office").aliases == {}
    client().set_tag(run_id, "release.home", "another")


def test_notes_that_people_add_in_mlflow_are_no_finding(own: tuple[Home, str]) -> None:
    home, run_id = own
    client().set_tag(run_id, "mlflow.note.content", "read by the committee")
    client().set_tag(run_id, "reviewed", "yes")
    assert kinds(home) == set()
    client().set_tag(run_id, "release.home", "another")


def test_what_is_read_from_mlflow_lies_in_the_home_meanwhile(
    own: tuple[Home, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, run_id = own
    before, places = track._artifacts, []

    def noted(given: Any, *run: Any) -> dict[str, str]:
        places.append(Path(tempfile.gettempdir()))
        return before(given, *run)

    monkeypatch.setattr(track, "_artifacts", noted)
    assert kinds(home) == set()
    assert places
    assert all(p.is_relative_to(home.workspaces) for p in places)
    assert list(home.workspaces.iterdir()) == []
    monkeypatch.setattr(tracked_runs.Run, "opened", lambda *_: (_ for _ in ()).throw(PermissionError))
    assert kinds(home) == set()
    assert not places[-1].is_relative_to(home.path)
    client().set_tag(run_id, "release.home", "another")


def test_a_run_that_is_gone_for_good_is_found(own: tuple[Home, str], monkeypatch: pytest.MonkeyPatch) -> None:
    home, run_id = own
    ledger.append(home, "published", replace(last_facts(home), mlflow_run="f" * 32))
    assert "mlflow deleted" in kinds(home)
    client().set_tag(run_id, "release.home", "another")


def test_a_ledger_put_back_to_an_older_state_is_found_by_what_mlflow_mirrors(
    tracked: tuple[Home, str, str], tmp_path: Path
) -> None:
    home, _, release = tracked
    mine = Home(tmp_path / "older")
    shutil.copytree(home.path, mine.path)
    for path in (mine.ledger, mine.head):
        path.unlink()
    shutil.rmtree(mine.releases)
    ledger.append(mine, "approver-removed", ApproverFacts(approver="No One", by="x", public_key=""))
    found = audit.verify(mine)
    assert "truncated" in {f.kind for f in found}
    assert any(release in f.where for f in found)
    assert not [f for f in audit.verify(mine, mlflow=False) if f.kind == "truncated"]


def test_without_mlflow_the_rest_is_checked_and_it_is_said(
    tracked: tuple[Home, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    home, _, _ = tracked
    before = mlflow.get_tracking_uri()
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    try:
        mlflow.set_tracking_uri("http://me:hunter2@127.0.0.1:9")
        (finding,) = audit.verify(home)
    finally:
        mlflow.set_tracking_uri(before)
    assert finding.kind == "mlflow not reached"
    assert "hunter2" not in finding.sentence


# People and duties, from plan to withdrawal


POLICY = "policy: {approval: person, approvers: 2, requester_may_approve: false, decide_within_days: 3}"


def person(home: Home, base: Path, name: str, *accounts: str) -> Path:
    path = base / f"{name}.pem"
    write_private(path, keys.new_private())
    approvers.add(home, name, keys.read_private(path, name).public_key(), accounts)
    return path


def settle(home: Home, base: Path, action: str, release: str, name: str) -> outcomes.Outcome:
    dossier = ledger.of_release(home, release)[-1].facts.dossier
    decision = Decision(act=ACTS[action], release=release, dossier=dossier, by=name, reason="read")
    signature = sign(base / f"{name}.pem", decision)
    outcome = decide(home, Decision(act=action, release=release, by=name, reason="read", signature=signature))
    assert outcomes.mirror_entry(home, outcome.entry)
    return outcome


def test_a_release_that_two_must_approve_and_one_withdraws(
    people_table: Any, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = people_table(tmp_path, POLICY)
    with pytest.raises(Refused, match="requester_may_approve: false needs a list of people"):
        run(plan, home)
    for name in ("Ann", "Bob", "Carl"):
        person(home, tmp_path, name)
    monkeypatch.setenv("ANONFLOW_REQUESTER", "Carl")
    outcome = run(plan, home)
    assert outcome.status == "awaiting", outcome.reason
    assert last_facts(home).requester == "Carl"
    assert len(last_facts(home).code) == 64
    with pytest.raises(Refused, match="Carl asked for this release"):
        settle(home, tmp_path, "approve", outcome.release, "Carl")
    assert settle(home, tmp_path, "approve", outcome.release, "Ann").status == "awaiting"
    assert settle(home, tmp_path, "approve", outcome.release, "Bob").status == "published"
    assert kinds(home) == set()
    assert settle(home, tmp_path, "withdraw", outcome.release, "Carl").status == "withdrawn"
    assert client().get_run(outcome.mlflow_run).data.tags["release.status"] == "withdrawn"
    assert kinds(home) == set()
    again = run(plan, home)
    assert again.status == "awaiting"
    assert again.release != outcome.release
    together = next(g for g in again.gates if g.name == "earlier releases")
    assert "1 of 1" in together.figure
    assert outcomes.mirror_entry(home, again.entry)
    assert kinds(home) == set()


def cut_off(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_was_approved_and_then_changed_is_refused_to_the_run_that_waits_with_it(
    people_table: Any, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.served import approval as served
    from flows.served.state import PendingDecision

    outcome = run(people_table(tmp_path, "policy: {approval: person}"), home)
    with monkeypatch.context() as patch:
        patch.setattr(conclude, "_publish", cut_off)
        with pytest.raises(KeyboardInterrupt):
            decide(home, Decision(act="approve", release=outcome.release, by="Ann", reason="read"))
    with (home.candidates / outcome.release / "data.csv").open("a") as file:
        file.write("more")
    entry = PendingDecision(outcome.release, outcome.entry.facts.dossier, "office", "run", "name", 0.0)
    with pytest.raises(Refused, match=r"data\.csv of .* differ"):
        served.decided(home, entry)
    assert ledger.entries(home)[-1].event == "approved"


# The commands


def test_people_are_added_listed_and_removed(home: Home, tmp_path: Path, capsys: Any) -> None:
    code, out, err = ask(capsys, home, "people", "add", "Ann Smith", "--new", str(tmp_path / "ann.pem"))
    assert (code, "Ann Smith may decide here" in out, "keep no copy" in err) == (0, True, True)
    assert (tmp_path / "ann.pem").stat().st_mode & 0o777 == 0o600
    public = tmp_path / "bob.pub"
    public.write_text(keys.raw(keys.read_private(tmp_path / "ann.pem", "x").public_key()))
    code, _, err = ask(capsys, home, "people", "add", "Bob", "--key", str(public))
    assert (code, "this key is Ann Smith's" in err) == (2, True)
    code, _, err = ask(capsys, home, "people", "add", "Ann Smith", "--new", str(tmp_path / "other.pem"))
    assert (code, (tmp_path / "other.pem").exists()) == (2, False)
    for wrong in ((), ("--new", str(tmp_path / "ann.pem")), ("--key", str(tmp_path / "ann.pem"))):
        assert ask(capsys, home, "people", "add", "Bob", *wrong)[0] == 2
    assert ask(capsys, home, "people", "account", "Ann Smith", "asmith")[0] == 0
    code, out, _ = ask(capsys, home, "people", "list", "--json")
    assert [(p["name"], p["accounts"]) for p in json.loads(out)["people"]] == [("Ann Smith", ["asmith"])]
    assert ask(capsys, home, "people", "remove", "Ann Smith")[0] == 0
    assert "The list is empty" in ask(capsys, home, "people", "list")[1]
    assert ask(capsys, home, "list")[0] == 0


def test_the_record_is_listed_shown_exported_and_verified(home: Home, tmp_path: Path, capsys: Any) -> None:
    person(home, tmp_path, "Ann")
    code, out, _ = ask(capsys, home, "audit", "list")
    assert (code, "approver-added" in out, "Ann" in out) == (0, True, True)
    code, out, _ = ask(capsys, home, "audit", "show", "1")
    assert (code, "public_key: " in out) == (0, True)
    assert ask(capsys, home, "audit", "show", "nothing")[0] == 2
    code, out, _ = ask(capsys, home, "audit", "show", "Ann", "--json")
    assert json.loads(out)[0]["event"] == "approver-added"
    _, anchor, _ = ask(capsys, home, "audit", "export", "--anchor")
    _, public, _ = ask(capsys, home, "audit", "export", "--public-key")
    (tmp_path / "public.pem").write_text(public)
    ask(capsys, home, "audit", "export", str(tmp_path / "ledger.jsonl"))
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 2
    assert ask(capsys, home, "audit", "export")[0] == 2
    kept = ("--anchor", anchor.strip(), "--public-key", str(tmp_path / "public.pem"), "--no-mlflow")
    code, out, _ = ask(capsys, home, "audit", "verify", *kept)
    assert (code, "No findings: 1 entries" in out) == (0, True)
    code, out, _ = ask(capsys, home, "audit", "rotate-key", "--by", "Ann", "--reason", "yearly")
    assert (code, "BEGIN PUBLIC KEY" in out) == (0, True)
    code, out, _ = ask(capsys, home, "audit", "verify", *kept)
    assert (code, "not the one that was kept elsewhere" in out) == (3, True)
    home.ledger.write_text(home.ledger.read_text().replace("Ann", "Eve"))
    code, out, _ = ask(capsys, home, "audit", "verify", "--no-mlflow", "--json")
    said = json.loads(out)
    assert (code, said["exit_code"]) == (3, 3)
    assert {"changed", "approvers"} <= {f["kind"] for f in said["findings"]}


def test_a_loss_is_resumed_once_it_is_stated(home: Home, tmp_path: Path, capsys: Any) -> None:
    for name in ("Ann", "Bob"):
        person(home, tmp_path, name)
    stated = ("--by", "Ann", "--reason", "the disk was replaced")
    assert ask(capsys, home, "audit", "resume", *stated)[0] == 2
    home.ledger.write_text(home.ledger.read_text().splitlines(keepends=True)[0])
    code, _, err = ask(capsys, home, "people", "remove", "Ann")
    assert (code, "the ledger is not in order" in err) == (2, True)
    assert ask(capsys, home, "audit", "resume", "--by", " ", "--reason", "x")[0] == 2
    assert ask(capsys, home, "audit", "resume", *stated)[0] == 0
    assert ask(capsys, home, "people", "remove", "Ann")[0] == 0
    code, out, _ = ask(capsys, home, "audit", "verify", "--no-mlflow")
    assert (code, "resumed" in out) == (3, True)


def test_a_signature_is_made_on_another_machine(home: Home, tmp_path: Path, capsys: Any) -> None:
    key = tmp_path / "ann.pem"
    write_private(key, keys.new_private())
    empty = Home.locate(tmp_path / "laptop")
    said = ("office-0123456789ab", "--by", "Ann", "--reason", "read", "--key", str(key))
    code, out, _ = ask(capsys, empty, "sign", *said, "--decision", "approve", "--dossier", "D" * 64)
    assert code == 0
    decision = Decision(act="approve", release=said[0], dossier="d" * 64, by="Ann", reason="read")
    assert out.strip() == sign(key, decision)
    for wrong in (("--decision", "approve"), ("--decision", "maybe", "--dossier", "d" * 64)):
        assert ask(capsys, empty, "sign", *said, *wrong)[0] == 2
    code, _, err = ask(capsys, empty, "sign", *said, "--decision", "approve", "--dossier", "d" * 12)
    assert (code, "64 hexadecimal digits" in err) == (2, True)
    assert not ledger.entries(empty)


def test_approve_and_withdraw_with_a_key_as_a_user_does(
    people_table: Any, anonflow: Callable[..., str], home: Home, tmp_path: Path
) -> None:
    plan = people_table(tmp_path, "policy: {approval: person}")
    anonflow("people", "add", "Ann", "--new", tmp_path / "ann.pem")
    said = json.loads(anonflow("run", plan, "--inline", "--json", expect=4).rpartition("\n}")[0] + "\n}")
    release = said["release"]
    told = ("--by", "Ann", "--reason", "read it", "--home", home.path)
    assert "needs Ann's signature" in anonflow("approve", release, *told, expect=2).replace("\n ", "")
    signature = anonflow("sign", release, "--decision", "approve", *told, "--key", tmp_path / "ann.pem")
    assert "Published" in anonflow("approve", release, *told, "--signature", signature.strip())
    out = anonflow("withdraw", release, *told, "--key", tmp_path / "ann.pem")
    assert "cannot be called back" in " ".join(out.split())
    assert "No findings" in anonflow("audit", "verify")
    assert "withdrawn" in anonflow("list")
    assert "withdrawn" in anonflow("show", release)


def test_help_names_the_commands() -> None:
    for command in ("audit", "people"):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_runs_that_mlflow_has_lost_are_made_again_and_marked(
    tracked: tuple[Home, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    home, lost, release = tracked
    mine, before = Home(tmp_path / "mine"), mlflow.get_tracking_uri()
    shutil.copytree(home.path, mine.path)
    fresh = make_private(tmp_path / "fresh")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    try:
        mlflow.set_tracking_uri(embedded.tracking_ready(fresh))
        assert {f.kind for f in audit.verify(mine)} == {"mlflow deleted", "mlflow curves"}
        entry = rebuild.rebuild(mine, by="Ann", reason="the database was lost")
        assert audit.verify(mine) == []
        run = client().get_run(entry.facts.runs[lost])
        assert run.data.tags["release.id"] == release
        assert run.data.tags["release.rebuilt"]
        assert run.data.tags["release.status"] == outcomes.SHOWN[ledger.of_release(mine, release)[-1].event]
        with pytest.raises(Refused, match="nothing to make again"):
            rebuild.rebuild(mine, by="Ann", reason="once more")
        client().log_metric(run.info.run_id, "risk/membership/auc", 0.5)
        assert {f.kind for f in audit.verify(mine)} == {"mlflow metrics", "mlflow history"}
    finally:
        mlflow.set_tracking_uri(before)
