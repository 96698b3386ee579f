"""One variable of a microdata table: its name, scale, role and levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.microdata.temporal import Temporal

Kind = Literal["continuous", "ordinal", "binary", "nominal"]
Role = Literal[
    "identifier",
    "excluded",
    "quasi-identifier",
    "sensitive",
    "weight",
    "stratum",
    "sampling-unit",
    "area",
    "household",
    "other",
]
# A number that this share of the records with a number hold, at least, is a spike: drawn, kept and measured by itself.
SPIKE = 0.05


@dataclass(frozen=True)
class Variable:
    """One column of a microdata table.

    Parameters
    ----------
    name : str
        The column's name.
    kind : {"continuous", "ordinal", "binary", "nominal"}
        The scale of its values.
    role : str, default "other"
        What the values mean for disclosure: "identifier" (says whose record it is; dropped, never released),
        "excluded" (dropped like an identifier, but says of no two records that they belong together),
        "quasi-identifier", "sensitive", "weight", "stratum" and "sampling-unit" (of the design by which the sample
        was drawn: strata, and the primary sampling units within them), "area", "household" (links records of one
        household; released by methods that build households, with new numbers) or "other".
    levels : sequence, optional
        The values of a categorical variable; for an ordinal one in their order. Observed values,
        sorted, when not given. A value outside stated levels is refused.
    missing : sequence, optional
        Codes that mean "missing" beside empty cells.
    precision : float, optional
        The unit to which a continuous variable was recorded (1, 0.1, 5, ...); observed from the
        data when not given. Released values are rounded to it.
    description : str
        A sentence for the codebook.
    temporal : {"date", "time", "datetime"}, optional
        What the numbers of a continuous variable are: days since 1970-01-01, seconds since midnight, or seconds
        since 1970-01-01T00:00. Files hold them as dates and times, read by ISO 8601 and released so; methods, edits
        and precision have the numbers.
    labels : sequence of (level, text), optional
        What levels mean, for the codebook and for files that hold labels of values.
    measured_in : str
        The unit of measurement, such as "kg" or "EUR per month", for the codebook.
    universe : str
        To whom the variable applies, such as "persons aged 16 and over", for the codebook.

    Raises
    ------
    AnonymizationError
        When the name, kind, role, levels or precision contradict each other.

    Notes
    -----
    Levels may have been observed in the data, so they are not shown by ``repr``.

    Examples
    --------
    >>> Variable("sex", "binary", role="quasi-identifier", levels=("f", "m"))
    Variable(name='sex', kind='binary', role='quasi-identifier', precision=None, description='')
    """

    name: str
    kind: Kind
    role: Role = "other"
    levels: tuple[Any, ...] | None = field(default=None, repr=False)
    missing: tuple[Any, ...] = field(default=(), repr=False)
    precision: float | None = None
    description: str = ""
    temporal: Temporal | None = field(default=None, repr=False)
    labels: tuple[tuple[Any, str], ...] = field(default=(), repr=False)
    measured_in: str = field(default="", repr=False)
    universe: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise AnonymizationError("a variable needs a name that is not blank")
        for what, allowed in (("kind", get_args(Kind)), ("role", get_args(Role))):
            if (given := getattr(self, what)) not in allowed:
                raise self._refused(f"{what} must be one of {', '.join(allowed)}, got {given!r}")
        object.__setattr__(self, "missing", self._as_tuple("missing"))
        if self.levels is not None:
            object.__setattr__(self, "levels", self._as_tuple("levels"))
            self._check_levels(self.levels)
        object.__setattr__(self, "labels", tuple(map(tuple, self._as_tuple("labels"))))
        self._check_labels()
        if self.temporal is not None and (self.temporal not in get_args(Temporal) or self.kind != "continuous"):
            raise self._refused(f"temporal is one of {', '.join(get_args(Temporal))}, of a continuous variable")
        if self.precision is not None:
            if self.kind != "continuous":
                raise self._refused("only a continuous variable has a precision")
            if not (np.isfinite(self.precision) and self.precision > 0):
                raise self._refused(f"precision must be a positive number, got {self.precision}")

    def _check_levels(self, levels: tuple[Any, ...]) -> None:
        if self.kind == "continuous":
            raise self._refused("a continuous variable has no levels")
        if len(set(levels)) < len(levels):
            raise self._refused("a level is listed twice")
        if len({isinstance(level, str) for level in levels}) > 1:
            raise self._refused("levels must be all text or all numbers; quote all of them or none")
        if self.kind == "binary" and len(levels) > 2:
            raise self._refused(f"a binary variable has at most 2 levels, got {len(levels)}")
        if both := set(levels) & set(self.missing):
            raise self._refused(f"{len(both)} code(s) stand in levels and in missing; decide for one")

    def _check_labels(self) -> None:
        if any(len(pair) != 2 or not isinstance(pair[1], str) for pair in self.labels):
            raise self._refused("labels must be pairs of a level and a text")
        if len({level for level, _ in self.labels}) < len(self.labels):
            raise self._refused("labels name a level twice")

    def _as_tuple(self, what: str) -> tuple[Any, ...]:
        given = getattr(self, what)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise self._refused(f"{what} must be a list")
        return tuple(given)

    def _refused(self, problem: str) -> AnonymizationError:
        return AnonymizationError(f"variable {self.name!r}: {problem}")

    @property
    def label_of(self) -> dict[Any, str]:
        """The labels of levels, by level."""
        return dict(self.labels)

    @property
    def is_categorical(self) -> bool:
        """Whether the values are levels and not numbers on a continuous scale."""
        return self.kind != "continuous"

    @property
    def is_dropped(self) -> bool:
        """Whether the variable is dropped when a table is read."""
        return self.role in ("identifier", "excluded")

    @property
    def is_masked(self) -> bool:
        """Whether record-level methods mask and release this variable."""
        return not self.is_dropped and self.role != "household"
