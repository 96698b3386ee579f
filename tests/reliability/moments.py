"""Commands that change a home are killed at random moments, for a stated time; what must hold at once and afterwards.

python -m tests.reliability.moments --minutes 40 --write
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks.common.keys import pem
from tasks.record import ledger
from tests.reliability.canaries import LENIENT, Canaries
from tests.reliability.kills import Kill, Survey, after_kill
from tests.reliability.running import Done, Nursery, Place
from tests.reliability.sections import replace_section
from tests.served.soak.figures import table

SIGNED = ("--by", "A. Smith", "--reason", "a test")
ASKED, PASSED = f"approval: person, {LENIENT}", LENIENT


@dataclass(frozen=True)
class Command:
    """What is killed: the policy of its plan, commands before it, its words, and how the plan's next run may end.

    Among the words, ``run`` stands for a run of the plan, ``ID`` for the last release, ``AT`` for a folder.
    """

    name: str
    policy: str
    before: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]
    ends: tuple[int, ...] = (0, 4)


RUN, REJECT = ("run",), ("reject", "ID", *SIGNED)
COMMANDS = (
    Command("run, published", PASSED, (), RUN),
    Command("run, awaiting", ASKED, (), RUN),
    Command("run, unchanged", PASSED, (RUN,), RUN),
    Command("approve", ASKED, (RUN,), ("approve", "ID", *SIGNED)),
    Command("reject", ASKED, (RUN,), REJECT, (0, 3, 4)),
    Command("withdraw", PASSED, (RUN,), ("withdraw", "ID", *SIGNED), (0, 3, 4)),
    Command("people add", ASKED, (RUN,), ("people", "add", "Ann", "--key", "AT/ann.pem")),
    Command("audit rotate-key", PASSED, (RUN,), ("audit", "rotate-key", *SIGNED)),
    Command("audit mirror", PASSED, (RUN,), ("audit", "mirror")),
    Command("backup", PASSED, (RUN,), ("backup", "AT/backup.tar")),
)


class Moments:
    """One home for each path as it is before the command, and how long the command takes when it is not killed."""

    def __init__(self, place: Place, nursery: Nursery, rng: random.Random, templates: Path) -> None:
        self.place, self.nursery, self.rng, self.templates = place, nursery, rng, templates
        self.seconds: dict[str, float] = {}
        # The first run compiles kernels: its time would place most moments after the end of the later ones.
        place.write(policy=PASSED)
        self.done(RUN)
        for command in COMMANDS:
            place.clear()
            place.write(policy=command.policy)
            (place.left / "work" / "ann.pem").write_text(pem(Ed25519PrivateKey.generate().public_key()))
            for words in command.before:
                self.done(words)
            shutil.copytree(place.left, templates / command.name)
            self.seconds[command.name] = self.done(command.words).seconds
            say(f"{command.name}: {self.seconds[command.name]:.2f} s")

    def done(self, words: tuple[str, ...], after: float | None = None) -> Done:
        """Carry a command out on the home as it is, or kill it after so many seconds."""
        given = words
        if words == RUN:
            given = ("run", str(self.place.plan), "--inline")
        elif "ID" in words:
            release = ledger.entries(self.place.home)[-1].facts.subject
            given = tuple(release if word == "ID" else word for word in words)
        at = str(self.place.left / "work")
        done = self.nursery.command(*(re.sub("^AT(?=/)", at, word) for word in given), after=after)
        assert after is not None or done.code in (0, 4), f"{words}: {done.code} {done.said}"
        return done

    def kill(self, command: Command) -> Kill:
        """Put the home in place as it was, kill the command at a random moment, and see what is left."""
        shutil.rmtree(self.place.left)
        shutil.copytree(self.templates / command.name, self.place.left)
        self.place.write(policy=command.policy)
        seconds = self.rng.uniform(0, self.seconds[command.name])
        done = self.done(command.words, seconds)
        return after_kill(self.place, self.nursery, done, command.name, f"{seconds:.2f} s", command.ends)


def carry_out(minutes: float, seed: int) -> tuple[Survey, float]:
    """Kill each command in turn until the time is over."""
    found = Survey()
    with tempfile.TemporaryDirectory(prefix="moments-", ignore_cleanup_errors=True) as scratch:
        place = Place(Path(scratch) / "place", Canaries.plant())
        place.write()
        with Nursery(place) as nursery:
            moments = Moments(place, nursery, random.Random(seed), Path(scratch) / "templates")
            begun = time.monotonic()
            while time.monotonic() - begun < minutes * 60:
                for command in COMMANDS:
                    kill = moments.kill(command)
                    found.kills.append(kill)
                    if kill.problems:
                        say(f"{kill.how}, {kill.point}: {'; '.join(kill.problems)}")
                say(f"{len(found.killed)} kills, {len(found.killed) - len(found.survived)} with problems")
            return found, time.monotonic() - begun


def section(found: Survey, seconds: float) -> str:
    """Return the section of the page, in Markdown."""
    not_killed = len(found.kills) - len(found.killed)
    problems = Counter(f"{kill.how}: {one}" for kill in found.killed for one in kill.problems)
    rows: list[tuple[object, ...]] = [(how, killed, well) for how, (killed, well) in sorted(found.by_how().items())]
    return "\n".join(
        [
            fill(
                f"{datetime.now(UTC):%Y-%m-%d}: {len(found.killed)} kills in {seconds / 60:.0f} minutes, "
                f"{len(found.survived)} recovered; {not_killed} commands ended before their moment came. "
                f"{sum(k.announced for k in found.killed)} kills left an announced publication in the ledger, "
                f"{sum(k.left_workspace for k in found.killed)} a workspace.",
                120,
            ),
            *table(("command", "kills", "recovered"), rows),
            "",
            "Problems: " + ("none." if not problems else ""),
            *(f"- {count} times: {' '.join(text.split())[:300]}" for text, count in problems.most_common()),
        ]
    )


def say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def main() -> int:
    """Kill for the time that is stated; 0 when everything was recovered."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=40)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--write", action="store_true", help="write the section of the page about reliability")
    given = options.parse_args()
    found, seconds = carry_out(given.minutes, given.seed)
    if given.write:
        replace_section("moments", section(found, seconds))
    say("\n" + section(found, seconds))
    return bool(len(found.killed) - len(found.survived))


if __name__ == "__main__":
    sys.exit(main())
