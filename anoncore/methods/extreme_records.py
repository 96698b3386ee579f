"""Treatment of extreme records and values, before masking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest, nearest_of_others
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata, round_to
from anoncore.release import Release
from anoncore.risk.tail import is_extreme

LEAST_CODED = 5


@dataclass(frozen=True, kw_only=True)
class ExtremeRecords(Method):
    """Treatment of extreme records: they are set aside, or their values are top-coded or winsorised.

    Masking in a spectral basis tends to recreate extremes, so this is a step before masking. Deterministic; claims
    nothing about a single record.

    Source: Hundepool et al. 2012, Statistical Disclosure Control, section 3 (top and bottom
    coding); the rule for setting aside is that of the assessment.

    Parameters
    ----------
    action : {"set-aside", "top-code", "winsorise"}
        Set aside the records whose nearest neighbour is further away than ``times`` the 99th
        percentile of such distances; or, in every continuous variable, replace the share
        ``tail`` at either end by its own mean (top and bottom coding, the variable's mean is
        kept) or by the mean of the 5 values next to the cut (winsorising).
    times : float, above 1
        A record is extreme from this multiple of the 99th percentile on.
    tail : float, in (0, 0.25]
        Share of the records at either end; at least 5 records are coded. A variable with too few
        values for that is left alone.
    """

    title: ClassVar[str] = "Treatment of extreme records"
    description: ClassVar[str] = (
        "People or values far from all others are set aside, or their values are replaced by less extreme ones."
    )
    prepares: ClassVar[bool] = True
    treats_records_alone: ClassVar[bool] = True

    method: Literal["extreme-records"] = "extreme-records"
    action: Literal["set-aside", "top-code", "winsorise"] = "set-aside"
    times: float = 5.0
    tail: float = 0.005

    def __post_init__(self) -> None:
        if not self.times > 1:
            raise AnonymizationError(f"times must be above 1, got {self.times}")
        if not 0 < self.tail <= 0.25:
            raise AnonymizationError(f"tail must lie in (0, 0.25], got {self.tail}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """Everything but what it treats."""
        return LEVEL_COUNTS, MEANS, VALUES

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Set aside, top-code or winsorise.

        Raises
        ------
        AnonymizationError
            When nothing would be left.
        """
        if self.action == "set-aside":
            rows = np.flatnonzero(~_extreme(data, self.times))
            masked = data.take(rows)
            note = f"{len(data) - len(rows)} extreme record(s) were set aside and are not released"
        else:
            masked = _coded(data, self)
            done = "top- and bottom-coded" if self.action == "top-code" else "winsorised"
            note = f"{self.tail:.2%} of the records at either end of each continuous variable were {done}"
        return Release(
            data=masked,
            claims=(NoFormalGuarantee(evidence="no extreme record is matched in the release"),),
            keeps_records=True,
            notes=(note,),
        )


def _extreme(data: Microdata, times: float) -> np.ndarray:
    if data.n_units < 3:
        return np.zeros(len(data), dtype=bool)
    matrix = Encoder.fit(data).encode(data)
    if data.units is None:
        own = nearest(matrix, matrix, 1, skip_self=True)[0][:, 0]
    else:
        own = nearest_of_others(matrix, matrix, 1, own=data.units, units=data.units)[0][:, 0]
    return np.asarray(is_extreme(own, times))


def _holding(units: np.ndarray, number: int) -> int:
    """Return how many records, from the first on, are of so many different units; all where there are fewer."""
    first = np.sort(np.unique(units, return_index=True)[1])
    return int(first[number - 1]) + 1 if len(first) >= number else len(units)


def _coded(data: Microdata, params: ExtremeRecords) -> Microdata:
    frame = data.frame.copy()
    for variable in data.schema:
        if variable.kind != "continuous":
            continue
        values = frame[variable.name].to_numpy(copy=True)
        present = np.flatnonzero(~np.isnan(values))
        order = present[np.argsort(values[present], kind="stable")]
        units = order if data.units is None else data.units[order]
        least = int(np.ceil(params.tail * len(present)))
        widths = [max(least, _holding(side, LEAST_CODED)) for side in (units, units[::-1])]
        if sum(widths) >= len(present):
            continue
        # Winsorised to the mean of the values next to the cut: the value at the cut is one person's.
        for end, side, width in zip((order, order[::-1]), (units, units[::-1]), widths, strict=True):
            cut = end[width : width + _holding(side[width:], LEAST_CODED)]
            values[end[:width]] = values[end[:width] if params.action == "top-code" else cut].mean()
        frame[variable.name] = round_to(values, variable.precision)
    return Microdata(frame, data.schema)
