"""Names that others call stand where the documentation says, with the parameters it says."""

import inspect

import pytest

from anoncore import methods
from anoncore.kernels import projection, wavelet
from anoncore.kernels.boxes import partition as boxes
from anoncore.kernels.fuzzy import c_means as fuzzy

NAMES = [
    (projection.project, ["points", "A", "b", "scale", "lower", "upper"]),
    (fuzzy.fuzzy_c_means, ["x", "centers", "m"]),
    (fuzzy.memberships, ["x", "centers", "m"]),
    (boxes.half_widths, ["a", "density", "k", "l", "epsilon"]),
    (boxes.optimal_weights, ["c", "n", "A"]),
    (boxes.partition, ["x", "a", "k"]),
    (wavelet.reconstruction_matrix, ["length", "wavelet", "level"]),
    (wavelet.decompose, ["signal", "wavelet", "level"]),
    (wavelet.redistribute, ["signal", "goals"]),
    (wavelet.invert, ["published", "wavelet", "level"]),
]


@pytest.mark.parametrize(("function", "parameters"), NAMES, ids=lambda x: getattr(x, "__name__", ""))
def test_functions_take_what_they_are_said_to_take(function, parameters):
    assert list(inspect.signature(function).parameters)[: len(parameters)] == parameters


def test_methods_are_there():
    for name in ("FuzzyMicroaggregation", "MDAV", "OptimalBoxes", "GroupAnonymity"):
        assert name in vars(methods)
