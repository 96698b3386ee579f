"""Records whose numbers one factor, or one constant, may have changed: what of them stays is compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._values import deviations, logarithms

_FEWEST, _MOST = 3, 8  # numbers that are compared
_SIMILAR = 10.0  # times the standard deviation of each of them that the largest is at most
_POSITIVE = 0.5  # of the values, where ratios are taken
UP_TO_FACTOR, UP_TO_CONSTANT = "up to a factor", "up to a constant"


def without_common_change(
    original: Microdata, released: Microdata, reference: Microdata
) -> Iterator[tuple[str, tuple[Floats, Floats, Floats]]]:
    """Give the numbers of three tables less what one factor, or one constant, changes of each record.

    Noise that multiplies all amounts of a firm by one factor leaves their ratios, by which the firm is found. The
    logarithms, or the numbers themselves, less their mean over the record are in standard deviations of the original.
    Numbers of similar spread are taken, eight at most and three at least; without these nothing is given. Missing
    ones, and logarithms of what is not above 0, are medians of the original.

    Parameters
    ----------
    original, released, reference : Microdata

    Returns
    -------
    names and (N, n), (M, n) and (L, n) tables
    """
    names = [v.name for v in released.schema if v.is_masked and v.kind == "continuous" and v.name in original.schema]
    tables = [
        np.column_stack([np.empty((len(data), 0)), *(data.frame[name].to_numpy(dtype=np.float64) for name in names)])
        for data in (original, released, reference)
    ]
    spread = deviations(tables[0])
    alike = np.argsort(-spread, kind="stable")
    alike = alike[(spread[alike] > 0.0) & (spread[alike] * _SIMILAR >= spread.max(initial=0.0))][:_MOST]
    positive = alike[np.all([(table[:, alike] > 0.0).mean(axis=0) >= _POSITIVE for table in tables], axis=0)]
    for name, chosen in ((UP_TO_FACTOR, positive), (UP_TO_CONSTANT, alike)):
        if len(chosen) >= _FEWEST:
            numbers = [logarithms(table[:, chosen]) if name == UP_TO_FACTOR else table[:, chosen] for table in tables]
            usual = np.nanmedian(numbers[0], axis=0)
            one, other, others = (_within_records(table, usual) for table in numbers)
            scale = one.std(axis=0)
            scale[scale == 0.0] = 1.0
            yield name, (one / scale, other / scale, others / scale)


def _within_records(numbers: Floats, usual: Floats) -> Floats:
    """Return (N, n) numbers less their mean over each record, missing ones being usual."""
    present = np.where(np.isnan(numbers), usual, numbers)
    return np.asarray(present - present.mean(axis=1, keepdims=True))
