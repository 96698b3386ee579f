"""Entropy fuzzy c-means with clusters of exact sizes, and unbiased rounding to whole records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.kernels.threads import one_blas_thread
from anoncore.kernels.ties import TIED, first_largest, order_with_ties, snapped

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Constrain = Callable[[Floats], Floats]

DENSE = 250_000  # entries up to which every record may join every cluster
STIFFNESS = 16.0  # recommended lam times the mean squared distance to the nearest centre
DOUBLINGS = 40  # most doublings of the annealing
SOFT, STAGE = 2.0, 3  # annealing: where lam starts, on the same scale, and the sweeps at each doubling
ROUGH, FINE = 1e-3, 1e-9  # column-sum errors left in a sweep, and in the plan before the exact step
SINKHORN, LAST = 5, 15  # scaling steps before Newton's, Newton steps for the final plan
FAR, MOST = 0.1, 40  # column-sum errors with which no sweep ends, up to so many steps
ROUNDS, LAST_ROUNDS = 60, 400  # of conjugate gradients, in a sweep and for the final plan
DIRECT = 1_000  # clusters up to which the final plan's equations are solved directly
SLIGHT = 1e-8  # entries below this are left out of Newton's equations
FAINT = 1e-12  # entries below this are dropped from the plan
EXACT = 1e-13  # missing mass of a row or column that needs no mending
SHARPEST = 200.0  # largest recommended lam times the median squared distance between near centres
MENDED = 1e-6  # share of the mass that the exact step may move in a plan that has converged
NOTHING = 1e-9  # change of the objective per record, times λ, that is rounding


@dataclass(frozen=True, eq=False, repr=False)
class Balanced:
    """Centres and a balanced plan: row sums 1, column sums the sizes.

    Parameters
    ----------
    centers : (c, t)
    indptr : (N + 1,), columns : (E,), values : (E,)
        The plan S by records: record j joins cluster ``columns[e]`` with probability ``values[e]``,
        ``indptr[j] <= e < indptr[j + 1]``; zeros are left out.
    converged : bool
        Whether the objective settled and the scaling met its tolerance.
    sweeps : int
        Sweeps at the final lam.
    residual : float
        Largest error of a column sum of the plan returned, in records.
    repaired : float
        Share of all mass that the exact step moved because the scaling had not placed it.
    dropped : float
        Mean probability, over a sample of records, that unrestricted memberships give to clusters that
        are not among their candidates.
    worst_posterior : float
        Largest P(record j | cluster i) = S_ji / n_i.
    objective : float
        Σ S d² + Σ S log S / lam of the plan and the centres it was made for.
    objectives : (sweeps,)
        The same after every sweep at the final lam.
    """

    centers: Floats
    indptr: Integers
    columns: Integers
    values: Floats
    converged: bool
    sweeps: int
    residual: float
    repaired: float
    dropped: float
    worst_posterior: float
    objective: float
    objectives: Floats

    def matrix(self) -> sparse.csr_array:
        """Return the plan as a sparse array (N, c)."""
        shape = len(self.indptr) - 1, len(self.centers)
        return sparse.csr_array((self.values, self.columns, self.indptr), shape=shape)


@dataclass(frozen=True, eq=False, repr=False)
class _Graph:
    """Which record may join which cluster, by records, and an order in which neighbours are near."""

    indptr: Integers
    columns: Integers
    records: Integers
    clusters: Integers

    def matrix(self, values: Floats) -> sparse.csr_array:
        shape = len(self.indptr) - 1, len(self.clusters)
        return sparse.csr_array((values, self.columns, self.indptr), shape=shape)


def balanced_sizes(n_records: int, k: int) -> Integers:
    """Return the sizes of ⌊N/k⌋ clusters of at least k records, differing by at most 1.

    Parameters
    ----------
    n_records : N >= k
    k : >= 1

    Returns
    -------
    (c,) int, larger ones first.

    Claim: every size is at least k and the sizes sum to N.
    Source: elementary.

    Examples
    --------
    >>> balanced_sizes(17, 5).tolist()
    [6, 6, 5]
    """
    clusters = max(1, n_records // k)
    sizes = np.full(clusters, n_records // clusters, dtype=np.intp)
    sizes[: n_records % clusters] += 1
    return sizes


def initial_centers(x: Floats, sizes: Integers, *, rng: np.random.Generator) -> Floats:
    """Return the means of groups of the given sizes, made by halving the records again and again.

    Parameters
    ----------
    x : (N, t), in encoded units
    sizes : (c,), records per cluster, summing to N
    rng : breaks ties between records and decides which of the sizes goes where

    Returns
    -------
    (c, t), each the mean of ``sizes[i]`` records.

    Claim: no centre averages fewer records than its size; O(N t log c) time.
    Source: principal direction divisive partitioning (Boley 1998), cut where the sizes add up.

    Examples
    --------
    >>> x = np.array([[0.0], [10.0], [1.0], [11.0]])
    >>> np.sort(initial_centers(x, np.array([2, 2]), rng=np.random.default_rng(0)).ravel()).tolist()
    [0.5, 10.5]
    """
    shuffled = x[rng.permutation(len(x))]
    places = rng.permutation(len(sizes))
    order, _ = _halved(snapped(shuffled), sizes[places])
    starts = np.cumsum(sizes[places]) - sizes[places]
    means = np.empty((len(sizes), x.shape[1]))
    means[places] = np.add.reduceat(shuffled[order], starts, axis=0) / sizes[places][:, None]
    return means


def recommended_lambda(x: Floats, centers: Floats) -> float:
    """Return a lam at which rounding loses about as much information as MDAV or less.

    Parameters
    ----------
    x : (N, t), in encoded units
    centers : (c, t), well spread, as from `initial_centers`

    Returns
    -------
    lam, in 1 / squared encoded units: 16 over the mean squared distance to the nearest centre, or 200 over
    the median squared distance between neighbouring centres if that is less.

    Claim: none; measured on survey and heavy-tailed data, see the documentation of the method. The bound
    on the posterior does not depend on lam.
    Source: by experiment.

    Examples
    --------
    >>> recommended_lambda(np.array([[0.0], [2.0], [4.0], [6.0]]), np.array([[1.0], [5.0]]))
    12.5
    """
    distances, _ = nearest(x, centers, 1)
    spread = float(np.mean(distances**2))
    apart = np.unique(snapped(centers), axis=0)
    if len(apart) < 2:
        return STIFFNESS / (spread or 1.0)
    # Where records sit on centres, as those of levels do, the few that must join others are what counts.
    gaps, _ = nearest(apart, apart, 1, skip_self=True)
    return STIFFNESS / max(spread, STIFFNESS / SHARPEST * float(np.median(gaps**2)))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How centres and plan are sought.

    Parameters
    ----------
    candidates : nearest centres that each record may join when N c exceeds 250 000
    tolerance : relative decrease of the objective at which to stop
    sweeps : most sweeps at the final lam
    inner : most Newton steps of the scaling in each sweep
    annealing : how often lam is halved for the start; 0 starts at lam itself, None where it is soft
    """

    candidates: int = 24
    tolerance: float = 1e-4
    sweeps: int = 30
    inner: int = 5
    annealing: int | None = None


_SETTINGS = Settings()


def balanced_entropy_c_means(
    x: Floats,
    centers: Floats,
    lam: float,
    sizes: Integers,
    *,
    constrain: Constrain | None = None,
    settings: Settings = _SETTINGS,
) -> Balanced:
    """Cluster records fuzzily so that cluster i holds a mass of exactly ``sizes[i]`` records.

    Parameters
    ----------
    x : (N, t), in encoded units
    centers : (c, t), where to start
    lam : above 0, in 1 / squared encoded units; large values approach balanced k-means
    sizes : (c,), records per cluster, summing to N
    constrain : maps centres (c, t) to the nearest feasible ones; None leaves them
    settings : Settings

    Returns
    -------
    Balanced. ``plan.matrix()`` has row sums 1 and column sums ``sizes`` up to rounding errors.

    Claim: P(record j | cluster i) = S_ji / n_i is at most 1 / n_i for every record at any lam, converged or
    not, because the last step makes the sums exact; the centres are the means of that last plan, so each
    averages an effective number of at least n_i records.
    Source: Sinkhorn scaling (Cuturi 2013) within entropy fuzzy c-means (Miyamoto & Mukaidono 1997),
    finished by Newton steps on the dual; centres as in Torra 2020, eq. 11. Departs: column sums are
    prescribed. With candidates, memberships elsewhere are 0; edges of one balanced assignment keep the plan
    feasible. Starting soft and doubling lam finds better optima than starting at lam.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [10.0]])
    >>> plan = balanced_entropy_c_means(x, np.array([[1.0], [9.0]]), 10.0, np.array([2, 2]))
    >>> plan.matrix().toarray().round(2).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    records = np.asarray(x, dtype=float)
    state = _State(np.ascontiguousarray(snapped(records)), np.array(centers, dtype=float), sizes, settings.candidates)
    objectives, settled = _alternate(state, lam, constrain, settings)
    state.balance(lam, max(settings.inner, LAST), last=True)
    met = float(np.abs(state.sums - sizes).max()) <= ROUGH
    exact, repaired = _exact(state.graph, state.plan, sizes)
    # The centres of what is released: those of a plan that is still off balance may rest on one record.
    moved = np.asarray(exact.T @ records) / sizes[:, None]
    return Balanced(
        centers=moved if constrain is None else constrain(moved),
        indptr=exact.indptr.astype(np.intp),
        columns=exact.indices.astype(np.intp),
        values=exact.data,
        converged=settled and met and repaired <= MENDED,
        sweeps=len(objectives),
        residual=float(np.abs(exact.sum(axis=0) - sizes).max()),
        repaired=repaired,
        dropped=_dropped(state, lam),
        worst_posterior=float((exact.data / sizes[exact.indices]).max()),
        objective=_objective(state, lam, exact),
        objectives=np.array(objectives),
    )


def round_dependently(plan: Balanced, sizes: Integers, *, rng: np.random.Generator) -> Integers:
    """Draw a label for every record so that the clusters get exactly their sizes.

    Parameters
    ----------
    plan : memberships with row sums 1 and column sums ``sizes``
    sizes : (c,)
    rng : decides every push

    Returns
    -------
    (N,) int, the clusters.

    Raises
    ------
    AnonymizationError
        When the plan is not balanced.

    Claim: exactly ``sizes[i]`` records get label i, and P(label_j = i) = S_ji up to 1e-9.
    Source: Gandhi, Khuller, Parthasarathy & Srinivasan 2006, section 2: mass is pushed round cycles of
    fractional entries, either way, with the probabilities that leave every mean unchanged. Whole sums leave
    no paths, so only cycles occur.

    Examples
    --------
    >>> x, sizes = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([2, 2])
    >>> plan = balanced_entropy_c_means(x, np.array([[1.0], [2.0]]), 0.1, sizes)
    >>> np.bincount(round_dependently(plan, sizes, rng=np.random.default_rng(0))).tolist()
    [2, 2]
    """
    from anoncore.kernels.fuzzy.balanced_compiled import SNAP, round_edges

    n = len(plan.indptr) - 1
    # Which entries are there must not depend on rounding: those that are as good as 0 would be settled first.
    used = plan.values >= SNAP
    values, columns = plan.values[used], plan.columns[used]
    rows = np.repeat(np.arange(n), np.diff(plan.indptr))[used]
    ends = columns + n
    edges = np.concatenate([np.arange(len(values)), np.argsort(columns, kind="stable")])
    degrees = np.bincount(rows, minlength=n), np.bincount(columns, minlength=len(sizes))
    starts = np.concatenate([[0], np.cumsum(np.concatenate(degrees))])
    # A stream of its own: how many draws there are depends on how many entries are nearly 0.
    round_edges(rows, ends, values, edges, starts, rng.spawn(1)[0].random(len(values)))
    chosen = values == 1.0
    labels = columns[chosen]
    whole = np.array_equal(rows[chosen], np.arange(n))
    if not whole or not np.array_equal(np.bincount(labels, minlength=len(sizes)), sizes):
        raise AnonymizationError("the plan is not balanced: row sums must be 1 and column sums the sizes")
    return labels


def _dot(a: Floats | Integers, b: Floats) -> float:
    """Return the inner product, summed in an order that does not depend on the number of threads."""
    return float(np.einsum("i,i->", a, b))


def _halved(x: Floats, sizes: Integers, centers: Floats | None = None) -> tuple[Integers, Integers]:
    """Order records, and clusters where centres are given, so that consecutive runs are near each other.

    Returns
    -------
    (N,) records and (c,) clusters: the first ``sizes[clusters[0]]`` records belong to the first cluster, and
    so on. All groups of a level are cut at once, across the direction of their largest variance.
    """
    order, clusters = np.arange(len(x)), np.arange(len(sizes))
    cuts = np.array([0, len(sizes)])
    while (np.diff(cuts) > 1).any():
        first = np.concatenate([[0], np.cumsum(sizes[clusters])])[cuts]
        counts = np.diff(first)
        group = np.repeat(np.arange(len(counts)), counts)
        y = x[order]
        y -= (np.add.reduceat(y, first[:-1], axis=0) / counts[:, None])[group]
        direction = _directions(y, first[:-1], group)
        order = order[order_with_ties(np.einsum("ij,ij->i", y, direction[group]), group)]
        if centers is not None:
            group = np.repeat(np.arange(len(counts)), np.diff(cuts))
            along = np.einsum("ij,ij->i", centers[clusters], direction[group])
            clusters = clusters[order_with_ties(along, group)]
        cuts = np.unique(np.concatenate([cuts, (cuts[:-1] + cuts[1:]) // 2]))
    return order, clusters


def _directions(y: Floats, first: Integers, group: Integers, rounds: int = 10) -> Floats:
    """Return (groups, t): nearly the principal direction of each group of centred rows, by power steps."""
    variances = np.add.reduceat(y**2, first, axis=0)
    direction = np.sqrt(variances)
    direction[np.arange(len(first)), first_largest(variances)] *= 2.0
    for _ in range(rounds):
        along = np.einsum("ij,ij->i", y, direction[group])
        direction = np.add.reduceat(y * along[:, None], first, axis=0)
        direction /= np.maximum(np.linalg.norm(direction, axis=1), np.finfo(float).tiny)[:, None]
    return direction


def _graph(x: Floats, centers: Floats, sizes: Integers, candidates: int) -> _Graph:
    """Return the complete graph if small, else the nearest either way and one balanced assignment."""
    n, c = len(x), len(sizes)
    records, clusters = _halved(x, sizes, centers)
    if c <= candidates or n * c <= DENSE:
        return _Graph(np.arange(n + 1) * c, np.tile(np.arange(c), n), records, clusters)
    record, cluster = _nearest_with_ties(x, centers, candidates)
    of_cluster, taker = _nearest_with_ties(centers, x, min(n, 2 * int(sizes.max())))
    home = np.repeat(clusters, sizes[clusters])
    keys = np.unique(np.concatenate([record * c + cluster, taker * c + of_cluster, records * c + home]))
    indptr = np.searchsorted(keys, np.arange(n + 1) * c)
    return _Graph(indptr, keys % c, records, clusters)


def _nearest_with_ties(queries: Floats, points: Floats, k: int) -> tuple[Integers, Integers]:
    """Return pairs (query, point): the k nearest points of each query, and up to 8 more as near as the k-th."""
    distances, near = nearest(queries, points, min(k + 8, len(points)))
    query, place = np.nonzero(distances <= distances[:, k - 1 : k] * (1 + TIED))
    return query, near[query, place]


def _costs(x: Floats, centers: Floats, graph: _Graph) -> Floats:
    from anoncore.kernels.fuzzy.balanced_compiled import fill_costs

    costs = np.empty(len(graph.columns))
    fill_costs(x, np.ascontiguousarray(centers), graph.indptr, graph.columns, costs)
    return costs


class _State:
    """Where the search stands: centres, who may join which cluster at what cost, prices, and the plan they give.

    ``prices`` (c,), ``costs`` and ``plan`` (E,) with row sums 1, and its column sums ``sums`` (c,).
    """

    plan: Floats
    sums: Floats
    costs: Floats

    def __init__(self, x: Floats, centers: Floats, sizes: Integers, candidates: int) -> None:
        self.x, self.centers, self.sizes, self.candidates = x, centers, sizes, candidates
        self.prices = np.zeros(len(sizes))
        self.find_candidates()

    def find_candidates(self) -> None:
        """Say anew who may join which cluster."""
        self.graph = _graph(self.x, self.centers, self.sizes, self.candidates)

    def measure(self) -> None:
        """Measure the costs anew."""
        self.costs = _costs(self.x, self.centers, self.graph)

    def move(self, constrain: Constrain | None) -> None:
        """Move the centres to the weighted means; a cluster that no mass has reached yet keeps its centre."""
        totals = np.asarray(self.graph.matrix(self.plan).T @ self.x)
        reached = self.sums > FAINT
        means = np.where(reached[:, None], totals / np.where(reached, self.sums, 1.0)[:, None], self.centers)
        self.centers = means if constrain is None else constrain(means)

    def balance(self, lam: float, newton: int, last: bool = False) -> float:
        """Find prices whose softmax rows have column sums ``sizes``: a few Sinkhorn steps, then Newton's.

        Both climb the concave dual Σ n_i g_i - Σ_j log Σ_i exp(g_i - lam d²_ji), which is returned.
        """
        from anoncore.kernels.fuzzy.balanced_compiled import column_logs, logs, scale_rows

        edges = self.graph.indptr, self.graph.columns, self.costs, lam
        sizes, prices = self.sizes, self.prices
        plan, sums = np.empty(len(self.costs)), np.empty(len(sizes))

        def dual(at: Floats) -> float:
            return _dot(sizes, at) - float(scale_rows(*edges, at, plan, sums))

        def sinkhorn(at: Floats) -> Floats:
            if sums.min() < FAINT:
                return at + logs(sizes) - column_logs(*edges, at)
            return at + logs(sizes / sums)

        value = dual(prices)
        for step in range(max(MOST, newton)):
            error = np.abs(sums - sizes).max()
            if error <= (FINE if last else ROUGH) or (step >= SINKHORN + newton and error <= FAR):
                break
            if step < SINKHORN:
                prices = sinkhorn(prices)
                value = dual(prices)
                continue
            change, slope = _newton(self.graph, plan, sums, sizes, last)
            length = min(1.0, 20.0 / np.abs(change).max())
            reached = dual(prices + length * change)
            while reached < value + 1e-4 * length * slope - NOTHING * len(self.x) and length > 1e-6:
                length *= 0.4
                reached = dual(prices + length * change)
            prices, value = prices + length * change, reached
            if length < 1.0:
                for _ in range(3):
                    prices = sinkhorn(prices)
                    value = dual(prices)
        self.prices, self.plan, self.sums = prices - prices.mean(), plan, sums
        return value


def _alternate(state: _State, lam: float, constrain: Constrain | None, settings: Settings) -> tuple[list[float], bool]:
    """Balance and move in turn, from a soft lam to the final one; return its objectives and whether they settled."""
    annealing = settings.annealing
    if annealing is None:
        soft = recommended_lambda(state.x, state.centers)
        doublings = math.log2(lam) - math.log2(soft) + math.log2(STIFFNESS / SOFT)
        annealing = min(max(0, math.ceil(doublings)), DOUBLINGS)
    objectives, settled, before = list[float](), False, 0.0
    for stage in range(annealing, -1, -1):
        now = lam / 2.0**stage
        if stage < annealing:
            state.prices *= 2.0
            state.find_candidates()
        for sweep in range(STAGE if stage else settings.sweeps):
            if stage == 0 and sweep in (2, 6):
                state.find_candidates()
            state.measure()
            value = state.balance(now, settings.inner)
            if stage == 0:
                objectives.append(value / now)
                slight = settings.tolerance * abs(now * _dot(state.plan, state.costs)) + NOTHING * len(state.x)
                settled = sweep > 0 and abs(before - value) <= slight
                before = value
                if settled or sweep == settings.sweeps - 1:
                    break
            state.move(constrain)
    return objectives, settled


def _newton(graph: _Graph, values: Floats, sums: Floats, sizes: Integers, last: bool) -> tuple[Floats, float]:
    """Solve (diag(sums) - SᵀS) change = sizes - sums; return the slope too.

    By conjugate gradients; directly for the final plan of moderately many clusters, since hundreds of rounds would
    amplify rounding errors until records are drawn differently.
    """
    kept = values > SLIGHT
    indptr = np.concatenate([[0], np.cumsum(kept)])[graph.indptr]
    shape = len(indptr) - 1, len(sums)
    plan = sparse.csr_array((values[kept], graph.columns[kept], indptr), shape=shape)
    lacking = sizes - sums
    worst = min(1.0, float(np.abs(lacking).max()))
    ridge = 1.0 + 1e-3 * worst
    if last and len(sums) <= DIRECT:
        system = np.diag(ridge * sums + FAINT) - (plan.T @ plan).toarray()
        with one_blas_thread():
            change = np.linalg.solve(system, lacking)
        return change, _dot(lacking, change)
    squares = np.bincount(plan.indices, weights=plan.data**2, minlength=len(sums))
    diagonal = ridge * sums - squares + FAINT
    transposed = plan.T
    change, rest = np.zeros(len(sums)), lacking.copy()
    search = rest / diagonal
    product = _dot(rest, search)
    enough = min(0.05, worst) * math.sqrt(_dot(lacking, lacking))
    for _ in range(LAST_ROUNDS if last else ROUNDS):
        image = ridge * sums * search + FAINT * search - transposed @ (plan @ search)
        curvature = _dot(search, image)
        if curvature <= 0:
            break
        change += product / curvature * search
        rest -= product / curvature * image
        if math.sqrt(_dot(rest, rest)) <= enough:
            break
        scaled = rest / diagonal
        product, previous = _dot(rest, scaled), product
        search = scaled + product / previous * search
    return change, _dot(lacking, change)


def _exact(graph: _Graph, plan: Floats, sizes: Integers) -> tuple[sparse.csr_array, float]:
    """Return the plan with exact sums and the share of mass that had to go elsewhere.

    Faint entries are dropped, too full columns thinned, and what rows then lack is given to the columns that
    lack it, in the order in which neighbours are near.
    """
    n, repaired = len(graph.indptr) - 1, 0.0
    # Dropping zeros works in place, and the graph must stay whole.
    exact = graph.matrix(np.where(plan < FAINT, 0.0, plan)).copy()
    exact.eliminate_zeros()
    for _ in range(4):
        exact.data /= np.repeat(exact.sum(axis=1), np.diff(exact.indptr))
        exact.data *= np.minimum(1.0, sizes / np.maximum(exact.sum(axis=0), FAINT))[exact.indices]
        rows = np.maximum(1.0 - exact.sum(axis=1), 0.0)[graph.records]
        columns = np.maximum(sizes - exact.sum(axis=0), 0.0)[graph.clusters]
        rows[rows < EXACT / 10] = 0.0
        if columns.max() <= EXACT * sizes.max() and rows.max() <= EXACT:
            break
        repaired += float(rows.sum()) / n
        ends = np.cumsum(rows), np.cumsum(columns) * (rows.sum() / max(columns.sum(), np.finfo(float).tiny))
        breaks = np.unique(np.concatenate([[0.0], *ends]))
        mass, middle = np.diff(breaks), (breaks[1:] + breaks[:-1]) / 2
        j = np.minimum(np.searchsorted(ends[0], middle), n - 1)
        i = np.minimum(np.searchsorted(ends[1], middle), len(sizes) - 1)
        extra = sparse.coo_array((mass, (graph.records[j], graph.clusters[i])), shape=exact.shape)
        exact = sparse.csr_array(exact + extra.tocsr())
    return exact, repaired


def _dropped(state: _State, lam: float, sample: int = 64) -> float:
    """Return the mean softmax mass of records outside their candidates, over evenly spaced records."""
    graph, n, c = state.graph, len(state.x), len(state.centers)
    if len(graph.columns) == n * c:
        return 0.0
    at = np.unique(np.linspace(0, n - 1, min(n, sample)).astype(np.intp))
    logs = state.prices - lam * cdist(state.x[at], state.centers, "sqeuclidean")
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    inside = graph.matrix(np.ones(len(graph.columns)))[at].multiply(shares).sum(axis=1)
    return float(np.maximum(0.0, 1.0 - inside / shares.sum(axis=1)).mean())


def _objective(state: _State, lam: float, plan: sparse.csr_array) -> float:
    none = np.zeros(0, dtype=np.intp)
    graph = _Graph(plan.indptr.astype(np.intp), plan.indices.astype(np.intp), none, none)
    positive = plan.data[plan.data > 0]
    return float(_dot(plan.data, _costs(state.x, state.centers, graph)) + _dot(positive, np.log(positive)) / lam)
