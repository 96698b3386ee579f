"""Let the real command meet every case, and say which did not end as they should.

    python tests/hostile/run.py --json              every case, the heavy ones as processes with 4 GB each
    python tests/hostile/run.py --processes --json  every case as such a process

What must hold of each: exit code 2, one message that says what is wrong and names no value of the data,
no traceback, nothing for the terminal to carry out, nothing left in the home's workspace, an end in a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.hostile.cases import CANARY, CASES, TRAP, Case  # noqa: E402

SECONDS = 60
BYTES = 4 << 30
LINES = 35
LONGEST = 30_000
COMMAND = [sys.executable, "-c", "from flows.cli import main; main()"]


@dataclass(frozen=True)
class Met:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float


class Home:
    """A home that every case of a process shares, since the frameworks are told once where it is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def left(self) -> list[str]:
        """Return what lies where raw and half-finished data would."""
        rooms = ("workspace", "candidates", "releases", "assessments", "comparisons")
        return [str(p.relative_to(self.path)) for room in rooms for p in (self.path / room).glob("*")]

    def told(self) -> list[str]:
        """Return the files that hold the canary."""
        marks = (CANARY.encode(), CANARY.encode("utf-16-le"))
        files = [p for p in self.path.rglob("*") if p.is_file() and p.stat().st_size < 50_000_000]
        return [str(p.relative_to(self.path)) for p in files if any(m in p.read_bytes() for m in marks)]


class TooLongError(BaseException):
    """A case did not end in time; no handler of the product must take it for its own."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """End what is inside when it takes longer."""

    def stop(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def meet_inside(arguments: list[str], _: Home, seconds: int = SECONDS) -> Met:
    """Carry a command out in this process, by the function that the command itself is made of."""
    from flows import cli

    out, err = io.StringIO(), io.StringIO()
    begun = time.monotonic()
    code, before = -1, sys.argv
    sys.argv = ["anonflow", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), at_most(seconds):
            code = cli.exit_code_of(lambda: cli.app(arguments, standalone_mode=True), as_json=False)
    except TooLongError:
        err.write("no end")
    finally:
        sys.argv = before
    return Met(code, out.getvalue(), err.getvalue(), time.monotonic() - begun)


def meet_outside(arguments: list[str], home: Home) -> Met:
    """Carry a command out as a process with little memory."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))

    begun = time.monotonic()
    # Threads of the numerics reserve address space each.
    environment = {"ANONFLOW_HOME": str(home.path), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=ROOT,
        env=os.environ | environment,
        preexec_fn=limited,
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += "no end"
    return Met(process.returncode, out, err, time.monotonic() - begun)


def wrong(case: Case, met: Met) -> list[str]:
    """Return what did not go as it must."""
    found = []
    if met.code != case.code:
        found.append(f"exit code {met.code}")
    message = met.err.partition("Refused\n")[2] if case.code else ""
    if case.code:
        if met.err.count("Refused\n") != 1 or met.out:
            found.append("not one message")
        if not re.search(case.words, " ".join(message.split()), re.DOTALL):
            found.append("does not say what is wrong")
        if len(message.splitlines()) > LINES or len(message) > LONGEST:
            found.append(f"a message of {len(message.splitlines())} lines, {len(message)} characters")
        if CANARY in met.out + met.err:
            found.append("a value of the data is shown")
    if any(not c.isprintable() and c not in "\n\t" for c in met.out + met.err):
        found.append("writes control characters to the terminal")
    if "Traceback" in met.err or "no end" in met.err:
        found.append("no end" if "no end" in met.err else "a traceback")
    return found


def meet(case: Case, folder: Path, home: Home, *, outside: bool = False) -> tuple[Met, list[str]]:
    """Build a case in a folder, let the command meet it, and return how that ended and what was wrong."""
    arguments = case.build(folder)
    before, left = set(folder.parent.iterdir()), {*home.left(), *home.told()}
    with case.beside(folder):
        met = (meet_outside if outside else meet_inside)(arguments, home)
    found = wrong(case, met)
    found += [f"left behind: {name}" for name in sorted({*home.left(), *home.told()} - left)]
    if TRAP.exists():
        TRAP.unlink()
        found.append("something in the file was carried out")
    found += [f"written beside: {p.name}" for p in folder.parent.iterdir() if p not in before]
    return met, found


def ready(home: Path) -> Home:
    """Make a home, and tell the frameworks of this process where it is."""
    from flows import embedded

    home.mkdir(parents=True, exist_ok=True)
    os.environ["ANONFLOW_HOME"] = str(home)
    embedded.apply(home)
    return Home(home)


def main() -> int:
    """Run the cases; 0 when every one ended as it should."""
    options = argparse.ArgumentParser()
    options.add_argument("--json", action="store_true")
    options.add_argument("--processes", action="store_true", help="a process for every case")
    options.add_argument("--quick", action="store_true", help="without the heavy cases")
    options.add_argument("--only", default="", help="part of the cases' names")
    given = options.parse_args()
    base = Path(tempfile.mkdtemp(prefix="anonflow-hostile-"))
    os.environ["COLUMNS"] = "200"
    os.umask(0o077)
    # A case that goes wrong must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_AS, (2 * BYTES, 2 * BYTES))
    home = ready(base / "home")
    done: dict[str, Any] = {
        "tried": 0,
        "refused": 0,
        "accepted": 0,
        "seconds": 0.0,
        "slowest": {},
        "failed": [],
    }
    try:
        for number, case in enumerate(c for c in CASES if given.only in c.name):
            if given.quick and case.heavy:
                continue
            folder = base / "cases" / str(number)
            folder.mkdir(parents=True)
            met, found = meet(case, folder, home, outside=given.processes or case.heavy)
            shutil.rmtree(folder)
            done["tried"] += 1
            done["refused"] += met.code == 2
            done["accepted"] += met.code == 0
            done["seconds"] = round(done["seconds"] + met.seconds, 1)
            done["slowest"][case.name] = round(met.seconds, 1)
            if found:
                done["failed"].append({"case": case.name, "problems": found, "said": (met.out + met.err)[-600:]})
            if not given.json:
                sys.stderr.write(
                    f"{'FAILED' if found else 'ok':6} {met.seconds:5.1f} s  {case.name}: {'; '.join(found)}\n"
                )
    finally:
        shutil.rmtree(base, ignore_errors=True)
    slow = sorted(done["slowest"].items(), key=lambda item: -item[1])[:5]
    done["slowest"] = dict(slow)
    sys.stdout.write(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    return bool(done["failed"])


if __name__ == "__main__":
    sys.exit(main())
