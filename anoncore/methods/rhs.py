"""Recursive histogram sanitization on the variables themselves: the non-spectral baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from anoncore.claims import Claim, KAnonymity, NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels import rhs
from anoncore.microdata import Microdata
from anoncore.release import Release

EVIDENCE = (
    "no record alone in its cell, which it is released from as it was; with many variables nearly every record is"
)


@dataclass(frozen=True, kw_only=True)
class RHS:
    """How to group.

    Parameters
    ----------
    k : int, at least 2
        Groups of 2k records or more are cut.
    small : {"join", "keep"}
        "join" leaves out cuts that would part fewer than k records from the rest; "keep" makes every cut, as
        the published algorithm does, and protects nobody who is alone in a cell.
    representative : {"mean", "medoid"}
        What replaces the records of a group: their mean, or the record nearest to it. A medoid
        publishes one real record per group.
    released : {"calibrated", "mode"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.

    Notes
    -----
    Groups of identical records have ambiguity 1 and uncertainty 0, whatever the risk: with "join" these
    measures are void by design.
    """

    method: Literal["rhs"] = "rhs"
    k: int = 10
    small: Literal["join", "keep"] = "join"
    representative: Literal["mean", "medoid"] = "mean"
    released: Literal["calibrated", "mode"] = "calibrated"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise AnonymizationError(f"k must be at least 2, got {self.k}")

    @property
    def void_by_design(self) -> tuple[str, ...]:
        """Measures that say nothing about the release."""
        return ("ambiguity", "uncertainty") if self.small == "join" else ()


def anonymize(data: Microdata, params: RHS, *, edits: EditSet, rng: np.random.Generator) -> Release:
    """Replace the records of every histogram cell by copies of one representative.

    Claims k-anonymity on all released variables with ``small: join``, and nothing with "keep". Grouping is
    deterministic, so ``rng`` is not used; edits are for the repair step, which keeps identical records
    identical.

    Source: Chawla et al. 2005, as described by Lasko and Vinterbo 2010, section III-B2. Beyond them:
    ``small: join``, without which the algorithm leaves nearly every record of a wide table alone.

    Raises
    ------
    AnonymizationError
        With fewer than k records.
    """
    if len(data) < params.k:
        raise AnonymizationError(f"RHS with k = {params.k} needs as many records, got {len(data)}")
    encoder = Encoder.fit(data)
    grouped, groups = rhs.rhs(
        encoder.encode(data), k=params.k, small=params.small, representative=params.representative
    )
    sizes = np.bincount(groups)
    below = float(sizes[sizes < params.k].sum() / len(data))
    claim: Claim = KAnonymity(k=params.k) if params.small == "join" else NoFormalGuarantee(evidence=EVIDENCE)
    told = (
        f"records were grouped at least {params.k} at a time by cuts at the medians of the variables"
        if params.small == "join"
        else f"records were grouped by cuts at the medians of all variables at once, and {below:.1%} of them "
        f"stand in groups of fewer than {params.k}"
    )
    return Release(
        data=encoder.decode(grouped, form=params.released, groups=groups, index=data.frame.index),
        claims=(claim,),
        keeps_records=True,
        notes=(
            f"{told}; they were replaced by their group's {params.representative}, so variances are smaller "
            "than in the source",
        ),
        figures={"groups": float(len(sizes)), "share_below_k": below},
        scores=grouped,
    )
