"""Membership by densities: where the release is denser than the population, members are near."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from anoncore.microdata.units import ComparedUnits, Units, unit_codes
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk._trees import boosted
from anoncore.risk._values import AT_MOST, drawn_records
from anoncore.risk.chosen_variables import CHOSEN, IN_BOTH_HALVES, by_chosen_variables
from anoncore.risk.density_ratios import (
    ALL_COLUMNS,
    RAREST,
    STILL,
    People,
    Views,
    halves_of_units,
    ratio_scores,
    uncorrelated,
)
from anoncore.risk.one_group import groupings, in_one_group
from anoncore.risk.scores import SINGLE, AttackFamily, Certainty, NamedAttack, ScoreAttack, score_attack

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

TRACING = "tracing"
ONE_GROUP = "density ratios, in one group of people"
_NEAREST = "1 neighbour"  # in the names of ratios; several neighbours hide who is nearest in a group
_LEAST = 40  # people on each side for a classifier
_TRAINED = 20_000  # rows that a classifier learns from
# Classes of a number, by rank; and a share of the variance that is added lest directions without people count.
_CLASSES, _RIDGE = 8, 0.3


@dataclass(frozen=True)
class Density(AttackFamily):
    """The attacks by densities: ratios of distances to the nearest and fifth nearest, tracing, and a classifier.

    Parameters
    ----------
    chosen : the variables by which members are distinguished best in either half of the people
    """

    meaning: ClassVar[str] = (
        "How well members are distinguished from non-members by how much denser the release is around them than the "
        "population; 0.5 is guessing."
    )

    chosen: tuple[str, ...] = ()

    @property
    def driving(self) -> tuple[str, ...]:
        """Return the chosen variables where the worst form is theirs."""
        return self.chosen if CHOSEN in (self.worst.name, self.worst_top.name) else ()


def density(
    original: ArrayLike,
    reference: ArrayLike,
    released: ArrayLike,
    *,
    views: Views = ALL_COLUMNS,
    certainty: Certainty = SINGLE,
    rng: np.random.Generator,
) -> Density:
    """Attack membership by comparing the density of the release with that of the population.

    The ratio attack scores log r_k(people) − log r_k(release), with r_k the distance to the k-th nearest record, of
    people to that of another unit: the ratio allows for people who are near everybody. It is made once more with a
    release whose columns have the distributions of the non-members, where they are apart, and with one whose shrinkage
    is undone, where there is any; with parts of the columns, since columns that were exchanged hide in a distance how
    near the others are; with numbers among records, of both sides, that share the rarest of a person's levels; and with
    the variables that distinguish the other half of the people best (`anoncore.risk.chosen_variables`). The ratios with
    one neighbour are compared once more in each group of people who share one or two levels or a quarter of a number
    (`anoncore.risk.one_group`). The classifier attack scores people by boosted trees that have learned to distinguish
    half of the released rows from half of the non-members; members of one half and the non-members of the other are
    scored with them, in turn, so that no one is scored by what learned from them. The tracing attack adds up, over
    levels, numbers and eighths of numbers, by how much more frequent what a person holds is in the release than among
    non-members, decorrelated; and once more with the products of two columns, since a release that keeps the members'
    covariances tells of each of them by all products together. Each non-member is compared without the own unit.

    Parameters
    ----------
    original, reference, released : (N, n), (L, n) and (M, n), one encoding, in standard deviations; of more than
        5000 records on a side a sample of whole units is scored
    views : other columns of the same records, and parts of them
    certainty : of the bounds; the lower ones hold for all forms of all attacks together; with the units of all people
    rng : Generator, for samples and the classifier

    Returns
    -------
    Density, without the classifier where a side has fewer than 40 units, and without tracing where all non-members are
    one

    Raises
    ------
    AnonymizationError
        When the tables do not fit together.

    Notes
    -----
    Tracing compares the release with n non-members, whose means err by 1/n where those of N members move it by 1/N:
    by N non-members the standard deviations between members and others are √((1 + N/n)/2) times as many. The upper
    bound of tracing is that of N non-members; what is proved, and the figure, is that of n. An attacker with many
    more strangers than the reference holds gains another √2 at most. Attacks on halves of the members make up for
    part of it: on releases by trees the halves' form had an area of 0.578, the classifier with a reference alone
    0.550.

    Sources: van Breugel et al. 2023, "Membership inference attacks against synthetic data through overfitting
    detection" (DOMIAS), with nearest neighbours as densities; Hayes et al. 2019, "LOGAN", *PoPETs* 2019(1), 133–152,
    with trees in place of the discriminator; Homer et al. 2008, *PLoS Genetics* 4(8), e1000167, and Dwork et al. 2015,
    "Robust traceability from trace amounts", *FOCS*, with the pooled covariance; products as in the likelihood ratio of
    two normal distributions, Neyman and Pearson 1933.

    Examples
    --------
    >>> members, others = np.random.default_rng(0).normal(size=(2, 300, 3))
    >>> density(members, others, members + 1e-3, rng=np.random.default_rng(1)).worst.attack.area.auc > 0.99
    True
    """
    sides = [matrix("original", original)]
    width = sides[0].shape[1]
    sides.append(matrix("reference", reference, width))
    points, all_members = matrix("released", released, width), len(sides[0])
    of_units = certainty.units.members, certainty.units.nonmembers
    drawn = [drawn_records(of, len(side), AT_MOST, rng) for of, side in zip(of_units, sides, strict=True)]
    sides = [side[rows] for side, rows in zip(sides, drawn, strict=True)]
    people, units = np.concatenate(sides), certainty.units.take(*drawn)
    scored = People(people, len(sides[0]), units)
    seen = views.of_people(*drawn)
    ratios, names = ratio_scores(scored, points, seen, rng), tuple[str, ...]()
    if seen.coded is not None and (chosen := by_chosen_variables(seen.coded, scored.halves(rng), rng)) is not None:
        ratios[CHOSEN], names = chosen.scores, chosen.names
    scores = dict(ratios)
    if len(np.unique(unit_codes(units.nonmembers, len(sides[1])))) > 1:
        scores[TRACING] = _traced(sides[0], sides[1], points, units.nonmembers)
        scores[f"{TRACING} by products"] = _traced_by_products(sides[0], sides[1], points, units.nonmembers)
    learned = _classified(sides[0], sides[1], points, units, rng)
    if learned is not None:
        scores["classifier"] = learned
    n, certain = len(sides[0]), replace(certainty.over(len(scores) + 1), units=units)
    times = all_members / len(sides[1])
    judged = {
        name: score_attack(values[:n], values[n:], certainty=certain.over(IN_BOTH_HALVES if name == CHOSEN else 1))
        for name, values in scores.items()
    }
    if CHOSEN in judged:
        judged[CHOSEN] = judged[CHOSEN].among(IN_BOTH_HALVES)
    attacks = tuple(
        NamedAttack(name, _by_as_many(one, times) if name.startswith(TRACING) else one) for name, one in judged.items()
    )
    area = attacks[0].attack.area
    if seen.coded is not None:
        near = {name: values for name, values in ratios.items() if _NEAREST in name or name in (RAREST, CHOSEN)}
        top = in_one_group(near, groupings(seen.coded, scored.halves(rng), rng), n, certain, rng)
        # Of all people the area is that of the first form: of one group there is none.
        attacks += (NamedAttack(ONE_GROUP, ScoreAttack(area, top)),)
    return Density(attacks, area.n_members, area.n_nonmembers, names)


def _by_as_many(attack: ScoreAttack, times: float) -> ScoreAttack:
    """Return tracing with the upper bound that it has by as many non-members as members, ``times`` as many."""
    area = attack.area
    if times <= 1.0 or not 0.5 < area.upper < 1.0:
        return attack
    upper = float(ndtr(math.sqrt((1.0 + times) / 2.0) * ndtri(area.upper)))
    return replace(attack, area=area.with_upper(upper))


def _traced(members: Floats, nonmembers: Floats, points: Floats, units: Units | None) -> Floats:
    """Return the scores of all people by the means of the release beside those of the non-members."""
    people = np.concatenate([members, nonmembers])
    cuts = [np.unique(np.quantile(column, np.arange(1, _CLASSES) / _CLASSES)) for column in people.T]
    traits = _with_classes(people, cuts)
    spread = traits.std(axis=0)
    varies = spread > STILL
    traits = traits[:, varies] / spread[varies]
    released = _means_with_classes(points, cuts)[varies] / spread[varies]
    own, codes = traits[len(members) :], unit_codes(units, len(nonmembers))
    held = np.bincount(codes)
    sums = np.zeros((len(held), own.shape[1]))
    np.add.at(sums, codes, own)
    excess = released - own.mean(axis=0)
    # With the mean of the other units' non-members in place of that of all.
    excess_over_others = released - (own.sum(axis=0) - sums) / np.maximum(len(own) - held, 1)[:, None]
    width = traits.shape[1]
    covariance = np.cov(traits, rowvar=False).reshape(width, width) + _RIDGE * np.eye(width)
    traits -= traits.mean(axis=0)
    of_members = traits[: len(members)] @ np.linalg.solve(covariance, excess)
    weighed = np.linalg.solve(covariance, excess_over_others.T).T
    return np.concatenate([of_members, np.einsum("ij,ij->i", traits[len(members) :], weighed[codes])])


def _traced_by_products(members: Floats, nonmembers: Floats, points: Floats, units: Units | None) -> Floats:
    """Return the scores of all people by the means and products of columns, beside those of the non-members.

    The logarithm of the ratio of two normal densities, of the release and of the others, to the first order in their
    difference. Columns are normal scores in uncorrelated units, by all people.
    """
    people = np.concatenate([members, nonmembers])
    z, released = uncorrelated(*_normal_scores(people, points))
    n, codes = len(members), unit_codes(units, len(nonmembers))
    own, held = z[n:], np.bincount(codes)
    mean, second = released.mean(axis=0), released.T @ released / len(released)
    sums, squares, within = np.zeros((len(held), z.shape[1])), np.bincount(codes, _squares(own)), np.empty(len(own))
    np.add.at(sums, codes, own)
    for rows in np.split(np.argsort(codes, kind="stable"), np.cumsum(held)[:-1]):
        within[rows] = ((own[rows] @ own[rows].T) ** 2).sum(axis=1)
    total, products = own.sum(axis=0), own.T @ own
    # Non-members beside those of other units.
    others = (len(own) - held)[codes]
    linear = own @ mean - (own @ total - np.einsum("ij,ij->i", own, sums[codes])) / others
    square = _forms(own, second) - (_forms(own, products) - within) / others
    trace = np.trace(second) - (np.trace(products) - squares[codes]) / others
    excess = second - products / len(own)
    of_members = z[:n] @ (mean - total / len(own)) + (_forms(z[:n], excess) - np.trace(excess)) / 2.0
    return np.concatenate([of_members, linear + (square - trace) / 2.0])


def _normal_scores(people: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Return both tables with numbers in place of their ranks among people, column by column."""
    sides = np.empty_like(people), np.empty_like(points)
    for at, column in enumerate(people.T):
        ordered = np.sort(column)
        for table, scores in zip((people, points), sides, strict=True):
            rank = np.searchsorted(ordered, table[:, at], "left") + np.searchsorted(ordered, table[:, at], "right")
            scores[:, at] = ndtri((rank + 1.0) / (2.0 * len(ordered) + 2.0))
    return sides


def _squares(rows: Floats) -> Floats:
    return np.einsum("ij,ij->i", rows, rows)


def _forms(rows: Floats, matrix: Floats) -> Floats:
    """Return xᵀMx of each row x."""
    return np.einsum("ij,ij->i", rows @ matrix, rows)


def _with_classes(table: Floats, cuts: list[Floats]) -> Floats:
    """Return a table with a column for each class of each column that has several values."""
    several = [(x, own) for x, own in zip(table.T, cuts, strict=True) if len(own) > 1]
    return np.column_stack([table, *(np.eye(len(own) + 1)[np.searchsorted(own, x)] for x, own in several)])


def _means_with_classes(table: Floats, cuts: list[Floats]) -> Floats:
    """Return the means of what `_with_classes` returns, column by column: a release may be long."""
    several = [(x, own) for x, own in zip(table.T, cuts, strict=True) if len(own) > 1]
    shares = (np.bincount(np.searchsorted(own, x), minlength=len(own) + 1) / len(table) for x, own in several)
    return np.concatenate([table.mean(axis=0), *shares])


def _classified(
    members: Floats, nonmembers: Floats, points: Floats, units: ComparedUnits, rng: np.random.Generator
) -> Floats | None:
    """Return the scores of all people by trees that learned from neither them, nor their units, nor their half.

    Trees that learned from one record of a non-member's unit know the others: they would score non-members low whatever
    the release is. And a unit scored by both kinds of trees would have a higher best score than one scored by one kind.
    """
    sides = (members, units.members), (nonmembers, units.nonmembers), (points, None)
    codes = [unit_codes(of, len(side)) for side, of in sides]
    if min(len(np.unique(one)) for one in codes) < _LEAST:
        return None
    halves = [halves_of_units(one, rng) for one in codes]
    scores = np.empty(len(members)), np.empty(len(nonmembers))
    for fold in (0, 1):
        trees = _trained(points[halves[2][fold]], nonmembers[halves[1][fold]], rng)
        for side, (people, rows) in enumerate(((members, halves[0][fold]), (nonmembers, halves[1][1 - fold]))):
            scores[side][rows] = trees.decision_function(people[rows])
    return np.concatenate(scores)


def _trained(points: Floats, nonmembers: Floats, rng: np.random.Generator) -> HistGradientBoostingClassifier:
    sides = [side[_drawn(len(side), rng)] for side in (points, nonmembers)]
    labels = np.repeat([1, 0], [len(side) for side in sides])
    return boosted(np.concatenate(sides), labels, int(rng.integers(2**31)), max_iter=60, max_leaf_nodes=15)


def _drawn(n: int, rng: np.random.Generator) -> Indices:
    return rng.permutation(n)[: _TRAINED // 2]
