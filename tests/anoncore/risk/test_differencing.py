"""Differencing: exact figures reveal those who joined, drawn ones do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import hstack

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import Differencing, differencing
from anoncore.risk._tracing import trace_scores, trait_differences

N, LEVELS, NUMBERS = 300, 30, 20


def people() -> Microdata:
    rng = np.random.default_rng(4)
    levels = {f"level{j}": rng.choice(["a", "b", "c"], 2 * N, p=[0.6, 0.3, 0.1]) for j in range(LEVELS)}
    numbers = {f"number{j}": rng.normal(50, 10, 2 * N).round(2) for j in range(NUMBERS)}
    kinds = dict.fromkeys(levels, "nominal") | dict.fromkeys(numbers, "continuous")
    frame = pd.DataFrame(levels | numbers)
    frame.loc[rng.random(2 * N) < 0.1, "level0"] = None
    return Microdata(frame, Schema(Variable(name, kind) for name, kind in kinds.items()))


def shuffled(data: Microdata, rng: np.random.Generator) -> Microdata:
    """Return a release with the source's distributions: every column in an order of its own."""
    columns = {name: data.frame[name].to_numpy(dtype=object)[rng.permutation(len(data))] for name in data.frame}
    return Microdata(pd.DataFrame(columns).astype(data.frame.dtypes.to_dict()), data.schema)


def attack(joining: int, leaving: int, *, drawn: bool = False) -> Differencing:
    rng, data = np.random.default_rng(7), people()
    before, after = np.arange(leaving + N), np.arange(leaving, leaving + N + joining)
    behind = [np.sort(rng.choice(rows, N - 40, replace=False)) if drawn else rows for rows in (before, after)]
    tables = [shuffled(data.take(rows), rng) for rows in behind]
    found = differencing(*tables, data.take(np.arange(leaving + N, after[-1] + 1)), data.take(np.arange(350, 2 * N)))
    assert found is not None
    return found


def test_who_joins_alone_is_read_off_exact_figures() -> None:
    found = attack(1, 0)
    assert {way.way: way.joined for way in found.ways} == {
        "counts of levels": 1.0,
        "sums of numbers": 1.0,
        "values that are new": pytest.approx(0.4, abs=0.05),
        "traces of records": 1.0,
    }
    assert found.worst.way == "sums of numbers"
    assert found.worst.lower > 0.8


def test_where_another_left_levels_are_still_read_off() -> None:
    found = attack(1, 1)
    counts = next(way for way in found.ways if way.way == "counts of levels")
    assert counts.joined > 0.9
    assert counts.lower > 0.05


def test_among_many_who_joined_and_in_drawn_figures_no_one_is_read_off() -> None:
    counts, sums, new, _ = attack(40, 40).ways
    assert max(counts.upper, sums.upper) < 0.15
    assert new.lower > 0.2, "numbers of their own stand in the release for everyone who joined"
    drawn = {way.way: way for way in attack(1, 0, drawn=True).ways}
    assert drawn["counts of levels"].excess < 0.3
    assert drawn["sums of numbers"].joined < 0.3


def test_many_who_joined_are_traced_by_all_variables_together() -> None:
    """Of m traits kept exactly the area is Φ(√(m / 2s²)); each variable alone reveals little."""
    exact, drawn = (next(way for way in attack(60, 0, drawn=d).ways if way.traced) for d in (False, True))
    # About 220 traits; 60 who joined, and 46 left out of 300 in either release.
    assert exact.joined == pytest.approx(0.91, abs=0.07)
    assert exact.lower > 0.3
    assert drawn.joined == pytest.approx(0.75, abs=0.1)
    assert drawn.variables == LEVELS + NUMBERS


def test_who_changed_is_traced_where_no_one_joined() -> None:
    data, rng = people(), np.random.default_rng(3)
    before, after, control = np.arange(N), np.r_[np.arange(N - 20), np.arange(N, N + 20)], np.arange(350, 2 * N)
    tables = [shuffled(data.take(rows), rng) for rows in (before, after)]
    found = differencing(*tables, data.take(np.arange(N, N + 20)), data.take(control), arrived=0)
    assert found is not None
    assert next(way for way in found.ways if way.traced).lower > 0.05


def test_numbers_that_are_kept_exactly_rise_where_someone_joins() -> None:
    """Ages in whole years are in both releases, and only their counts differ."""
    data = people()
    rounded = Microdata(
        data.frame.assign(**{f"number{j}": data.frame[f"number{j}"].round() for j in range(NUMBERS)}), data.schema
    )
    tables = [shuffled(rounded.take(np.arange(n)), np.random.default_rng(2)) for n in (N, N + 5)]
    found = differencing(*tables, rounded.take(np.arange(N, N + 5)), rounded.take(np.arange(350, 2 * N)))
    assert found is not None
    new = next(way for way in found.ways if way.way == "values that are new")
    assert new.lower > 0.05


def test_people_are_counted_not_records() -> None:
    data = people()
    before, later, new = data.take(np.arange(N)), data.take(np.arange(N + 4)), data.take(np.arange(N, N + 4))
    control = data.take(np.arange(350, 550))
    alone = differencing(before, later, new.with_units([1, 1, 1, 1]), control)
    four = differencing(before, later, new, control)
    assert alone is not None
    assert four is not None
    assert alone.worst.upper - alone.worst.lower > 1.5 * (four.worst.upper - four.worst.lower)


def test_without_anyone_new_or_a_control_there_is_no_attack() -> None:
    data = people()
    nobody, someone, few = data.take(np.arange(0)), data.take(np.arange(1)), data.take(np.arange(10))
    assert differencing(data, data, nobody, data) is None
    assert differencing(data, data, someone, few) is None


def test_traces_are_weighed_by_the_inverse_covariance() -> None:
    """Beside the dense solution, with levels that no one holds and a number."""
    rng = np.random.default_rng(3)
    levels = [rng.integers(0, 40, size).astype(float) for size in (90, 100, 12, 60)]
    numbers = [rng.normal(size=size) for size in (90, 100, 12, 60)]
    parts = [trait_differences(levels, False, 0.9), trait_differences(numbers, True, 0.9)]
    traits, moved = np.hstack([one.toarray() for one, _ in parts]), np.concatenate([one for _, one in parts])
    scores = trace_scores(hstack([one for one, _ in parts], format="csr"), moved, 12.0)
    kept = traits.std(axis=0) > 0
    people = (traits - traits.mean(axis=0))[:, kept] / traits.std(axis=0)[kept]
    ridged = people.T @ people / len(people) + 0.3 * np.eye(people.shape[1])
    difference = (moved - 12.0 * traits.mean(axis=0))[kept] / traits.std(axis=0)[kept]
    np.testing.assert_allclose(scores, people @ np.linalg.solve(ridged, difference), rtol=1e-5, atol=1e-4)
