"""Membership by densities: where the release is denser than the population, members are near."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from anoncore.encoding import EncodedTables
from anoncore.kernels.neighbors import nearest, nearest_of_others
from anoncore.microdata.units import ComparedUnits, Units, unit_codes
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk._trees import boosted
from anoncore.risk._values import AT_MOST, Flags
from anoncore.risk.membership import matched_quantiles
from anoncore.risk.scores import SINGLE, AttackFamily, Certainty, NamedAttack, ScoreAttack, score_attack

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

TRACING = "tracing"
NUMBERS, KEYS, HALVES = "numbers alone", "quasi-identifiers alone", ("one half of the variables", "the other half")
_FEWEST_KNOWN = 3  # variables of a part
SMALLEST = "the smallest principal components of numbers"
RAREST = "density ratio, numbers among the rarest level"
_FAR = 1e3  # standard deviations, where nobody shares a level
_LEAST = 40  # people on each side for a classifier
_TRAINED = 20_000  # rows that a classifier learns from
_NEIGHBOURS = (1, 5)
# Classes of a number, by rank; a share of the variance that is added lest directions without people count; and a spread
# of a column that is none, in standard deviations.
_CLASSES, _RIDGE, _STILL = 8, 0.3, 1e-9
_LEAST_VARIANCE = 0.02  # is added to that of principal components


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """What else an attacker may look at than all columns of the encoded tables.

    Parameters
    ----------
    unshrunk : original, reference and release as `anoncore.risk.shrinkage.without_shrinkage` returns them
    parts : (n,) which columns an attacker knows, by the name of each part
    numbers : (n,) columns that are compared among the records of a person's rarest level
    linear : the numbers of original, reference and release on their own scale, for principal components
    levels : (N, c), (L, c) and (M, c) codes of the levels of original, reference and release
    """

    unshrunk: tuple[Floats, Floats, Floats] | None = None
    parts: Mapping[str, Flags] = field(default_factory=dict)
    numbers: Flags | None = None
    linear: tuple[Floats, Floats, Floats] | None = None
    levels: tuple[Indices, Indices, Indices] | None = None

    @classmethod
    def of(
        cls,
        tables: EncodedTables,
        unshrunk: EncodedTables | None,
        quasi_identifiers: Sequence[str],
        rng: np.random.Generator,
    ) -> Views:
        """Take parts of the variables that an attacker may know, of at least three: halves are drawn by chance."""
        blocks = tables.encoder.blocks
        names = [block.variable.name for block in blocks]
        levels = [block.variable.name for block in blocks if block.variable.is_categorical]
        halves = np.array_split(rng.permutation(len(names)), 2)
        known = {NUMBERS: set(names) - set(levels), KEYS: set(names) & set(quasi_identifiers)}
        known |= {name: {names[at] for at in half} for name, half in zip(HALVES, halves, strict=True)}
        parts = {name: _columns(tables, of) for name, of in known.items() if _FEWEST_KNOWN <= len(of) < len(names)}
        numbers, linear = parts.get(NUMBERS), None
        # Directions that a method or another tool keeps are straight on the numbers' own scale.
        x, y, r = tables.on_scale("linear") or (tables.x, tables.y, tables.r)
        if numbers is not None and r is not None:
            linear = x[:, numbers], r[:, numbers], y[:, numbers]
        return cls(
            unshrunk=None if unshrunk is None or unshrunk.r is None else (unshrunk.x, unshrunk.r, unshrunk.y),
            parts=parts,
            numbers=numbers,
            linear=linear,
            levels=_codes(tables, levels) if levels else None,
        )


def _columns(tables: EncodedTables, names: set[str]) -> Flags:
    """Return (n,) which columns of the encoded tables are of some variables, without those that say what is missing.

    Several variables are often missing together, so that their flags would be the smallest principal components.
    """
    flags = np.zeros(tables.x.shape[1], dtype=bool)
    for block in tables.encoder.blocks:
        flags[block.columns] = block.variable.name in names
    return flags


def _codes(tables: EncodedTables, names: list[str]) -> tuple[Indices, Indices, Indices] | None:
    """Return codes of the levels of original, reference and release, the same in all; 0 where missing."""
    if tables.reference is None:
        return None
    sides = tables.original, tables.reference, tables.released
    ends = np.cumsum([len(side) for side in sides])[:-1]
    columns = [
        pd.factorize(pd.concat([side.frame[name].astype("object") for side in sides], ignore_index=True))[0] + 1
        for name in names
    ]
    one, other, third = np.split(np.column_stack(columns), ends)
    return one, other, third


ALL_COLUMNS = Views()


@dataclass(frozen=True)
class Density(AttackFamily):
    """The attacks by densities: ratios of distances to the nearest and fifth nearest, tracing, and a classifier."""

    meaning: ClassVar[str] = (
        "How well members are distinguished from non-members by how much denser the release is around them than the "
        "population; 0.5 is guessing."
    )


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
    near the others are; and with numbers among records, of both sides, that share the rarest of a person's levels. The
    classifier attack scores people by boosted trees that have learned to distinguish half of the released rows from
    half of the non-members; members of one half and the non-members of the other are scored with them, in turn, so that
    no one is scored by what learned from them. The tracing attack adds up, over levels, numbers and eighths of numbers,
    by how much more frequent what a person holds is in the release than among non-members, decorrelated; and once more
    with the products of two columns, since a release that keeps the members' covariances tells of each of them by all
    products together. Each non-member is compared without the own unit.

    Parameters
    ----------
    original, reference, released : (N, n), (L, n) and (M, n), one encoding, in standard deviations; of more than
        5000 people on a side a sample is scored
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
    drawn = [np.sort(rng.choice(len(side), min(len(side), AT_MOST), replace=False)) for side in sides]
    sides = [side[rows] for side, rows in zip(sides, drawn, strict=True)]
    people, units = np.concatenate(sides), certainty.units.take(*drawn)
    codes = units.together(*map(len, sides))
    scores = _ratios(people, points, codes)
    matched = matched_quantiles(points, sides[1])
    if matched is not None:
        after = _ratios(people, matched, codes)
        scores |= {f"{name}, after matching the distributions": values for name, values in after.items()}
    if views.unshrunk is not None:
        moved = np.concatenate([side[rows] for side, rows in zip(views.unshrunk, drawn, strict=False)])
        after = _ratios(moved, views.unshrunk[2], codes)
        scores |= {f"{name}, after undoing the shrinkage": values for name, values in after.items()}
    parts = {name: (people[:, columns], points[:, columns]) for name, columns in views.parts.items()}
    halves = [parts.pop(name) for name in HALVES if name in parts]
    if views.linear is not None:
        own = np.concatenate([side[rows] for side, rows in zip(views.linear, drawn, strict=False)])
        parts[SMALLEST] = _smallest_components(own, views.linear[2])
    for part, tables in parts.items():
        scores |= {f"{name}, {part}": values for name, values in _ratios(*tables, codes, (1,)).items()}
    if len(halves) == len(HALVES):
        # Of each person one half, by chance: two forms would cost the others more than they find.
        one, other = (next(iter(_ratios(*tables, codes, (1,)).values())) for tables in halves)
        scores["density ratio, 1 neighbour, half of the variables"] = np.where(rng.random(len(one)) < 0.5, one, other)
    if views.levels is not None and views.numbers is not None:
        held = np.concatenate([side[rows] for side, rows in zip(views.levels, drawn, strict=False)])
        scores[RAREST] = _among_rarest(*parts[NUMBERS], (held, views.levels[2]), codes)
    if len(np.unique(unit_codes(units.nonmembers, len(sides[1])))) > 1:
        scores[TRACING] = _traced(sides[0], sides[1], points, units.nonmembers)
        scores[f"{TRACING} by products"] = _traced_by_products(sides[0], sides[1], points, units.nonmembers)
    learned = _classified(sides[0], sides[1], points, units, rng)
    if learned is not None:
        scores["classifier"] = learned
    certain = replace(certainty.over(len(scores)), units=units)
    n = len(sides[0])
    times = all_members / len(sides[1])
    attacks = tuple(
        NamedAttack(name, _by_as_many(one, times) if name.startswith(TRACING) else one)
        for name, one in (
            (name, score_attack(values[:n], values[n:], certainty=certain)) for name, values in scores.items()
        )
    )
    area = attacks[0].attack.area
    return Density(attacks, area.n_members, area.n_nonmembers)


def _by_as_many(attack: ScoreAttack, times: float) -> ScoreAttack:
    """Return tracing with the upper bound that it has by as many non-members as members, ``times`` as many."""
    area = attack.area
    if times <= 1.0 or not 0.5 < area.upper < 1.0:
        return attack
    upper = float(ndtr(math.sqrt((1.0 + times) / 2.0) * ndtri(area.upper)))
    return replace(attack, area=area.with_upper(upper))


def _ratios(
    people: Floats, points: Floats, units: Indices | None, neighbours: tuple[int, ...] = _NEIGHBOURS
) -> dict[str, Floats]:
    """Return the scores by the ratio of distances, by the number of neighbours, of people those of other units."""
    largest = 1 if units is None else int(np.bincount(units).max())
    most = min(neighbours[-1], len(points), len(people) - largest)
    tiny = 1e-9 * np.sqrt(people.shape[1])
    if units is None:
        gaps, _ = nearest(people, people, most, skip_self=True)
    else:
        gaps, _ = nearest_of_others(people, people, most, own=units, units=units)
    among = np.log(gaps + tiny)
    near = np.log(nearest(people, points, most)[0] + tiny)
    return {
        f"density ratio, {k} neighbour{'s'[: k > 1]}": among[:, k - 1] - near[:, k - 1]
        for k in sorted({min(k, most) for k in neighbours})
    }


def _among_rarest(people: Floats, points: Floats, levels: tuple[Indices, Indices], units: Indices | None) -> Floats:
    """Return the ratio of distances to the nearest other person and row that hold the rarest of a person's levels."""
    held, released = levels
    frequency = np.column_stack([np.bincount(column)[column] for column in held.T])
    which = frequency.argmin(axis=1)
    far, tiny = _FAR * np.sqrt(people.shape[1]), 1e-9 * np.sqrt(people.shape[1])
    among, near = np.full(len(people), far), np.full(len(people), far)
    for column in range(held.shape[1]):
        asked = np.flatnonzero(which == column)
        own, codes = held[asked, column], np.unique(held[asked, column])
        there, rows, mine = (_by_code(one, codes) for one in (held[:, column], released[:, column], own))
        for others, beside, places in zip(there, rows, mine, strict=True):
            persons = asked[places]
            if len(beside):
                near[persons] = nearest(people[persons], points[beside], 1)[0][:, 0]
            # Who shares the level with the own unit alone is near to nobody.
            if units is None and len(others) > 1:
                itself = np.searchsorted(others, persons)
                among[persons] = nearest(people[persons], people[others], 1, skip_self=itself)[0][:, 0]
            elif units is not None and len(np.unique(units[others])) > 1:
                shared = units[persons], units[others]
                among[persons] = nearest_of_others(people[persons], people[others], 1, own=shared[0], units=shared[1])[
                    0
                ][:, 0]
    return np.asarray(np.log(among + tiny) - np.log(near + tiny))


def _by_code(column: Indices, codes: Indices) -> list[Indices]:
    """Return the places of each of some codes in a column, ascending."""
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    starts, ends = np.searchsorted(ordered, codes), np.searchsorted(ordered, codes, side="right")
    return [order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _traced(members: Floats, nonmembers: Floats, points: Floats, units: Units | None) -> Floats:
    """Return the scores of all people by the means of the release beside those of the non-members."""
    people = np.concatenate([members, nonmembers])
    cuts = [np.unique(np.quantile(column, np.arange(1, _CLASSES) / _CLASSES)) for column in people.T]
    traits = _with_classes(people, cuts)
    spread = traits.std(axis=0)
    varies = spread > _STILL
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
    weighed = np.linalg.solve(covariance, (traits - traits.mean(axis=0)).T).T
    of_nonmembers = np.einsum("ij,ij->i", weighed[len(members) :], excess_over_others[codes])
    return np.concatenate([weighed[: len(members)] @ excess, of_nonmembers])


def _traced_by_products(members: Floats, nonmembers: Floats, points: Floats, units: Units | None) -> Floats:
    """Return the scores of all people by the means and products of columns, beside those of the non-members.

    The logarithm of the ratio of two normal densities, of the release and of the others, to the first order in their
    difference. Columns are normal scores in uncorrelated units, by all people.
    """
    people = np.concatenate([members, nonmembers])
    z, released = _uncorrelated(*_normal_scores(people, points))
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


def _uncorrelated(people: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Return both tables in principal components of people, of about unit variance."""
    middle, spread = people.mean(axis=0), people.std(axis=0)
    varies = spread > _STILL
    people, points = ((table - middle)[:, varies] / spread[varies] for table in (people, points))
    variances, axes = np.linalg.eigh(people.T @ people / len(people))
    axes = axes / np.sqrt(np.maximum(variances, 0.0) + _LEAST_VARIANCE)
    return people @ axes, points @ axes


def _smallest_components(people: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Return both tables in the half of the principal components of people that vary least."""
    one, other = _uncorrelated(people, points)
    half = max(one.shape[1] // 2, 1)
    return one[:, :half], other[:, :half]


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
    halves = [_halves(one, rng) for one in codes]
    scores = np.empty(len(members)), np.empty(len(nonmembers))
    for fold in (0, 1):
        trees = _trained(points[halves[2][fold]], nonmembers[halves[1][fold]], rng)
        for side, (people, rows) in enumerate(((members, halves[0][fold]), (nonmembers, halves[1][1 - fold]))):
            scores[side][rows] = trees.decision_function(people[rows])
    return np.concatenate(scores)


def _halves(codes: Indices, rng: np.random.Generator) -> list[Indices]:
    """Return the records of either half of the units."""
    return [np.flatnonzero(np.isin(codes, half)) for half in np.array_split(rng.permutation(int(codes.max()) + 1), 2)]


def _trained(points: Floats, nonmembers: Floats, rng: np.random.Generator) -> HistGradientBoostingClassifier:
    sides = [side[_drawn(len(side), rng)] for side in (points, nonmembers)]
    labels = np.repeat([1, 0], [len(side) for side in sides])
    return boosted(np.concatenate(sides), labels, int(rng.integers(2**31)), max_iter=60, max_leaf_nodes=15)


def _drawn(n: int, rng: np.random.Generator) -> Indices:
    return rng.permutation(n)[: _TRAINED // 2]
