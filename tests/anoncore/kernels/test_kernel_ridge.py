"""Axes along which classes differ: what they are, that nobody is drawn to the own class, and when there are none."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from anoncore.kernels.ridge import class_axes, may_have_axes


def test_axes_are_those_of_discriminant_analysis():
    draw = np.random.default_rng(1)
    classes = draw.integers(4, size=4000)
    x = (draw.normal(size=(4000, 6)) + draw.normal(size=(4, 6))[classes]).astype(np.float32)
    places, placed = class_axes(x, x[:50], classes, None, np.arange(4000))
    theirs = LinearDiscriminantAnalysis().fit_transform(x, classes)
    for axis in range(3):
        assert abs(np.corrcoef(places[:, axis], theirs[:, axis])[0, 1]) > 0.98
    assert placed.shape == (50, 3)


def test_no_record_draws_its_own_place_to_its_class():
    draw = np.random.default_rng(4)
    noise, levels = draw.normal(size=(600, 120)).astype(np.float32), draw.integers(2, size=600)
    places, in_sample = class_axes(noise, noise, levels, None, np.arange(600))
    assert abs(np.corrcoef(in_sample[:, 0], levels)[0, 1]) > 0.3
    assert abs(np.corrcoef(places[:, 0], levels)[0, 1]) < 0.1


def test_a_unit_of_two_records_counts_as_one_record():
    draw = np.random.default_rng(5)
    x, classes = draw.normal(size=(500, 5)).astype(np.float32), draw.integers(3, size=500)
    once = class_axes(x, x, classes, None, np.arange(500))[1]
    twice = class_axes(np.repeat(x, 2, 0), x, np.repeat(classes, 2), np.full(1000, 0.5), np.arange(1000) // 2)[1]
    np.testing.assert_allclose(once, twice, atol=1e-5)


@pytest.mark.parametrize(("n_predictors", "n_classes", "expected"), [(5, 3, True), (6, 3, False), (5, 65, False)])
def test_small_tables_and_many_classes_have_no_axes(n_predictors, n_classes, expected):
    x, classes = np.zeros((1000, n_predictors), dtype=np.float32), np.arange(1000) % n_classes
    assert may_have_axes(x, classes, np.arange(1000)) is expected
