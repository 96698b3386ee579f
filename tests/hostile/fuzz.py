"""Feed a parser what a coverage-guided fuzzer makes up, and keep whatever it does not refuse in words.

The fuzzer, atheris, is no dependency of the project: it has an environment of its own, which sees this one.

    python3.11 -m venv fuzzenv && fuzzenv/bin/pip install atheris
    export PYTHONPATH=.:.venv/lib/python3.11/site-packages
    fuzzenv/bin/python tests/hostile/fuzz.py plan --seconds 300

A parser may return or raise `Refused` (or `AnonymizationError`, which every task turns into it). Whatever
else comes out is a finding: its input is written to ``--out``, once for each place in our code, and the run
goes on. A finding is kept as tests/hostile/corpus/PARSER-NAME, and is a case from then on.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
OURS = [
    "yaml",
    "flows.plan.model",
    "flows.plan.file",
    "flows.plan.overrides",
    "tasks.connectors.csv",
    "tasks.intake.source",
    "tasks.intake.read",
    "tasks.intake.columns",
    "tasks.connectors.parquet",
    "tasks.connectors.statistical",
    "tasks.connectors.copies",
    "tasks.connectors.storage",
    "anoncore.microdata",
]
with atheris.instrument_imports(include=OURS):
    import yaml  # noqa: F401

    from anoncore.errors import AnonymizationError
    from anoncore.microdata import Variable
    from flows.plan.model import PlanFile, load_plan
    from flows.plan.overrides import settings_of
    from tasks.common.errors import Refused
    from tasks.intake.columns import to_microdata
    from tasks.intake.read import read_file
    from tasks.intake.source import SourceSection

VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous", missing=(-1,)),
    Variable("land", "nominal"),
    Variable("sex", "binary", levels=(0, 1)),
)
TABLE = b'id,age,land,sex\n1,2.5,DE,0\n2,,"F,R",1\n3,-1,NA,0\n4,1e3,,1\n'
PLAN = """anonflow: 1
name: people
source: {path: people.csv}
variables:
  - {name: id, kind: nominal, role: identifier}
  - {name: age, kind: continuous, missing: [-1], precision: 1}
  - {name: land, kind: nominal, description: "of birth"}
  - {name: sex, kind: binary, levels: [0, 1]}
edits:
  rules:
    - {edit: bound, name: e, variable: age, lower: 0}
    - {edit: conditional, name: c, when: [{variable: sex, values: [0]}], then: {variable: age, missing: true}}
reference: {kind: leave-one-out}
steps:
  - {method: rare-levels, k: 5, action: suppress}
  - {method: spectral-swap}
policy: {utility: {pair: 0, two_samples: 0, exceeded: reject}}
schedule: {cron: "0 3 * * mon-fri", timezone: UTC}
"""
SETTINGS = (
    "spectral-swap mdav:k=5",
    "additive-noise:b=0.1:axes=spectral, rhs",
    "optimal-boxes:k=10:limits={age: [0, 120]}:statistics=[{statistic: mean, of: [age]}]",
)
WORDS = {
    "plan": [*"&*!|>%@`?:-,[]{}#", "!!int", "!!bool", "!!float", "!!timestamp", "!!binary", "!!set", "!!omap",
             "<<:", "&a", "*a", "0x", "1:2:3", ".nan", ".inf", "~", "\\u202e", "\\x00", "..", "---"],
    "settings": [":", "=", ",", "[", "]", "{", "}", "'", "!!int", "&a", "*a", ".inf", "mdav"],
    "csv": [",", ";", "\n", "\r", '"', '""', "NA", "inf", "nan", "1e400", "\ufeff", "id", "age"],
    "parquet": ["PAR1", "PARE", "pandas", "ARROW:schema"],
}  # fmt: skip


def target(parser: str, folder: Path) -> Callable[[bytes], Any]:
    """Return the function that is fed."""
    (folder / "people.csv").write_bytes(TABLE)
    (folder / "plan.yaml").write_text(PLAN)
    file: PlanFile = load_plan(folder / "plan.yaml")

    def kept(content: bytes) -> Path:
        path = folder / "fed"
        path.write_bytes(content)
        return path

    def plan(content: bytes) -> Any:
        return load_plan(kept(content)).plan.digest

    def settings(content: bytes) -> Any:
        return [s.label for s in settings_of([content.decode("utf-8", "replace")], file)]

    def csv(content: bytes) -> Any:
        if not content:
            return None
        encoding = ("utf-8-sig", "latin-1", "utf-16", "cp1252")[content[0] % 4]
        source = SourceSection(path="fed", delimiter=",;\t|"[content[0] // 4 % 4], encoding=encoding)
        # A column that is not declared is read too.
        known = VARIABLES[: 1 + content[0] // 16 % 4]
        return to_microdata(read_file(kept(content[1:]), "csv", source, known, shown="fed"), known)

    def parquet(content: bytes) -> Any:
        source = SourceSection(path="fed", format="parquet")
        return to_microdata(read_file(kept(content), "parquet", source, VARIABLES, shown="fed"), VARIABLES)

    return {"plan": plan, "settings": settings, "csv": csv, "parquet": parquet}[parser]


def seeds(parser: str) -> list[bytes]:
    """Return what the fuzzer begins with."""
    if parser == "plan":
        head = PLAN.partition("edits:")[0]
        return [PLAN.encode(), f"{head}steps: [{{method: spectral-swap}}]\n".encode()]
    if parser == "settings":
        return [s.encode() for s in SETTINGS]
    if parser == "csv":
        wide = bytes([2 + 16 * 3]) + TABLE.decode().encode("utf-16")
        return [bytes([16 * 3]) + TABLE, bytes([1 + 4 + 16 * 3]) + TABLE.replace(b",", b";"), wide]
    import pandas as pd

    frame = pd.DataFrame({"id": ["a", "b"], "age": [2.5, None], "land": ["DE", None], "sex": [0, 1]})
    found = []
    for options in ({}, {"compression": "gzip"}, {"use_dictionary": False, "compression": None}):
        out = io.BytesIO()
        frame.to_parquet(out, **options)
        found.append(out.getvalue())
    return found


def place(error: BaseException) -> str:
    """Return the innermost place in our code, by which findings are told apart."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_relative_to(ROOT) and ".venv" not in f.filename]
    last = (own or list(frames))[-1]
    return f"{type(error).__name__}-{Path(last.filename).stem}-{last.lineno}"


def main() -> None:
    """Fuzz one parser for a while; write the findings and, as JSON, what was done."""
    options = argparse.ArgumentParser()
    options.add_argument("parser", choices=sorted(WORDS))
    options.add_argument("--seconds", type=int, default=300)
    options.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "anonflow-fuzz")
    given = options.parse_args()
    out = given.out / given.parser
    (out / "corpus").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(given.parser)):
        (out / "corpus" / f"seed-{number}").write_bytes(seed)
    words = ("".join(f"\\x{b:02x}" for b in word.encode()) for word in WORDS[given.parser])
    (out / "words").write_text("".join(f'"{word}"\n' for word in words))
    folder = Path(tempfile.mkdtemp(prefix="anonflow-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    feed = target(given.parser, folder)
    done: dict[str, Any] = {
        "parser": given.parser,
        "executions": 0,
        "refused": 0,
        "read": 0,
        "seconds": 0,
        "findings": {},
    }
    begun = time.monotonic()

    def once(content: bytes) -> None:
        done["executions"] += 1
        try:
            feed(content)
            done["read"] += 1
        except (Refused, AnonymizationError):
            done["refused"] += 1
        except Exception as error:
            where = place(error)
            if where not in done["findings"]:
                done["findings"][where] = f"{type(error).__name__}: {error}"[:200]
                (out / where).write_bytes(content)
        # The fuzzer ends the process itself, so what was done is written as it goes.
        if time.monotonic() - begun > done["seconds"] + 2:
            done["seconds"] = round(time.monotonic() - begun)
            (out / "done.json").write_text(json.dumps(done, indent=1))

    warnings.simplefilter("ignore")
    flags = [f"-max_total_time={given.seconds}", "-timeout=30", "-rss_limit_mb=4096", "-max_len=4000",
             "-print_final_stats=1", f"-dict={out / 'words'}", f"-artifact_prefix={out}/"]  # fmt: skip
    atheris.Setup([sys.argv[0], *flags, str(out / "corpus")], once)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atheris.Fuzz()


if __name__ == "__main__":
    main()
