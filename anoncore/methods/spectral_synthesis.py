"""Spectral synthesis: records are drawn from a model of the principal scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.limits import limits_note, within_limits
from anoncore.edits.model import EditSet
from anoncore.encoding import Decoding, Encoder, NumericScale
from anoncore.errors import AnonymizationError
from anoncore.kernels.score_basis import Axes, score_basis
from anoncore.kernels.spectral_synthesis import Margins, synthesize
from anoncore.method import EVIDENCE, Method, OverPartitions, draws_enough, probability_problems
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class SpectralSynthesis(Method):
    """Spectral synthesis: records are drawn from a model with independent principal scores.

    No released record stems from a person, and no figure of the source is kept exactly: counts of levels and of missing
    values are drawn, as in another sample. Nothing is proven about a single record. Edits are left to the repair step;
    a number beyond the limits of a bound edit is moved to them, unless another edit ties it to other variables.

    Source: Lasko and Vinterbo 2010, section V, who propose it; Silverman and Young 1987, the smoothed bootstrap.
    Beyond them: variables with levels and missing values, drawn counts, normal scores of numbers.

    Parameters
    ----------
    records : int, at least 1, or None
        Records to draw; None for as many as there are.
    axes : {"principal", "independent"}
        Axes along which scores are drawn independently of each other.
    scores : {"smoothed", "normal"}
        From which distribution scores are drawn on each axis: that of the source's scores, smoothed, without extremes;
        or a normal one, so that the table enters by the means and covariances of its encoding, and its margins.
    numeric : {"normal", "log", "linear"}
        Scale of continuous variables; normal scores keep heavy tails and monotone non-linearity.
    k : int, at least 2
        Numbers that fewer records hold are not released as they are, when the scale is normal.
    released : {"calibrated", "mode", "probabilities"}
        How scores become levels, see `Encoder.decode`; calibrated to the counts that are drawn.
    """

    title: ClassVar[str] = "Spectral synthesis"
    description: ClassVar[str] = (
        "The table is rewritten as principal scores, and new scores are drawn from the smoothed distribution of each, "
        "independently of the others, and rewritten as a table. No released row stems from a person."
    )
    makes_new_records: ClassVar[bool] = True

    method: Literal["spectral-synthesis"] = "spectral-synthesis"
    records: int | None = None
    axes: Axes = "principal"
    scores: Margins = "smoothed"
    numeric: NumericScale = "normal"
    k: int = 5
    released: Decoding = "calibrated"

    def __post_init__(self) -> None:
        not_below(1, records=self.records)
        not_below(2, k=self.k)

    def redraws(self, data: Microdata, edits: EditSet) -> tuple[str, ...]:
        """Return all variables, where as many records are drawn as there are: of more the figures vary less.

        With normal scores those of a number that many records hold hardly vary.
        """
        drawn = self.records is None and self.scores == "smoothed" and draws_enough(data)
        return data.schema.masked if drawn else ()

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return the edits that read variables which ``released: probabilities`` replaces."""
        return probability_problems(self.released, schema, edits)

    @property
    def over_partitions(self) -> OverPartitions:
        """In random blocks, of which each is as large as its source."""
        return "blocks" if self.records is None else "none"

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Draw the records.

        Raises
        ------
        AnonymizationError
            With fewer than 2 records.
        """
        if len(data) < 2:
            raise AnonymizationError(f"spectral synthesis needs at least 2 records, got {len(data)}")
        size = len(data) if self.records is None else self.records
        encoder = Encoder.fit(data, numeric=self.numeric, k=self.k, rng=rng)
        drawn = synthesize(
            encoder.encode(data),
            size,
            rng=rng,
            basis_of=partial(score_basis, axes=self.axes),
            margins=self.scores,
            units=data.units,
        )
        masked, beyond = within_limits(encoder.of_sample(size, rng).decode(drawn, form=self.released), edits)
        return Release(
            data=masked,
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=False,
            notes=(
                f"records were drawn from a model in which {self.axes} scores are independent of each other, and no "
                "released record stems from a person; counts of levels and of missing values were drawn as well",
                *limits_note(beyond),
            ),
            scores=drawn if self.numeric == "log" else None,
        )
