"""Attribute inference: every variable guessed from the others, better for members than for non-members or not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from anoncore.kernels.left_out import MISSING, Codes, nearest_without_each
from anoncore.microdata import Microdata
from anoncore.parameters import between, not_below
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._proportions import Difference, Proportion, difference, proportion
from anoncore.risk._trees import boosted, one_thread
from anoncore.risk._values import (
    Flags,
    aligned_values,
    codes_of_values,
    drawn_people,
    places_among,
    shared_variables,
)
from anoncore.risk.verdicts import Verdict, three_way, worst_of

PERCENT = (1, 2, 5, 10, 25, 100)  # most confident guesses looked at, in per cent
PASSES_WITHIN = 3.0  # margins; the worst of many variables is several standard errors above its excess
NEAREST = "the nearest released row by all other variables"
AGREEING = "the released row with the rarest agreement on all other variables"
NEAREST_BY_HALF = "the nearest released row by half of the variables"
NEAREST_BY_KEYS = "the nearest released row by the quasi-identifiers"
TREES = "boosted trees on all other variables"
_UNIT = 1000  # numbers are placed in thousandths of the distribution; codes of values are multiples, above any weight
_WEIGHT = 100  # weights are whole hundredths of −log
_TOLERANCE = 25  # thousandths of the distribution within which a number counts as guessed
_OPERATIONS = 3e9  # of one search for nearest rows, which limits the people asked about
_FEWEST = 300  # people asked about on each side, if there are so many
_TRAINED = 2000  # released rows that trees learn from
_CELLS = 2e6  # rows times columns that all trees of an attack learn from
_LEAST = 40  # released rows for trees


@dataclass(frozen=True)
class AttributeInference:
    """Guesses of one variable: where members are guessed better than non-members with most certainty.

    Parameters
    ----------
    name : the variable
    attack : how it is guessed
    percent : the most confident guesses that the figures are of, in per cent
    members, nonmembers : shares of right guesses among them; the latter is the baseline, what the release says about
        anybody
    excess : members − nonmembers; the lower bound holds for all variables, attacks and per cents together
    upper : largest upper bound over attacks and per cents of the excess as a share of all people, not of the most
        confident guesses alone
    verdict : "fail" when the lower bound is above the margin, "pass" when ``upper`` is within three times the margin,
        else "inconclusive"
    """

    meaning: ClassVar[str] = (
        "How much more often the value of a variable is guessed right for members than for non-members; a useful "
        "release lets non-members be guessed too, and only the excess is due to membership."
    )

    name: str
    attack: str
    percent: int
    members: Proportion
    nonmembers: Proportion
    excess: Difference
    upper: float
    verdict: Verdict


@dataclass(frozen=True)
class InferenceRisk:
    """The attack on every variable.

    Parameters
    ----------
    variables : one result each
    by_attack : of each way of guessing that was tried, the variable that it is shown to guess best
    margin, confidence : the excess tolerated, and the coverage of the simultaneous lower bounds
    n_members, n_nonmembers, n_released : people asked about, samples of many, and released records
    n_grown : variables that were guessed by boosted trees, too
    n_tests : variables, attacks and per cents that lower bounds hold for together
    verdict : the worst of the variables'; "pass" without any
    """

    meaning: ClassVar[str] = AttributeInference.meaning

    variables: tuple[AttributeInference, ...]
    by_attack: tuple[AttributeInference, ...]
    margin: float
    confidence: float
    n_members: int
    n_nonmembers: int
    n_released: int
    n_grown: int
    n_tests: int
    verdict: Verdict

    @property
    def attacks(self) -> tuple[str, ...]:
        """Return the ways of guessing that were tried."""
        return tuple(one.attack for one in self.by_attack)

    @property
    def worst(self) -> AttributeInference:
        """Return the variable whose excess is shown to be largest."""
        return max(self.variables, key=_shown)

    @property
    def upper(self) -> float:
        """Return the largest upper bound of a variable."""
        return max(one.upper for one in self.variables)


@dataclass(frozen=True, kw_only=True)
class InferenceSettings:
    """What the attacker knows, and how that is judged.

    Parameters
    ----------
    quasi_identifiers : names of what an attacker may know alone
    margin : excess tolerated, 0 … 1
    people : people asked about on each side, at most, by one record of each statistical unit
    trees : rounds of boosting; 0 for no trees
    confidence : 0 … 1, two-sided, of the lower bounds together; upper bounds hold by themselves at 95 %
    """

    quasi_identifiers: Sequence[str] = ()
    margin: float = 0.05
    people: int = 1500
    trees: int = 8
    confidence: float = 0.99

    def check(self) -> None:
        """Raise AnonymizationError where a number is out of range."""
        between("margin", self.margin, 0, 1)
        between("confidence", self.confidence, 0, 1)
        not_below(1, people=self.people)
        not_below(0, trees=self.trees)


_SETTINGS = InferenceSettings()


def attribute_inference(
    original: Microdata,
    reference: Microdata,
    released: Microdata,
    *,
    settings: InferenceSettings = _SETTINGS,
    rng: np.random.Generator,
) -> InferenceRisk | None:
    """Guess every variable of members and of non-members from their other variables, by the release.

    The attacker knows all other variables of a person, a random half of them, or the quasi-identifiers, and takes the
    value of the nearest released row (Gower's distance, numbers by their place in the distribution; the nearer, the
    more confident); or
    boosted trees that learned from at most 2000 released rows whether a number is at least the median, or a level the
    most frequent one (the higher the probability, the more confident). A number counts as guessed by
    a row within 0.025 of its place in the distribution, a level if equal. Guesses are compared among the most
    confident 1, 2, 5, 10, 25 and 100 per cent on each side, ties shared. People whose own value is missing are not
    asked about, having nothing to disclose. No role of a variable is needed.

    Parameters
    ----------
    original : Microdata, members
    reference : Microdata, non-members of the same population
    released : Microdata
    settings : InferenceSettings
    rng : Generator, for samples, ties between rows and trees

    Returns
    -------
    InferenceRisk, or None where the tables have fewer than two variables in common or one has no records

    Raises
    ------
    AnonymizationError
        When a setting is out of range.

    Notes
    -----
    Source: Francis and Wagner 2025, arXiv:2507.01710 (best matching rows by Gower's distance, precision together with
    the share of people who are guessed), departing from it in the baseline, which is the same attack on non-members
    instead of a model of the original without the person, and in the other attacks. Intervals: Newcombe 1998, with
    Bonferroni's correction of the lower bounds. Trees are grown for as many variables, drawn at random, as rows times
    columns reach 2 million; of very large tables fewer people are asked about, released rows are never sampled for
    them.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("age", "continuous"), Variable("ill", "binary")])
    >>> frame = pd.DataFrame({"age": range(600), "ill": [0, 1] * 300})
    >>> one, other = Microdata(frame, schema), Microdata(frame.assign(ill=[1, 0] * 300), schema)
    >>> found = attribute_inference(one, other, one, rng=np.random.default_rng(1))
    >>> found.worst.name, found.verdict
    ('ill', 'fail')
    """
    settings.check()
    names = shared_variables((original, released, reference))
    if len(names) < 2 or not min(map(len, (original, released, reference))):
        return None
    # What is the same for everybody is no secret, and its 100 % right guesses would hide the worst variable.
    varying = [name for name in names if _varies(name, original, reference)]
    names = varying if len(varying) > 1 else names
    search = _Search.of((original, released, reference), names, settings, rng)
    known = np.array([name in settings.quasi_identifiers for name in names])
    attempts = [
        _Attempt(NEAREST, *search.by_distance(np.ones(len(names), dtype=bool))),
        _Attempt(AGREEING, *search.by_agreement()),
    ]
    if known.any() and not known.all():
        attempts.append(_Attempt(NEAREST_BY_KEYS, *search.by_distance(known)))
    grown = search.grown(settings.trees, rng)
    if len(grown):
        attempts.append(_Attempt(TREES, *search.by_trees(grown, settings.trees, rng)))
    if len(names) > 2:
        half = rng.permutation(len(names)) < len(names) // 2
        attempts.append(_Attempt(NEAREST_BY_HALF, *search.by_distance(half)))
    tests = len(PERCENT) * sum(int(one.tried.sum()) for one in attempts)
    judge = _Judge(search, settings, 1.0 - (1.0 - settings.confidence) / tests)
    results = [[judge.result(j, one) for one in attempts if one.tried[j]] for j in range(len(names))]
    worst = tuple(judge.worst(of_variable) for of_variable in results)
    return InferenceRisk(
        variables=worst,
        by_attack=tuple(
            max((result for row in results for result in row if result.attack == one.name), key=_shown)
            for one in attempts
            if one.tried.any()
        ),
        margin=settings.margin,
        confidence=settings.confidence,
        n_members=search.n_members,
        n_nonmembers=len(search.people) - search.n_members,
        n_released=len(released),
        n_grown=len(grown),
        n_tests=tests,
        verdict=worst_of({one.verdict for one in worst}),
    )


def _varies(name: str, *people: Microdata) -> bool:
    values = np.concatenate(aligned_values(people, name))
    return len(np.unique(values)) > 1


def _shown(one: AttributeInference) -> tuple[float, float]:
    return one.excess.lower, one.upper


@dataclass(frozen=True, eq=False, repr=False)
class _Attempt:
    """Guesses of one kind: (P, n) whether right, (P, n) how confident, in any unit; (n,) variables ``tried``."""

    name: str
    right: Flags
    confidence: Floats
    tried: Flags = field(default_factory=lambda: np.ones(1, dtype=bool))


@dataclass(frozen=True, eq=False, repr=False)
class _Search:
    """People, members first, and released rows, in codes of `anoncore.kernels.left_out`.

    Parameters
    ----------
    names : n variables
    numeric : (n,) whether numbers
    people, rows : (P, n) and (n, M), numbers by their place in the distribution of the people; rows are in random
        order, so that the first of equally near ones has no meaning
    exact_people, exact_rows : the same with codes of all values, a common one for values that no one asked about holds
    n_members : of the people
    """

    names: Sequence[str]
    numeric: Flags
    people: Codes
    rows: Codes
    exact_people: Codes
    exact_rows: Codes
    n_members: int

    @classmethod
    def of(
        cls, tables: Sequence[Microdata], names: Sequence[str], settings: InferenceSettings, rng: np.random.Generator
    ) -> _Search:
        """Draw the people, and turn all values into codes."""
        original, released, reference = tables
        most = max(_FEWEST, int(_OPERATIONS / (2 * len(released) * len(names))))
        drawn = [drawn_people(side, min(settings.people, most), rng) for side in (original, reference)]
        order = rng.permutation(len(released))
        numeric, coded, exact = [], [], []
        for name in names:
            members, published, others = aligned_values(tables, name)
            asked, answers = np.concatenate([members[drawn[0]], others[drawn[1]]]), published[order]
            numeric.append(all(table.schema[name].kind == "continuous" for table in tables))
            exact.append(codes_of_values(asked, answers, _UNIT))
            coded.append(places_among(asked, answers, _UNIT) if numeric[-1] else exact[-1])
        (people, rows), (exact_people, exact_rows) = (zip(*codes, strict=True) for codes in (coded, exact))
        return cls(
            names,
            np.array(numeric),
            np.stack(people, axis=1),
            np.stack(rows),
            np.stack(exact_people, axis=1),
            np.stack(exact_rows),
            len(drawn[0]),
        )

    def by_distance(self, known: Flags) -> tuple[Flags, Floats, Flags]:
        """Guess the values of the nearest rows by the known variables."""
        caps = np.broadcast_to(np.where(known, _UNIT, 0).astype(np.int32), self.people.shape)
        distance, place = nearest_without_each(self.people, np.ascontiguousarray(caps), self.rows)
        return self._guesses(place, -distance.astype(np.float64))

    def by_agreement(self) -> tuple[Flags, Floats, Flags]:
        """Guess the values of the rows that agree best; an agreeing value weighs −log of its share of the people."""
        caps = np.empty_like(self.exact_people)
        for column, values in zip(caps.T, self.exact_people.T, strict=True):
            _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
            column[:] = np.rint(-_WEIGHT * np.log(counts / len(values)))[places]
        distance, place = nearest_without_each(self.exact_people, caps, self.exact_rows)
        others = caps.sum(axis=1, keepdims=True, dtype=np.int64) - caps
        return self._guesses(place, (others - distance).astype(np.float64))

    def _guesses(self, place: Codes, confidence: Floats) -> tuple[Flags, Floats, Flags]:
        guess = np.take_along_axis(self.rows.T, np.maximum(place, 0), axis=0)
        right = (np.abs(guess - self.people) <= np.where(self.numeric, _TOLERANCE, 0)) & (place >= 0)
        return right, confidence, np.ones(len(self.names), dtype=bool)

    def grown(self, rounds: int, rng: np.random.Generator) -> Indices:
        """Return the variables for which trees are grown, all or some drawn at random."""
        n, released = self.rows.shape
        if not rounds or released < _LEAST:
            return np.empty(0, dtype=np.intp)
        most = int(max(1.0, _CELLS / (n * min(released, _TRAINED))))
        return np.sort(rng.choice(n, min(n, most), replace=False))

    def by_trees(self, grown: Indices, rounds: int, rng: np.random.Generator) -> tuple[Flags, Floats, Flags]:
        """Guess on which side of a division values are, by trees that learned from released rows."""
        right, confidence = np.zeros(self.people.shape, dtype=bool), np.zeros(self.people.shape)
        tried = np.zeros(len(self.names), dtype=bool)
        rows, seed = self.rows[:, :_TRAINED].T, int(rng.integers(2**31))
        with one_thread():
            for j in grown:
                there = rows[:, j] != MISSING
                halves = _halves(rows[there, j], self.people[:, j], numeric=bool(self.numeric[j]))
                if halves is not None:
                    tried[j] = True
                    learned = _features(rows[there], j), halves[0]
                    probability = _probability(learned, _features(self.people, j), rounds, seed)
                    right[:, j], confidence[:, j] = (probability > 0.5) == halves[1], np.abs(probability - 0.5)
        return right, confidence, tried


def _halves(released: Codes, asked: Codes, *, numeric: bool) -> tuple[Flags, Flags] | None:
    """Divide values by the release: at least its median, or its most frequent level; None where it has one side."""
    known = released[released != MISSING]
    if not len(known):
        return None
    if numeric:
        median = np.median(known)
        sides = released >= median, asked >= median
    else:
        levels, counts = np.unique(known, return_counts=True)
        frequent = levels[np.argmax(counts)]
        sides = released == frequent, asked == frequent
    return sides if len(np.unique(sides[0])) > 1 else None


def _probability(learned: tuple[Floats, Flags], asked: Floats, rounds: int, seed: int) -> Floats:
    """Return (P,) probabilities by trees that learned from features and answers."""
    trees = boosted(*learned, seed, max_iter=rounds, max_leaf_nodes=8, max_bins=32, learning_rate=0.3)
    return np.asarray(trees.predict_proba(asked)[:, 1])


def _features(table: Codes, variable: int) -> Floats:
    others = np.delete(table, variable, axis=1).astype(np.float64)
    others[others == MISSING] = -_UNIT  # below all values; trees split it off
    return others


@dataclass(frozen=True, eq=False, repr=False)
class _Judge:
    """Compares members and non-members; ``sure`` is the confidence of a lower bound by itself."""

    search: _Search
    settings: InferenceSettings
    sure: float

    def result(self, j: int, attempt: _Attempt) -> AttributeInference:
        """Return the worst of all per cents of one attack on one variable."""
        return self.worst(
            [
                AttributeInference(
                    name=self.search.names[j],
                    attack=attempt.name,
                    percent=cell.percent,
                    members=cell.members,
                    nonmembers=cell.nonmembers,
                    excess=cell.excess,
                    upper=cell.upper,
                    verdict="pass",
                )
                for cell in self._cells(attempt, j)
            ]
        )

    def worst(self, results: Sequence[AttributeInference]) -> AttributeInference:
        """Return the worst of several results on one variable, with their largest upper bound and its verdict."""
        one = max(results, key=lambda result: (result.excess.lower, result.excess.value))
        upper, margin = max(result.upper for result in results), self.settings.margin
        verdict = three_way(one.excess.lower, upper, PASSES_WITHIN * margin, fails_above=margin)
        return replace(one, upper=upper, verdict=verdict)

    def _cells(self, one: _Attempt, j: int) -> Iterator[_Cell]:
        cut = self.search.n_members
        known = self.search.people[:, j] != MISSING
        asked = [np.flatnonzero(known[:cut]), cut + np.flatnonzero(known[cut:])]
        sides = [_most_confident(one.right[rows, j], one.confidence[rows, j]) for rows in asked]
        for percent, *hits in zip(PERCENT, *sides, strict=True):
            members, nonmembers = (proportion(right, n) for right, n in hits)
            alone = difference(members, nonmembers)
            all_ = difference(*(proportion(right, n, self.sure) for right, n in hits))
            excess = Difference(alone.value, all_.lower, alone.upper)
            yield _Cell(percent, members, nonmembers, excess, alone.upper * members.n / max(cut, 1))


@dataclass(frozen=True)
class _Cell:
    """One attack on one variable, among the most confident per cent; ``upper`` as a share of all people."""

    percent: int
    members: Proportion
    nonmembers: Proportion
    excess: Difference
    upper: float


def _most_confident(right: Flags, confidence: Floats) -> list[tuple[float, int]]:
    """Return right guesses and guesses among the most confident per cent, for each; ties share what is right.

    Examples
    --------
    >>> _most_confident(np.array([True, False, False, True]), np.array([3.0, 1.0, 1.0, 2.0]))[-2:]
    [(1.0, 1), (2.0, 4)]
    """
    if not len(right):
        return [(0.0, 0)] * len(PERCENT)
    _, rank, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    shared = np.repeat(np.bincount(rank, right) / counts, counts)
    sums = np.cumsum(shared)
    sizes = [math.ceil(percent * len(right) / 100) for percent in PERCENT]
    return [(float(sums[size - 1]), size) for size in sizes]
