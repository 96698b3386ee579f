"""Principal scores that recur: full success with the loadings, none without."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anoncore
from anoncore.errors import AnonymizationError
from anoncore.kernels.principal_axes import basis
from anoncore.kernels.spectral_swap import swap
from anoncore.methods import SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import measure_risk, score_coincidence_attack
from anoncore.risk._axis_search import searched_axes
from anoncore.risk.scores import Certainty


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def tables(columns: int, seed: int, n: int = 800) -> np.ndarray:
    mix = rng(columns).normal(size=(columns, columns)) / np.sqrt(columns) + np.eye(columns) / 2
    return rng(seed).normal(size=(2, n, columns)) @ mix


@pytest.mark.parametrize("columns", [5, 12])
def test_spectral_swapping_keeps_scores_without_jitter(columns):
    original, reference = tables(columns, 1)
    released = swap(original, rng=rng(2))
    loadings = basis(original).loadings
    known = score_coincidence_attack(original, reference, released)
    assert known.attack.auc > 0.999
    assert (known.n_axes, known.axes, known.loadings_known) == (columns, "original", True)
    assert known.attack.verdict == "fail"
    one = score_coincidence_attack(original, reference, released, loadings=loadings[:, :1])
    assert (one.n_axes, one.axes, one.attack.auc) == (1, "given", 1.0)
    blind = score_coincidence_attack(original, reference, released, loadings=basis(released).loadings)
    assert blind.attack.auc == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("columns", [2, 3, 5, 12])
def test_jitter_hides_who_took_part_even_from_those_who_know_the_axes(columns):
    original, reference = tables(columns, 1)
    for seed in range(3):
        found = score_coincidence_attack(original, reference, swap(original, rng=rng(seed), jitter="auto"))
        assert found.attack.auc < 0.56


def test_the_search_finds_the_axes_of_two_columns_of_unknown_scale():
    original, reference = tables(2, 4)
    released = swap(original, rng=rng(2))
    scale = np.array([1.0, 1.01])  # the attacker knows spreads up to sampling
    stretched = [rows * scale for rows in (original, reference, released)]
    wrong = basis(stretched[0]).loadings
    assert score_coincidence_attack(*stretched, loadings=wrong).attack.auc < 0.75
    found = score_coincidence_attack(*stretched)
    assert (found.axes, found.n_axes) == ("searched", 2)
    assert found.attack.auc > 0.95


def test_rounded_loadings_leak_less_than_exact_ones():
    original, reference = tables(12, 3)
    released = swap(original, rng=rng(4))
    loadings = basis(original).loadings
    aucs = [
        score_coincidence_attack(original, reference, released, loadings=np.round(loadings, d)).attack.auc
        for d in (2, 3, 4, 12)
    ]
    assert aucs == sorted(aucs)
    assert aucs[1] > 0.7
    assert aucs[-1] > 0.999


def test_anchors():
    original, reference = tables(6, 5)
    other = tables(6, 6)[0]
    assert score_coincidence_attack(original, reference, original).attack.auc == 1
    turned = score_coincidence_attack(original, reference, reference, loadings=np.eye(6))
    assert turned.attack.auc < 0.45
    independent = score_coincidence_attack(original, reference, other)
    assert independent.attack.auc == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(("columns", "tried"), [(12, True), (40, False)])
def test_axes_that_are_fitted_to_members_are_not_tried(columns, tried):
    """With 40 columns of 800 people the axes themselves tell members, whatever is released."""
    original, reference = tables(columns, 9)
    released = swap(original, rng=rng(2))
    given = score_coincidence_attack(original, reference, released, loadings=basis(original).loadings)
    assert given.attack.auc > 0.999
    assert (score_coincidence_attack(original, reference, released).axes == "original") is tried


def test_independent_samples_fail_seldom():
    failed = 0
    for seed in range(25):
        draw = rng([7, seed])
        original, reference, other = draw.standard_t(3, size=(3, 150, 4))
        failed += score_coincidence_attack(original, reference, other).attack.verdict == "fail"
    assert failed <= 1


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.tuples(*[st.integers(1, 30)] * 3),
    columns=st.integers(1, 5),
    levels=st.sampled_from([1, 2, 5]),
)
def test_any_table_gives_an_area(seed, sizes, columns, levels):
    draw = rng(seed)
    tables_ = [draw.integers(0, levels, size=(n, columns)).astype(float) for n in sizes]
    found = score_coincidence_attack(*tables_)
    assert 0 <= found.attack.lower <= found.attack.auc <= found.attack.upper <= 1
    assert 0 <= found.n_axes <= columns
    again = score_coincidence_attack(tables_[0], tables_[1], tables_[2] + 0.0)
    assert again == found
    if levels == 1:
        assert (found.attack.auc, found.n_axes) == (0.5, 0)


def test_explained_and_errors():
    rows = np.eye(4)
    assert score_coincidence_attack(rows, rows, rows).meaning.endswith(".")
    with pytest.raises(AnonymizationError, match="loadings must have 4 rows"):
        score_coincidence_attack(rows, rows, rows, loadings=np.eye(3))
    with pytest.raises(AnonymizationError, match="released must have 4 columns"):
        score_coincidence_attack(rows, rows, np.eye(3))
    with pytest.raises(AnonymizationError, match="confidence must be between 0 and 1"):
        score_coincidence_attack(rows, rows, rows, certainty=Certainty(2.0))


@pytest.mark.parametrize("columns", [2, 3])
def test_axes_are_found_without_any_secret_where_scores_were_moved(columns):
    original, reference = tables(columns, 1, 1000)
    released = swap(original, rng=rng(2), jitter=2)
    true = score_coincidence_attack(original, reference, released, loadings=basis(original).loadings).attack.auc
    by_counts, _ = searched_axes(original, reference, released, [basis(released).loadings])
    found = score_coincidence_attack(original, reference, released, loadings=by_counts).attack.auc
    assert true > 0.6
    assert found > true - 0.03


@pytest.mark.parametrize("jitter", [2, 4, 8])
@pytest.mark.parametrize("numeric", ["linear", "log"])
def test_scores_are_compared_on_the_scale_on_which_they_were_swapped(numeric, jitter):
    """The true axes of numbers as they are cannot be seen among logarithms, nor the reverse."""
    members, others = (people(seed) for seed in (1, 2))
    released = anoncore.anonymize(members, SpectralSwap(jitter=jitter, numeric=numeric), rng=rng(3)).data
    report = measure_risk(members, released, others, rng=rng(4))
    assert report.score_coincidence is not None
    assert report.score_coincidence.attack.auc > {2: 0.61, 4: 0.59, 8: 0.55}[jitter]


def people(seed: int) -> Microdata:
    mixing = np.linalg.cholesky(np.array([[1, 0.5, 0.3], [0.5, 1, 0.4], [0.3, 0.4, 1]]))
    numbers = np.array([170, 75, 130]) + rng(seed).normal(size=(1000, 3)) @ mixing.T * [10, 12, 15]
    names = ["height", "weight", "pressure"]
    schema = Schema([Variable(name, "continuous", precision=0.01) for name in names])
    return Microdata(pd.DataFrame(numbers.round(2), columns=names), schema)


def test_a_release_of_records_that_are_all_alike_is_searched_without_error():
    members, others = np.random.default_rng(5).normal(size=(2, 60, 2))
    alike = np.tile(members.mean(axis=0) + 0.1, (60, 1))
    assert [axes.shape[1] for axes in searched_axes(members, others, alike, [np.eye(2)])] == [0, 0]
