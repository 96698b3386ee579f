"""Additive noise: normal noise with the covariance of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.limits import limits_note, within_limits
from anoncore.edits.model import EditSet
from anoncore.encoding import Decoding, Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels import noise
from anoncore.method import LEVEL_COUNTS, Method, OverPartitions, probability_problems
from anoncore.microdata import Microdata, Schema
from anoncore.release import Release

EVIDENCE = (
    "prediction distance, ambiguity and uncertainty not below the reference's, and released records not "
    "linked to their sources: noise of this kind is known to fail both on tables with many variables"
)


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(Method):
    """Additive noise: normal noise of covariance bΣ is added to the encoded records.

    Every released record stems from one record and lies near it: a baseline to compare others with, and no
    protection for tables with many variables. Claims nothing. Numbers beyond the limits of bound edits
    are moved to them; other edits are left to the repair step.

    Source: Kim 1986, Tendick and Matloff 1994, as in Lasko and Vinterbo 2010, section IV-B. Beyond the
    paper: calibrated decoding, exact covariances.

    Parameters
    ----------
    b : float, above 0
        Variance of the noise as a share of the variance of the data.
    correction : {"corrected", "exact", "none"}
        "corrected" shrinks towards the means, so that means are exact and covariances right on average;
        "exact" makes covariances exact too; "none" leaves variances inflated by 1 + b. All of the encoded
        matrix.
    axes : {"original", "spectral"}
        How ``correction: exact`` restores covariances, see `anoncore.kernels.noise.add_noise`: column by
        column, or along the principal axes. Without that correction both are the same.
    released : {"calibrated", "mode", "probabilities"}
        How scores become levels, see `Encoder.decode`.
    """

    title: ClassVar[str] = "Additive noise"
    description: ClassVar[str] = (
        "Random noise that varies together as the data do was added to every record. A released row stems from one "
        "person and lies near that person’s data."
    )

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["additive-noise"] = "additive-noise"
    b: float = 0.1
    correction: Literal["corrected", "exact", "none"] = "corrected"
    axes: Literal["original", "spectral"] = "original"
    released: Decoding = "calibrated"

    def __post_init__(self) -> None:
        if not 0 < self.b < np.inf:
            raise AnonymizationError(f"b must be above 0 and finite, got {self.b}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """Level counts, to which levels are calibrated."""
        return (LEVEL_COUNTS,) if self.released == "calibrated" else ()

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return the edits that read variables which ``released: probabilities`` replaces."""
        return probability_problems(self.released, schema, edits)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Add the noise.

        Raises
        ------
        AnonymizationError
            With fewer than 2 records.
        InfeasibleError
            When ``correction: exact`` is asked of too few records for the columns of the encoded matrix.
        """
        if len(data) < 2:
            raise AnonymizationError(f"additive noise needs at least 2 records, got {len(data)}")
        encoder = Encoder.fit(data)
        noisy = noise.add_noise(encoder.encode(data), b=self.b, rng=rng, correction=self.correction, axes=self.axes)
        effect = {
            "corrected": "means are exact and covariances right on average",
            "exact": "means and covariances are exact",
            "none": f"variances are larger than in the source, by the factor {1 + self.b:.4g} on average",
        }[self.correction]
        masked, beyond = within_limits(encoder.decode(noisy, form=self.released, index=data.frame.index), edits)
        return Release(
            data=masked,
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=True,
            notes=(
                f"normal noise with {self.b:g} times the covariance of the data was added to every record; on "
                f"the scale on which it was added {effect}",
                "every released record stems from one person, and an attacker who knows that person's record finds it "
                "the more easily the more variables there are",
                *limits_note(beyond),
            ),
            scores=noisy,
        )
