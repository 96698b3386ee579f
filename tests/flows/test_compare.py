"""Several settings on one split: what each is told, what is left behind, and who hears of it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from xml.etree import ElementTree

import pytest

from anoncore.methods import MDAV, ValueCoding
from flows.compare import Wanted, _stated, compare
from flows.plan.model import load_plan
from flows.plan.overrides import settings_of
from flows.release import Direct, carry_out
from tasks.assessment import judge
from tasks.common.errors import ExitCode, Fault, Refused
from tasks.common.home import Home
from tasks.common.run import Run, exclusive_run
from tasks.record import ledger

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

SEED = "seed: {public: 6, data_are_public: true}"
CANARIES = (b"Qx7-Canary", b"918273645")


@pytest.fixture
def home(tmp_path):
    return Home.locate(tmp_path / "home")


@pytest.fixture
def small(office, people):
    """Return a function that writes the office's plan with fewer people and a wide margin, and loads it."""

    def write(*, more="", **options):
        return load_plan(office(people(800), margin=0.4, more=f"{SEED}\n{more}", **options))

    return write


def _compare(file, home, *methods, **options):
    return compare(file, home, Direct(), Wanted(methods, **options))


def _by_name(found):
    return {t.name: t for t in found.settings}


def test_settings_are_apart_by_spaces_commas_and_arguments(small):
    found = settings_of(
        ["mdav:k=5 spectral-rhs:k=7:representative=medoid,", "data-shuffling:confidential=[tax, age]"],
        small(),
    )
    assert [s.name for s in found] == [
        "plan",
        "mdav:k=5",
        "spectral-rhs:k=7:representative=medoid",
        "data-shuffling:confidential=[tax, age]",
    ]
    assert found[2].steps[0].k == 7
    assert found[2].steps[0].representative == "medoid"
    assert found[3].steps[0].confidential == ("tax", "age")
    assert [s.label for s in found[:2]] == ["plan (spectral-swap)", "mdav k=5"]


def test_a_setting_takes_the_place_of_the_masking_steps_alone(small):
    steps = (
        "{method: rare-levels, k: 5}\n  - {method: spectral-swap}\n  - {method: additive-noise}\n"
        "  - {method: extreme-records, action: winsorise}"
    )
    (_, found) = settings_of(["mdav"], small(step=steps))
    assert [s.method for s in found.steps] == ["rare-levels", "mdav", "extreme-records"]


def test_a_preparing_step_of_the_plan_is_varied_in_its_place(small):
    steps = (
        "{method: group-anonymity, vital: [{children: [3]}], parameter: region, order: [A, B], level: 1,"
        " caps: {A: 9}}\n  - {method: spectral-swap}"
    )
    found = settings_of(["group-anonymity:wavelet=haar:details=capped", "mdav:k=9"], small(step=steps))
    assert [[s.method for s in one.steps] for one in found] == [
        ["group-anonymity", name] for name in ("spectral-swap", "spectral-swap", "mdav")
    ]
    varied = found[1].steps[0]
    assert (varied.wavelet, varied.details, varied.caps) == ("haar", "capped", {"A": 9})
    assert found[1].steps[1] == found[0].steps[1]
    assert found[2].steps[0] == found[0].steps[0]


def test_what_does_the_same_is_tried_once(small):
    found = settings_of(["spectral-swap", "mdav:k=10", "mdav"], small())
    assert [s.name for s in found] == ["plan", "mdav:k=10"]


def test_without_methods_those_that_suit_the_table_are_tried(small):
    names = [s.name for s in settings_of([], small())]
    assert names[0] == "plan"
    assert {"mdav", "rhs", "spectral-rhs", "additive-noise", "optimal-boxes"} <= set(names)
    assert not {"spectral-swap", "rare-levels", "group-anonymity"} & set(names)
    # Ranges are not repaired.
    assert "optimal-boxes" not in [s.name for s in settings_of([], small(on_violation="repair"))]


@pytest.mark.parametrize(
    ("methods", "options", "said"),
    [
        ("madv", {}, "choose from additive-noise"),
        ("rare-levels", {}, "no method that masks records"),
        ("mdav:q=5", {}, "choose from k, blocks, within, released"),
        ("mdav:k", {}, "as key=value"),
        ("mdav:k=5:k=6", {}, "once"),
        ("mdav:k=1", {}, "k must be at least 2"),
        ("mdav:k=2.5", {}, "k: "),
        ("mdav:k=[", {}, "YAML"),
        ("mdav", {"risk": "luck"}, "--risk takes distance"),
        ("mdav", {"utility": "joy"}, "--utility takes overall"),
        ("mdav", {"by_design": ("distance",)}, "--by-design takes ambiguity, uncertainty"),
    ],
)
def test_what_is_not_known_is_refused_before_data_are_read(small, home, methods, options, said):
    file = small()
    (file.base / "people.csv").unlink()
    with pytest.raises(Refused) as caught:
        _compare(file, home, methods, **options)
    assert said in str(caught.value)
    assert caught.value.code == ExitCode.REFUSED


def test_settings_are_measured_side_by_side_and_nothing_is_published(small, home):
    found = _compare(small(), home, "mdav:k=5", "additive-noise:b=0.001", by_design=("uncertainty",))
    told = _by_name(found)
    assert list(told) == ["plan", "mdav:k=5", "additive-noise:b=0.001"]
    assert told["plan"].status == "passes", told["plan"].reason
    assert told["additive-noise:b=0.001"].status == "rejected"
    assert "prediction distance" in told["additive-noise:b=0.001"].reason
    assert told["additive-noise:b=0.001"].risk > 0.9 > 0.4 > told["plan"].risk
    assert told["additive-noise:b=0.001"].loss < told["plan"].loss
    assert {t.records for t in found.settings} == {400}
    assert {t.limit for t in found.settings} == {0.8}
    assert found.best in ("plan", "mdav:k=5")
    assert found.exit_code == ExitCode.PUBLISHED
    assert "additive-noise:b=0.001" in found.frontier
    assert not home.releases.exists()
    assert not home.candidates.exists()
    assert ledger.entries(home) == []
    assert not any(home.workspaces.iterdir())
    assert found.picture.parent == home.path / "comparisons" / found.id
    ElementTree.fromstring(found.picture.read_bytes())
    kept = json.loads((found.folder / "comparison.json").read_text())
    assert [s["name"] for s in kept["settings"]] == list(told)
    assert kept["best"] == found.best
    for path in [found.folder, *found.folder.iterdir()]:
        assert path.stat().st_mode & 0o077 == 0
    assert not [p for p in home.path.rglob("*") if p.is_file() and any(c in p.read_bytes() for c in CANARIES)]


@pytest.fixture(scope="module")
def groups(write_office, people, tmp_path_factory, tracking):
    """The settings of a comparison with groups, which nothing acknowledges."""
    folder = tmp_path_factory.mktemp("groups")
    file = load_plan(write_office(folder, people(800), margin=0.4, more=SEED))
    return _by_name(_compare(file, Home.locate(folder / "home"), "mdav:k=5"))


def test_no_setting_sees_what_another_has_left(small, home, groups):
    """Boxes leave points, swaps leave scores; what is told of the last must not depend on them."""
    crowd = _by_name(_compare(small(), home, "optimal-boxes:k=20", "mdav:k=5"))
    for name in ("plan", "mdav:k=5"):
        first, second = crowd[name], groups[name]
        assert (first.risk, first.loss, first.gates) == (second.risk, second.loss, second.gates)
    assert crowd["plan"].gates != crowd["mdav:k=5"].gates


def test_settings_draw_from_streams_of_their_own(small, home, monkeypatch):
    drawn = []
    branch = Run.branch

    def watched(*given):
        own = branch(*given)
        drawn.append(float(own.rng("step-1").random()))
        assert sorted(p.name for p in own.workspace.folder.iterdir()) == ["entropy"]
        assert own.rng("step-1").random() != given[0].rng("step-1").random()
        return own

    def refused(*_):
        raise Refused("only what is drawn is of interest here")

    monkeypatch.setattr(Run, "branch", watched)
    monkeypatch.setattr(judge, "mask_records", refused)
    file = small()
    _compare(file, home, "additive-noise:b=1", "additive-noise:b=2")
    _compare(file, home, "additive-noise:b=2")
    assert len(set(drawn[:3])) == 3
    assert drawn[3:] == [drawn[0], drawn[2]]


def test_streams_depend_on_stated_parameters_alone():
    assert _stated(MDAV(k=9)) == [("k", 9)]
    assert _stated(ValueCoding(top={"age": 80})) == [("top", {"age": 80})]


def test_identical_groups_pass_only_when_acknowledged(small, home, groups):
    lacking = groups["mdav:k=5"]
    assert lacking.status == "refused"
    assert "--by-design uncertainty" in lacking.reason
    given = _by_name(_compare(small(), home, "mdav:k=5", by_design=("uncertainty",)))["mdav:k=5"]
    assert given.status != "refused"
    assert given.reason in lacking.reason
    policy = "policy: {by_design: [uncertainty]}"
    stated = small(step="{method: mdav, k: 5}", more=policy)
    swap = "spectral-swap"
    by_policy = _by_name(_compare(stated, home, swap))
    assert "refused" not in {t.status for t in by_policy.values()}
    # What is acknowledged for groups excuses nothing else.
    gates = {g.name: g.verdict for g in by_policy[swap].gates}
    assert gates["prediction uncertainty"] != "by design"


def test_what_is_not_possible_is_told_and_the_others_go_on(small, home, monkeypatch):
    mask = judge.mask_records

    def picky(run, data, steps, edits):
        if steps[0].method == "rhs":
            raise Refused("rhs cannot")
        return mask(run, data, steps, edits)

    monkeypatch.setattr(judge, "mask_records", picky)
    found = _by_name(_compare(small(), home, "mdav:k=999", "data-shuffling:confidential=[shoe]", "rhs"))
    assert {n: t.status for n, t in found.items() if n != "plan"} == dict.fromkeys(
        ("mdav:k=999", "data-shuffling:confidential=[shoe]", "rhs"), "not possible"
    )
    assert "999" in found["mdav:k=999"].reason
    assert "shoe" in found["data-shuffling:confidential=[shoe]"].reason
    assert found["rhs"].reason == "rhs cannot"
    assert found["plan"].status == "passes"


def test_a_fault_ends_the_comparison_and_wipes_the_workspace(small, home, monkeypatch):
    def broken(*_):
        raise ValueError("918273645")

    monkeypatch.setattr(judge, "assess", broken)
    with pytest.raises(Fault) as caught:
        _compare(small(), home, "mdav")
    assert "918273645" not in str(caught.value)
    assert not any(home.workspaces.iterdir())
    assert not (home.path / "comparisons").exists()


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("{utility: {pair: 0, two_samples: 0, exceeded: reject}}", ExitCode.REJECTED),
        # Whether a person must approve a release is no question to a setting.
        ("{approval: person}", ExitCode.PUBLISHED),
    ],
)
def test_the_policy_decides(small, home, policy, code):
    found = _compare(small(more=f"policy: {policy}"), home, "spectral-swap:tail_coding=5")
    assert found.exit_code == code
    assert (found.best is None) == (code == ExitCode.REJECTED)


def test_without_nonmembers_a_person_must_decide(small, home):
    file = small(more="reference: {kind: leave-one-out}")
    found = _compare(file, home, "additive-noise:b=0.01")
    assert {t.status for t in found.settings} == {"awaiting", "rejected"}
    assert found.exit_code == ExitCode.AWAITING
    assert found.sentence == "nothing passes; 1 must be decided by a person"
    assert {t.baseline for t in found.settings} == {None}
    with pytest.raises(Refused, match="leave-one-out"):
        _compare(file, home, "mdav", risk="membership")


@pytest.mark.parametrize(
    ("risk", "utility", "limit"),
    [("membership", "propensity", 0.6), ("uncertainty", "pair", 0.8)],
)
def test_other_axes_can_be_chosen(small, home, risk, utility, limit):
    found = _by_name(_compare(small(), home, "mdav:k=5", risk=risk, utility=utility))
    assert found["plan"].limit == limit
    assert 0 < found["plan"].loss < 5
    assert 0 < found["plan"].baseline < 5
    # Of groups uncertainty says nothing, so that they have no place on that map.
    assert (found["mdav:k=5"].risk is None) == (risk == "uncertainty")


def test_auditors_find_nested_runs_apart_from_releases(small, home):
    from mlflow.tracking import MlflowClient

    file = small(more="tracking: {experiment: audited}")
    release = carry_out(file, home, Direct())
    before = ledger.entries(home)
    found = _compare(file, home, "mdav:k=5", "mdav:k=999")
    assert (release.status, found.earlier, _by_name(found)["plan"].status) == ("published", 1, "passes")
    assert ledger.entries(home) == before
    with exclusive_run(home, "office"), pytest.raises(Refused, match="under way"):
        _compare(file, home, "mdav")
    client = MlflowClient()
    names = [client.get_experiment_by_name(n).experiment_id for n in ("audited", "audited comparisons")]
    assert [r.info.run_id for r in client.search_runs([names[0]])] == [release.mlflow_run]
    runs = {r.info.run_name: r for r in client.search_runs([names[1]])}
    assert set(runs) == {"compare office", "plan", "mdav:k=5", "mdav:k=999"}
    outer = runs.pop("compare office")
    assert outer.info.run_id == found.mlflow_run
    assert outer.data.tags["comparison.best"] == "plan"
    assert outer.data.metrics["comparison/settings"] == 3
    artifacts = {a.path for a in client.list_artifacts(found.mlflow_run)}
    assert artifacts == {"frontier.svg", "comparison.json", "comparison.md"}
    told = _by_name(found)
    own = client.get_run(release.mlflow_run)
    assert own.data.tags["anonflow.kind"] == "release"
    for name, run in runs.items():
        assert run.data.tags["mlflow.parentRunId"] == outer.info.run_id
        assert run.data.tags["anonflow.kind"] == "comparison"
        assert run.data.tags["comparison.status"] == told[name].status
        assert not [tag for tag in run.data.tags if tag.startswith("release.")]
    assert runs["mdav:k=5"].data.params["step1.k"] == "5"
    assert runs["mdav:k=5"].data.metrics["comparison/loss"] == told["mdav:k=5"].loss
    shared = {m for m in runs["plan"].data.metrics if not m.startswith("comparison/")}
    # Nothing is published, so that earlier releases are not attacked, and parts of a table hold no whole groups.
    # Whether a column is so far apart that it is rescaled depends on what is drawn.
    differing = {m for m in shared ^ set(own.data.metrics) if not m.startswith("risk/membership_rescaled/")}
    assert differing == {"risk/group_figures/repeated", "risk/hidden_units/others", "risk/prior_releases"}
    assert runs["mdav:k=999"].info.status == "FAILED"
    assert runs["mdav:k=999"].data.params["step1.k"] == "999"


def anonflow(plan, home, *arguments):
    """Run the command as a user does; return what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", "compare", str(plan), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=inherited | {"ANONFLOW_HOME": str(home)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def test_the_command_shows_every_setting_as_a_task(office, people, tmp_path):
    """With a real Prefect server, settings written as a person writes them, braces and brackets included."""
    home, plan = tmp_path / "home", office(people(800), margin=0.4, more=SEED)
    boxes, shuffling = "optimal-boxes:k=20:bounds=grid:grid={tax: 10}", "data-shuffling:confidential=[age]"
    out, err = anonflow(plan, home, "--methods", boxes, shuffling)
    assert "data-shuffling confidential=[age]" in out
    assert "data-shuffling confidential=[age]" in err
    assert "best utility among those that pass: " in out
    assert "frontier.svg" in out
    with closing(sqlite3.connect(home / "prefect" / "prefect.db")) as database:
        flows = database.execute("select name, state_name from flow_run").fetchall()
        tasks = [name for (name,) in database.execute("select name from task_run")]
        artifacts = dict(database.execute("select key, data from artifact").fetchall())
    assert flows == [("office", "Compared")]
    assert {t for t in tasks if t.startswith("Mask")} == {
        f"Mask and measure: {what}"
        for what in (
            "plan (spectral-swap)",
            "optimal-boxes k=20 bounds=grid grid={tax: 10}",
            "data-shuffling confidential=[age]",
        )
    }
    assert "optimal-boxes" in artifacts["office-comparison"]
    for path in home.rglob("*"):
        if path.is_file():
            assert not any(canary in path.read_bytes() for canary in CANARIES), path


def test_scripts_get_one_json_object_and_the_exit_code(office, people, nursery, tmp_path):
    plan = office(people(800), more="policy: {utility: {pair: 0, two_samples: 0, exceeded: reject}}")
    wanted = ("compare", plan, "--inline", "--json", "--methods", "rhs")
    code, out, _ = nursery.anonflow(*wanted, ANONFLOW_HOME=str(tmp_path / "home"))
    assert code == 3
    told = json.loads(out)
    assert told["best"] is None
    assert told["settings"][0]["status"] == "rejected"
    assert told["exit_code"] == 3
    assert told["picture"].endswith("frontier.svg")
