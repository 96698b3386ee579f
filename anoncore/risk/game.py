"""The in/out game: releases of data with one person, and of the same data without, are distinguished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest_of_others
from anoncore.microdata import Microdata
from anoncore.parameters import between, not_below
from anoncore.risk._checks import Floats
from anoncore.risk._rounds import Placements, epsilon, true_positives
from anoncore.risk._shadows import Mask, Places, Shadows
from anoncore.risk._target_scores import SCORES, Evidence, TargetScores
from anoncore.risk._values import Flags

# Positions of the targets among the people, by the name of their group.
Targets = Mapping[str, Places]

ISOLATED, RANDOM = "isolated", "random"
LEAST_ROUNDS = 32
MOST_SHARE = 0.9
LEAST_UNITS = 8
_AROUND = 5  # neighbours whose mean distance shows how isolated a person is


@dataclass(frozen=True)
class GameSettings:
    """How the game is played.

    Parameters
    ----------
    rounds : shadow releases; the standard error of the area of one target is 0.58 / √rounds
    confidence : 0 … 1, of intervals and bounds
    variables : that the attacker compares; None for all masked ones
    processes : at most so many, where the shadow releases take longer than starting processes does; ``mask`` must
        then be importable. The game is the same with any number
    releases : in each round so many releases follow each other, a target being in all of them or in none; the
        attacker averages the scores
    turnover : 0 … 0.9, share of the people who are no targets that each release lacks, drawn anew: others come and go
    drawn : 0 … 0.9, share of all people, targets too, that each release lacks, as where a plan draws who is in it
    """

    rounds: int = 192
    confidence: float = 0.99
    variables: tuple[str, ...] | None = None
    processes: int = 1
    releases: int = 1
    turnover: float = 0.0
    drawn: float = 0.0

    def __post_init__(self) -> None:
        between("confidence", self.confidence, 0, 1)
        not_below(1, releases=self.releases)
        for name, share in (("turnover", self.turnover), ("drawn", self.drawn)):
            if not 0.0 <= share <= MOST_SHARE:
                raise AnonymizationError(f"{name} must be 0 to {MOST_SHARE}, got {share}")
        not_below(LEAST_ROUNDS, rounds=self.rounds)


@dataclass(frozen=True)
class GroupArea:
    """How well one score distinguishes releases with a target from those without, for one group of targets.

    Parameters
    ----------
    score, group : by which, and of whom
    targets : their number
    mean : area under the ROC curve, each target with thresholds of its own, averaged over the targets
    lower, upper : bounds of the mean; the lower ones hold for all scores and groups together
    largest : area of the target that is recognised best
    largest_lower : the largest lower bound of a single target; it holds for all targets and scores together
    true_positives : mean share of rounds with a target that score above 99 % of the rounds without it
    pooled : area with one threshold for all targets, which understates the risk
    """

    score: str
    group: str
    targets: int
    mean: float
    lower: float
    upper: float
    largest: float
    largest_lower: float
    true_positives: float
    pooled: float


@dataclass(frozen=True)
class Game:
    """What an in/out game found, for all targets together.

    Parameters
    ----------
    areas : by score and group of targets
    epsilon : lower bound of ε of differential privacy, over all targets, scores and thresholds together; 0 where
        nothing is shown
    rounds, n_people, n_targets : shadow releases, and numbers of people
    confidence : of the bounds
    releases : of each round
    """

    meaning: ClassVar[str] = (
        "How well an attacker who knows the method and all values of a person distinguishes releases of data with "
        "that person from releases of data without; 0.5 is guessing."
    )

    areas: tuple[GroupArea, ...]
    epsilon: float
    rounds: int
    n_people: int
    n_targets: int
    confidence: float
    baseline: float = 0.5
    releases: int = 1

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of targets, in their order."""
        return tuple(dict.fromkeys(one.group for one in self.areas))

    @property
    def n_scores(self) -> int:
        """The number of scores that were tried."""
        return len({one.score for one in self.areas})

    def worst(self, group: str | None = None) -> GroupArea | None:
        """Return the score by which a group of targets, or any, is recognised best; None without such a group."""
        areas = [one for one in self.areas if group in (None, one.group)]
        return max(areas, key=lambda one: (max(one.lower, 0.5), one.upper), default=None)

    def upper(self, group: str | None = None) -> float:
        """Return the largest upper bound of the mean area of a group, or of any."""
        return max(one.upper for one in self.areas if group in (None, one.group))

    @property
    def largest_lower(self) -> float:
        """Return the largest lower bound of the area of a single target; it holds for all together."""
        return max(one.largest_lower for one in self.areas)


@dataclass(frozen=True)
class TargetRisk:
    """How well releases with one target are distinguished from those without; for the custodian alone.

    Parameters
    ----------
    place : position among the people
    groups : that the target is in
    areas : area under the ROC curve by score
    score : with the largest area
    lower : bound of its area, for all targets and scores together
    true_positives : share of rounds with the target that score above 99 % of the rounds without, by that score
    drivers : share of each variable in the difference of that score's means, the largest first; they add up to 1
    """

    place: int
    groups: tuple[str, ...]
    areas: Mapping[str, float]
    score: str
    lower: float
    true_positives: float
    drivers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, repr=False)
class Played:
    """A game, and its targets, the most vulnerable first, which are for the custodian alone."""

    game: Game
    targets: tuple[TargetRisk, ...] = field(repr=False)


def choose_targets(people: Microdata, *, isolated: int = 20, random: int = 20, rng: np.random.Generator) -> Targets:
    """Choose the most isolated people, by the mean distance to the 5 nearest records of others, and random others.

    Parameters
    ----------
    people : Microdata, (N, n); of one statistical unit at most one record is chosen
    isolated, random : how many of each; of few people at most a quarter of their number
    rng : Generator

    Returns
    -------
    mapping of "isolated" and "random" to positions, without a group that is empty

    Raises
    ------
    AnonymizationError
        With fewer than 8 people.
    """
    n = len(people)
    if people.n_units < LEAST_UNITS:
        raise AnonymizationError(f"the in/out game needs at least {LEAST_UNITS} people, got {people.n_units}")
    matrix = Encoder.fit(people).encode(people)
    units = _units(people)
    around = min(_AROUND, n - int(np.bincount(units).max()))
    near = nearest_of_others(matrix, matrix, around, own=units, units=units)[0] if matrix.shape[1] else np.zeros((n, 1))
    order = np.argsort(-near.mean(axis=1), kind="stable")
    order = order[np.sort(np.unique(units[order], return_index=True)[1])]
    most = people.n_units // 4
    far, rest = np.split(order, [min(isolated, most)])
    others = rng.choice(np.sort(rest), min(random, most), replace=False)
    groups = {ISOLATED: np.sort(far), RANDOM: np.sort(others)}
    return {name: places for name, places in groups.items() if len(places)}


def _units(people: Microdata) -> Places:
    """Return (N,) whose record each is."""
    return np.arange(len(people)) if people.units is None else people.units.astype(np.intp)


def play(
    people: Microdata,
    mask: Mask,
    targets: Targets,
    *,
    settings: GameSettings | None = None,
    rng: np.random.Generator,
    on_round: Callable[[int], None] = lambda number: None,
) -> Played:
    """Mask the people again and again, each target in or out by the toss of a coin, and try to find out which.

    Each target is scored on every shadow release: by the distance to the nearest released row and to the five
    nearest, by the rarity of its values that are in the release, and by that of the values that one row shares. Its
    area under the ROC curve compares the rounds with it to the rounds without it, so that each person has thresholds
    of their own. A density ratio would order the rounds of one target as the distances do, its other term being
    the same in all rounds.

    Parameters
    ----------
    people : Microdata, (N, n); a target joins and leaves with all records of its statistical unit
    mask : the whole plan, from people and a generator to what would be published: microdata, or a `ShadowRelease` with
        the recodings of variables whose levels or numbers are coarsened, by which targets are recoded as well
    targets : see :func:`choose_targets`
    settings : GameSettings, by default those of the class
    rng : Generator
    on_round : called with the number of rounds done; raise from it to stop

    Returns
    -------
    Played

    Raises
    ------
    AnonymizationError
        Without targets or people who are none, when masking fails, or when a variable is released in levels none of
        which the people have.

    Notes
    -----
    Sources: Carlini et al. 2022, *IEEE S&P*, 1897–1914 (each target against its own distributions); Stadler,
    Oprisanu and Troncoso 2022, *USENIX Security*, 1451–1468 (the game, for releases); Meeus et al. 2023 (isolated
    records as targets); Jagielski, Ullman and Oprea 2020, *NeurIPS* 33 (ε from below). Each target is in exactly half
    of the rounds. Intervals are for these targets, not for a population of which they are a sample. Time: that of
    ``rounds`` releases.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> people = Microdata(pd.DataFrame({"x": np.arange(40.0) ** 2}), Schema([Variable("x", "continuous")]))
    >>> generator = np.random.default_rng(0)
    >>> targets = choose_targets(people, isolated=3, random=0, rng=generator)
    >>> unmasked = play(people, lambda data, rng: data, targets, settings=GameSettings(rounds=32), rng=generator)
    >>> unmasked.game.worst("isolated").mean
    1.0
    """
    settings = settings or GameSettings()
    places = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *targets.values()]))
    own = _units(people)
    joined = np.isin(own, own[places])
    if not len(places) or joined.all():
        raise AnonymizationError(f"the game needs targets and others, got {len(places)} targets of {len(people)}")
    names = people.schema.masked if settings.variables is None else settings.variables
    attacker = TargetScores.of(people.take(places), people.take(np.flatnonzero(~joined)), names)
    units, unit_of_target = np.unique(own[places], return_inverse=True)
    inside = _balanced(settings.rounds, len(units), rng)
    shadows = Shadows(
        people,
        mask,
        attacker,
        np.where(joined, own, -1),
        units,
        inside,
        rng.spawn(settings.rounds),
        settings.releases,
        settings.turnover,
        settings.drawn,
    )
    scores = np.empty((len(SCORES), settings.rounds, len(places)))
    evidence = np.zeros((len(SCORES), len(places), len(names)), dtype=np.float32)
    asked = inside[:, unit_of_target]
    halves = np.where(asked, asked.sum(axis=0), -(~asked).sum(axis=0))
    with closing(shadows.scored(settings.processes)) as scored:
        for number, one in enumerate(scored):
            scores[:, number] = one.scores
            evidence += one.evidence / halves[number, :, None]
            on_round(number + 1)
    rounds = _Rounds(places, tuple(names), asked, scores, evidence)
    played = rounds.judged(targets, people.n_units, settings.confidence)
    return replace(played, game=replace(played.game, releases=settings.releases))


def _balanced(rounds: int, targets: int, rng: np.random.Generator) -> Flags:
    """Return (rounds, targets) flags, each target in for half of the rounds, whatever the others are."""
    half = np.arange(rounds) < rounds // 2
    return np.stack([rng.permutation(half) for _ in range(targets)], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class _Rounds:
    """All scores of a game.

    Parameters
    ----------
    places : (T,) positions of the targets
    names : n variables
    inside : (R, T) whether a target is in
    scores : (S, R, T)
    evidence : (S, T, n) mean evidence of each variable in the rounds with a target, less that in those without
    """

    places: Places
    names: tuple[str, ...]
    inside: Flags
    scores: Floats
    evidence: Evidence

    def judged(self, groups: Targets, n_people: int, confidence: float) -> Played:
        """Compare the rounds with each target to those without."""
        members = {name: np.isin(self.places, chosen) for name, chosen in groups.items()}
        areas = np.empty((len(SCORES), len(self.places)))
        lower, power = np.empty_like(areas), np.empty_like(areas)
        verdicts: list[GroupArea] = []
        for s, (score, values) in enumerate(zip(SCORES, self.scores, strict=True)):
            placed = Placements.of(values, self.inside)
            areas[s], power[s] = placed.areas, true_positives(values, self.inside)
            single = [
                placed.take(np.array([j])).mean_area(confidence, areas.size).lower for j in range(len(self.places))
            ]
            lower[s] = single
            for group, chosen in members.items():
                mean = placed.take(np.flatnonzero(chosen)).mean_area(confidence, len(SCORES) * len(groups))
                largest = float(areas[s, chosen].max()), float(lower[s, chosen].max())
                pooled = Placements.of(values[:, chosen].reshape(-1, 1), self.inside[:, chosen].reshape(-1, 1)).areas[0]
                bounds = mean.mean, mean.lower, mean.upper
                rest = float(power[s, chosen].mean()), float(pooled)
                verdicts.append(GroupArea(score, group, int(chosen.sum()), *bounds, *largest, *rest))
        level = (1.0 - confidence) / len(SCORES)
        proven = max(epsilon(values, self.inside, level) for values in self.scores)
        game = Game(tuple(verdicts), proven, len(self.inside), n_people, len(self.places), confidence)
        return Played(game, tuple(self._targets(members, areas, lower, power)))

    def _targets(self, members: Mapping[str, Flags], areas: Floats, lower: Floats, power: Floats) -> list[TargetRisk]:
        """Return the targets, the most vulnerable first."""
        best = np.argmax(areas, axis=0)
        return [
            TargetRisk(
                place=int(self.places[j]),
                groups=tuple(name for name, chosen in members.items() if chosen[j]),
                areas=dict(zip(SCORES, areas[:, j].tolist(), strict=True)),
                score=SCORES[best[j]],
                lower=float(lower[best[j], j]),
                true_positives=float(power[best[j], j]),
                drivers=self._drivers(self.evidence[best[j], j]),
            )
            for j in np.argsort(-areas.max(axis=0), kind="stable")
        ]

    def _drivers(self, evidence: Evidence) -> tuple[tuple[str, float], ...]:
        """Return the share of each variable in a difference of means, the largest first."""
        total = float(evidence.sum())
        if total <= 0.0:
            return ()
        order = np.argsort(-evidence, kind="stable")
        return tuple((self.names[j], float(evidence[j]) / total) for j in order)
