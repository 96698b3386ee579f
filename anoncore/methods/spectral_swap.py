"""Spectral swapping: permute each principal score independently, and project back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.encoding import Decoding, Encoder, NumericScale
from anoncore.errors import AnonymizationError
from anoncore.kernels import ranks
from anoncore.kernels.k_means import k_means
from anoncore.kernels.spectral_swap import swap
from anoncore.method import EVIDENCE, Method
from anoncore.microdata import Microdata, Schema, round_to
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class SpectralSwap(Method):
    """Spectral swapping: each principal score is permuted independently, and projected back.

    The means of the encoded matrix are exact and its covariances approximate (exact on request);
    a released record stems from no single person. Nothing is proven about a single record. Linear
    edits among variables that are neither logged nor rounded survive; the others are for the repair step.

    Source: Lasko and Vinterbo 2010, section III-B1. Beyond the paper: calibrated decoding, exact
    covariance, exact marginals, normal scores, local swapping, jitter.

    Parameters
    ----------
    released : {"calibrated", "mode", "probabilities"}
        How scores become levels, see `Encoder.decode`.
    exact_covariance : bool
        Make the covariances of the encoded matrix exact to 1e-12 instead of approximate.
    marginals : {"masked", "exact"}
        "exact" gives every continuous variable its original values back, by rank. That publishes
        original values, so the ``tail_coding`` largest and smallest are replaced by their mean.
    tail_coding : int, at least 2
        Values averaged at either end when marginals are exact.
    numeric : {"log", "normal", "linear"}
        Scale of continuous variables; normal scores keep heavy tails and monotone non-linearity,
        linear ones keep linear edits up to rounding.
    local : int, at least 1
        Number of clusters within which to swap, for data with non-linear structure.
    min_cluster : int
        Clusters with fewer records than this are joined to their nearest neighbour.
    jitter : int, "auto" or None
        Over how many ranks, either way, scores are averaged and moved before permuting, so that none survives.
        "auto" takes 20 ranks times the square root of the number of encoded columns, at most 60 and at most an
        eighth of the records. None, as in the paper, leaves every score as it was: who finds an axis, which is
        easy with few columns, recognises members with certainty.
    """

    title: ClassVar[str] = "Spectral swapping"
    description: ClassVar[str] = (
        "The table is rewritten as principal scores, each score is shuffled among all people independently of the "
        "others, and the result is rewritten as a table. A released row is put together from the scores of many people "
        "and stems from no single one."
    )

    method: Literal["spectral-swap"] = "spectral-swap"
    released: Decoding = "calibrated"
    exact_covariance: bool = False
    marginals: Literal["masked", "exact"] = "masked"
    tail_coding: int = 5
    numeric: NumericScale = "log"
    local: int = 1
    min_cluster: int = 50
    jitter: int | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        for name, value, least in (
            ("tail_coding", self.tail_coding, 2),
            ("local", self.local, 1),
            ("min_cluster", self.min_cluster, 2),
            ("jitter", self.jitter if isinstance(self.jitter, int) else 1, 1),
        ):
            if value < least:
                raise AnonymizationError(f"{name} must be at least {least}, got {value}")
        if self.marginals == "exact" and self.released == "mode":
            raise AnonymizationError(
                "marginals: exact needs as many missing values as there were; choose released: calibrated"
            )

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return the edits that read variables which ``released: probabilities`` replaces."""
        spread = {v.name for v in schema if v.kind in ("binary", "nominal")}
        broken = [e.name for e in edits.edits if self.released == "probabilities" and spread & set(e.variables)]
        if not broken:
            return []
        return [
            "released: probabilities replaces binary and nominal variables by one column per level, which these "
            f"edits read: {', '.join(broken)}; remove them or choose calibrated"
        ]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Swap the principal scores.

        Raises
        ------
        AnonymizationError
            With fewer than 2 records.
        """
        if len(data) < 2:
            raise AnonymizationError(f"spectral swapping needs at least 2 records, got {len(data)}")
        encoder = Encoder.fit(data, numeric=self.numeric)
        matrix = encoder.encode(data)
        swapped = swap(
            matrix,
            rng=rng,
            exact_covariance=self.exact_covariance,
            jitter=self.jitter,
            within=_clusters(matrix, self, rng),
        )
        masked = encoder.decode(swapped, form=self.released)
        notes = ["every principal score was permuted independently; no released record stems from one person"]
        if self.marginals == "exact":
            masked = _with_exact_marginals(masked, data, self.tail_coding)
            notes.append(
                "continuous variables hold original values, reassigned by rank; "
                f"the {self.tail_coding} largest and smallest of each are replaced by their mean"
            )
        return Release(
            data=masked,
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=False,
            notes=tuple(notes),
            scores=swapped if self.numeric == "log" else None,
        )


def _clusters(matrix: np.ndarray, params: SpectralSwap, rng: np.random.Generator) -> np.ndarray | None:
    """Return (N,) cluster labels with at least ``min_cluster`` records each, or None for one cluster."""
    count = min(params.local, len(matrix) // params.min_cluster)
    if count <= 1:
        return None
    return k_means(matrix, count, least=params.min_cluster, rng=rng)


def _with_exact_marginals(masked: Microdata, original: Microdata, tail: int) -> Microdata:
    frame = masked.frame.copy()
    for variable in masked.schema:
        if variable.kind != "continuous" or variable.name not in original.schema:
            continue
        source = np.sort(original.frame[variable.name].dropna().to_numpy())
        present = frame[variable.name].notna().to_numpy()
        if len(source) == 0:
            continue
        width = min(tail, len(source))
        source[:width] = source[:width].mean()
        source[-width:] = source[-width:].mean()
        values = frame[variable.name].to_numpy(copy=True)
        values[present] = ranks.match_ranks(values[present], round_to(source, variable.precision))
        frame[variable.name] = values
    return Microdata(frame, masked.schema)
