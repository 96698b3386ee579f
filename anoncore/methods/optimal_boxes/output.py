"""What is released of boxes: weights, means, and what is reported of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anoncore.boxes.columns import BoxTable
from anoncore.boxes.reader import HIGH, LOW, WEIGHT
from anoncore.boxes.statistics import Statistic, influences, record_influences, reported, wanted
from anoncore.encoding import Encoder
from anoncore.kernels.boxes import weights as kernel
from anoncore.kernels.groups import group_means
from anoncore.microaggregation import pooled_note, undominated
from anoncore.microdata import Microdata
from anoncore.partitions.boxes import BoxRows
from anoncore.partitions.store import Executor
from anoncore.partitions.table import PartitionedTable

POWERS = 24  # of two, by which the sampling error is multiplied: the last weigh all records alike


@dataclass(frozen=True, eq=False, repr=False)
class BoxCosts:
    """What the released ranges alone say of how much their boxes cost the stated statistics.

    Parameters
    ----------
    c : (B,) half-range that each record of a box adds per variable, in units of the wanted accuracies; infinite
        where a face is
    sampling : √N times the sampling error of the statistics, in the same units
    influence : (S, B) mean influence of a box's records on each statistic, in the same units
    variables : how many, n
    """

    c: np.ndarray
    sampling: float
    influence: np.ndarray
    variables: int

    @classmethod
    def of(cls, boxes: BoxTable, stated: Sequence[Statistic], names: Sequence[str], frame: pd.DataFrame) -> BoxCosts:
        """Compute costs with every record in the middle of its box, and in the subgroups that its box may hold."""
        if len(boxes.sizes) == 1:
            return cls(np.zeros(1), 0.0, np.zeros((1, 1)), len(names))
        middle = (boxes.lower / 2.0 + boxes.upper / 2.0)[boxes.label]
        members = [one.members(frame, boxes.label) for one in stated]
        statistics = wanted(stated, names, middle, members)
        influence, sampling = influences(middle, statistics)
        widths = (boxes.upper / 2.0 - boxes.lower / 2.0)[boxes.label]
        per_record = np.nansum(influence * widths, axis=1) / len(names)
        of_boxes = [np.bincount(boxes.label, row) / boxes.sizes for row in record_influences(middle, statistics)]
        return cls(np.bincount(boxes.label, per_record) / boxes.sizes, sampling, np.array(of_boxes), len(names))

    def weights(self, boxes: BoxTable, A: float | None, *, crisp: bool) -> np.ndarray:
        """Return (B,) the weight of each record of a box, 1 on average.

        Parameters
        ----------
        boxes : BoxTable of N records
        A : weight of equal weights in the objective; where None the power of two times the sampling error with the
            least sum of range, sampling error and the shift of the estimates by the weights
        crisp : records in wide boxes do not count at all, instead of the less the wider their box
        """
        c = self.c[boxes.label]
        if A is not None:
            weights = self._optimal(c, A, crisp=crisp)
        else:
            tried = (self._optimal(c, self.sampling * 2.0**power, crisp=crisp) for power in range(POWERS))
            weights = min(tried, key=lambda one: self._loss(boxes, one, c))
        return np.asarray(np.bincount(boxes.label, weights) / boxes.sizes * len(c))

    def _optimal(self, c: np.ndarray, A: float, *, crisp: bool) -> np.ndarray:
        """Return (N,) weights of records that add up to 1."""
        if not crisp:
            return kernel.optimal_weights(c, self.variables, A)[0]
        chosen = kernel.crisp_rule(c, self.variables, A)[0]
        return np.asarray(chosen / chosen.sum())

    def _loss(self, boxes: BoxTable, weights: np.ndarray, c: np.ndarray) -> float:
        """Return the range, the sampling error and the shift of the estimates that weights (N,) cause."""
        shift = np.abs(self.influence @ np.bincount(boxes.label, weights)).sum()
        return float(kernel.objective(weights, c, self.variables, self.sampling) + shift)


@dataclass(frozen=True, kw_only=True)
class BoxFacts:
    """What is reported of boxes, beside the statistics that they give.

    Parameters
    ----------
    k, l : as asked for
    ranges, overlapping : whether ranges are released, and whether those of different boxes overlap
    boxes, smallest, largest : how many boxes, and the fewest and most records of one
    left_out : records that can share no box
    dropped : of the others, those that were left out because their boxes were wide
    exempt : variables of which no distinct values are promised
    followed : variables whose outer faces follow the extreme values
    binding, partly : names of the edits that narrow the ranges: of all boxes, or in some blocks alone
    pooled : variables whose averages are of several boxes
    blocks : into which the records were divided, each of them put into boxes by itself
    """

    k: int
    l: int | None  # noqa: E741  the field's standard letter
    ranges: bool
    overlapping: bool
    boxes: int
    smallest: int
    largest: int
    left_out: int
    dropped: int
    exempt: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
    binding: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    blocks: int = 1

    @classmethod
    def of_blocks(cls, blocks: Sequence[BoxFacts]) -> BoxFacts:
        """Return what is reported of all blocks together."""

        def named(name: str) -> tuple[str, ...]:
            return tuple(dict.fromkeys(one for block in blocks for one in getattr(block, name)))

        everywhere = tuple(name for name in blocks[0].binding if all(name in one.binding for one in blocks))
        return replace(
            blocks[0],
            boxes=sum(one.boxes for one in blocks),
            smallest=min(one.smallest for one in blocks),
            largest=max(one.largest for one in blocks),
            left_out=sum(one.left_out for one in blocks),
            dropped=sum(one.dropped for one in blocks),
            exempt=named("exempt"),
            followed=named("followed"),
            binding=everywhere,
            partly=tuple(name for name in named("binding") if name not in everywhere),
            pooled=named("pooled"),
            blocks=len(blocks),
        )

    @property
    def figures(self) -> dict[str, float]:
        """Sizes, for comparison between releases."""
        return {
            "boxes": self.boxes,
            "smallest_box": self.smallest,
            "largest_box": self.largest,
            "left_out": self.left_out + self.dropped,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the method statement."""
        return (*self._sizes(), *self._diversity(), *self._dropped(), *self._bounds(), *pooled_note(self.pooled))

    def _sizes(self) -> Iterator[str]:
        """Yield how many boxes there are, and which records are in none."""
        what = "the range of its box" if self.ranges else "its box's mean"
        kind = "overlapping boxes" if self.overlapping else "disjoint boxes"
        if self.blocks > 1:
            kind = "boxes, which overlap," if self.overlapping else "boxes, those of one block disjoint,"
        yield (
            f"records were put into {self.boxes} {kind} of {self.smallest} to {self.largest} records, and every number "
            f"was replaced by {what}"
        )
        if self.left_out:
            where = " in their block" if self.blocks > 1 else ""
            yield (
                f"{self.left_out} record(s) were left out: those with whom fewer than {self.k} share their missing "
                f"values or constant levels{where}, or whose group has too few distinct values"
            )

    def _diversity(self) -> Iterator[str]:
        """Yield of which variables no distinct values are promised, and whether they can be checked."""
        if self.l is None:
            return
        if self.exempt:
            where = " in a block of records" if self.blocks > 1 else ""
            yield f"no distinct values are promised of {', '.join(self.exempt)}, which has fewer than {self.l}{where}"
        if not self.ranges:
            yield f"every box holds {self.l} distinct values, which means do not show and no reader can check"

    def _dropped(self) -> Iterator[str]:
        """Yield how many records were left out because their boxes were wide."""
        if self.dropped:
            yield (
                f"{self.dropped} further record(s), in thin regions, were left out, since with them the stated "
                "statistics would be less certain; the ranges enclose the statistics of the others, which differ from "
                "those of all wherever density goes with the values"
            )

    def _bounds(self) -> Iterator[str]:
        """Yield where bounds come from: from extreme values, and from edits."""
        if self.followed:
            of = " of their block" if self.blocks > 1 else ""
            yield (
                f"the outermost bounds of {', '.join(self.followed)} follow the extreme values{of}, about as far "
                f"beyond as the {self.k} outermost are spread; better state limits that are known to the public"
            )
        if self.binding:
            edits = ", ".join(self.binding)
            yield f"ranges were narrowed to what the edits {edits} leave of them, as any reader could"
        if self.partly:
            yield f"those of some blocks were narrowed to what the edits {', '.join(self.partly)} leave of them, too"


def box_means(data: Microdata, label: np.ndarray, k: int) -> tuple[Microdata, tuple[str, ...]]:
    """Return the records with their box's means, levels kept in number as nearly as whole boxes allow.

    Beside them are the variables whose averages are of several boxes.
    """
    encoder = Encoder.fit(data, numeric="linear")
    means, pooled = undominated(data, encoder, group_means(encoder.encode(data), label), label, k)
    return encoder.decode(means[label], groups=label, index=data.frame.index), pooled


def reported_of_table(
    run: Executor, released: PartitionedTable, stated: Sequence[Statistic]
) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return notes and figures on how well all ranges of a table in partitions give each stated statistic.

    Without any they are of the mean of each variable that has values.
    """
    names = [name.removesuffix(LOW) for name in released.schema.names if name.endswith(LOW)]
    weight = [WEIGHT] if WEIGHT in released.schema else []

    def columns(one: Statistic) -> list[str]:
        return [*(name + end for name in one.of for end in (LOW, HIGH)), *weight, *one.within]

    statistics = stated or [Statistic(statistic="mean", of=(name,)) for name in names]
    rows = BoxRows.of(run, released, [name for one in statistics for name in columns(one)])
    try:
        known = [one for one in statistics if stated or rows.present(one.of[0] + LOW)]
        return reported(lambda one: rows.read(columns(one)), known)
    finally:
        rows.remove()
