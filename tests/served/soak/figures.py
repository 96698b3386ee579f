"""What is measured of a soak, and its section of the page about reliability.

    python -m tests.served.soak.figures FILE...

joins several soaks on the page: figures that `run --json` printed, and those of the page where it is one of the files.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill

import psutil

from tests.reliability.sections import replace_section

# How a run may end, as its page and `docs/how-to/serve.md` state it.
STATED = (
    "Published", "Unchanged", "Rejected", "Expired", "Superseded", "Awaits already", "Skipped", "Withdrawn", "Refused",
    "Failed", "Crashed",
)  # fmt: skip
# Seconds for which a plan may stand still: none of its runs ends, asks people or works.
LONGEST = 300.0
WAYS = ("mail", "webhook")
# What the page holds for a program that joins further soaks.
KEPT = re.compile(r"<!-- figures: (\{.*\}) -->")
FOLDERS = ("postgres", "releases", "candidates", "assessments", "mlflow", "logs", "notices")


@dataclass
class Figures:
    """Counts and sizes of one soak.

    Attributes
    ----------
    ends : how many runs ended how
    faults, decisions : how often what failed, and how often people decided what
    blocked : by plan, the longest time in which it stood still, in seconds: `Standstill`
    memory : sums over all processes of the stack, in MB, one a sample
    disk : the home's size by folder, in MB, at the start, in the middle and at the end
    notices, twice : events of which people were told, and messages that came more than once, by way
    problems : whatever is not as it must be
    second : how runs of a second worker ended, which no server knows
    soaks : how many soaks these are the figures of; memory and disk are those of the last
    """

    plans: int = 0
    seconds: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    blocked: dict[str, float] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)
    disk: list[dict[str, float]] = field(default_factory=list)
    notices: int = 0
    twice: dict[str, int] = field(default_factory=dict)
    published: int = 0
    entries: int = 0
    problems: list[str] = field(default_factory=list)
    second: Counter[str] = field(default_factory=Counter)
    soaks: int = 1

    @classmethod
    def joined(cls, parts: list[Figures]) -> Figures:
        """Return the figures of several soaks, the last one last, each with a home of its own."""
        whole = replace(parts[-1])
        for name in ("seconds", "notices", "published", "entries", "soaks"):
            setattr(whole, name, sum(getattr(one, name) for one in parts))
        for name in ("ends", "faults", "decisions", "twice", "second"):
            setattr(whole, name, sum((Counter(getattr(one, name)) for one in parts), Counter()))
        plans = {plan for one in parts for plan in one.blocked}
        whole.blocked = {plan: max(one.blocked.get(plan, 0.0) for one in parts) for plan in sorted(plans)}
        whole.problems = [problem for one in parts for problem in one.problems]
        return whole

    def measure_memory(self, process: int) -> None:
        """Add a sample: what the process and all it has started hold in memory, what they share counted once."""
        try:
            parent = psutil.Process(process)
            held = [one.memory_full_info().pss for one in (parent, *parent.children(recursive=True))]
        except psutil.Error:
            return
        self.memory.append(sum(held) / 1e6)

    def measure_disk(self, home: Path) -> None:
        """Add a sample of the home's size."""
        self.disk.append({name: size_of(home / name) for name in FOLDERS} | {"whole home": size_of(home)})

    def section(self) -> list[str]:
        """Return the section of the page, in Markdown."""
        runs, second = sum(self.ends.values()), sum(self.second.values())
        kinds = sorted(self.faults.items())
        return [
            fill(
                f"{datetime.now(UTC):%Y-%m-%d}: {runs} runs of {self.plans} plans, and {second} of a second worker, in "
                f"{self.seconds / 60:.0f} minutes ({self.soaks} soak{'s' * (self.soaks > 1)}), "
                f"{sum(self.faults.values())} faults, {sum(self.decisions.values())} decisions of people, "
                f"{self.published} releases published, {self.entries} entries of the ledger. Longest time in which a "
                "plan's due run neither worked, nor ended, nor asked people: "
                f"{max(self.blocked.values(), default=0):.0f} s (limit {LONGEST:.0f}). "
                f"{self.notices} events were reported; messages that came twice: "
                + ", ".join(f"{self.twice.get(way, 0)} by {way}" for way in WAYS)
                + ", each recognisable by its event.",
                120,
            ),
            *table(("end", "runs"), Counter(self.ends).most_common()),
            *table(("end, second worker", "runs"), sorted(self.second.items())),
            *table(("fault", "times"), kinds),
            *table(("decision of a person", "times"), sorted(self.decisions.items())),
            *table(("memory of all processes, shared pages counted once, in the last soak", "MB"), self._memory()),
            *table(
                ("disk, MB, in the last soak", "start", "middle", "end"),
                [(name, *(f"{one[name]:.1f}" for one in self._three())) for name in (*FOLDERS, "whole home")],
            ),
            "",
            "Problems: " + ("none." if not self.problems else ""),
            *(f"- {' '.join(one.split())[:400]}" for one in self.problems),
            "",
            f"<!-- figures: {json.dumps(vars(self._shortened()))} -->",
        ]

    def _shortened(self) -> Figures:
        """Return what the section shows, from which it can be made again."""
        disk = [{name: round(size, 1) for name, size in one.items()} for one in self._three()]
        first, last, most = (round(float(size)) for _, size in self._memory())
        return replace(self, memory=[first, most, last], disk=disk)

    def _memory(self) -> list[tuple[str, str]]:
        kept = self.memory or [0.0]
        third = max(len(kept) // 3, 1)
        return [
            ("median of the first third", f"{statistics.median(kept[:third]):.0f}"),
            ("median of the last third", f"{statistics.median(kept[-third:]):.0f}"),
            ("most", f"{max(kept):.0f}"),
        ]

    def _three(self) -> list[dict[str, float]]:
        return [self.disk[0], self.disk[len(self.disk) // 2], self.disk[-1]] if self.disk else []


def size_of(path: Path) -> float:
    """Return the size of a file, or of all files below a folder, in MB."""
    sizes = 0
    for one in (path, *path.rglob("*")):
        try:
            sizes += one.stat().st_size if one.is_file() and not one.is_symlink() else 0
        except OSError:
            continue
    return sizes / 1e6


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    """Return a table in Markdown, after an empty line."""
    lines = [head, ("---",) * len(head), *rows]
    return ["", *("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)]


def read(file: Path) -> Figures:
    """Return the figures that a soak has printed, or those of the page."""
    text = file.read_text(encoding="utf-8")
    kept = KEPT.search(text)
    return Figures(**json.loads(kept[1] if kept else text.splitlines()[-1]))


if __name__ == "__main__":
    replace_section("soak", "\n".join(Figures.joined([read(Path(name)) for name in sys.argv[1:]]).section()))
