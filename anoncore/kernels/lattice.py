"""Full-domain generalisation: the levels of hierarchies that lose least, found in the lattice of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.key_groups import Items

Floats = NDArray[np.float64]
Groups = NDArray[np.intp]
# From the groups of the items, their numbers and units: which items are in a group that breaks a model.
Model = Callable[[Groups, NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
Mean = Literal["geometric", "arithmetic"]
MOST_NODES = 2_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Level:
    """One level of a key's hierarchy, for every item.

    Parameters
    ----------
    codes : (n,) int from 0, the generalised value
    cost : (n,) float, what is lost by releasing it in place of the value
    """

    codes: NDArray[np.int64]
    cost: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Key:
    """One key variable: its levels, and the cost (n,) of suppressing it, at least that of the highest level.

    Levels begin with the source's values, and costs do not fall from level to level.
    """

    levels: Sequence[Level]
    suppressed: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """Levels of all keys, what they lose, and which items are suppressed.

    Parameters
    ----------
    levels : of each key
    loss : mean of the keys' losses
    suppressed : (n,) bool
    groups : of the items that are not suppressed
    evaluated : nodes that were looked at to find this one; 0 for any other
    """

    levels: tuple[int, ...]
    loss: float
    suppressed: NDArray[np.bool_]
    groups: int
    evaluated: int = 0


def optimal_node(
    keys: Sequence[Key],
    models: Sequence[Model],
    *,
    weights: NDArray[np.int64],
    units: NDArray[np.int64],
    limit: float,
    mean: Mean,
    monotone: bool,
) -> Node:
    """Find the levels with the least loss under which at most a share of the records is suppressed.

    Parameters
    ----------
    keys : the key variables
    models : each says which items are in groups that break it; these are suppressed
    weights, units : (n,) records that each item stands for, and its statistical unit
    limit : the largest share of the records that may be suppressed
    mean : of the keys' losses, each the mean of its cells' costs: arithmetic, or geometric of 1 + loss
    monotone : whether an item that breaks no model breaks none in any larger group

    Returns
    -------
    Node, of several with the same loss the one that comes first in the order of lower bounds

    Raises
    ------
    InfeasibleError
        When even the highest levels suppress more.
    AnonymizationError
        When the lattice has more than 2 000 000 nodes.

    Notes
    -----
    Claim: no node that suppresses at most ``limit`` loses less. Nodes are visited by what they lose without
    suppression, a lower bound, until it exceeds the least loss met. Where models are monotone, binary search on a chain
    from a node to the top first finds nodes that suppress too much, below which all do.

    Source: Kohlmayer, Prasser, Eckert, Kemper and Kuhn 2012, Flash: efficient, stable and optimal k-anonymity (chains
    and tagging), and Prasser, Kohlmayer and Kuhn 2016, Efficient and effective pruning strategies for health data
    de-identification (lower bounds).

    Examples
    --------
    >>> key = Key([Level(np.array([0, 1]), np.zeros(2)), Level(np.array([0, 0]), np.ones(2))], np.ones(2))
    >>> alone = {"weights": np.ones(2, dtype=np.int64), "units": np.arange(2)}
    >>> optimal_node([key], [at_least(2)], **alone, limit=0.0, mean="arithmetic", monotone=True).levels
    (1,)
    """
    search = _Search.of(keys, models, weights, units, limit, mean)
    best: Node | None = None
    while (at := search.next(best)) is not None:
        for node in search.chain(at, best) if monotone else [search.evaluate(at)]:
            if node is not None and (best is None or (node.loss, node.levels) < (best.loss, best.levels)):
                best = node
    if best is None:
        raise InfeasibleError(
            "even the highest levels of the hierarchies suppress more records than allowed; raise the suppression "
            "limit, add higher levels or weaken the models"
        )
    return replace(best, evaluated=search.evaluated)


def node_at(
    keys: Sequence[Key],
    levels: Sequence[int],
    models: Sequence[Model],
    *,
    weights: NDArray[np.int64],
    units: NDArray[np.int64],
    mean: Mean,
) -> Node:
    """Return what stated levels lose, whatever they suppress; arguments as of `optimal_node`."""
    alone = [Key([key.levels[level]], key.suppressed) for key, level in zip(keys, levels, strict=True)]
    node = _Search.of(alone, models, weights, units, 1.0, mean).evaluate(0)
    assert node is not None
    return replace(node, levels=tuple(levels))


class _Search:
    """The lattice as an array with one axis for each key, and what is known of its nodes.

    Nodes are known by their place in the flattened array; ``order`` lists them by rising lower bound, and ``rank``
    says at which position.
    """

    def __init__(self, bounds: Floats, evaluator: _Evaluator) -> None:
        self._bounds, self._evaluator = bounds, evaluator
        flat = bounds.ravel()
        self._order = np.argsort(flat, kind="stable")
        self._rank = np.empty(len(flat), dtype=np.intp)
        self._rank[self._order] = np.arange(len(flat))
        self._done = np.zeros(bounds.shape, dtype=bool)
        self._strides = [int(np.prod(bounds.shape[v + 1 :])) for v in range(bounds.ndim)]
        self._next = self.evaluated = 0

    @classmethod
    def of(
        cls,
        keys: Sequence[Key],
        models: Sequence[Model],
        weights: NDArray[np.int64],
        units: NDArray[np.int64],
        limit: float,
        mean: Mean,
    ) -> _Search:
        """Compute the lower bounds."""
        size = int(np.prod([float(len(key.levels)) for key in keys]))
        if size > MOST_NODES:
            raise AnonymizationError(
                f"the hierarchies have {size} combinations of levels, more than {MOST_NODES}; use fewer keys or levels"
            )
        means = [np.array([np.average(one.cost, weights=weights) for one in key.levels]) for key in keys]
        grid = np.stack(np.meshgrid(*means, indexing="ij"), axis=-1)
        bounds = mean_loss(grid.reshape(size, len(means)), mean).reshape(grid.shape[:-1])
        return cls(bounds, _Evaluator(keys, models, weights, units, limit, mean))

    def next(self, best: Node | None) -> int | None:
        """Return the node with the least bound that may be better than the best one; None when there is none left."""
        while self._next < len(self._order):
            at = int(self._order[self._next])
            if not self._done.flat[at]:
                return at if best is None or self._bounds.flat[at] < best.loss else None
            self._next += 1
        return None

    def evaluate(self, at: int) -> Node | None:
        """Return a node, or None where it suppresses too much."""
        self._done.flat[at] = True
        self.evaluated += 1
        return self._evaluator.node(self._levels(at))

    def chain(self, at: int, best: Node | None) -> Iterator[Node]:
        """Yield the nodes that binary search on a chain from a node upwards visits, and rule out what is below."""
        chain = list(self._upwards(at, best))
        low, high = 0, len(chain)
        while low < high:
            middle = (low + high) // 2
            if (node := self.evaluate(chain[middle])) is not None:
                yield node
                high = middle
            else:
                self._done[tuple(slice(level + 1) for level in self._levels(chain[middle]))] = True
                low = middle + 1

    def _levels(self, at: int) -> tuple[int, ...]:
        return tuple(at // stride % length for stride, length in zip(self._strides, self._bounds.shape, strict=True))

    def _upwards(self, at: int, best: Node | None) -> Iterator[int]:
        """Yield a node and its successors, each the one with the least bound, as far as they matter."""
        while True:
            yield at
            levels = zip(self._levels(at), self._strides, self._bounds.shape, strict=True)
            above = [at + stride for level, stride, length in levels if level + 1 < length]
            above = [one for one in above if not self._done.flat[one]]
            if not above:
                return
            at = min(above, key=self._rank.__getitem__)
            if best is not None and self._bounds.flat[at] >= best.loss:
                return


class _Evaluator:
    """What levels lose, from the items packed once for every level."""

    def __init__(
        self,
        keys: Sequence[Key],
        models: Sequence[Model],
        weights: NDArray[np.int64],
        units: NDArray[np.int64],
        limit: float,
        mean: Mean,
    ) -> None:
        widest = np.array(
            [[max(int(level.codes.max(initial=0)) for level in key.levels) for key in keys]], dtype=np.int32
        )
        packed = Items(widest, None)
        # The fields hold the codes of every level; of each the word, and the lowest bit in it.
        self._word = packed.fields.argmax(axis=1)
        lows = [int(field[word]) & -int(field[word]) for field, word in zip(packed.fields, self._word, strict=True)]
        self._columns = [
            [level.codes.astype(np.uint64) * np.uint64(low) for level in key.levels]
            for key, low in zip(keys, lows, strict=True)
        ]
        self._costs = [[level.cost * weights for level in key.levels] for key in keys]
        self._suppressed = [key.suppressed * weights for key in keys]
        self._words = 1 + int(self._word.max(initial=0))
        self._models, self._weights, self._units, self._mean = models, weights, units, mean
        self._records = int(weights.sum())
        self._limit = limit * self._records

    def node(self, levels: tuple[int, ...]) -> Node | None:
        """Return what levels lose; None where they suppress too much."""
        from anoncore.kernels._key_groups_compiled import group_of

        words = np.zeros((self._words, len(self._weights)), dtype=np.uint64)
        for column, word, level in zip(self._columns, self._word, levels, strict=True):
            words[word] |= column[level]
        group = group_of(words, np.full(self._words, ~np.uint64(0)))
        bad = np.zeros(len(group), dtype=bool)
        for model in self._models:
            bad |= model(group, self._weights, self._units)
            suppressed = int(self._weights[bad].sum())
            if suppressed > self._limit:
                return None
        kept = ~bad
        costs = zip(self._costs, self._suppressed, levels, strict=True)
        losses = np.array([[cost[level] @ kept + most @ bad for cost, most, level in costs]]) / self._records
        loss = float(mean_loss(losses, self._mean)[0])
        return Node(levels, loss, bad, int((kept & (group == np.arange(len(group)))).sum()))


def mean_loss(losses: Floats, mean: Mean) -> Floats:
    """Return (m,) the mean of losses (m, p): arithmetic, or geometric of 1 + loss.

    Examples
    --------
    >>> mean_loss(np.array([[0.0, 3.0]]), "geometric").tolist()
    [1.0]
    """
    return np.asarray(np.expm1(np.log1p(losses).mean(axis=1)) if mean == "geometric" else losses.mean(axis=1))


def at_least(k: int) -> Model:
    """Return the model that a group is of k statistical units.

    Examples
    --------
    >>> at_least(2)(np.array([0, 0, 2]), np.ones(3, dtype=np.int64), np.arange(3)).tolist()
    [False, False, True]
    """

    def few(group: Groups, weights: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.bool_]:
        from anoncore.kernels._key_groups_compiled import unit_counts

        return np.asarray(unit_counts(group, weights, units) < k)

    return few


def diverse(values: NDArray[np.int64], number: int) -> Model:
    """Return the model that so many of the (n,) values are in a group, of each unit its first.

    Examples
    --------
    >>> diverse(np.array([5, 5, 5, 6]), 2)(np.array([0, 0, 2, 2]), np.ones(4, dtype=np.int64), np.arange(4)).tolist()
    [True, True, False, False]
    """
    kinds = int(values.max(initial=0)) + 1

    def alike(group: Groups, weights: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.bool_]:
        first = np.unique(group * (int(units.max(initial=0)) + 1) + units, return_index=True)[1]
        pairs = np.unique(group[first] * kinds + values[first])
        return np.asarray(np.bincount(pairs // kinds, minlength=len(group))[group] < number)

    return alike


def close(values: NDArray[np.int64], most: float, *, ordered: bool, weights: NDArray[np.int64]) -> Model:
    """Return the model that the (n,) values 0 … q − 1 of a group are distributed nearly as all are.

    Examples
    --------
    >>> one = np.ones(4, dtype=np.int64)
    >>> near = close(np.array([0, 1, 0, 0]), 0.3, ordered=False, weights=one)
    >>> near(np.array([0, 0, 2, 2]), one, np.arange(4)).tolist()
    [False, False, False, False]
    """
    number = int(values.max(initial=0)) + 1
    whole = np.bincount(values, weights, minlength=number) / weights.sum()

    def far(group: Groups, weights: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.bool_]:
        kinds, own = np.unique(group, return_inverse=True)
        return np.asarray((distances(own, len(kinds), values, weights, whole, ordered=ordered) > most + 1e-12)[own])

    return far


def distances(
    group: Groups, groups: int, values: NDArray[np.int64], weights: NDArray[np.int64], whole: Floats, *, ordered: bool
) -> Floats:
    """Return (G,) the earth mover's distance of each group's distribution from ``whole`` (q,).

    Source: Li, Li and Venkatasubramanian 2007, t-closeness, with the equal and the ordered distance.

    Examples
    --------
    >>> of = np.array([0, 1, 1]), 2, np.array([0, 0, 1]), np.ones(3, dtype=np.int64), np.array([0.5, 0.5])
    >>> distances(*of, ordered=False).tolist()
    [0.5, 0.0]
    """
    q = len(whole)
    table = np.bincount(group * q + values, weights, minlength=groups * q).reshape(groups, q)
    excess = table / np.maximum(table.sum(axis=1, keepdims=True), 1) - whole
    if ordered:
        return np.asarray(np.abs(excess.cumsum(axis=1)).sum(axis=1) / max(q - 1, 1))
    return np.asarray(np.abs(excess).sum(axis=1) / 2)
