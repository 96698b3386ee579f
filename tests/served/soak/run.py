"""A long time of operation in a short one: twelve plans are released while everything around them fails.

    python -m tests.served.soak.run --runs 1000 --minutes 600 --write

Every run must end in a stated outcome, no plan may stand still for five minutes, the ledger must verify, and people
must be told of each event once. As root the home lies on a small disk of its own, which is filled, and a second worker,
as on another machine, runs the same plans.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.served.state import PendingDecision, pending_decisions
from tasks.publication.manifest import verify_release
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts
from tests.limits import NO_LOSS
from tests.reliability.sections import replace_section
from tests.served.soak.figures import LONGEST, STATED, Figures
from tests.served.soak.progress import Standstill
from tests.served.soak.second_worker import AVAILABLE, SecondWorker
from tests.served.soak.site import Site

# Set where this process has a mount of its own, and a small disk is its folder.
DISK = "SOAK_DISK"
SIZE = "4g"
# What differs from one message to the next: releases and times.
NAMES = re.compile(r"[\w-]+-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\S+")
OPEN = {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"]}}
# Seconds between two looks and two samples.
PACE, SAMPLE_PACE = 1.0, 10.0
# Seconds without any change after which the end of everything is no longer awaited, when nothing fails any more.
DRAINED = 600.0
TABLE = ", to: [{table: public.released, database: office_db}]"
LATE = ", decide_within_days: 0.0004"


@dataclass(frozen=True)
class Kind:
    """A plan: what it states, what people do about its candidates, and whether its source goes missing."""

    decision: str = "form"
    parts: tuple[tuple[str, str], ...] = ()
    missing: float = 0.0


AUTOMATIC = ("approval", "automatic")
EVERY_TEN_MINUTES = ("schedule", 'cron: "*/10 * * * *", timezone: Europe/Paris')
PLANS = {
    "asked-1": Kind(),
    "asked-2": Kind(parts=(("to", TABLE),)),
    "asked-3": Kind(parts=(EVERY_TEN_MINUTES,)),
    "terminal-1": Kind("terminal"),
    "terminal-2": Kind("terminal"),
    "turned-down": Kind("reject"),
    "forgotten": Kind("nothing", (("policy", LATE),)),
    "automatic-1": Kind(parts=(AUTOMATIC,)),
    "automatic-2": Kind(parts=(AUTOMATIC, EVERY_TEN_MINUTES)),
    "automatic-3": Kind(parts=(AUTOMATIC, ("to", TABLE.replace("released", "automatic")))),
    "harmful": Kind(parts=(("utility", NO_LOSS),)),
    "sourceless": Kind(parts=(AUTOMATIC,), missing=0.5),
}


class Soak:
    """Starts runs, decides as people do, lets things fail, and measures."""

    def __init__(self, site: Site, rng: random.Random, faults: dict[str, Callable[[], None]]) -> None:
        self.site, self.rng, self.faults = site, rng, faults
        # Seconds in which people decide at most, and between two faults in the mean.
        self.patience, self.pace = 60.0, 25.0
        self.figures = Figures(plans=len(PLANS))
        self.standstill = Standstill(site.home, site.at_once)
        self.started, self.seed = 0, 0
        self.due: dict[tuple[str, int], float] = {}
        self.order: list[str] = []
        self.terminals: list[subprocess.Popen[bytes]] = []
        self.failing = threading.Thread()
        self.next_fault, self.through = time.monotonic() + self.pace, 0
        self.sampled = self.spaced = 0.0
        self.second = SecondWorker(site, rng.randrange(2**32)) if AVAILABLE else None

    def carry_out(self, runs: int, minutes: float) -> Figures:
        """Run until so many runs were started or the time is over, and then until all have ended."""
        begun = time.monotonic()
        self.prepare()
        if self.second is not None:
            self.second.start()
        while self.started < runs and time.monotonic() - begun < minutes * 60:
            try:
                self.round(starting=True)
                self.let_fail()
            except Exception as error:
                self.figures.problems.append(f"the harness: {type(error).__name__}: {error}")
        if self.failing.is_alive():
            self.failing.join(300)
        if self.second is not None:
            self.second.stop()
            self.figures.second.update(NAMES.sub("…", end) for end in self.second.ends)
            self.figures.problems += self.second.problems
        self.site.mail.refuses = self.site.receiver.refuses = 0
        while self.round(starting=False) and self.standstill.quiet < DRAINED:
            pass
        self.figures.blocked = self.standstill.longest
        self.figures.measure_disk(self.site.home.path)
        self.count_ends()
        self.check()
        self.figures.seconds = time.monotonic() - begun
        return self.figures

    def prepare(self) -> None:
        """Write the plans, and wait until they are deployed."""
        self.site.database("office_db")
        self.site.receiver.block(self.site)
        for name, kind in PLANS.items():
            self.seed += 1
            self.site.plan(name, seed=self.seed, **dict(kind.parts))
        for name in PLANS:
            self.site.deployed(name)
        self.figures.measure_disk(self.site.home.path)

    def round(self, *, starting: bool) -> bool:
        """Look once, decide, start; return whether any run has still to end."""
        time.sleep(PACE)
        self.sample()
        open_runs = self.ask("/flow_runs/filter", {"flow_runs": {"state": OPEN}, "limit": 200})
        if open_runs is None:
            self.standstill.look(None)
            return True
        # What a schedule will start later is not due.
        now = f"{datetime.now(UTC).isoformat()}"
        due = [r for r in open_runs if r["state_type"] != "SCHEDULED" or r["expected_start_time"] <= now]
        self.standstill.look(due)
        self.decide()
        busy = {r["parameters"].get("plan") for r in due if r["state_type"] != "PAUSED"}
        paused = {r["parameters"].get("plan") for r in due if r["state_type"] == "PAUSED"}
        if starting and len(busy) < self.site.at_once:
            self.start(busy, paused)
        return bool(due)

    def ask(self, path: str, body: Any = None) -> Any:
        """Ask Prefect once; None where it does not answer."""
        try:
            return self.site.api(path, body, attempts=1)
        except (OSError, ValueError, AssertionError):
            return None

    def start(self, busy: set[Any], paused: set[Any]) -> None:
        """Start a plan that has no run under way, mostly with a new table; seldom one whose candidate waits."""
        idle = [name for name in PLANS if name not in busy and (name not in paused or self.rng.random() < 0.05)]
        if not idle:
            return
        name = self.rng.choice(idle)
        table = self.site.plans / f"{name}.csv"
        if self.rng.random() < PLANS[name].missing:
            table.unlink(missing_ok=True)
        elif self.rng.random() < 0.7 or not table.exists():
            self.seed += 1
            beside = table.with_suffix(".new")
            self.site.people(self.seed).to_csv(beside, index=False)
            beside.replace(table)
        deployment = self.ask(f"/deployments/name/Release/{name}")
        state = {"state": {"type": "SCHEDULED"}}
        if deployment and self.ask(f"/deployments/{deployment['id']}/create_flow_run", state):
            self.started += 1

    def decide(self) -> None:
        """Let people decide on what waits, each after a while."""
        ended = [one for one in self.terminals if one.poll() is not None]
        self.terminals = [one for one in self.terminals if one not in ended]
        for one in ended:
            said = one.stderr.read().decode(errors="replace") if one.stderr else ""
            why = f": {NAMES.sub('…', ' '.join(said.split()))[:160]}" if one.returncode and said.strip() else ""
            self.figures.decisions[f"approve at the terminal ended with {one.returncode}{why}"] += 1
        now = time.monotonic()
        for pending in pending_decisions(self.site.home).all():
            key = (pending.release, pending.asked)
            due = self.due.setdefault(key, now + self.rng.uniform(1.0, self.patience))
            if now < due:
                continue
            # Whatever becomes of it, people look again later.
            self.due[key] = now + 30
            self.act(PLANS[pending.plan].decision, pending)

    def act(self, decision: str, pending: PendingDecision) -> None:
        if decision == "terminal":
            words = ["approve", pending.release, "--by", "Grace", "--reason", "read it", "--home", self.site.home.path]
            self.terminals.append(
                subprocess.Popen(
                    [self.site.program, *words], env=self.site.environment(), stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
            )  # fmt: skip
        elif decision != "nothing":
            chosen = "reject" if decision == "reject" else "approve"
            answer = {
                "decision": chosen, "approver": "Ada Lovelace", "reason": "read it", "dossier_sha256": pending.dossier
            }  # fmt: skip
            if self.ask(f"/flow_runs/{pending.run}/resume", {"run_input": answer}):
                self.figures.decisions[f"form filled in: {chosen}"] += 1

    def let_fail(self) -> None:
        """Begin the next fault, when the last one was mended a while ago; each once, then each again.

        On a loaded machine not before a run came through since: a run that is given up after four kills shows nothing.
        """
        late = time.monotonic() - self.next_fault
        has_recovered = self.standstill.through > self.through or late > LONGEST
        if not self.failing.is_alive() and late > 0 and has_recovered and self.faults:
            if not self.order:
                self.order = self.rng.sample([*self.faults], len(self.faults))
            name = self.order.pop()
            say(f"{self.started} runs; {name}")
            self.figures.faults[name] += 1
            self.failing = threading.Thread(target=self.fail, args=(name,), daemon=True)
            self.failing.start()

    def fail(self, name: str) -> None:
        try:
            self.faults[name]()
        except BaseException as error:
            self.figures.problems.append(f"{name}: {type(error).__name__}: {error}")
        finally:
            self.through = self.standstill.through
            self.next_fault = time.monotonic() + self.rng.uniform(0.5, 1.5) * self.pace

    def sample(self) -> None:
        now = time.monotonic()
        if now - self.sampled > SAMPLE_PACE and self.site.process is not None:
            self.sampled = now
            self.figures.measure_memory(self.site.process.pid)
        if now - self.spaced > 60:
            self.spaced = now
            self.figures.measure_disk(self.site.home.path)

    # --- when nothing fails any more

    def count_ends(self) -> None:
        """Count how the runs have ended; every one must have, and say why."""
        found: list[dict[str, Any]] = []
        while page := self.site.api("/flow_runs/filter", {"limit": 200, "offset": len(found), "sort": "ID_DESC"}):
            found += page
        now = datetime.now(UTC).isoformat()
        for run in found:
            state = run["state"] or {}
            if run["state_type"] == "SCHEDULED" and run["expected_start_time"] > now:
                continue
            self.figures.ends[str(state.get("name"))] += 1
            message = str(state.get("message") or "Flow run encountered")
            if state.get("name") not in STATED or message.startswith("Flow run encountered"):
                about = f"{run['name']}: {state.get('type')} {state.get('name')}: {state.get('message')}"
                self.figures.problems.append(f"no stated outcome: {about}")

    def check(self) -> None:
        """Check the ledger, the releases, how long plans stood still, and what people were told."""
        site, problems = self.site, self.figures.problems
        slow = {plan: seconds for plan, seconds in self.figures.blocked.items() if seconds > LONGEST}
        problems += [f"{plan} stood still for {seconds:.0f} s" for plan, seconds in slow.items()]
        # That the clock was set back is found, and is true.
        problems += [f"ledger: {one.sentence}" for one in ledger.problems(site.home) if one.kind != "clock"]
        entries = ledger.find(site.home, ReleaseFacts)
        published = {e.facts.release for e in entries if e.event == "published"}
        standing = [p for p in site.home.releases.glob("*/*") if p.is_dir() and not p.name.startswith(".")]
        problems += [f"{folder.name}: {one}" for folder in standing for one in verify_release(folder)]
        if published != {folder.name for folder in standing}:
            problems.append(f"{len(published)} releases are published by the ledger, {len(standing)} stand")
        self.figures.published, self.figures.entries = len(published), len(ledger.entries(site.home))
        command = [site.program, "audit", "verify", "--json", "--home", site.home.path]
        done = subprocess.run(command, env=site.environment(), capture_output=True, text=True, check=False)
        findings = json.loads(done.stdout)["findings"] if done.stdout else [{"kind": "none", "sentence": done.stderr}]
        problems += [f"audit: {one['sentence']}" for one in findings if one["kind"] != "clock"]
        self.check_notices()

    def check_notices(self) -> None:
        """Check that each event was told once, by mail and by the web server."""
        folder = self.site.home.path / "notices"
        end = time.monotonic() + 330
        while list(folder.glob("*.json")) and time.monotonic() < end:
            time.sleep(2)
        problems = self.figures.problems
        problems += [f"not delivered: {path.stem}" for path in folder.glob("*.json")]
        told = {path.name for path in (folder / "delivered").iterdir()}
        mails = {str(mail["Message-ID"]): f"{mail['Subject']} | {mail.get_content()}" for mail in self.site.mail.mails}
        posts = [text for text in self.site.receiver.heard if "prefect.flow-run.Late" not in text]
        self.figures.notices = len(told)
        expected = sorted(" ".join(text.split()) for text in mails.values())
        heard = sorted(" ".join(text.split()) for text in posts)
        # The last line names the event: a message that comes twice is recognised by it, and is the same.
        if len({text.rpartition("Event: ")[2] for text in heard}) != len(set(heard)):
            problems.append("messages of one event differ")
        self.figures.twice = {"mail": len(self.site.mail.mails) - len(mails), "webhook": len(heard) - len(expected)}
        if len(mails) != len(told):
            problems.append(f"{len(told)} events were delivered, mails tell of {len(mails)}")
        if set(expected) != set(heard):
            problems.append(f"told by one way alone: {sorted(set(expected) ^ set(heard))[:3]}")


def say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def on_small_disk() -> None:
    """Start this program again where the mounts are its own, and a small disk is mounted on its folder."""
    if os.environ.get(DISK) or os.geteuid() != 0 or shutil.which("unshare") is None:
        return
    folder = tempfile.mkdtemp(prefix="soak-")
    mounted = f'mount -t tmpfs -o size={SIZE},mode=700 soak {folder} && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounted, "sh", sys.executable, "-m"]
    code = subprocess.run(
        [*command, "tests.served.soak.run", *sys.argv[1:]], env=os.environ | {DISK: folder}
    ).returncode
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


def main() -> int:
    """Carry out a soak; 0 when everything was as it must be."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--minutes", type=float, default=600)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--patience", type=float, default=60, help="seconds in which people decide")
    options.add_argument("--pace", type=float, default=25, help="seconds between two faults, in the mean")
    options.add_argument("--at-once", type=int, default=6, help="runs under way, those that await people left aside")
    options.add_argument("--only", default="", help="part of the names of the faults")
    options.add_argument("--json", action="store_true", help="print the figures")
    options.add_argument("--write", action="store_true", help="write the section of the page about reliability")
    given = options.parse_args()
    on_small_disk()
    rng = random.Random(given.seed)
    disk = os.environ.get(DISK)
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as scratch:
        site = Site(Path(scratch), rng, given.at_once, Path(disk) if disk else None)
        site.start()
        try:
            faults = {n: f for n, f in site.faults().items() if given.only in n}
            soak = Soak(site, rng, faults)
            soak.patience, soak.pace = given.patience, given.pace
            figures = soak.carry_out(given.runs, given.minutes)
        finally:
            with suppress(subprocess.TimeoutExpired):
                site.stop()
    if given.write:
        replace_section("soak", "\n".join(figures.section()))
    sys.stdout.write(json.dumps(vars(figures)) if given.json else "\n".join(figures.section()) + "\n")
    return bool(figures.problems)


if __name__ == "__main__":
    sys.exit(main())
