"""Independent components: axes along which scores are as far from normal as they can be."""

from __future__ import annotations

import numpy as np

from anoncore.kernels.principal_axes import Basis, Floats, principal_scores

_SWEEPS = 200
_SETTLED = 1e-7


def independent_axes(x: Floats, frame: Basis) -> tuple[Basis, Floats]:
    """Rotate the whitened principal scores to independent components.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    frame : Basis
        The principal axes of ``x``.

    Returns
    -------
    Basis, and (n, n) float
        The components, of length 1 and uncorrelated, ``loadings`` being the map from centred records to them; and the
        map back. Null axes stay as they are. Both are secrets.

    Notes
    -----
    Claim: the map back undoes ``loadings``; scores are uncorrelated as principal ones are. Deterministic: the search
    starts at the principal axes, and stops after 200 sweeps where it has not settled, orthogonal all the same.

    Source: Hyvärinen 1999, FastICA, symmetric, with log cosh. Lasko & Vinterbo (2010), section V, ask for other bases.

    Examples
    --------
    >>> from anoncore.kernels.principal_axes import basis
    >>> sides = np.random.default_rng(0).uniform(size=(2000, 2)) @ np.array([[3.0, 2.0], [0.0, 1.0]])
    >>> back = independent_axes(sides, basis(sides))[1]
    >>> (np.abs(back) / np.abs(back).max(axis=1, keepdims=True) > 0.2).tolist()
    [[True, True], [False, True]]
    """
    live = frame.live
    lengths = np.where(live, frame.singular_values, 1.0)
    scores = principal_scores(x, frame)[:, live] / lengths[live] * np.sqrt(len(x))
    rotation = np.eye(len(lengths))
    rotation[np.ix_(live, live)] = _rotation(scores)
    loadings = (frame.loadings / lengths) @ rotation
    back = rotation.T @ (frame.loadings * lengths).T
    return Basis(center=frame.center, singular_values=live.astype(np.float64), loadings=loadings), back


def _rotation(z: Floats) -> Floats:
    """Return the (m, m) orthogonal matrix whose columns are the components of (N, m) white scores."""
    rotation = np.eye(z.shape[1])
    for _ in range(_SWEEPS):
        bent = np.tanh(z @ rotation)
        step = z.T @ bent / len(z) - rotation * (1.0 - np.square(bent)).mean(axis=0)
        u, _, v = np.linalg.svd(step)
        before, rotation = rotation, u @ v
        if np.abs(np.abs((before * rotation).sum(axis=0)) - 1.0).max(initial=0.0) < _SETTLED:
            break
    # Of either sign: the one whose largest entry is positive, so that the axes do not hang on the sweeps.
    largest = np.abs(rotation).argmax(axis=0)
    return np.asarray(rotation * np.sign(rotation[largest, np.arange(len(largest))]))
