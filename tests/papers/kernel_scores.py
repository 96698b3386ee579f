"""Swapping of kernel scores, as a comparator: records have to be sought that the moved scores stand for."""

from __future__ import annotations

import numpy as np

from anoncore.kernels.k_means import k_means
from anoncore.kernels.smoothed_values import recommended_reach
from anoncore.kernels.spectral_swap import jittered, swap

CENTRES, LEAST, SHARE, STEPS = 80, 10, 0.95, 30


def swap_kernel_scores(x: np.ndarray, *, width: float, rng: np.random.Generator) -> np.ndarray:
    """Swap the leading scores of x (N, n) in the feature space of a Gaussian kernel, and what they leave linearly.

    The kernel, of ``width`` times √n, is taken at centres of clusters of 10 records or more (Nyström), so that no
    single record is a base point. Of the scores those are swapped that hold 95 % of the variance there. A record for
    moved scores is sought by the fixed-point iteration of Mika et al. 1999, from the linear regression on scores.
    """
    labels = np.unique(k_means(x, min(CENTRES, len(x) // LEAST), least=LEAST, rng=rng), return_inverse=True)[1]
    centres = np.array([x[labels == label].mean(axis=0) for label in range(labels.max() + 1)])

    def kernel(rows: np.ndarray) -> np.ndarray:
        squares = np.square(rows[:, None, :] - centres[None]).sum(axis=2)
        return np.exp(-squares / (2 * width**2 * x.shape[1]))

    values, vectors = np.linalg.eigh(kernel(centres))
    kept = values > 1e-8 * values.max()
    root = vectors[:, kept] / np.sqrt(values[kept])
    features = kernel(x) @ root
    middle = features.mean(axis=0)
    _, lengths, axes = np.linalg.svd(features - middle, full_matrices=False)
    held = np.cumsum(np.square(lengths)) / np.square(lengths).sum()
    axes = axes[: int(np.searchsorted(held, SHARE)) + 1]
    scores = (features - middle) @ axes.T
    design = np.column_stack([np.ones(len(x)), scores])
    regression = np.linalg.lstsq(design, x, rcond=None)[0]

    def records(moved: np.ndarray) -> np.ndarray:
        weights = (moved @ axes + middle) @ root.T
        found = np.column_stack([np.ones(len(moved)), moved]) @ regression
        for _ in range(STEPS):
            parts = weights * kernel(found)
            total = parts.sum(axis=1, keepdims=True)
            found = np.where(np.abs(total) > 1e-3, parts @ centres / np.where(total == 0, 1, total), found)
        return found

    reach = recommended_reach(len(x), scores.shape[1])
    moved = np.column_stack([rng.permutation(jittered(column, reach, rng)) for column in scores.T])
    return records(moved) + swap(x - records(scores), rng=rng, jitter="auto")
