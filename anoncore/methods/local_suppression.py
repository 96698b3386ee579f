"""Local suppression: single cells of key variables become missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import Claim, KAnonymity, key_codes
from anoncore.edits.kinds import ConditionalEdit
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.local_suppression import local_suppression, suppression_of_wildcards
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import fewest_in_share, not_below
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class LocalSuppression(Method):
    """Local suppression: cells of key variables become missing until k units hold what a record has left of its keys.

    Claims k-anonymity on the keys, with missing values as ``missing`` says; made to hold again after later steps.
    Other variables stay as they are, so it is a step before masking. Deterministic.

    Source: Samarati and Sweeney 1998; Templ, Kowarik and Meindl 2015, Statistical disclosure control for micro-data
    using the R package sdcMicro, section 4.1 (order of importance). Beyond it: no suppressed cell could be put back,
    and by default suppressed cells help no other record.

    Parameters
    ----------
    k : int, at least 2
        Statistical units that every record agrees with on the keys, its own included.
    keys : tuple of variable names
        The key variables; empty for all quasi-identifiers.
    importance : mapping of key to a number above 0
        A record's least important cell that suffices is suppressed; 1 for keys that are not named.
    strata : tuple of variable names
        Every record agrees with k units of its stratum, and strata are never suppressed.
    missing : {"holders", "wildcard"}
        Which units agree with a record: those that hold all values of the keys that it has left, or, as sdcMicro
        counts, also those that lack some of them. With "wildcard" a few records without keys agree with all others,
        **so that rare records are released with all their keys**.
    """

    title: ClassVar[str] = "Local suppression"
    description: ClassVar[str] = (
        "Single values by which a person could be recognised are left out, until the rest is shared by enough people."
    )
    prepares: ClassVar[bool] = True
    treats_records_alone: ClassVar[bool] = True

    method: Literal["local-suppression"] = "local-suppression"
    k: int = 3
    keys: tuple[str, ...] = ()
    importance: Mapping[str, float] = field(default_factory=dict)
    strata: tuple[str, ...] = ()
    missing: Literal["holders", "wildcard"] = "holders"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        for name, importance in self.importance.items():
            if not 0 < importance < np.inf:
                raise AnonymizationError(f"importance of {name} must be above 0 and finite, got {importance}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """Everything but what it treats."""
        return LEVEL_COUNTS, MEANS, VALUES

    def in_share(self, share: float) -> LocalSuppression:
        """Return the step with k as few units as in a share of all."""
        return replace(self, k=fewest_in_share(self.k, share))

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        keys = self._keys(schema)
        released = set(schema.masked)
        wrong = (
            ("keys", set(self.keys) - released, "is not released; name released variables"),
            ("strata", set(self.strata) - released, "is not released; name released variables"),
            ("strata", set(self.strata) & set(keys), "is a key, too; name it once"),
            ("importance", set(self.importance) - set(keys), "is no key; name keys"),
            (
                "keys",
                set(self.keys) & {e.dependent for e in edits.dependents},
                "is computed by an edit; name its parts",
            ),
        )
        problems = [f"{what}: {', '.join(sorted(names))} {problem}" for what, names, problem in wrong if names]
        problems += [
            f"keys: edit {edit.name} needs a value of {', '.join(sorted(at))}, which may be suppressed; state missing: "
            "true in its then, leave the edit out, or name other keys"
            for edit in edits.edits
            if isinstance(edit, ConditionalEdit) and (at := edit.needed & set(keys))
        ]
        return problems if keys else ["keys: there is no quasi-identifier; name the keys", *problems]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Suppress cells.

        Raises
        ------
        AnonymizationError
            When a key is not released, or there is none.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        masked, cells = self._suppressed(data)
        within = f" within {', '.join(self.strata)}" if self.strata else ""
        agree = "hold what a record has left of them" if self.missing == "holders" else "agree on them"
        lacking = "; a missing value agrees with all" if self.missing == "wildcard" else ""
        variables = (*self._keys(data.schema), *self.strata)
        return Release(
            data=masked,
            claims=(KAnonymity(k=self.k, variables=variables, missing=self.missing),),
            keeps_records=True,
            notes=(
                f"values of {', '.join(self._keys(data.schema))} are left out where fewer than {self.k} records or "
                f"units would {agree}{within}, those of least importance first{lacking}",
            ),
            figures={"suppressed_cells": cells},
        )

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Suppress what later steps made rare."""
        masked, cells = self._suppressed(data)
        if not cells:
            return data, ()
        return masked, (f"after the later steps, {cells} more value(s) of the keys are left out for the same reason",)

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        return self.keys or tuple(v.name for v in schema if v.role == "quasi-identifier" and v.name not in self.strata)

    def _suppressed(self, data: Microdata) -> tuple[Microdata, int]:
        """Return the table without the cells that are suppressed, and their number."""
        keys = self._keys(data.schema)
        importance = np.array([*(self.importance.get(name, 1.0) for name in keys), *(np.inf for _ in self.strata)])
        codes = key_codes(data, (*keys, *self.strata))
        suppress = local_suppression if self.missing == "holders" else suppression_of_wildcards
        cells = suppress(codes, self.k, importance=importance, units=data.units)
        frame = data.frame.copy()
        for name, suppressed in zip(keys, cells.T, strict=False):
            frame[name] = frame[name].mask(suppressed)
        return Microdata.trusted(frame, data.schema, data.units), int(cells.sum())
