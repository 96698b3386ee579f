"""Whole groups of a table that is read in pieces: the same figures as in the whole table, wherever it is cut."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from anoncore.risk import find_group_figures
from tasks.connectors.fingerprint import value_hashes
from tasks.intake import whole_groups
from tasks.intake.whole_groups import WholeGroups


def employees(seed: int) -> pd.DataFrame:
    """9000 employees of 600 firms in any order, with the greatest wage of each firm."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"firm": [f"F{f}" for f in np.repeat(np.arange(600), 15)]})
    frame["age"] = np.where(rng.random(9000) < 0.1, np.nan, rng.integers(18, 65, 9000))
    frame["sex"] = rng.choice(["f", "m"], 9000)
    frame["wage"] = np.exp(8 + rng.normal(0, 0.4, 9000)).round()
    frame["top"] = frame.groupby("firm")["wage"].transform("max")
    return frame.iloc[rng.permutation(9000)].reset_index(drop=True)


def found(frame: pd.DataFrame, cuts: list[int]) -> tuple:
    groups = WholeGroups()
    for number, part in enumerate(np.split(np.arange(len(frame)), cuts)):
        piece = frame.iloc[part]
        # Files of one folder may order their columns differently.
        piece = piece[piece.columns[::-1]] if number % 2 else piece
        groups.add(piece, value_hashes(piece))
    return groups.figures(list(frame))


@pytest.mark.parametrize("cuts", [[], [100], [4000, 4001, 8000]])
@pytest.mark.parametrize("settled", [100_000, 2000])
def test_figures_are_those_of_the_whole_table_wherever_it_is_cut(cuts: list[int], settled: int) -> None:
    frame = employees(1)
    expected = find_group_figures(frame, list(frame))
    assert [(one.variable, one.number, one.group, one.kind) for one in expected] == [
        ("top", "wage", "firm", "greatest")
    ]
    with patch.multiple(whole_groups, SETTLED=settled, RECORDS=1500):
        assert found(frame, cuts) == expected


def test_figures_whose_groups_no_column_names_are_found_by_their_own_values() -> None:
    frame = employees(2).drop(columns="firm")
    with patch.multiple(whole_groups, SETTLED=2000, RECORDS=1500):
        assert [one.variable for one in found(frame, [3000, 6000])] == ["top"]


def test_few_records_are_kept_and_all_of_those_values() -> None:
    frame = employees(3)
    groups = WholeGroups()
    with patch.multiple(whole_groups, SETTLED=2000, RECORDS=300, GROUPS=12):
        for part in np.split(np.arange(9000), 6):
            groups.add(frame.iloc[part], value_hashes(frame.iloc[part]))
        groups._settle()
    (kept,), (hashes,) = groups._frames, groups._hashes
    assert len(kept) < 300 * frame.shape[1]
    for name, of_column, bound in zip(frame, hashes.T, groups._bounds, strict=True):
        held = kept.loc[of_column < bound, name].value_counts()
        assert len(held) <= 12
        assert held.sum() <= 300
        assert (held == frame[name].value_counts()[held.index]).all()
    assert len(held) == 12


def test_independent_columns_have_none() -> None:
    rng = np.random.default_rng(4)
    with patch.multiple(whole_groups, SETTLED=2000, RECORDS=1500):
        for _ in range(10):
            frame = pd.DataFrame(rng.integers(0, 400, (6000, 8))).rename(columns=str)
            assert found(frame, [1500, 3000]) == ()


def test_a_giant_group_or_a_sparse_column_crowds_no_other_group_out() -> None:
    frame = employees(5)
    frame.loc[frame["firm"].isin([f"F{f}" for f in range(200)]), "firm"] = "F0"
    frame["top"] = frame.groupby("firm")["wage"].transform("max")
    frame["sparse"] = np.where(np.arange(9000) % 300 == 0, 1.0, np.nan)
    with patch.multiple(whole_groups, SETTLED=2000, RECORDS=1500, ONE=100):
        assert ("top", "firm") in {(one.variable, one.group) for one in found(frame, [3000, 6000])}
        groups = WholeGroups()
        for part in np.split(np.arange(9000), 3):
            groups.add(frame.iloc[part], value_hashes(frame.iloc[part]))
    assert sum(map(len, groups._frames)) < 9000
