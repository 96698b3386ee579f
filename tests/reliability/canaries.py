"""Values that occur nowhere else, planted in every column, and a search for them in whatever form.

A number is found where its text stands with eight or more significant digits (as it is, rounded, with
separators between thousands, with an exponent), and in binary form: float64 in either byte order, whole
numbers of 6 and 8 bytes. A text is found by a mark, in UTF-8, UTF-16 and UTF-32. Both are found inside SQLite
databases, Parquet, gzip, zip and npz files and zlib streams, and in base64 and hexadecimal text, to three
levels.

Not found are numbers rounded to fewer than eight digits, numbers that were computed on, levels that the plan
itself declares (the plan is published), and whatever is encrypted.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import gzip
import io
import json
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from tests.limits import UTILITY

MARKS = {"person": b"Qx7Person", "seen": b"Qx7Seen", "rare": b"Qx7Rare"}
COMMON = b"Qx7Common"
NUMBERS = ("passport", "gross", "tax", "net", "height", "visits")
DIGITS = 8
NUMBER = re.compile(rb"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
GROUPED = re.compile(rb"(?<![\w.])\d{1,3}(?:([,_' ]|\xc2\xa0)\d{3})(?:\1\d{3})*(?:\.\d+)?")
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
HEXADECIMAL = re.compile(rb"(?:[0-9a-fA-F]{2}){12,}")
DEEP = 3
# Shorter runs of base64 are searched together, longer ones may hold something packed.
LONG = 40

# Four hundred made-up people are too few to prove anything, and chance must not decide how a test ends.
LENIENT = f"membership_auc: 1, tail_p: 0.001, inference: 1, {UTILITY}"

PLAN = """
anonflow: 1
name: office
source: {{path: people.csv}}
variables:
  - {{name: person, kind: nominal, role: identifier}}
  - {{name: passport, kind: nominal, role: identifier}}
  - {{name: seen, kind: nominal, role: identifier}}
  - {{name: gross, kind: continuous, role: sensitive, precision: 0.01}}
  - {{name: tax, kind: continuous, role: sensitive, precision: 0.01}}
  - {{name: net, kind: continuous, role: sensitive, precision: 0.01}}
  - {{name: height, kind: continuous, role: quasi-identifier}}
  - {{name: visits, kind: continuous, role: sensitive, missing: [-987654321]}}
  - {{name: sex, kind: binary, role: quasi-identifier, levels: [f, m]}}
  - {{name: children, kind: ordinal, levels: [0, 1, 2, 3]}}
  - {{name: region, kind: nominal, role: quasi-identifier}}
edits:
  on_violation: refuse
  rules:
    - {{edit: linear, name: net and tax make gross, terms: {{net: 1, tax: 1, gross: -1}}, dependent: gross}}
    - {{edit: bound, name: height, variable: height, lower: 100, upper: 250}}
assessment:
  margin: 0.9
  regressions:
    - {{outcome: net, predictors: [height, region]}}
steps:
  - {{method: rare-levels, k: 5}}
  - {step}
{policy}
{more}
"""


@dataclass(frozen=True)
class Hit:
    """Where a canary was found, of which column, in which form; the value itself is not repeated."""

    path: str
    column: str
    form: str


@dataclass(frozen=True)
class Canaries:
    """A table and what may be found of it nowhere."""

    frame: pd.DataFrame
    floats: np.ndarray = field(repr=False)
    whole: np.ndarray = field(repr=False)
    texts: dict[float, str] = field(repr=False)

    @classmethod
    def plant(cls, records: int = 400, seed: int = 1) -> Canaries:
        """Return a table in which every record of every column can be recognised."""
        rng = np.random.default_rng(seed)
        net = (3.1e7 + 2.3e7 * rng.random(records)).round(2)
        tax = (1.1e7 + 0.9e7 * rng.random(records)).round(2)
        visits = (8.2e7 + 1e7 * rng.random(records)).round(3)
        region = rng.choice([COMMON.decode() + n for n in ("Nord", "West", "Ost")], records).astype(object)
        region[rng.choice(records, 3, replace=False)] = [f"Qx7Rare{i}z" for i in range(3)]
        frame = pd.DataFrame(
            {
                "person": [f"Qx7Person{i:05d}z" for i in range(records)],
                "passport": 9_182_736_450_007 + 3571 * np.arange(records),
                "seen": [f"Qx7Seen19070319T0417{i:06d}" for i in range(records)],
                "gross": (net + tax).round(2),
                "tax": tax,
                "net": net,
                "height": (150 + 45 * rng.random(records)).round(9),
                "visits": np.where(rng.random(records) < 0.1, -987654321.0, visits),
                "sex": rng.choice(["f", "m"], records),
                "children": rng.choice([0, 1, 2, 3], records),
                "region": region,
            }
        )
        return cls.of(frame)

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Canaries:
        """Return what is to be searched for, given the table."""
        texts: dict[float, str] = {}
        floats = []
        for name in NUMBERS:
            for value in pd.to_numeric(frame[name], errors="coerce").dropna():
                if value == -987654321:
                    continue
                floats.append(float(value))
                for decimals in range(10):
                    short = round(float(value), decimals)
                    if len(f"{short:.{decimals}f}".replace(".", "").lstrip("0")) >= DIGITS and (
                        decimals >= 6 or abs(value) >= 10 ** (DIGITS - 1)
                    ):
                        texts[short] = name
        whole = np.array([v for v in floats if v == int(v)], dtype="int64")
        return cls(frame, np.unique(floats), np.unique(whole), texts)

    def write(
        self,
        folder: Path,
        *,
        step: str = "{method: spectral-swap}",
        policy: str = LENIENT,
        more: str = "",
    ) -> Path:
        """Write table and plan; return the plan's path."""
        folder.mkdir(parents=True, exist_ok=True)
        self.frame.to_csv(folder / "people.csv", index=False)
        plan = folder / "office.yaml"
        plan.write_text(PLAN.format(step=step, policy="policy: {" + policy + "}", more=more))
        return plan

    def search(
        self, root: Path, *, data: Iterable[Path] = (), documents: Iterable[Path] = ()
    ) -> tuple[list[Hit], int, int]:
        """Return what was found below ``root``, how many files were searched, and how many bytes.

        Parameters
        ----------
        data : files that hold a release's records: numbers and levels that stand in the release itself are
            its own; identifiers and rare levels are not
        documents : folders with a release's report and codebook, which may name the common levels
        """
        own, named = {p.resolve() for p in data}, [p.resolve() for p in documents]
        hits: list[Hit] = []
        files = size = 0
        for path in sorted(root.rglob("*")):
            if not path.is_file() or path.is_symlink():
                continue
            files, size = files + 1, size + path.stat().st_size
            content = path.read_bytes()
            levels = path.resolve() in own or any(path.resolve().is_relative_to(f) for f in named)
            found = set(self.find(content)) | {("name " + c, f) for c, f in self.find(path.name.encode())}
            for column, form in sorted(found):
                if (column == "common" and levels) or (column in NUMBERS[1:] and path.resolve() in own):
                    continue
                hits.append(Hit(str(path.relative_to(root)), column, form))
        return hits, files, size

    def find(self, content: bytes, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Give column and form of every canary in some bytes."""
        yield from self._plain(content)
        yield from self._binary(content)
        if b"\0" in content:
            yield from ((c, f"{f}, wide") for c, f in self._plain(content.replace(b"\0", b"")))
        if depth < DEEP:
            for form, inner in _unpacked(content):
                yield from ((c, f"{f} in {form}") for c, f in self.find(inner, depth + 1))

    def _plain(self, content: bytes) -> Iterator[tuple[str, str]]:
        lower = content.lower()
        for column, mark in (*MARKS.items(), ("common", COMMON)):
            if mark.lower() in lower:
                yield column, "text"
        grouped = {re.sub(rb"[^\d.]", b"", found[0]) for found in GROUPED.finditer(content)}
        for text in grouped | set(NUMBER.findall(content)):
            if len(text) >= DIGITS and (column := self.texts.get(float(text))) is not None:
                yield column, "number as text"

    def _binary(self, content: bytes) -> Iterator[tuple[str, str]]:
        for shift in range(8):
            window = content[shift : shift + (len(content) - shift) // 8 * 8]
            for order in "<>":
                for value in _among(np.frombuffer(window, f"{order}f8"), self.floats):
                    yield self.texts.get(float(value), "number"), "float64"
                numbers = np.frombuffer(window, f"{order}i8")
                if _among(numbers, self.whole).size:
                    yield "passport", "int64"
                if order == ">" and _among(numbers >> 16, self.whole).size:
                    yield "passport", "int48"


def _among(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the values that are known; ``known`` is sorted."""
    values = values[(values >= known[0]) & (values <= known[-1])]
    return values[known[np.searchsorted(known, values)] == values]


def _unpacked(content: bytes) -> Iterator[tuple[str, bytes]]:  # noqa: C901
    """Give what is packed inside some bytes."""
    if content[:16] == b"SQLite format 3\0":
        yield "sqlite", _rows(content)
    if content[:2] == b"\x1f\x8b":
        with contextlib.suppress(zlib.error):
            yield "gzip", zlib.decompressobj(31).decompress(content)
    if content[:4] == b"PK\x03\x04":
        with contextlib.suppress(zipfile.BadZipFile, NotImplementedError):
            archive = zipfile.ZipFile(io.BytesIO(content))
            for name in archive.namelist():
                yield "zip", archive.read(name)
    if content[:4] == b"PAR1":
        with contextlib.suppress(Exception):
            table = pq.read_table(io.BytesIO(content))
            yield "parquet", table.to_pandas().to_csv().encode() + str(table.schema.metadata).encode()
    for found in re.finditer(rb"x[\x01\x5e\x9c\xda]", content):
        with contextlib.suppress(zlib.error):
            unpacked = zlib.decompressobj().decompress(content[found.start() :], 10_000_000)
            if len(unpacked) > 16:
                yield "zlib", unpacked
    short: list[bytes] = []
    for run in set(BASE64.findall(content)):
        for decoded in _from_base64(run):
            if len(run) < LONG:
                short.append(decoded)
            else:
                yield "base64", decoded
    if short:
        yield "base64", b"\n".join(short)
    if runs := set(HEXADECIMAL.findall(content)):
        yield "hex", b"\n".join(bytes.fromhex(run.decode()) for run in runs)


def _from_base64(run: bytes) -> Iterator[bytes]:
    """Give what a run may stand for, wherever in it the text begins; hexadecimal digests are none."""
    plain = run.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    if not HEXADECIMAL.fullmatch(plain) and not plain.isdigit():
        for shift in range(4):
            part = plain[shift:]
            with contextlib.suppress(binascii.Error):
                yield base64.b64decode(part[: len(part) // 4 * 4])


def _rows(content: bytes) -> bytes:
    """Return every value of every table as text; deleted pages are searched as raw bytes."""
    said = []
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(content)
        database.text_factory = bytes
        for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
            quoted = table.decode().replace('"', '""')
            for row in database.execute(f'select * from "{quoted}"'):
                said.append(b"\n".join(v if isinstance(v, bytes) else str(v).encode() for v in row))
    except sqlite3.DatabaseError:
        pass
    finally:
        database.close()
    return b"\n".join(said)


def release_of(home: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of a home that hold a release's records, and the folders with its documents."""
    folders = [*home.glob("releases/*/*"), *home.glob("candidates/*"), *home.glob("withdrawn/*/*")]
    data = [f / name for f in folders for name in ("data.parquet", "data.csv")]
    return data, [*folders, *home.glob("assessments/*"), *home.glob("mlflow/artifacts/*/*/artifacts")]


def told(hits: Iterable[Hit]) -> str:
    """Return hits as lines for a failing test."""
    return "\n".join(f"{h.path}: {h.column}, {h.form}" for h in hits)


def leaky(canaries: Canaries) -> dict[str, Any]:
    """Return the same few values in every form that the search knows: what it must find (see its test)."""
    row = canaries.frame.iloc[7]
    number, text = float(row["net"]), str(row["person"])
    stored = io.BytesIO()
    np.savez_compressed(stored, a=np.array([number]))
    parquet = io.BytesIO()
    pd.DataFrame({"a": [number], "b": [text]}).to_parquet(parquet, compression="zstd")
    database = sqlite3.connect(":memory:")
    database.execute("create table t (a real, b integer, c blob)")
    database.execute("insert into t values (?, ?, null)", (number, int(row["passport"])))
    database.commit()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", text * 50)
    return {
        "text": text.encode(),
        "case": text.upper().encode(),
        "utf-16": text.encode("utf-16-le"),
        "utf-32": text.encode("utf-32"),
        "json": json.dumps({"a": text, "b": number}).encode(),
        "repr": repr(number).encode(),
        "rounded": f"{number:.0f}".encode(),
        "thousands": f"= {number:,.2f};".encode(),
        "exponent": f"{number:.9e}".encode(),
        "in a list": f"[1,{number},2]".encode(),
        "whole number": str(row["passport"]).encode(),
        "height": f"{row['height']:.7f}".encode(),
        "float64": b"abc" + np.float64(number).tobytes(),
        "float64 big-endian": np.array([number], ">f8").tobytes(),
        "int64": b"x" + np.int64(row["passport"]).tobytes(),
        "base64": b"data:text/html;base64," + base64.b64encode(b"<html><body>" + text.encode() + b"</body></html>"),
        "hex": text.encode().hex().encode() + b"00000000",
        "gzip": gzip.compress(text.encode() * 9),
        "npz": stored.getvalue(),
        "parquet": parquet.getvalue(),
        "sqlite": database.serialize(),
        "zip": zipped.getvalue(),
        "base64 of gzip": base64.b64encode(gzip.compress(text.encode() * 9)),
        "zlib in the middle": b"PNG..." + zlib.compress(text.encode() * 9),
    }
