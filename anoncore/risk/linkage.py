"""Linkage: how often a released row is traced to its person, and whether the attacker knows when."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import distinct_rows, nearest
from anoncore.microdata import unit_means
from anoncore.parameters import between, not_below
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk._proportions import Proportion, proportion
from anoncore.risk.match_model import match_scores
from anoncore.risk.membership import membership_attack
from anoncore.risk.prediction import PredictionMeasures, chosen_rows, prediction_measures, sample_queries

_TIED = 1.0 + 1e-12  # a ratio of distances that rounding can explain
_WIDE = 16  # neighbours among which ties are sought before all points are looked at
_ENTRIES = 1 << 22  # distances held at a time


@dataclass(frozen=True)
class MatchSignal:
    """How well one measure separates right matches from wrong ones, small values speaking for a right one.

    Parameters
    ----------
    name : "distance", "ambiguity" or "uncertainty"; or "combined", of a model of the three
    auc : probability that a right match has a smaller value than a wrong one, ties counting one half; well
        below ½ it separates as much, large values speaking for a right match
    lower, upper : confidence interval; 0 and 1 where all matches are right, or all wrong
    n_right, n_wrong : matches compared
    baseline : the AUC of guessing
    """

    meaning: ClassVar[str] = (
        "An area near 0.5 says that an attacker cannot distinguish right matches from wrong ones; near 1, that he can."
    )

    name: str
    auc: float
    lower: float
    upper: float
    n_right: int
    n_wrong: int
    baseline: float = 0.5


@dataclass(frozen=True)
class Linkage:
    """What an attacker gets who knows every original record and takes the nearest released row for it.

    Parameters
    ----------
    rate : share of the people asked about who are linked to their own row, ties shared
    guess : 1/M, the rate of picking any of the M rows; the baseline
    group_rate : mean of 1/size, or of the own unit's share, over the groups of identical rows that the own rows stand
        in: the rate if everybody's group were found, and the most that groups allow
    among_nonmembers : the rate if all other rows were records of the reference A*, the own row keeping its
        copies; None without a reference
    distance, ambiguity, uncertainty : how well each measure separates right matches from wrong ones
    n_released, n_reference, n_original : rows of the release, of the reference, people in all
    n_suppressed : of the people asked about, those who have no row in the release
    k : neighbours looked at by ambiguity and uncertainty
    sampling_error : bound on the error of ``rate`` as to all people, at 99 %; 0 when all were asked about
    confidence : of every interval
    combined : how well a model of all three separates them, see :func:`anoncore.risk.match_model.match_scores`;
        None with fewer than 10 right or wrong matches
    """

    meaning: ClassVar[str] = (
        "The share of people whose nearest released row is their own, for an attacker who knows all their "
        "values; it does harm where it exceeds guessing and a measure shows which matches are right."
    )

    rate: Proportion
    guess: float
    group_rate: float
    among_nonmembers: Proportion | None
    distance: MatchSignal
    ambiguity: MatchSignal
    uncertainty: MatchSignal
    n_released: int
    n_reference: int | None
    n_original: int
    n_suppressed: int
    k: int
    sampling_error: float
    confidence: float
    combined: MatchSignal | None = None

    @property
    def signals(self) -> tuple[MatchSignal, ...]:
        """The three measures, in the order of the paper, and the model of the three where there is one."""
        model = () if self.combined is None else (self.combined,)
        return self.distance, self.ambiguity, self.uncertainty, *model


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinkageSettings:
    """Whom an attacker links, and how that is measured.

    Parameters
    ----------
    k : neighbours of ambiguity and uncertainty, at least 2; no more than there are released rows are used
    queries : (q,) row numbers of the people to ask about; by default all where ``measures`` are of all, else
        as many as :func:`sample_queries` says
    measures, nonmembers : those of the same queries against the release and against the reference if they
        are known already; nothing is searched for again
    epsilon : bound on the sampling error of the rate at 99 %, where people are sampled; the released rows
        never are
    confidence : 0 … 1, two-sided
    units, row_units : (N,) and (M,) statistical unit of each person's record and of each released row: a match with
        any row of the own unit is right, and units are counted, each with the mean of its records
    """

    k: int = 5
    queries: ArrayLike | None = None
    measures: PredictionMeasures | None = None
    nonmembers: PredictionMeasures | None = None
    epsilon: float = 0.01
    confidence: float = 0.95
    units: Indices | None = None
    row_units: Indices | None = None

    def share(self, right: Floats, chosen: Indices) -> Proportion:
        """Return the share of right matches, of units where they are known."""
        counted = unit_means(right, None if self.units is None else self.units[chosen])
        return proportion(float(counted.sum()), len(counted), self.confidence)

    def nearest_own(self, place: Indices, chosen: Indices, people: Floats, points: Floats) -> Indices:
        """Return the own row of each person asked about: the nearest of all where that is of the own unit."""
        own = place[chosen]
        if self.units is None or self.row_units is None:
            return own
        near = nearest(people[chosen], points, 1)[1][:, 0]
        return np.where(self.row_units[near] == self.units[chosen], near, own)

    def rows(self, people: int, rng: np.random.Generator) -> Indices:
        """Return the row numbers of those asked about, of so many people."""
        if self.queries is not None or (self.measures is not None and len(self.measures.distance) == people):
            return chosen_rows(self.queries, people)
        return sample_queries(people, epsilon=self.epsilon, rng=rng)


_SETTINGS = LinkageSettings()


def linkage(
    original: ArrayLike,
    released: ArrayLike,
    *,
    reference: ArrayLike | None = None,
    own: ArrayLike | None = None,
    settings: LinkageSettings = _SETTINGS,
    rng: np.random.Generator,
) -> Linkage:
    """Attack by linking each person to the nearest released row, where it is known which row is whose.

    A person's match is right with probability 1/t when his row is among the t rows that are equally near,
    else with probability 0; a group of t identical rows thus counts 1/t. For the three areas under the ROC
    curve one of the tied rows is drawn, as an attacker would.

    Parameters
    ----------
    original : (N, n) encoded, in standard deviations
    released : (M, n) same encoding
    reference : (L, n) same encoding, other people of the same population
    own : (N,) number of the released row that stems from each person, −1 for none; 0 … N − 1 by default
    settings : LinkageSettings
    rng : generator, for the sample and the ties

    Returns
    -------
    Linkage

    Raises
    ------
    AnonymizationError
        When the tables do not fit together.

    Notes
    -----
    Source: Lasko and Vinterbo 2010, section IV.C and Fig. 3. Intervals: Wilson 1927; DeLong et al. 1988 as
    in :func:`membership_attack`. The bound is Hoeffding's. No N × M array is held.

    Examples
    --------
    >>> rows = np.random.default_rng(1).normal(size=(50, 3))
    >>> linkage(rows, rows, rng=np.random.default_rng(2)).rate.value
    1.0
    """
    people = matrix("original", original)
    points = matrix("released", released, people.shape[1])
    others = None if reference is None else matrix("reference", reference, people.shape[1])
    not_below(2, k=settings.k)
    place = own_rows(own, len(people), len(points))
    chosen = settings.rows(len(people), rng)
    rows = _Rows(people[chosen], points, settings.nearest_own(place, chosen, people, points), settings.row_units)
    used = min(settings.k, len(points))
    measures = settings.measures
    if measures is None:  # a release of one row has no second neighbour
        measures = prediction_measures(people, points, used, queries=chosen) if used >= 2 else None
    else:
        _same_sides("measures", measures, len(chosen), len(points))
    right = rows.chances(measures)
    signals = _signals(measures, right, settings.confidence, rng)
    return Linkage(
        rate=settings.share(right, chosen),
        guess=1.0 / len(points),
        group_rate=float(np.where(rows.there, rows.right / rows.sizes, 0.0).mean()),
        among_nonmembers=None if others is None else settings.share(rows.among(others, settings), chosen),
        distance=signals[0],
        ambiguity=signals[1],
        uncertainty=signals[2],
        n_released=len(points),
        n_reference=None if others is None else len(others),
        n_original=len(people),
        n_suppressed=int((~rows.there).sum()),
        k=measures.k if measures else used,
        sampling_error=sampling_error(len(chosen), len(people)),
        confidence=settings.confidence,
        combined=signals[3] if len(signals) > 3 else None,
    )


class _Rows:
    """The released rows (M, n), the people asked about (q, n), and the own row of each (``place``, −1 for none).

    ``there`` (q,): the person has a row; ``sizes`` (q,): rows identical with it; ``right`` (q,): those of them that are
    of the same statistical unit; ``mine`` (q,): its distance, ∞ for none.
    """

    def __init__(self, asked: Floats, points: Floats, place: Indices, units: Indices | None = None) -> None:
        self.asked, self.points, self.there = asked, points, place >= 0
        self.first, number, self.copies = distinct_rows(points)
        self.sizes = np.where(self.there, self.copies[number[place]], 1)
        self.right = np.ones(len(asked))
        if units is not None:
            kinds = np.unique(units, return_inverse=True)[1]
            _, pair, count = np.unique(number * len(points) + kinds, return_inverse=True, return_counts=True)
            self.right = np.where(self.there, count[pair[place]], 1.0)
        gap = asked - points[place]
        self.mine = np.where(self.there, np.sqrt(np.einsum("ij,ij->i", gap, gap)), np.inf)

    def chances(self, measures: PredictionMeasures | None) -> Floats:
        """Return (q,) the chance of the own row among all that are nearest."""
        closest = measures.distance * math.sqrt(self.asked.shape[1]) if measures else 0.0
        # A single row is the nearest one, however far.
        hits = np.flatnonzero(self.there & ((self.mine <= closest * _TIED) | (len(self.points) == 1)))
        shared = hits[~_alone(measures)[hits]] if measures else hits
        right = np.zeros(len(self.asked))
        right[hits] = self.right[hits] / self.sizes[hits]
        right[shared] = self.right[shared] / _tied_rows(self.asked[shared], self.points[self.first], self.copies)
        return right

    def among(self, others: Floats, settings: LinkageSettings) -> Floats:
        """Return (q,) the chances if all other rows were ``others``, the own row keeping its copies."""
        if settings.nonmembers is None:
            others_distance = nearest(self.asked, others, 1)[0][:, 0]
        else:
            _same_sides("nonmembers", settings.nonmembers, len(self.asked), len(others))
            others_distance = settings.nonmembers.distance * math.sqrt(self.asked.shape[1])
        tied = (self.mine <= others_distance * _TIED) & (others_distance <= self.mine * _TIED)
        # A non-member at the same distance is one more row to choose from.
        chance = np.where(tied, 1.0 / (self.sizes + 1), np.where(self.mine < others_distance, 1.0 / self.sizes, 0.0))
        return np.asarray(self.right * chance)


def sampling_error(asked: int, people: int, delta: float = 0.01) -> float:
    """Bound the error of a share of ``people`` found on a sample of ``asked``, by Hoeffding's inequality.

    Examples
    --------
    >>> round(sampling_error(26_492, 10**6), 3), sampling_error(50, 50)
    (0.01, 0.0)
    """
    between("delta", delta, 0, 1)
    return 0.0 if asked >= people else math.sqrt(math.log(2.0 / delta) / (2.0 * max(asked, 1)))


def linked_chances(asked: Floats, points: Floats, place: Indices, units: Indices | None = None) -> Floats:
    """Return (q,) the chance of each person's own rows among all rows that are nearest, 0 where none is.

    Parameters
    ----------
    asked, points : (q, n) people and (M, n) released rows, encoded
    place : (q,) number of the own row, −1 for none
    units : (M,) statistical unit of each row; rows identical to the own one are right if they are of its unit
    """
    rows = _Rows(asked, points, place, units)
    closest = nearest(asked, points[rows.first], 1)[0][:, 0]
    hits = np.flatnonzero(rows.there & (rows.mine <= closest * _TIED))
    right = np.zeros(len(asked))
    right[hits] = rows.right[hits] / _tied_rows(asked[hits], points[rows.first], rows.copies)
    return right


def own_rows(own: ArrayLike | None, people: int, rows: int) -> Indices:
    """Return (people,) the number of each person's released row, −1 for none, checked."""
    if own is None:
        if rows != people:
            raise AnonymizationError(
                f"released must have {people} rows in the order of original, got {rows}; state own rows"
            )
        return np.arange(people)
    place = np.asarray(own)
    if place.shape != (people,) or place.dtype.kind not in "iu":
        raise AnonymizationError(f"own must hold {people} row numbers, one per person, or -1")
    place = place.astype(np.intp)
    held = place[place >= 0]
    if place.min() < -1 or place.max() >= rows or len(np.unique(held)) < len(held):
        raise AnonymizationError(f"own must hold distinct row numbers from 0 to {rows - 1}, or -1 for none")
    return place


def _tied_rows(asked: Floats, points: Floats, copies: Indices) -> Indices:
    """Return (q,) numbers of rows at the smallest distance, from the distinct ones and their copies."""
    wide = min(_WIDE, len(points))
    if not len(asked):
        return np.empty(0, dtype=np.intp)
    far, near = nearest(asked, points, wide)
    tied = far <= far[:, :1] * _TIED
    count = (copies[near] * tied).sum(axis=1)
    crowded = np.flatnonzero(tied[:, -1]) if wide < len(points) else np.empty(0, dtype=np.intp)
    step = max(1, _ENTRIES // len(points))
    for begin in range(0, len(crowded), step):
        rows = crowded[begin : begin + step]
        gaps = cdist(asked[rows], points)
        count[rows] = (gaps <= gaps.min(axis=1, keepdims=True) * _TIED) @ copies
    return count


def _alone(measures: PredictionMeasures) -> NDArray[np.bool_]:
    """Return (q,) bool: no row but the nearest one, and its copies, is as near."""
    if measures.deletions is None:
        return np.zeros(len(measures.distance), dtype=bool)
    # Without the nearest row, the next one is the nearest.
    return np.asarray(measures.deletions.distance[:, 0] > measures.distance * _TIED)


def _same_sides(name: str, measures: PredictionMeasures, asked: int, rows: int) -> None:
    if len(measures.distance) != asked or measures.n_released != rows:
        raise AnonymizationError(
            f"{name} must be of the {asked} people asked about and {rows} rows, "
            f"got {len(measures.distance)} and {measures.n_released}"
        )


def _signals(
    measures: PredictionMeasures | None, right: Floats, confidence: float, rng: np.random.Generator
) -> list[MatchSignal]:
    shared = (right > 0.0) & (right < 1.0)
    drawn = right == 1.0
    drawn[shared] = rng.random(int(shared.sum())) < right[shared]
    names = ("distance", "ambiguity", "uncertainty")
    values = np.array([np.zeros(len(right)) if measures is None else getattr(measures, name) for name in names])
    signals = [_signal(name, value, drawn, confidence) for name, value in zip(names, values, strict=True)]
    scores = match_scores(values, drawn)
    return signals if scores is None else [*signals, _signal("combined", -scores, drawn, confidence)]


def _signal(name: str, value: Floats, right: NDArray[np.bool_], confidence: float) -> MatchSignal:
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    if not n_right or not n_wrong:
        return MatchSignal(name, 0.5, 0.0, 1.0, n_right, n_wrong)
    attack = membership_attack(-value[right], -value[~right], confidence=confidence)
    return MatchSignal(name, attack.auc, attack.lower, attack.upper, n_right, n_wrong)
