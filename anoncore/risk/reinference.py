"""Counting a group per area once more, from everything but what was rewritten."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anoncore.kernels.streams import Stream
from anoncore.microdata import Microdata

FOLDS = 5
BINS = 20  # of a continuous variable
TRAINED_ON = 50_000  # records, at most, that a classifier learns from
CLASSES = 64  # areas up to which records are traced to all of them
ROUNDS = 100  # of sums over all members
SETTLED = 0.01  # members by which no area's count changes any more
_FARTHEST = 100.0  # steps that one extrapolation goes ahead
BLOCK = 262_144
_ROWS = 8192  # members whose likelihoods are summed at a time
_UNIT = 2.0**32  # of a member: sums of whole units are exact, and the same in any order
_SQUARED = 2.0**32  # of a square of a member
_LOG_EDGE = float(np.log(1e6))  # of the largest odds that are believed
_STEPS = 4096  # of odds, either side of 1
ODDS = np.exp(_LOG_EDGE * np.arange(-_STEPS, _STEPS + 1) / _STEPS)
# What an attacker draws is no secret, and is the same whenever the claim is checked.
_STREAM = Stream((0,), ("reinference",))

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Recount:
    """Members per area as an attacker counts them.

    Parameters
    ----------
    counts : (m,) float, records
    errors : (m,) float, records
        Standard errors that the attacker can give without knowing the truth.
    """

    counts: Floats
    errors: Floats

    def weighted(self, weight: Floats) -> Recount:
        """Return what the counts stand for, (m,) weights of a record in each area."""
        return Recount(self.counts * weight, self.errors * weight)


@dataclass(frozen=True, eq=False, repr=False)
class Coding:
    """A one-hot coding of v variables, fitted to a sample of records.

    Parameters
    ----------
    names : of the variables
    edges : of each, where numbers are cut; empty for levels
    places : of each, (q,) int, the column of each level or interval; the missing value is the last of them. Those that
        the sample does not hold, and all of a variable of one value, have no column, and are ``width``
    width : columns
    """

    names: tuple[str, ...]
    edges: tuple[Floats, ...]
    places: tuple[Integers, ...]
    width: int

    @classmethod
    def fit(cls, data: Microdata, names: Sequence[str], weights: Floats) -> Coding:
        """Fit the coding; numbers are cut at 20 quantiles of the records, (N,) of which each stands for ``weights``."""
        edges = tuple(_edges(data, name, weights) for name in names)
        found = [np.unique(_codes(data, name, own)) for name, own in zip(names, edges, strict=True)]
        places, width = [], 0
        for name, own, used in zip(names, edges, found, strict=True):
            own_places = np.full(_values(data, name, own) + 1, -1)
            if len(used) > 1:
                own_places[used] = np.arange(width, width + len(used))
                width += len(used)
            places.append(own_places)
        return cls(tuple(names), edges, tuple(np.where(one < 0, width, one) for one in places), width)

    def of(self, data: Microdata) -> Coded:
        """Return the coding of records."""
        columns = [
            place[_codes(data, name, edges)].astype(np.int32)
            for name, edges, place in zip(self.names, self.edges, self.places, strict=True)
        ]
        return Coded(np.column_stack(columns) if columns else np.zeros((len(data), 0), dtype=np.int32), self.width)


def _edges(data: Microdata, name: str, weights: Floats) -> Floats:
    """Return where numbers are cut; nothing for levels."""
    values = np.empty(0) if data.schema[name].is_categorical else data.frame[name].to_numpy(dtype="float64")
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.empty(0)
    at = np.linspace(0, 1, BINS + 1)[1:-1]
    return np.unique(np.quantile(values[known], at, weights=weights[known], method="inverted_cdf"))


def _values(data: Microdata, name: str, edges: Floats) -> int:
    """Return how many levels or intervals a variable has, which is the code of its missing value."""
    return len(data.frame[name].cat.categories) if data.schema[name].is_categorical else len(edges) + 1


def _codes(data: Microdata, name: str, edges: Floats) -> Integers:
    """Return (N,) the number of each record's level or interval."""
    column, missing = data.frame[name], _values(data, name, edges)
    if data.schema[name].is_categorical:
        codes = column.cat.codes.to_numpy().astype(np.intp)
        return np.where(codes < 0, missing, codes)
    values = column.to_numpy(dtype="float64")
    return np.where(np.isnan(values), missing, np.searchsorted(edges, values, side="right"))


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A one-hot coding of v variables: the positions of the ones, (N, v), ``width`` where there is none."""

    ones: Integers
    width: int

    def __getitem__(self, rows: Integers | Flags | slice) -> Coded:
        return Coded(self.ones[rows], self.width)


def _learn(codes: Coded, classes: Integers, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Return coefficients (width, c) and intercepts (c,) of a logistic regression, one class being binary."""
    # Imported here because it takes longer than all else that a plan without a hidden group needs.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    n, v = codes.ones.shape
    starts = np.arange(0, n * v + 1, v)
    one_hot = csr_array((np.ones(n * v), codes.ones.ravel(), starts), shape=(n, codes.width + 1))[:, : codes.width]
    with warnings.catch_warnings():
        # A fit that stops early is a slightly weaker attack.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=100).fit(one_hot, classes, sample_weight=weight)
    return model.coef_.T, model.intercept_


def _scores(codes: Coded, coefficients: Floats, intercepts: Floats) -> Floats:
    """Return (N, c): sums of the coefficients of each record's levels."""
    ones, padded = codes.ones, np.vstack([coefficients, np.zeros((1, coefficients.shape[1]))])
    result = np.tile(intercepts, (len(ones), 1))
    for j in range(ones.shape[1]):
        for start in range(0, len(ones), BLOCK):
            part = slice(start, start + BLOCK)
            result[part] += padded[ones[part, j]]
    return result


def learned_shares(counts: Integers) -> Floats:
    """Return (2,): the share of the others, and of the members, of so many, from which classifiers learn.

    Each of the five parts is judged by what is learned from the other four, of which about 50 000 of either side.
    """
    return np.minimum(TRAINED_ON * FOLDS / (FOLDS - 1) / np.maximum(counts, 1), 1.0)


def folds(kinds: Integers, first: Sequence[int] = (0, 0, 0)) -> Integers:
    """Return (U,): in which of five parts each unit is, of each kind as many in every part.

    Of each five units of a kind that follow each other one is in each part, at random.

    Parameters
    ----------
    kinds : (U,) int, 0 others, 1 members, 2 both
    first : how many units of each kind came before, where these are some of all units
    """
    fold = np.empty(len(kinds), dtype=np.intp)
    for kind, before in enumerate(first):
        own = np.flatnonzero(kinds == kind)
        rank = before + np.arange(len(own))
        start, stop = before // FOLDS, (before + len(own)) // FOLDS + 1
        words = _STREAM.named("folds", kind).words(FOLDS * start, FOLDS * stop).reshape(-1, FOLDS)
        fold[own] = words.argsort(axis=1)[rank // FOLDS - start, rank % FOLDS]
    return fold


def is_learned_from(first: int, vital: Flags, shares: Floats) -> Flags:
    """Return (N,) bool: whether classifiers learn from a record, the first of which has the number ``first``."""
    return _STREAM.named("learned").uniform(first, first + len(vital)) < shares[vital.astype(np.intp)]


@dataclass(frozen=True, eq=False, repr=False)
class Membership:
    """Who looks like a member: of each of five parts, what was learned from the others.

    Parameters
    ----------
    coefficients : (width, 5) float
    intercepts : (5,) float
    """

    coefficients: Floats
    intercepts: Floats

    @classmethod
    def learned(cls, codes: Coded, vital: Flags, fold: Integers) -> Membership:
        """Learn from records (N,), at least one member and one other in each four parts.

        Source: logistic regression on levels.
        """
        models = []
        for number in range(FOLDS):
            rows = np.flatnonzero(fold != number)
            sides = np.bincount(vital[rows].astype(np.intp), minlength=2)
            # Each side weighs the same, so that the odds are those of the values alone.
            weight = sides[1] / sides[vital[rows].astype(np.intp)]
            models.append(_learn(codes[rows], vital[rows].astype(np.intp), weight))
        return cls(*(np.concatenate(values, axis=-1) for values in zip(*models, strict=True)))

    def log_odds(self, codes: Coded, fold: Integers) -> Floats:
        """Return (N,): the logarithm of how much likelier each record's values are inside the group than outside."""
        result = np.empty(len(fold))
        for number in range(FOLDS):
            rows, own = np.flatnonzero(fold == number), slice(number, number + 1)
            result[rows] = _scores(codes[rows], self.coefficients[:, own], self.intercepts[own])[:, 0]
        return result


@dataclass(frozen=True, eq=False, repr=False)
class Odds:
    """How many records of each area have odds near each of `ODDS`, or their weights.

    Parameters
    ----------
    cells : (u,) int, increasing, 8193 times the area, plus the position in `ODDS`; only those that hold records
    counts : (u,)
    """

    cells: Integers
    counts: NDArray[np.number]

    @classmethod
    def of(cls, log_odds: Floats, area: Integers, weights: Floats | None = None) -> Odds:
        """Count records (N,)."""
        step = np.rint(np.clip(log_odds / _LOG_EDGE, -1, 1) * _STEPS).astype(np.intp) + _STEPS
        if weights is None:
            return cls(*np.unique(area * len(ODDS) + step, return_counts=True))
        cells, at = np.unique(area * len(ODDS) + step, return_inverse=True)
        return cls(cells, np.bincount(at, weights, minlength=len(cells)))

    def __add__(self, other: Odds) -> Odds:
        cells, at = np.unique(np.concatenate([self.cells, other.cells]), return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.result_type(self.counts, other.counts))
        counts[at[: len(self.cells)]] = self.counts
        counts[at[len(self.cells) :]] += other.counts
        return Odds(cells, counts)

    @property
    def areas(self) -> Integers:
        """(u,): the area of each cell."""
        return self.cells // len(ODDS)

    @property
    def odds(self) -> Floats:
        """(u,): the odds of each cell."""
        return ODDS[self.cells % len(ODDS)]


def recount_by_membership(odds: Odds, areas: int, total: int) -> Recount:
    """Count who looks like a member, area by area.

    Parameters
    ----------
    odds : Odds, of all records of the areas
    areas : m
    total : int
        Members in all, which the release reveals.

    Returns
    -------
    Recount
        In each area the share of members under which its records' values are likeliest.

    Notes
    -----
    Whoever looks like a member and is none stayed or came because counterparts are chosen alike; this attack
    counts them. The error is that of the count, not of the share behind it: the variance of the maximum
    likelihood estimate less the variance it would have if membership were known. Odds are rounded to steps of 0.34 %,
    so that sums over all records are counts, and the same in any order.
    """
    extra, area = odds.odds - 1.0, odds.areas
    heads = np.bincount(area, odds.counts, minlength=areas)
    low, high = np.zeros(areas), np.ones(areas)
    for _ in range(40):
        share = (low + high) / 2
        slope = np.bincount(area, odds.counts * (extra / (1.0 + share[area] * extra)), minlength=areas)
        low, high = np.where(slope > 0, share, low), np.where(slope > 0, high, share)
    share = (low + high) / 2
    information = np.bincount(area, odds.counts * (extra / (1.0 + share[area] * extra)) ** 2, minlength=areas)
    unknown = heads**2 / np.maximum(information, 1e-9)
    variance = np.clip(unknown - heads * share * (1 - share), 0.0, np.maximum(heads, 1.0) ** 2)
    return _with_total(heads * share, variance, total)


def _classes(areas: int, kept: Integers) -> tuple[Integers, Integers]:
    """Return the areas that are classes of their own, and (m,) the class of each area, the last being all others."""
    single = np.arange(areas) if areas <= CLASSES else np.sort(kept)
    place = np.full(areas, len(single))
    place[single] = np.arange(len(single))
    return single, place


def relearned_from(numbers: Floats, missed: Floats, total: float, counts: Integers) -> tuple[Integers, Floats]:
    """Return which records areas are learned from once more, and how many each of these stands for.

    Parameters
    ----------
    numbers : (n,) of `relearning_numbers`
    missed : (n,) of `Origin.missed`
    total : the sum of these over all others
    counts : (2,) int, others and members in all

    Notes
    -----
    Claim: about 50 000 · 5/4 of the others at most, each standing for the inverse of its probability: half of them at
    random, half of those whose area was predicted worst. These decide which values are rare in an area.

    Source: Fithian and Hastie 2014, local case-control sampling; Han, Tan, Yang and Zhang 2020, of many classes.
    """
    share = learned_shares(counts)[0]
    probability = np.minimum((share + share * counts[0] * missed / max(total, np.finfo(float).tiny)) / 2, 1.0)
    rows = np.flatnonzero(numbers < probability)
    return rows, 1.0 / probability[rows]


def relearning_numbers(first: int, count: int) -> Floats:
    """Return (count,) random numbers of records, the first of which has the number ``first``."""
    return _STREAM.named("relearned").uniform(first, first + count)


@dataclass(frozen=True, eq=False, repr=False)
class Origin:
    """Where records look to be from: c classes, each an area or all areas that are not distinguished.

    Parameters
    ----------
    areas : (c,) int, the area of each class; −1 where it is several
    heads : (c,) int, all records of each class
    coefficients : (width, c) float
    intercepts : (c,) float, without how frequent each class was among the records learned from
    """

    areas: Integers
    heads: Integers
    coefficients: Floats
    intercepts: Floats

    @classmethod
    def learned(
        cls, codes: Coded, area: Integers, heads: Integers, kept: Integers, weight: Floats | None = None
    ) -> Origin | None:
        """Learn from n records that are no members; None where nothing can be learned.

        Parameters
        ----------
        codes : (n,) of `Coding`
        area : (n,) int, 0..m-1
        heads : (m,) int
            Records of each area in all.
        kept : (h,) int
            Areas that are distinguished in any case; beyond 64 areas all others are one.
        weight : (n,) float
            How many records each stands for; one where None.
        """
        single, place = _classes(len(heads), kept)
        present, classes = np.unique(place[area], return_inverse=True)
        if not codes.width or len(present) < 2:
            return None
        coefficients, intercepts = _learn(codes, classes, weight)
        if len(present) == 2:
            coefficients, intercepts = (np.concatenate([-one, one], axis=-1) / 2 for one in (coefficients, intercepts))
        own_heads = np.bincount(place, heads, minlength=len(single) + 1)[present].astype(np.intp)
        frequent = np.bincount(classes, weight)
        return cls(np.append(single, -1)[present], own_heads, coefficients, intercepts - np.log(frequent))

    def missed(self, codes: Coded, area: Integers, areas: int, kept: Integers) -> Floats:
        """Return (n,): the probability of each record not to be from its own class, in whole units of 2**-20.

        Parameters
        ----------
        codes : (n,)
        area : (n,) int, of ``areas``
        kept : (h,) int, as when this was learned
        """
        single, place = _classes(areas, kept)
        at = np.full(len(single) + 1, -1)
        at[np.where(self.areas < 0, len(single), place[self.areas])] = np.arange(len(self.areas))
        own, share, result = at[place[area]], self.heads / self.heads.sum(), np.ones(len(area))
        for start in range(0, len(area), _ROWS):
            rows = slice(start, start + _ROWS)
            (posterior,) = _ratios(self.likelihoods(codes[rows]), share, share)
            is_known = own[rows] >= 0
            result[rows][is_known] -= posterior[is_known, own[rows][is_known]]
        return np.rint(np.clip(result, 0, 1) * 2.0**20) / 2.0**20

    def likelihoods(self, codes: Coded) -> NDArray[np.float32]:
        """Return (n, c): how likely each record's values are in each class, beside the likeliest one; at least 1e-6."""
        result = np.empty((len(codes.ones), len(self.areas)), dtype=np.float32)
        for start in range(0, len(result), _ROWS):
            rows = slice(start, start + _ROWS)
            scores = _scores(codes[rows], self.coefficients, self.intercepts)
            result[rows] = np.exp(np.clip(scores - scores.max(axis=1, keepdims=True), -_LOG_EDGE, None))
        return result


def expected_origins(likelihoods: NDArray[np.float32], share: Floats) -> NDArray[np.int64]:
    """Return (c,): how many of n members are expected to be from each class, in units of 2**-32 of a member.

    Each member's part is rounded, so that sums are exact: the same in any order, however the members are divided.
    """
    result = np.zeros(len(share), dtype=np.int64)
    for posterior in _ratios(likelihoods, share, share):
        result += np.rint(posterior * _UNIT).sum(axis=0).astype(np.int64)
    return result


def origin_information(likelihoods: NDArray[np.float32], share: Floats, scale: Floats) -> NDArray[np.int64]:
    """Return (c, c): sums over n members of products of their scores times ``scale`` (c,), in units of 2**-32.

    Rounded as in `expected_origins`.
    """
    result = np.zeros((len(share), len(share)), dtype=np.int64)
    for scores in _ratios(likelihoods, share, scale):
        rounded = np.rint(np.minimum(scores, 1.0) * np.sqrt(_SQUARED))
        result += (rounded.T @ rounded).astype(np.int64)
    return result


def _ratios(likelihoods: NDArray[np.float32], share: Floats, scale: Floats) -> Iterator[Floats]:
    """Yield (8192 or fewer, c): the likelihoods times a scale (c,), relative to those of the mixture."""
    for start in range(0, len(likelihoods), _ROWS):
        part = likelihoods[start : start + _ROWS].astype(float)
        # Sums along contiguous rows, unlike products of matrices, are the same for a record in any company.
        mixture = np.ascontiguousarray(part * share).sum(axis=1)
        yield part * scale / mixture[:, None]


def recount_by_origin(
    origin: Origin,
    areas: int,
    total: int,
    expected: Callable[[Floats], NDArray[np.int64]],
    information: Callable[[Floats, Floats], NDArray[np.int64]],
) -> Recount:
    """Count where members look to be from: areas are learnt from everybody else.

    Parameters
    ----------
    origin : Origin
    areas : m
    total : int
        Members in all.
    expected, information
        What `expected_origins` and `origin_information` return of all members, given shares and a scale.

    Returns
    -------
    Recount
        Shares of the areas under which the members' values are likeliest; areas that are not distinguished have
        the error ``total``.

    Notes
    -----
    A variable that follows the area and does not move with it (a region, a way to work) gives itself away
    here. Errors are those of the count if the likelihoods were known: that they are learned from at most about 62 500
    others is not in them. Source: Saerens, Latinne and Decaestecker 2002, expectation and maximisation over prior
    shares.
    """
    share = _likeliest_shares(origin.heads / origin.heads.sum(), total, expected)
    scale = np.maximum(share, 1.0 / total)
    variance = _origin_variance(information(share, scale) / _SQUARED / np.outer(scale, scale), share, total)
    recount = _with_total(total * share, variance, total)
    counts, errors = np.zeros(areas), np.full(areas, float(total))
    alone = origin.areas >= 0
    counts[origin.areas[alone]] = recount.counts[alone]
    errors[origin.areas[alone]] = recount.errors[alone]
    return Recount(counts, errors)


def _likeliest_shares(share: Floats, total: int, expected: Callable[[Floats], NDArray[np.int64]]) -> Floats:
    """Return (c,): shares after expectation and maximisation; it ends when counts change by 0.01, or after 100 sums.

    Source: Varadhan and Roland 2008, SQUAREM with step S3, which extrapolates from each two steps.
    """
    for _ in range(ROUNDS // 2):
        first = _normalised(expected(share))
        second = _normalised(expected(first))
        if total * np.abs(second - first).max() <= SETTLED:
            break
        step, curvature = first - share, second - 2 * first + share
        length = np.linalg.norm(step) / max(float(np.linalg.norm(curvature)), np.finfo(float).tiny)
        ahead = min(max(float(length), 1.0), _FARTHEST)
        share = _normalised(np.maximum(share + 2 * ahead * step + ahead**2 * curvature, second / 10))
    return second


def _normalised(values: NDArray[np.number]) -> Floats:
    return np.asarray(values / values.sum())


def _origin_variance(information: Floats, share: Floats, n: int) -> Floats:
    """Return (c,): variance of each class's count, given the shares' total; as in `recount_by_membership`."""
    c = len(share)
    basis = np.linalg.qr(np.column_stack([np.ones(c), np.eye(c)[:, 1:]]))[0][:, 1:]
    values, vectors = np.linalg.eigh(basis.T @ information @ basis)
    spread = (basis @ vectors) ** 2 @ (1.0 / np.maximum(values, 1e-9 * n))
    return np.clip(n**2 * spread - n * share * (1 - share), 0.0, float(n) ** 2)


def _with_total(counts: Floats, variance: Floats, total: float) -> Recount:
    """Return counts that add up to the total, the less certain ones giving way, none negative."""
    whole = variance.sum()
    if whole > 0:
        part = variance / whole
        counts = counts - part * (counts.sum() - total)
        variance = variance * (1 - part)
    return Recount(np.maximum(counts, 0.0), np.sqrt(variance))
