"""Every way a run can end, through Prefect and without, with canaries in every column of its input."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.record import ledger
from tests.reliability.canaries import LENIENT, Canaries, told
from tests.reliability.running import (
    Done,
    Nursery,
    Place,
    open_modes,
    settled,
    time_passes,
    whole,
    workspaces,
)

STEPS = (
    "ingest", "validate_raw", "split", "mask", "validate_masked", "assess", "against_earlier", "follow", "decide",
    "prepare_data", "document", "_track", "conclude", "mirror_entry",
)  # fmt: skip
Run = Callable[..., Done]


@dataclass(frozen=True)
class Ended:
    """One outcome: what was searched and found, and what else was not as it should be."""

    name: str
    way: str
    code: int
    problems: tuple[str, ...]
    hits: int
    files: int
    searched: int


def judge(place: Place, name: str, way: str, done: Done, expected: set[int], *, dead: bool = False) -> Ended:
    """Search what an outcome has left; ``dead``: its workspace still stands, for the next run to wipe."""
    hits, files, size = place.hits()
    if dead:
        hits = [h for h in hits if not h.path.startswith("home/workspace/")]
    problems = [f"canary in {told([hit])}" for hit in hits]
    if done.code not in expected:
        problems.append(f"ends with {done.code}: {done.said[-500:]}")
    if "Traceback" in done.said:
        problems.append("shows a traceback")
    problems += whole(place.home)
    if not dead:
        problems += [f"a workspace is left: {path.name}" for path in workspaces(place.home)]
        problems += [f"temporary file left: {path.name}" for path in (place.left / "tmp").iterdir()]
    problems += [f"open to others: {path}" for path in open_modes(place.home.path)]
    problems += [f"beyond: {line}" for line in place.beyond()]
    return Ended(name, way, done.code, tuple(problems), len(hits), files, size)


def endings(place: Place, run: Run, way: str) -> Iterator[Ended]:
    """Give the outcomes that need no fault: published, rejected, awaiting, decided, withdrawn, refused."""
    inline = () if way == "Prefect" else ("--inline",)
    place.clear()
    done = run("run", place.write(), *inline)
    yield judge(place, "published", way, done, {0})
    yield judge(place, "published, and run again", way, run("run", place.plan, *inline), {0})
    release = ledger.entries(place.home)[-1].facts.subject
    done = run("withdraw", release, "--by", "A. Smith", "--reason", "a test")
    yield judge(place, "withdrawn", way, done, {0})
    place.clear()
    done = run("run", place.write(policy="utility: {pair: 0, two_samples: 0, exceeded: reject}"), *inline)
    yield judge(place, "rejected", way, done, {3})
    for decision in ("approve", "reject"):
        place.clear()
        done = run("run", place.write(policy=f"approval: person, {LENIENT}"), *inline)
        yield judge(place, "awaiting a person", way, done, {4})
        release = ledger.entries(place.home)[-1].facts.subject
        done = run(decision, release, "--by", "A. Smith", "--reason", "a test")
        yield judge(place, f"awaiting, and a person says {decision}", way, done, {0})
    yield from refused_inputs(place, run, way)


def refused_inputs(place: Place, run: Run, way: str) -> Iterator[Ended]:
    """Give inputs that are refused, each with canaries where it is wrong."""
    frame = place.canaries.frame
    inline = () if way == "Prefect" else ("--inline",)

    def text_in_a_number(path: Path) -> None:
        wrong = frame.astype({"net": object})
        wrong.loc[3, "net"] = "Qx7Person00003z 31415926.53"
        wrong.to_csv(path, index=False)

    def an_edit_violated(path: Path) -> None:
        wrong = frame.copy()
        wrong.loc[:4, "gross"] += 17
        wrong.to_csv(path, index=False)

    def a_value_out_of_levels(path: Path) -> None:
        wrong = frame.copy()
        wrong.loc[5, "sex"] = "Qx7Rare9z"
        wrong.to_csv(path, index=False)

    wrongs = {
        "text in a column of numbers": text_in_a_number,
        "an edit is violated": an_edit_violated,
        "a value that is no level": a_value_out_of_levels,
        "no header": lambda path: frame.to_csv(path, index=False, header=False),
        "a record too short": lambda path: path.write_text(frame.to_csv(index=False) + "Qx7Person99999z,1\n"),
        "a record too long": lambda path: path.write_text(frame.to_csv(index=False) + "Qx7Person99999z," * 30 + "\n"),
        "a quote not closed": lambda path: path.write_text(frame.to_csv(index=False) + '"Qx7Person99999z,'),
        "bytes that are no text": lambda path: path.write_bytes(
            frame.to_csv(index=False).encode() + b"Qx7Person\xff\xfe"
        ),
        "too few records": lambda path: frame.head(3).to_csv(path, index=False),
    }
    for name, wrong in wrongs.items():
        place.clear()
        plan = place.write()
        wrong(plan.parent / "people.csv")
        yield judge(place, f"refused: {name}", way, run("run", plan, *inline), {2})


def broken_steps(
    place: Place, run: Run, way: str, hows: tuple[str, ...], steps: tuple[str, ...] = STEPS
) -> Iterator[Ended]:
    """Give a run for each step that goes wrong when its work is done, and the run after it."""
    inline = () if way == "Prefect" else ("--inline",)
    words = {
        "raise": ("an exception that quotes records, in", {1}),
        "kill": ("SIGKILL in", {-9}),
        "term": ("SIGTERM in", {128 + 15}),
        "full": ("a full disk in", {1}),
        "memory": ("no memory in", {1}),
    }  # fmt: skip
    for how in hows:
        for step in steps:
            place.clear()
            done = run("run", place.write(), *inline, faults={"steps": {step: how}})
            name, expected = f"{words[how][0]} {step.strip('_')}", words[how][1]
            yield judge(place, name, way, done, expected, dead=how == "kill")
            again = run("run", place.plan, *inline)
            ended = judge(place, f"the run after {name}", way, again, {0})
            problems = [*ended.problems, *settled(place.home)]
            if how == "kill" and "Wipe the workspace of 1 run" not in again.said:
                problems.append("does not say that it wiped the dead run's workspace")
            yield Ended(ended.name, way, again.code, tuple(problems), ended.hits, ended.files, ended.searched)


# What else can fail while a run goes on


def mishaps(place: Place, nursery: Nursery, *, points: int = 6) -> Iterator[Ended]:
    """Give runs on a full or read-only disk, with MLflow locked or gone, and with the clock set back."""
    from tests.reliability.kills import operations, spread

    place.write()
    total = len(operations(place, nursery))
    cases: dict[str, dict[str, Any]] = {
        f"disk full from write operation {number} of {total} on": {
            "root": str(place.left), "at": number, "how": errno.ENOSPC, "lasting": True,
        }
        for number in spread(total, points)
    } | {
        f"write operation {number} of {total} fails once": {
            "root": str(place.left), "at": number, "how": errno.EIO,
        }
        for number in spread(total, points)
    } | {
        f"{where} cannot be written to": {
            "root": str(place.left), "at": 1, "how": errno.EROFS, "lasting": True, "only": where,
        }
        for where in ("releases/", "ledger.", "assessments/", "mlflow/artifacts", "workspace/")
    } | {
        "MLflow's database is gone in mid-run": {"steps": {"document": "mlflow-gone"}},
        "MLflow's database is gone after the publication": {"steps": {"conclude": "mlflow-gone"}},
        "MLflow's database is locked in mid-run": {"steps": {"document": "mlflow-locked"}},
        "MLflow's database is locked after the publication": {"steps": {"conclude": "mlflow-locked"}},
    }  # fmt: skip
    for name, faults in cases.items():
        place.clear()
        yield _mishap(place, nursery, name, nursery.command("run", place.plan, "--inline", faults=faults))
    place.clear()
    done = place.command("run", place.plan, "--inline", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    yield _mishap(place, nursery, "MLflow cannot be reached", done, expected={1})
    for back in (3600, 20 * 365 * 86400):
        place.clear()
        nursery.command("run", place.plan, "--inline")
        other = Canaries.of(place.canaries.frame.iloc[::-1].reset_index(drop=True))
        other.frame.to_csv(place.plan.parent / "people.csv", index=False)
        done = nursery.command("run", place.plan, "--inline", faults={"back": back})
        yield _mishap(
            place,
            nursery,
            f"the clock goes back by {back // 3600} hours between two runs",
            done,
            expected={0, 4},
        )
        place.write()


def _mishap(place: Place, nursery: Nursery, name: str, done: Done, expected: set[int] | None = None) -> Ended:
    """Judge a run, then mend what was broken and see that the next one goes well."""
    dead = done.code == 1 and bool(workspaces(place.home)) and "workspace/" in name
    ended = judge(place, name, "direct", done, expected or {0, 1, 2, 4}, dead=dead)
    problems = list(ended.problems)
    if done.code and not any(word in done.said for word in ("Fault", "Refused", "Awaiting")):
        problems.append(f"ends without a clear word: {done.said[-300:]}")
    away = place.home.path / "mlflow" / "mlflow.db.elsewhere"
    if away.exists():
        broken = away.with_name("mlflow.db")
        shutil.rmtree(broken) if broken.is_dir() else broken.unlink(missing_ok=True)
        os.rename(away, broken)
    time_passes(place.home)
    again = nursery.command("run", place.plan, "--inline")
    if again.code not in (0, 4):
        problems.append(f"the next run ends with {again.code}: {again.said[-300:]}")
    else:
        problems += [f"after the next run: {sentence}" for sentence in settled(place.home)]
    return Ended(name, "direct", done.code, tuple(problems), ended.hits, ended.files, ended.searched)


def on_a_small_disk(place: Place, megabytes: int) -> Ended | None:
    """Run on a file system that really is full before the end; None where none may be mounted."""
    place.clear()
    place.home.path.mkdir(parents=True)
    script = (
        'mount -t tmpfs -o size="$1"m tmpfs "$ANONFLOW_HOME" || exit 77; shift; "$@"; code=$?; '
        'cp -a "$ANONFLOW_HOME" "$COPY"; exit $code'
    )
    copy = place.root / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    before = ("unshare", "-m", "sh", "-c", script, "sh", str(megabytes))
    done = place.command("run", place.plan, "--inline", before=before, COPY=str(copy))
    if done.code == 77 or not copy.exists():
        return None
    shutil.rmtree(place.home.path)
    shutil.copytree(copy, place.home.path, symlinks=True)
    shutil.rmtree(copy)
    return judge(place, f"a file system of {megabytes} MB", "direct", done, {0, 1, 2, 4})


def alone_in_a_network(place: Place, *arguments: str) -> Done | None:
    """Run a command where there is no network but loopback; None where that is not permitted."""
    up = (
        "import fcntl, os, socket, struct, sys\n"
        "s = socket.socket()\n"
        "fcntl.ioctl(s, 0x8914, struct.pack('16sh14x', b'lo', 0x49))\n"
        "s.close()\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode:
        return None
    return place.command(*arguments, before=("unshare", "-rn", sys.executable, "-S", "-c", up))


def traced(place: Place, *arguments: str) -> tuple[Done, list[str]] | None:
    """Run a command under strace; return how it ended and every connection to another machine."""
    if shutil.which("strace") is None:
        return None
    log = place.root / "strace"
    log.unlink(missing_ok=True)
    before = ("strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", str(log))
    done = place.command(*arguments, before=before)
    lines = log.read_text(errors="replace").splitlines()
    away = [
        line
        for line in lines
        if ("AF_INET" in line) and not any(here in line for here in ('"127.', '"::1"', '"0.0.0.0"'))
    ]
    return done, away
