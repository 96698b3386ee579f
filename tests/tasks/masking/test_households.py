"""Households are released with the numbers of a step that builds them, and with no others."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.edits.model import EditSet
from anoncore.method import Method
from anoncore.methods import HouseholdTrees, RareLevels, SequentialTrees
from tasks.masking.anonymize import ShadowMask
from tests.anoncore.methods.test_household_trees import families


@pytest.mark.parametrize(("step", "released"), [(HouseholdTrees(leaf=20), True), (SequentialTrees(leaf=20), False)])
def test_only_new_numbers_are_released(step: Method, released: bool) -> None:
    source = families(120)
    masked = ShadowMask((RareLevels(k=2), step), EditSet())(source, np.random.default_rng(1)).data
    assert ("hid" in masked.frame) == released
    assert masked.units is None
    if released:
        numbers = masked.frame["hid"].unique()
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
