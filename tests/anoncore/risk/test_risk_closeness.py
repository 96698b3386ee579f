"""Without other people, who is near to whom in the original is searched once."""

import numpy as np

from anoncore.kernels.neighbors import nearest
from anoncore.risk.closeness import closeness


def test_without_a_reference_the_own_distances_are_those_of_the_two_nearest_others():
    people = np.random.default_rng(0).normal(size=(120, 3))
    asked = np.arange(0, 120, 2)
    close = closeness(people, people, None, 5, queries=asked, rng=np.random.default_rng(1))
    far = nearest(people[asked], people, 2, skip_self=asked)[0] / np.sqrt(3)
    assert np.allclose(close.own, far[:, 0])
    assert np.allclose(close.chance, far[:, 0] ** 2 / far[:, 1])
