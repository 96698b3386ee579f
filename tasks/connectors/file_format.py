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

T = TypeVar("T")


class Dialect(Protocol):
    """What separates the fields of a text file, and its encoding by the name that Python has for it."""

    delimiter: str
    encoding: str


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
    """

    suffixes: tuple[str, ...]
    read: Callable[[Path, Dialect, list[Variable], str], pd.DataFrame]
    header: Callable[[Path, Dialect, str, Sequence[str]], list[str]] | None = None
    text: bool = False


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
