"""Lasko and Vinterbo 2010, Spectral Anonymization of Data, IEEE TKDE 22(3), 437-446."""

import numpy as np
import pytest

from anoncore.encoding import logistic_probabilities


def test_worked_encoding_example():
    """Section III: anonymized (-2.5, -1.5, 0.41) of a variable with three categories."""
    scores = np.array([[-2.5, -1.5, 0.41]])
    logistic = 1 / (1 + np.exp(-scores[0]))
    assert logistic == pytest.approx([0.0759, 0.1824, 0.6011], abs=5e-5)
    chances = logistic_probabilities(scores)[0]
    assert chances == pytest.approx([0.0883, 0.2123, 0.6995], abs=5e-5)
    assert chances.argmax() == 2
