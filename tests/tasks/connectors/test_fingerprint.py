"""The digest of a table's records: the same however a file writes them, and another for other records."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Variable
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.connectors.fingerprint import ContentDigest, record_digests, records_digest
from tasks.intake.ingest import ingest
from tasks.intake.source import SourceSection
from tasks.record import ledger

VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous"),
    Variable("land", "nominal"),
)
ROWS = ["a,41,x", "b,,y", "c,7.5,z w", "d,41,x"]


def bag(frame: pd.DataFrame) -> str:
    return records_digest([record_digests(frame)])


def taken(base: Any, name: str, content: str | pd.DataFrame) -> tuple[str, str | None]:
    path = base / name
    if isinstance(content, str):
        path.write_text(content)
    else:
        content.to_parquet(path, index=False)
    run = Run.start(Home.locate(base / "home"), SeedSection())
    try:
        done = ingest(run, SourceSection(path=name), VARIABLES, base)
    finally:
        run.workspace.wipe()
    return done.summary.digest, done.summary.records_digest


def test_a_blank_line_or_another_order_changes_the_file_and_not_its_records(tmp_path):
    plain = "id,age,land\n" + "\n".join(ROWS) + "\n"
    files = {
        "plain.csv": plain,
        "blank.csv": plain + "\n\n",
        "ends.csv": plain.replace("\n", "\r\n"),
        "shuffled.csv": "id,age,land\n" + "\n".join(ROWS[::-1]) + "\n",
        "columns.csv": "land,id,age\nx,a,41.0\ny,b,NA\nz w,c,7.50\nx,d,41\n",
        "names.csv": plain.replace("a,41", "zz,41"),
        "people.parquet": pd.DataFrame(
            {"id": list("abcd"), "age": [41.0, np.nan, 7.5, 41.0], "land": ["x", "y", "z w", "x"]}
        ),
    }
    found = {name: taken(tmp_path, name, content) for name, content in files.items()}
    assert len({digest for digest, _ in found.values()}) == len(files)
    assert len({records for _, records in found.values()}) == 1


@pytest.mark.parametrize(
    ("column", "other"),
    [([1, 2], [1, 3]), (["a", "b"], ["a", "c"]), ([1, 1], [1, 2]), (["a", None], ["a", "b"])],
)
def test_other_values_give_another_digest(column, other):
    assert bag(pd.DataFrame({"a": column})) != bag(pd.DataFrame({"a": other}))


def test_values_do_not_change_places_between_columns_or_records():
    one = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert bag(one) == bag(one[["b", "a"]]) == bag(one[::-1])
    assert bag(one) != bag(one.rename(columns={"a": "b", "b": "a"}))
    assert bag(one) != bag(one.assign(b=[4, 3]))
    assert bag(one) != bag(pd.concat([one, one[:1]]))


@pytest.mark.parametrize(
    "columns",
    [
        (["1", "2", None], [1, 2, np.nan], [1.0, 2.0, np.nan], pd.array([1, 2, None], dtype="Int64")),
        (["true", "false"], [1, 0], [True, False]),
        ([" a ", "NA"], ["a", None], pd.Categorical(["a", None])),
        ([0.0], [-0.0]),
        (["9" * 400], ["9" * 400]),
    ],
)
def test_the_same_value_counts_alike_however_it_is_kept(columns):
    assert len({bag(pd.DataFrame({"a": column})) for column in columns}) == 1


def test_nobody_without_the_home_can_try_guesses_on_what_is_entered(tmp_path):
    _, first = taken(tmp_path, "a.csv", "id,age,land\n" + "\n".join(ROWS) + "\n")
    (tmp_path / "other").mkdir()
    _, second = taken(tmp_path / "other", "a.csv", "id,age,land\n" + "\n".join(ROWS) + "\n")
    assert first != second
    home = Home.locate(tmp_path / "home")
    ledger.rotate_key(home, by="x", reason="y")
    assert taken(tmp_path, "b.csv", "id,age,land\n\n" + "\n".join(ROWS) + "\n")[1] == first


def test_the_digest_of_a_content_is_that_of_all_values_as_text():
    rng = np.random.default_rng(6)
    some = rng.random(300) < 0.2
    frame = pd.DataFrame(
        {
            "amount": np.where(some, np.nan, np.round(rng.gamma(2.0, 90.0, 300), 1)),
            "count": pd.array(np.where(some, None, rng.integers(0, 9, 300)), dtype="Int64"),
            "share": pd.array(np.where(some, np.nan, rng.random(300)), dtype="Float64"),
            "single": rng.normal(size=300).astype("float32"),
            "half": rng.normal(size=300).astype("float16"),
            "signed": np.where(some, -0.0, 0.0),
            "signs": pd.array(np.where(some, -0.0, rng.integers(-1, 2, 300) / 2), dtype="Float64"),
            "arrow": pd.array(np.where(some, -0.0, rng.integers(-1, 2, 300) / 2), dtype="double[pyarrow]"),
            "true": some,
            "none": np.full(300, np.nan),
            "text": rng.choice(["a", "1.0", None], 300),
        }
    )
    content = ContentDigest()
    for part in (frame[:100], frame[100:]):
        content.add(part)
    rows = np.sort(pd.util.hash_pandas_object(frame.astype("string"), index=False).to_numpy())
    assert content.digest == hashlib.sha256("\x1f".join(frame.columns).encode() + rows.tobytes()).hexdigest()
