"""Fuzzy microaggregation: records are replaced by centres drawn from their memberships."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import (
    POSTERIOR_TOLERANCE,
    BlockwiseKAnonymity,
    Claim,
    EffectiveRecords,
    KAnonymity,
    LinkagePosterior,
)
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.fuzzy import balanced
from anoncore.kernels.fuzzy import c_means as fuzzy
from anoncore.kernels.fuzzy.blocks import Law
from anoncore.kernels.mdav import information_loss
from anoncore.method import IDENTICAL_GROUPS, MEANS, Method, OverPartitions
from anoncore.microaggregation import (
    ROUNDING_NOTE,
    Block,
    Memberships,
    block_problems,
    blocks,
    blocks_note,
    joined,
    linked_across_blocks,
    pooled_note,
    variances_kept,
    variances_note,
)
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release

FUZZIFIER = 1.1
SHARPEST = 1e12  # λ; memberships are crisp long before
BELONGS = {"balanced": ("lambda1",), "entropy": ("lambda1", "lambda2"), "fcm": ("m1", "m2")}


@dataclass(frozen=True, kw_only=True)
class FuzzyMicroaggregation(Method):
    """Fuzzy microaggregation: every record is replaced by a cluster centre drawn from its memberships.

    Numbers are standardised and not logged; the linear edits, ratios and bounds among them hold for every
    centre, also where the source breaks them. Variables with levels take part through the encoding. A
    variable with missing values has a column for them, where they count as the mean; a centre is released with
    or without the value as a whole.

    Claims, from the memberships: an attacker who knows a record and all centres links it to its row with at most
    probability 1/k; every centre averages at least k effective records. The balanced form adds k-anonymity, counted
    on the output. Ambiguity and uncertainty are void by design.

    Source: Torra 2020, Algorithm 1 with eqs. 5, 10 and 11. Departs: any number of equalities, with
    inequalities and bounds, by projection in the standardised metric; the guarantee of Proposition 8,
    which holds only as m2 → ∞, is replaced by the per-record certificate; the balanced form is new.

    Parameters
    ----------
    k : int, at least 2
        Records per cluster; ⌊N/k⌋ clusters unless ``clusters`` says otherwise.
    form : {"balanced", "entropy", "fcm"}
        "balanced": entropy c-means whose clusters hold exactly k records each, the remainder spread; its
        promise holds at any fuzziness. "entropy" and "fcm" are the paper's two forms; their promise
        holds only where it is found to, and a release that breaks it is rejected.
    m1, m2 : float, at least 1, optional
        For "fcm": fuzzifier of the clustering (m1) and of the drawing (m2); 1 is crisp, 1.1 when not stated.
    lambda1, lambda2 : float, above 0, optional
        Inverse fuzziness, per squared standard deviation: of the clustering (lambda1, for "balanced" and
        "entropy"), chosen from the data when not stated; of the drawing (lambda2, for "entropy"), lambda1 when
        not stated.
    clusters : int, optional
        Number of clusters of "fcm" and "entropy"; the number of records divided by k when not stated.
    blocks : tuple of tuples of variable names
        Variables that are aggregated apart from the others, those in no block being one more; empty
        for all together. Blocks lose less information and hold k only one by one.
    released : {"calibrated", "mode"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.
    sweeps : int
        At most so many rounds of memberships and centres.
    """

    title: ClassVar[str] = "Fuzzy microaggregation"
    description: ClassVar[str] = (
        "Centres are placed among the people, each person belonging to several of them in part; every person is then "
        "replaced by one centre drawn by these parts, so that knowing the centres does not reveal whose row is whose. "
        "The centres keep the sums and limits that the plan declares."
    )
    void_by_design: ClassVar[tuple[str, ...]] = IDENTICAL_GROUPS

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["fuzzy-microaggregation"] = "fuzzy-microaggregation"
    k: int = 10
    form: Literal["balanced", "entropy", "fcm"] = "balanced"
    m1: float | None = None
    m2: float | None = None
    lambda1: float | None = None
    lambda2: float | None = None
    clusters: int | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    released: Literal["calibrated", "mode"] = "calibrated"
    sweeps: int = 100

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        not_below(1, clusters=self.clusters, sweeps=self.sweeps)
        if self.clusters is not None and self.form == "balanced":
            raise AnonymizationError("clusters: the balanced form makes ⌊N/k⌋; choose k")
        for name in ("m1", "m2", "lambda1", "lambda2"):
            value = getattr(self, name)
            if value is None:
                continue
            if name not in BELONGS[self.form]:
                raise AnonymizationError(f"{name} has no meaning for form: {self.form}; remove it")
            if name.startswith("m") and not 1 <= value < np.inf:
                raise AnonymizationError(f"{name} must be at least 1 and finite, got {value:g}")
            if name.startswith("l") and not 0 < value <= SHARPEST:
                raise AnonymizationError(f"{name} must be above 0 and at most {SHARPEST:g}, got {value:g}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """The mean of each number: records are replaced by weighted means."""
        return (MEANS,)

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        return block_problems(schema, self.blocks, edits)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Cluster the records and draw a centre for each.

        Raises
        ------
        AnonymizationError
            With fewer than k records, more clusters than records, or an edit that spans blocks.
        InfeasibleError
            When edits contradict each other.
        """
        if len(data) < self.k:
            raise AnonymizationError(f"fuzzy microaggregation with k = {self.k} needs as many records, got {len(data)}")
        if self.clusters is not None and self.clusters > len(data):
            raise AnonymizationError(f"clusters must be at most the {len(data)} records, got {self.clusters}")
        mask = _balanced if self.form == "balanced" else _plain
        parts: list[Microdata] = []
        masked: list[_Masked] = []
        before, after, pooled = [], [], list[str]()
        for block in blocks(data, self.blocks, edits):
            done = mask(block, self, rng)
            centres, shared = block.undominated(done.centres, done.labels, self.k)
            done = replace(done, centres=centres)
            pooled += shared
            parts.append(block.decode_centres(done.centres, done.labels, self.released, rng))
            masked.append(done)
            before.append(block.matrix)
            after.append(done.centres[done.labels])
        loss = information_loss(np.hstack(before), np.hstack(after))
        released = joined(parts, data.schema)
        kept = variances_kept(data, released, self.k)
        notes = [*_notes(self, masked, len(edits)), *variances_note(kept), *pooled_note(pooled)]
        figures = {"information_loss": loss}
        if len(masked) > 1:
            linked = linked_across_blocks([one.labels for one in masked], [one.memberships for one in masked], rng)
            figures |= {"linked_across_blocks": linked}
            notes.append(blocks_note(linked))
        return Release(
            data=released,
            claims=_claims(self, masked, parts),
            keeps_records=True,
            notes=tuple(notes),
            figures=figures,
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Masked:
    """One block: its centres (c, m), each record's centre (N,) and memberships, and what can be promised."""

    centres: np.ndarray
    labels: np.ndarray
    memberships: Memberships
    linkage: LinkagePosterior
    effective: EffectiveRecords


def _balanced(block: Block, params: FuzzyMicroaggregation, rng: np.random.Generator) -> _Masked:
    """Cluster with exactly k records per centre, the remainder spread, and round the plan without bias."""
    x = block.matrix
    sizes = balanced.balanced_sizes(len(x), params.k)
    start = balanced.initial_centers(x, sizes, rng=rng)
    lam = params.lambda1 or balanced.recommended_lambda(x, start)
    settings = balanced.Settings(sweeps=params.sweeps)
    plan = balanced.balanced_entropy_c_means(x, start, lam, sizes, constrain=block.constrain, settings=settings)
    labels = balanced.round_dependently(plan, sizes, rng=rng)
    posterior = plan.values / sizes[plan.columns]
    worst = np.maximum.reduceat(posterior, plan.indptr[:-1])
    n_eff = sizes**2 / np.bincount(plan.columns, plan.values**2, len(sizes))
    linkage = LinkagePosterior(
        k=params.k,
        worst=plan.worst_posterior,
        share_above=float((worst > 1.0 / params.k + POSTERIOR_TOLERANCE).mean()),
        centres=len(sizes),
        distinct_centres=fuzzy.distinct_centers(x, plan.centers),
        sweeps=plan.sweeps,
        converged=plan.converged,
    )
    joins = plan.matrix()
    effective = _effective(params.k, n_eff)
    return _Masked(plan.centers, labels, lambda record: joins[[record]].toarray()[0], linkage, effective)


def _plain(block: Block, params: FuzzyMicroaggregation, rng: np.random.Generator) -> _Masked:
    """Cluster with the paper's forms; their certificate says what the drawing is worth."""
    x = block.matrix
    clusters = params.clusters or len(x) // params.k
    start = fuzzy.seed_centers(x, clusters, rng=rng)
    if params.form == "fcm":
        first, second = (Law.fcm(FUZZIFIER if m is None else m) for m in (params.m1, params.m2))
    else:
        lam = params.lambda1 or balanced.recommended_lambda(x, start)
        first, second = Law.efcm(lam), Law.efcm(params.lambda2 or lam)
    settings = fuzzy.Settings(sweeps=params.sweeps)
    clustering = fuzzy.fuzzy_c_means(x, start, first, constrain=block.constrain, settings=settings)
    certificate = fuzzy.certify(x, clustering.centers, k=params.k, first=first, second=second)
    labels = fuzzy.draw(x, clustering.centers, second, rng=rng)
    linkage = LinkagePosterior(
        k=params.k,
        worst=certificate.worst,
        share_above=certificate.share_above,
        centres=clusters,
        distinct_centres=certificate.distinct,
        sweeps=clustering.sweeps,
        converged=clustering.converged,
    )
    return _Masked(
        clustering.centers,
        labels,
        lambda record: fuzzy.memberships(x[[record]], clustering.centers, second)[0],
        linkage,
        _effective(params.k, certificate.n_eff),
    )


def _effective(k: int, n_eff: np.ndarray) -> EffectiveRecords:
    below = n_eff < k * (1.0 - POSTERIOR_TOLERANCE)
    return EffectiveRecords(k=k, fewest=float(n_eff.min()), centres_below=int(below.sum()))


def _claims(params: FuzzyMicroaggregation, masked: list[_Masked], parts: list[Microdata]) -> tuple[Claim, ...]:
    """Return the promises, of several blocks the worst."""
    linkages = [one.linkage for one in masked]
    linkage = LinkagePosterior(
        k=params.k,
        worst=max(one.worst for one in linkages),
        share_above=max(one.share_above for one in linkages),
        centres=sum(one.centres for one in linkages),
        distinct_centres=sum(one.distinct_centres for one in linkages),
        sweeps=max(one.sweeps for one in linkages),
        converged=all(one.converged for one in linkages),
        average=params.form != "balanced",
        blocks=len(parts),
    )
    effective = EffectiveRecords(
        k=params.k,
        fewest=min(one.effective.fewest for one in masked),
        centres_below=sum(one.effective.centres_below for one in masked),
    )
    if params.form != "balanced":
        return (linkage, effective)
    if len(parts) == 1:
        return (KAnonymity(k=params.k), linkage, effective)
    names = tuple(part.schema.names for part in parts)
    return (BlockwiseKAnonymity(k=params.k, blocks=names), linkage, effective)


def _notes(params: FuzzyMicroaggregation, masked: list[_Masked], edits: int) -> tuple[str, ...]:
    centres = sum(one.linkage.centres for one in masked)
    notes = [
        f"every record was replaced by one of {centres} centres, drawn by its memberships, in {len(masked)} "
        "block(s) of variables, so variances are smaller than in the source"
    ]
    if not all(one.linkage.converged for one in masked):
        notes.append(f"the centres had not settled after {params.sweeps} sweeps; allow more")
    collapsed = centres - sum(one.linkage.distinct_centres for one in masked)
    if collapsed:
        notes.append(f"{collapsed} centre(s) coincide with others: the setting is too fuzzy for the data")
    if edits:
        notes.append(ROUNDING_NOTE)
    return tuple(notes)
