"""Right and wrong matches, distinguished by the three measures together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.risk._checks import Floats

_FOLDS = 5
FEWEST = 2 * _FOLDS  # right, or wrong, matches from which a model can learn
_LEAST = 1e-12


def match_scores(measures: Floats, right: NDArray[np.bool_]) -> Floats | None:
    """Score matches by a model of the three measures that has learned from other matches.

    Parameters
    ----------
    measures : (3, q) distance, ambiguity and uncertainty, each at least 0
    right : (q,) which matches are right

    Returns
    -------
    (q,) float, larger where a match looks right; None with fewer than 10 right or wrong matches

    Notes
    -----
    Claim: no match is scored by a model that learned from it; the folds are every fifth of the right and of the wrong
    matches, so that the scores are deterministic. Learning from matches known to be right supposes an attacker who
    knows the truth for some of the people, or has masked a like table himself.

    A logistic regression on the measures, on their logarithms and on all products of two of these, all standardised.
    It weighs either side alike, so that the share of right matches does not matter.

    Source: Lasko and Vinterbo 2010, section V, who suspect that a model of the three is better than each alone and did
    not investigate it; the form of the model is ours.

    Examples
    --------
    >>> right = np.arange(100) % 2 == 0
    >>> scores = match_scores(np.array([right * 0.0, 1 - right * 0.5, np.ones(100)]), right)
    >>> bool(scores[right].min() > scores[~right].max())
    True
    """
    if min(int(right.sum()), int((~right).sum())) < FEWEST:
        return None
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    features = np.concatenate([measures, np.log(measures + _LEAST)]).T
    model = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2, include_bias=False),
        StandardScaler(),
        LogisticRegression(C=0.1, class_weight="balanced", max_iter=200),
    )
    fold = np.empty(len(right), dtype=np.intp)
    for side in (right, ~right):
        fold[side] = np.arange(int(side.sum())) % _FOLDS
    scores = np.empty(len(right))
    for held in range(_FOLDS):
        test = fold == held
        scores[test] = model.fit(features[~test], right[~test]).decision_function(features[test])
    return scores
