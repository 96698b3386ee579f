"""Risk of releasing ranges: what the prediction measures mean when records become boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.boxes.columns import ReleasedBoxes
from anoncore.errors import AnonymizationError
from anoncore.microdata import EACH_RECORD, ComparedUnits, Microdata, Schema
from anoncore.risk._checks import Floats, Indices, frozen
from anoncore.risk.membership import MembershipAttack, membership_attack

_PEOPLE = 64  # compared with all boxes at a time
_NARROW = 1e-9  # sd; a range of one value counts as this wide
_APART = 2.0  # between a missing value and a value, or two levels, as between the encoding's −1 and +1


@dataclass(frozen=True, eq=False, repr=False)
class BoxMeasures:
    """For each of M people, what the released boxes say about them.

    Parameters
    ----------
    box : (M,) int, the nearest box; of several the first
    distance : (M,), from the person to it, root mean square over all variables, in standard deviations; 0
        inside
    size : (M,) int, records in the nearest boxes: those of one box are equally close, and so are those of
        several boxes at the same distance
    reidentification : (M,), 1 / size, the chance of picking the person's own record if it is among them
    uncertainty : (M,), variance that the nearest boxes leave to a number, in the variable's variances, mean
        over the variables with ranges: width² / 12, as for values spread evenly
    log_volume : (M,), log width, widths in standard deviations, mean over the variables with ranges

    Notes
    -----
    The last two are means over the records of the nearest boxes.
    """

    box: Indices
    distance: Floats
    size: Indices
    reidentification: Floats
    uncertainty: Floats
    log_volume: Floats


def box_measures(
    people: Floats,
    lower: Floats,
    upper: Floats,
    size: Indices,
    *,
    levels: Indices | None = None,
    held: Sequence[NDArray[np.bool_]] = (),
) -> BoxMeasures:
    """Locate people among released boxes.

    The distance between a person and a record whose box alone is known is that to the box: per variable 0
    within the range, else the way to its nearer end; 2 standard deviations between a missing value and a range, and
    where the person's level is not in the set. The records in one box are equally close, so

    - prediction *distance* is that to the nearest box. Boxes that cover the table hold nearly everybody,
      members and non-members: it is mostly 0 and shows little;
    - prediction *ambiguity*, the ratio of the first to the k-th distance, is 1 by definition for boxes of k
      records or more. What the attacker is left with is *re-identification*, 1 / size;
    - prediction *uncertainty* is the variance that the range leaves to a value.

    Parameters
    ----------
    people : (M, n), in standard deviations of the source; NaN where a value is missing
    lower, upper : (B, n), same units, finite; NaN where the box's records miss the variable
    size : (B,) records in each box
    levels : (M, c) int, each person's level of c further variables; −1 where it is missing, −2 where it is
        none that the release speaks of, which counts as in every set
    held : c times (B, q + 1) bool, the levels in each box, and last the missing value

    Returns
    -------
    BoxMeasures

    Raises
    ------
    AnonymizationError
        When the shapes do not fit, or a box ends before it begins.

    Notes
    -----
    Claim: exact; every person is compared with every box. O(M·B), in blocks of people, and O(M·B·(n + c)) for
    those in no box.

    Both ends belong to a range, so that a person on the face of two boxes counts as inside both. No record
    lies on an inner face: who does is certainly no member, which is not used here. Of a variable with a
    precision released inner faces lie where no value can; of others they need not.

    Source: docs/reference/methods/optimal-boxes.md; the measures that carry over are those of Lasko & Vinterbo 2010.

    Examples
    --------
    >>> found = box_measures(np.array([[0.2], [3.0]]), np.array([[0.0]]), np.array([[1.0]]), np.array([4]))
    >>> found.distance.tolist(), found.reidentification.tolist()
    ([0.0, 2.0], [0.25, 0.25])
    """
    codes = np.empty((len(people), 0), dtype=np.intp) if levels is None else levels
    _check(people, lower, upper, size, codes, held)
    m = len(people)
    width = np.nan_to_num(upper - lower)
    about = np.column_stack([(width**2 / 12.0).mean(axis=1), np.log(np.maximum(width, _NARROW)).mean(axis=1)])
    measures = np.column_stack([size, size[:, None] * about])
    box, least, sums = np.zeros(m, dtype=np.intp), np.zeros(m), np.zeros((m, 3))
    scene = _Scene(lower.T.copy(), upper.T.copy(), tuple(held), np.argsort(width.mean(axis=0), kind="stable"))
    for find in (scene.containing, scene.nearest):
        left = np.flatnonzero(sums[:, 0] == 0)
        for here in np.split(left, range(_PEOPLE, len(left), _PEOPLE)):
            rows, boxes, least[here] = find(people[here], codes[here])
            box[here[rows[::-1]]] = boxes[::-1]
            for q, column in enumerate(measures.T):
                sums[here, q] = np.bincount(rows, column[boxes], minlength=len(here))
    distance = np.sqrt(least / (people.shape[1] + len(held)))
    total, means = sums[:, 0], sums[:, 1:] / sums[:, :1]
    counted = np.rint(total).astype(np.intp)
    return BoxMeasures(
        box=frozen(box),
        distance=frozen(distance),
        size=frozen(counted),
        reidentification=frozen(1.0 / counted),
        uncertainty=frozen(means[:, 0]),
        log_volume=frozen(means[:, 1]),
    )


def box_density_attack(
    members: BoxMeasures,
    others: BoxMeasures,
    *,
    gate: float = 0.55,
    confidence: float = 0.99,
    tests: int = 1,
    units: ComparedUnits = EACH_RECORD,
) -> MembershipAttack:
    """Attack membership with the density of a person's box: boxes are narrow where members are many.

    Ranges and sets are true, so whoever is in no box did not take part; they score lowest.

    Parameters
    ----------
    members, others : of the people who took part and of non-members, among the same boxes
    gate, confidence, tests, units : see :func:`membership_attack`

    Returns
    -------
    MembershipAttack, with score log(size) − mean log width inside a box.

    Examples
    --------
    >>> line = np.linspace(0.0, 1.0, 50)[:, None]
    >>> one = box_measures(line, np.zeros((1, 1)), np.ones((1, 1)), np.array([50]))
    >>> box_density_attack(one, one).auc
    0.5
    """
    sides = members, others
    scores = [np.log(m.size) - m.log_volume for m in sides]
    least = min(float(score.min()) for score in scores)
    scores = [np.where(m.distance > 0, least - 1.0, s) for m, s in zip(sides, scores, strict=True)]
    return membership_attack(scores[0], scores[1], gate=gate, confidence=confidence, tests=tests, units=units)


@dataclass(frozen=True)
class LocatedRecords:
    """Records of one table located among released boxes.

    Parameters
    ----------
    records : located
    inside : share of them inside a box
    reidentification, largest_reidentification : mean and largest of 1 / records of the box
    uncertainty, log_volume : medians of those of :class:`BoxMeasures`
    """

    records: int
    inside: float
    reidentification: float
    largest_reidentification: float
    uncertainty: float
    log_volume: float

    @classmethod
    def of(cls, measures: BoxMeasures) -> LocatedRecords:
        """Summarise the measures of single records."""
        return cls(
            records=len(measures.distance),
            inside=float((measures.distance == 0).mean()),
            reidentification=float(measures.reidentification.mean()),
            largest_reidentification=float(measures.reidentification.max()),
            uncertainty=float(np.median(measures.uncertainty)),
            log_volume=float(np.median(measures.log_volume)),
        )


@dataclass(frozen=True)
class BoxRisk:
    """What released boxes say about members, beside what they say about non-members.

    Parameters
    ----------
    original, reference : records located; the latter None without a reference sample
    membership : by the density of boxes; None without a reference sample
    variables : released as ranges
    """

    original: LocatedRecords
    reference: LocatedRecords | None
    membership: MembershipAttack | None
    variables: int


def box_risk(
    original: Microdata,
    members: Microdata,
    others: Microdata | None,
    boxes: ReleasedBoxes,
    levels: Schema,
    *,
    tests: int = 1,
) -> BoxRisk:
    """Locate members and non-members among released boxes, and attack membership with them.

    Parameters
    ----------
    original : all records that were masked, whose standard deviations are the units
    members, others : those that are located, of the original and of a reference sample
    boxes : of the release
    levels : schema whose levels number those that boxes hold
    tests : attacks on the same release, see :func:`membership_attack`

    Returns
    -------
    BoxRisk
    """
    measured = [_located(side, original, boxes, levels) for side in (members, others) if side is not None]
    known = others is not None
    units = ComparedUnits(members.units, None if others is None else others.units)
    return BoxRisk(
        original=LocatedRecords.of(measured[0]),
        reference=LocatedRecords.of(measured[1]) if known else None,
        membership=box_density_attack(*measured, tests=tests, units=units) if known else None,
        variables=len(boxes.names),
    )


def _located(records: Microdata, original: Microdata, boxes: ReleasedBoxes, levels: Schema) -> BoxMeasures:
    """Locate records among boxes, numbers in standard deviations of the original."""
    known = original.frame[list(boxes.names)]
    middle = known.mean().to_numpy()
    spread = known.std(ddof=0).replace(0.0, 1.0).fillna(1.0).to_numpy()
    values = records.frame[list(boxes.names)].to_numpy(dtype="float64")
    codes = [
        np.where(records.frame[n].isna(), -1, np.where(own < 0, -2, own))
        for n in boxes.held
        for own in [pd.Index(levels[n].levels or ()).get_indexer(records.frame[n].astype("object"))]
    ]
    return box_measures(
        (values - middle) / spread,
        (boxes.lower - middle) / spread,
        (boxes.upper - middle) / spread,
        boxes.sizes,
        levels=np.column_stack(codes) if codes else None,
        held=tuple(boxes.held.values()),
    )


@dataclass(frozen=True, eq=False, repr=False)
class _Scene:
    """B boxes, one variable after the other: the ends (n, B), the sets, and an order, narrow ranges first."""

    lower: Floats
    upper: Floats
    held: tuple[NDArray[np.bool_], ...]
    order: Indices

    def containing(self, people: Floats, codes: Indices) -> tuple[Indices, Indices, float]:
        """Return pairs of a person and a box that holds them, by person and box, and their distance 0."""
        first, *others = self.order
        rows, boxes = np.nonzero(self._within(first, people[:, first, None], slice(None)))
        for j in others:
            kept = self._within(j, people[rows, j], boxes)
            rows, boxes = rows[kept], boxes[kept]
        for own, sets in zip(codes.T, self.held, strict=True):
            kept = sets[boxes, np.maximum(own[rows], -1)] | (own[rows] == -2)
            rows, boxes = rows[kept], boxes[kept]
        return rows, boxes, 0.0

    def _within(self, j: int, values: Floats, boxes: Indices | slice) -> NDArray[np.bool_]:
        low, high = self.lower[j, boxes], self.upper[j, boxes]
        within = (low <= values) & (values <= high)
        missing = np.isnan(values)
        return within | (missing & np.isnan(low)) if missing.any() else within

    def nearest(self, people: Floats, codes: Indices) -> tuple[Indices, Indices, Floats]:
        """Return pairs of a person and a nearest box, by person and box, and the sums of squares (M,)."""
        squares = np.zeros((len(people), self.lower.shape[1]))
        for values, low, high in zip(people.T, self.lower, self.upper, strict=True):
            missing, gap = np.isnan(values)[:, None], np.isnan(low)
            beyond = np.maximum(np.maximum(low - values[:, None], values[:, None] - high), 0.0)
            beyond = np.where(missing & gap, 0.0, np.where(missing != gap, _APART, beyond))
            squares += beyond**2
        for own, sets in zip(codes.T, self.held, strict=True):
            squares += _APART**2 * (~sets.T[np.maximum(own, -1)] & (own != -2)[:, None])
        least = squares.min(axis=1, initial=np.inf)
        rows, boxes = np.nonzero(squares == least[:, None])
        return rows, boxes, least


def _check(
    people: Floats,
    lower: Floats,
    upper: Floats,
    size: Indices,
    levels: Indices,
    held: Sequence[NDArray[np.bool_]],
) -> None:
    fits = lower.shape == upper.shape and people.shape[1:] == lower.shape[1:] and len(size) == len(lower)
    if not (fits and len(lower)):
        raise AnonymizationError(
            f"people {people.shape}, lower {lower.shape}, upper {upper.shape}, size {size.shape} do not fit"
        )
    if levels.shape != (len(people), len(held)) or any(len(sets) != len(lower) for sets in held):
        raise AnonymizationError(f"levels {levels.shape} and the sets of {len(held)} variables do not fit")
    ended = int((lower > upper).any(axis=1).sum())
    if ended:
        raise AnonymizationError(f"{ended} boxes end before they begin")
