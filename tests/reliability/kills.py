"""Kill runs at stated operations and at random moments, and see that nothing is in parts."""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tasks.record import ledger
from tasks.record.entry import ReleaseFacts
from tests.reliability.running import Done, Nursery, Place, settled, time_passes, whole


@dataclass(frozen=True)
class Kill:
    """One run that was killed, and the next one."""

    how: str
    point: str
    killed: bool
    problems: tuple[str, ...]
    left_workspace: bool
    announced: bool
    events: tuple[str, ...]


@dataclass
class Survey:
    """What came of many kills."""

    kills: list[Kill] = field(default_factory=list)

    @property
    def killed(self) -> list[Kill]:
        return [k for k in self.kills if k.killed]

    @property
    def survived(self) -> list[Kill]:
        return [k for k in self.killed if not k.problems]

    def by_how(self) -> dict[str, tuple[int, int]]:
        """Return kills and survived ones by the way of killing."""
        ways = Counter(k.how for k in self.killed)
        return {how: (n, sum(k.how == how for k in self.survived)) for how, n in ways.items()}


def operations(place: Place, nursery: Nursery) -> list[str]:
    """Return the write operations of one whole run in the home, in their order."""
    place.clear()
    done = nursery.command("run", place.plan, "--inline", faults={"root": str(place.left)})
    assert done.code in (0, 4), done.said
    return [line.split(" ", 1)[1] for line in place.log.read_text().splitlines()]


def kill_at(place: Place, nursery: Nursery, number: int, how: str = "kill") -> Kill:
    """Kill a run before its write operation of that number."""
    place.clear()
    faults = {"root": str(place.left), "at": number, "how": how}
    done = nursery.command("run", place.plan, "--inline", faults=faults)
    lines = place.log.read_text().splitlines()
    point = _named(lines[-1]) if lines else "before any"
    return after_kill(
        place,
        nursery,
        done,
        {"kill": "SIGKILL before a write operation", "tear": "power failure at a sync"}[how],
        point,
    )


def kill_after(place: Place, nursery: Nursery, seconds: float) -> Kill:
    """Kill a run after some seconds."""
    place.clear()
    done = nursery.command("run", place.plan, "--inline", after=seconds)
    return after_kill(place, nursery, done, "SIGKILL at a random moment", f"{seconds:.2f} s")


def kill_group(place: Place, nursery: Nursery, seconds: float) -> Kill:
    """Kill a run through Prefect, with what it has started, after some seconds."""
    place.clear()
    done = place.command("run", place.plan, kill_after=seconds)
    how = "SIGKILL of a run through Prefect, at a random moment"
    return after_kill(place, nursery, done, how, f"{seconds:.1f} s")


def after_kill(
    place: Place, nursery: Nursery, done: Done, how: str, point: str, ends: Collection[int] = (0, 4)
) -> Kill:
    """Return what is not as it must be at once, and after the next run, which ends with one of these codes."""
    killed = done.code == -signal.SIGKILL
    problems = [f"at once: {sentence}" for sentence in whole(place.home)]
    dead = [f for f in place.home.workspaces.glob("*/") if (f / "owner").exists()]
    pending = _pending(place)
    before = ledger.entries(place.home) if place.home.ledger.exists() else []
    announced = any(entry.event == "publishing" for entry in before)
    time_passes(place.home)
    again = nursery.command("run", place.plan, "--inline")
    if again.code not in ends:
        problems.append(f"the next run ends with {again.code}: {again.said[-400:]}")
    if dead and "Wipe the workspace of" not in again.said:
        problems.append("the next run does not say that it wiped a workspace")
    if pending and "Settle" not in again.said:
        problems.append("the next run does not say that it settled a publication")
    if again.code in ends:
        problems += [f"after the next run: {sentence}" for sentence in settled(place.home)]
    problems += [f"temporary folder: {p.name}" for p in (place.left / "tmp").iterdir()]
    events = tuple(e.event for e in ledger.entries(place.home)) if place.home.ledger.exists() else ()
    return Kill(how, point, killed, tuple(problems), bool(dead), announced, events)


def _pending(place: Place) -> bool:
    if not place.home.ledger.exists():
        return False
    known = [e.event for e in ledger.find(place.home, ReleaseFacts)]
    return bool(known) and known[-1] in ("publishing", "withdrawing")


def _named(line: str) -> str:
    """Return an operation without what differs from run to run."""
    name = line.split(" ", 1)[1]
    name = re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{6}", "RUN", name)
    name = re.sub(r"office-[0-9a-f]{12}", "RELEASE", name)
    name = re.sub(r"\.[0-9a-f]{8}\b", ".HALF", name)
    return re.sub(r"copy-[0-9a-f]{8}", "copy", re.sub(r"[0-9a-f]{32}", "ID", name))


def spread(total: int, wanted: int) -> list[int]:
    """Return that many operations, evenly over all."""
    if wanted >= total:
        return list(range(1, total + 1))
    if wanted < 2:
        return [total // 2] * wanted
    return sorted({1 + round(i * (total - 1) / (wanted - 1)) for i in range(wanted)})


def around(lines: list[str], *names: str) -> list[int]:
    """Return the numbers of the operations on certain files, and of those that follow them."""
    found = {n for n, line in enumerate(lines, start=1) if any(name in line for name in names)}
    return sorted(n for n in found | {n + 1 for n in found} if n <= len(lines))


def survey(
    found: Survey,
    place: Place,
    nursery: Nursery,
    *,
    stated: int,
    torn: int,
    moments: int,
    through_prefect: int,
    seed: int = 1,
    told: Callable[[str], None] = lambda line: None,
) -> int:
    """Kill that many runs in each way and keep what came of it; return how many operations one run has."""
    rng = random.Random(seed)
    lines = operations(place, nursery) if stated or torn else []

    def note(kill: Kill) -> None:
        found.kills.append(kill)
        told(f"{len(found.kills):4d} {kill.how}, {kill.point}: {'; '.join(kill.problems) or 'survived'}")

    # Half of them where things are put in place and entered, the rest evenly over the run.
    numbers = around(lines, "releases/", "ledger.", "candidates/")
    chosen = numbers if len(numbers) <= stated // 2 else [numbers[i - 1] for i in spread(len(numbers), stated // 2)]
    chosen = sorted({*chosen, *spread(len(lines), stated - len(chosen))})
    for number in chosen:
        note(kill_at(place, nursery, number))
    synced = [n for n, line in enumerate(lines, start=1) if line.startswith("fsync") and "workspace" not in line]
    for number in rng.sample(synced, min(torn, len(synced))):
        note(kill_at(place, nursery, number, "tear"))
    place.clear()
    whole_run = nursery.command("run", place.plan, "--inline").seconds if moments else 0.0
    for _ in range(moments):
        note(kill_after(place, nursery, rng.uniform(0, whole_run)))
    if through_prefect:
        place.clear()
        whole_run = place.command("run", place.plan).seconds
        for _ in range(through_prefect):
            note(kill_group(place, nursery, rng.uniform(0.2 * whole_run, whole_run)))
    return len(lines)
