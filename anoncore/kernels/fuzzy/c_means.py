"""Fuzzy c-means and its entropy form with constrained centres, and what releasing such centres is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from anoncore.errors import AnonymizationError
from anoncore.kernels.fuzzy.blocks import (
    SHARDS,
    CrispSweeper,
    Floats,
    Geometry,
    Indices,
    Law,
    Rows,
    Sweeper,
    neighbourhoods,
    visit,
)
from anoncore.kernels.neighbors import nearest as nearest_neighbours

Constrain = Callable[[Floats], Floats]

BLOCK = 2048  # records per block of the seeding
RANGE = 600.0  # logs of numbers that double precision holds with ease
FEW = 1000  # up to so many centres, lists save nothing
SHORT = 4  # nor where they hold more than 1/4 of the centres
CLOSE = 8  # records whose spread says how far a centre is moved
JITTER = 0.5  # of that spread
VISIT_DROP = 1e-9  # mass that draws and certificates may leave out where a tree finds the centres


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """Centres reached, and how.

    Parameters
    ----------
    centers : (c, t), in the units of the records
    objective : float
        Σ u^m d² (FCM) or Σ u d² + λ⁻¹ Σ u log u (EFCM) at the centres, memberships at their optimum.
    sweeps : int
        Updates of the centres that were made.
    converged : bool
        Whether the objective's relative decrease fell below the tolerance.
    dropped : float
        Largest bound on the share of a record's membership that was left out in any sweep.
    listed : float
        Share of record visits that looked at listed centres only; 0 means that every distance was computed.
    history : (sweeps + 1,)
        The objective before each update, and at the end.
    """

    centers: Floats
    objective: float
    sweeps: int
    converged: bool
    dropped: float
    listed: float
    history: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What a release of fuzzy centres is worth, recomputed from records and centres.

    Parameters
    ----------
    posterior : (N,)
        Bound R on the chance with which an intruder who knows the centres, the parameters and all records
        links a released row to its record.
    worst, share_above : float
        Largest R, and share of records with R > 1/k.
    n_eff : (c,)
        Effective number of records behind each centre, (Σ u^m)² / Σ u^(2m).
    n_eff_least : float
        Smallest of them.
    n_eff_below : int
        Number of centres with less than k.
    distinct : int
        Of `distinct_centers`.
    fuzzifier_ceiling : float
        Fuzzifier past which all centres collapse when there are many; ∞ when there is none.
    dropped : float
        Largest share of a record's membership that was left out.
    """

    posterior: Floats
    worst: float
    share_above: float
    n_eff: Floats
    n_eff_least: float
    n_eff_below: int
    distinct: int
    fuzzifier_ceiling: float
    dropped: float


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How centres are sought.

    Parameters
    ----------
    nearest : int, optional
        Most centres that a list may hold; c // 4 when None; 0 looks at all of them in every sweep.
    drop : float
        Largest share of a record's membership that may be left out; 0 leaves out nothing.
    tolerance : float
        Stop once the objective falls by less than this share of it; 0 never stops.
    sweeps : int
        Most updates of the centres.
    """

    nearest: int | None = None
    drop: float = 1e-5
    tolerance: float = 1e-6
    sweeps: int = 100


_SETTINGS = Settings()


def memberships(x: Floats, centers: Floats, m: float | Law) -> Floats:
    """Return the memberships of every record in every cluster.

    Parameters
    ----------
    x : (N, t), centers : (c, t), in the same units
        For small N·c: the result is dense.
    m : float, at least 1, or Law
        Fuzzifier, or another law. A crisp one gives all to the nearest centre, the first of several.

    Returns
    -------
    (N, c) float64; rows sum to 1. By a fuzzifier a record on centres belongs to them alone, in equal shares.

    Notes
    -----
    Claim: none.

    Source: Torra (2020), eqs. 3 and 8; Proposition 1 prints the ratio of the latter for another index. Logarithms
    are scaled and the largest exponent is subtracted, so that nothing overflows or underflows for m close to 1.

    Examples
    --------
    >>> memberships(np.array([[1.0]]), np.array([[0.0], [4.0]]), 2.0)
    array([[0.9, 0.1]])
    """
    law = m if isinstance(m, Law) else Law.fcm(m)
    size = float(max(np.abs(centers - centers[0]).max(), np.abs(x - centers[0]).max(initial=0.0)))
    if law.power and size > 0:
        # Ratios do not depend on the unit; squares of tiny distances would vanish.
        x, centers = (x - centers[0]) / size, (centers - centers[0]) / size
    d2 = cdist(x, centers, "sqeuclidean")
    u = np.zeros_like(d2)
    if law.crisp:
        u[np.arange(len(x)), d2.argmin(axis=1)] = 1.0
        return u
    near = law.settle(d2, d2.min(axis=1))
    law.weigh(d2, near[:, None], u)
    u /= u.sum(axis=1, keepdims=True)
    return u


def fuzzy_c_means(
    x: Floats, centers: Floats, m: float | Law, *, constrain: Constrain | None = None, settings: Settings = _SETTINGS
) -> Clustering:
    """Run fuzzy c-means, or by another law its entropy form, from given centres, each kept feasible.

    Parameters
    ----------
    x : (N, t), finite
    centers : (c, t), the start, in the units of x
    m : float, at least 1, or Law
        Fuzzifier, or Law.efcm of a λ for the entropy form; a crisp law, as a fuzzifier of 1, gives k-means.
    constrain : callable, optional
        Maps (c, t) centres to their nearest feasible points. The distance must be that of ``x``: standardised
        records need standardised constraints, or ``project`` with ``scale``.
    settings : Settings

    Returns
    -------
    Clustering

    Raises
    ------
    AnonymizationError
        When there are more centres than records, or none; when c^(−m) is no longer a number.

    Notes
    -----
    Claim: the objective never rises, but for a relative (m − 1)·``drop``, or ``drop``/λ per record; centres are
    fixed points of ``constrain`` as far as it is a projection.

    Up to 32 neighbouring records share a list of centres while the others' mass stays below ``drop`` for
    each: it is summed when the list is made, and grows by at most (r/(r−δ))^(2/(m−1)) once centres have moved
    by δ, r being the distance beyond which they are not listed; in the entropy form it is at most
    (c−T) exp(−λ ((r−δ)² − d₁²)). The few centres that still move much are
    looked at by all. In up to 8 columns lists come from a k-d tree, with the bound
    (c−T)(d₁²/d_T²)^(1/(m−1)). Where lists would be longer than ``nearest``, as at m = 2, or in ten
    independent columns even at m = 1.15, records are compared with all centres, in blocks: the time is then
    N·c, the memory not.

    Source: Torra (2020), Propositions 1, 4 and 6, eqs. 3 and 4. Σ u^m ‖x−v‖² = (Σ u^m) ‖v−v̄‖² + const, so the
    nearest feasible point of the ordinary centre v̄ is the exact update for any convex constraints. Departs from
    eq. 5, which has one equality. The start is made feasible first; a centre without mass stays where it is.

    Examples
    --------
    >>> pair = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> fuzzy_c_means(pair, np.array([[3.0], [4.0]]), 1.0).centers.ravel()
    array([ 1., 11.])
    """
    law = m if isinstance(m, Law) else Law.fcm(m)
    _check_count(len(x), len(centers))
    if not law.crisp and law.m * np.log(len(centers)) > RANGE:
        most = RANGE / np.log(len(centers))
        raise AnonymizationError(f"m must be at most {most:.0f} for {len(centers)} centres, got {law.m:g}")
    longest = len(centers) // SHORT if len(centers) >= FEW else 0
    if settings.nearest is not None:
        longest = min(settings.nearest, len(centers) // 2)
    sweeper: Sweeper | CrispSweeper = CrispSweeper(x) if law.crisp else Sweeper(x, law, settings.drop, longest)
    v = np.array(centers, dtype=np.float64) if constrain is None else constrain(np.array(centers, dtype=float))
    history, dropped, listed, converged = [], 0.0, 0.0, False
    for done in range(settings.sweeps + 1):
        sums = sweeper.sweep(v)
        history.append(sums.objective)
        dropped, listed = max(dropped, sums.dropped), listed + sums.listed
        if done and settings.tolerance > 0:
            converged = history[-2] - history[-1] <= settings.tolerance * abs(history[-2])
        if converged or done == settings.sweeps:
            break
        mass = sums.moments[-1]
        ordinary = np.where(mass > 0, sums.moments[:-1] / np.where(mass > 0, mass, 1.0), v.T).T
        v = np.ascontiguousarray(ordinary if constrain is None else constrain(ordinary))
    return Clustering(v, history[-1], len(history) - 1, converged, dropped, listed / len(history), np.array(history))


def _check_count(n: int, c: int) -> None:
    if not 1 <= c <= n:
        raise AnonymizationError(f"the number of centres must be between 1 and the {n} records, got {c}")


def certify(x: Floats, centers: Floats, *, k: int, first: Law, second: Law) -> Certificate:
    """Certify what a release with one drawn centre per record is worth.

    Parameters
    ----------
    x : (N, t), centers : (c, t), in the same units
    k : int
        Anonymity size that is asked for.
    first : Law
        Of step 1, the centres: for the effective numbers of records.
    second : Law
        Of step 2, the draw: for the posteriors.

    Returns
    -------
    Certificate

    Raises
    ------
    AnonymizationError
        When there are more centres than records, or none.

    Notes
    -----
    Claim: with records drawn independently, an intruder who knows everything but the draw links the record in
    cluster i with the right one with chance at most ``posterior``, *on average over the others' draws*.

    R_j = max_i u_ji E[1/(1+S_i)], S_i the number of the other records drawn into cluster i, is bounded
    through E = ∫ Π(1 − u(1−z)) dz ≤ (1 − e^(−μ))/μ, μ the others' sum of memberships. Memberships left out
    are at most ``dropped`` per record. The ceiling is 1/(1 − 2 λ_max(C)), C the mean of unit
    outer products of x − x̄. n_eff of a crisp first step is the number of records.

    Source: departs from Torra (2020), section 2.2 and Proposition 8, whose probabilistic k-anonymity holds
    only as the second step's fuzzifier grows beyond all bounds.

    Examples
    --------
    >>> found = certify(np.zeros((4, 1)), np.ones((1, 1)), k=4, first=Law.fcm(2.0), second=Law.fcm(2.0))
    >>> round(found.worst, 3), found.n_eff_least
    (0.317, 4.0)
    """
    _check_count(len(x), len(centers))
    geometry = Geometry(x)
    geometry.aim(centers)
    n_eff, dropped = _effective_numbers(geometry, first)
    posterior, missed = _posteriors(geometry, second)
    return Certificate(
        posterior=posterior,
        worst=float(posterior.max()),
        share_above=float((posterior > (1.0 + 1e-12) / k).mean()),
        n_eff=n_eff,
        n_eff_least=float(n_eff.min()),
        n_eff_below=int((n_eff < k * (1.0 - 1e-12)).sum()),
        distinct=distinct_centers(x, centers),
        fuzzifier_ceiling=_fuzzifier_ceiling(x),
        dropped=max(dropped, missed),
    )


def _each(geometry: Geometry, law: Law, see: Callable[[int, Rows, Floats, Indices | None], None]) -> float:
    """Hand memberships to ``see``, crisp ones too; return the bound on what is left out."""
    if not law.crisp:
        return visit(geometry, law, VISIT_DROP, see)
    label = nearest_neighbours(geometry.x, geometry.centers, 1)[1]
    see(0, slice(0, len(label)), np.ones(label.shape), label)
    return 0.0


def _effective_numbers(geometry: Geometry, law: Law) -> tuple[Floats, float]:
    once, twice = (np.zeros((SHARDS, len(geometry.centers))) for _ in range(2))

    def see(shard: int, rows: Rows, u: Floats, members: Indices | None) -> None:
        if law.m != 1.0:
            np.power(u, law.m, out=u)
        _add(once[shard], u, members)
        np.multiply(u, u, out=u)
        _add(twice[shard], u, members)

    dropped = _each(geometry, law, see)
    total, squares = once.sum(axis=0), twice.sum(axis=0)
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0), dropped


def _posteriors(geometry: Geometry, law: Law) -> tuple[Floats, float]:
    partial = np.zeros((SHARDS, len(geometry.centers)))
    dropped = _each(geometry, law, lambda shard, rows, u, members: _add(partial[shard], u, members))
    expected = partial.sum(axis=0)
    floor = _share(expected)
    posterior = np.empty(len(geometry.x))

    def see(shard: int, rows: Rows, u: Floats, members: Indices | None) -> None:
        # Without the record itself a cluster is smaller, so this is a lower bound; and as no share exceeds 1,
        # only memberships above it can reach the maximum.
        least = (u * (floor if members is None else floor[members])).max(axis=1)
        row, column = np.nonzero(u >= least[:, None])
        own = u[row, column]
        cluster = column if members is None else members[row, column]
        linked = own * _share(np.maximum(expected[cluster] - own, 0.0))
        posterior[rows] = np.maximum.reduceat(linked, np.searchsorted(row, np.arange(len(u))))

    return posterior, max(dropped, _each(geometry, law, see))


def _add(sums: Floats, u: Floats, members: Indices | None) -> None:
    sums += u.sum(axis=0) if members is None else np.bincount(members.ravel(), u.ravel(), len(sums))


def _share(mu: Floats) -> Floats:
    """Return (1 − e^(−μ))/μ, which bounds E[1/(1+S)], S a sum of independent 0/1 with mean μ."""
    return np.divide(-np.expm1(-mu), mu, out=np.ones_like(mu), where=mu > 0)


def distinct_centers(x: Floats, centers: Floats, apart: float = 1e-3) -> int:
    """Count centres, those within ``apart`` of each other as one.

    Parameters
    ----------
    x : (N, t), centers : (c, t), in the same units
    apart : in root-mean-square standard deviations of the columns of x

    Examples
    --------
    >>> distinct_centers(np.array([[0.0], [2.0]]), np.array([[1.0], [1.0], [2.0]]))
    2
    """
    apart *= float(np.sqrt(np.mean(np.var(x, axis=0))))
    if apart <= 0:
        return len(np.unique(centers, axis=0))
    # On a grid first, so that crowds cost no pairs.
    seen = np.unique(np.rint((centers - centers.min(axis=0)) / apart), axis=0, return_index=True)[1]
    pairs = cKDTree(centers[seen]).query_pairs(apart, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(seen), len(seen)))
    return int(connected_components(graph, directed=False)[0])


def _fuzzifier_ceiling(x: Floats) -> float:
    gap = x - x.mean(axis=0)
    norms = np.linalg.norm(gap, axis=1)
    off = norms > 0
    if not off.any():
        return np.inf
    gap = gap[off] / norms[off, None]
    largest = float(np.linalg.eigvalsh(gap.T @ gap / len(gap))[-1])
    return 1.0 / (1.0 - 2.0 * largest) if largest < 0.5 else np.inf


def draw(x: Floats, centers: Floats, law: Law, *, rng: np.random.Generator) -> Indices:
    """Draw one centre for each record, with its memberships as chances.

    Parameters
    ----------
    x : (N, t), centers : (c, t), in the same units
    law : Law
        Of the memberships.

    Returns
    -------
    (N,) int, 0 … c−1

    Notes
    -----
    Claim: none by itself; `certify` says what it is worth. Chances are exact but for 1e-9 of a record's mass.

    Source: Torra (2020), Algorithm 1, steps 2 and 3.

    Examples
    --------
    >>> draw(np.array([[0.0], [4.0]]), np.array([[4.0], [0.0]]), Law.fcm(2.0), rng=np.random.default_rng(0))
    array([1, 0])
    """
    geometry = Geometry(x)
    geometry.aim(centers)
    chance = rng.random(len(x))
    label = np.empty(len(x), dtype=np.intp)

    def see(shard: int, rows: Rows, u: Floats, members: Indices | None) -> None:
        upto = np.cumsum(u, axis=1, out=u)
        aimed = chance[rows] * upto[:, -1]
        at = np.count_nonzero(upto <= aimed[:, None], axis=1)
        label[rows] = at if members is None else members[np.arange(len(at)), at]

    _each(geometry, law, see)
    return label


def seed_centers(x: Floats, c: int, *, rng: np.random.Generator) -> Floats:
    """Spread c starting centres over the records, none of them on a record.

    Parameters
    ----------
    x : (N, t), finite
    c : int, 1 … N

    Returns
    -------
    (c, t) float64, in the units of x

    Raises
    ------
    AnonymizationError
        When there are more centres than records, or none.

    Notes
    -----
    Claim: none; a column that is constant keeps its value.

    k-means++ within blocks of at most 2048 records, each with its share of the centres: plain k-means++ takes
    N·c distances, this takes 2048·c. Blocks are cut at medians of their widest column, so that they are
    neighbourhoods. A record, once drawn with chance proportional to its squared distance from the centres so
    far, is moved by noise of half the standard deviations among its nearest 4 to 8 records, or one to two
    clusters' worth of them, before it becomes a centre: centres that start from records tend to stay there.

    Source: Arthur and Vassilvitskii 2007, k-means++; the blocks and the noise are ours.

    Examples
    --------
    >>> seed_centers(np.array([[0.0], [0.1], [9.0], [9.1]]), 2, rng=np.random.default_rng(0)).shape
    (2, 1)
    """
    _check_count(len(x), c)
    blocks = neighbourhoods(np.asarray(x, dtype=np.float64), BLOCK)
    edges = np.cumsum([0, *map(len, blocks)]) * c // len(x)
    parts = []
    for rows, q in zip(blocks, np.diff(edges), strict=True):
        if q:
            parts.append(_plus_plus(x[rows], int(q), rng))
    return np.concatenate(parts)


def _plus_plus(x: Floats, c: int, rng: np.random.Generator) -> Floats:
    noise = rng.standard_normal((c, x.shape[1]))
    width = np.empty_like(x)
    for rows in neighbourhoods(x, max(CLOSE, 2 * len(x) // c)):
        width[rows] = JITTER * x[rows].std(axis=0)
    chance = rng.random(c)
    centers = np.empty_like(noise)
    squares = np.ones(len(x))
    for i in range(c):
        upto = np.cumsum(squares)
        if upto[-1] <= 0:
            upto = np.arange(1.0, len(x) + 1.0)
        at = min(int(np.searchsorted(upto, chance[i] * upto[-1], side="right")), len(x) - 1)
        centers[i] = x[at] + noise[i] * width[at]
        gap = x - centers[i]
        distance = np.einsum("ij,ij->i", gap, gap)
        squares = distance if i == 0 else np.minimum(squares, distance)
    return centers
