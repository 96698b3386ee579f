"""What is old goes, what the ledger names stays provable."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tasks.audit import verification as audit
from tasks.audit.prune import prunable, prune
from tasks.common.home import Home, make_private, write_private
from tasks.record import ledger
from tasks.record.entry import PruneFacts
from tasks.record.pruned import Pruned
from tests.tasks.facts import enter

RUN = "1" * 32


def old(path: Path) -> Path:
    """Make a file that was last changed in 1970."""
    write_private(make_private(path.parent) / path.name, b"12345")
    os.utime(path, (0, 0))
    return path


def test_what_was_rejected_long_ago_goes_and_the_rest_stays_provable(office: Any) -> None:
    office.person("Ann")
    home: Home = office.home
    stands = office.published("stands")
    waits = office.waiting("waits", data="3" * 64)[0]
    gone, dossier = office.waiting("gone", data="4" * 64, name="other", plan="5" * 64)
    office.settle("reject", gone, dossier, "Ann")
    tracked = old(home.path / "mlflow" / "artifacts" / "1" / RUN / "artifacts" / "report.html")
    os.utime(tracked.parent, (0, 0))
    notice = old(home.path / "notices" / "delivered" / "late-1")
    assert [one.kind for one in prunable(home, time.time() - 60)] == ["MLflow files", "notice"]
    before = time.time() + 60
    found = {one.kind: one.name for one in prunable(home, before)}
    assert found == {"assessment": gone, "MLflow files": RUN, "notice": "late-1"}
    # A dry run removes nothing.
    assert notice.exists()
    entry, removed = prune(home, before, runs=2)
    assert [one.name for one in removed] == [*found.values()]
    assert sum(one.size for one in removed) > 10
    assert not any(one.path.exists() for one in removed)
    assert (entry.facts.releases, entry.facts.runs) == ((gone,), (RUN,))
    assert entry.facts.removed == {"Prefect run": 2, "assessment": 1, "MLflow files": 1, "notice": 1}
    assert audit.verify(home, mlflow=False) == []
    assert prunable(home, before) == []
    # What the entry does not name is missed, and so is what was published, whatever an entry says.
    for release in (waits, stands.release):
        facts = PruneFacts(by="x", before="", releases=(stands.release,), runs=(), removed={})
        ledger.append(home, "pruned", facts)
        (home.assessment(release) / "dossier.json").unlink()
        assert "assessment" in {one.kind for one in audit.verify(home, mlflow=False)}


def test_files_of_a_run_are_missed_when_its_release_is_assessed_again_or_was_published(tmp_path: Path) -> None:
    home = Home.locate(tmp_path)
    for release, event in (("a", "rejected"), ("b", "rejected"), ("c", "published")):
        enter(home, event, release=release, mlflow_run=release)  # type: ignore[arg-type]
    runs = ("a", "b", "c")
    ledger.append(home, "pruned", PruneFacts(by="x", before="", releases=runs, runs=runs, removed={}))
    enter(home, "awaiting", release="b", mlflow_run="b")
    assert Pruned.of(ledger.entries(home)) == Pruned({"a"}, {"a"})
