"""Lasko and Vinterbo 2010, Spectral Anonymization of Data, IEEE TKDE 22(3), 437-446.

Their data, 2 × 2000 records of NHANES with 28 attributes, are not available; NHEFS (2 × 814 records of
mixed health data) and the RAND health insurance experiment (2 × 2000) stand in here, a later round of NHANES in
`reproduction`.
Figures differ, orderings hold.
"""

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.encoding import logistic_probabilities
from anoncore.methods import SpectralRHS, SpectralSwap
from anoncore.risk import compare, prediction_measures
from anoncore.utility import utility_figures


def test_worked_encoding_example():
    """Section III: anonymized (-2.5, -1.5, 0.41) of a variable with three categories."""
    scores = np.array([[-2.5, -1.5, 0.41]])
    logistic = 1 / (1 + np.exp(-scores[0]))
    assert logistic == pytest.approx([0.0759, 0.1824, 0.6011], abs=5e-5)
    chances = logistic_probabilities(scores)[0]
    assert chances == pytest.approx([0.0883, 0.2123, 0.6995], abs=5e-5)
    assert chances.argmax() == 2


@pytest.fixture(scope="module")
def randhie_halves():
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    kinds = dict.fromkeys(frame.columns, "continuous") | dict.fromkeys(
        ["physlm", "idp", "hlthg", "hlthf", "hlthp"], "binary"
    )
    frame["physlm"] = (frame["physlm"] > 0.5).astype(int)
    frame = frame.drop_duplicates()
    data = Microdata(frame, Schema(Variable(name, kinds[name]) for name in frame))
    order = np.random.default_rng(11).permutation(len(data))
    return data.take(order[:2000]), data.take(order[2000:4000])


@pytest.fixture(scope="module", params=["nhefs_halves", "randhie_halves"])
def experiment(request):
    """Matrices of the original, the reference and both releases, in the paper's continuous form."""
    original, reference = request.getfixturevalue(request.param)
    encoder = Encoder.fit(original)
    rng = np.random.default_rng(3)
    return {
        "original": encoder.encode(original),
        "reference": encoder.encode(reference),
        "swap": anoncore.anonymize(original, SpectralSwap(jitter=None), rng=rng).scores,
        "rhs": anoncore.anonymize(original, SpectralRHS(k=5), rng=rng).scores,
    }


def test_figure_2_swapping_is_safer_than_the_reference_on_all_three(experiment):
    x, r = experiment["original"], experiment["reference"]
    found = compare(prediction_measures(x, experiment["swap"]), prediction_measures(x, r))
    assert found.verdict == "pass"
    for measure in found.measures:
        assert measure.released_median > measure.reference_median


def test_figure_2_rhs_has_ambiguity_one_and_uncertainty_zero_by_design(experiment):
    measures = prediction_measures(experiment["original"], experiment["rhs"], 5)
    assert (measures.ambiguity == 1).all()
    assert measures.uncertainty == pytest.approx(0, abs=1e-20)


def test_figure_2_swapping_is_safer_than_rhs_on_distance(experiment):
    x = experiment["original"]
    swap, rhs = (np.median(prediction_measures(x, experiment[m]).distance) for m in ("swap", "rhs"))
    assert swap > rhs


def test_table_1_orderings(experiment):
    x = experiment["original"]
    swap, rhs, other = (utility_figures(x, experiment[m]) for m in ("swap", "rhs", "reference"))
    assert swap.mean.largest < 1e-12
    assert rhs.mean.largest < 1e-12
    assert swap.mean.median < other.mean.median
    # Grouping loses variance and blurs correlations, swapping does neither.
    assert rhs.variance.median > 5 * swap.variance.median
    assert rhs.correlation.largest > swap.correlation.largest
    if x.shape[1] > 20:
        # In ten dimensions groups of five are so tight that half of the correlations hardly move.
        assert rhs.correlation.median > swap.correlation.median
        assert rhs.rank_correlation.median > swap.rank_correlation.median
    assert swap.correlation.median < 2 * other.correlation.median


def test_multivariate_normal_data_lose_nothing():
    """Section V: no riskier than other people's records, and every statistic as valid as on the original."""
    rng = np.random.default_rng(5)
    root = rng.normal(size=(6, 6))
    a, other, population = (rng.normal(size=(n, 6)) @ root for n in (2000, 2000, 50_000))
    names = list("abcdef")
    data = Microdata(pd.DataFrame(a, columns=names), Schema(Variable(name, "continuous") for name in names))
    swapped = anoncore.anonymize(data, SpectralSwap(jitter=None), rng=rng).data.frame.to_numpy()
    assert compare(prediction_measures(a, swapped), prediction_measures(a, other)).verdict == "pass"
    # 100 statistics that are no function of means and covariances: shares of people beyond two planes at once.
    planes = rng.normal(size=(2, 6, 100))
    planes /= np.linalg.norm(root @ planes, axis=1, keepdims=True)
    beyond = [(x @ planes > 0.5).all(axis=0).mean(axis=0) for x in (a, swapped, population)]
    of_original, of_swapped = (np.sqrt(np.square(share - beyond[2]).mean()) for share in beyond[:2])
    assert of_swapped <= 1.15 * of_original
