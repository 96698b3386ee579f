"""What `anonflow serve --status` and Prometheus are told."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.served.report import Report
from flows.served.settings import AT_ONCE, runs_at_once
from flows.served.state import PendingDecision, carried_out, pending_decisions
from flows.served.status import prometheus, status
from tasks.common.errors import Refused
from tasks.common.home import Home
from tests.tasks.facts import enter


def test_runs_candidates_and_releases_are_told_to_people_scripts_and_prometheus(home: Home) -> None:
    enter(home, "published", name="office", release="office-a")
    enter(home, "awaiting", name="office", release="office-b")
    enter(home, "published", name="former", release="former-a")
    enter(home, "withdrawn", name="former", release="former-a")
    pending_decisions(home).put("office-b", PendingDecision("office-b", "d", "office", "r", "office · 1", 4e9))
    with carried_out(home, "a", "office · 2026-01-01 03:00", "office"):
        said = CliRunner().invoke(app, ["serve", "--status", "--home", str(home.path)]).output
        found = json.loads(CliRunner().invoke(app, ["serve", "--status", "--json", "--home", str(home.path)]).output)
        lines = prometheus(status(home, parts=False), Report(reached=1.0, problems={"a.yaml": "no plan"})).splitlines()
    assert re.search(r"office · 2026-01-01 03:00: process \d+ on .+, attempt 1", said)
    assert re.search(r"office-b since .+, until 2096-10-02 07:06 UTC", said)
    assert "anonflow serve does not run in this home" in said
    assert found["events"] == {"published": 2, "awaiting": 1, "withdrawn": 1}
    assert found["under_way"][0]["attempt"] == 1
    assert re.search(r"office: not scheduled now; last release \d{4}-\d\d-\d\d \d\d:\d\d UTC", said)
    # What was withdrawn is no release any more.
    assert list(found["last_releases"]) == ["office"]
    assert [one["release"] for one in found["waiting"]] == ["office-b"]
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert samples['anonflow_ledger_entries_total{event="published"}'] == "2"
    assert float(samples['anonflow_waiting_seconds{plan="office",release="office-b"}']) < 60
    assert float(samples['anonflow_last_release_age_seconds{plan="office"}']) < 60
    assert (samples["anonflow_runs_under_way"], samples["anonflow_plans_refused"]) == ("1", "1")
    assert all(re.fullmatch(r'anonflow_\w+(\{(\w+="[^"]*",?)+\})?', name) for name in samples)


def test_as_many_runs_at_once_as_the_machine_bears_or_the_operator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AT_ONCE, raising=False)
    assert runs_at_once() >= 1
    monkeypatch.setenv(AT_ONCE, "7")
    assert runs_at_once() == 7
    monkeypatch.setenv(AT_ONCE, "many")
    with pytest.raises(Refused, match="must be a number of runs"):
        runs_at_once()
