"""Names that others have given are shown as they are: no markup, nothing for the terminal to carry out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.cli import app, exit_code_of
from flows.commands import options, shown
from flows.servers.layout import Layout, write_layout
from flows.tune import trials_of
from tasks.common.home import Home, make_private, write_private
from tasks.policy.gate import GateResult
from tasks.record import ledger
from tasks.record.entry import DeliveryFacts, SignedDecision, TargetFacts
from tests.tasks.dossiers import small_dossier
from tests.tasks.facts import enter

NAME = "[red]x\x1b[31m\u202e:bomb:"
SHOWN = r"[red]x\x1b[31m\u202e:bomb:"


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Return a function that gives a command, and returns how it ended and what the terminal got."""
    for console in (options.out, options.err, options.plain):
        # Which reads COLUMNS when it is made, so that another test may have fixed it.
        monkeypatch.setattr(console, "_width", 300)

    def give(*arguments: str | Path) -> tuple[int, str]:
        code = exit_code_of(lambda: app([str(a) for a in arguments], standalone_mode=True), as_json=False)
        said = capsys.readouterr()
        told = said.out + said.err
        assert all(c.isprintable() or c == "\n" for c in told), told
        return code, told

    return give


def test_a_plan_file_by_any_name(office, ask):
    path = office()
    plan = path.rename(path.with_name(f"{NAME}.yaml"))
    code, told = ask("check", plan)
    assert (code, f"{SHOWN}.yaml is in order: " in told) == (0, True)
    plan.write_text("anonflow: 1\n")
    code, told = ask("check", plan)
    assert (code, f"{SHOWN}.yaml: " in told) == (2, True)


def test_the_version_is_printed(ask):
    assert re.fullmatch(r"anonflow \d+\.\d+\.\d+\n", ask("--version")[1])


def test_a_draft_by_any_name(office, ask):
    folder = office().parent
    code, told = ask("plan", folder / "people.csv", "-o", folder / f"{NAME}.yaml")
    assert (code, told.count(f"{SHOWN}.yaml")) == (0, 2)
    code, told = ask("plan", folder / "people.csv", "-o", folder / f"{NAME}.yaml")
    assert (code, f"{SHOWN}.yaml exists already" in told) == (2, True)


def test_people_and_homes_by_any_name(tmp_path, ask):
    home = Home.locate(tmp_path / NAME)
    _, told = ask("list", "--home", home.path)
    assert f"{SHOWN}. Start with: anonflow demo" in told
    decided = SignedDecision(approver=f"{NAME}\nApproved", reason=NAME)
    enter(home, "rejected", release="census-1", name="census", by=NAME, decided=decided)
    for command in (("list",), ("audit", "list"), ("audit", "show", "census-1")):
        code, told = ask(*command, "--home", home.path)
        assert (code, rf"{SHOWN}\nApproved" in told) == (0, True), command
    _, told = ask("audit", "export", tmp_path / f"{NAME}.jsonl", "--home", home.path)
    assert f"{SHOWN}.jsonl" in told
    code, told = ask("people", "add", "[red]Ann", "--new", tmp_path / f"{NAME}.pem", "--home", home.path)
    assert (code, f"Wrote {tmp_path / SHOWN}.pem. " in told) == (0, True)
    assert "[red]Ann may decide here" in told


@pytest.mark.parametrize(("data", "by_design"), [("same", ()), ("same", ("uncertainty",)), ("other", ())])
def test_a_run_that_fails_repeats_what_a_search_of_the_same_plan_and_data_advised(tmp_path, capsys, data, by_design):
    home = Home(tmp_path)
    trials_of(home, "people", "plan", "same", by_design).advise(("leave out income",))
    gate = GateResult("density", "fail", figure="", limit="", baseline="", records=3, meaning="")
    facts = SimpleNamespace(name="people", plan="plan", data=data)
    outcome: Any = SimpleNamespace(gates=(gate,), release="people-1", entry=SimpleNamespace(facts=facts))
    shown._next_steps(outcome, home)
    told = capsys.readouterr().out
    assert ("leave out income" in told, "anonflow tune" in told) == (data == "same", data == "other")


def test_where_a_claim_of_a_step_with_a_secret_page_fails_that_page_is_the_next_step(tmp_path, capsys):
    home = Home(tmp_path)
    gates = [
        GateResult(name, "fail", figure="", limit="", baseline="", records=3, meaning="", topic=topic)
        for name, topic in (("no count is restored", "Claims"), ("density", "Risk"))
    ]
    facts = SimpleNamespace(name="people", plan="plan", data="data")

    def told(*given: GateResult) -> tuple[bool, bool]:
        outcome: Any = SimpleNamespace(gates=given, release="people-1", entry=SimpleNamespace(facts=facts))
        shown._next_steps(outcome, home)
        shown_there = " ".join(capsys.readouterr().out.split())
        return shown.CLAIMED in shown_there, shown.SEARCH in shown_there

    assert told(gates[0]) == (False, True)
    home.assessment("people-1").mkdir(parents=True)
    (home.assessment("people-1") / "custodian-step2.html").touch()
    assert told(gates[0]) == (True, False)
    assert told(*gates) == (True, True)
    assert told(gates[1]) == (False, True)


def test_steps_gates_and_reasons_by_any_name(capsys, monkeypatch):
    for console in (options.out, options.err, options.plain):
        # Which reads COLUMNS when it is made, so that another test may have fixed it.
        monkeypatch.setattr(console, "_width", 300)
    shown.Progress(quiet=False)(f"Deliver to {NAME}", 1.0, 10)
    assert capsys.readouterr().err == f"  ✓ Deliver to {SHOWN} 1.0 s\n"
    shown.Progress(quiet=False)("Mask the records", 25.0, 3_000_000)
    assert capsys.readouterr().err == "  ✓ Mask the records 25.0 s, 120,000 records/s\n"
    gate = GateResult(NAME, "pass", figure="[a]", limit="", baseline="", records=3, meaning="")
    shown.out.print(shown.gates([gate]))
    assert capsys.readouterr().out.splitlines()[1].split() == [SHOWN, "pass", "[a]", "3"]
    shown.out.print(shown.safe_lines("[red]a\x1b\nb\r"))
    assert capsys.readouterr().out == "[red]a\\x1b\nb\\r\n"


def test_the_list_shows_what_is_asked_for_and_show_names_deliveries(tmp_path, ask):
    home = Home.locate(tmp_path / "home")
    enter(home, "awaiting", release="census-1", name="census")
    published = enter(home, "published", release="census-1", name="census")
    enter(home, "awaiting", release="office-1")
    target = TargetFacts(folder="out", storage="STORE")
    about = {
        "by": "runner",
        "release": "census-1",
        "name": "census",
        "manifest": "0",
        "target": target,
        "place": "out/1",
    }
    ledger.append(home, "delivered", DeliveryFacts(**about))

    def numbers(*options: str) -> list[int]:
        code, told = ask("list", "--json", *options, "--home", home.path)
        assert code == 0, told
        return [entry["number"] for entry in json.loads(told)]

    today = published.time[:10]
    assert numbers("--plan", "census") == [1, 2, 4]
    assert numbers("--status", "awaiting") == [3]
    assert numbers("--status", "published", "--since", today, "--until", today) == [1, 2, 4]
    assert numbers("--since", "2999") == numbers("--until", "2001-02") == []
    assert "No entry" in ask("list", "--plan", "other", "--home", home.path)[1]
    for wrong in (("--status", "gone"), ("--since", "yesterday"), ("--series", "--since", today)):
        assert ask("list", *wrong, "--home", home.path)[0] == 2
    assert "census-1: delivered" not in (pruned := ask("show", "census-1", "--home", home.path))[1]
    assert (pruned[0], "Gate  " in pruned[1]) == (0, True)
    make_private(home.assessment("census-1"))
    write_private(home.assessment("census-1") / "dossier.json", small_dossier().to_json())
    assert "Target  out/1 in storage STORE: delivered" in ask("show", "census-1", "--home", home.path)[1]


def test_pruning_lists_what_can_go_and_removes_it_when_told_to(tmp_path, ask):
    home = Home.locate(tmp_path / "home")
    notice = make_private(home.path / "notices") / "late-1.json"
    write_private(notice, b"{}")
    os.utime(notice, (0, 0))
    prune = ("prune", "--keep", "1", "--home", home.path)
    code, told = ask(*prune)
    assert (code, "add --remove" in told, notice.exists(), ledger.entries(home)) == (0, True, True, [])
    code, told = ask(*prune, "--remove")
    assert (code, "entry 1 of the ledger" in told, notice.exists()) == (0, True, False)
    code, told = ask(*prune, "--remove")
    assert (code, "Nothing is older" in told, len(ledger.entries(home))) == (0, True, 1)
    assert ask("prune", "--keep", "0", "--home", home.path)[0] == 2


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home that `anonflow serve` was started for once, and does not run for."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = Home.locate(tmp_path / "home")
    layout = Layout(prefect="http://127.0.0.1:4200", mlflow="http://127.0.0.1:5000")
    write_layout(home, lambda _: layout)
    return home


def test_a_served_home_has_its_own_pages(served, ask):
    code, told = ask("ui", "--home", served.path)
    assert (code, "this home is served" in told) == (2, True)
    assert "http://127.0.0.1:4200" in told


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("demo", "--inline"),
        ("audit", "mirror"),
        ("audit", "rebuild-mirror", "--by", "Ann", "--reason", "lost"),
    ],
)
def test_runs_of_a_served_home_are_not_written_into_another_mlflow(served, ask, words):
    code, told = ask(*words, "--home", served.path)
    assert (code, "belongs to anonflow serve" in told) == (2, True)
    assert not (served.path / "mlflow").exists()


def test_pages_are_named_where_browsers_find_them(served, ask, monkeypatch):
    monkeypatch.setenv("ANONFLOW_PREFECT_PAGE", "https://prefect.example.org")
    told = " ".join(ask("ui", "--home", served.path)[1].split())
    assert "https://prefect.example.org and http://127.0.0.1:5000" in told


def test_runs_of_a_served_home_that_sleeps_are_not_called_deleted(served, ask):
    enter(served, "rejected", release="census-1", name="census", by="Ann", mlflow_run="1" * 32)
    code, told = ask("audit", "verify", "--home", served.path)
    assert (code, "mlflow not reached" in told) == (3, True)
    assert "mlflow deleted" not in told


@pytest.mark.platform
def test_a_server_that_cannot_start_is_a_fault_that_names_its_log(tmp_path: Path) -> None:
    (tmp_path / "home" / "prefect" / "prefect.db").mkdir(parents=True)
    program = Path(sys.executable).parent / "anonflow"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_"))}
    done = subprocess.run([program, "demo", "--home", tmp_path / "home"], capture_output=True, text=True, env=clean)
    assert done.returncode == 1
    assert "\nFault\n" in done.stderr
    assert "unexpected" not in done.stderr
    assert "its log is" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "list", "list --risk", "show r", "serve --status", "serve --healthy", "serve --secrets", "prune --keep 9", "ui",
        "audit verify", "audit list", "audit show r", "audit mirror", "audit export --anchor",
        "audit rotate-key --by Ann --reason why", "audit resume --by Ann --reason why",
        "audit rebuild-mirror --by Ann --reason why", "people list", "people remove Ann", "people login Ann --remove",
        "digests list", "digests export FILE --secret S", "backup FILE", "approve r --by Ann --reason why",
        "sign r --decision approve --by Ann --reason why --key KEY", "deliver r",
    ],
)  # fmt: skip
def test_a_command_that_reads_a_home_makes_none_in_a_mistyped_place(ask: Any, tmp_path: Path, words: str) -> None:
    given = words.replace("FILE", str(tmp_path / "backup.tar")).split()
    code, said = ask(*given, "--home", tmp_path / "typo")
    assert code == 2
    assert "there is no home in" in said
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_prepares_a_home_makes_it(ask: Any, tmp_path: Path) -> None:
    code, said = ask("people", "login", "Ann", "--role", "author", "--home", tmp_path / "new")
    assert (code, "may log in as author" in said) == (0, True)
    # As the first machine of a cluster does, which lacks the secret here.
    _, said = ask("audit", "move-ledger", "LEDGER", "--home", tmp_path / "other")
    assert "LEDGER" in said
    assert "there is no home" not in said


def test_piped_progress_is_a_line_at_most_every_minute(capsys, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(shown.time, "monotonic", lambda: now)
    show, long = shown.Progress(quiet=False), "one of many records " * 10
    show("Mask the records", None, 10)
    for now in (1030.0, 1061.0, 1070.0, 1125.0):
        show(f"Mask the records: {long}{now:.0f}", None, 10, under_way=True)
    show("Mask the records", 130.0, 0)
    show("Write the report", None, 10)
    assert capsys.readouterr().err.splitlines() == [
        "  … Mask the records",
        f"  … Mask the records: {long}1061",
        f"  … Mask the records: {long}1125",
        "  ✓ Mask the records 130.0 s",
        "  … Write the report",
    ]


def test_progress_on_a_terminal_is_one_line_in_which_nothing_longer_is_left(capsys, monkeypatch):
    monkeypatch.setattr(shown.err, "_force_terminal", True)
    monkeypatch.setattr(shown.err, "_width", 40)
    show = shown.Progress(quiet=False)
    show("Mask the records: about 40 s left of these tasks: 33%", None, 10, under_way=True)
    show("Mask the records", 5.0, 0)
    first, second = (text.strip() for text in re.sub(r"\x1b\[\d*m", "", capsys.readouterr().err).split("\r"))
    assert first.startswith("\x1b[2K  … Mask the records: about")
    assert len(first) == len("\x1b[2K") + 40
    assert second == "\x1b[2K  ✓ Mask the records 5.0 s"


def test_a_check_says_what_a_run_with_another_engine_would_refuse(office, ask, tmp_path):
    code, told = ask("check", office(more="cluster: {secret: OFFICE_CLUSTER, folder: /no/such}"), "--engine", "dask")
    assert (code, "secret OFFICE_CLUSTER is not there" in told, "/no/such is no folder" in told) == (2, True, True)
    assert not (tmp_path / ".anonflow").exists()
