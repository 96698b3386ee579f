"""The in/out game of a plan: shadow releases by its whole masking, played once for the same plan and data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from anoncore.custodian import CustodianReport, Table
from anoncore.custodian import Section as Part
from anoncore.edits.serialization import to_dict
from anoncore.errors import AnonymizationError
from anoncore.kernels import threads
from anoncore.microdata import Microdata
from anoncore.risk import Game, GameSettings, TargetRisk, choose_targets, play
from anoncore.risk.game import ISOLATED, LEAST_UNITS, MOST_SHARE, RANDOM, Targets
from tasks.assessment.remedies import DIED, Remedy, changes, try_change
from tasks.common import values
from tasks.common.digests import digest_of
from tasks.common.errors import Refused
from tasks.common.home import make_private, write_private
from tasks.common.keys import keyed_digest
from tasks.common.run import Run
from tasks.common.sections import Section, short_name
from tasks.common.workspace import StoredMicrodata
from tasks.masking.anonymize import ShadowMask, Step
from tasks.policy.assessment import InOutGame

# Of what is kept; 2: targets are recoded as the releases are.
FORMAT = 2
LEAST_SHADOWS = 64
PROGRESS_STEPS = 20
Progress = Callable[[int, int], None]
# Each holds the records in memory.
MOST_PROCESSES = 8
# Of the variables that reveal a person, how many are named, and from which share on.
SHOWN_DRIVERS, LEAST_SHARE = 5, 0.05


class TargetGroup(Section):
    """People whose risk in the in/out game is of interest.

    Parameters
    ----------
    name : Under which the group is reported and published: lower-case letters, digits, ``-`` and spaces.
    variable : A variable with levels.
    level : The level that the people have; it is not published.
    number : How many of them are drawn.
    """

    name: Annotated[str, short_name("- ", 41)]
    variable: str
    level: str | int | float | bool
    number: int = Field(default=20, ge=1, le=200)


class GameSection(Section):
    """The in/out game: the plan masks the data again and again, some people being in them or not by chance.

    Parameters
    ----------
    shadows : How many shadow releases, each of which takes as long as the masking; 0 plays no game, else at least 64.
        192 show a harmless plan to be harmless.
    isolated : How many of the most isolated people are in or out.
    random : How many random people are.
    groups : More people who are.
    releases : How many releases follow each other in each of these, a person being in all of them or in none.
    turnover : Share of the other people that each of them lacks, drawn anew.
    remedies : Whether changes of the plan are tried by playing again, with 64 shadow releases each: groups twice as
        large, extreme values or records treated, the most revealing variable left out. For the custodian alone.
    """

    shadows: int = Field(default=0, ge=0, le=10_000)
    isolated: int = Field(default=20, ge=2, le=200)
    random: int = Field(default=20, ge=0, le=200)
    groups: tuple[TargetGroup, ...] = ()
    releases: int = Field(default=1, ge=1, le=100)
    turnover: float = Field(default=0.0, ge=0, le=MOST_SHARE)
    remedies: bool = False

    @model_validator(mode="after")
    def _enough(self) -> GameSection:
        if 0 < self.shadows < LEAST_SHADOWS:
            raise ValueError(f"shadows must be 0, for no game, or at least {LEAST_SHADOWS}, got {self.shadows}")
        names = [ISOLATED, RANDOM, *(group.name for group in self.groups)]
        if len(set(names)) < len(names):
            raise ValueError(f"groups must have different names, none of them {ISOLATED} or {RANDOM}")
        return self


@dataclass(frozen=True)
class GamePlan:
    """What of a plan the game depends on.

    Parameters
    ----------
    name : of the plan
    mask : its whole masking
    section : its game
    hidden : variables along which a group is hidden, which the attacker does not compare
    drawn : share of the people whom the plan leaves out of each release at random
    stated : the steps as the plan states them, where those of the mask decide by the counts of a larger table
    counted : digest of that table
    """

    name: str
    mask: ShadowMask
    section: GameSection
    hidden: tuple[str, ...] = ()
    drawn: float = 0.0
    stated: tuple[Step, ...] = ()
    counted: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """What a stored game must agree with, as JSON takes it."""
        return {
            "format": FORMAT,
            "version": version("anonflow"),
            "steps": [asdict(step) for step in self.stated or self.mask.steps],
            "counted": self.counted,
            "edits": [to_dict(edit) for edit in self.mask.edits.edits],
            "game": self.section.model_dump(mode="json"),
            "drawn": self.drawn,
        }


@dataclass(frozen=True, repr=False)
class PlayedGame:
    """The game for all to see; targets with the source rows they are in, and remedies, for the custodian alone."""

    result: InOutGame
    targets: tuple[TargetRisk, ...] = ()
    rows: tuple[int, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    @property
    def custodian_report(self) -> CustodianReport | None:
        """The most vulnerable targets, the variables that reveal each, and remedies; None without a game."""
        return None if self.result.game is None else _report(self, self.result.game)


def play_game(
    run: Run,
    plan: GamePlan,
    data: StoredMicrodata,
    progress: Progress,
) -> PlayedGame:
    """Play the in/out game with the plan's masking, or return the last one of the same plan and data.

    The game is about the plan, not about one draw of it, so that it is played once. It is kept in the home, for the
    owner alone, under a keyed digest of plan and data: figures, row numbers and variables, no value and no seed. A
    shadow release that cannot be made leaves the game unplayed, with the reason.

    Parameters
    ----------
    data : what is masked
    progress : called with the number of shadow releases made, and of all

    Raises
    ------
    Refused
        When no record has the level that a group of targets names.
    """
    original, path = data.load(), run.home.game(plan.name)
    key = keyed_digest(run.home, digest_of(plan.settings | {"data": data.sha256}))
    if (kept := _kept(path, key)) is not None:
        return kept
    rng = run.rng("game")
    if original.n_units < LEAST_UNITS:
        return PlayedGame(InOutGame(None, f"{original.n_units} people are fewer than the {LEAST_UNITS} it needs"))
    targets = _targets(original, plan.section, rng)
    names = tuple(name for name in original.schema.masked if name not in plan.hidden)
    settings = GameSettings(
        plan.section.shadows,
        variables=names,
        processes=min(MOST_PROCESSES, threads.available()),
        releases=plan.section.releases,
        turnover=plan.section.turnover,
        drawn=min(plan.drawn, MOST_SHARE),
    )
    shown = _shown(progress, settings.rounds)
    try:
        played = play(original, plan.mask, targets, settings=settings, rng=rng, on_round=shown)
    except BrokenProcessPool:
        return PlayedGame(InOutGame(None, DIED))
    except (AnonymizationError, Refused) as error:
        return PlayedGame(InOutGame(None, f"a shadow release could not be made: {error}"))
    rows = tuple(int(original.frame.index[one.place]) + 1 for one in played.targets)
    tried = changes(plan.mask, original, played.targets) if plan.section.remedies else ()
    again, shown = replace(settings, rounds=LEAST_SHADOWS), _shown(progress, LEAST_SHADOWS)
    # The same generator puts the same people into the same rounds.
    remedies = (
        try_change(one, original, targets, settings=again, rng=run.rng("remedies"), on_round=shown) for one in tried
    )
    result = PlayedGame(InOutGame(played.game), played.targets, rows, tuple(remedies))
    make_private(path.parent)
    write_private(path, json.dumps({"key": key, "played": values.to_json(result)}).encode())
    return result


def _shown(progress: Progress, rounds: int) -> Callable[[int], None]:
    """Return what reports every twentieth part of a game."""
    every = max(1, rounds // PROGRESS_STEPS)

    def on_round(number: int) -> None:
        if number % every == 0:
            progress(number, rounds)

    return on_round


def _kept(path: Path, key: str) -> PlayedGame | None:
    """Return the game that is kept under a key; None where there is none."""
    try:
        stored = json.loads(path.read_bytes())
        return values.from_json(PlayedGame, stored["played"]) if stored["key"] == key else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A file that cannot be read is written anew.
        return None


def _targets(original: Microdata, section: GameSection, rng: np.random.Generator) -> Targets:
    """Choose the targets: the most isolated, random ones, and those of the groups."""
    chosen = choose_targets(original, isolated=section.isolated, random=section.random, rng=rng)
    groups = dict(chosen)
    for group in section.groups:
        holders = np.flatnonzero(original.frame[group.variable] == group.level)
        if original.units is not None:
            holders = holders[np.unique(original.units[holders], return_index=True)[1]]
        if not len(holders):
            raise Refused(f"game: no record has the level that the group {group.name} names; correct or remove it")
        groups[group.name] = np.sort(rng.choice(holders, min(group.number, len(holders)), replace=False))
    return groups


def _report(played: PlayedGame, game: Game) -> CustodianReport:
    columns = ("row of the source", "group", "score", "area", "at least", "recognised", "variables")
    cells = tuple(_cells(*pair) for pair in zip(played.targets, played.rows, strict=True))
    caption = (
        "Area: under the ROC curve of the best score, and its lower bound for all people and scores "
        "together. Recognised: share of releases with the person, at 1 % false positives. Variables: their shares in "
        "what distinguishes releases with the person from releases without."
    )
    people = Part("The most vulnerable people", tables=(Table(caption, columns, cells, columns[3:6]),))
    return CustodianReport(
        warning="This page names the rows of people who are at risk.",
        title="Who is at risk: the in/out game",
        introduction=f"{game.rounds} shadow releases of {game.n_people} records by the whole plan; {game.n_targets} "
        "people were in or out of them by chance. The first row of the source is 1.",
        sections=(people, *_remedies(played, game)),
    )


def _remedies(played: PlayedGame, game: Game) -> Iterator[Part]:
    """Give the section on what may be changed, where anything was tried."""
    now = game.worst(ISOLATED)
    if not played.remedies or now is None:
        return
    columns = ("change", "score", "mean area", "from", "to", "worst person")
    figures = (now.mean, now.lower, game.upper(ISOLATED), now.largest)
    rows = [("the plan as it is", now.score, *(f"{value:.2f}" for value in figures))]
    for one in played.remedies:
        figures = (one.mean, one.lower, one.upper, one.largest)
        untried = (one.change, f"not possible: {one.problem}", "", "", "", "")
        rows.append(untried if one.problem else (one.change, one.score, *(f"{value:.2f}" for value in figures)))
    caption = (
        f"The most isolated people in {LEAST_SHADOWS} shadow releases of each changed plan. What a change costs in "
        "utility is not measured here; anonflow compare shows it."
    )
    yield Part("What may be changed", tables=(Table(caption, columns, tuple(rows), columns[2:]),))


def _cells(target: TargetRisk, row: int) -> tuple[str | int, ...]:
    area = target.areas[target.score]
    drivers = ", ".join(f"{name} {share:.0%}" for name, share in target.drivers[:SHOWN_DRIVERS] if share >= LEAST_SHARE)
    figures = f"{area:.2f}", f"{target.lower:.2f}", f"{target.true_positives:.0%}"
    return (row, ", ".join(target.groups), target.score, *figures, drivers)
