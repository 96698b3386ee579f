"""Membership by densities: where the release is denser than the population, members are near."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingClassifier

from anoncore.kernels.neighbors import nearest
from anoncore.risk._checks import Floats, matrix
from anoncore.risk._values import two_folds
from anoncore.risk.scores import ScoreAttack, score_attack

_LEAST = 20  # people on each side of a classifier
_TRAINED = 20_000  # rows that a classifier learns from


def density_ratio_attack(
    original: ArrayLike, reference: ArrayLike, released: ArrayLike, *, k: int = 1, confidence: float = 0.99
) -> ScoreAttack:
    """Score people by log r_k(reference) − log r_k(release), the nearer to the release the more a member.

    r_k is the distance to the k-th nearest record; a person of the reference is left out of it. The ratio of
    distances estimates the ratio of densities, and so allows for people who are near everybody.

    Parameters
    ----------
    original, reference, released : (N, n), (L, n) and (M, n), one encoding, in standard deviations
    k : at least 1
    confidence : 0 … 1

    Returns
    -------
    ScoreAttack

    Raises
    ------
    AnonymizationError
        When the tables do not fit together.

    Notes
    -----
    Source: van Breugel et al. 2023, "Membership inference attacks against synthetic data through overfitting
    detection" (DOMIAS), with nearest neighbours as densities.

    Examples
    --------
    >>> members, others = np.random.default_rng(0).normal(size=(2, 300, 3))
    >>> density_ratio_attack(members, others, members + 1e-3).area.auc > 0.99
    True
    """
    members = matrix("original", original)
    strangers = matrix("reference", reference, members.shape[1])
    points = matrix("released", released, members.shape[1])
    k = min(k, len(points), len(strangers) - 1)
    tiny = 1e-9 * np.sqrt(members.shape[1])
    among = (
        nearest(members, strangers, k)[0][:, -1],
        nearest(strangers, strangers, k, skip_self=True)[0][:, -1],
    )
    near = [nearest(people, points, k)[0][:, -1] for people in (members, strangers)]
    scores = [np.log(far + tiny) - np.log(close + tiny) for far, close in zip(among, near, strict=True)]
    return score_attack(*scores, confidence=confidence)


def classifier_attack(
    original: ArrayLike,
    reference: ArrayLike,
    released: ArrayLike,
    *,
    confidence: float = 0.99,
    rng: np.random.Generator,
) -> ScoreAttack | None:
    """Score people by a classifier that has learned to tell released rows from strangers.

    Boosted trees learn from half of the strangers and half of the release at a time; members of one half and the
    strangers of the other are scored with them, in turn, so that no one is scored by what learned from them.

    Parameters
    ----------
    original, reference, released, confidence : see :func:`density_ratio_attack`
    rng : Generator

    Returns
    -------
    ScoreAttack, or None with fewer than 20 strangers, members or released rows in a half

    Notes
    -----
    Source: Hayes et al. 2019, "LOGAN", *PoPETs* 2019(1), 133–152, with a classifier in place of the
    discriminator; trees as in Francis and Wagner 2025.

    Examples
    --------
    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 100, 3))
    >>> abs(classifier_attack(a, b, c, rng=np.random.default_rng(1)).area.auc - 0.5) < 0.15
    True
    """
    members = matrix("original", original)
    strangers = matrix("reference", reference, members.shape[1])
    points = matrix("released", released, members.shape[1])
    if min(len(members), len(strangers), len(points)) < 2 * _LEAST:
        return None
    folds = [two_folds(len(side), rng) for side in (members, strangers, points)]
    scores = np.empty(len(members)), np.empty(len(strangers))
    for fold in (True, False):
        trees = _trained(points[folds[2] == fold], strangers[folds[1] == fold], rng)
        for side, people, rows in ((0, members, folds[0] == fold), (1, strangers, folds[1] != fold)):
            scores[side][rows] = trees.decision_function(people[rows])
    return score_attack(*scores, confidence=confidence)


def _trained(points: Floats, strangers: Floats, rng: np.random.Generator) -> HistGradientBoostingClassifier:
    sides = [side[rng.permutation(len(side))[: _TRAINED // 2]] for side in (points, strangers)]
    labels = np.repeat([1, 0], [len(side) for side in sides])
    trees = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=int(rng.integers(2**31))
    )
    return trees.fit(np.concatenate(sides), labels)
