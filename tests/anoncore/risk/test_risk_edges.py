"""Risk measures where data degenerate: always defined, never a warning, nothing modified, always the same."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import (
    ComparisonSettings,
    DisclosureSettings,
    LinkageSettings,
    PredictionMeasures,
    attribute_inference,
    averaging_attack,
    box_density_attack,
    box_measures,
    compare,
    compare_matched,
    disclosure_risk,
    extreme_records,
    identical_records,
    isolated_test,
    linkage,
    membership_attack,
    nearest_distance_attack,
    prediction_measures,
    score_coincidence_attack,
    tail_test,
)
from anoncore.risk.closeness import closeness
from tests.anoncore.edges import CASES as DEGENERATE
from tests.anoncore.edges import SETS, Frames, all_rows_one, changed, frame, sides

SCHEMA = Schema(
    [
        Variable("age", "continuous", "quasi-identifier"),
        Variable("income", "continuous", "sensitive"),
        Variable("sex", "binary", "quasi-identifier", levels=("f", "m")),
        Variable("school", "ordinal", "quasi-identifier", levels=(1, 2, 3)),
        Variable("region", "nominal", "sensitive", levels=("a", "b", "c")),
        Variable("w", "continuous", "weight"),
    ]
)


CASES: dict[str, Callable[[], Frames]] = DEGENERATE | {
    "sensitive column missing everywhere": lambda: changed(income=np.nan),
    "sensitive column missing in the release": lambda: changed("released", income=np.nan),
    "reference of identical rows": lambda: all_rows_one("reference"),
    "release and reference of identical rows": lambda: all_rows_one("released", "reference"),
    "two records released": lambda: sides((60, 2, 60)),
    "reference is the original": lambda: sides() | {"reference": frame(60, 0)},
}


def microdata(case: str) -> list[Microdata]:
    return [Microdata(CASES[case]()[name], SCHEMA) for name in SETS]


def numbers(found: Any) -> Iterator[float]:
    """Walk through a result, down to its numbers; whatever is not plain must be an array."""
    if isinstance(found, dict):
        for one in found.values():
            yield from numbers(one)
    elif isinstance(found, list | tuple):
        for one in found:
            yield from numbers(one)
    elif isinstance(found, np.ndarray):
        yield from found.ravel().tolist()
    elif isinstance(found, int | float | np.number):
        yield float(found)
    else:
        assert found is None or isinstance(found, str)


def measures(x: np.ndarray, y: np.ndarray | None, k: int) -> PredictionMeasures:
    return prediction_measures(x, y, k, leave_one_out=y is None)


def everything(original: Microdata, released: Microdata, reference: Microdata) -> dict[str, Any]:
    """Return every figure that matrices and tables allow, as plain values."""
    encoder = Encoder.fit(original)
    x, y, r = matrices = [encoder.encode(table) for table in (original, released, reference)]
    kept = [matrix.copy() for matrix in matrices]
    k = min(5, len(x) - 1, len(y), len(r))
    aligned = len(x) == len(y)
    own = np.arange(len(x)) if aligned else np.where(np.arange(len(x)) < len(y), np.arange(len(x)), -1)
    found: dict[str, Any] = {
        "membership": nearest_distance_attack(x, r, y),
        "averaging": averaging_attack(x, r, [y, r]),
        "scores": score_coincidence_attack(x, r, y),
        "linkage": linkage(x, y, reference=r, own=own, rng=np.random.default_rng(1)),
        "disclosure": disclosure_risk(
            released,
            original=original,
            reference=reference,
            settings=DisclosureSettings(weight="w"),
            rng=np.random.default_rng(2),
        ),
        "inference": attribute_inference(original, reference, released, rng=np.random.default_rng(3)),
    }
    gap = nearest(x, x, 1, skip_self=True)[0][:, 0] / np.sqrt(x.shape[1])
    near, other = (nearest(x, s, 1)[0][:, 0] / np.sqrt(x.shape[1]) for s in (y, r))
    found |= {
        "tail": tail_test(near, other, gap),
        "isolated": isolated_test(near, other, gap),
        "extreme": extreme_records(near, other, gap),
        "identical": identical_records(near, other, gap),
    }
    plain = {name: asdict(one) for name, one in found.items()}
    if k >= 2:
        close, nonmembers = measures(x, y, k), measures(x, r, k)
        for name, one in (("near", close), ("other", nonmembers), ("own", measures(x, None, k))):
            plain[name] = {part: getattr(one, part) for part in ("distance", "ambiguity", "uncertainty")}
        both = compare_matched(x, y, r, settings=ComparisonSettings(k=k), rng=np.random.default_rng(4))
        plain["comparison"] = asdict(both)
        if len(y) == len(r):
            assert asdict(compare(close, nonmembers)) == plain["comparison"]
    for matrix, copy in zip(matrices, kept, strict=True):
        np.testing.assert_array_equal(matrix, copy)
    return plain


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_defined_and_repeats_and_inputs_stay(case: str) -> None:
    tables = microdata(case)
    copies = [table.frame.copy(deep=True) for table in tables]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, again = everything(*tables), everything(*tables)
    for name, one in found.items():
        assert np.isfinite(list(numbers(one))).all(), name
    json.dumps(found, allow_nan=False, default=lambda array: array.tolist())
    np.testing.assert_equal(again, found)
    for table, copy in zip(tables, copies, strict=True):
        pd.testing.assert_frame_equal(table.frame, copy)


def test_where_nothing_varies_there_is_nothing_to_encode_but_groups_are_counted() -> None:
    tables = [Microdata(one, SCHEMA) for one in all_rows_one(*SETS).values()]
    encoder = Encoder.fit(tables[0])
    assert encoder.width == 0
    matrix = encoder.encode(tables[0])
    for attack in (nearest_distance_attack, score_coincidence_attack):
        with pytest.raises(AnonymizationError, match="records by columns"):
            attack(matrix, matrix, matrix)
    told = disclosure_risk(tables[1], original=tables[0], rng=np.random.default_rng(0)).released
    assert (told.groups.n_groups, told.groups.smallest) == (1, 60)
    assert [one.homogeneous.value for one in told.sensitive] == [1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guessed = attribute_inference(tables[0], tables[2], tables[1], rng=np.random.default_rng(0))
    assert all(np.isfinite(list(numbers(asdict(guessed)))))


def test_all_rows_identical_are_all_linked_by_guessing_only() -> None:
    rows = np.ones((40, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = linkage(rows, rows, reference=rows, rng=np.random.default_rng(0))
        attack = nearest_distance_attack(rows, rows, rows)
        scores = score_coincidence_attack(rows, rows, rows)
        near = prediction_measures(rows, rows)
    assert found.rate.value == pytest.approx(found.guess)
    assert (attack.auc, scores.attack.auc, scores.n_axes) == (0.5, 0.5, 0)
    assert near.distance.max() == near.uncertainty.max() == 0
    assert near.ambiguity.min() == 1


@pytest.mark.parametrize("weight", [0.0, np.nan, -1.0])
def test_weights_that_are_not_positive_are_refused(weight: float) -> None:
    tables = [Microdata(one, SCHEMA) for one in changed(w=weight).values()]
    with pytest.raises(AnonymizationError, match="above 0 everywhere, 60 record"):
        disclosure_risk(
            tables[1], original=tables[0], settings=DisclosureSettings(weight="w"), rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("case", ["ordinary", "ties everywhere", "release is the original", "two records"])
def test_figures_found_once_serve_again(case: str, k: int) -> None:
    encoder = Encoder.fit(microdata(case)[0])
    x, y, r = (encoder.encode(table) for table in microdata(case))
    k = min(k, len(x))
    near, other = measures(x, y, k), measures(x, r, k)
    alone = linkage(x, y, reference=r, settings=LinkageSettings(k=k), rng=np.random.default_rng(5))
    shared = linkage(
        x, y, reference=r, settings=LinkageSettings(k=k, measures=near, nonmembers=other), rng=np.random.default_rng(5)
    )
    assert shared == alone
    assert nearest_distance_attack(x, r, y, measures=near) == nearest_distance_attack(x, r, y)


def test_people_all_measured_are_all_linked() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(400, 12))
    y = x + 0.5 * rng.normal(size=x.shape)
    near = prediction_measures(x, y)
    found = linkage(x, y, settings=LinkageSettings(measures=near, epsilon=0.2), rng=rng)
    assert (found.rate.n, found.sampling_error) == (400, 0.0)
    sampled = linkage(x, y, settings=LinkageSettings(epsilon=0.2), rng=rng)
    assert sampled.rate.n < 400
    # Hoeffding's bound, at the 67 records that an error of 0.2 asks for.
    assert sampled.sampling_error == pytest.approx(np.sqrt(np.log(200) / (2 * sampled.rate.n)))
    assert abs(sampled.rate.value - found.rate.value) <= sampled.sampling_error


@pytest.mark.parametrize("name", ["measures", "nonmembers"])
def test_figures_of_other_tables_are_refused(name: str) -> None:
    x, y = np.random.default_rng(7).normal(size=(2, 30, 9))
    wrong = prediction_measures(x, y[:20])
    with pytest.raises(AnonymizationError, match=f"{name} must be of the 30 people asked about and 30 rows"):
        linkage(x, y, reference=y, settings=LinkageSettings(**{name: wrong}), rng=np.random.default_rng(0))
    with pytest.raises(AnonymizationError, match="measures must be of 30 people and 30 released rows"):
        nearest_distance_attack(x, y, y, measures=wrong)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(2, 12),
    released=st.integers(2, 12),
    columns=st.integers(1, 10),
    levels=st.integers(1, 3),
)
def test_small_lattices(seed: int, rows: int, released: int, columns: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, r = (rng.integers(0, levels, size=(size, columns)).astype(float) for size in (rows, released, released))
    own = np.where(np.arange(rows) < released, np.arange(rows), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near, other = measures(x, y, 2), measures(x, r, 2)
        alone = linkage(x, y, own=own, reference=r, settings=LinkageSettings(k=2), rng=np.random.default_rng(0))
        shared = linkage(
            x,
            y,
            own=own,
            reference=r,
            settings=LinkageSettings(k=2, measures=near, nonmembers=other),
            rng=np.random.default_rng(0),
        )
        found = [compare(near, other), nearest_distance_attack(x, r, y), score_coincidence_attack(x, r, y)]
    assert shared == alone
    assert all(np.isfinite(list(numbers([asdict(one) for one in [*found, alone]]))))
    # By hand: the chance of the own row among all that are nearest.
    gaps = np.sqrt(((x[:, None] - y) ** 2).sum(axis=2))
    first = gaps <= gaps.min(axis=1, keepdims=True)
    mine = [first[j, j] / first[j].sum() for j in range(min(rows, released))]
    assert alone.rate.value == pytest.approx(sum(mine) / rows)


@pytest.mark.parametrize("inside", [True, False])
def test_boxes_of_no_width_and_one_box(inside: bool) -> None:
    people = np.zeros((5, 2)) if inside else np.ones((5, 2))
    corner = np.zeros((1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = box_measures(people, corner, corner, np.array([3]))
        attack = box_density_attack(one, one)
    assert np.isfinite(list(numbers(asdict(one)))).all()
    assert attack.auc == 0.5
    assert (one.distance == 0).all() == inside


@pytest.mark.parametrize("size", [1, 2])
def test_attack_on_scores_that_all_tie(size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = membership_attack(np.zeros(size), np.zeros(size))
    assert (found.auc, found.verdict) == (0.5, "inconclusive")
    assert 0 <= found.lower <= found.upper <= 1


@pytest.mark.parametrize("others", [20, 200, 1000])
def test_copies_are_counted_in_the_whole_release_whatever_the_size_of_the_reference(others):
    rng = np.random.default_rng(5)
    original, released = rng.normal(size=(2, 2000, 3))
    released[:100] = original[:100]
    found = closeness(original, released, rng.normal(size=(others, 3)), 5, queries=np.arange(2000), rng=rng)
    same = found.identical(0.01)
    assert (same.n_released, same.n_reference, same.verdict) == (100, 0, "fail")
