"""Statistical units of the source: whose record each is, by the plan's unit, its households and its identifiers."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np
import pandas as pd

from anoncore.microdata import Units, Variable, joined_units
from tasks.common.errors import Refused, named
from tasks.common.hashes import numbered, numbered_parts
from tasks.common.partitions import IDENTIFIED, NAME, StoredPartitions
from tasks.intake.columns import identities

# A unit with a larger share of the records is a mistake of the plan, and no reference could be set apart.
LARGEST_SHARE = 0.5
# Between the names of the columns of one key.
AND = " and "


@dataclass(frozen=True)
class Declared:
    """The plan's variables, and the columns that together name its statistical unit."""

    variables: tuple[Variable, ...]
    unit: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns whose values, taken together, join records: the unit's, the households', each identifier.

        What the plan names as the unit joins only together: a number within a household beside the household's.
        """
        rest = [v for v in self.variables if v.name not in self.unit]
        households = tuple(v.name for v in rest if v.role == "household")
        identifiers = ((v.name,) for v in rest if v.role == "identifier")
        return tuple(columns for columns in (self.unit, households, *identifiers) if columns)


def keys_of(frame: pd.DataFrame, columns: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    """Return keys as text, each under the names of its columns; missing where a value of one of those is."""
    texts = identities(frame, sorted({name for key in columns for name in key}))
    return pd.DataFrame({AND.join(key): _together(texts[list(key)]) for key in columns}, index=frame.index)


def units_of(keys: pd.DataFrame) -> Units:
    """Return the statistical unit of each record.

    Raises
    ------
    Refused
        When keys join most of the records to one unit.
    """
    codes = {name: pd.factorize(keys[name])[0] for name in keys.columns}
    units = joined_units(list(codes.values()), len(keys))
    if _joins_most(units):
        alone = [name for name, key in codes.items() if _joins_most(joined_units([key], len(keys)))]
        raise Refused(_too_common(alone or list(codes), together=not alone))
    return units


def joins_most(keys: pd.DataFrame) -> bool:
    """Return whether keys join most of the records to one unit, which `units_of` refuses."""
    return _joins_most(joined_units([pd.factorize(keys[name])[0] for name in keys.columns], len(keys)))


def _joins_most(units: Units) -> bool:
    sizes = np.bincount(units)
    return len(units) > 1 and int(sizes.max(initial=0)) > max(1.0, LARGEST_SHARE * len(units))


def _too_common(names: Sequence[str], *, together: bool) -> str:
    joined = "together join" if together else "joins"
    return (
        f"unit: {named(names)} {joined} more than half of the records to one statistical unit, so that nothing can "
        "be compared with others; a column that many units share, such as a number within a household, a date or a "
        "name, has the role excluded, or stands in unit beside the column within which it counts"
    )


def _together(texts: pd.DataFrame) -> pd.Series:
    """Return the values of some columns as one text; of one column its own."""
    if len(texts.columns) == 1:
        return texts.iloc[:, 0]
    # Lengths in front keep apart what would be one text; a missing value makes the whole missing.
    parts = [texts[name].str.len().astype("string") + ":" + texts[name] for name in texts.columns]
    return reduce(add, parts)


def persistent_names(keys: pd.DataFrame, units: Units, values: np.ndarray) -> np.ndarray:
    """Return (U,) uint64 what stays the same of each unit, whatever else the table holds.

    Parameters
    ----------
    keys : (N,) as of `keys_of`; the first by which a unit has a value names it, by the least of its hashes, those
        with the fewest values of their own first, since records come and go and whom they are about stays
    units : (N,) numbers 0 … U − 1
    values : (N,) uint64, by which records without any key are known; equal ones are numbered
    """
    names = np.zeros(int(units.max(initial=-1)) + 1, dtype=np.uint64)
    open_ = np.ones(len(names), dtype=bool)
    for name in sorted(keys.columns, key=lambda column: keys[column].nunique()):
        present = keys[name].notna().to_numpy(dtype=bool)
        least = np.full(len(names), np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(least, units[present], hashed_values(keys[name][present]))
        has = np.bincount(units[present], minlength=len(names)) > 0
        names[open_ & has] = least[open_ & has]
        open_ &= ~has
    # Without a key a record is a unit of its own.
    alone = open_[units]
    names[units[alone]] = numbered(values[alone])
    return names


def hashed_values(key: pd.Series) -> np.ndarray:
    """Return (N,) uint64 what stays the same of each value of a key, of which none is missing."""
    return pd.util.hash_array(key.to_numpy(dtype=object), categorize=False)


def hashed_parts(keys: pd.DataFrame, *, alike: bool = False) -> Iterator[np.ndarray]:
    """Yield (V,) uint64 for each key, as of `keys_of`, what stays the same of its values in whatever order of columns.

    Another plan may name the columns of a unit otherwise, and in another order; ``alike`` for another office, which may
    write its identifiers otherwise.
    """
    part = written_alike if alike else str
    for name in keys.columns:
        key = keys[name].dropna()
        if AND in name:
            key = key.map(partial(_ordered, part=part))
        elif alike:
            key = key.map(part)
        yield hashed_values(key)


def written_alike(identifier: str) -> str:
    """Return an identifier without what offices write differently: case, width, separators, zeros in front.

    Examples
    --------
    >>> {written_alike(text) for text in ("P-000123", "p000123", " p 000123", "P/000123")}
    {'p000123'}
    >>> written_alike("000123"), written_alike("123"), written_alike("0")
    ('123', '123', '0')
    """
    text = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", identifier).casefold()))
    return text.lstrip("0") or text[:1] or identifier


def _ordered(text: str, part: Callable[[str], str]) -> str:
    """Return the parts of a key of several columns, as `_together` joins them, in the order of their texts.

    A column may have a name as of several: a text that was not joined stays as it is.
    """
    parts, rest = [], text
    while rest:
        length, _, after = rest.partition(":")
        if not (length.isascii() and length.isdecimal()) or int(length[:9]) > len(after):
            return part(text)
        parts.append(part(after[: int(length)]))
        rest = after[int(length) :]
    return "".join(f"{len(one)}:{one}" for one in sorted(parts))


def names_with_values(stored: StoredPartitions, values: str) -> Iterator[np.ndarray]:
    """Yield (rows,) uint64 what stays the same of each record of a partition: its name, or its values without one.

    Parameters
    ----------
    values : a hidden column of uint64, by which records without any key are known; equal ones are numbered
    """

    def nameless() -> Iterator[np.ndarray]:
        parts = zip(stored.chunks(values), stored.chunks(IDENTIFIED), strict=True)
        return (own[~identified] for own, identified in parts)

    numbers = numbered_parts(nameless, sum(map(len, nameless())))
    for names, identified, own in zip(stored.chunks(NAME), stored.chunks(IDENTIFIED), numbers, strict=True):
        names[~identified] = own
        yield names


def shares_key(asked: pd.DataFrame, known: pd.DataFrame) -> np.ndarray:
    """Return (N,) bool: which records have a value of any key that a known record has; both as of `keys_of`."""
    matches = np.zeros(len(asked), dtype=bool)
    for name in known.columns.intersection(asked.columns):
        matches |= asked[name].isin(known[name].dropna()).to_numpy(dtype=bool)
    return matches


def named_keys(keys: pd.DataFrame) -> str:
    """Return the keys as a sentence names them."""
    return " or ".join(keys.columns)
