"""Partial copies: released records that hold a random part of one person's values beside values of another person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.agreement import Places, Weights, agreement_sums
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._values import ComparedPeople, SortedValues
from anoncore.risk.scores import SINGLE, AttackFamily, Certainty, NamedAttack

HALF = "a random half"

_HALF = 0.5  # probability that a value is copied, in a record that is copied in part
_COPIED = 0.02  # share of the released records that are taken to be copied in part
_PEOPLE = 2000  # scored on each side
_VARIABLES = 60  # of more a random choice: half of them leave no doubt
_CLASSES, _LEVELS = 8, 11  # of a number, and of the levels, for associations; further levels are one class
_SHRUNK = 2.0  # people by which observed and expected counts of two classes are enlarged
_ROWS = 2048  # released records at a time
_CERTAIN = np.float32(40.0)  # log of the largest likelihood ratio that is believed

Classes = NDArray[np.intp]


@dataclass(frozen=True)
class PartialCopies(AttackFamily):
    """The attack by released records that share a part of a person's values, weighed by how rare that part is."""

    meaning: ClassVar[str] = (
        "How well members are distinguished from non-members by released records that seem to hold a random half of a "
        "person’s values beside those of another person; 0.5 is guessing."
    )


def partial_copies(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    certainty: Certainty = SINGLE,
    rng: np.random.Generator,
) -> PartialCopies | None:
    """Attack membership by the expected number of released records that hold a part of a person's values.

    The likelihood ratio LR(x, y) compares two origins of the released record y: each of its values is that of person x
    with probability ½ and otherwise that of one other person; or all are of one other person. Values of other people
    follow a dependence tree, so that LR = Π f_j · Π g_jp / (f_j f_p) over variables j and edges (j, p), with
    a_j = [x_j = y_j], s_j the share of other people who hold y_j, r the ratio of the joint share of the classes of y_j
    and y_p to the product of their shares, f_j = ½ + ½ a_j/s_j and
    g_jp = ¼ + ¼ (a_j/s_j + a_p/s_p)/r + ¼ a_j a_p/(s_j s_p r). A person scores the sum over released records of the
    posterior probability of being the one copied from, where a record is copied with probability 0.02, from anyone of
    the P people scored alike: Σ_y c·LR(x, y) / (1 − c + c·Σ_z LR(z, y)), c = 0.02/P.

    Parameters
    ----------
    original, released, reference : Microdata; members, what is published, and non-members
    certainty : of the bounds; the lower ones hold for all attacks together
    rng : Generator, draws people and variables where there are many

    Returns
    -------
    PartialCopies, of one form, or None where there are fewer than four people on a side or no variable in common

    Notes
    -----
    The product of independent weights takes agreement on associated variables for more than it is, and does not see
    that values of two people do not go together; the edges mend both. Shares, tree and scores treat members and
    non-members alike.

    Sources: Chow and Liu 1968, *IEEE Trans. Inf. Theory* 14, 462–467 (dependence tree); Fellegi and Sunter 1969, *JASA*
    64, 1183–1210 (agreement as a likelihood ratio); the two are joined here. O(P·M·n).

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> draw, names = np.random.default_rng(0), list("abcdefgh")
    >>> schema = Schema([Variable(name, "ordinal", levels=range(9)) for name in names])
    >>> tables = [pd.DataFrame(draw.integers(9, size=(300, 8)), columns=names) for _ in range(3)]
    >>> halves = tables[2].assign(**{name: tables[0][name] for name in "abcd"})
    >>> a, b, c = (Microdata(table, schema) for table in (*tables[:2], halves))
    >>> partial_copies(a, c, b, rng=np.random.default_rng(1)).worst.attack.area.auc > 0.7
    True
    """
    halves = ScoredHalves.of(original, released, reference, rng)
    return None if halves is None else halves.attack(certainty)


@dataclass(frozen=True, eq=False, repr=False)
class ScoredHalves:
    """How many released records are expected to hold a random half of each person's values.

    Parameters
    ----------
    people : members and non-members
    scores : (P,) expected numbers
    """

    people: ComparedPeople
    scores: Floats

    @classmethod
    def of(
        cls, original: Microdata, released: Microdata, reference: Microdata, rng: np.random.Generator
    ) -> ScoredHalves | None:
        """Score people; see `partial_copies`."""
        people = ComparedPeople.of(original, released, reference, rng, _PEOPLE)
        return None if people is None else cls(people, _scores(_Tree.of(people, rng), len(people)))

    def attack(self, certainty: Certainty) -> PartialCopies:
        """Attack membership by the scores."""
        return PartialCopies((NamedAttack(HALF, self.people.attack(self.scores, certainty)),), *self.people.n_units)


def _scores(tree: _Tree, people: int) -> Floats:
    """Return the expected number of released records that are copied from each person in part."""
    scores, each = np.zeros(people), np.float32(_COPIED / people)
    for ratios in tree.ratios():
        ratios *= each
        ratios /= np.float32(1.0 - _COPIED) + ratios.sum(axis=0)
        scores += ratios.sum(axis=1)
    return scores


@dataclass(frozen=True, eq=False, repr=False)
class _Tree:
    """What agreement of a person with each released record weighs, along a dependence tree.

    Parameters
    ----------
    asked : (P, n) int32, codes of the people's values
    rows : (n, M) int32, codes of the released values
    parents : (n,) int32, of each variable; −1 of the first
    weights : (2, n, M) log weight of agreement in a variable, and what agreement in its parent, too, adds
    none : (M,) log weight of no agreement
    """

    asked: Places
    rows: Places
    parents: Places
    weights: Weights
    none: Weights

    @classmethod
    def of(cls, people: ComparedPeople, rng: np.random.Generator) -> _Tree:
        n, size = len(people.names), len(people)
        chosen = np.sort(rng.choice(n, _VARIABLES, replace=False)) if n > _VARIABLES else np.arange(n)
        codes, shares, classes = [], [], []
        for j in chosen:
            both = np.concatenate([people.values[j], people.released[j]])
            places = SortedValues(both).places
            held = np.bincount(places[:size], minlength=places.max() + 1)
            codes.append(places.astype(np.int32))
            shares.append((np.maximum(held[places[size:]], 1) - 0.5) / size)
            classes.append(_classes(people.values[j], both, bool(people.numeric[j])))
        parents, ratios = _joined(classes, size)
        weights, none = _weights(np.array(shares), parents, ratios)
        sides = np.array(codes)
        asked, rows = np.ascontiguousarray(sides[:, :size].T), np.ascontiguousarray(sides[:, size:])
        return cls(asked, rows, parents.astype(np.int32), weights, none)

    def ratios(self) -> Iterator[Weights]:
        """Give the (P, m) likelihood ratios of all people with some rows at a time."""
        for start in range(0, self.rows.shape[1], _ROWS):
            part = np.s_[..., start : start + _ROWS]
            rows, weights = np.ascontiguousarray(self.rows[part]), np.ascontiguousarray(self.weights[part])
            sums = agreement_sums(self.asked, self.parents, rows, weights, self.none[part])
            yield np.exp(np.minimum(sums, _CERTAIN, out=sums), out=sums)


def _classes(known: Floats, values: Floats, numeric: bool) -> Classes:
    """Return the class of each value: an eighth of the known numbers, a frequent level or the others; or missing."""
    present, counts = np.unique(known[~np.isnan(known)], return_counts=True)
    if numeric and len(present) > _LEVELS:
        cuts = np.unique(np.quantile(known[~np.isnan(known)], np.arange(1, _CLASSES) / _CLASSES))
        return np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values, side="right"))
    frequent = np.sort(present[np.argsort(-counts, kind="stable")[:_LEVELS]])
    place = np.searchsorted(frequent, values)
    known_level = np.append(frequent, np.nan)[np.minimum(place, len(frequent))] == values
    return np.where(np.isnan(values), len(frequent) + 1, np.where(known_level, place, len(frequent)))


def _joined(classes: list[Classes], size: int) -> tuple[Classes, Floats]:
    """Return the parent of each variable, and (n, M) the ratios of joint to expected shares of the released classes."""
    n = len(classes)
    parents, best = np.full(n, -1), np.full(n, -np.inf)
    ratios, tables = np.ones((n, len(classes[0]) - size)), [np.ones((1, 1))] * n
    left = set(range(n))
    at = 0
    # Prim's algorithm: the variable most informative about one that is in the tree comes next.
    while True:
        left.remove(at)
        if parents[at] >= 0:
            ratios[at] = tables[at][classes[at][size:], classes[parents[at]][size:]]
        if not left:
            return parents, ratios
        for j in left:
            information, table = _information(classes[j][:size], classes[at][:size], int(classes[j].max()) + 1)
            if information > best[j]:
                wide = np.ones((table.shape[0], max(table.shape[1], int(classes[at].max()) + 1)))
                wide[:, : table.shape[1]] = table
                best[j], parents[j], tables[j] = information, at, wide
        at = max(left, key=lambda j: (best[j], -j))


def _information(one: Classes, other: Classes, height: int) -> tuple[float, Floats]:
    """Return the mutual information of two variables, and the ratio of observed to expected counts of their classes."""
    width = int(other.max()) + 1
    counts = np.bincount(one * width + other, minlength=height * width).reshape(height, width).astype(np.float64)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / len(one)
    ratio = (counts + _SHRUNK) / (expected + _SHRUNK)
    return float((counts * np.log(ratio)).sum()) / len(one), ratio


def _weights(shares: Floats, parents: Classes, ratios: Floats) -> tuple[Weights, Weights]:
    """Return the log weights of agreement, alone and with the parent, and of none; see `_Tree`."""
    h, gain = _HALF, _HALF / shares
    alone, both = np.log1p(gain / (1.0 - h)), np.zeros_like(shares)
    none = np.full(shares.shape[1], len(shares) * np.log(1.0 - h))
    for j, p in enumerate(parents):
        if p < 0:
            continue
        # Logs of g/(f f) where j, its parent, or both agree; where neither does it is 1.
        own, theirs, r = gain[j] / (1.0 - h), gain[p] / (1.0 - h), ratios[j]
        one, other = np.log((1.0 + own / r) / (1.0 + own)), np.log((1.0 + theirs / r) / (1.0 + theirs))
        pair = np.log((1.0 + (own + theirs + own * theirs) / r) / ((1.0 + own) * (1.0 + theirs)))
        alone[j] += one
        alone[p] += other
        both[j] = pair - one - other
    return np.stack([alone, both]).astype(np.float32), none.astype(np.float32)
