"""Spectral swapping: permute each principal score independently, and project back."""

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
from anoncore.kernels.k_means import k_means
from anoncore.kernels.score_basis import Axes, score_basis
from anoncore.kernels.spectral_swap import in_clusters, swap
from anoncore.kernels.weight_classes import weight_classes
from anoncore.method import EVIDENCE, LEVEL_COUNTS, MEANS, VALUES, Method, OverPartitions, probability_problems
from anoncore.microdata import Microdata, Schema
from anoncore.numbers_by_rank import coded_numbers, drawn_note, drawn_numbers, with_numbers_by_rank
from anoncore.parameters import not_below
from anoncore.release import Release

# Axes of smaller clusters fit their members: those whom their cluster makes unusual showed (area 0.59 at 5 to 10,
# 0.65 at 2), and to an attacker who has the axes of a class of weights everyone did (0.6 at 3).
_UNITS_PER_COLUMN = 20


@dataclass(frozen=True, kw_only=True)
class SpectralSwap(Method):
    """Spectral swapping: each principal score is permuted independently, and projected back.

    The means of the encoded matrix are exact and its covariances approximate (exact on request);
    a released record stems from no single person. Nothing is proven about a single record. Linear
    edits among variables that are neither logged nor rounded survive; the others are for the repair step. A number
    beyond the limits of a bound edit is moved to them, unless another edit ties it to other variables.

    Source: Lasko and Vinterbo 2010, section III-B1. Beyond the paper: calibrated decoding, exact
    covariance, exact marginals, normal scores, local swapping, jitter.

    Parameters
    ----------
    axes : {"principal", "independent"}
        Along which axes scores are permuted: principal ones, or independent components, which keep more of what is
        not normal in the data.
    leading : float, above 0 and at most 1
        Share of the variance that is masked: the fewest longest principal axes that hold it are permuted, and the
        shorter ones left out, **so that what lies along them alone is not released**. 1 uses all.
    released : {"calibrated", "mode", "probabilities"}
        How scores become levels, see `Encoder.decode`.
    exact_covariance : bool
        Make the covariances of the encoded matrix exact to 1e-12 instead of approximate.
    marginals : {"masked", "drawn", "exact"}
        "drawn" gives every continuous variable values near the original's, by rank: numbers that very many
        records hold as they are, others drawn from averages over 20 to 60 ranks around. "exact" gives it the
        original's values themselves: **a number that one person holds gives that person's membership away**.
        The ``tail_coding`` largest and smallest are replaced by their mean.
    k : int, at least 2
        Numbers that fewer records hold are not released as they are, when marginals are drawn or scores normal.
    tail_coding : int, at least 2
        Values averaged at either end when marginals are exact.
    numeric : {"log", "normal", "linear"}
        Scale of continuous variables; normal scores keep heavy tails and monotone non-linearity,
        linear ones keep linear edits up to rounding.
    local : int, at least 1
        Number of clusters within which to swap, for data with non-linear structure.
    local_by : {"records", "weights"}
        What the clusters are: records that resemble each other, or classes of consecutive sampling weights, of the
        variable with the role weight. Scores then move among records of similar weight, and weighted means and
        shares stay nearer to those of the source. **A released weight stays near its class**.
    min_cluster : int
        Clusters that have fewer statistical units than this, or than 20 for each encoded column, are joined to their
        nearest neighbour; classes of weights to the next.
    jitter : int, "auto" or None
        Over how many ranks, either way, scores are averaged and moved before permuting, so that none survives.
        "auto" takes 20 ranks times the square root of the number of encoded columns, at most 60 and at most an
        eighth of the records. None, as in the paper, leaves every score as it was: an attacker who finds an
        axis, which is easy with few columns, recognises members with certainty. With exact covariances or clusters,
        a stated jitter needs the decision of a person: scores then recur along axes that are not looked for.
    """

    title: ClassVar[str] = "Spectral swapping"
    description: ClassVar[str] = (
        "The table is rewritten as principal scores, each score is shuffled among all people independently of the "
        "others, and the result is rewritten as a table. A released row is put together from the scores of many people "
        "and stems from no single one."
    )

    over_partitions: ClassVar[OverPartitions] = "blocks"
    makes_new_records: ClassVar[bool] = True

    method: Literal["spectral-swap"] = "spectral-swap"
    axes: Axes = "principal"
    leading: float = 1.0
    released: Decoding = "calibrated"
    exact_covariance: bool = False
    marginals: Literal["masked", "drawn", "exact"] = "masked"
    k: int = 5
    tail_coding: int = 5
    numeric: NumericScale = "log"
    local: int = 1
    local_by: Literal["records", "weights"] = "records"
    min_cluster: int = 50
    jitter: int | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        not_below(2, k=self.k, tail_coding=self.tail_coding, min_cluster=self.min_cluster)
        not_below(1, local=self.local, jitter=self.jitter if isinstance(self.jitter, int) else None)
        if not 0 < self.leading <= 1:
            raise AnonymizationError(f"leading must be above 0 and at most 1, got {self.leading}")
        if self.local_by == "weights" and self.local == 1:
            raise AnonymizationError("local_by: weights needs classes: set local to at least 2, such as 5")
        if self.leading < 1 and (self.exact_covariance or self.axes == "independent"):
            raise AnonymizationError(
                "leading below 1 leaves principal axes out: covariances cannot be exact then, and independent "
                "components have no longest; leave leading at 1"
            )
        if self.axes == "independent" and self.jitter != "auto":
            raise AnonymizationError(
                "axes: independent needs jitter: auto: scores that recur along principal axes alone are tested for"
            )
        if self.marginals != "masked" and self.released == "mode":
            raise AnonymizationError(
                f"marginals: {self.marginals} needs as many missing values as there were; choose released: calibrated"
            )

    @property
    def publishes_source_values(self) -> str:
        """Why single records may show: exact marginals are their numbers, and some scores are not looked for."""
        reasons = []
        if self.marginals == "exact":
            reasons.append(
                "marginals: exact publishes every number of the source but the largest and smallest: who knows a "
                "number that one person holds, such as an exact amount, learns whether that person took part"
            )
        if self.jitter != "auto" and (self.exact_covariance or self.local > 1):
            option = "exact_covariance" if self.exact_covariance else "local"
            reasons.append(
                f"jitter: {'null' if self.jitter is None else self.jitter} with {option} leaves principal scores of "
                "single persons as they are, or nearly, along axes that the assessment does not look for; leave jitter "
                "at auto"
            )
        return "; ".join(reasons)

    @property
    def invariants(self) -> tuple[str, ...]:
        """Level counts, to which levels are calibrated, and with exact marginals what numbers hold."""
        counts = (LEVEL_COUNTS,) if self.released == "calibrated" else ()
        return (*counts, MEANS, VALUES) if self.marginals == "exact" else counts

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return the edits that read variables which ``released: probabilities`` replaces, and a missing weight."""
        problems = probability_problems(self.released, schema, edits)
        if self.local_by == "weights" and _weight(schema) is None:
            problems.append("local_by: weights needs a number with the role weight; give it, or leave local_by out")
        return problems

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Swap the principal scores.

        Raises
        ------
        AnonymizationError
            With fewer than 2 records, or one column and no jitter; when classes of weights are asked for and weights
            are missing or not above 0.
        """
        if len(data) < 2:
            raise AnonymizationError(f"spectral swapping needs at least 2 records, got {len(data)}")
        encoder = Encoder.fit(data, numeric=self.numeric, k=self.k, rng=rng)
        if encoder.width == 1 and self.jitter is None:
            raise AnonymizationError(
                "a table of one column is its own axis: without jitter its numbers are released as they are; "
                "leave jitter at auto"
            )
        matrix = encoder.encode(data)
        mask = partial(
            swap,
            rng=rng,
            basis_of=partial(score_basis, axes=self.axes, leading=self.leading),
            exact_covariance=self.exact_covariance,
            jitter=self.jitter,
        )
        labels, units = _clusters(data, matrix, self, rng), data.units
        swapped = mask(matrix, units=units) if labels is None else in_clusters(matrix, labels, mask, units)
        del matrix  # frees the encoded table before decoding
        masked = encoder.decode(swapped, form=self.released)
        notes = [_left_out(self.leading)] if self.leading < 1 else []
        notes += [f"every {self.axes} score was permuted independently; no released record stems from one person"]
        if labels is not None:
            kind = "classes of consecutive weights" if self.local_by == "weights" else "clusters"
            notes.append(f"{kind}, within which scores were permuted: {labels.max() + 1}")
        if self.marginals == "drawn":
            drawn = drawn_numbers(data, masked.schema.names, k=self.k, rng=rng)
            masked = with_numbers_by_rank(masked, drawn)
            notes.append(f"continuous variables hold values drawn from the original's by rank; {drawn_note(self.k)}")
        if self.marginals == "exact":
            masked = with_numbers_by_rank(masked, coded_numbers(data, masked.schema.names, self.tail_coding))
            notes.append(
                "continuous variables hold original values, reassigned by rank; "
                f"the {self.tail_coding} largest and smallest of each are replaced by their mean"
            )
        masked, beyond = within_limits(masked, edits)
        return Release(
            data=masked,
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=False,
            notes=(*notes, *limits_note(beyond)),
            scores=swapped if self.numeric == "log" else None,
        )


def _left_out(leading: float) -> str:
    return (
        f"the longest principal axes that hold {leading:.1%} of the variance were used; what varies along the others "
        "alone is not in the release, and variances are smaller by it"
    )


def _weight(schema: Schema) -> str | None:
    return next((v.name for v in schema if v.role == "weight" and not v.is_categorical), None)


def _clusters(data: Microdata, matrix: np.ndarray, params: SpectralSwap, rng: np.random.Generator) -> np.ndarray | None:
    """Return (N,) labels of clusters of at least ``min_cluster`` units each; None for one cluster."""
    least = max(params.min_cluster, _UNITS_PER_COLUMN * matrix.shape[1])
    if params.local_by == "weights":
        return _weight_classes(data, params, least)
    count = min(params.local, data.n_units // least)
    if count <= 1:
        return None
    return k_means(matrix, count, least=data.records_of(least), rng=rng)


def _weight_classes(data: Microdata, params: SpectralSwap, least: int) -> np.ndarray:
    name = _weight(data.schema)
    if name is None:
        raise AnonymizationError("\n".join(params.problems(data.schema, EditSet())))
    weights = data.frame[name].to_numpy(dtype=np.float64)
    if bad := int((~(np.isfinite(weights) & (weights > 0))).sum()):
        raise AnonymizationError(f"variable {name!r}: {bad} record(s) have no weight above 0, which classes need")
    return weight_classes(weights, min(params.local, len(data)), least=least, units=data.unit_codes)
