"""Where the positions of a signal lie: on a line, on a grid, or on a graph of neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pywt
from numpy.typing import NDArray
from scipy.sparse import csr_array, kron
from scipy.sparse.csgraph import shortest_path

from anoncore.errors import AnonymizationError
from anoncore.kernels.wavelet.decomposition import MODE, Decomposition, Floats, decompose, sparse_reconstruction

Integers = NDArray[np.intp]


@dataclass(frozen=True)
class Line:
    """Positions one after the other; the last one borders on the first for the transform."""

    title: ClassVar[str] = "in a line"

    def reconstruction(self, length: int, wavelet: str, level: int) -> csr_array[np.float64]:
        """Return (n, n / 2^level): `sparse_reconstruction`."""
        return sparse_reconstruction(length, wavelet, level)

    def decompose(self, signal: Floats, wavelet: str, level: int) -> Decomposition:
        """Return the parts of a signal (n,): `decompose`."""
        return decompose(signal, wavelet, level)

    def distances(self, length: int) -> Floats | None:
        """Return None: distances are differences of positions."""
        return None


@dataclass(frozen=True)
class Grid:
    """Positions row by row; opposite borders touch for the transform.

    The transform is the separable one of two dimensions: each level halves rows and columns, and its details are the
    horizontal, vertical and diagonal ones together. Source: Mallat 1989, A theory for multiresolution signal
    decomposition, section IV.

    Parameters
    ----------
    columns : int, positions in a row

    Examples
    --------
    >>> Grid(2).decompose(np.array([1.0, 3.0, 4.0, 8.0]), "haar", 1).approximation.round(9).tolist()
    [4.0, 4.0, 4.0, 4.0]
    """

    title: ClassVar[str] = "on a grid"
    columns: int

    def _check(self, length: int, level: int) -> None:
        """Raise where rows or columns do not suit the level."""
        rows, step = length // self.columns, 2**level
        if rows * self.columns != length or rows % step or self.columns % step:
            raise AnonymizationError(
                f"a grid of {length} positions in {self.columns} columns cannot be decomposed to level {level}: rows "
                f"and columns must be full and multiples of {step}; add areas without records, or take fewer levels"
            )

    def reconstruction(self, length: int, wavelet: str, level: int) -> csr_array[np.float64]:
        """Return (n, n / 4^level): column j is the reconstruction of the j-th unit approximation coefficient."""
        down = sparse_reconstruction(length // self.columns, wavelet, level)
        across = sparse_reconstruction(self.columns, wavelet, level)
        return csr_array(kron(down, across, format="csr"))

    def decompose(self, signal: Floats, wavelet: str, level: int) -> Decomposition:
        """Split a signal (n,) into an approximation and details that add up to it."""
        self._check(len(signal), level)
        table, smooth = np.array(signal, dtype=float).reshape(-1, self.columns), [signal]
        with warnings.catch_warnings():
            # Periodised, a filter longer than a side is wrapped round and still inverts.
            warnings.filterwarnings("ignore", message="Level value of", category=UserWarning)
            for step in range(1, level + 1):
                coefficients = pywt.wavedec2(table, wavelet, mode=MODE, level=step)[0].ravel()
                smooth.append(self.reconstruction(len(signal), wavelet, step) @ coefficients)
        return Decomposition(coefficients, smooth[-1], np.array([a - b for a, b in pairwise(smooth)]))

    def distances(self, length: int) -> Floats:
        """Return (n, n): steps between positions along rows and columns, borders not joined."""
        row, column = np.divmod(np.arange(length), self.columns)
        return np.asarray(np.abs(np.subtract.outer(row, row)) + np.abs(np.subtract.outer(column, column)), dtype=float)


@dataclass(frozen=True)
class Graph:
    """Positions with neighbours. Each level joins neighbours in pairs; what a pair leaves of a signal is its mean.

    The wavelets are Haar's on the tree of these joins: orthonormal, with the constant among the approximations. A
    position without a free neighbour joins the pair of one. Source: Gavish, Nadler and Coifman 2010, Multiscale
    wavelets on trees, graphs and high dimensional data, section 3; pairs by heavy-edge matching, Karypis and Kumar
    1998, with neighbours of few neighbours first.

    Parameters
    ----------
    edges : pairs of positions, in either order

    Examples
    --------
    >>> path = Graph(((0, 1), (1, 2), (2, 3)))
    >>> path.decompose(np.array([1.0, 3.0, 4.0, 8.0]), "haar", 1).approximation.round(9).tolist()
    [2.0, 2.0, 6.0, 6.0]
    """

    title: ClassVar[str] = "on a graph of neighbours"
    edges: tuple[tuple[int, int], ...]

    def clusters(self, length: int, level: int) -> Integers:
        """Return (n,) the connected set of positions that each position is joined to after so many levels."""
        label = np.arange(length)
        for _ in range(level):
            label = _joined(label[np.array(self.edges, dtype=np.intp).reshape(-1, 2)], int(label.max()) + 1)[label]
        return label

    def reconstruction(self, length: int, wavelet: str, level: int) -> csr_array[np.float64]:
        """Return (n, sets of positions): the orthonormal indicators of the sets."""
        label = self.clusters(length, level)
        size = np.bincount(label)
        values = 1.0 / np.sqrt(size[label])
        return csr_array((values, (np.arange(length), label)), shape=(length, len(size)))

    def decompose(self, signal: Floats, wavelet: str, level: int) -> Decomposition:
        """Split a signal (n,) into an approximation and details that add up to it."""
        smooth = [np.array(signal, dtype=float)]
        for step in range(1, level + 1):
            basis = self.reconstruction(len(signal), wavelet, step)
            coefficients = basis.T @ smooth[0]
            smooth.append(basis @ coefficients)
        return Decomposition(coefficients, smooth[-1], np.array([a - b for a, b in pairwise(smooth)]))

    def distances(self, length: int) -> Floats:
        """Return (n, n): edges on the shortest path; n where there is none."""
        a, b = np.array(self.edges, dtype=np.intp).reshape(-1, 2).T
        near = csr_array((np.ones(len(a)), (a, b)), shape=(length, length))
        steps = shortest_path(near, directed=False, unweighted=True)
        return np.asarray(np.where(np.isfinite(steps), steps, length), dtype=float)


Layout = Line | Grid | Graph


def _joined(edges: Sequence[Sequence[int]] | Integers, nodes: int) -> Integers:
    """Return (nodes,) the pair that each node joins, numbered from 0 by first member."""
    near: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in edges:
        if a != b:
            near[a].add(int(b))
            near[b].add(int(a))

    def few_first(node: int) -> tuple[int, int]:
        return len(near[node]), node

    pair = np.full(nodes, -1, dtype=np.intp)
    members: list[int] = []
    for node in sorted(range(nodes), key=few_first):
        free = [other for other in near[node] if pair[other] < 0]
        if pair[node] < 0 and free:
            pair[[node, min(free, key=few_first)]] = len(members)
            members.append(2)
    for node in np.flatnonzero(pair < 0).tolist():
        joins = [int(pair[other]) for other in near[node] if pair[other] >= 0]
        smallest = min(joins, key=lambda one: (members[one], one), default=len(members))
        members += [0] * (smallest == len(members))
        members[smallest] += 1
        pair[node] = smallest
    first, rank = np.unique(pair, return_index=True, return_inverse=True)[1:]
    return np.asarray(np.argsort(np.argsort(first))[rank])
