"""What comes out of a method that masks a table in partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from anoncore.claims import Claim
from anoncore.partitions.table import PartitionedTable
from anoncore.recoding import Recoding


@dataclass(frozen=True, eq=False)
class PartitionedRelease:
    """A masked table in partitions with what is promised about it; see `anoncore.release.Release`.

    Parameters
    ----------
    data : PartitionedTable
        To be permuted before publication.
    claims : tuple of Claim
        Each is to be checked again on ``data``.
    keeps_records : bool
        Whether record i of ``data`` stems from record i of ``given``.
    given : PartitionedTable
        The records that were masked, in the order of ``data``: the method's input, or a copy in another order, which
        the caller removes.
    notes : tuple of str
        What a reader of the method statement must know; no data values.
    figures : mapping of short name to number
        What the method measured on the way; aggregates only.
    recodings : tuple of Recoding
        How variables were coarsened, the same for all records.
    confidential : mapping of name to array, optional
        As of `anoncore.release.Release`: for the custodian's own eyes.
    """

    data: PartitionedTable
    claims: tuple[Claim, ...]
    keeps_records: bool
    given: PartitionedTable
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    recodings: tuple[Recoding, ...] = ()
    confidential: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
