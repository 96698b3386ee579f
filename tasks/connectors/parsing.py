"""Files whose parsers can crash are parsed in a process of their own, which takes nothing with it when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.common.errors import Refused
from tasks.connectors import parser_process
from tasks.connectors.limits import MAX_CELLS, MAX_TEXT, check_size
from tasks.connectors.parser_process import Stated

EXACT = 2.0**53
PASSED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


@dataclass(frozen=True)
class FileNotes:
    """What a file states beside its records.

    Parameters
    ----------
    columns : the columns' names, in order
    labels : what columns mean, by name
    values : what values mean, by the column's name
    missing : ranges of values that mean missing and are read so, by the column's name
    sheets : of a spreadsheet
    """

    columns: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[tuple[Any, str], ...]] = field(default_factory=dict, repr=False)
    missing: Mapping[str, tuple[tuple[Any, Any], ...]] = field(default_factory=dict)
    sheets: tuple[str, ...] = ()


def parse(kind: str, path: Path, shown: str, *, sheet: str = "") -> tuple[FileNotes, pd.DataFrame | None]:
    """Return a file's notes and table; None where a sheet must be named first.

    Raises
    ------
    Refused
        When the file is malformed, also where its parser crashes, or larger than a table may be.
    """
    return _run(kind, path, shown, sheet, "table")


def notes(kind: str, path: Path, shown: str) -> FileNotes:
    """Return a file's notes without reading its records; raises as `parse`."""
    return _run(kind, path, shown, "", "notes")[0]


def _run(kind: str, path: Path, shown: str, sheet: str, wanted: str) -> tuple[FileNotes, pd.DataFrame | None]:
    import pyarrow as pa

    arguments = [kind, os.fspath(path.absolute()), sheet, str(MAX_CELLS), str(MAX_TEXT), wanted]
    if any("\0" in argument for argument in arguments):
        raise Refused(f"{shown} cannot be read: its name or sheet holds NUL")
    # The folder of the script holds modules that are called like those of the standard library: -P leaves it out.
    command = [sys.executable, "-P", parser_process.__file__, *arguments]
    table, about = None, None
    with subprocess.Popen(  # noqa: S603  our own interpreter and script
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=_environment()
    ) as child:
        assert child.stdout is not None
        try:
            about = Stated(**json.loads(child.stdout.readline()))
            rest = child.stdout.peek(1) if hasattr(child.stdout, "peek") else b""
            table = pa.ipc.open_stream(child.stdout).read_all() if rest else None
        except (ValueError, TypeError, pa.ArrowException):
            about = None
        finally:
            child.kill() if about is None else child.wait()
    if about is None or child.returncode != 0:
        raise Refused(f"{shown} is not a readable {kind} file, or takes too much memory or time to read")
    check_size(about.records, len(about.columns), shown)
    if about.text > MAX_TEXT:
        raise Refused(f"{shown} holds more than {MAX_TEXT // 10**9} GB of text; divide it")
    return _notes(about), None if table is None else _frame(table, about.columns)


def _environment() -> dict[str, str]:
    """Return what a parser needs of the environment, which holds secrets of ours."""
    return {name: os.environ[name] for name in PASSED if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}


def _notes(about: Stated) -> FileNotes:
    return FileNotes(
        columns=tuple(about.columns),
        labels=about.labels,
        values={n: tuple((_whole(v), str(t)) for v, t in pairs) for n, pairs in about.values.items()},
        missing={n: tuple((_whole(a), _whole(b)) for a, b in pairs) for n, pairs in about.missing.items()},
        sheets=tuple(about.sheets),
    )


def _frame(table: Any, names: list[str]) -> pd.DataFrame:
    """Return a table whose whole numbers are ``Int64``, as codes and counts are in files of every other format."""
    frame: pd.DataFrame = table.to_pandas()
    frame.columns = pd.RangeIndex(frame.shape[1])
    frame = pd.DataFrame({at: _whole_numbers(frame[at]) for at in frame.columns}, index=frame.index)
    frame.columns = pd.Index(names, dtype="str")
    return frame


def _whole_numbers(column: pd.Series) -> pd.Series:
    if not pd.api.types.is_float_dtype(column):
        # Files of statistical software hold missing text as empty text.
        return column.mask(column == "") if pd.api.types.is_string_dtype(column.dtype) else column
    values = column.to_numpy()
    known = values[~np.isnan(values)]
    whole = bool(np.all(np.isfinite(known) & (np.abs(known) < EXACT)) and np.all(known == np.round(known)))
    return column.astype("Int64") if whole and len(known) else column


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
