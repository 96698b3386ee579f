"""Levels under other names: whether a released level means what the original's level of that name does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import aligned_values, shared_variables

_UNKNOWN = 0.01  # share of released values that another sample of the population may have and these have not
_BINS = 5  # of a number that a level is seen beside
_CONTEXTS = 30  # variables that a level is seen beside
_UNLIKELY = 7.0  # −log of the probability, by variable, that chance explains levels that no one else has
_NATS = 15.0  # −log of the probability that chance explains what is found
_TILTS = np.geomspace(1e-3, 5.0, 40)  # among which Chernoff's bound is the best
_CLOSER = 0.5  # share of the distance to the original that may be left once levels are renamed


@dataclass(frozen=True)
class Relabelling:
    """Variables whose released levels may have other names than the original's, so that no attack can compare them.

    Parameters
    ----------
    unknown : variables with more than 1 % of released values that are levels of neither original nor reference, and
        more than chance explains
    renamed : variables whose levels fit the original's under other names
    n_variables : variables with levels, looked at
    """

    meaning: ClassVar[str] = "Variables whose released levels do not mean what the original's levels of that name do."

    unknown: tuple[str, ...]
    renamed: tuple[str, ...]
    n_variables: int

    @property
    def variables(self) -> tuple[str, ...]:
        """Return both, each once."""
        return tuple(dict.fromkeys((*self.unknown, *self.renamed)))


def relabelling(original: Microdata, released: Microdata, reference: Microdata | None = None) -> Relabelling:
    """Look for levels that were renamed or whose codes were exchanged.

    Attacks compare levels by name. A release that keeps records under other names would seem to share nothing with
    them. Named are variables (1) with more than 1 % of released values that no one in the original or the reference
    has, whether renamed or merged, where chance explains as many with a probability below e⁻⁷ over the number of
    variables with levels (to the power of the records of a statistical unit, on average); (2) whose released levels are
    likelier those of the original by another assignment, by their counts or by their counts beside one other variable,
    with a likelihood ratio of e¹⁵ or more (to the same power) for each two levels, where that leaves at most half of
    the total variation; (3) whose combinations with following variables have exactly the original's counts, but for the
    order, where chance explains that with a probability below e⁻¹⁵.

    Parameters
    ----------
    original, released, reference : Microdata

    Returns
    -------
    Relabelling

    Notes
    -----
    By chance a level that t of all records have is in the release alone with probability qᵗ, q being the release's
    share of all records; the number of records with such levels is bounded as Chernoff's.

    Source: the likelihood ratio of two simple hypotheses exceeds e^t with probability at most e^(−t) under the first;
    the most probable count of a cell has about the probability 1/√(2πn); assignment by Kuhn 1955. Claim: none; levels
    of equal frequency that are associated with nothing are distinguished by (3) alone.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> frame = pd.DataFrame({"area": list("aaabbc") * 50, "ill": list("yynnny") * 50})
    >>> schema = Schema([Variable("area", "nominal", levels=("a", "b", "c")), Variable("ill", "nominal")])
    >>> exchanged = frame.assign(area=frame["area"].map({"a": "c", "b": "b", "c": "a"}))
    >>> relabelling(Microdata(frame, schema), Microdata(exchanged, schema)).renamed
    ('area',)
    """
    tables = [original, released, *([] if reference is None else [reference])]
    names = shared_variables(tables)
    levels = [name for name in names if original.schema[name].is_categorical or released.schema[name].is_categorical]
    columns = {name: aligned_values(tables, name) for name in names}
    # Records of one unit repeat what it is: as much evidence as there are records would be too much.
    repeated = len(original) / max(1, original.n_units)
    least = repeated * (_UNLIKELY + math.log(max(1, len(levels))))
    unknown = [name for name in levels if _has_others(columns[name], least)]
    coded = {name: _codes(columns[name][:2], binned=name not in levels) for name in names}
    nats = _NATS * repeated
    renamed = [name for name in levels if name not in unknown and _fits_better(name, coded, nats)]
    renamed += [name for window in _windows([coded[name] for name in levels]) for name in (levels[i] for i in window)]
    return Relabelling(tuple(unknown), tuple(name for name in levels if name in renamed), len(levels))


def _has_others(sides: Sequence[Floats], least: float) -> bool:
    """Return whether the release has levels that no one else has, and chance explains them with less than e^−least."""
    known, held = (side[~np.isnan(side)] for side in (np.concatenate([sides[0], *sides[2:]]), sides[1]))
    alone = np.isin(held, known, invert=True)
    if not len(known) or not len(held):
        return bool(len(held))
    if alone.mean() <= _UNKNOWN:
        return False
    counts = np.unique(np.concatenate([known, held]), return_counts=True)[1].astype(np.float64)
    by_chance = counts * math.log(len(held) / (len(known) + len(held)))
    with np.errstate(divide="ignore"):
        elsewhere = np.log1p(-np.exp(by_chance))
    bounds = [t * alone.sum() - np.logaddexp(elsewhere, by_chance + t * counts).sum() for t in _TILTS]
    return bool(max(bounds) > least)


def _codes(sides: Sequence[Floats], *, binned: bool) -> tuple[Indices, Indices]:
    """Return the levels, or fifths of the original's numbers, as codes common to both; missing is one of them."""
    whole = np.concatenate(sides)
    missing = np.isnan(whole)
    if binned:
        known = sides[0][~np.isnan(sides[0])]
        edges = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS)) if len(known) else known
        whole = np.searchsorted(edges, whole, side="right").astype(np.float64)
    whole = np.where(missing, -1.0, whole)
    codes = np.unique(whole, return_inverse=True)[1]
    one, other = np.split(codes, [len(sides[0])])
    return one, other


def _fits_better(name: str, coded: dict[str, tuple[Indices, Indices]], nats: float) -> bool:
    """Return whether another assignment of a variable's levels explains the release, by itself or beside another."""
    own = coded[name]
    alone = tuple(np.zeros_like(side) for side in own)
    beside = [(alone[0], alone[1]), *(sides for other, sides in coded.items() if other != name)][: _CONTEXTS + 1]
    return any(_exchanged(*_counts(own, sides), nats) for sides in beside)


def _counts(own: tuple[Indices, Indices], beside: tuple[Indices, Indices]) -> tuple[Floats, Floats]:
    """Return (K, B) counts of levels beside those of another variable, in original and release."""
    shape = tuple(1 + max(int(side.max(initial=0)) for side in sides) for sides in (own, beside))
    one, other = (
        np.bincount(np.ravel_multi_index((a, b), shape), minlength=math.prod(shape)).reshape(shape).astype(np.float64)
        for a, b in zip(own, beside, strict=True)
    )
    return one, other


def _exchanged(original: Floats, released: Floats, nats: float) -> bool:
    likelihood = np.log((original + 0.5) / (original + 0.5).sum())
    fit = released @ likelihood.T
    rows, best = linear_sum_assignment(-fit)
    gain = float(fit[rows, best].sum() - np.trace(fit))
    moved = int((best != rows).sum())
    if gain <= nats * max(1.0, moved / 2.0):
        return False
    shares = original / original.sum(), released / released.sum()
    by_name, by_fit = (float(np.abs(shares[0] - side).sum()) for side in (shares[1], shares[1][np.argsort(best)]))
    return by_fit <= _CLOSER * by_name


def _windows(coded: Sequence[tuple[Indices, Indices]]) -> Iterator[range]:
    """Yield runs of variables whose combinations have the original's counts under other names."""
    for start in range(len(coded)):
        joint = tuple(np.zeros_like(side) for side in coded[start])
        if len(joint[0]) != len(joint[1]):
            return
        for end in range(start, len(coded)):
            size = 1 + max(int(side.max()) for side in coded[end])
            pair = [side * size + more for side, more in zip(joint, coded[end], strict=True)]
            codes = np.unique(np.concatenate(pair), return_inverse=True)[1]
            joint = tuple(np.split(codes, [len(joint[0])]))
            counts = [np.bincount(side, minlength=int(codes.max()) + 1) for side in joint]
            if not np.array_equal(np.sort(counts[0]), np.sort(counts[1])):
                break
            cells = np.sort(counts[0][counts[0] > 0])[:-1]
            if np.log(2.0 * np.pi * cells).sum() / 2.0 > _NATS + math.log(len(coded)):
                if not np.array_equal(counts[0], counts[1]):
                    yield range(start, end + 1)
                break
