"""What MLflow shows of published releases beside their curves."""

from __future__ import annotations

import pytest

from tasks.tracking.curves import LISTED, _listed
from tasks.tracking.mlflow import TAG_LENGTH


@pytest.mark.parametrize("length", [10, 150, 300, TAG_LENGTH])
def test_a_text_lists_as_many_releases_as_mlflow_takes(length: int) -> None:
    rows = [f"| {i:{length}} |" for i in range(LISTED)]
    text = _listed("| head |\n", rows, LISTED + 5, "elsewhere", "What they are.")
    shown = [row for row in rows if row in text]
    assert len(text) <= TAG_LENGTH
    assert text.endswith("What they are.")
    assert f"\n\n{LISTED + 5 - len(shown)} older releases are elsewhere." in text
    assert shown == rows[: len(shown)]
    assert len(shown) == len(rows) or len(text) + len(rows[-1]) + 1 > TAG_LENGTH - 2
