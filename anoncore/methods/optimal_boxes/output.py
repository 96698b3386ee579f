"""What is released of boxes: weights, means, and sentences for the method statement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anoncore.boxes.columns import BoxTable
from anoncore.encoding import Encoder
from anoncore.kernels.boxes import shapes
from anoncore.kernels.boxes import weights as kernel
from anoncore.kernels.groups import group_means
from anoncore.methods.optimal_boxes.partition import patterns
from anoncore.microdata import Microdata


def box_weights(
    x: np.ndarray, influence: np.ndarray, label: np.ndarray, k: int, A: float, *, crisp: bool
) -> np.ndarray:
    """Return (B,) the mean weight of each box's records, 1 on average.

    Parameters
    ----------
    x, influence : (N, n) float64
    label : (N,) int, the box of each record
    k : int, records in a box
    A : float, weight of equal weights in the objective
    crisp : records in thin regions do not count at all, instead of the less the larger their box
    """
    n = x.shape[1]
    c = np.full(len(x), np.inf)
    for rows, present in patterns(x):
        if len(present):
            near = min(k, len(rows) - 1)
            radius = shapes.local_radius(x[np.ix_(rows, present)], influence[np.ix_(rows, present)], near)
            # The objective counts n columns of each record; one with missing values has fewer.
            c[rows] = radius * len(present) / n
    if crisp:
        chosen, _ = kernel.crisp_rule(c, n, A)
        weights = chosen / chosen.sum()
    else:
        weights, _ = kernel.optimal_weights(c, n, A)
    return np.asarray(np.bincount(label, weights) / np.bincount(label) * len(x))


def box_means(data: Microdata, label: np.ndarray) -> Microdata:
    """Return the records with their box's means, levels kept in number as nearly as whole boxes allow."""
    encoder = Encoder.fit(data, numeric="linear")
    means = group_means(encoder.encode(data), label)
    return encoder.decode(means[label], groups=label, index=data.frame.index)


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
