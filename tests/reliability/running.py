"""Runs as a person starts them, with faults from outside; and what must hold after."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.common.home import Home
from tasks.publication.manifest import verify_release
from tasks.publication.withdraw import NOTICE
from tasks.record import ledger
from tasks.record.entry import Event, ReleaseFacts
from tasks.record.ledger_verification import CUT_SHORT
from tests import nursery
from tests.reliability.canaries import Canaries, Hit, release_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMAND = (sys.executable, "-c", "from flows.cli import main; main()")
# What a file that is written whole is called until it is.
HALF = re.compile(r"^\..+\.[0-9a-f]{8}$|\.partial$")


@dataclass(frozen=True)
class Done:
    """How a command ended: a negative code is the signal that killed it."""

    code: int
    said: str
    seconds: float


@dataclass
class Place:
    """Everything that a run can write to, beside its input: home, temporary folder, $HOME, terminal."""

    root: Path
    canaries: Canaries
    plan: Path = field(init=False)

    def __post_init__(self) -> None:
        for name in ("left/tmp", "left/user", "left/work", "left/terminal"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.watched = self.root / "watched"
        self.log = self.root / "operations"
        self.plan = self.root / "input" / "office.yaml"

    @property
    def left(self) -> Path:
        """What is searched afterwards."""
        return self.root / "left"

    @property
    def home(self) -> Home:
        return Home(self.left / "home")

    def write(self, **options: str) -> Path:
        self.plan = self.canaries.write(self.root / "input", **options)
        return self.plan

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: os.environ[k] for k in ("PATH", "LANG", "ANONFLOW_TEMPLATES") if k in os.environ}
        return (
            kept
            | {
                "HOME": str(self.left / "user"),
                "TMPDIR": str(self.left / "tmp"),
                "ANONFLOW_HOME": str(self.left / "home"),
                "PYTHONPATH": os.pathsep.join([str(HERE / "hook"), str(ROOT)]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "RELIABILITY_WATCH": str(self.watched),
                "RELIABILITY_PLACE": str(self.root),
            }
            | more
        )

    def command(
        self,
        *arguments: str | Path,
        faults: dict[str, Any] | None = None,
        umask: int = 0o022,
        before: tuple[str, ...] = (),
        kill_after: float | None = None,
        **more: str,
    ) -> Done:
        """Run ``anonflow`` as a process of its own; its terminal is kept among what is searched.

        With ``kill_after`` the whole process group is killed after so many seconds.
        """
        said = self.left / "terminal" / f"{len(list((self.left / 'terminal').iterdir())):04d}"
        variables = self.environment(**more)
        if faults:
            variables["RELIABILITY_FAULTS"] = json.dumps(self.faults(faults))
        begun = time.monotonic()
        with said.open("wb") as terminal:
            process = subprocess.Popen(
                [*before, *COMMAND, *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.STDOUT,
                cwd=self.left / "work", env=variables, umask=umask, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(600 if kill_after is None else kill_after)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
                if kill_after is None:
                    raise
        return Done(code, said.read_text(errors="replace"), time.monotonic() - begun)

    def faults(self, given: dict[str, Any]) -> dict[str, Any]:
        """Complete what is to go wrong by where things are."""
        return {
            "source": str(self.root / "input" / "people.csv"),
            "mlflow": str(self.home.path / "mlflow" / "mlflow.db"),
            "log": str(self.log),
        } | given

    def hits(self) -> tuple[list[Hit], int, int]:
        """Search everything that is left; a release's own values are its own."""
        data, documents = release_of(self.home.path)
        return self.canaries.search(self.left, data=data, documents=documents)

    def beyond(self) -> list[str]:
        """Return what was tried to be reached beyond this machine, and to be written beyond this place."""
        return self.watched.read_text().splitlines() if self.watched.exists() else []

    def clear(self) -> None:
        """Forget every earlier run."""
        shutil.rmtree(self.left, ignore_errors=True)
        self.watched.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        self.__post_init__()


class Nursery(nursery.Nursery):
    """Commands without Prefect as children of a process that has everything imported."""

    def __init__(self, place: Place) -> None:
        self.place = place
        super().__init__(place.environment(), place.home.path)

    def command(
        self,
        *arguments: str | Path,
        faults: dict[str, Any] | None = None,
        after: float | None = None,
        umask: int = 0o022,
        **environment: str,
    ) -> Done:
        """Carry out one command; ``after`` so many seconds it is killed."""
        terminal = self.place.left / "terminal"
        said = terminal / f"{len(list(terminal.iterdir())):04d}"
        answer = self.carry_out(
            arguments=[str(a) for a in arguments], faults=self.place.faults(faults) if faults else None,
            output=str(said), after=after, umask=umask, environment=environment,
        )  # fmt: skip
        # A command that is killed at once has not opened its terminal.
        text = said.read_text(errors="replace") if said.exists() else ""
        return Done(answer["code"], text, answer["seconds"])


# What must hold


def whole(home: Home) -> list[str]:
    """Return what must never be: a release in parts, one unlogged, or one logged that is not there."""
    found = []
    if not home.path.exists():
        return found
    problems = ledger.problems(home) if home.ledger.exists() else []
    found += [f"ledger: {p.sentence}" for p in problems if p.kind not in CUT_SHORT]
    events: dict[str, list[str]] = {}
    for entry in ledger.find(home, ReleaseFacts):
        events.setdefault(entry.facts.release, []).append(entry.event)
    for folder in releases(home):
        found += [f"{folder.name}: {one.sentence}" for one in verify_release(folder)]
        if "publishing" not in events.get(folder.name, ()):
            found.append(f"{folder.name} stands published and was not announced in the ledger")
    standing = {folder.name for folder in releases(home)}
    for release, said in events.items():
        if "published" in said and "withdrawing" not in said and release not in standing:
            found.append(f"{release} is published by the ledger and does not stand")
    for release in mirrored(home):
        if "published" not in events.get(release, ()):
            found.append(f"{release} is published by MLflow and not by the ledger")
    return found


def settled(home: Home) -> list[str]:
    """Return what must not be once a run has ended after one that was cut short."""
    found = whole(home) + [f"ledger: {one.sentence}" for one in ledger.problems(home)]
    published = entered(home, "published") - entered(home, "withdrawn")
    standing = {folder.name for folder in releases(home)}
    if published != standing:
        found.append(f"{len(published)} published by the ledger, {len(standing)} stand")
    if not published <= mirrored(home):
        found.append("a published release is not shown as published in MLflow")
    found += ["a workspace is left"] * len(workspaces(home))
    for path in sorted(home.path.rglob("*")):
        inside = path.relative_to(home.path)
        if inside.parts[0] not in ("mlflow", "workspace") and HALF.search(path.name):
            found.append(f"a half-written file is left: {inside.parent}/{path.name[:-8]}")
        if path.is_dir() and path.parent.parent == home.releases and path.name.startswith("."):
            found.append("a staged release is left")
    waiting = entered(home, "awaiting")
    for folder in home.candidates.glob("*"):
        if folder.name not in waiting:
            found.append("a candidate is left that nobody was asked about")
    return found


def entered(home: Home, event: Event) -> set[str]:
    """Return the releases about which an event was entered."""
    return {e.facts.release for e in ledger.find(home, ReleaseFacts, event)}


def workspaces(home: Home) -> list[Path]:
    """Return the workspaces that hold anything beside the name of their owner, or nothing yet."""
    return [
        folder
        for folder in home.workspaces.glob("*/")
        if any(p.is_file() and "owner" not in p.name for p in folder.rglob("*"))
    ]


def time_passes(home: Home) -> None:
    """Make whatever is half-written, or a workspace being opened, two minutes old, as if the next run came later."""
    before = time.time() - 120
    for path in home.path.rglob(".*"):
        if not path.is_symlink():
            os.utime(path, (before, before))


def releases(home: Home) -> list[Path]:
    """Return the folders in which a release stands for readers."""
    return [
        folder
        for folder in home.releases.glob("*/*")
        if folder.is_dir() and not folder.name.startswith(".") and not (folder / NOTICE).exists()
    ]


def mirrored(home: Home) -> set[str]:
    """Return the releases that MLflow shows as published."""
    database = home.path / "mlflow" / "mlflow.db"
    if not database.is_file():
        return set()
    query = (
        "select i.value from tags s join tags i on i.run_uuid = s.run_uuid and i.key = 'release.id' "
        "where s.key = 'release.status' and s.value = 'published'"
    )
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
            return {value for (value,) in opened.execute(query)}
    except sqlite3.DatabaseError:
        return set()


def open_modes(folder: Path) -> list[str]:
    """Return what others than the owner may read, write or enter below a folder."""
    return [
        f"{path.relative_to(folder)} {path.stat().st_mode & 0o777:o}"
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and not path.is_socket() and path.stat().st_mode & 0o077
    ]
