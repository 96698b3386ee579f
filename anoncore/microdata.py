"""Microdata: a table about people, and what its columns mean.

This is the one place that checks input. Behind it every column has a canonical form: continuous
variables are ``float64`` with NaN for missing, all others are pandas ``Categorical`` whose
categories are the variable's levels in their stated order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from anoncore.errors import AnonymizationError

Kind = Literal["continuous", "ordinal", "binary", "nominal"]
Role = Literal["identifier", "quasi-identifier", "sensitive", "weight", "area", "household", "other"]

MAX_DECIMALS = 9
# Letters of other scripts that are drawn like Latin ones, and strokes that are drawn like each other.
DRAWN_LIKE = {
    "a": "\u0430\u03b1\u0251", "c": "\u0441\u03f2", "d": "\u0501", "e": "\u0435", "g": "\u0261\u0581",
    "h": "\u04bb\u0570", "i": "\u0456\u03b9", "j": "\u0458", "k": "\u043a\u03ba", "l": "\u04cf\u01c0\u2223",
    "n": "\u0578", "o": "\u043e\u03bf\u0585\u0555", "p": "\u0440\u03c1", "q": "\u051b\u0566", "s": "\u0455",
    "u": "\u057d\u03c5", "v": "\u03bd\u0475", "w": "\u051d", "x": "\u0445\u03c7", "y": "\u0443\u03b3",
    "A": "\u0410\u0391", "B": "\u0412\u0392", "C": "\u0421\u03f9", "E": "\u0415\u0395", "F": "\u03dc",
    "H": "\u041d\u0397", "I": "\u0406\u0399\u04c0", "J": "\u0408", "K": "\u041a\u039a", "M": "\u041c\u039c",
    "N": "\u039d", "O": "\u041e\u039f", "P": "\u0420\u03a1", "S": "\u0405\u054f", "T": "\u0422\u03a4",
    "X": "\u0425\u03a7", "Y": "\u0423\u03a5\u04ae", "Z": "\u0396",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212\u2043\u02d7", "'": "\u2018\u2019\u02bc\u02b9\u2032",
    "_": "\u02cd",
}  # fmt: skip
SELECTORS, SPACES = re.compile("[\ufe00-\ufe0f]"), re.compile("[ \xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
ALIKE = {ord(other): one for one, others in DRAWN_LIKE.items() for other in others}


@dataclass(frozen=True)
class Variable:
    """One column of a microdata table.

    Parameters
    ----------
    name : str
        The column's name.
    kind : {"continuous", "ordinal", "binary", "nominal"}
        The scale on which its values live.
    role : str, default "other"
        What the value is to a person: "identifier" (dropped, never released), "quasi-identifier",
        "sensitive", "weight", "area", "household" (links records that belong together; never
        released) or "other".
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

    Raises
    ------
    AnonymizationError
        When the name, kind, role, levels or precision contradict each other.

    Examples
    --------
    >>> Variable("sex", "binary", role="quasi-identifier", levels=("f", "m")).kind
    'binary'
    """

    name: str
    kind: Kind
    role: Role = "other"
    levels: tuple[Any, ...] | None = None
    missing: tuple[Any, ...] = ()
    precision: float | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise AnonymizationError("a variable needs a name that is not blank")
        if self.kind not in get_args(Kind):
            raise AnonymizationError(
                f"variable {self.name!r}: kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}"
            )
        if self.role not in get_args(Role):
            raise AnonymizationError(
                f"variable {self.name!r}: role must be one of {', '.join(get_args(Role))}, got {self.role!r}"
            )
        object.__setattr__(self, "missing", _as_tuple(self.missing, self.name, "missing"))
        if self.levels is not None:
            object.__setattr__(self, "levels", _as_tuple(self.levels, self.name, "levels"))
            self._check_levels(self.levels)
        if self.precision is not None:
            if self.kind != "continuous":
                raise AnonymizationError(f"variable {self.name!r}: only a continuous variable has a precision")
            if not (np.isfinite(self.precision) and self.precision > 0):
                raise AnonymizationError(
                    f"variable {self.name!r}: precision must be a positive number, got {self.precision}"
                )

    def _check_levels(self, levels: tuple[Any, ...]) -> None:
        if self.kind == "continuous":
            raise AnonymizationError(f"variable {self.name!r}: a continuous variable has no levels")
        if len(set(levels)) < len(levels):
            raise AnonymizationError(f"variable {self.name!r}: a level is listed twice")
        if len({isinstance(level, str) for level in levels}) > 1:
            raise AnonymizationError(
                f"variable {self.name!r}: levels must be all text or all numbers; quote all of them or none"
            )
        if self.kind == "binary" and len(levels) > 2:
            raise AnonymizationError(
                f"variable {self.name!r}: a binary variable has at most 2 levels, got {len(levels)}"
            )
        both = set(levels) & set(self.missing)
        if both:
            raise AnonymizationError(
                f"variable {self.name!r}: {len(both)} code(s) stand in levels and in missing; decide for one"
            )

    @property
    def is_categorical(self) -> bool:
        """Whether the values are levels and not numbers on a continuous scale."""
        return self.kind != "continuous"

    @property
    def is_masked(self) -> bool:
        """Whether record-level methods mask and release this variable."""
        return self.role not in ("identifier", "household")


@dataclass(frozen=True)
class Schema:
    """The variables of a table, in column order.

    Parameters
    ----------
    variables : iterable of Variable

    Raises
    ------
    AnonymizationError
        When there is none, when two share a name, or when two names look alike.
    """

    variables: tuple[Variable, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __init__(self, variables: Iterable[Variable]) -> None:
        object.__setattr__(self, "variables", tuple(variables))
        if not self.variables:
            raise AnonymizationError("a schema needs at least one variable")
        object.__setattr__(self, "_places", {v.name: i for i, v in enumerate(self.variables)})
        names = self.names
        if len(self._places) < len(names):
            seen: set[str] = set()
            twice = sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
            raise AnonymizationError(f"variables declared more than once: {', '.join(twice)}")
        if pairs := look_alikes(names):
            raise AnonymizationError(f"variables with names that look alike: {alike_shown(pairs)}; rename one of each")

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Variable:
        if name in self._places:
            return self.variables[self._places[name]]
        raise AnonymizationError(f"no variable is called {name!r}; declared are {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, in column order."""
        return tuple(v.name for v in self.variables)

    def with_role(self, *roles: Role) -> tuple[str, ...]:
        """Names of the variables that play one of ``roles``."""
        return tuple(v.name for v in self.variables if v.role in roles)

    @property
    def masked(self) -> tuple[str, ...]:
        """Names of the variables that record-level methods mask and release."""
        return tuple(v.name for v in self.variables if v.is_masked)

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema of ``names`` alone, in their order."""
        return Schema(self[name] for name in names)


@dataclass(frozen=True, eq=False)
class Microdata:
    """A table of records with its schema, in canonical form.

    The frame given is never modified; its index is kept, because it identifies records while
    they are split and compared. It is never released.

    Parameters
    ----------
    frame : DataFrame, (N, n)
        One row per record. Columns that the schema does not name are refused.
    schema : Schema
        Completed here: levels and precision that it leaves open are observed from the data, and
        missing codes, which have become gaps, are dropped.

    Raises
    ------
    AnonymizationError
        For missing, surplus or duplicate columns, text where numbers are declared, infinite
        values and values outside the stated levels. The message names the variable and counts
        records; it never shows a value.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [31, 64], "sex": ["f", "m"]})
    >>> data = Microdata(frame, Schema([Variable("age", "continuous"), Variable("sex", "binary")]))
    >>> data.schema["sex"].levels
    ('f', 'm')
    """

    frame: pd.DataFrame
    schema: Schema

    def __post_init__(self) -> None:
        _check_columns(self.frame, self.schema)
        columns: dict[str, Any] = {}
        completed: list[Variable] = []
        problems: list[str] = []
        for variable in self.schema:
            try:
                columns[variable.name], observed = _canonical(self.frame[variable.name], variable)
                completed.append(observed)
            except AnonymizationError as error:
                problems.append(str(error))
        if problems:
            raise AnonymizationError("\n".join(problems))
        frame = pd.DataFrame(columns, index=self.frame.index)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "schema", Schema(completed))

    @classmethod
    def trusted(cls, frame: pd.DataFrame, schema: Schema) -> Microdata:
        """Wrap a frame that is in canonical form already, under a completed schema, without checking."""
        data = object.__new__(cls)
        object.__setattr__(data, "frame", frame)
        object.__setattr__(data, "schema", schema)
        return data

    def __len__(self) -> int:
        return len(self.frame)

    def select(self, names: Sequence[str]) -> Microdata:
        """Return the variables ``names`` alone, in their order."""
        return Microdata.trusted(self.frame[list(names)], self.schema.select(names))

    def take(self, rows: np.ndarray) -> Microdata:
        """Return the records at positions ``rows``; levels and precision stay those of the whole table."""
        return Microdata.trusted(self.frame.iloc[rows], self.schema)

    def level_counts(self, name: str) -> dict[Any, int]:
        """Return how many records hold each level of a categorical variable, absent levels included."""
        levels = self.schema[name].levels or ()
        codes = np.asarray(self.frame[name].cat.codes)
        return dict(zip(levels, np.bincount(codes[codes >= 0], minlength=len(levels)).tolist(), strict=True))

    def plain(self) -> pd.DataFrame:
        """Return the table with ordinary columns: numbers, or text, with missing cells empty.

        Whole numbers come as pandas ``Int64``, so that a gap does not turn them into decimals.
        """
        return pd.DataFrame({v.name: _plain(self.frame[v.name], v) for v in self.schema}, index=self.frame.index)


def appearance(name: str) -> str:
    """Return what a name looks like: one form for letters drawn alike, nothing for what is not drawn.

    Examples
    --------
    >>> appearance("\N{CYRILLIC SMALL LETTER A}ge\N{ZERO WIDTH SPACE} ")
    'age'
    """
    if not (name.isascii() and name.isprintable()):
        # Control characters stay: they are written out wherever a name is shown.
        whole = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
        name = SELECTORS.sub("", whole).translate(ALIKE) or name
    return SPACES.sub(" ", name).strip(" ") or name


def look_alikes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different names that a reader cannot tell apart.

    Examples
    --------
    >>> look_alikes(["age", "sex", "age "])
    [('age', 'age ')]
    """
    first: dict[str, str] = {}
    found = []
    for name in names:
        other = first.setdefault(appearance(name), name)
        if other != name:
            found.append((other, name))
    return found


def alike_shown(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names that look alike so that they can be told apart: other than plain letters are codes."""
    few = list(pairs)
    shown = ", ".join(f"{one!a} and {other!a}" for one, other in few[:5])
    return f"{shown} and {len(few) - 5} more" if len(few) > 5 else shown


def _check_columns(frame: pd.DataFrame, schema: Schema) -> None:
    names = [str(c) for c in frame.columns]
    known = set(names)
    twice = sorted({n for n in names if names.count(n) > 1}) if len(known) < len(names) else []
    if twice:
        raise AnonymizationError(f"the data hold columns twice: {', '.join(twice)}; rename or remove one")
    absent = [n for n in schema.names if n not in known]
    if absent:
        raise AnonymizationError(f"declared variables are not in the data: {', '.join(absent)}")
    surplus = [n for n in names if n not in schema]
    if surplus:
        raise AnonymizationError(
            f"columns without a declaration: {', '.join(surplus)}; declare them, as identifier to drop them"
        )


def _canonical(column: pd.Series, variable: Variable) -> tuple[pd.Series, Variable]:
    """Bring one column into canonical form and complete its variable."""
    if variable.missing:
        column = column.mask(_matches(column, variable.missing))
        # The codes end here: a masked value that happens to equal one is a value.
        variable = replace(variable, missing=())
    if variable.kind == "continuous":
        numbers = _to_numbers(column, variable.name)
        unit = variable.precision if variable.precision is not None else observed_precision(numbers)
        return pd.Series(numbers, index=column.index), replace(variable, precision=unit)
    if variable.role in ("identifier", "household") and variable.levels is None:
        return column, variable
    return _to_levels(column, variable)


def _matches(column: pd.Series, codes: tuple[Any, ...]) -> pd.Series:
    matches = column.isin(codes)
    if not pd.api.types.is_numeric_dtype(column):
        matches |= column.astype("string").isin([str(code) for code in codes]).fillna(False).astype(bool)
    return matches


def _to_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Return (N,) float64; NaN where missing."""
    column = _uncategorised(column)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_complex_dtype(column):
        raise AnonymizationError(
            f"variable {name!r} is declared continuous but holds dates or complex numbers; convert it to numbers"
        )
    numbers = pd.to_numeric(column, errors="coerce")
    bad = int((numbers.isna() & column.notna()).sum())
    if bad:
        raise AnonymizationError(
            f"variable {name!r} is declared continuous but {bad} record(s) hold something that is not "
            "a number; declare a missing code or another kind"
        )
    values = numbers.to_numpy(dtype="float64", na_value=np.nan, copy=True)
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise AnonymizationError(
            f"variable {name!r}: {infinite} record(s) hold an infinite value; correct them or declare a missing code"
        )
    return values


def _to_levels(column: pd.Series, variable: Variable) -> tuple[pd.Series, Variable]:
    if _is_canonical(column, variable):
        return column, variable
    column = _uncategorised(column).infer_objects()
    if pd.api.types.is_bool_dtype(column):
        column = column.astype("Int64")
    levels = variable.levels
    if levels is None:
        levels = tuple(_tidy(v) for v in _sorted_unique(column, variable.name))
        if variable.kind == "binary" and len(levels) > 2:
            raise AnonymizationError(
                f"variable {variable.name!r} is declared binary but holds {len(levels)} different values; "
                "declare it nominal or ordinal, or list the missing codes"
            )
    if levels and isinstance(levels[0], str) and not pd.api.types.is_string_dtype(column):
        column = column.map(lambda v: v if pd.isna(v) else str(_tidy(v)))
    elif levels and not isinstance(levels[0], str) and not pd.api.types.is_numeric_dtype(column):
        # What is not a number becomes infinite, which is no level, and so is counted as outside.
        numbers = pd.to_numeric(column, errors="coerce").astype("float64")
        column = numbers.mask(numbers.isna() & column.notna(), np.inf)
    coded = pd.Categorical(column, categories=list(levels), ordered=variable.kind == "ordinal")
    outside = int((pd.isna(coded) & column.notna().to_numpy()).sum())
    if outside:
        raise AnonymizationError(
            f"variable {variable.name!r}: {outside} record(s) hold a value that is not among its "
            f"{len(levels)} levels; add it to levels or to missing"
        )
    return pd.Series(coded, index=column.index), replace(variable, levels=levels)


def _is_canonical(column: pd.Series, variable: Variable) -> bool:
    return (
        isinstance(column.dtype, pd.CategoricalDtype)
        and variable.levels is not None
        and column.cat.ordered == (variable.kind == "ordinal")
        and list(column.cat.categories) == list(variable.levels)
    )


def _uncategorised(column: pd.Series) -> pd.Series:
    """Return the values themselves; whole numbers with gaps become floats."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    kind = column.cat.categories.dtype
    gaps_as_float = pd.api.types.is_numeric_dtype(kind) and column.isna().any()
    return column.astype("float64" if gaps_as_float else kind)


def _sorted_unique(column: pd.Series, name: str) -> list[Any]:
    try:
        return sorted(column.dropna().unique().tolist())
    except TypeError:
        raise AnonymizationError(
            f"variable {name!r} mixes numbers and text; state its levels or clean the column"
        ) from None


def _tidy(value: Any) -> Any:
    """Return 1 for 1.0, so that a gap in a column of whole codes does not change the codes."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def observed_precision(values: np.ndarray) -> float | None:
    """Return the coarsest unit 10^-d, d = 0…9, of which every value is a multiple, else None.

    Parameters
    ----------
    values : (N,) float64, NaN where missing
    """
    known = values[~np.isnan(values)]
    if known.size == 0:
        return None
    for decimals in range(MAX_DECIMALS + 1):
        if np.array_equal(np.round(known, decimals), known):
            return float(10.0**-decimals)
    return None


def round_to(values: np.ndarray, unit: float | None) -> np.ndarray:
    """Round to multiples of ``unit``; None leaves the values as they are."""
    if unit is None:
        return values
    decimals = -np.log10(unit)
    if abs(decimals - round(decimals)) < 1e-12:
        return np.round(values, round(decimals))
    return np.round(values / unit) * unit


def _plain(column: pd.Series, variable: Variable) -> pd.Series:
    if variable.kind == "continuous":
        whole = variable.precision is not None and float(variable.precision).is_integer()
        values = column.to_numpy()
        if whole and np.all(np.abs(values[~np.isnan(values)]) < 2**53):
            return column.round().astype("Int64")
        return column
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    kind = column.cat.categories.dtype
    if pd.api.types.is_integer_dtype(kind):
        return column.astype("Int64")
    return column.astype("string") if not pd.api.types.is_numeric_dtype(kind) else column.astype("float64")


def _as_tuple(value: Any, name: str, what: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise AnonymizationError(f"variable {name!r}: {what} must be a list")
    return tuple(value)
