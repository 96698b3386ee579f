"""A register that is released every month, and what its releases reveal of those who stay, join and leave."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk._target_scores import SCORES, TargetScores
from tasks.decision.outcomes import waiting_candidate
from tasks.policy.gates.unit_changes import NAME as CHANGE
from tests.limits import UTILITY

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NUMBERS = ("age", "re74", "re75", "re78")
LEVELS = ("educ", "black", "hisp", "marr")
FEW = 3
CONFIDENCE = 0.99

PLAN = """
anonflow: 1
name: register
source: {path: register.csv}
variables:
  - {name: pid, kind: nominal, role: identifier}
  - {name: age, kind: continuous, role: quasi-identifier, precision: 1}
  - {name: educ, kind: ordinal, role: quasi-identifier, levels: [%s]}
  - {name: black, kind: binary, role: quasi-identifier, levels: [0, 1]}
  - {name: hisp, kind: binary, role: quasi-identifier, levels: [0, 1]}
  - {name: marr, kind: binary, role: quasi-identifier, levels: [0, 1]}
  - {name: re74, kind: continuous, role: sensitive, precision: 0.01}
  - {name: re75, kind: continuous, role: sensitive, precision: 0.01}
  - {name: re78, kind: continuous, role: sensitive, precision: 0.01}
reference: {kind: cross}
series: {kind: register}
schedule: {cron: "0 3 1 * *", timezone: Europe/Paris}
steps:
  - {method: spectral-swap}
policy: {%s}
"""


@dataclass(frozen=True, eq=False)
class Register:
    """People of the Current Population Survey, some of whom are in a register, month by month.

    Parameters
    ----------
    people : (N, 9) with their identifier ``pid``
    months : (T, N) who is in the register in which month; others are in none
    """

    people: pd.DataFrame
    months: Flags

    @classmethod
    def of(cls, months: int, *, few_in: int, size: int = 1000, turnover: float = 0.02, seed: int = 1) -> Register:
        """Return a register of so many people; the same number joins and leaves, but in one month three join."""
        file = resources.files("causaldata") / "cps_mixtape" / "cps_mixtape.dta"
        frame = pd.read_stata(str(file))[[*NUMBERS, *LEVELS]]
        rng = np.random.default_rng(seed)
        moving = round(size * turnover)
        people = frame.iloc[rng.permutation(len(frame))[: 3 * size + months * moving]].reset_index(drop=True)
        people[list(LEVELS)] = people[list(LEVELS)].astype(int)
        people[list(NUMBERS)] = people[list(NUMBERS)].astype(float).round(2)
        people.insert(0, "pid", [f"p{number:05d}" for number in rng.permutation(len(people))])
        present = np.zeros((months, len(people)), dtype=bool)
        present[0, :size] = True
        new = size
        for month in range(1, months):
            present[month] = present[month - 1]
            present[month, rng.choice(np.flatnonzero(present[month]), moving, replace=False)] = False
            joining = FEW if month == few_in else moving
            present[month, new : new + joining] = True
            new += joining
        return cls(people, present)

    def write(self, month: int, folder: Path) -> None:
        """Write the table of a month in the place of the one before."""
        beside = folder / ".register.csv"
        self.people[self.months[month]].to_csv(beside, index=False)
        beside.replace(folder / "register.csv")

    def write_plan(self, folder: Path) -> None:
        """Write the plan, which stays the same."""
        levels = ", ".join(str(level) for level in sorted(set(self.people["educ"])))
        (folder / "register.yaml").write_text(PLAN % (levels, UTILITY))


@dataclass(frozen=True)
class Area:
    """How well strangers are told from one group of people, over all months together.

    Parameters
    ----------
    group, score : of whom, and by which score
    people : of the group
    area, upper : under the ROC curve, and its one-sided upper bound, people taken as the units
    """

    group: str
    score: str
    people: int
    area: float
    upper: float


def areas(register: Register, published: Sequence[tuple[int, Path]]) -> list[Area]:
    """Attack releases in the order of their publication with people who were in none of them.

    An attacker knows all values of everybody. Of those who joined or left he compares the releases before and after;
    of those who stayed he takes the newest release, and of those in all of them the mean over all.

    Parameters
    ----------
    published : the month and the folder of each release, oldest first
    """
    known = Schema([*(Variable(n, "continuous") for n in NUMBERS), *(Variable(n, "nominal") for n in LEVELS)])
    people = Microdata(register.people[list(known.names)], known)
    strangers = np.flatnonzero(~register.months.any(axis=0))
    fitted, asked = strangers[::2], strangers[1::2]
    attacker = TargetScores.of(people, people.take(fitted), known.names)
    tables = [Microdata(pd.read_parquet(folder / "data.parquet")[list(known.names)], known) for _, folder in published]
    scores = np.stack([attacker.of_release(table).scores for table in tables], axis=1)
    inside = register.months[[month for month, _ in published]]
    found = []
    for group, form, values, members in _forms(scores, inside):
        for name, one in zip(SCORES, values, strict=True):
            found.append(_pooled(group, f"{name}, {form}", one, members, asked))
    return found


def _forms(scores: Floats, inside: Flags) -> Iterator[tuple[str, str, Floats, Flags]]:
    """Give groups with the form of the attack, its (S, T, N) scores and the (T, N) people it asks about."""
    now, before, change = scores[:, 1:], scores[:, :-1], np.diff(scores, axis=1)
    stayed, joined, left = inside[1:] & inside[:-1], inside[1:] & ~inside[:-1], inside[:-1] & ~inside[1:]
    yield "stayers", "newest", now, stayed
    yield "in all releases", "mean", scores.mean(axis=1, keepdims=True), inside.all(axis=0, keepdims=True)
    yield "newcomers", "newest", now, joined
    yield "newcomers", "difference", change, joined
    yield "leavers", "last with them", before, left
    yield "leavers", "difference", -change, left


def _pooled(group: str, score: str, values: Floats, members: Flags, strangers: NDArray[np.intp]) -> Area:
    """Return the area over all months, each person compared with the strangers of the same month."""
    placed = np.zeros(values.shape)
    against = np.zeros(len(strangers))
    for month, (row, asked) in enumerate(zip(values, members, strict=True)):
        own, others = row[asked], row[strangers]
        ordered, order = np.sort(others), np.sort(own)
        below, above = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
        placed[month, asked] = (below + above) / 2 / len(others)
        against += len(own) - sum(np.searchsorted(order, others, side) for side in ("left", "right")) / 2
    total = int(members.sum())
    area = float(placed[members].mean())
    by_person = np.where(members, placed - area, 0.0).sum(axis=0)[members.any(axis=0)]
    error = np.sqrt((by_person**2).sum() / total**2 + (against / total).var(ddof=1) / len(strangers))
    return Area(group, score, len(by_person), area, area + float(norm.ppf(CONFIDENCE)) * float(error))


class Monthly:
    """A register whose months come due on a running stack, the scheduler's clock being set to each of them.

    Prefect's own scheduler makes the run of a month from the plan's schedule, for the month that it is given; the
    worker starts it as any run that is due. A person approves what waits, and rejects it where few people changed.
    """

    def __init__(self, served: Any, register: Register) -> None:
        self.served, self.register = served, register
        self.published: list[tuple[int, Path]] = []
        self.rejected: dict[int, str] = {}
        self.forms: dict[int, str] = {}
        register.write(0, served.plans)
        register.write_plan(served.plans)
        served.deployed("register")

    def carry_out(self) -> Monthly:
        """Run every month; return when the last one has ended."""
        for month in range(len(self.register.months)):
            self.register.write(month, self.served.plans)
            run = self._due(month)
            waiting = self.served.reaches(run, {"PAUSED", "COMPLETED", "FAILED"}, 600)
            if waiting["type"] == "PAUSED":
                self._decide(month, run)
            ended = self.served.ended(run, 300)
            if ended["name"] == "Published":
                self.published.append((month, self.served.home.releases / "register" / ended["message"].split(":")[0]))
            sys.stderr.write(f"month {month}: {ended['name']} {self.rejected.get(month, '')}\n")
        return self

    def _due(self, month: int) -> str:
        """Have the scheduler make the run that the plan's schedule says of a month."""
        start = datetime(2024 + month // 12, month % 12 + 1, 1, tzinfo=ZoneInfo("Europe/Paris"))
        window = {"start_time": start.isoformat(), "end_time": (start + timedelta(days=1)).isoformat()}
        deployment = self.served.api("/deployments/name/Release/register")["id"]
        self.served.api(f"/deployments/{deployment}/schedule", {**window, "min_runs": 1, "max_runs": 1})
        due = start.replace(hour=3).astimezone(UTC).isoformat()[:19]
        (run,) = [run for run in self.served.runs("register") if run["expected_start_time"].startswith(due)]
        return str(run["id"])

    def _decide(self, month: int, run: str) -> None:
        """Approve what waits, unless it waits because few people changed."""
        pending = self.served.candidate(run)
        self.forms[month] = self.served.form(run)["description"]
        reason = waiting_candidate(self.served.home, pending.release).facts.reason
        if CHANGE in reason:
            self.rejected[month] = reason
        decision = "reject" if CHANGE in reason else "approve"
        self.served.decide(run, decision=decision, dossier_sha256=pending.dossier)
