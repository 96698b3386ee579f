"""What the format of a source's files is: its suffixes, and how a table and its column names are read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import pandas as pd

from anoncore.microdata import Variable
from tasks.common.errors import Refused
from tasks.connectors.parsing import FileNotes

T = TypeVar("T")


class Dialect(Protocol):
    """How the plan says that a file is read.

    Attributes
    ----------
    delimiter, decimal, encoding : of a text file: what separates fields, the decimal sign, and the encoding as
        Python calls it
    sheet : of a spreadsheet; empty for the only one
    values : "labels" where labelled values are read as their labels
    """

    delimiter: str
    decimal: str
    encoding: str
    sheet: str

    @property
    def values(self) -> str:
        """Which of the two is read."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format of files.

    Parameters
    ----------
    suffixes : of its files, such as ``.csv``
    read : the table of a file, from its path, its dialect, the declared variables, and how messages call it
    header : the column names without the data, from path, dialect, how messages call the file, and the names that
        may be shown; None where only the whole file has them
    text : it is a text file, whose lines are checked while it is copied
    notes : what a file states beside its records, from its path and how messages call it; None where it states nothing
    write : writes a release's table with its variables; None where releases are not written so
    """

    suffixes: tuple[str, ...]
    read: Callable[[Path, Dialect, list[Variable], str], pd.DataFrame]
    header: Callable[[Path, Dialect, str, Sequence[str]], list[str]] | None = None
    text: bool = False
    notes: Callable[[Path, str], FileNotes] | None = None
    write: Callable[[Path, pd.DataFrame, Sequence[Variable]], None] | None = None


def readable(kind: str, shown: str, read: Callable[[], T]) -> T:
    """Return what is read, or refuse the file without the text of the reader's error, which may quote the data."""
    try:
        with warnings.catch_warnings():
            # Text that is not of the file's encoding would be read as another, with a warning.
            warnings.simplefilter("error", UnicodeWarning)
            return read()
    except Refused:
        raise
    except Exception:
        unreadable = f"{shown} is not a readable {kind} file"
    raise Refused(unreadable)
