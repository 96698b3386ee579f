"""Membership by principal scores that coincide: what swapping along principal axes leaves as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.kernels.principal_axes import basis
from anoncore.kernels.rows import row_blocks
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.microdata.units import unit_codes
from anoncore.risk._axis_search import searched_axes
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk.membership import MembershipAttack, membership_attack
from anoncore.risk.scores import SINGLE, Certainty

NARROW = 8  # columns of the encoded matrix up to which axes are searched for

# Released scores near, around, and the weight of their ratio, of each form of the evidence: for scores that recur as
# they were or nearly, and for scores that were moved by some ranks.
_NEAREST = 1
_FORMS = (
    ((_NEAREST, 10, 1.0), (3, 30, 2.0), (10, 100, 3.0)),
    ((4, 40, 1.0),),
    ((8, 80, 1.0),),
    ((14, 140, 1.0),),
)
_FEW_VALUES, _LOOKED_AT = 10, 1000  # of a column that is no axis by itself, and the rows in which they are counted
_NULL = 1e-8  # axes shorter than this, relative to the longest, hold rounding noise
_SAME = 1e-9  # of an axis's standard deviation; closer scores are one

_UNITS_PER_COLUMN = 50  # from which the axes of the original are the population's

Axes = Literal["columns", "released", "original", "people", "searched", "given"]


@dataclass(frozen=True)
class ScoreCoincidence:
    """The attack's success, and what it was given.

    Parameters
    ----------
    attack : members distinguished from non-members, along the axes that reveal most
    n_axes : axes on which scores were compared
    n_released : rows of the release
    axes : whether these are the columns, the principal axes of the release, of the original, or of members and
        non-members together, axes found by search, or given ones
    """

    meaning: ClassVar[str] = (
        "How well a member is distinguished from a non-member by principal scores that recur in the "
        "release; 0.5 is guessing."
    )

    attack: MembershipAttack
    n_axes: int
    n_released: int
    axes: Axes = "released"

    @property
    def loadings_known(self) -> bool:
        """Whether the axes are those that the masking party keeps secret."""
        return self.axes in ("original", "given")


def score_coincidence_attack(
    original: ArrayLike,
    reference: ArrayLike,
    released: ArrayLike,
    *,
    loadings: ArrayLike | None = None,
    search: bool = True,
    certainty: Certainty = SINGLE,
) -> ScoreCoincidence:
    """Attack membership by how closely a person's principal scores coincide with released ones.

    On each axis a person scores the evidence −Σ_s c_s log((g_s + δ)/(w_s + δ)) that released scores lie closer to the
    person's than they would by chance: g_1 is the gap to the nearest, the other g_s and all w_s are the mean spacings
    of the so many released scores around it, δ a billionth of the axis's standard deviation. Four forms of it are
    tried: 1, 3 and 10 scores together, relative to ten times as many; and 4, 8 and 14, for scores that were moved by
    some ranks. The axes are, in turn, the columns with more than ten values, or all where there is none; the principal
    axes of the release; those of the original, which an attacker has to guess and the assessment knows; and, with at
    most eight columns, those that a search finds on which the scores of a list of people, members or not, coincide most
    with released ones. With fewer than 50 units per column those of members and non-members together replace the
    original's, which then follow accidents of the members and separate them from anybody in a harmless release too.
    What separates most is returned.

    Parameters
    ----------
    original : (N, n) members, encoded, in standard deviations
    reference : (L, n) non-members of the same population, same encoding
    released : (M, n) same encoding
    loadings : (n, p) axes known to the attacker, one per column; nothing else is tried then
    search : whether axes are searched for
    certainty : of the bounds; the lower one holds for all turns together

    Returns
    -------
    ScoreCoincidence

    Raises
    ------
    AnonymizationError
        When the tables or loadings do not fit together.

    Notes
    -----
    Spectral swapping without jitter permutes every score and changes none, so that one axis found separates members
    with certainty. The search does not know who is a member, and so does not favour members by chance. A release
    without any variation has no axis: AUC 0.5. O((N + L + M)·(n² + n·log M)); the search: see
    `anoncore.risk._axis_search`. An axis along which a method masks is straight only on the scale of that method.
    Source: docs/explanation/risk.md.

    Examples
    --------
    >>> members, others = np.random.default_rng(1).normal(size=(2, 100, 3))
    >>> found = score_coincidence_attack(members, others, members)
    >>> found.attack.auc, found.n_axes
    (1.0, 3)
    """
    members = matrix("original", original)
    others = matrix("reference", reference, members.shape[1])
    points = matrix("released", released, members.shape[1])
    with one_blas_thread():
        tried: list[tuple[Axes, Floats]] = (
            _tried(members, others, points, certainty, search=search)
            if loadings is None
            else [("given", _known(loadings, members.shape[1]))]
        )
    sure, tests, units = certainty.confidence, certainty.over(len(tried) * len(_FORMS)).tests, certainty.units
    attacks = [
        ScoreCoincidence(
            membership_attack(*scores, confidence=sure, tests=tests, units=units), n_axes, len(points), name
        )
        for name, axes in tried
        for *sides, n_axes in [_evidence(members, others, points, axes)]
        for scores in zip(*sides, strict=True)
    ]
    return max(attacks, key=lambda one: (one.attack.lower, one.attack.auc))


def _tried(
    members: Floats, others: Floats, points: Floats, certainty: Certainty, *, search: bool
) -> list[tuple[Axes, Floats]]:
    """Return the axes that are tried, by their names."""
    columns, units = members.shape[1], len(np.unique(unit_codes(certainty.units.members, len(members))))
    secret, released = _secret(members, others, units), basis(points).loadings
    # With few distinct values every score coincides by chance; `value_presence` tests such columns.
    some = points[:: max(1, len(points) // _LOOKED_AT)]
    several = [j for j, column in enumerate(some.T) if len(np.unique(column)) > _FEW_VALUES] or range(columns)
    tried: list[tuple[Axes, Floats]] = [("columns", np.eye(columns)[:, list(several)]), ("released", released), secret]
    if search and 1 < columns <= NARROW:
        starts = [secret[1], *([released, np.array([[1.0, 1.0], [1.0, -1.0]])] if columns == 2 else [])]
        tried += [("searched", axes) for axes in searched_axes(members, others, points, starts)]
    return tried


def _secret(members: Floats, others: Floats, units: int) -> tuple[Axes, Floats]:
    """Return the axes of the original, or the nearest to them that do not follow accidents of the members."""
    if units >= _UNITS_PER_COLUMN * members.shape[1]:
        return "original", basis(members).loadings
    return "people", basis(np.concatenate([members, others])).loadings


def _known(loadings: ArrayLike, columns: int) -> Floats:
    axes = matrix("loadings", loadings)
    if len(axes) != columns:
        raise AnonymizationError(f"loadings must have {columns} rows, one per column, got {len(axes)}; transpose them")
    return axes


def _evidence(members: Floats, others: Floats, points: Floats, axes: Floats) -> tuple[Floats, Floats, int]:
    """Return (forms, N) scores of members, those of non-members, and the number of axes along which rows vary."""
    centre = points.mean(axis=0)
    with one_blas_thread():
        sides = [_along(rows, centre, axes) for rows in (members, others, points)]
    spread = np.sqrt([np.square(scores).mean() for scores in sides[2]])
    kept = np.flatnonzero(spread > _NULL * max(float(spread.max(initial=0.0)), np.finfo(float).tiny))

    def on_axis(axis: int) -> list[Floats]:
        there = _Scores(np.sort(sides[2][axis]), max(_SAME * float(spread[axis]), np.finfo(float).tiny))
        return [one / len(kept) for one in there.closeness(sides[0][axis], sides[1][axis])]

    scores = np.zeros((len(_FORMS), len(members))), np.zeros((len(_FORMS), len(others)))
    for closeness in in_threads(on_axis, kept.tolist()):
        for score, close in zip(scores, closeness, strict=True):
            score += close
    return *scores, len(kept)


def _along(table: Floats, centre: Floats, axes: Floats) -> Floats:
    """Return (axes, N) where records stand along axes."""
    scores = np.empty((axes.shape[1], len(table)))
    for rows in row_blocks(len(table)):
        np.matmul(axes.T, (table[rows] - centre).T, out=scores[:, rows])
    return scores


@dataclass(frozen=True, eq=False, repr=False)
class _Scores:
    """Released scores in ascending order, and the distance below which two are one."""

    ascending: Floats
    same: float

    def closeness(self, *sides: Floats) -> list[Floats]:
        """Return, for each side, (forms, q) evidence that each value asked for is close to the scores."""
        places = [self._places(asked) for asked in sides]
        if sum(map(len, places)) > len(self.ascending):
            wide = self._wide(np.arange(len(self.ascending) + 1))
            around = [np.take(wide, at, axis=1) for at in places]
        else:
            around = [self._wide(at) for at in places]
        weights = [sum(weight for close, _, weight in form if close == _NEAREST) for form in _FORMS]
        return [
            np.asarray(wide - np.multiply.outer(weights, self._nearest(asked, at)))
            for asked, at, wide in zip(sides, places, around, strict=True)
        ]

    def _places(self, asked: Floats) -> Indices:
        """Return where each value would stand among the scores."""
        order = np.argsort(asked)
        at = np.empty_like(order)
        at[order] = np.searchsorted(self.ascending, asked[order])  # ascending, what is looked at stays in the cache
        return at

    def _nearest(self, asked: Floats, at: Indices) -> Floats:
        """Return the logs of the distances to the nearest of the scores."""
        below, above = np.maximum(at - 1, 0), np.minimum(at, len(self.ascending) - 1)
        gaps = np.minimum(np.abs(asked - self.ascending[below]), np.abs(asked - self.ascending[above]))
        return np.asarray(np.log(gaps + self.same))

    def _wide(self, at: Indices) -> Floats:
        """Return (forms, q) the logs of the spacings with which the nearest score is compared, or closer spacings."""
        around = {n for form in _FORMS for close, wide, _ in form for n in (close, wide)} - {_NEAREST}
        logs = {n: np.log(self._spacings(at, n) + self.same) for n in around} | {_NEAREST: np.zeros(len(at))}
        return np.array([sum(weight * (logs[wide] - logs[close]) for close, wide, weight in form) for form in _FORMS])

    def _spacings(self, at: Indices, around: int) -> Floats:
        """Return the mean spacings of the scores among the so many on either side of places among them."""
        last = len(self.ascending) - 1
        low, high = np.clip(at - around, 0, last), np.clip(at + around - 1, 0, last)
        return (self.ascending[high] - self.ascending[low]) / np.maximum(high - low, 1)
