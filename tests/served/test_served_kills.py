"""Parts are killed without a word, while people are awaited and while a release is published.

Whatever dies: a release is not published or whole, an approval is not lost, the ledger is in order.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tasks import ledger
from tasks.publish import verify_release

pytestmark = pytest.mark.platform

PARTS = ("worker", "prefect", "mlflow", "postgres")


@contextmanager
def held(served: Any, name: str) -> Iterator[None]:
    """Hold a lock of the home, so that whoever needs it waits at that very place."""
    descriptor = os.open(served.home.path / name, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def approved(served: Any, run: str) -> None:
    served.decide(run, dossier_sha256=served.candidate(run)["dossier"])


def check_whole(served: Any, plan: str) -> None:
    """Check that the plan's release stands, once and whole, and that the ledger can be trusted."""
    folder = served.home.releases / plan
    (release,) = [p for p in folder.iterdir() if not p.name.startswith(".")]
    assert verify_release(release) == []
    assert served.events(plan).count("published") == 1
    assert ledger.verify(served.home) == []


def test_whatever_dies_while_people_are_awaited_the_approval_is_taken(served: Any) -> None:
    served.plan("waiting", seed=10)
    served.deployed("waiting")
    run = served.run("waiting")
    served.paused(run)
    for part in PARTS:
        served.kill(part)
    served.until(lambda: served.state(run)["type"] == "PAUSED", 60, served.logs)
    approved(served, run)
    assert served.ended(run, 180)["name"] == "Published"
    check_whole(served, "waiting")


@pytest.mark.parametrize("part", [*PARTS, "run"])
def test_whatever_dies_while_a_release_is_published_it_ends_whole(served: Any, part: str) -> None:
    plan = f"publishing-{part}"
    served.plan(plan, seed=20 + len(part))
    served.deployed(plan)
    run = served.run(plan)
    served.paused(run)
    with held(served, "publish.lock"):
        approved(served, run)
        served.until(lambda: "publishing" in served.events(plan), 90, served.logs)
        assert not (served.home.releases / plan).exists() or not list((served.home.releases / plan).iterdir())
        if part == "run":
            working = json.loads((served.home.path / "served" / "runs" / f"{run}.json").read_text())
            os.kill(working["pid"], signal.SIGKILL)
        else:
            served.kill(part)
    assert served.ended(run, 180)["name"] == "Published"
    check_whole(served, plan)


def test_a_killed_serve_leaves_nothing_running_and_another_goes_on(served: Any) -> None:
    served.plan("outage", seed=40)
    served.deployed("outage")
    run = served.run("outage")
    served.paused(run)
    pids = [served.pid(part) for part in PARTS]
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait()
    served.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 60, lambda: str(pids))
    served.start()
    approved(served, run)
    assert served.ended(run, 180)["name"] == "Published"
    check_whole(served, "outage")
