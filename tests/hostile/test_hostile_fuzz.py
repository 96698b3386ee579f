"""Whatever stands in a plan, a table or a setting is read, or refused in words; nothing else comes out."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Variable
from flows.plan.model import PlanFile, load_plan
from flows.plan.overrides import settings_of
from tasks.common.errors import Refused
from tasks.intake.columns import to_microdata
from tasks.intake.read import read_file
from tasks.intake.source import SourceSection
from tests.hostile.cases import GOOD, HEADER, parquet, planned

VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous"),
    Variable("land", "nominal"),
    Variable("sex", "binary", levels=(0, 1)),
)
SMALL = HEADER + "".join(GOOD.splitlines(keepends=True)[:8])
ODD = st.sampled_from(
    [
        *(
            "*a",
            "&a",
            "!!int ''",
            "!!python/object:os.x {}",
            "<<",
            "[",
            "}",
            ": ",
            "- ",
            "\t",
            "\0",
            "\x1b[31m",
        ),
        *("\u202e", "\ud800", "9" * 400, "1:2:3", ".nan", "~", "'", '"', "\n", "\r", "#", "|", ">", "%", "@"),
        *("\ufeff", "../..", "; drop table x"),
    ]
)
quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def told(error: Exception, *, of_names: bool = False) -> None:
    """Check a refusal's words: some, not too many, and none for the terminal to carry out.

    Names that an `AnonymizationError` holds are written out by `sanitise_errors`, at the end of every task.
    """
    text = str(error)
    assert text.strip()
    assert len(text) < 30_000
    assert of_names or all(c.isprintable() or c == "\n" for c in text)


def loads(path: Path) -> None:
    try:
        assert isinstance(load_plan(path), PlanFile)
    except Refused as refused:
        told(refused)


@st.composite
def spoiled(draw: st.DrawFn, text: str) -> str:
    """Cut, double and put things into a text."""
    for _ in range(draw(st.integers(1, 4))):
        at, to = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        put = draw(st.one_of(ODD, st.text(max_size=5), st.just(text[at : at + 20])))
        text = text[:at] + put + text[min(to, at + draw(st.integers(0, 12))) :]
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    planned(
        path,
        "edits: {rules: [{edit: bound, name: e, variable: age, lower: 0}]}",
        "policy: {approval: person}",
    )
    return path


@quick
@given(data=st.data())
def test_any_plan_text_loads_or_is_refused(folder: Path, data: st.DataObject) -> None:
    text = data.draw(spoiled((folder / "plan.yaml").read_text()))
    path = folder / "spoiled.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    loads(path)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.binary(max_size=4),
    ODD,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@quick
@given(data=st.data())
def test_any_plan_structure_loads_or_is_refused(folder: Path, data: st.DataObject) -> None:
    document = yaml.safe_load((folder / "plan.yaml").read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        part: Any = document
        while True:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            key = data.draw(st.sampled_from(keys)) if keys else None
            inner = part[key] if keys else None
            if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
                break
            part = inner
        if isinstance(part, dict):
            part[key if key is not None and data.draw(st.booleans()) else data.draw(st.text(max_size=6))] = data.draw(
                VALUES
            )
        elif keys:
            part[key] = data.draw(VALUES)
    path = folder / "changed.yaml"
    try:
        path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    except (UnicodeEncodeError, yaml.YAMLError):
        return
    loads(path)


def reads(folder: Path, kind: Any, content: bytes, **source: Any) -> None:
    path = folder / "table"
    path.write_bytes(content)
    try:
        frame = read_file(path, kind, SourceSection(path="table", **source), VARIABLES, shown="table")
        assert isinstance(to_microdata(frame, VARIABLES)[0], Microdata)
    except (Refused, AnonymizationError) as refused:
        told(refused, of_names=True)


@quick
@given(
    text=spoiled(SMALL),
    encoding=st.sampled_from(["utf-8-sig", "latin-1", "utf-16", "cp1252", "utf-7", "hz"]),
    more=st.binary(max_size=6),
    delimiter=st.sampled_from(",;\t|a "),
)
def test_any_csv_is_read_or_refused(folder: Path, text: str, encoding: str, more: bytes, delimiter: str) -> None:
    try:
        content = text.encode(encoding, "replace")
    except UnicodeError:
        content = text.encode("utf-8", "surrogatepass")
    reads(folder, "csv", content + more, encoding=encoding, delimiter=delimiter)


PARQUET = [parquet(), parquet(use_dictionary=False, compression=None), parquet(compression="gzip")]


@quick
@given(data=st.data())
def test_any_parquet_is_read_or_refused(folder: Path, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(PARQUET)))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    reads(
        folder,
        "parquet",
        bytes(content[: data.draw(st.sampled_from([len(content), len(content) - 9]))]),
        format="parquet",
    )


# Each is parsed in a process of its own; a thousand of every format: python -m tests.hostile.mutations.
@settings(quick, max_examples=4)
@given(data=st.data())
def test_any_stata_is_read_or_refused(folder: Path, data: st.DataObject) -> None:
    out = io.BytesIO()
    pd.read_csv(io.StringIO(SMALL)).to_stata(out, write_index=False, version=118)
    content = bytearray(out.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    reads(folder, "stata", bytes(content), format="stata")


@quick
@given(
    text=st.one_of(
        spoiled("additive-noise:b=0.1:axes=spectral mdav:k=5, optimal-boxes:limits={age: [0, 120]}"),
        st.text(max_size=20),
    )
)
def test_any_setting_is_read_or_refused(folder: Path, text: str) -> None:
    try:
        assert settings_of([text], load_plan(folder / "plan.yaml"))
    except Refused as refused:
        told(refused)
