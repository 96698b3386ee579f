"""Spectral suppression: scores that few people share are drawn anew, with all that is correlated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.isolated_scores import isolated
from anoncore.kernels.score_basis import score_basis
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata
from anoncore.parameters import not_below
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class SpectralSuppression(Method):
    """Spectral suppression: principal scores that few people share are suppressed, and filled with others' scores.

    A suppressed value can be imputed from the variables that go with it. A principal score goes with no other linearly,
    and what all variables of a record owe to it leaves together. Records without such a score stay as they are: a step
    before masking. Claims nothing about a single record.

    Source: Lasko and Vinterbo 2010, section V, who propose it. Filling with the scores of records drawn at random is
    ours; so is the rule by which scores are suppressed.

    Parameters
    ----------
    k : int, at least 2
        A score is suppressed where fewer units, the own one included, have one within ``within``.
    within : float, above 0
        Distance on an axis, either way, in its standard deviations.
    """

    title: ClassVar[str] = "Spectral suppression"
    description: ClassVar[str] = (
        "Principal scores that few people share were replaced by those of people drawn at random, so that everything "
        "that is correlated with them changed together. Other records stayed as they were."
    )
    prepares: ClassVar[bool] = True

    method: Literal["spectral-suppression"] = "spectral-suppression"
    k: int = 5
    within: float = 0.25

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        if not 0 < self.within < np.inf:
            raise AnonymizationError(f"within must be above 0 and finite, got {self.within}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """Everything but what it treats."""
        return LEVEL_COUNTS, MEANS, VALUES

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Suppress the scores.

        Raises
        ------
        AnonymizationError
            When every score of an axis is shared by few, so that none is left to draw from, or there are fewer than k
            units.
        """
        if data.n_units < self.k:
            raise AnonymizationError(
                f"{data.n_units} records or units are fewer than k, which is {self.k}; state a smaller k"
            )
        encoder = Encoder.fit(data)
        basis = score_basis(encoder.encode(data))
        scores, few = basis.scores, np.zeros(basis.scores.shape, dtype=bool)
        for axis in basis.live:
            column = scores[:, axis]
            few[:, axis] = isolated(column, self.within * float(column.std()), self.k, data.units)
            if few[:, axis].all():
                raise AnonymizationError(
                    f"spectral suppression finds no score that {self.k} records or units share; enlarge within"
                )
            column[few[:, axis]] = rng.choice(column[~few[:, axis]], int(few[:, axis].sum()))
        changed = np.flatnonzero(few.any(axis=1))
        frame = data.frame.copy()
        if len(changed):
            masked = encoder.decode(basis.records(scores[changed]), form="mode").frame
            for name in masked:
                values = frame[name].copy()
                values.iloc[changed] = masked[name].array
                frame[name] = values
        return Release(
            data=Microdata(frame, data.schema, data.units),
            claims=(NoFormalGuarantee(evidence="no extreme record is matched in the release"),),
            keeps_records=True,
            notes=(
                f"principal scores that fewer than {self.k} people or units share within {self.within:g} standard "
                "deviations were replaced by those of others, drawn at random",
            ),
            figures={"suppressed_scores": float(few.sum()), "changed_records": float(len(changed))},
        )
