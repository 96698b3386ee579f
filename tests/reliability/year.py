"""A year of nightly releases in one home: what each night costs, the disk it needs, and how the home is audited after.

    python -m tests.reliability.year --nights 365 --write

The table changes every night; people approve, and reject every tenth candidate. All nights are of one day: what
`anonflow prune` would remove later is removed at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from tests.limits import UTILITY
from tests.reliability.sections import replace_section
from tests.served.conftest import PLAN, PROGRAM, people
from tests.served.soak.figures import size_of, table

FOLDERS = ("releases", "candidates", "assessments", "mlflow", "members", "ledger.jsonl")


@dataclass
class Year:
    """What was measured: processor seconds of each night, sizes after some and in all pruned, what commands said."""

    ends: Counter[str] = field(default_factory=Counter)
    nights: list[float] = field(default_factory=list)
    disk: dict[int, dict[str, float]] = field(default_factory=dict)
    commands: list[tuple[str, int, float, str]] = field(default_factory=list)
    pruned: float = 0.0

    def section(self, records: int) -> list[str]:
        """Return the section of the page, in Markdown."""
        tenth = max(len(self.nights) // 10, 1)
        first, last = (statistics.median(part) for part in (self.nights[:tenth], self.nights[-tenth:]))
        ends = ", ".join(f"{count} {name}" for name, count in self.ends.most_common())
        rows = [(name, *(f"{sizes[name]:.1f}" for sizes in self.disk.values())) for name in (*FOLDERS, "whole home")]
        return [
            fill(
                f"{len(self.nights)} nights, a new table of {records} records each, decided by a person: {ends}. "
                "Processor seconds of a night in a process that has imported everything, median: "
                f"{first:.1f} in the first tenth, {last:.1f} in the last. Pruned at the end: {self.pruned:.1f} MB.",
                120,
            ),
            *table(("disk, MB, after nights", *map(str, self.disk)), rows),
            *table(("command", "exit code", "processor seconds", "what it says"), [
                (f"`{name}`", code, f"{seconds:.1f}", said) for name, code, seconds, said in self.commands
            ]),
        ]  # fmt: skip


def carry_out(folder: Path, nights: int, records: int) -> Year:
    """Release a changed table every night, then audit, prune, lose MLflow's database and make it again."""
    from flows import embedded
    from tasks.audit.prune import prune
    from tasks.common.home import Home

    home, found = folder / "home", Year()
    embedded.apply(home)
    embedded.tracking_ready(home)
    for night in range(nights):
        begun = time.process_time()
        found.ends[_released(folder, home, night, records)] += 1
        found.nights.append(time.process_time() - begun)
        if night + 1 in (nights // 12, nights // 2, nights):
            found.disk[night + 1] = {name: size_of(home / name) for name in FOLDERS} | {"whole home": size_of(home)}
            say(f"night {night + 1}: {found.nights[-1]:.1f} s, {found.disk[night + 1]['whole home']:.0f} MB")
    audit = ("audit", "verify")
    _command(found, home, *audit)
    found.pruned = sum(one.size for one in prune(Home.locate(home), time.time() + 1)[1]) / 1e6
    _command(found, home, *audit)
    for lost in (home / "mlflow").glob("mlflow.db*"):
        lost.unlink()
    rebuild = ("audit", "rebuild-mirror", "--by", "Ann", "--reason", "the database was deleted")
    for words in (audit, rebuild, audit):
        _command(found, home, *words)
    return found


def _released(folder: Path, home: Path, night: int, records: int) -> str:
    """Carry the plan out with the night's table; return how it ended."""
    from flows.plan.model import load_plan
    from flows.release import Direct, carry_out
    from tasks.common.home import Home
    from tasks.decision.approval import decide
    from tasks.decision.outcomes import mirror_entry
    from tasks.record.decision import Decision

    people(night, records).to_csv(folder / "people.csv", index=False)
    parts = {"approval": "person", "utility": UTILITY, "policy": "", "to": "", "schedule": ""}
    plan = folder / "nightly.yaml"
    plan.write_text(PLAN.format(name="nightly", source="{path: people.csv}", **parts))
    where = Home.locate(home)
    outcome = carry_out(load_plan(plan), where, Direct())
    if outcome.status == "awaiting":
        act = "reject" if night % 10 == 9 else "approve"
        decided = decide(where, Decision(act=act, release=outcome.release, by="Ann", reason="read"))
        mirror_entry(where, decided.entry)
        return str(decided.status)
    return str(outcome.status)


def _command(found: Year, home: Path, *words: str) -> None:
    """Carry a command out; keep its code, its processor seconds and the last line that it says."""
    before = os.times()
    done = subprocess.run([PROGRAM, *words, "--home", home], capture_output=True, text=True, check=False)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-1:] or [""]
    found.commands.append((" ".join(words), done.returncode, seconds, said[0].strip().replace("|", ",")))
    say(json.dumps(found.commands[-1]))


def say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def main() -> int:
    """Simulate a year; 0 when the audit ended as it must."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nights", type=int, default=365)
    options.add_argument("--records", type=int, default=200)
    options.add_argument("--write", action="store_true", help="write the section of the page about reliability")
    given: Any = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="year-", ignore_cleanup_errors=True) as scratch:
        found = carry_out(Path(scratch), given.nights, given.records)
    section = "\n".join(found.section(given.records))
    if given.write:
        replace_section("year", section)
    sys.stdout.write(f"{section}\n")
    codes = [code for name, code, _, _ in found.commands if name == "audit verify"]
    return int(codes != [0, 0, 3, 0])


if __name__ == "__main__":
    sys.exit(main())
