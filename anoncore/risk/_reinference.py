"""Counting a group per area once more, from everything but what was rewritten."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anoncore.microdata import Microdata
from anoncore.microdata.units import Units, unit_codes

FOLDS = 5
BINS = 20  # of a continuous variable
TRAINED_ON = 50_000  # records, at most, that a classifier learns from
CLASSES = 64  # areas up to which records are traced to all of them
ROUNDS = 300
BLOCK = 262_144
_EDGE = 1e6  # largest odds that are believed

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
class Coded:
    """A one-hot coding of v variables: the positions of the ones, (N, v), and its width."""

    ones: Integers
    width: int

    def __getitem__(self, rows: Integers | Flags) -> Coded:
        return Coded(self.ones[rows], self.width)


def coded(data: Microdata, names: list[str]) -> Coded:
    """Return the one-hot coding of some variables.

    Continuous variables are cut at 20 quantiles; a missing value is a level of its own; constants are left out.
    """
    columns, width = [], 0
    for name in names:
        column, variable = data.frame[name], data.schema[name]
        if variable.is_categorical:
            codes = column.cat.codes.to_numpy().astype(np.int32)
            codes[codes < 0] = len(column.cat.categories)
        else:
            values = column.to_numpy(dtype="float64")
            missing = np.isnan(values)
            if missing.all():
                continue
            edges = np.unique(np.quantile(values[~missing], np.linspace(0, 1, BINS + 1)[1:-1]))
            codes = np.searchsorted(edges, values, side="right").astype(np.int32)
            codes[missing] = len(edges) + 1
        used, rank = np.unique(codes, return_inverse=True)
        if len(used) > 1:
            columns.append(rank.astype(np.int32) + width)
            width += len(used)
    return Coded(np.column_stack(columns) if columns else np.zeros((len(data), 0), dtype=np.int32), width)


def _learn(codes: Coded, classes: Integers, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Return coefficients (width, c) and intercepts (c,) of a logistic regression, one class being binary."""
    # Imported here because it takes longer than all else that a plan without a hidden group needs.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    n, v = codes.ones.shape
    one_hot = csr_array((np.ones(n * v), codes.ones.ravel(), np.arange(0, n * v + 1, v)), shape=(n, codes.width))
    with warnings.catch_warnings():
        # A fit that stops early is a slightly weaker attack.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=100).fit(one_hot, classes, sample_weight=weight)
    return model.coef_.T, model.intercept_


def _scores(codes: Coded, coefficients: Floats, intercepts: Floats) -> Floats:
    """Return (N, c): sums of the coefficients of each record's levels."""
    ones = codes.ones
    result = np.tile(intercepts, (len(ones), 1))
    for j in range(ones.shape[1]):
        for start in range(0, len(ones), BLOCK):
            part = slice(start, start + BLOCK)
            result[part] += coefficients[ones[part, j]]
    return result


def membership_odds(codes: Coded, vital: Flags, units: Units | None = None) -> Floats | None:
    """Return (N,): how much likelier each record's values are inside the group than outside, out of fold.

    Parameters
    ----------
    codes : of `coded`
    vital : (N,) bool
    units : (N,) statistical unit of each record, all of which are in one fold; each record its own where None

    Returns
    -------
    (N,) float, or None where fewer than five units hold members, or others

    Source: logistic regression on levels; members and others are thinned to 50 000 each.
    """
    rng = np.random.default_rng(0)
    unit = unit_codes(units, len(vital))
    has_members, has_others = (np.bincount(unit, side) > 0 for side in (vital, ~vital))
    if not codes.width or min(has_members.sum(), has_others.sum()) < FOLDS:
        return None
    fold_of = np.empty(len(has_members), dtype=np.int8)
    for kind in (has_members & ~has_others, has_others & ~has_members, has_members & has_others):
        fold_of[kind] = rng.permutation(int(kind.sum())) % FOLDS
    fold = fold_of[unit]
    odds = np.empty(len(vital))
    for number in range(FOLDS):
        learn, tested = fold != number, fold == number
        chosen, weight = [], []
        for class_ in (vital, ~vital):
            kept = rng.permutation(np.flatnonzero(learn & class_))[:TRAINED_ON]
            chosen.append(kept)
            # Each side weighs the same, so that the odds are those of the values alone.
            weight.append(np.full(len(kept), 1.0 / len(kept)))
        rows, weights = np.concatenate(chosen), np.concatenate(weight)
        model = _learn(codes[rows], vital[rows].astype(np.intp), weights * len(chosen[0]))
        odds[tested] = np.exp(np.clip(_scores(codes[tested], *model)[:, 0], -np.log(_EDGE), np.log(_EDGE)))
    return odds


def recount_by_membership(odds: Floats, area: Integers, areas: int, total: float) -> Recount:
    """Count who looks like a member, area by area.

    Parameters
    ----------
    odds : (N,) float, of `membership_odds`
    area : (N,) int, 0..areas-1
    areas : int
    total : float
        Members in all, which the release reveals.

    Returns
    -------
    Recount
        In each area the share of members under which its records' values are likeliest.

    Notes
    -----
    Whoever looks like a member and is none stayed or came because counterparts are chosen alike; this attack
    counts them. The error is that of the count, not of the share behind it: the variance of the maximum
    likelihood estimate less the variance it would have if membership were known.
    """
    extra = odds - 1.0
    heads = np.bincount(area, minlength=areas).astype(float)
    low, high = np.zeros(areas), np.ones(areas)
    for _ in range(40):
        share = (low + high) / 2
        slope = np.bincount(area, extra / (1.0 + share[area] * extra), areas)
        low, high = np.where(slope > 0, share, low), np.where(slope > 0, high, share)
    share = (low + high) / 2
    information = np.bincount(area, (extra / (1.0 + share[area] * extra)) ** 2, areas)
    unknown = heads**2 / np.maximum(information, np.finfo(float).tiny)
    variance = np.clip(unknown - heads * share * (1 - share), 0.0, np.maximum(heads, 1.0) ** 2)
    return _with_total(heads * share, variance, total)


def recount_by_origin(
    codes: Coded, area: Integers, vital: Flags, areas: int, kept: Integers, total: float
) -> Recount | None:
    """Count where members look to be from: areas are learnt from everybody else.

    Parameters
    ----------
    codes : of `coded`
    area : (N,) int, 0..areas-1
    vital : (N,) bool
    areas : int
    kept : (h,) int
        Areas that are distinguished in any case; beyond 64 areas all others are one.
    total : float

    Returns
    -------
    Recount or None
        Shares of the areas under which the members' values are likeliest; areas that are not distinguished have
        the error ``total``. None where nothing can be learnt.

    Notes
    -----
    A variable that follows the area and does not move with it (a region, a way to work) gives itself away
    here. Source: Saerens, Latinne and Decaestecker 2002, expectation and maximisation over prior shares.
    """
    rng = np.random.default_rng(0)
    single = np.arange(areas) if areas <= CLASSES else np.sort(kept)
    place = np.full(areas, len(single))
    place[single] = np.arange(len(single))
    known = place[area]
    others = rng.permutation(np.flatnonzero(~vital))[:TRAINED_ON]
    members = rng.permutation(np.flatnonzero(vital))[:TRAINED_ON]
    present, classes = np.unique(known[others], return_inverse=True)
    if not codes.width or len(present) < 2 or not len(members):
        return None
    model = _learn(codes[others], classes)
    scores = _scores(codes[members], *model)
    if scores.shape[1] == 1:
        scores = np.column_stack([-scores[:, 0] / 2, scores[:, 0] / 2])
    # Divided by how frequent each area is among those learnt from: the odds of the values alone.
    scores -= np.log(np.bincount(classes))
    likelihood = np.exp(np.clip(scores - scores.max(axis=1, keepdims=True), -np.log(_EDGE), None))
    share = np.bincount(known, minlength=len(single) + 1)[present] / len(known)
    for _ in range(ROUNDS):
        weighted = likelihood * share
        share = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    variance = _origin_variance(likelihood, share)
    counts, errors = np.zeros(areas), np.full(areas, total)
    alone = present < len(single)
    scale = total / len(members)
    recount = _with_total(len(members) * share, variance, len(members))
    counts[single[present[alone]]] = scale * recount.counts[alone]
    errors[single[present[alone]]] = scale * recount.errors[alone]
    return Recount(counts, errors)


def _origin_variance(likelihood: Floats, share: Floats) -> Floats:
    """Return (c,): variance of each class's count, given the shares' total; as in `recount_by_membership`."""
    n, c = likelihood.shape
    ratio = likelihood / (likelihood @ share)[:, None]
    basis = np.linalg.qr(np.column_stack([np.ones(c), np.eye(c)[:, 1:]]))[0][:, 1:]
    values, vectors = np.linalg.eigh(basis.T @ (ratio.T @ ratio) @ basis)
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
