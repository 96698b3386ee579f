"""How close the release comes to each person, beside what other people and chance come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from anoncore.kernels.neighbors import nearest
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk.prediction import PredictionMeasures, prediction_measures
from anoncore.risk.tail import (
    ExtremeRecords,
    TailTest,
    extreme_records,
    identical_records,
    isolated_test,
    tail_test,
)


@dataclass(frozen=True, eq=False)
class Closeness:
    """The same people measured against the release, other people, and the rest of the original.

    Parameters
    ----------
    released, reference : measures against sets of one size
    own : (q,) distance of each person to the nearest other of the original
    chance : (q,) what stands for A* in the tail tests: the reference's distance; without other people,
        d₁²/d₂ of the two nearest in A, so that d₁ < τ·d₂ reads as chance < τ·d₁
    gap : (q,) ``own``; without other people the least positive number in place of 0, since a twin is then
        what meeting one by chance looks like
    whole : (q,) distance to the nearest row of the whole release, whatever the sets were matched to
    records : (q, n) the people, encoded
    others : whether A* holds other people
    apart : whether it does, and no more rows were searched than A has
    """

    released: PredictionMeasures
    reference: PredictionMeasures
    own: Floats
    chance: Floats
    gap: Floats
    whole: Floats
    records: Floats
    others: bool
    apart: bool

    def tail(self, tau: float, level: float) -> TailTest:
        """Return `tail_test` of all people."""
        return tail_test(
            self.released.distance, self.chance, self.gap, tau=tau, level=level, apart=self.apart
        )

    def isolated(self, tau: float, level: float) -> TailTest:
        """Return `isolated_test`."""
        return isolated_test(self.released.distance, self.chance, self.gap, tau=tau, level=level)

    def extreme(self, tau: float) -> ExtremeRecords:
        """Return `extreme_records`, sought in the whole release."""
        return extreme_records(self.whole, self.chance, self.own, tau=tau)

    def identical(self, level: float) -> TailTest:
        """Return `identical_records`; people with one record count once where A* holds other people.

        A neighbour's twin is one more of its kind, so that kinds cannot be compared with A − A_j.
        """
        records = self.records if self.others else None
        return identical_records(
            self.released.distance, self.reference.distance, self.own, level=level, records=records
        )


def closeness(
    original: ArrayLike,
    released: ArrayLike,
    reference: ArrayLike | None,
    k: int,
    *,
    queries: Indices,
    rng: np.random.Generator,
) -> Closeness:
    """Measure people of the original against the release, against other people, and against each other.

    More rows come closer by chance, so sets of different size are matched by a random part of the larger.
    Without a reference each person is compared with the original without that person.

    Parameters
    ----------
    original, released, reference : (N, n), (M, n) and (L, n) or None, encoded alike, in standard deviations
    k : neighbours that ambiguity and uncertainty look at
    queries : (q,) rows of the original that are measured
    rng : draws the random part; not used where sizes agree

    Returns
    -------
    Closeness

    Raises
    ------
    AnonymizationError
        When the tables do not fit together or are too small for k.

    Notes
    -----
    Source: docs/risk.md.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people, others = rng.normal(size=(2, 60, 3))
    >>> closeness(people, people, others, 5, queries=np.arange(60), rng=rng).tail(0.1, 0.01).n_released
    60
    """
    x = matrix("original", original)
    y = matrix("released", released, x.shape[1])
    r = None if reference is None else matrix("reference", reference, x.shape[1])
    near, other = _measures(x, y, r, queries, k, rng)
    gaps = nearest(x[queries], x, 2, skip_self=queries)[0] / np.sqrt(x.shape[1])
    own, next_ = gaps[:, 0], np.where(gaps[:, 1] > 0.0, gaps[:, 1], 1.0)
    same = near.n_released == len(y)
    return Closeness(
        released=near,
        reference=other,
        own=own,
        chance=other.distance if r is not None else own**2 / next_,
        gap=own if r is not None else np.where(own > 0.0, own, np.finfo(float).tiny),
        whole=near.distance if same else nearest(x[queries], y, 1)[0][:, 0] / np.sqrt(x.shape[1]),
        records=x[queries],
        others=r is not None,
        apart=r is not None and near.n_released <= len(x),
    )


def _measures(
    x: Floats, y: Floats, r: Floats | None, queries: Indices, k: int, rng: np.random.Generator
) -> tuple[PredictionMeasures, PredictionMeasures]:
    """Measure against the release and against the reference, both of about the same size."""
    if r is None:
        # The reference, A − A_j, cannot grow with the release.
        y = y if len(y) <= len(x) else y[rng.choice(len(y), len(x), replace=False)]
        return (
            prediction_measures(x, y, k, queries=queries),
            prediction_measures(x, None, k, leave_one_out=True, queries=queries),
        )
    size = min(len(y), len(r))
    y, r = (s if len(s) == size else s[rng.choice(len(s), size, replace=False)] for s in (y, r))
    return prediction_measures(x, y, k, queries=queries), prediction_measures(x, r, k, queries=queries)
