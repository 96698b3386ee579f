"""The short form of docs/explanation/reproduction.md: its orderings hold, and it says what the code measures."""

import numpy as np
import pytest

from anoncore.risk import LinkageSettings, linkage, prediction_measures
from tests.papers import reproduction

FIRST = reproduction.SEEDS[:1]
CONCLUSIONS = ("swap", "spectral-rhs", "noise", "reference")
SHORT = {
    "nhanes": CONCLUSIONS,
    "nhefs-complete": reproduction.SHORT,
    "nhefs": CONCLUSIONS,
    "randhie": reproduction.SHORT,
}


@pytest.fixture(scope="module")
def fresh():
    return {table: reproduction.measured([table], FIRST, methods) for table, methods in SHORT.items()}


@pytest.fixture(scope="module")
def written():
    return reproduction.stored()[1]


@pytest.mark.parametrize(
    ("table", "key"),
    [(table, o.key) for o in reproduction.ORDERINGS for table in o.must],
)
def test_orderings_that_must_hold(fresh, written, table, key):
    ordering = next(o for o in reproduction.ORDERINGS if o.key == key)
    assert reproduction.answer(ordering, fresh[table]) is True
    assert reproduction.answer(ordering, [row for row in written if row["table"] == table]) is True


@pytest.mark.parametrize("table", SHORT)
def test_the_document_says_what_is_measured(fresh, written, table):
    assert reproduction.differences(fresh[table], written) == []


def test_the_document_follows_from_its_settings_and_figures():
    assert reproduction.behind() == []


def test_every_seed_table_and_method_stands_in_the_figures(written):
    found = [(row["table"], row["seed"], row["method"]) for row in written]
    assert found == [
        (table, seed, method)
        for table in reproduction.TABLES
        for seed in reproduction.SEEDS
        for method in reproduction.METHODS
    ]


def test_an_ordering_that_breaks_is_named(written):
    rows = [row | {"rate": 0.5} if row["method"] == "noise" else row for row in written]
    assert reproduction.broken(written) == []
    assert [line.split(":")[0] for line in reproduction.broken(rows)] == [
        "noise-found on nhefs-complete",
        "noise-found on nhefs",
    ]


def test_a_figure_that_is_missing_is_not_taken_for_an_answer(written):
    rows = [row for row in written if row["table"] == "nhefs-complete" and row["method"] != "reference"]
    assert [line.split(" on ")[0] for line in reproduction.broken(rows)] == ["swap-safer"]


def test_figures_that_have_moved_are_named(written):
    rows = [dict(row) for row in written]
    rows[0]["variance"] *= 2
    del rows[1]["mean"]
    first, second = reproduction.differences(rows[:2], written)
    assert "variance" in first
    assert "other figures" in second


def test_other_settings_leave_the_document_behind(monkeypatch):
    monkeypatch.setattr(reproduction, "MARGIN", 0.1)
    assert any("other settings" in line for line in reproduction.behind())


def test_the_pictures_count_right_matches_as_linkage_does():
    e = reproduction.experiment("nhefs-complete", 1)
    for method in ("spectral-rhs", "noise"):
        y = reproduction.release(e, method)[1]
        near = prediction_measures(e.original, y, reproduction.K)
        rate = linkage(e.original, y, settings=LinkageSettings(measures=near), rng=np.random.default_rng(0)).rate.value
        assert reproduction.right_matches(e.original, y, near).mean() == pytest.approx(rate, abs=1e-12)


@pytest.mark.parametrize(
    ("value", "said"),
    [(3e-16, "< 1e-13"), (2e-4, "< 0.0005"), (0.0098, "0.0098"), (0.06, "0.060"), (0.753, "0.753")],
)
def test_figures_are_written_with_two_digits_or_three(value, said):
    assert reproduction.number(value) == said
