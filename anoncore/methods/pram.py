"""PRAM: levels are drawn anew at random, so that their frequencies stay as they are expected to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import NoFormalGuarantee, key_codes
from anoncore.edits.kinds import ConditionalEdit
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import MEANS, VALUES, Method, draws_enough
from anoncore.microdata import Microdata, Schema
from anoncore.recoding import places
from anoncore.release import Release

EVIDENCE = "what is inferred of a variable from the others, and membership, not beyond the reference's"


@dataclass(frozen=True, kw_only=True)
class PRAM(Method):
    """Post-randomisation (PRAM): each level stays with a known probability, or is drawn anew from its stratum.

    The matrix of transitions of each variable and stratum is invariant: expected frequencies are those of the source,
    so that no table of one variable needs correction. Conditional edits hold: levels are drawn among records for which
    their conditions on other variables come out alike. Nothing is proven about a single record. Other variables stay
    as they are, so it is a step before masking. Other edits are left to the repair step.

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
    within : mapping of variable to a tuple of variable names
        Levels of the variable are drawn among those of records with the same values of these, too, and theirs within
        the variable's: no pair of them is made that the source does not have.
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
    within: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.keep < 1:
            raise AnonymizationError(f"keep must lie in [0, 1), got {self.keep}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """What numbers hold."""
        return MEANS, VALUES

    def treated(self, schema: Schema) -> tuple[str, ...]:
        """Return the variables whose levels are drawn anew."""
        drawn = (v.name for v in schema if v.role == "quasi-identifier" and v.is_categorical)
        return self.variables or tuple(name for name in drawn if name not in self.strata)

    def redraws(self, data: Microdata, edits: EditSet) -> tuple[str, ...]:
        """Return the variables whose levels are drawn anew among all records, where enough of them are.

        Of N records the count of a level with the share p has the variance N·p(1 − p)(1 − keep²). Within strata, and
        where edits tie levels to others, there may be little to draw.
        """
        tied = {name for edit in edits.edits for name in edit.variables}
        if self.strata or self.within or not draws_enough(data, 1 - self.keep**2):
            return ()
        return tuple(name for name in self.treated(data.schema) if name not in tied)

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        released = set(schema.masked)
        with_levels = {v.name for v in schema if v.is_categorical}
        wrong = (
            ("variables", set(self.variables) - (released & with_levels), "is not released with levels"),
            ("strata", set(self.strata) - released, "is not released; name released variables"),
            ("strata", set(self.strata) & set(self.treated(schema)), "is drawn anew, too; name it once"),
            ("within", set(self.within) - set(self.treated(schema)), "is not drawn anew; name variables that are"),
            ("within", {n for names in self.within.values() for n in names} - released, "is not released"),
            ("within", {n for n, names in self.within.items() if n in names}, "names itself; name others"),
        )
        problems = [f"{what}: {', '.join(sorted(names))} {problem}" for what, names, problem in wrong if names]
        return problems if self.treated(schema) else ["variables: there is no quasi-identifier with levels", *problems]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Draw levels anew.

        Raises
        ------
        AnonymizationError
            When a variable is not released with levels.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        frame, names, fixed = data.frame.copy(), self.treated(data.schema), 0
        for name in names:
            stratum = self._stratum(Microdata.trusted(frame, data.schema), name, edits)
            fixed += int(_of_one_level(stratum, places(frame[name])).sum())
            rows = redrawn(stratum, self.keep, rng)
            frame[name] = pd.Series(frame[name].iloc[rows].array, index=frame.index)
        alike = [f"{name} within {', '.join(n)}" for name in names if (n := (*self.strata, *self._beside(name)))]
        within = f" that are alike in some variables ({'; '.join(alike)})" if alike else ""
        return Release(
            data=Microdata.trusted(frame, data.schema, data.units),
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=True,
            notes=(
                f"each value of {', '.join(names)} is the source's with probability {self.keep:g}, and else drawn from "
                f"the values of all records{within}, missing ones among them: with the share f of a level, it stays "
                f"with probability {self.keep:g} + {1 - self.keep:g} f and becomes another with {1 - self.keep:g} "
                "times that level's share; a value whose like have no other level stays",
            ),
            figures={"fixed_values": fixed / max(len(frame) * len(names), 1)},
        )

    def _beside(self, name: str) -> tuple[str, ...]:
        """Return the variables with which a variable makes no new pair."""
        others = (other for other, names in self.within.items() if name in names)
        return tuple(dict.fromkeys((*self.within.get(name, ()), *others)))

    def _stratum(self, data: Microdata, name: str, edits: EditSet) -> np.ndarray:
        """Return (N,) the number of the stratum of each record, from 0, in which a variable is drawn."""
        conditions = [
            condition.holds(data.frame).astype(np.int32)
            for edit in edits.edits
            if isinstance(edit, ConditionalEdit) and name in edit.variables
            for condition in (*edit.when, edit.then)
            if condition.variable != name and condition.variable in data.frame
        ]
        alike = (*self.strata, *self._beside(name))
        codes = [*(key_codes(data, alike).T if alike else ()), *conditions, np.zeros(len(data), dtype=np.int32)]
        stratum: np.ndarray = pd.MultiIndex.from_arrays(codes).factorize()[0]
        return stratum


def _of_one_level(stratum: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return (N,) bool: all records of the stratum (N,) hold the same of ``levels`` (N,)."""
    low, high = np.full(len(stratum), np.iinfo(np.int64).max), np.full(len(stratum), -1)
    np.minimum.at(low, stratum, levels)
    np.maximum.at(high, stratum, levels)
    same: np.ndarray = (low == high)[stratum]
    return same


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
