"""The variables of a microdata table, declared or inferred from a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata.inference import guess_columns
from anoncore.microdata.variable import Role, Variable
from anoncore.names import format_look_alikes, look_alikes
from anoncore.summary import Summarised, SummaryTable


@dataclass(frozen=True, init=False)
class Schema(Summarised):
    """The variables of a table, in column order.

    Parameters
    ----------
    variables : iterable of Variable

    Raises
    ------
    AnonymizationError
        When there is none, when two share a name, or when two names look alike.

    Examples
    --------
    >>> schema = Schema([Variable("age", "continuous"), Variable("sex", "binary", role="quasi-identifier")])
    >>> schema["sex"].kind, schema.names
    ('binary', ('age', 'sex'))
    """

    variables: tuple[Variable, ...]
    _positions: dict[str, int] = field(repr=False, compare=False)

    def __init__(self, variables: Iterable[Variable]) -> None:
        object.__setattr__(self, "variables", tuple(variables))
        if not self.variables:
            raise AnonymizationError("a schema needs at least one variable")
        names = self.names
        object.__setattr__(self, "_positions", {name: i for i, name in enumerate(names)})
        if len(self._positions) < len(names):
            repeated = sorted({name for i, name in enumerate(names) if self._positions[name] != i})
            raise AnonymizationError(f"variables declared more than once: {', '.join(repeated)}")
        if pairs := look_alikes(names):
            raise AnonymizationError(
                f"variables with names that look alike: {format_look_alikes(pairs)}; rename one of each"
            )

    @classmethod
    def infer(cls, frame: pd.DataFrame) -> Schema:
        """Infer kinds, roles, levels and missing codes from the columns of a data frame.

        Parameters
        ----------
        frame : DataFrame, (N, n), with text column names
            As it was read: nothing declared, missing cells empty.

        Returns
        -------
        Schema
            A proposal to be reviewed: roles are guessed from column names. Columns that would be unsafe or
            impossible to release are identifiers or excluded, which are dropped.

        Raises
        ------
        AnonymizationError
            When a column name is not text, or two names are equal or look alike.

        See Also
        --------
        anoncore.profile.profile : the same with reasons, doubts, and edits that hold among the columns.

        Examples
        --------
        >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "email": [f"p{i}@example.org" for i in range(40)]})
        >>> print(Schema.infer(frame).summary())
        Schema of 2 variables
          variable  kind     role              levels  precision
          sex       binary   quasi-identifier  2       –
          email     nominal  identifier        –       –
        """
        return cls(guess.variable for guess in guess_columns(frame))

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __getitem__(self, name: str) -> Variable:
        if name in self._positions:
            return self.variables[self._positions[name]]
        raise AnonymizationError(f"no variable is called {name!r}; declared are {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, in column order."""
        return tuple(v.name for v in self.variables)

    @property
    def masked(self) -> tuple[str, ...]:
        """Names of the variables that record-level methods mask and release."""
        return tuple(v.name for v in self.variables if v.is_masked)

    def with_role(self, *roles: Role) -> tuple[str, ...]:
        """Return the names of the variables that have one of ``roles``."""
        return tuple(v.name for v in self.variables if v.role in roles)

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema of ``names`` alone, in their order."""
        return Schema(self[name] for name in names)

    def summary_tables(self) -> Iterator[SummaryTable]:
        """Return one table: name, kind, role, number of levels and precision of each variable."""
        header = ("variable", "kind", "role", "levels", "precision")
        rows = [(v.name, v.kind, v.role, v.levels and len(v.levels), v.precision) for v in self.variables]
        yield SummaryTable(f"Schema of {len(self)} variables", header, rows)
