"""The state of a served home: for people (``anonflow serve --status``), scripts, and Prometheus."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from urllib.parse import urlsplit

from flows.served import health, state
from flows.served.report import Report
from flows.servers.environment import HEALTH, NAMES, PARTS
from flows.servers.layout import read_layout, runs
from flows.servers.process import fetch
from tasks.common.home import Home
from tasks.common.values import from_json
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts
from tasks.record.series import series_of


@dataclass(frozen=True)
class UnderWay:
    """A run that a process carries out: which process on which machine, in which attempt."""

    plan: str
    name: str
    pid: int
    host: str
    attempt: int


@dataclass(frozen=True)
class Waiting:
    """A candidate that awaits a decision: since when, and until when it does."""

    plan: str
    release: str
    since: str
    until: str


@dataclass(frozen=True)
class Status:
    """What a home does.

    Attributes
    ----------
    parts : by part, what is wrong with it; empty where it runs and answers
    schedules : when each plan runs, in words
    refused : why a file of the folder is no plan, by file
    under_way, waiting : runs that are carried out, and candidates that await a decision
    events : how often each event stands in the ledger
    last_releases : when the last release of each plan was published that was not withdrawn
    disk_free : bytes
    undelivered : how many notices have not reached people yet
    reached : when the worker last reached Prefect, seconds since 1970; 0 where it does not answer
    """

    parts: dict[str, str]
    schedules: dict[str, str]
    refused: dict[str, str]
    under_way: tuple[UnderWay, ...]
    waiting: tuple[Waiting, ...]
    events: dict[str, int]
    last_releases: dict[str, str]
    disk_free: int
    undelivered: int
    reached: float


def status(home: Home, *, parts: bool = True) -> Status:
    """Return the state of a home; without ``parts`` nothing is asked of its servers."""
    report = _report(home) if parts else Report()
    known = ledger.entries(home)
    series = series_of(known)
    since = {e.facts.release: e.time for e in ledger.select(known, ReleaseFacts, "awaiting")}
    until = {one.release: one.deadline for one in state.pending_decisions(home).all()}
    active = [one for one in state.active_runs(home).all() if state.is_carried_out(home, one.run)]
    return Status(
        parts=_parts(home) if parts else {},
        schedules=report.schedules,
        refused=report.problems,
        under_way=tuple(UnderWay(one.plan, one.name, one.pid, one.host, one.attempts + 1) for one in active),
        waiting=tuple(
            Waiting(one.plan, release, since.get(release, ""), until.get(release, ""))
            for one in series
            for release in one.waiting
        ),
        events=dict(Counter(entry.event for entry in known)),
        last_releases={one.plan: one.last for one in series if one.last},
        disk_free=shutil.disk_usage(home.path).free,
        undelivered=len(list((home.path / "notices").glob("*.json"))),
        reached=report.reached,
    )


def _parts(home: Home) -> dict[str, str]:
    running = [part for part in PARTS if runs(home, part)]
    return {NAMES[part]: "; ".join(health.problems(home, [part])) for part in running}


def _report(home: Home) -> Report:
    layout = read_layout(home)
    if layout is not None and layout.worker and runs(home, "worker"):
        with suppress(OSError, HTTPException, ValueError):
            answer = fetch(urlsplit(layout.worker).netloc, HEALTH["worker"], health.PATIENCE)[1]
            return from_json(Report, json.loads(answer))
    return Report()


def prometheus(found: Status, report: Report) -> str:
    """Return the state in the text format of Prometheus: counts, ages and names of plans."""
    return "".join(f"{line}\n" for line in _lines(found, report))


def _lines(found: Status, report: Report) -> Iterator[str]:
    now = time.time()
    yield from _metric("ledger_entries_total", "counter", "Entries of the ledger by event.")
    yield from (_sample("ledger_entries_total", count, event=event) for event, count in sorted(found.events.items()))
    yield from _metric("waiting_seconds", "gauge", "How long each candidate has awaited a decision.")
    for one in found.waiting:
        yield _sample("waiting_seconds", now - _seconds(one.since), plan=one.plan, release=one.release)
    yield from _metric(
        "last_release_age_seconds", "gauge", "Age of the last release of each plan that was not withdrawn."
    )
    for plan, when in found.last_releases.items():
        yield _sample("last_release_age_seconds", now - _seconds(when), plan=plan)
    gauges = {
        "runs_under_way": ("Runs that a process carries out.", len(found.under_way)),
        "plans_refused": ("Files of the folder that are no plans.", len(report.problems)),
        "notices_undelivered": ("Notices that have not reached people.", found.undelivered),
        "disk_free_bytes": ("Free space where the home is.", found.disk_free),
        "worker_reached_age_seconds": ("Since the worker last reached Prefect.", now - report.reached),
    }
    for name, (about, value) in gauges.items():
        yield from _metric(name, "gauge", about)
        yield _sample(name, value)


def _metric(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP anonflow_{name} {about}", f"# TYPE anonflow_{name} {kind}"


def _sample(name: str, value: float, **labels: str) -> str:
    # Names of plans and releases are of letters, digits, _ and -: nothing in them has to be escaped.
    named = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"anonflow_{name}{f'{{{named}}}' if named else ''} {value:.15g}"


def _seconds(when: str) -> float:
    return datetime.fromisoformat(when).timestamp() if when else time.time()
