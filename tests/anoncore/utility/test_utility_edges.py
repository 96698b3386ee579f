"""Utility where data degenerate: always defined, never a warning, nothing modified, always the same."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.encoding import EncodedTables, Encoder
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import (
    Regression,
    UtilitySettings,
    compare_utility,
    marginal_utility,
    measure_utility,
    propensity_utility,
    tree_propensity,
    utility_figures,
    variable_utility,
)
from anoncore.utility._sides import weighting
from tests.anoncore.edges import CASES as DEGENERATE
from tests.anoncore.edges import SETS, Frames, all_rows_one, changed, sides
from tests.anoncore.plain import plain

SCHEMA = Schema(
    [
        Variable("age", "continuous"),
        Variable("income", "continuous"),
        Variable("sex", "binary", levels=("f", "m")),
        Variable("school", "ordinal", levels=(1, 2, 3)),
        Variable("region", "nominal", levels=("a", "b", "c")),
        Variable("w", "continuous", "weight"),
    ]
)
DECLARED = (
    Regression(outcome="income", predictors=("age", "sex", "region")),
    Regression(outcome="sex", predictors=("age", "school"), kind="logistic"),
)
EVERYTHING = UtilitySettings(regressions=DECLARED, interactions=5, triples=6)


CASES: dict[str, Callable[[], Frames]] = DEGENERATE | {
    "outcome missing in the release": lambda: changed("released", income=np.nan),
    "original of identical rows": lambda: all_rows_one("original"),
    "all rows identical": lambda: all_rows_one(*SETS),
    "one record": lambda: sides((1, 1, 1)),
    "zero weights": lambda: changed(w=0.0),
    "zero weights in the release": lambda: changed("released", w=0.0),
    "missing weights": lambda: changed(w=np.nan),
    "one weight above zero": lambda: changed(w=np.r_[1.0, np.zeros(59)]),
}


def microdata(case: str) -> list[Microdata]:
    found = CASES[case]()
    return [Microdata(found[name], SCHEMA) for name in SETS]


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_defined_and_repeats_and_inputs_stay(case: str) -> None:
    tables = microdata(case)
    copies = [table.frame.copy(deep=True) for table in tables]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = [
            json.dumps(
                plain(measure_utility(*tables, settings=EVERYTHING)),
                allow_nan=False,
            )
            for _ in range(2)
        ]
        alone = measure_utility(tables[0], tables[1], settings=UtilitySettings(regressions=DECLARED))
    assert texts[0] == texts[1]
    json.dumps(plain(alone), allow_nan=False)
    for table, copy in zip(tables, copies, strict=True):
        pd.testing.assert_frame_equal(table.frame, copy)


@pytest.mark.parametrize("case", CASES)
def test_parts_by_themselves_are_those_of_the_whole(case: str) -> None:
    tables = microdata(case)
    found = measure_utility(*tables, settings=UtilitySettings(triples=6))
    assert variable_utility(*tables) == found.variables
    arrays = weighting(tables, None).arrays
    marginals = marginal_utility(*tables, size=2, limit=2000, weights=arrays).worst_only(10)
    np.testing.assert_array_equal(marginals.values, found.marginals[0].values)
    assert (marginals.mean, marginals.worst) == (found.marginals[0].mean, found.marginals[0].worst)
    encoder = Encoder.fit(tables[0])
    matrices = [encoder.encode(table) for table in tables]
    kept = [matrix.copy() for matrix in matrices]
    if encoder.width:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = tree_propensity(matrices[0], matrices[1], rng=np.random.default_rng(0))
        assert 0 <= tree.pmse <= 0.25
        assert found.propensity is not None
        for at, part in enumerate((found.propensity.released, found.propensity.reference), start=1):
            again = propensity_utility(matrices[0], matrices[at], weights=arrays[0], other_weights=arrays[at])
            assert again == part
        shared = measure_utility(*tables, encoded=EncodedTables.of(*tables), settings=UtilitySettings(triples=6))
        assert plain(shared) == plain(found)
    else:
        assert found.propensity is None
        assert found.figures is None
    for matrix, copy in zip(matrices, kept, strict=True):
        np.testing.assert_array_equal(matrix, copy)


@pytest.mark.parametrize("case", ["release is the original", "all three are one"])
def test_the_original_as_release_moves_nothing(case: str) -> None:
    found = measure_utility(*microdata(case), settings=UtilitySettings(regressions=DECLARED, triples=6))
    assert found.figures is not None
    assert [part.released_largest for part in found.figures.figures] == [0.0] * 4
    assert all(worst.released == 0 for worst in found.variables.worst)
    assert found.propensity is not None
    assert found.propensity.released.pmse == 0
    assert all(one.largest == 0 for one in found.marginals)


def test_equal_weights_are_no_weights() -> None:
    tables = microdata("equal weights")
    # The standard errors of regressions are others with weights.
    settings = UtilitySettings(automatic=0)
    weighted = plain(measure_utility(*tables, settings=settings))
    unweighted = plain(measure_utility(*tables, settings=settings, weights=(None, None, None)))
    assert weighted.pop("weights") != unweighted.pop("weights")
    # Which of equal tables is named as the worst may hang on rounding.
    for side in (weighted, unweighted):
        del side["variables"]["worst"], side["marginals"]

    def same(one: Any, other: Any) -> None:
        assert type(one) is type(other)
        if isinstance(one, dict):
            assert list(one) == list(other)
            one, other = list(one.values()), list(other.values())
        if isinstance(one, list | tuple):
            for pair in zip(one, other, strict=True):
                same(*pair)
        elif isinstance(one, float):
            assert one == pytest.approx(other, rel=1e-6, abs=1e-9)

    same(weighted, unweighted)


def test_zero_weights_count_every_record_the_same_and_are_refused_when_given() -> None:
    tables = microdata("zero weights")
    found = measure_utility(*tables)
    assert not found.weights.used
    with pytest.raises(AnonymizationError, match="some of them positive"):
        measure_utility(*tables, weights=(np.zeros(60), None, None))


def test_records_of_weight_zero_do_not_count() -> None:
    ours, theirs = np.random.default_rng(0).normal(size=(2, 40, 4))
    weight = np.r_[np.ones(25), np.zeros(15)]
    with_zeros = utility_figures(ours, theirs, other_weights=weight)
    without = utility_figures(ours, theirs[:25])
    for one, other in zip(with_zeros.figures, without.figures, strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 12),
    other=st.integers(1, 12),
    columns=st.integers(1, 6),
    levels=st.integers(1, 3),
    weighted=st.booleans(),
)
def test_small_lattices(seed: int, rows: int, other: int, columns: int, levels: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(0, levels, size=(size, columns)).astype(float) for size in (rows, other))
    arrays = [rng.integers(0, 2, size).astype(float) if weighted else None for size in (rows, other)]
    for array in arrays:
        if array is not None:
            array[rng.integers(len(array))] = 1.0
    kept = [one if one is None else one.copy() for one in (x, y, *arrays)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compared = compare_utility(x, y, x, weights=(arrays[0], arrays[1], arrays[0]))
        figures = utility_figures(x, y, weights=arrays[0], other_weights=arrays[1])
        told = propensity_utility(x, y, weights=arrays[0], other_weights=arrays[1], interactions=3)
        itself = propensity_utility(x, x, weights=arrays[0], other_weights=arrays[0])
    for one, again in zip(figures.figures, compared.released.figures, strict=True):
        assert np.isfinite(one.values).all()
        assert (one.values >= 0).all()
        np.testing.assert_array_equal(one.values, again.values)
    assert [part.reference_largest for part in compared.figures] == [0.0] * 4
    assert all(np.isfinite(v) for v in vars(told).values() if isinstance(v, float))
    assert 0 <= told.share_of_maximum <= 1
    assert itself.pmse == 0
    for one, copy in zip((x, y, *arrays), kept, strict=True):
        np.testing.assert_equal(one, copy)
