"""Parameters of optimal boxes, and the masking itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, cast

import numpy as np

from anoncore.boxes.columns import BoxTable, as_ranges, middles, taken_names
from anoncore.boxes.reader import BOX, DISTINCT, read_boxes
from anoncore.boxes.statistics import Statistic, Wanted, influences, reported, wanted
from anoncore.claims import DistinctValues, KAnonymity
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import IDENTICAL_GROUPS, MEANS, Method, OverPartitions
from anoncore.methods.optimal_boxes.output import BoxCosts, BoxFacts, box_means, reported_of_table
from anoncore.methods.optimal_boxes.partition import Diversity, Numbers, Ranges, boxable, into_boxes, numbers_of
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.partitions.store import Executor
from anoncore.partitions.table import PartitionedTable
from anoncore.release import MethodReport, Release


@dataclass(frozen=True, kw_only=True)
class OptimalBoxes(Method):
    """Optimal boxes: records share disjoint boxes of at least k, cut where the chosen statistics lose least.

    A missing number is held constant: records with the same missing values share boxes. Left out, and counted in the
    notes, are records whose missing values (and levels, where those are held constant) fewer than k share, or whose
    group has too few distinct values for ``l``.

    Released as ``intervals``, a variable v becomes ``v_lo`` and ``v_hi``; the value lies between them, both
    included. ``box`` numbers the boxes at random; ``weight`` is the box's mean weight where ``rare`` asks
    for one; ``v_distinct`` is l where the box holds l values ε apart. `anoncore.read_boxes` reads the file
    back and estimates the statistics, with guaranteed ranges. Released as ``means`` the schema stays.

    Claims k-anonymity on all that is released and, of ranges with ``l``, distinct values, both recomputed
    from the release. A range says where a value lies and hides nothing else: it is true of every person in
    the box, as ``data`` describes them. Ambiguity and uncertainty are void by design.

    Linear edits that always apply and that every record keeps narrow the ranges, by rounds of intervals:
    any reader could do the same. Inner faces are no possible values where a variable has a precision.

    Source: Xiang et al. 2013. Departs: the boxes partition the space instead of being centred on the records;
    with ℓ, distinct values are counted; the weights keep the factor n that eqs. 53 to 56 drop.

    Parameters
    ----------
    k : int, at least 2
        Records in a box, at least.
    l : int, at least 2, optional
        Values of each continuous variable in a box that are ``epsilon`` apart, at least. A variable that has
        not as many in the whole table is exempt; of a large table, in its block.
    epsilon : mapping of variable to float
        How far two values must lie apart to count as two; the variable's precision when not stated, else
        any difference. Only with ``l``.
    statistics : tuple of Statistic
        What users will compute; the mean of every continuous variable when not stated.
    rare : {"none", "crisp", "fuzzy", "dropped"}
        How records in thin regions count in weighted estimates: as all others, not at all beyond the best
        threshold, or less the larger their box. Published as one weight per box, which follows from the released
        ranges. "dropped" leaves those beyond the threshold out of the release and cuts the others anew.
    A : float, 0 or more, optional
        Of the objective n·Σ w c + A·√Σw²: the statistical error of a sample of one, in units in which the
        statistics' wanted accuracies are 1. The larger, the more equal the weights. When not stated, the sampling
        error, computed from the statistics' influence functions at the middles of the boxes, times the power of two for
        which range, sampling error and the shift of the estimates by the weights are least together; the paper's
        objective leaves out the shift. Only with ``rare``.
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

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore import Variable, anonymize
    >>> frame = pd.DataFrame({"age": [20.0, 31, 34, 47, 52, 68]})
    >>> data = Microdata(frame, Schema([Variable("age", "continuous")]))
    >>> params = OptimalBoxes(k=3, limits={"age": (0, 120)})
    >>> released = anonymize(data, params, rng=np.random.default_rng(0)).data
    >>> released.frame[["age_lo", "age_hi"]].drop_duplicates().to_numpy().tolist()
    [[0.0, 39.5], [39.5, 120.0]]
    """

    title: ClassVar[str] = "Boxes for chosen statistics"
    description: ClassVar[str] = (
        "People are put into groups of at least k by cutting the table where the statistics that users will compute "
        "lose least. Every number is replaced by the range of its group, or by the group’s mean; ranges are true of "
        "everyone in them, so that what is computed from them can be stated with bounds that certainly hold."
    )
    void_by_design: ClassVar[tuple[str, ...]] = IDENTICAL_GROUPS
    over_partitions: ClassVar[OverPartitions] = "blocks"

    method: Literal["optimal-boxes"] = "optimal-boxes"
    k: int = 10
    l: int | None = None  # noqa: E741  the field's standard letter
    epsilon: Mapping[str, float] = field(default_factory=dict)
    statistics: tuple[Statistic, ...] = ()
    rare: Literal["none", "crisp", "fuzzy", "dropped"] = "none"
    A: float | None = None
    bounds: Literal["cells", "grid"] = "cells"
    grid: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categorical: Literal["set", "constant"] = "set"
    release: Literal["intervals", "means"] = "intervals"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
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
            raise AnonymizationError(
                "rare must be none with release: means; only released ranges say which boxes are wide"
            )
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Raise where a parameter is stated that another one leaves without effect."""
        if self.epsilon and self.l is None:
            raise AnonymizationError("epsilon has no effect without l; state l, or leave epsilon out")
        if self.A is not None and self.rare == "none":
            raise AnonymizationError("A has no effect with rare: none; choose crisp, fuzzy or dropped, or leave A out")
        if self.release == "means":
            idle = {"bounds": self.bounds == "grid", "grid": bool(self.grid), "limits": bool(self.limits)}
            if stated := [name for name, there in idle.items() if there]:
                raise AnonymizationError(
                    f"{', '.join(stated)}: no effect with release: means, which publishes no bounds; choose "
                    "intervals, or leave them out"
                )
        if self.grid and self.bounds == "cells":
            raise AnonymizationError("grid has no effect with bounds: cells; choose bounds: grid, or leave it out")

    @property
    def invariants(self) -> tuple[str, ...]:
        """The mean of each number, where means of boxes are released."""
        return (MEANS,) if self.release == "means" else ()

    @property
    def unmixes_levels(self) -> bool:
        """Whether a box holds a single level of each variable."""
        return self.categorical == "constant"

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
        problems = [
            f"{key}: {', '.join(unknown)} is no continuous variable that is released; those are {', '.join(names)}"
            for key, keys in stated.items()
            if (unknown := sorted(set(keys) - set(names)))
        ]
        for one in self.statistics:
            for name, level in one.within.items():
                if name not in schema or not (schema[name].is_masked and schema[name].is_categorical):
                    problems.append(f"statistics: {one.text}: {name!r} is no variable with levels that is released")
                elif str(level) not in {str(v) for v in schema[name].levels or (level,)}:
                    problems.append(f"statistics: {one.text}: that is no level of {name!r}")
        if self.release == "intervals" and (taken := taken_names(schema, names)):
            problems.append(f"the name(s) {', '.join(taken)} mean something else in a table of boxes; rename them")
        return problems

    @property
    def releases_ranges(self) -> bool:
        """Whether boxes are released as intervals."""
        return self.release == "intervals"

    @property
    def group_number(self) -> str:
        """The number of the box, where boxes are released as intervals."""
        return BOX if self.releases_ranges else ""

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Put the records into boxes.

        Raises
        ------
        AnonymizationError
            With fewer than k records that can share a box, a name that is no continuous variable, values beyond
            the limits, or ``l`` where no variable has as many values.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        if len(data) < self.k:
            raise AnonymizationError(f"boxes need at least k = {self.k} records, the table has {len(data)}; lower k")
        names = _ranged(data.schema)
        epsilon = [self.epsilon.get(n, data.schema[n].precision or 0.0) for n in names]
        diversity = Diversity.asked(numbers_of(data, names), self.l, epsilon)
        numbers = boxable(data, names, self.k, diversity, constant=self.categorical == "constant")
        cut = _Cut.of(self, numbers, edits, diversity, rng)
        if self.rare == "dropped":
            cut = _Cut.of(self, numbers.take(cut.kept), edits, diversity, rng)
        facts = self._facts(cut, diversity, len(data) - len(numbers.data), len(numbers.x) - len(cut.numbers.x))
        if not self.releases_ranges:
            means, pooled = box_means(cut.numbers.data, cut.boxes.label, self.k)
            release = self._release(means, replace(facts, pooled=pooled))
            return replace(release, notes=(*release.notes, *self._unmeasured()))
        weights = cut.costs.weights(cut.boxes, self.A, crisp=self.rare == "crisp") if self.weighs else None
        counted, sets = diversity.counted(names), self.categorical == "set"
        released = as_ranges(cut.numbers.data, names, cut.boxes, weights=weights, counted=counted, sets=sets)
        distinct = () if self.l is None else (DistinctValues(l=self.l, columns=tuple(n + DISTINCT for n in counted)),)
        read, release = read_boxes(released.frame), self._release(released, facts)
        notes, figures = reported(lambda _: read, [one.statistic for one in cut.statistics])
        return replace(
            release,
            points=middles(cut.numbers.data, names, cut.boxes),
            claims=(*release.claims, *distinct),
            notes=(*release.notes, *notes),
            figures={**release.figures, **figures},
        )

    def report_blocks(self, run: Executor, table: PartitionedTable, blocks: Sequence[MethodReport]) -> MethodReport:
        """Return sizes over all blocks, and statistics as all released boxes give them."""
        facts = BoxFacts.of_blocks([cast(BoxFacts, one.facts) for one in blocks])
        notes, figures = self._unmeasured(), dict[str, float]()
        if self.releases_ranges:
            notes, figures = reported_of_table(run, table, self.statistics)
        records = sum(one.records for one in blocks)
        return MethodReport((*facts.notes, *notes), {**facts.figures, **figures}, records)

    def _unmeasured(self) -> tuple[str, ...]:
        """Return what is said of stated statistics where means are released, which bound none of them."""
        if not self.statistics:
            return ()
        note = (
            f"boxes were cut for {', '.join(one.text for one in self.statistics)}; how near the means of boxes give "
            "them is not measured: what varies inside boxes is lost, so that variances, quantiles and relations differ"
        )
        if any(one.within for one in self.statistics) and not self.unmixes_levels:
            note += (
                ", and levels of a box are given to its records anew, so that figures of subgroups are those of boxes"
            )
        return (note,)

    @property
    def weighs(self) -> bool:
        """Whether records carry weights."""
        return self.rare in ("crisp", "fuzzy")

    def _release(self, data: Microdata, facts: BoxFacts) -> Release:
        """Return a release as it is before statistics are reported."""
        claims = (KAnonymity(k=self.k),)
        return Release(data, claims, keeps_records=True, notes=facts.notes, figures=facts.figures, facts=facts)

    def _facts(self, cut: _Cut, diversity: Diversity, left_out: int, dropped: int) -> BoxFacts:
        """Return what is reported of the boxes, however they are released."""
        sizes = cut.boxes.sizes
        return BoxFacts(
            k=self.k,
            l=self.l,
            ranges=self.releases_ranges,
            overlapping=self.releases_ranges and self.bounds == "grid",
            boxes=len(sizes),
            smallest=int(sizes.min()),
            largest=int(sizes.max()),
            left_out=left_out,
            dropped=dropped,
            exempt=diversity.exempt(cut.numbers.names),
            followed=cut.followed,
            binding=tuple(cut.binding),
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Cut:
    """Records in boxes, cut for the statistics.

    Parameters
    ----------
    asked : OptimalBoxes
    numbers : of the N records
    statistics : with the accuracies that these records give where none is stated
    boxes : BoxTable
    followed : variables whose outer faces follow the extreme values
    binding : names of the edits that narrow the ranges
    """

    asked: OptimalBoxes
    numbers: Numbers
    statistics: list[Wanted]
    boxes: BoxTable
    followed: tuple[str, ...]
    binding: list[str]

    @classmethod
    def of(
        cls, asked: OptimalBoxes, numbers: Numbers, edits: EditSet, diversity: Diversity, rng: np.random.Generator
    ) -> _Cut:
        """Cut the space of the numbers into boxes."""
        statistics = wanted(
            asked.statistics, numbers.names, numbers.x, [one.members(numbers.data.frame) for one in asked.statistics]
        )
        ranges = None
        if asked.releases_ranges:
            grid = asked.grid if asked.bounds == "grid" else None
            ranges = Ranges(asked.limits, grid, edits, numbers.binding(edits))
        influence = influences(numbers.x, statistics)[0]
        boxes, followed = into_boxes(numbers, influence, asked.k, diversity, ranges, rng)
        binding = [] if ranges is None else [e.name for e in ranges.binding]
        return cls(asked, numbers, statistics, boxes, followed, binding)

    @property
    def costs(self) -> BoxCosts:
        """What the boxes cost the stated statistics, as any reader can compute."""
        return BoxCosts.of(self.boxes, self.asked.statistics, self.numbers.names, self.numbers.data.frame)

    @property
    def kept(self) -> np.ndarray:
        """(N,) bool, records whose boxes are narrow enough to count at all."""
        return self.costs.weights(self.boxes, self.asked.A, crisp=True)[self.boxes.label] > 0


def _ranged(schema: Schema) -> tuple[str, ...]:
    return tuple(v.name for v in schema if v.is_masked and v.kind == "continuous")
