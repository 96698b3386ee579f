"""What is released of boxes: weights, means, and sentences for the method statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.boxes.columns import BoxTable
from anoncore.boxes.statistics import Statistic, influences, record_influences, wanted
from anoncore.encoding import Encoder
from anoncore.kernels.boxes import weights as kernel
from anoncore.kernels.groups import group_means
from anoncore.microaggregation import pooled_note, undominated
from anoncore.microdata import Microdata

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


def box_means(data: Microdata, label: np.ndarray, k: int) -> tuple[Microdata, tuple[str, ...]]:
    """Return the records with their box's means, levels kept in number as nearly as whole boxes allow; and a note."""
    encoder = Encoder.fit(data, numeric="linear")
    means, pooled = undominated(data, encoder, group_means(encoder.encode(data), label), label, k)
    return encoder.decode(means[label], groups=label, index=data.frame.index), pooled_note(pooled)


def dropped_note(dropped: int) -> str:
    """Return a sentence on records that were left out because their boxes were wide; empty for none."""
    if not dropped:
        return ""
    return (
        f"{dropped} further record(s), in thin regions, were left out, since with them the stated statistics would be "
        "less certain; the ranges enclose the statistics of the others, which differ from those of all wherever "
        "density goes with the values"
    )


def partition_notes(boxes: BoxTable, k: int, left_out: int, *, ranges: bool, overlapping: bool) -> list[str]:
    """Return sentences on how many boxes there are, and which records are in none."""
    what, kind = "the range of its box" if ranges else "its box's mean", "overlapping" if overlapping else "disjoint"
    notes = [
        f"records were put into {len(boxes.sizes)} {kind} boxes of {boxes.sizes.min()} to "
        f"{boxes.sizes.max()} records, and every number was replaced by {what}"
    ]
    if left_out:
        notes.append(
            f"{left_out} record(s) were left out: those with whom fewer than {k} share their missing values or "
            "constant levels, or whose group has too few distinct values"
        )
    return notes


def diversity_notes(exempt: Sequence[str], l: int, *, ranges: bool) -> list[str]:  # noqa: E741
    """Return sentences on distinct values: of which variables none are promised, and whether they can be checked."""
    notes = []
    if exempt:
        notes.append(f"no distinct values are promised of {', '.join(exempt)}, which has fewer than {l}")
    if not ranges:
        notes.append(f"every box holds {l} distinct values, which means do not show and no reader can check")
    return notes


def bounds_notes(followed: Sequence[str], k: int, binding: Sequence[str]) -> list[str]:
    """Return sentences on where bounds come from: from extreme values, and from edits."""
    notes = []
    if followed:
        notes.append(
            f"the outermost bounds of {', '.join(followed)} follow the extreme values, about as far beyond "
            f"as the {k} outermost are spread; better state limits that are known to the public"
        )
    if binding:
        notes.append(f"ranges were narrowed to what the edits {', '.join(binding)} leave of them, as any reader could")
    return notes
