"""Boxes that keep the statistics which users will compute accurate, with ranges that are guaranteed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.boxes.columns import BoxTable, as_ranges, middles, taken_names
from anoncore.boxes.edits import narrowed
from anoncore.boxes.faces import on_grid, outer_faces
from anoncore.boxes.reader import DISTINCT
from anoncore.boxes.statistics import Statistic, influences, told, wanted
from anoncore.claims import Claim, DistinctValues, KAnonymity
from anoncore.edits.model import EditSet, LinearEdit, linear_holds
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels import spectral
from anoncore.kernels.boxes import partition as kernel
from anoncore.kernels.boxes import shapes as box_shapes
from anoncore.kernels.boxes import weights as box_weights
from anoncore.microdata import Microdata, Schema
from anoncore.release import Release

__all__ = ["OptimalBoxes", "Statistic", "anonymize"]

# 0.3 − 0.2 is less than 0.1 in floating point.
HAIR = 1e-9
# Of a unit; what is further off is no multiple of it.
MULTIPLE = 1e-6


@dataclass(frozen=True, kw_only=True)
class OptimalBoxes:
    """What the boxes are for, and how they are released.

    Parameters
    ----------
    k : int, at least 2
        Records in a box, at least.
    l : int, at least 2, optional
        Values of each continuous variable in a box that are ``epsilon`` apart, at least. A variable that has
        not as many in the whole table is exempt.
    epsilon : mapping of variable to float
        How far two values must lie apart to count as two; the variable's precision when not stated, else
        any difference. Only with ``l``.
    statistics : tuple of Statistic
        What users will compute; the mean of every continuous variable when not stated.
    rare : {"none", "crisp", "fuzzy"}
        How records in thin regions count in weighted estimates: as all others, not at all beyond the best
        threshold, or less the larger their box. Published as one weight per box.
    A : float, 0 or more, optional
        Of the objective n·Σ w c + A·√Σw²: the statistical error of a sample of one, in units in which the
        statistics' wanted accuracies are 1. The larger, the more equal the weights. Computed from the
        statistics' influence functions when not stated. Only with ``rare``.
    bounds : {"cells", "grid"}
        Publish the cells' bounds, or snap them outward to multiples of ``grid``.
    grid : mapping of variable to float
        Unit of each variable's grid; a hundredth of its limits' distance, as a round number, when not stated.
        Only with ``bounds: grid``.
    limits : mapping of variable to (lowest, highest)
        Publicly known limits of a variable, the outer faces of the outer boxes; bounds among the edits
        serve too. Where neither is stated, the outer faces lie beyond the extreme values, about as far as
        the k outermost values are spread.
    categorical : {"set", "constant"}
        Variables with levels: a box releases the set of levels it holds, or holds a single level.
    release : {"intervals", "means"}
        One range per variable, or the box's mean for users who need points, which has no bounds, grid or
        limits.

    Notes
    -----
    Boxes of identical records have ambiguity 1 and uncertainty 0, whatever the risk: these measures are
    void by design.
    """

    void_by_design: ClassVar[tuple[str, ...]] = ("ambiguity", "uncertainty")

    method: Literal["optimal-boxes"] = "optimal-boxes"
    k: int = 10
    l: int | None = None  # noqa: E741  the field's standard letter
    epsilon: Mapping[str, float] = field(default_factory=dict)
    statistics: tuple[Statistic, ...] = ()
    rare: Literal["none", "crisp", "fuzzy"] = "none"
    A: float | None = None
    bounds: Literal["cells", "grid"] = "cells"
    grid: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categorical: Literal["set", "constant"] = "set"
    release: Literal["intervals", "means"] = "intervals"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise AnonymizationError(f"k must be at least 2, got {self.k}")
        if self.l is not None and not 2 <= self.l <= self.k:
            raise AnonymizationError(f"l must be at least 2 and at most k = {self.k}, got {self.l}")
        if self.A is not None and not (np.isfinite(self.A) and self.A >= 0):
            raise AnonymizationError(f"A must be 0 or more and finite, got {self.A:g}")
        for name, units in (("epsilon", self.epsilon), ("grid", self.grid)):
            wrong = sorted(n for n, unit in units.items() if not (np.isfinite(unit) and unit > 0))
            if wrong:
                raise AnonymizationError(f"{name} must be above 0 and finite, it is not for {', '.join(wrong)}")
        wrong = sorted(n for n, (low, high) in self.limits.items() if not low < high)
        if wrong:
            raise AnonymizationError(f"limits must be a lower and a higher number, not so for {', '.join(wrong)}")
        if self.release == "means" and self.rare != "none":
            raise AnonymizationError("rare must be none with release: means; only ranges carry weights")
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Raise where a parameter is stated that another one leaves without effect."""
        if self.epsilon and self.l is None:
            raise AnonymizationError("epsilon has no effect without l; state l, or leave epsilon out")
        if self.A is not None and self.rare == "none":
            raise AnonymizationError("A has no effect with rare: none; choose crisp or fuzzy, or leave A out")
        if self.release == "means":
            idle = {"bounds": self.bounds == "grid", "grid": bool(self.grid), "limits": bool(self.limits)}
            if stated := [name for name, there in idle.items() if there]:
                raise AnonymizationError(
                    f"{', '.join(stated)}: no effect with release: means, which publishes no bounds; choose "
                    "intervals, or leave them out"
                )
        if self.grid and self.bounds == "cells":
            raise AnonymizationError("grid has no effect with bounds: cells; choose bounds: grid, or leave it out")

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        names = _ranged(schema)
        if not names:
            return ["boxes need at least one continuous variable that is released"]
        stated = {
            "statistics": [n for s in self.statistics for n in s.of],
            "epsilon": self.epsilon,
            "grid": self.grid,
            "limits": self.limits,
        }
        found = [
            f"{key}: {', '.join(unknown)} is no continuous variable that is released; those are {', '.join(names)}"
            for key, keys in stated.items()
            if (unknown := sorted(set(keys) - set(names)))
        ]
        if self.release == "intervals" and (taken := taken_names(schema, names)):
            found.append(f"the name(s) {', '.join(taken)} mean something else in a table of boxes; rename them")
        return found


def anonymize(data: Microdata, params: OptimalBoxes, *, edits: EditSet, rng: np.random.Generator) -> Release:
    """Put the records into disjoint boxes of at least k, cut where the chosen statistics lose least.

    A missing number is held constant: records with the same gaps share boxes. Left out, and counted in the
    notes, are records whose gaps (and levels, where those are held constant) fewer than k share, or whose
    group has too few distinct values for ``l``.

    Released as ``intervals``, a variable v becomes ``v_lo`` and ``v_hi``; the value lies between them, both
    included. ``box`` numbers the boxes at random; ``weight`` is the box's mean weight where ``rare`` asks
    for one; ``v_distinct`` is l where the box holds l values ε apart. `anoncore.read_boxes` reads the file
    back and estimates the statistics, with guaranteed ranges. Released as ``means`` the schema stays.

    Claims k-anonymity on all that is released and, of ranges with ``l``, distinct values, both recomputed
    from the release. A range says where a value lies and hides nothing else: it is true of every person in
    the box, as ``data`` describes them.

    Linear edits that always apply and that every record keeps narrow the ranges, by rounds of intervals:
    any reader could do the same. Inner faces are no possible values where a variable has a precision.

    Source: Xiang et al. 2013. Departs: the boxes partition the space instead of being centred on the records;
    with ℓ, distinct values are counted; the weights keep the factor n that eqs. 53 to 56 drop.

    Raises
    ------
    AnonymizationError
        With fewer than k records that can share a box, a name that is no continuous variable, values beyond
        the limits, or ``l`` where no variable has as many values.

    Examples
    --------
    >>> from anoncore import Variable
    >>> frame = pd.DataFrame({"age": [20.0, 31, 34, 47, 52, 68]})
    >>> data = Microdata(frame, Schema([Variable("age", "continuous")]))
    >>> params = OptimalBoxes(k=3, limits={"age": (0, 120)})
    >>> released = anonymize(data, params, edits=EditSet(), rng=np.random.default_rng(0)).data
    >>> released.frame[["age_lo", "age_hi"]].drop_duplicates().to_numpy().tolist()
    [[0.0, 39.5], [39.5, 120.0]]
    """
    names = _ranged(data.schema)
    if problems := params.problems(data.schema, edits):
        raise AnonymizationError("\n".join(problems))
    if len(data) < params.k:
        raise AnonymizationError(f"boxes need at least k = {params.k} records, the table has {len(data)}; lower k")
    x = _numbers(data, names)
    diversity = _diversity(data.schema, params, names, x)
    kept, strata = _strata(data, params, x, diversity)
    left_out = len(data) - len(kept)
    data, x = (data, x) if not left_out else (data.take(kept), x[kept])
    statistics = wanted(params.statistics, names, x)
    a, sampling = influences(x, statistics)
    boxes, followed = _boxes(data.schema, params, names, x, a, strata, diversity, edits, rng)
    kept_edits = _kept(edits, names, x) if params.release == "intervals" else []
    figures: dict[str, float] = {
        "boxes": len(boxes.sizes),
        "smallest_box": int(boxes.sizes.min()),
        "largest_box": int(boxes.sizes.max()),
        "left_out": left_out,
    }
    notes = _notes(params, boxes, left_out, diversity.exempt, followed, kept_edits)
    claims: tuple[Claim, ...] = (KAnonymity(k=params.k),)
    if params.release == "means":
        means = _means(data, boxes.label)
        return Release(data=means, claims=claims, keeps_records=True, notes=notes, figures=figures)
    weights = _weights(x, a, boxes.label, params, sampling if params.A is None else params.A)
    counted = [n for n, least in zip(names, diversity.least, strict=True) if least > 1]
    released = as_ranges(data, names, boxes, weights=weights, counted=counted)
    more, measured = told(released, statistics)
    if params.l is not None:
        claims += (DistinctValues(l=params.l, columns=tuple(n + DISTINCT for n in counted)),)
    return Release(
        data=released,
        points=middles(data, names, boxes),
        claims=claims,
        keeps_records=True,
        notes=(*notes, *more),
        figures=figures | measured,
    )


def _ranged(schema: Schema) -> tuple[str, ...]:
    return tuple(v.name for v in schema if v.is_masked and v.kind == "continuous")


def _numbers(data: Microdata, names: tuple[str, ...]) -> np.ndarray:
    return np.column_stack([data.frame[n].to_numpy(dtype="float64") for n in names])


@dataclass(frozen=True, eq=False, repr=False)
class _Diversity:
    """Values asked of each variable and box, (n,) int, 1 for none, how far apart, and who is exempt."""

    least: np.ndarray
    epsilon: np.ndarray
    exempt: tuple[str, ...] = ()


def _diversity(schema: Schema, params: OptimalBoxes, names: tuple[str, ...], x: np.ndarray) -> _Diversity:
    """Return what ``l`` asks of each variable: nothing of one that has not as many values at all."""
    unit = [params.epsilon.get(n, schema[n].precision or 0.0) for n in names]
    epsilon = np.array(unit) * (1.0 - HAIR)
    if params.l is None:
        return _Diversity(np.ones(len(names), dtype=np.intp), epsilon)
    least = np.where(_counts(x, np.zeros(len(x), dtype=np.intp), epsilon)[0] >= params.l, params.l, 1)
    if not (least > 1).any():
        raise AnonymizationError(
            f"l: no variable has {params.l} values that are epsilon apart; lower l or epsilon, or leave l out"
        )
    exempt = tuple(n for n, asked in zip(names, least, strict=True) if asked == 1)
    return _Diversity(least, epsilon, exempt)


def _counts(x: np.ndarray, group: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """Return (G, n): values of each variable and group 0 … G − 1 that are ε apart, 0 without any value."""
    counts = np.zeros((int(group.max()) + 1, x.shape[1]), dtype=np.intp)
    for j, values in enumerate(x.T):
        there = ~np.isnan(values)
        used, own = np.unique(group[there], return_inverse=True)
        if len(used):
            counts[used, j] = kernel.distinct_counts(values[there, None], own, epsilon[j])[:, 0]
    return counts


def _strata(
    data: Microdata, params: OptimalBoxes, x: np.ndarray, diversity: _Diversity
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that can share a box with k − 1 others, and their strata: gaps and constant levels."""
    same = pd.DataFrame(np.isnan(x), index=data.frame.index)
    if params.categorical == "constant":
        levels = [v.name for v in data.schema if v.is_masked and v.is_categorical]
        same = same.assign(**{f"level {n}": data.frame[n].cat.codes for n in levels})
    strata = same.groupby(list(same.columns), sort=True).ngroup().to_numpy()
    good = np.bincount(strata) >= params.k
    if params.l is not None:
        counts = _counts(x, strata, diversity.epsilon)
        good &= ((counts >= diversity.least) | (counts == 0)).all(axis=1)
    kept = np.flatnonzero(good[strata])
    if not len(kept):
        raise AnonymizationError(
            f"boxes: no {params.k} records share their gaps and constant levels (with l distinct values); "
            "lower k or l, choose categorical: set, or fill the gaps first"
        )
    return kept, strata[kept]


def _patterns(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each pattern of gaps its rows, and the columns that are there."""
    gaps = np.isnan(x)
    if not gaps.any():
        yield np.arange(len(x)), np.arange(x.shape[1])
        return
    group = pd.DataFrame(gaps).groupby(list(range(x.shape[1])), sort=True).ngroup().to_numpy()
    for rows in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        yield rows, np.flatnonzero(~gaps[rows[0]])


def _boxes(
    schema: Schema,
    params: OptimalBoxes,
    names: tuple[str, ...],
    x: np.ndarray,
    a: np.ndarray,
    strata: np.ndarray,
    diversity: _Diversity,
    edits: EditSet,
    rng: np.random.Generator,
) -> tuple[BoxTable, tuple[str, ...]]:
    """Partition the records of each pattern of gaps over the variables they have; number boxes at random.

    Returns the boxes, and the variables whose outer faces follow the extreme values.
    """
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    followed: tuple[str, ...] = ()
    units, kept = _units(schema, names, x), _kept(edits, names, x)
    spaces = np.array([np.nan if unit is None else unit for unit in units])
    if params.release == "intervals":
        low, high, followed = outer_faces(schema, names, x, params.k, limits=params.limits, edits=edits)
        # 3 · 0.1 is not 0.3, and no face shall lie between the two.
        x = np.clip(kernel.to_unit(x, spaces), low, high)
    label, boxes, parts = np.empty(len(x), dtype=np.intp), 0, []
    for rows, there in _patterns(x):
        if len(there):
            part = kernel.partition(
                x[np.ix_(rows, there)],
                a[np.ix_(rows, there)],
                params.k,
                l=diversity.least[there] if params.l is not None else None,
                epsilon=diversity.epsilon[there] if params.l is not None else None,
                strata=strata[rows],
                lower_limit=low[there],
                upper_limit=high[there],
            )
            bounds = np.full((3, len(part.sizes), len(names)), np.nan)
            bounds[:2, :, there] = part.lower, part.upper
            if part.distinct is not None and params.l is not None:
                # More than l is not told: who knows all others of a box would learn more of the last.
                bounds[2][:, there] = np.minimum(part.distinct, params.l)
            label[rows], sizes = boxes + part.label, part.sizes
        else:
            _, own, sizes = np.unique(strata[rows], return_inverse=True, return_counts=True)
            bounds = np.full((3, len(sizes), len(names)), np.nan)
            label[rows] = boxes + own
        boxes += len(sizes)
        parts.append((bounds, sizes))
    # The kernel's own order tells which boxes were one before they were cut.
    order = rng.permutation(boxes)
    lower, upper, distinct = np.concatenate([b for b, _ in parts], axis=1)[:, order]
    if params.release == "intervals":
        lower, upper = kernel.off_grid(lower, upper, spaces, low, high)
        lower, upper = narrowed(lower, upper, names, kept, units)
        if params.bounds == "grid":
            grid, precisions = [params.grid.get(n) for n in names], [schema[n].precision for n in names]
            lower, upper = on_grid(lower, upper, grid, precisions, (low, high))
    sizes = np.concatenate([s for _, s in parts])[order]
    return BoxTable(np.argsort(order)[label], lower, upper, sizes, distinct), followed


def _units(schema: Schema, names: tuple[str, ...], x: np.ndarray) -> list[float | None]:
    """Return each variable's precision where every value is a multiple of it."""
    units = []
    for name, values in zip(names, x.T, strict=True):
        unit = schema[name].precision
        if unit is not None:
            steps = values[~np.isnan(values)] / unit
            unit = unit if (np.abs(steps - np.rint(steps)) <= MULTIPLE).all() else None
        units.append(unit)
    return units


def _kept(edits: EditSet, names: tuple[str, ...], x: np.ndarray) -> list[LinearEdit]:
    """Return the linear edits about the variables with ranges that always apply and that all records keep."""
    found = []
    for edit in edits.within(names).linear:
        values = x[:, [names.index(n) for n in edit.terms]]
        values = values[~np.isnan(values).any(axis=1)]
        c = np.array(list(edit.terms.values()))
        if not edit.when and linear_holds(values, c, edit.relation, edit.constant, edit.tolerance).all():
            found.append(edit)
    return found


def _weights(x: np.ndarray, a: np.ndarray, label: np.ndarray, params: OptimalBoxes, A: float) -> np.ndarray | None:
    """Return (B,) the mean weight of each box's records, 1 on average; None where all count alike."""
    if params.rare == "none":
        return None
    n = x.shape[1]
    c = np.full(len(x), np.inf)
    for rows, there in _patterns(x):
        if len(there):
            near = min(params.k, len(rows) - 1)
            radius = box_shapes.local_radius(x[np.ix_(rows, there)], a[np.ix_(rows, there)], near)
            # The objective counts n columns of each record; one with gaps has fewer.
            c[rows] = radius * len(there) / n
    if params.rare == "crisp":
        chosen, _ = box_weights.crisp_rule(c, n, A)
        weights = chosen / chosen.sum()
    else:
        weights, _ = box_weights.optimal_weights(c, n, A)
    return np.asarray(np.bincount(label, weights) / np.bincount(label) * len(x))


def _means(data: Microdata, label: np.ndarray) -> Microdata:
    """Return the records with their box's means, levels kept in number as nearly as whole boxes allow."""
    encoder = Encoder.fit(data, numeric="linear")
    means = spectral.group_means(encoder.encode(data), label)
    return encoder.decode(means[label], groups=label, index=data.frame.index)


def _notes(
    params: OptimalBoxes,
    boxes: BoxTable,
    left_out: int,
    exempt: tuple[str, ...],
    followed: tuple[str, ...],
    edits: Sequence[LinearEdit],
) -> tuple[str, ...]:
    what = "the range of its box" if params.release == "intervals" else "its box's mean"
    kind = "overlapping" if params.release == "intervals" and params.bounds == "grid" else "disjoint"
    notes = [
        f"records were put into {len(boxes.sizes)} {kind} boxes of {boxes.sizes.min()} to "
        f"{boxes.sizes.max()} records, and every number was replaced by {what}"
    ]
    if left_out:
        notes.append(
            f"{left_out} record(s) were left out: those with whom fewer than {params.k} share their gaps or "
            "constant levels, or whose group has too few distinct values"
        )
    if exempt:
        notes.append(f"no distinct values are promised of {', '.join(exempt)}, which has fewer than {params.l}")
    if params.l is not None and params.release == "means":
        notes.append(f"every box holds {params.l} distinct values, which means do not show and nobody can check")
    if followed:
        notes.append(
            f"the outermost bounds of {', '.join(followed)} follow the extreme values, about as far beyond "
            f"as the {params.k} outermost are spread; better state limits that are known to the public"
        )
    if edits:
        notes.append(
            f"ranges were narrowed to what the edits {', '.join(e.name for e in edits)} leave of them, as "
            "any reader could"
        )
    return tuple(notes)
