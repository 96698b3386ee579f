"""PRAM: levels are drawn anew at random, so that their frequencies stay as they are expected to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import NoFormalGuarantee, key_codes
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import MEANS, VALUES, Method
from anoncore.microdata import Microdata, Schema
from anoncore.release import Release

EVIDENCE = "what is inferred of a variable from the others, and membership, not beyond the reference's"


@dataclass(frozen=True, kw_only=True)
class PRAM(Method):
    """Post-randomisation (PRAM): each level stays with a known probability, or is drawn anew from its stratum.

    The matrix of transitions of each variable and stratum is invariant: expected frequencies are those of the source,
    so that no table of one variable needs correction. Nothing is proven about a single record. Other variables stay as
    they are, so it is a step before masking. Edits are left to the repair step.

    Source: Gouweleeuw, Kooiman, Willenborg and de Wolf 1998, Post randomisation for statistical disclosure control:
    theory and implementation, Journal of Official Statistics 14(4), section 4 (invariant matrices).

    Parameters
    ----------
    variables : tuple of variable names
        Variables with levels; empty for all quasi-identifiers with levels.
    keep : float in [0, 1)
        Probability that a value is not drawn anew. A draw may give the same level.
    strata : tuple of variable names
        Levels are drawn among those of records with the same values of these variables.
    """

    title: ClassVar[str] = "Post-randomisation (PRAM)"
    description: ClassVar[str] = (
        "Levels of some variables are replaced at random by those of other people, with published probabilities."
    )
    prepares: ClassVar[bool] = True

    method: Literal["pram"] = "pram"
    variables: tuple[str, ...] = ()
    keep: float = 0.8
    strata: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.keep < 1:
            raise AnonymizationError(f"keep must lie in [0, 1), got {self.keep}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """What numbers hold."""
        return MEANS, VALUES

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        released = set(schema.masked)
        with_levels = {v.name for v in schema if v.is_categorical}
        wrong = (
            ("variables", set(self.variables) - (released & with_levels), "is not released with levels"),
            ("strata", set(self.strata) - released, "is not released; name released variables"),
            ("strata", set(self.strata) & set(self._treated(schema)), "is drawn anew, too; name it once"),
        )
        problems = [f"{what}: {', '.join(sorted(names))} {problem}" for what, names, problem in wrong if names]
        return problems if self._treated(schema) else ["variables: there is no quasi-identifier with levels", *problems]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Draw levels anew.

        Raises
        ------
        AnonymizationError
            When a variable is not released with levels.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        codes = key_codes(data, self.strata) if self.strata else np.zeros((len(data), 1), dtype=np.int32)
        stratum = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
        frame, names = data.frame.copy(), self._treated(data.schema)
        for name in names:
            rows = redrawn(stratum, self.keep, rng)
            frame[name] = pd.Series(frame[name].iloc[rows].array, index=frame.index)
        within = f" within {', '.join(self.strata)}" if self.strata else ""
        return Release(
            data=Microdata.trusted(frame, data.schema, data.units),
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=True,
            notes=(
                f"each value of {', '.join(names)} is the source's with probability {self.keep:g}, and else drawn from "
                f"the values of all records{within}, missing ones among them: with the share f of a level, it stays "
                f"with probability {self.keep:g} + {1 - self.keep:g} f and becomes another with {1 - self.keep:g} "
                "times that level's share",
            ),
        )

    def _treated(self, schema: Schema) -> tuple[str, ...]:
        drawn = (v.name for v in schema if v.role == "quasi-identifier" and v.is_categorical)
        return self.variables or tuple(name for name in drawn if name not in self.strata)


def redrawn(stratum: np.ndarray, keep: float, rng: np.random.Generator) -> np.ndarray:
    """Return (N,) the record whose value each record takes: its own, or one drawn from its stratum (N,).

    Examples
    --------
    >>> redrawn(np.array([0, 1, 0]), 0.5, np.random.default_rng(0))[1].item()
    1
    """
    order = np.argsort(stratum, kind="stable")
    starts, sizes = np.searchsorted(stratum[order], np.arange(stratum.max(initial=0) + 1)), np.bincount(stratum)
    drawn = order[starts[stratum] + (rng.random(len(stratum)) * sizes[stratum]).astype(np.intp)]
    return np.where(rng.random(len(stratum)) < keep, np.arange(len(stratum)), drawn)
