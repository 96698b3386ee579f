"""What the ledger says of releases, as approvers and auditors read it: what waits, what changed, how figures moved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks.common.errors import Refused, visible
from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.approval_rule import WaitingCandidate
from tasks.record.entry import Facts, LedgerEntry, ReleaseFacts
from tasks.record.replay import LedgerReplay

Entries = Sequence[LedgerEntry[Facts]]
Releases = list[LedgerEntry[ReleaseFacts]]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
WAITS = ("awaiting", "approved", "abandoned")
# Gates whose figures are drawn over releases: name, in words, which number of the figure it is, and what is harmless.
CURVES = (
    ("membership", "Risk: membership inference, AUC", 0, 0.5),
    ("singling out", "Risk: singling out", 0, 0.0),
    ("linkability", "Risk: linkability", 0, 0.0),
    ("worst variable", "Loss: worst variable", -1, 0.0),
    ("worst total", "Loss: share kept of the worst total, %", -1, 100.0),
    ("worst pair", "Loss: worst pair", -1, 0.0),
)


@dataclass(frozen=True)
class Waiting:
    """A candidate that waits for people: what was entered of it, and when it came."""

    facts: ReleaseFacts
    candidate: WaitingCandidate
    since: str


@dataclass(frozen=True)
class Difference:
    """One thing that differs from the last published release of the plan."""

    subject: str
    before: str
    now: str


@dataclass(frozen=True)
class Curve:
    """A figure of a plan's releases over time, each with its gate's verdict; drawn from ``harmless`` on."""

    title: str
    releases: tuple[str, ...]
    values: tuple[float, ...]
    verdicts: tuple[str, ...]
    harmless: float = 0.0

    @property
    def points(self) -> list[tuple[float, float]]:
        """Where the points are in a picture of 300 × 80."""
        low = min(self.harmless, *self.values)
        top = low + 1.1 * (max(self.values) - low)
        step = 280 / max(len(self.values) - 1, 1)
        return [
            (10 + i * step, round(75 - 70 * (value - low) / (top - low or 1.0), 1))
            for i, value in enumerate(self.values)
        ]


def entries_of(home: Home) -> Entries:
    """Return the ledger's entries, which are read again when its file has changed, and each time from a database."""
    if home.ledger_place.exists():
        return tuple(ledger.entries(home))
    if not home.ledger.exists():
        return ()
    stat = home.ledger.stat()
    return _entries(home, stat.st_mtime_ns, stat.st_size)


def waiting(known: Entries) -> list[Waiting]:
    """Return the candidates that wait for people, the oldest first."""
    replay = LedgerReplay.of(known)
    last = {entry.facts.release: entry for entry in ledger.select(known, ReleaseFacts)}
    asked = {e.facts.release: e.time for e in ledger.select(known, ReleaseFacts, "awaiting")}
    return [
        Waiting(candidate.facts, candidate, asked[release])
        for release in asked
        if last[release].event in WAITS and (candidate := replay.candidate(release)) is not None
    ]


def history(known: Entries, release: str) -> Releases:
    """Return the entries about a release, oldest first; raises `Refused` when there is none."""
    about = [e for e in ledger.select(known, ReleaseFacts) if e.facts.release == release]
    if not about:
        raise Refused(f"no release is called {visible(release)[:100]}")
    return about


def differences(known: Entries, facts: ReleaseFacts) -> tuple[str, list[Difference]]:
    """Return the last release of the same plan that was published before this one, and what differs from it."""
    entered = ledger.select(known, ReleaseFacts)
    first = next(e.number for e in entered if e.facts.release == facts.release)
    before = [e.facts for e in entered if e.event == "published" and e.facts.name == facts.name and e.number < first]
    if not before:
        return "", []
    last = before[-1]
    subjects = (("plan", "plan"), ("masking", "what masks the records"), ("records", "the source's records"))
    same = [
        Difference(words, "as before", "changed")
        for key, words in subjects
        if getattr(last, key) != getattr(facts, key)
    ]
    names = dict.fromkeys((*facts.gates, *last.gates))
    rows = ((name, last.gates.get(name, ("not asked", "")), facts.gates.get(name, ("not asked", ""))) for name in names)
    moved = [Difference(name, _in_words(old), _in_words(new)) for name, old, new in rows if tuple(old) != tuple(new)]
    return last.release, same + moved


def curves(known: Entries, plan: str) -> list[Curve]:
    """Return figures of risk and utility of a plan's published releases; none where there are fewer than two."""
    published = [e.facts for e in ledger.select(known, ReleaseFacts, "published") if e.facts.name == plan]
    drawn = []
    for gate, title, place, harmless in CURVES:
        shown = [(f.release, numbers, f.gates[gate][0]) for f in published if (numbers := _numbers(f, gate))]
        if len(shown) > 1:
            values = tuple(float(numbers[place]) for _, numbers, _ in shown)
            drawn.append(Curve(title, tuple(r for r, _, _ in shown), values, tuple(v for _, _, v in shown), harmless))
    return drawn


def _numbers(facts: ReleaseFacts, gate: str) -> list[str]:
    if gate not in facts.gates:
        return []
    # What stands before the colon are names and numbers of conditions or variables.
    figure = facts.gates[gate][1].partition(" [")[0].rpartition(": ")[2]
    return NUMBER.findall(figure.replace("−", "-"))


def _in_words(gate: tuple[str, str]) -> str:
    return ": ".join(part for part in gate if part)


@lru_cache(maxsize=2)
def _entries(home: Home, changed: int, size: int) -> Entries:
    return tuple(ledger.entries(home))
