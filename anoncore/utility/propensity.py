"""The propensity score's mean squared error: how well a classifier separates release and original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from anoncore.errors import AnonymizationError
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.utility._sides import Floats, checked_weights, matrix
from anoncore.utility._stacked import Rows, Stacked, independent_directions, spread_pairs

RIDGE = 1e-6  # penalty per record, on columns of unit variance
STEPS = 100
ROUNDED = 1e-20  # a mean squared error below this is rounding

MODELS = {"logistic": "logistic regression", "tree": "classification tree"}
DEPTH, LEAF = 6, 50  # of a tree, at most, and records of its leaves, at least

MEANING = (
    "How well a {model} separates released records from original ones: the mean squared distance of its "
    "probabilities from the share of released records; 0 is not at all. The ratio sets it beside what a "
    "release drawn afresh from the original would give, whose ratio is 1 on average; another sample of the "
    "same population gives about {independent:.2g}. It grows with the number of records, unlike the share "
    "of the maximum, which is 1 when every record is classified correctly and with certainty."
)


@dataclass(frozen=True)
class Propensity:
    """The propensity score's mean squared error of one table against the original, and its null.

    Parameters
    ----------
    model : "logistic" or "tree"
    pmse : Σ w (p − c)² / Σ w over the records of both tables
    share_released : c, the other table's share of the records
    parameters : columns the classifier can use beside the constant (logistic), after those that are
        constant or combinations of others are dropped; leaves of the tree less one
    expected, deviation : mean and standard deviation of pmse for a release drawn from the original
        itself, record by record
    expected_independent, deviation_independent : for an independent sample of the same population
    ratio : pmse / expected; None where a null of 0 is exceeded
    standardised : (pmse − expected) / deviation
    share_of_maximum : pmse / c(1 − c), 0 … 1; the maximum is reached when every record is classified with certainty
    dropped : columns of the design, of so many, that say nothing beyond the others
    meaning : a sentence

    Notes
    -----
    Where no column varies pmse and expected are 0, ratio 1 and standardised 0.
    """

    model: Literal["logistic", "tree"]
    pmse: float
    share_released: float
    parameters: int
    expected: float
    deviation: float
    expected_independent: float
    deviation_independent: float
    ratio: float | None
    standardised: float
    share_of_maximum: float
    dropped: int
    meaning: str


def propensity_utility(
    original: ArrayLike,
    other: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    other_weights: ArrayLike | None = None,
    interactions: int = 0,
) -> Propensity:
    """Measure how well a logistic regression separates the other table's records from the original's.

    Parameters
    ----------
    original, other : (N, n), (M, n), encoded, in any units
    weights, other_weights : (N,), (M,) survey weights, each scaled to mean 1; equal when None
    interactions : products of two columns (squares among them) that join the columns themselves, at
        most; of more, this many are taken evenly, always the same ones

    Returns
    -------
    Propensity

    Raises
    ------
    AnonymizationError
        When the tables are not finite matrices with the same columns, or weights do not fit them.

    Notes
    -----
    Columns are reduced to their independent directions, scaled to unit variance, and their coefficients are
    penalised by 1e-6 per record, half their sum of squares: too little to affect the figure, enough
    for perfect separation to have an answer, c(1 − c) up to about 1e-4 of it.

    The null is asymptotic: with fewer than about ten records per parameter the classifier overfits, and a
    ratio says little.

    Source: Snoke, Raab, Nowok, Dibben and Slavkovic 2018, *Journal of the Royal Statistical Society* A
    181, 663–688: with k parameters, constant included, N records together and c the released share,
    E = (k − 1)(1 − c)² c / N and sd = √(2(k − 1)) (1 − c)² c / N. That null takes the original for given and
    draws the release from it. An independent sample brings the original's own sampling error too: 1 − c
    in place of (1 − c)². Weights are this library's: with M = Σ w x xᵀ and Q = Σ w² x xᵀ of the centred columns,
    k − 1 becomes tr(M⁻¹Q) in E, and tr((M⁻¹Q)²) under the root.

    Examples
    --------
    >>> x = np.arange(8.0).reshape(4, 2)
    >>> propensity_utility(x, x).pmse, round(propensity_utility(x, x + 100).share_of_maximum, 3)
    (0.0, 1.0)
    """
    own_rows = matrix("original", original)
    other_rows = matrix("other", other, own_rows.shape[1])
    design = Stacked.of(
        own_rows,
        other_rows,
        checked_weights("weights", weights, len(own_rows)),
        checked_weights("other_weights", other_weights, len(other_rows)),
        spread_pairs(own_rows.shape[1], interactions),
    )
    with one_blas_thread():
        spread, noise = design.moments()
        basis = independent_directions(spread, len(own_rows) + len(other_rows))
        pmse = _fitted(design, basis) if basis.shape[1] else 0.0
    df = square = float(basis.shape[1])
    if noise is not None and basis.shape[1]:
        inflated = np.linalg.solve(basis.T @ spread @ basis, basis.T @ noise @ basis)
        df, square = float(np.trace(inflated)), float((inflated * inflated.T).sum())
    c = len(other_rows) / (len(own_rows) + len(other_rows))
    unit = c * (1 - c) / (len(own_rows) + len(other_rows))
    nulls = (df * unit * (1 - c), np.sqrt(2 * square) * unit * (1 - c), df * unit, np.sqrt(2 * square) * unit)
    return _result("logistic", pmse, c, basis.shape[1], nulls, len(spread) - basis.shape[1])


def tree_propensity(
    original: ArrayLike,
    other: ArrayLike,
    *,
    rng: np.random.Generator,
    permutations: int = 4,
    records: int = 5000,
) -> Propensity:
    """Measure how well a classification tree separates the other table's records from the original's.

    Parameters
    ----------
    original, other : (N, n), (M, n), in any units; NaN where missing
    rng : numpy Generator, for the sample of records and the permutations
    permutations : at least 2; how often labels are exchanged to learn the null
    records : per table; a larger one is sampled

    Returns
    -------
    Propensity; ``parameters`` are the leaves less one.

    Raises
    ------
    AnonymizationError
        When the tables are not matrices with the same columns, or a parameter is out of range.

    Notes
    -----
    The tree has at most `DEPTH` levels and `LEAF` records in a leaf at least. It searches its splits, so its
    null has no formula: labels are exchanged at random, which is the
    null of an independent sample; ``expected`` and ``deviation`` are 1 − c times as large, as they are for
    a fixed set of columns. Weights are not used. Source: Snoke et al. 2018, section 3 (trees); Raab,
    Nowok and Dibben 2021 (permutation).

    Examples
    --------
    >>> x = np.arange(400.0).reshape(200, 2)
    >>> tree_propensity(x, x, rng=np.random.default_rng(0)).pmse
    0.0
    """
    own_rows = matrix("original", original, missing=True)
    other_rows = matrix("other", other, own_rows.shape[1], missing=True)
    if records < 1 or permutations < 2:
        raise AnonymizationError(f"records must be at least 1 and permutations 2, got {records} and {permutations}")
    sides = [s if len(s) <= records else s[rng.choice(len(s), records, replace=False)] for s in (own_rows, other_rows)]
    rows = np.concatenate(sides)
    labels = np.repeat([0.0, 1.0], [len(side) for side in sides])
    pmse, leaves = _grown(rows, labels)
    shuffled = [rng.permutation(labels) for _ in range(permutations)]
    null = np.array([grown for grown, _ in in_threads(lambda own: _grown(rows, own), shuffled)])
    c = float(labels.mean())
    mean, sd = float(null.mean()), float(null.std(ddof=1))
    return _result("tree", pmse, c, leaves - 1, ((1 - c) * mean, (1 - c) * sd, mean, sd), 0)


def _grown(rows: Floats, labels: Floats) -> tuple[float, int]:
    # Here, because importing it takes long.
    from sklearn.tree import DecisionTreeClassifier

    tree: Any = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=LEAF, random_state=0)
    tree.fit(rows, labels)
    chances = tree.predict_proba(rows)[:, 1]
    return float(np.mean((chances - labels.mean()) ** 2)), int(tree.get_n_leaves())


def _result(
    model: Literal["logistic", "tree"],
    pmse: float,
    c: float,
    parameters: int,
    nulls: tuple[float, float, float, float],
    dropped: int,
) -> Propensity:
    pmse = 0.0 if pmse < ROUNDED else pmse
    expected, deviation, independent, independent_deviation = (float(value) for value in nulls)
    return Propensity(
        model=model,
        pmse=pmse,
        share_released=c,
        parameters=parameters,
        expected=expected,
        deviation=deviation,
        expected_independent=independent,
        deviation_independent=independent_deviation,
        ratio=pmse / expected if expected > 0 else 1.0 if pmse == 0 else None,
        standardised=(pmse - expected) / deviation if deviation > 0 else 0.0,
        share_of_maximum=min(1.0, pmse / (c * (1 - c))),
        dropped=dropped,
        meaning=MEANING.format(model=MODELS[model], independent=1 / (1 - c)),
    )


def _fitted(design: Stacked, basis: Floats) -> float:
    """Return Σ w (p − c)² / Σ w of the penalised logistic regression, by Newton steps with halving."""
    total = float(sum(len(side) for side in design.sides))
    c = len(design.sides[1]) / total
    rows = design.rotated(basis * np.sqrt(total))
    at = np.zeros(basis.shape[1] + 1)
    at[0] = np.log(c / (1 - c))
    loss, gradient, hessian, pmse = _evaluated(rows, at, c, total)
    for _ in range(STEPS):
        step = np.linalg.solve(hessian, gradient)
        gain = float(gradient @ step)
        if gain < 1e-13 * total:
            break
        size = 1.0
        while size > 1e-6:
            after = _evaluated(rows, at - size * step, c, total)
            if after[0] <= loss - 1e-4 * size * gain:
                break
            size /= 2
        else:
            break
        at = at - size * step
        loss, gradient, hessian, pmse = after
    return pmse


def _evaluated(rows: Callable[[], Rows], at: Floats, c: float, total: float) -> tuple[float, Floats, Floats, float]:
    """Return penalised deviance / 2, its gradient and Hessian, and the mean squared error, at one point."""
    penalty = np.append(0.0, np.full(len(at) - 1, RIDGE * total))
    loss = float(penalty @ at**2) / 2
    gradient, hessian = penalty * at, np.diag(penalty)
    away = 0.0
    for x, w, label in rows():
        score = at[0] + x @ at[1:]
        p = expit(score)
        # The logarithm of the probability of the label that is there, without overflow.
        cost = np.log1p(np.exp(-np.abs(score))) + np.maximum(-score if label else score, 0.0)
        rest, bend, off = p - label, p * (1 - p), (p - c) ** 2
        if w is not None:
            cost, rest, bend, off = cost * w, rest * w, bend * w, off * w
        loss += float(cost.sum())
        away += float(off.sum())
        gradient[0] += rest.sum()
        gradient[1:] += rest @ x
        side = bend @ x
        hessian[0, 0] += bend.sum()
        hessian[0, 1:] += side
        hessian[1:, 0] += side
        root = np.sqrt(bend)[:, None] * x  # one operand: the product of a matrix with itself is the faster one
        hessian[1:, 1:] += root.T @ root
    return loss, gradient, hessian, away / total
