"""Everything in this folder in its long form; its figures are written to ``docs/explanation/reliability.md``.

Run ``python -m tests.reliability.report``. ``--quick`` does a sample of everything and writes no document.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from tests.reliability.canaries import Canaries
from tests.reliability.kills import Survey, survey
from tests.reliability.outcomes import (
    STEPS,
    Ended,
    alone_in_a_network,
    broken_steps,
    endings,
    mishaps,
    on_a_small_disk,
    traced,
)
from tests.reliability.running import ROOT, Nursery, Place
from tests.reliability.sections import PAGE, section_of

TEMPLATE = Path(__file__).with_name("page.md")
HOSTILE = ROOT / "tests" / "hostile"
AUDIT = ROOT / "tests" / "tasks" / "audit" / "test_verification.py"


@dataclass
class Found:
    """What was done and what came of it."""

    ended: list[Ended] = field(default_factory=list)
    mishaps: list[Ended] = field(default_factory=list)
    kills: Survey = field(default_factory=Survey)
    operations: int = 0
    attempts: list[str] = field(default_factory=list)
    watched: int = 0
    network: dict[str, str] = field(default_factory=dict)
    hostile: dict[str, Any] = field(default_factory=dict)
    tampering: tuple[int, int] = (0, 0)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0

    def note(self, where: list[Ended], ended: Iterable[Ended]) -> None:
        """Keep outcomes as they come, and say how each went."""
        for one in ended:
            where.append(one)
            say(f"{one.way}: {one.name}: {'; '.join(one.problems) or 'in order'}")

    @property
    def problems(self) -> list[str]:
        runs = [f"{e.name} ({e.way}): {p}" for e in (*self.ended, *self.mishaps) for p in e.problems]
        kills = [f"{k.how}, {k.point}: {p}" for k in self.kills.kills for p in k.problems]
        found, cases = self.tampering
        missed = [f"{cases - found} tampering case(s) not found"] if found < cases else []
        wrong = [f"bad input: {one['case']}" for one in self.hostile.get("failed", ())]
        away = [f"connection: {a}" for a in self.attempts]
        return runs + kills + missed + wrong + away + self.failures


def say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def direct(found: Found, root: Path, kills: int, *, quick: bool) -> None:
    """Without Prefect: every outcome, faults in every step, other mishaps, and the kills."""
    place = Place(root, Canaries.plant())
    place.write()
    with Nursery(place) as nursery:
        found.note(found.ended, endings(place, nursery.command, "direct"))
        steps, some = (("mask",), ("mask",)) if quick else (STEPS, ("ingest", "mask", "_track", "conclude"))
        found.note(found.ended, broken_steps(place, nursery.command, "direct", ("raise", "kill"), steps))
        found.note(found.ended, broken_steps(place, nursery.command, "direct", ("term", "full", "memory"), some))
        place.write()
        found.note(found.mishaps, mishaps(place, nursery, points=1 if quick else 6))
        small = [on_a_small_disk(place, megabytes) for megabytes in (1, 2, 3)]
        found.note(found.mishaps, [one for one in small if one is not None])
        place.clear()
        stated, torn = round(kills * 0.6), round(kills * 0.2)
        rest = kills - stated - torn
        found.operations = survey(
            found.kills,
            place, nursery, stated=stated, torn=torn, moments=rest, through_prefect=0, told=say
        )  # fmt: skip


def through_prefect(found: Found, root: Path, kills: int, *, quick: bool) -> None:
    """Through Prefect: every outcome, an exception and a kill in every step, kills at random moments."""
    place = Place(root, Canaries.plant())
    place.write()
    ended = endings(place, place.command, "Prefect")
    found.note(found.ended, islice(ended, 3) if quick else ended)
    steps = ("mask",) if quick else STEPS
    found.note(found.ended, broken_steps(place, place.command, "Prefect", ("raise", "kill"), steps))
    network(found, place)
    place.write()
    with Nursery(place) as nursery:
        survey(found.kills, place, nursery, stated=0, torn=0, moments=0, through_prefect=kills, told=say)


def network(found: Found, place: Place) -> None:
    """Run the demonstration watched, traced, and without a network."""
    place.clear()
    done = place.command("demo")
    found.attempts += place.beyond()
    said = {0: "published"}.get(done.code, f"ended with {done.code}")
    found.network["watched: every process's sockets and look-ups, from inside"] = (
        f"{said}, {len(place.beyond())} attempts"
    )
    place.clear()
    if (seen := traced(place, "demo")) is not None:
        done, away = seen
        found.attempts += away
        found.network["traced: system calls of every process, from outside"] = f"{len(away)} attempts"
    place.clear()
    if (alone := alone_in_a_network(place, "demo")) is not None:
        found.network["run where there is no network but loopback"] = (
            "published" if alone.code == 0 else f"ended with {alone.code}"
        )
        if alone.code:
            found.failures.append(f"without a network the demonstration ends with {alone.code}")


def hostile() -> dict[str, Any]:
    """Return the counts of bad input, from the command of `tests.hostile` or from what it has left."""
    command, kept = HOSTILE / "run.py", HOSTILE / "results.json"
    if command.exists():
        done = subprocess.run([sys.executable, str(command), "--json"], cwd=ROOT, capture_output=True, text=True)
        if done.stdout.strip():
            return dict(json.loads(done.stdout))
    return dict(json.loads(kept.read_text())) if kept.exists() else {}


def tampering() -> tuple[int, int]:
    """Return how many of the tampering cases the audit finds, and how many there are."""
    with tempfile.TemporaryDirectory() as scratch:
        told = Path(scratch) / "told.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", str(AUDIT), "-k", "tampering_is_found", f"--junitxml={told}"],
            cwd=ROOT, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        cases = list(ElementTree.parse(told).getroot().iter("testcase"))
    return sum(not any(child.tag in ("failure", "error", "skipped") for child in case) for case in cases), len(cases)


def page(found: Found) -> str:
    """Return the figures as a document."""
    killed = found.kills.killed
    return TEMPLATE.read_text(encoding="utf-8").format(
        figures="\n".join(f"| {name} | **{figure}** | {what} |" for name, figure, what in _figures(found)),
        versions=f"Python {platform.python_version()}, {platform.system()}; Prefect {version('prefect')}, "
        f"MLflow {version('mlflow')}, Great Expectations {version('great-expectations')}.",
        minutes=found.seconds / 60,
        records=len(Canaries.plant().frame),
        searches="\n".join(_searches(found)),
        operations=found.operations,
        ways="\n".join(f"| {how} | {n} | {good} |" for how, (n, good) in found.kills.by_how().items()),
        published=sum(k.announced for k in killed),
        workspaces=sum(k.left_workspace for k in killed),
        mishaps="\n".join(f"| {e.name} | {e.code} | {'no' if e.problems else 'yes'} |" for e in found.mishaps),
        network="\n".join(f"| {how} | {what} |" for how, what in found.network.items()),
        problems="\n".join(f"- {p[:400]}" for p in dict.fromkeys(" ".join(p.split()) for p in found.problems))
        or "None.",
        **{name: section_of(name) or "Not measured." for name in ("soak", "year", "fuzzed", "moments")},
    )


def _figures(found: Found) -> list[tuple[str, str, str]]:
    searched, bad, (tampered, cases) = [*found.ended, *found.mishaps], found.hostile, found.tampering
    killed, survived = len(found.kills.killed), len(found.kills.survived)
    well = sum(not e.problems for e in found.mishaps)
    return [
        (
            "invalid inputs tried, refused, correctly accepted",
            f"{bad['tried']}, {bad['refused']}, {bad['tried'] - bad['refused'] - len(bad['failed'])}"
            if bad
            else "not measured",
            "plans, tables, databases and names that are wrong, hostile or damaged, or appear so; `tests/hostile`",
        ),
        ("kills, recovered", f"{killed}, {survived}", "at stated write operations and at random moments"),
        (
            "canary hits",
            str(sum(e.hits for e in searched)),
            f"in {len(searched)} searches, after every outcome",
        ),
        ("tampering cases, detected", f"{cases}, {tampered}", "`tests/tasks/audit/test_verification.py`"),
        ("connections attempted", str(len(found.attempts)), "to any other machine, by all processes"),
        ("other failures, handled", f"{len(found.mishaps)}, {well}", "disk, MLflow, clock"),
    ]


def _searches(found: Found) -> list[str]:
    groups: dict[tuple[str, str], list[Ended]] = {}
    for one in found.ended:
        name = one.name.removeprefix("the run after ")
        after = "the run after " if name != one.name else ""
        for start in (
            "an exception that quotes records",
            "SIGKILL",
            "SIGTERM",
            "a full disk",
            "no memory",
            "refused",
        ):
            if name.startswith(start):
                name = {"refused": "input that is refused"}.get(start, f"{start} in a step")
        groups.setdefault((after + name, one.way), []).append(one)
    groups |= {("other failures", "direct"): found.mishaps} if found.mishaps else {}
    return [
        f"| {name} | {way} | {len(of)} | {sum(e.files for e in of)} | "
        f"{sum(e.searched for e in of) / 1e6:.0f} | {sum(e.hits for e in of)} |"
        for (name, way), of in groups.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=104, help="without Prefect")
    parser.add_argument("--prefect-kills", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if given.quick:
        given.kills, given.prefect_kills = min(given.kills, 10), min(given.prefect_kills, 1)
    target = given.output or (None if given.quick else PAGE)
    found, other = Found(), Found()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="reliability-", ignore_cleanup_errors=True) as scratch:
        root = Path(scratch)
        prefect = _kept(found, lambda: through_prefect(other, root / "p", given.prefect_kills, quick=given.quick))
        beside = threading.Thread(target=prefect, daemon=True)
        beside.start()
        _kept(found, lambda: direct(found, root / "d", given.kills, quick=given.quick))()
        found.tampering, found.hostile = tampering(), hostile()
        _kept(found, beside.join)()
    found.seconds = time.monotonic() - begun
    found.ended += other.ended
    found.kills.kills += other.kills.kills
    found.attempts += other.attempts
    found.network, found.failures = other.network, found.failures + other.failures
    text = page(found)
    if target is not None:
        target.write_text(text, encoding="utf-8")
    kills, survived = len(found.kills.killed), len(found.kills.survived)
    say(f"{kills} kills, {survived} survived; {len(found.problems)} problem(s); {target or 'not written'}")
    for problem in found.problems:
        say(problem)
    return 1 if found.problems else 0


def _kept(found: Found, what: Callable[[], None]) -> Callable[[], None]:
    """Return what notes a failure of the harness itself, or Ctrl-C, and lets the document be written."""

    def call() -> None:
        try:
            what()
        except (Exception, KeyboardInterrupt) as error:
            found.failures.append(f"the harness was cut short: {type(error).__name__}: {error}")

    return call


if __name__ == "__main__":
    sys.exit(main())
