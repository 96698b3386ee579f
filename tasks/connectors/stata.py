"""Stata files; dates are not converted, since microdata hold numbers and text alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from anoncore.microdata import Variable
from tasks.connectors.file_format import Dialect, FileFormat, readable


def read(path: Path, dialect: Dialect, variables: list[Variable], shown: str) -> pd.DataFrame:
    """Return a file's table."""
    return readable("stata", shown, lambda: pd.read_stata(path, convert_dates=False))


FORMAT = FileFormat(suffixes=(".dta",), read=read)
