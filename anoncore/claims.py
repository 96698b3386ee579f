"""What a release promises; every promise is checked again on the output, never taken on trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata


@dataclass(frozen=True)
class ClaimCheck:
    """The outcome of checking one claim: what was promised, what was found, on how many records."""

    claim: str
    holds: bool
    found: str
    records: int


class Claim(Protocol):
    """A promise that can be recomputed from the released data alone."""

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""

    def check(self, released: Microdata) -> ClaimCheck:
        """Return whether ``released`` keeps the promise."""


@dataclass(frozen=True, kw_only=True)
class KAnonymity:
    """Every record is identical, on the released variables or on ``variables``, to k − 1 others.

    Source: Samarati and Sweeney 1998. A missing cell counts as a value of its own.
    """

    k: int
    variables: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.k < 2:
            raise AnonymizationError(f"k must be at least 2, got {self.k}")

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        on = "all released variables" if self.variables is None else ", ".join(self.variables)
        return f"{self.k}-anonymity on {on}"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the smallest group of identical records."""
        names = list(self.variables or released.frame.columns)
        sizes = released.frame.groupby(names, dropna=False, observed=True, sort=False).size()
        smallest = int(sizes.min()) if len(sizes) else 0
        found = f"smallest group of identical records: {smallest}, {len(sizes)} groups"
        return ClaimCheck(self.statement, smallest >= self.k, found, len(released))


@dataclass(frozen=True, kw_only=True)
class LDiversity:
    """Every group of records identical on ``quasi_identifiers`` holds at least l values of ``sensitive``.

    Source: Machanavajjhala et al. 2007, distinct l-diversity. A missing cell counts as one value.
    """

    l: int  # noqa: E741  the field's standard letter
    quasi_identifiers: tuple[str, ...]
    sensitive: str

    def __post_init__(self) -> None:
        if self.l < 2:
            raise AnonymizationError(f"l must be at least 2, got {self.l}")

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return f"{self.l}-diversity of {self.sensitive} within {', '.join(self.quasi_identifiers)}"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the smallest number of sensitive values in a group of identical records."""
        groups = released.frame.groupby(list(self.quasi_identifiers), dropna=False, observed=True, sort=False)
        distinct = groups[self.sensitive].nunique(dropna=False)
        smallest = int(distinct.min()) if len(distinct) else 0
        found = f"fewest distinct values in a group: {smallest}, {len(distinct)} groups"
        return ClaimCheck(self.statement, smallest >= self.l, found, len(released))


@dataclass(frozen=True, kw_only=True)
class NoFormalGuarantee:
    """The method proves nothing about a single record; its protection rests on measurement.

    Parameters
    ----------
    evidence : str
        What the measured risk must show for the release to be defended.
    """

    evidence: str
    statement: ClassVar[str] = "no formal guarantee; the protection rests on the measured risk"

    def check(self, released: Microdata) -> ClaimCheck:
        """Hold always, because nothing is promised; the figure of merit stands in ``evidence``."""
        return ClaimCheck(self.statement, True, self.evidence, len(released))
