"""Mutate small files of statistical software and spreadsheets, and look how their parsers end.

    python -m tests.hostile.mutations --each 1000

Each mutation is parsed in a process of its own, as a run does. It may be read, be refused or crash; a run refuses what
crashes, too. It must not take longer than `SECONDS`, or more memory than `BYTES`. Ends with 1 where one does, and
prints for each format how many ended how, as JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd

# What the parser's process imports late is imported once, before it is forked.
import pyarrow as pa  # noqa: F401
import pyreadstat
import python_calamine  # noqa: F401

from tasks.connectors import parser_process

SECONDS, BYTES = 90, 4 << 30
FORMATS = {
    "sav": "spss",
    "zsav": "spss",
    "por": "spss-portable",
    "dta": "stata",
    "xpt": "sas-transport",
    "xlsx": "excel",
}
WORDS = (b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\1\0")


def seed(suffix: str, folder: Path) -> bytes:
    """Return a small file of a format."""
    days = pd.to_datetime(pd.Series(range(40)), unit="D")
    frame = pd.DataFrame(
        {"id": [f"p{i}" for i in range(40)], "sex": [1.0, 2.0] * 20, "age": np.arange(40) + 0.5, "day": days}
    )
    path, labels = str(folder / f"seed.{suffix}"), {"sex": {1: "m", 2: "f"}}
    if suffix in ("sav", "zsav"):
        ranges = {"age": [{"lo": 1, "hi": 2}]}
        pyreadstat.write_sav(
            frame, path, compress=suffix == "zsav", variable_value_labels=labels, missing_ranges=ranges
        )
    elif suffix == "dta":
        pyreadstat.write_dta(frame, path, variable_value_labels=labels)
    elif suffix == "xlsx":
        book = openpyxl.Workbook()
        for row in [list(frame.columns), *frame.astype(str).to_numpy().tolist()]:
            book.active.append(row)
        book.save(path)
    else:
        {"por": pyreadstat.write_por, "xpt": pyreadstat.write_xport}[suffix](frame, path)
    return Path(path).read_bytes()


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return a file with bytes or words replaced, or cut off."""
    changed = bytearray(content)
    kind = draw.randrange(4)
    if kind == 0:
        for _ in range(draw.randrange(1, 6)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    elif kind == 1:
        return bytes(changed[: draw.randrange(len(changed))])
    elif kind == 2:
        at = draw.randrange(len(changed))
        changed[at : at + 4] = draw.choice(WORDS)
    else:
        changed[draw.randrange(min(len(changed), 600))] = draw.randrange(256)
    return bytes(changed)


def ending(kind: str, path: Path) -> str:
    """Parse a file in a process of its own, and return how that ended."""
    child = os.fork()
    if child == 0:
        sys.stdout = io.TextIOWrapper(io.BytesIO())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        parser_process.MOST_MEMORY = BYTES
        signal.alarm(SECONDS)
        sys.argv = ["", kind, str(path), "", str(10**9), str(4 * 10**9), "table"]
        try:
            parser_process.main()
        except MemoryError:
            os._exit(2)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "too slow" if os.WTERMSIG(status) == signal.SIGALRM else "crashed"
    return ("read", "refused", "too large")[os.WEXITSTATUS(status)]


def main() -> int:
    """Mutate every format; return 1 where a parser was too slow."""
    options = argparse.ArgumentParser()
    options.add_argument("--each", type=int, default=1000)
    each, slow = options.parse_args().each, 0
    with tempfile.TemporaryDirectory() as name:
        for suffix, kind in FORMATS.items():
            draw, content = random.Random(1), seed(suffix, Path(name))
            path = Path(name) / f"mutated.{suffix}"
            path.write_bytes(content)
            if (sound := ending(kind, path)) != "read":
                raise SystemExit(f"the {suffix} file is {sound} before it is mutated")
            endings: Counter[str] = Counter()
            for _ in range(each):
                path.write_bytes(mutated(content, draw))
                endings[ending(kind, path)] += 1
            slow += endings["too slow"]
            print(json.dumps({"format": suffix} | dict(endings)), flush=True)  # noqa: T201
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
