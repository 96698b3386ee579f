"""Membership weights block by block: all centres of a record, or only those that carry its mass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from threadpoolctl import ThreadpoolController

from anoncore.kernels.neighbors import _BLAS, _threads, nearest

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Rows = Indices | slice

ENTRIES = 1 << 17  # distances per dense block: with the weights beside them they stay in the L2 cache
CHUNK = 512  # records of a shard are a multiple of this many
LEAF = 32  # most neighbouring records that share a list
SPARE = 0.03  # share of the tolerance that fresh lists use: centres will move
TINY = 1e-300
SHARDS = 8  # partial sums; fixed, so that the number of threads cannot change a result
DIRECT = 1e-4  # squared distances below this share of ‖x‖² are measured directly
TREE_COLUMNS = 8
TREE_WIDTHS = (16, 32, 64, 128, 256)
TREE_GAIN = 24  # a tree's neighbour costs about as much as this many entries of a dense block
WIDEST = 512
PROBES = 256
ENOUGH = 0.99
CALM = 0.03  # a centre that moves further in a step, in nearest distances or λ^−½, is looked at by all
LONELY = 0.01  # so is one with less than this share of the average mass
RESTLESS = 10  # lists are used while fewer than 1/10 of the centres are such
ROOM = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # thresholds on relative weight, in units of the tolerance


@dataclass(frozen=True)
class Law:
    """How weight falls with squared distance: d^(−2 power) of FCM, or exp(−rate d²) of EFCM."""

    m: float = 1.0
    power: float = 0.0
    rate: float = 0.0

    @staticmethod
    def fcm(m: float) -> Law:
        """Return the law of fuzzifier m ≥ 1, whose memberships fall as d^(−2/(m−1)); 1 is crisp."""
        return Law(m=m, power=1.0 / (m - 1.0) if m > 1 else np.inf)

    @staticmethod
    def efcm(lam: float) -> Law:
        """Return the law of λ > 0, in inverse squared units of the records, exp(−λ d²); ∞ is crisp."""
        return Law(rate=lam)

    @property
    def crisp(self) -> bool:
        """Whether each record belongs to its nearest centre alone."""
        return np.isinf(self.power) or np.isinf(self.rate)

    def weigh(self, d2: Floats, near: Floats, out: Floats) -> None:
        """Write the weights, 1 at ``near``, into ``out``; ``d2`` is (B, q), ``near`` (B, 1), both > 0."""
        if self.rate:
            np.subtract(near, d2, out=out)
            out *= self.rate
            np.exp(out, out=out)
        elif self.power in (1.0, 2.0, 4.0, 8.0):
            np.divide(near, d2, out=out)
            for _ in range(int(np.log2(self.power))):
                out *= out
        else:
            np.log(d2, out=out)
            out -= np.log(near)
            out *= -self.power
            np.exp(out, out=out)

    def settle(self, d2: Floats, near: Floats) -> Floats:
        """Rewrite rows that lie on a centre, so that `weigh` shares 1 among those centres; return near."""
        on = near <= 0.0
        if self.power and on.any():
            d2[on] = np.where(d2[on] <= 0.0, 1.0, np.inf)
            return np.where(on, 1.0, near)
        return near

    def objective(self, near: Floats, total: Floats) -> Floats:
        """Return each record's share of the objective, memberships at their optimum."""
        if self.rate:
            return near - np.log(total) / self.rate
        return near * total ** (1.0 - self.m)

    def log_far(self, mass: Floats, reach: Floats, drift: float) -> Floats:
        """Bound the log weight beyond ``reach`` after centres moved by at most ``drift``.

        ``mass`` is Σ d^(−2 power) over the unlisted, in logs, for FCM: each term grows by at most
        (reach/(reach − drift))^(2 power). For EFCM it is the log of their number.
        """
        left = np.maximum(reach - drift, 0.0)
        with np.errstate(divide="ignore"):
            if self.rate:
                return mass - self.rate * left**2
            return mass + 2.0 * self.power * (np.log(reach) - np.log(left))

    def log_unit(self, near: Floats) -> Floats:
        """Return the log of the weight of a centre at squared distance ``near``, which is 1 in `weigh`."""
        if self.rate:
            return -self.rate * near
        with np.errstate(divide="ignore"):
            return -self.power * np.log(near)


class Geometry:
    """Squared distances from blocks of records to all centres."""

    def __init__(self, x: Floats) -> None:
        self.x = np.ascontiguousarray(x, dtype=np.float64)
        self.origin = self.x.mean(axis=0)
        centred = self.x - self.origin
        self.norms = np.einsum("ij,ij->i", centred, centred)
        ones = np.ones((len(x), 1))
        self.left = np.hstack([-2.0 * centred, self.norms[:, None], ones])
        self.rows = np.hstack([self.x, ones])
        self.aim(self.x[:0])

    def aim(self, centers: Floats) -> None:
        """Measure to these centres from now on."""
        self.centers = np.ascontiguousarray(centers, dtype=np.float64)
        centred = self.centers - self.origin
        norms = np.einsum("ij,ij->i", centred, centred)
        self.right = np.vstack([centred.T, np.ones(len(norms)), norms])

    def dense(self, rows: Rows, out: Floats, some: Indices | None = None) -> Floats:
        """Write squared distances to all, or ``some``, centres into ``out``; return each row's smallest."""
        centers, right = self.centers, self.right
        if some is not None:
            centers, right = centers[some], right[:, some]
        np.matmul(self.left[rows], right, out=out)
        near = out.min(axis=1)
        small = DIRECT * self.norms[rows]
        suspect = np.flatnonzero(near <= small)
        if len(suspect):
            row, column = np.nonzero(out[suspect] <= small[suspect, None])
            row = suspect[row]
            gap = self.x[rows][row] - centers[column]
            out[row, column] = np.einsum("ij,ij->i", gap, gap)
            near[suspect] = out[suspect].min(axis=1)
        return near

    @property
    def block(self) -> int:
        """Rows of a dense block."""
        return max(8, ENTRIES // max(1, len(self.centers)))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def in_shards(n_records: int, work: Callable[[int, int, int], None]) -> None:
    """Call ``work(shard, start, stop)`` for fixed ranges of records, on all processors."""
    edges = np.linspace(0, -(-n_records // CHUNK), SHARDS + 1).astype(int) * CHUNK
    tasks = [(s, int(a), int(min(b, n_records))) for s, (a, b) in enumerate(pairwise(edges))]
    tasks = [task for task in tasks if task[1] < task[2]]
    with _BLAS, _controller().limit(limits=1, user_api="blas"):
        if len(tasks) == 1:
            work(*tasks[0])
            return
        with ThreadPoolExecutor(_threads()) as pool:
            for _ in pool.map(lambda task: work(*task), tasks):
                pass


def visit(geometry: Geometry, law: Law, drop: float, see: Callable[[int, Rows, Floats, Indices | None], None]) -> float:
    """Hand every block's memberships to ``see``; return the largest bound on a record's dropped mass.

    ``see(shard, rows, u, members)`` gets (B, q) memberships, and which centres the columns of each row are,
    (B, q), or None for all c in their order. It may overwrite ``u``.
    """
    width = tree_width(geometry, law, drop)
    tree = cKDTree(geometry.centers) if width else None
    worst = np.zeros(SHARDS)

    def dense(shard: int, rows: Rows, d2: Floats, u: Floats) -> None:
        near = law.settle(d2, geometry.dense(rows, d2))
        law.weigh(d2, near[:, None], u)
        u /= u.sum(axis=1, keepdims=True)
        see(shard, rows, u, None)

    def work(shard: int, start: int, stop: int) -> None:
        block, c = geometry.block, len(geometry.centers)
        d2, u = np.empty((block, c)), np.empty((block, c))
        for begin in range(start, stop, CHUNK if width else block):
            if tree is None:
                rows = slice(begin, min(begin + block, stop))
                size = rows.stop - begin
                dense(shard, rows, d2[:size], u[:size])
                continue
            left = np.arange(begin, min(begin + CHUNK, stop))
            kept, squares, members, bound = tree_lists(tree, geometry, law, left, width, drop)
            if kept.any():
                near = law.settle(squares, squares[:, 0].copy())
                weights = np.empty_like(squares)
                law.weigh(squares, near[:, None], weights)
                weights /= weights.sum(axis=1, keepdims=True)
                worst[shard] = max(worst[shard], bound.max())
                see(shard, left[kept], weights, members)
            left = left[~kept]
            for at in range(0, len(left), block):
                size = len(left[at : at + block])
                dense(shard, left[at : at + block], d2[:size], u[:size])

    in_shards(len(geometry.x), work)
    return float(worst.max())


def tree_lists(
    tree: cKDTree, geometry: Geometry, law: Law, rows: Indices, width: int, drop: float
) -> tuple[NDArray[np.bool_], Floats, Indices, Floats]:
    """Find the ``width`` nearest centres; keep records whose other centres weigh less than ``drop``.

    Returns (B,) bool, and for the records kept squared distances, centres, and the bound on what is left out.
    """
    distances, indices = tree.query(geometry.x[rows], width)
    squares, members = np.asarray(distances) ** 2, np.asarray(indices, dtype=np.intp)
    unlisted = np.full(len(rows), np.log(max(len(geometry.centers) - width, 1)))
    with np.errstate(invalid="ignore"):
        far = unlisted + (law.log_unit(squares[:, -1]) - law.log_unit(squares[:, 0]))
    # Undefined where even the last one found has the record on it: then others may.
    bound = np.where(np.isnan(far), np.inf, np.exp(np.minimum(far, 0.0)))
    kept = bound <= drop
    return kept, squares[kept], members[kept], bound[kept]


def tree_width(geometry: Geometry, law: Law, drop: float, most: int | None = None) -> int:
    """Return how many nearest centres suffice for nearly all records, or 0 where a tree does not pay."""
    x, c = geometry.x, len(geometry.centers)
    if x.shape[1] > TREE_COLUMNS or drop <= 0 or c < TREE_GAIN * TREE_WIDTHS[0]:
        return 0
    tree, rows = cKDTree(geometry.centers), np.unique(np.linspace(0, len(x) - 1, PROBES).astype(np.intp))
    for width in TREE_WIDTHS:
        if TREE_GAIN * width > c or (most is not None and width > most):
            break
        if tree_lists(tree, geometry, law, rows, width, drop)[0].mean() >= ENOUGH:
            return width
    return 0


@dataclass(frozen=True, eq=False, repr=False)
class Leaf:
    """The centres that carry all but a stated share of the mass of some neighbouring records.

    When the centres' path was ``path`` long all others lay at least ``reach`` away from each record and
    weighed at most exp(``mass``), both (B,).
    """

    members: Indices
    reach: Floats
    mass: Floats
    path: float


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """What a step needs: Σ u^m (x, 1) per centre, (t + 1, c), objective, dropped mass, share listed."""

    moments: Floats
    objective: float
    dropped: float
    listed: float


class Sweeper:
    """One pass over the records per step, remembering which centres matter to which neighbourhood."""

    def __init__(self, x: Floats, law: Law, drop: float, longest: int) -> None:
        self.law, self.drop, self.longest = law, drop, longest
        self.listing = drop > 0 and longest > 0
        edges = [len(x)]
        if self.listing:
            leaves = neighbourhoods(x, LEAF)
            x = x[np.concatenate(leaves)]
            edges = list(map(len, leaves))
        self.geometry = Geometry(x)
        self.edges = np.cumsum([0, *edges])
        self.leaves: list[Leaf | None] = [None] * len(edges)
        self.stubborn = np.zeros(len(edges), dtype=bool)
        self.path, self.spacing = 0.0, 0.0
        self.restless = np.zeros(0, dtype=bool)
        self.mass = np.zeros(0)
        self.previous: Floats | None = None

    def sweep(self, centers: Floats) -> Sums:
        """Sum over all records at these centres."""
        build = self._follow(centers)
        self.geometry.aim(centers)
        c, n = len(centers), len(self.geometry.x)
        width = tree_width(self.geometry, self.law, SPARE * self.drop, self.longest) if self.listing else 0
        if width and not build:
            # A tree is quick enough to draw up all lists anew, whatever the centres do.
            self.leaves = [None] * len(self.leaves)
            self.restless = self._lonely(c)
        tree = cKDTree(centers) if width else None
        moments = np.zeros((SHARDS, centers.shape[1] + 1, c))
        figures = np.zeros((SHARDS, 4))  # objective, Σ nearest d², dropped, records listed

        def work(shard: int, start: int, stop: int) -> None:
            sums = moments[shard], figures[shard]
            if not self.listing:
                self._all_centres(slice(start, stop), *sums)
                return
            waiting: list[int] = []
            # A leaf belongs to the shard in which it starts.
            first, last = np.searchsorted(self.edges[:-1], (start, stop))
            for number in range(first, last):
                if tree is not None and self.leaves[number] is None:
                    self.leaves[number] = self._from_tree(tree, self._rows(number), width)
                if not self._listed(number, *sums):
                    waiting.append(number)
                if waiting and (number == last - 1 or len(waiting) * LEAF >= self.geometry.block):
                    self._afresh(waiting, build and tree is None, *sums)
                    waiting = []

        in_shards(n, work)
        objective, nearest, _, listed = figures.sum(axis=0)
        self.spacing = float(np.sqrt(max(nearest, 0.0) / n))
        if self.law.rate:
            self.spacing = max(self.spacing, self.law.rate**-0.5)
        summed = moments.sum(axis=0)
        self.mass = summed[-1]
        return Sums(summed, float(objective), float(figures[:, 2].max()), float(listed / n))

    def _rows(self, number: int) -> slice:
        return slice(int(self.edges[number]), int(self.edges[number + 1]))

    def _follow(self, centers: Floats) -> bool:
        """Add to the path what the centres have moved, but for the restless few, which all will look at.

        Returns whether most are calm.
        """
        before, self.previous = self.previous, centers.copy()
        if before is None or not self.listing:
            self.restless = np.ones(len(centers), dtype=bool)
            return False
        moved = np.sqrt(((centers - before) ** 2).sum(axis=1)) * (1.0 + 1e-12)
        now = (moved > CALM * self.spacing) | self._lonely(len(centers))
        self.restless |= now
        if RESTLESS * np.count_nonzero(self.restless) > len(centers):
            # Too many by now, and most have calmed down: a new start.
            self.leaves = [None] * len(self.leaves)
            self.restless = now
        self.path += float(moved[~self.restless].max(initial=0.0))
        return bool(RESTLESS * np.count_nonzero(now) <= len(centers))

    def _lonely(self, c: int) -> NDArray[np.bool_]:
        """Find centres far from all records: what little reaches them decides where they go."""
        if not len(self.mass):
            return np.zeros(c, dtype=bool)
        return np.asarray(self.mass < LONELY * len(self.geometry.x) / c)

    def _add(
        self,
        rows: Rows,
        room: tuple[Floats, Floats],
        nearest: Floats,
        added: tuple[Floats, Floats],
        some: Indices | None,
    ) -> tuple[Floats, Floats]:
        """Add records to sums and figures, given squared distances to all or ``some`` centres and room for weights."""
        law, (d2, w), (sums, figures) = self.law, room, added
        near = law.settle(d2, nearest)
        law.weigh(d2, near[:, None], w)
        total = w.sum(axis=1)
        # w^(m−1) = d₁²/d², so that u^m needs no second power.
        raised, scale = w, 1.0 / total
        if not law.rate:
            raised, scale = np.divide(w, d2, out=d2), near * total**-law.m
        found = (self.geometry.rows[rows] * scale[:, None]).T @ raised
        if some is None:
            sums += found
        else:
            sums[:, some] += found
        figures[:2] += law.objective(nearest, total).sum(), nearest.sum()
        return total, near

    def _all_centres(self, rows: slice, sums: Floats, figures: Floats) -> None:
        block, c = self.geometry.block, sums.shape[1]
        d2, w = np.empty((block, c)), np.empty((block, c))
        for begin in range(rows.start, rows.stop, block):
            part = slice(begin, min(begin + block, rows.stop))
            size = part.stop - begin
            nearest = self.geometry.dense(part, d2[:size])
            self._add(part, (d2[:size], w[:size]), nearest, (sums, figures), None)

    def _afresh(self, numbers: list[int], build: bool, sums: Floats, figures: Floats) -> None:
        """Add leaves over all centres, and draw up their lists."""
        rows = np.concatenate([np.arange(self.edges[i], self.edges[i + 1]) for i in numbers])
        d2, w = np.empty((2, len(rows), sums.shape[1]))
        nearest = self.geometry.dense(rows, d2)
        total, near = self._add(rows, (d2, w), nearest, (sums, figures), None)
        begin = 0
        for number in numbers:
            part = slice(begin, begin + int(self.edges[number + 1] - self.edges[number]))
            begin = part.stop
            self.leaves[number] = None
            if build and not self.stubborn[number] and (nearest[part] > 0).all():
                self.leaves[number] = self._from_weights(w[part], total[part], near[part])
                self.stubborn[number] = self.leaves[number] is None

    def _listed(self, number: int, sums: Floats, figures: Floats) -> bool:
        """Add a leaf over its listed centres if they still suffice; say whether they did."""
        leaf, rows = self.leaves[number], self._rows(number)
        if leaf is None:
            return False
        some = np.concatenate([leaf.members[~self.restless[leaf.members]], np.flatnonzero(self.restless)])
        d2, w = np.empty((2, rows.stop - rows.start, len(some)))
        nearest = self.geometry.dense(rows, d2, some)
        far = self.law.log_far(leaf.mass, leaf.reach, self.path - leaf.path) - self.law.log_unit(nearest)
        bound = float(np.exp(min(far.max(), 0.0)))
        if bound > self.drop or nearest.min() <= 0:
            return False
        self._add(rows, (d2, w), nearest, (sums, figures), some)
        figures[2] = max(figures[2], bound)
        figures[3] += len(w)
        return True

    def _from_tree(self, tree: cKDTree, rows: slice, width: int) -> Leaf | None:
        at = np.arange(rows.start, rows.stop)
        kept, squares, members, _ = tree_lists(tree, self.geometry, self.law, at, width, SPARE * self.drop)
        if not kept.all():
            wider = 4 * width
            return self._from_tree(tree, rows, wider) if wider <= min(self.longest, WIDEST) else None
        mass = np.full(len(at), np.log(max(len(self.geometry.centers) - width, 1)))
        if self.law.power:
            mass += self.law.log_unit(squares[:, -1])
        return Leaf(np.unique(members), np.sqrt(squares[:, -1]), mass, self.path)

    def _from_weights(self, w: Floats, total: Floats, near: Floats) -> Leaf | None:
        """List the centres above a threshold that leaves most of the tolerance for their moves."""
        law, peak = self.law, w.max(axis=0)
        for room in ROOM:
            inside = peak >= room * self.drop
            if np.count_nonzero(inside) > self.longest:
                return None
            # EFCM's bound takes all of them for as near as the nearest.
            crude = room * self.drop * np.count_nonzero(~inside)
            if (crude if law.rate else (total - w @ inside).max()) <= 0.5 * SPARE * self.drop:
                break
        else:
            return None
        # Weights that underflowed count as the smallest number, distances as that number's.
        outside = np.maximum(w[:, ~inside], TINY)
        far, top = outside.sum(axis=1), outside.max(axis=1)
        if law.rate:
            reach, mass = np.sqrt(near - np.log(top) / law.rate), np.full(len(w), np.log(outside.shape[1]))
        else:
            reach, mass = np.sqrt(near * top ** (-1.0 / law.power)), np.log(far) + law.log_unit(near)
        return Leaf(np.flatnonzero(inside), reach, mass, self.path)


def neighbourhoods(x: Floats, size: int) -> list[Indices]:
    """Cut the records at medians of the widest column into groups of at most ``size``."""
    waiting, done = [np.arange(len(x))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= size:
            done.append(rows)
            continue
        part = x[rows]
        order = np.argsort(part[:, np.ptp(part, axis=0).argmax()], kind="stable")
        half = len(rows) // 2
        waiting += [rows[order[half:]], rows[order[:half]]]
    return done


class CrispSweeper:
    """The same sums where each record belongs to its nearest centre alone."""

    def __init__(self, x: Floats) -> None:
        self.x = x

    def sweep(self, centers: Floats) -> Sums:
        """Sum over all records at these centres."""
        distance, label = nearest(self.x, centers, 1)
        label, c = label[:, 0], len(centers)
        columns = [np.bincount(label, column, c) for column in self.x.T]
        moments = np.stack([*columns, np.bincount(label, minlength=c).astype(float)])
        return Sums(moments, float((distance**2).sum()), 0.0, 0.0)
