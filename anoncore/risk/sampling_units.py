"""Whether non-members are of the members' own sampling units, so that attacks cannot see what a unit's code shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from anoncore.microdata import Microdata

# Share of non-members above which attacks compare people of the same sampling units.
MOST = 0.5


@dataclass(frozen=True)
class SharedSamplingUnits:
    """How many non-members are of sampling units that members are of.

    Parameters
    ----------
    variables : released ones that name the sampling unit of a record
    share : of the reference's records
    """

    meaning: ClassVar[str] = "Non-members whose sampling unit members are of, too."

    variables: tuple[str, ...]
    share: float

    @property
    def is_untested(self) -> bool:
        """Whether people of sampling units that were not drawn are hardly among the non-members."""
        return self.share > MOST


def shared_sampling_units(
    original: Microdata, released: Microdata, reference: Microdata | None
) -> SharedSamplingUnits | None:
    """Count the non-members whose sampling unit occurs among members; None without released ones or non-members.

    A sampling unit is known by all released variables with that role, within its stratum where one is released.

    Source: elementary. Membership of people in clusters: an attacker compares with people of clusters not drawn.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("school", "nominal", role="sampling-unit", levels=("a", "b", "c"))])
    >>> one, other = (Microdata(pd.DataFrame({"school": rows}), schema) for rows in (list("aab"), list("abcc")))
    >>> shared_sampling_units(one, one, other).share
    0.5
    """
    roles = [
        [n for n in original.schema.with_role(role) if n in released.schema.masked]
        for role in ("sampling-unit", "stratum")
    ]
    if reference is None or not roles[0] or not len(reference):
        return None
    names = roles[0] + roles[1]
    sides = [pd.MultiIndex.from_frame(side.frame[names].astype("string")) for side in (original, reference)]
    return SharedSamplingUnits(tuple(roles[0]), float(sides[1].isin(sides[0]).mean()))
