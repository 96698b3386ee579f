"""Linkage: brute force, the groups' 1/size, the paper's orientation, and tables that have nothing to tell."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import binomtest

from anoncore.errors import AnonymizationError
from anoncore.kernels.principal_axes import basis, principal_scores
from anoncore.kernels.spectral_groups import halved_groups
from anoncore.risk import LinkageSettings, linkage, membership_attack, prediction_measures
from anoncore.risk._proportions import difference, proportion
from anoncore.risk.linkage import sampling_error
from anoncore.risk.match_model import match_scores


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def finite(figures: object) -> bool:
    if isinstance(figures, dict):
        return all(map(finite, figures.values()))
    if isinstance(figures, (list, tuple)):
        return all(map(finite, figures))
    return not isinstance(figures, float) or bool(np.isfinite(figures))


def mixed(n: int, seed: int) -> np.ndarray:
    """Correlated columns, most of them coded −1 and 1, as wide as the paper's table."""
    draw = rng(seed)
    loadings, cuts = rng(99).normal(size=(8, 28)), rng(98).uniform(0.5, 2, 20)
    rows = draw.normal(size=(n, 8)) @ loadings / np.sqrt(8) + 0.4 * draw.normal(size=(n, 28))
    rows[:, 8:] = np.where(rows[:, 8:] > cuts, 1.0, -1.0)
    rows[:, :8] = (rows[:, :8] - rows[:, :8].mean(axis=0)) / rows[:, :8].std(axis=0)
    return rows


def spectral_rhs(rows: np.ndarray, k: int) -> np.ndarray:
    labels = halved_groups(principal_scores(rows, basis(rows)), k)
    sums = np.zeros((labels.max() + 1, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return (sums / np.bincount(labels)[:, None])[labels]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 60),
    columns=st.integers(1, 4),
    levels=st.sampled_from([1, 2, 3, 50]),
    moved=st.floats(0, 1),
)
def test_rate_by_brute_force(seed, n, columns, levels, moved):
    draw = rng(seed)
    original = draw.integers(0, levels, size=(n, columns)).astype(float)
    other = draw.integers(0, levels, size=(n, columns)).astype(float)
    released = np.where(draw.random((n, 1)) < moved, other, original)
    gaps = cdist(original, released)
    near = gaps <= gaps.min(axis=1, keepdims=True) * (1 + 1e-12)
    expected = (near.diagonal() / near.sum(axis=1)).mean()
    found = linkage(original, released, reference=other, rng=rng(1))
    assert found.rate.value == pytest.approx(expected)
    assert 0 <= found.rate.lower <= found.rate.value <= found.rate.upper <= 1
    assert finite(asdict(found))
    shuffle = draw.permutation(n)
    own = np.empty(n, dtype=int)
    own[shuffle] = np.arange(n)
    assert linkage(original, released[shuffle], own=own, rng=rng(1)).rate.value == pytest.approx(expected)
    twins = (released[:, None] == released[None]).all(axis=2).sum(axis=1)
    assert found.group_rate == pytest.approx((1 / twins).mean())


def test_ties_among_more_rows_than_are_searched_first():
    corners = np.eye(60)
    found = linkage(np.zeros((60, 60)), corners, rng=rng())
    assert found.rate.value == pytest.approx(1 / 60)
    assert found.ambiguity.auc == 0.5


def test_groups_of_identical_rows_are_right_with_probability_one_over_size():
    centres = np.repeat(np.arange(20.0), 7)[:, None] * 100
    original = centres + rng().normal(size=(140, 1))
    found = linkage(original, centres, reference=original + 50, settings=LinkageSettings(k=5), rng=rng(3))
    assert found.rate.value == pytest.approx(1 / 7)
    assert found.group_rate == pytest.approx(1 / 7)
    assert found.guess == 1 / 140
    assert found.among_nonmembers.value == pytest.approx(1 / 7)
    assert found.rate.value * found.n_original == pytest.approx(20)
    assert (found.ambiguity.auc, found.uncertainty.auc) == (0.5, 0.5)
    assert found.distance.lower < 0.5 < found.distance.upper


def test_anchors():
    original, reference, other = rng(4).normal(size=(3, 500, 6))
    copy = linkage(original, original, reference=reference, rng=rng())
    assert (copy.rate.value, copy.group_rate, copy.among_nonmembers.value) == (1, 1, 1)
    assert (copy.distance.auc, copy.distance.lower, copy.distance.upper) == (0.5, 0, 1)
    assert (copy.distance.n_right, copy.distance.n_wrong) == (500, 0)
    independent = linkage(original, other, reference=reference, rng=rng())
    assert independent.rate.lower <= independent.guess <= independent.rate.upper
    assert independent.among_nonmembers.value < 0.02
    # What swapping leaves is as unrelated as that.
    assert independent.rate.value < 0.02


def test_orientation_of_figure_3():
    # Published, of 2000 × 28: noise 0.99 with 0.85, 0.98, 0.83; RHS 0.078 with 0.53, 0.50, 0.50.
    original = mixed(2000, 1)
    centred = original - original.mean(axis=0)
    noise = rng(5).multivariate_normal(np.zeros(28), 0.1 * np.cov(original.T), size=2000)
    noisy = linkage(original, original.mean(axis=0) + (centred + noise) / np.sqrt(1.1), rng=rng(6))
    assert noisy.rate.value > 0.97
    assert noisy.ambiguity.auc > 0.9
    assert noisy.distance.auc > 0.65
    # Right matches are rarer where people stand close: the direction of this one is not the paper's.
    assert abs(noisy.uncertainty.auc - 0.5) > 0.3
    grouped = linkage(original, spectral_rhs(original, 5), rng=rng(7))
    assert grouped.rate.value == pytest.approx(0.078, abs=0.02)
    assert 1 / 9 < grouped.group_rate < 1 / 5
    assert (grouped.ambiguity.auc, grouped.uncertainty.auc) == (0.5, 0.5)
    assert grouped.distance.auc == pytest.approx(0.53, abs=0.07)


def test_auc_is_that_of_the_matches():
    original = rng(8).normal(size=(400, 5))
    released = original + 0.5 * rng(9).normal(size=original.shape)
    right = cdist(original, released).argmin(axis=1) == np.arange(400)
    measures = prediction_measures(original, released, 5)
    found = linkage(original, released, settings=LinkageSettings(measures=measures, confidence=0.9), rng=rng())
    for signal in found.signals[:3]:
        value = getattr(measures, signal.name)
        expected = membership_attack(-value[right], -value[~right], confidence=0.9)
        assert (signal.auc, signal.lower, signal.upper) == (expected.auc, expected.lower, expected.upper)
        assert (signal.n_right, signal.n_wrong) == (right.sum(), (~right).sum())


def test_a_model_of_the_three_measures_tells_matches_at_least_as_well_as_the_best_of_them():
    original = rng(8).normal(size=(600, 5))
    released = original + 0.5 * rng(9).normal(size=original.shape)
    found = linkage(original, released, rng=rng())
    assert found.combined.auc > max(signal.auc for signal in found.signals[:3])
    assert (found.combined.n_right, found.combined.n_wrong) == (found.distance.n_right, found.distance.n_wrong)


def test_a_model_of_measures_that_say_nothing_is_no_better_than_guessing():
    measures, right = rng(1).random((3, 1000)), rng(2).random(1000) < 0.3
    scores = match_scores(measures, right)
    assert membership_attack(scores[right], scores[~right]).lower < 0.5
    assert match_scores(measures[:, :20], np.arange(20) < 9) is None


def test_among_nonmembers_by_brute_force():
    original, reference = rng(10).normal(size=(2, 300, 3))
    released = original + 0.7 * rng(11).normal(size=original.shape)
    released[1] = released[0]
    mine = np.linalg.norm(original - released, axis=1)
    chance = (mine < cdist(original, reference).min(axis=1)) / np.where(np.arange(300) < 2, 2, 1)
    found = linkage(original, released, reference=reference, rng=rng()).among_nonmembers
    assert found.value == pytest.approx(chance.mean())


def test_suppressed_rows_cannot_be_linked():
    original = rng(12).normal(size=(100, 3))
    own = np.where(np.arange(100) < 60, np.arange(100), -1)
    found = linkage(original, original[:60], own=own, rng=rng())
    assert (found.rate.value, found.n_suppressed, found.n_released, found.group_rate) == (0.6, 40, 60, 0.6)
    nobody = linkage(original, original, own=np.full(100, -1), reference=original, rng=rng())
    assert (nobody.rate.value, nobody.group_rate, nobody.among_nonmembers.value) == (0, 0, 0)


def test_sampled_people_bound_the_error():
    original = rng(13).normal(size=(3000, 3))
    released = original + 0.3 * rng(14).normal(size=original.shape)
    whole = linkage(original, released, rng=rng())
    part = linkage(original, released, settings=LinkageSettings(epsilon=0.06), rng=rng(1))
    assert (whole.sampling_error, whole.rate.n) == (0, 3000)
    assert part.rate.n == 736
    assert 0.059 < part.sampling_error <= 0.06
    assert abs(part.rate.value - whole.rate.value) <= part.sampling_error
    assert part == linkage(original, released, settings=LinkageSettings(epsilon=0.06), rng=rng(1))
    asked = linkage(original, released, settings=LinkageSettings(queries=np.arange(50)), rng=rng())
    assert (asked.rate.n, asked.n_original) == (50, 3000)
    assert sampling_error(1, 10**6) > 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_and_constant_tables(n):
    constant = linkage(np.zeros((n, 2)), np.zeros((n, 2)), reference=np.zeros((n, 2)), rng=rng())
    assert constant.rate.value == pytest.approx(1 / n)
    assert constant.k == min(5, n)
    assert finite(asdict(constant))
    apart = linkage(np.eye(3)[:n], np.eye(3)[:n], rng=rng())
    assert apart.rate.value == 1
    assert apart.rate.lower < 0.5


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 500), share=st.floats(0, 1), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson(n, share, confidence):
    count = round(share * n)
    expected = binomtest(count, n).proportion_ci(confidence, method="wilson")
    found = proportion(count, n, confidence)
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_newcombe_published_examples():
    # Newcombe 1998, Table II, method 10.
    for counts, bounds in {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (9, 10, 3, 10): (0.1705, 0.8090),
        (10, 10, 0, 10): (0.6075, 1.0),
        (5, 56, 0, 29): (-0.0381, 0.1926),
    }.items():
        found = difference(proportion(*counts[:2]), proportion(*counts[2:]))
        assert (found.lower, found.upper) == pytest.approx(bounds, abs=6e-5)
    assert difference(proportion(0, 0), proportion(1, 2)).lower == -1


def test_explained():
    found = linkage(np.eye(3), np.eye(3), rng=rng())
    assert found.meaning.endswith(".")
    assert found.distance.meaning.endswith(".")
    assert [signal.name for signal in found.signals] == ["distance", "ambiguity", "uncertainty"]


def test_errors():
    rows = np.eye(4)
    for message, given_ in {
        "k must be at least 2, got 1": {"settings": LinkageSettings(k=1)},
        "confidence must be between 0 and 1": {"settings": LinkageSettings(confidence=1.0)},
        "epsilon must be between 0 and 1": {"settings": LinkageSettings(epsilon=0.0)},
        "own must hold 4 row numbers": {"own": [0, 1]},
        "own must hold distinct row numbers from 0 to 3": {"own": [0, 0, 1, 2]},
        "reference must have 4 columns": {"reference": np.eye(3)},
        "queries must be distinct row numbers": {"settings": LinkageSettings(queries=[9])},
        "measures must be of the 4 people": {
            "settings": LinkageSettings(measures=prediction_measures(rows[:3], rows, 2))
        },
    }.items():
        with pytest.raises(AnonymizationError, match=message):
            linkage(rows, rows, **given_, rng=rng())
    with pytest.raises(AnonymizationError, match="released must have 4 rows in the order of original, got 3"):
        linkage(rows, rows[:3], rng=rng())
