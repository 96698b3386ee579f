"""Details kept against records moved: one redistribution after the other, each audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from anoncore.errors import AnonymizationError
from anoncore.kernels.wavelet.decomposition import Floats, Integers
from anoncore.kernels.wavelet.inversion import Audit, audit
from anoncore.kernels.wavelet.redistribution import Details, Goals, JointRoute, Redistribution, redistribute
from anoncore.kernels.wavelet.signal_model import SignalModel


@dataclass(frozen=True, eq=False)
class Trial:
    """One way to redistribute, and how it fares.

    Parameters
    ----------
    model : SignalModel
    redistribution : Redistribution or None
    audit : Audit or None
    problem : str
        Why there is no redistribution; empty when there is one.
    """

    model: SignalModel
    redistribution: Redistribution | None
    audit: Audit | None
    problem: str = ""


def sweep(
    signal: Integers | Floats,
    goals: Goals,
    models: Sequence[SignalModel],
    *,
    shares: Sequence[float | None] = (None,),
    details: Details = "plain",
    tolerance: float = 0.1,
) -> list[Trial]:
    """Redistribute with several wavelets or levels, and shares of details; audit each.

    Parameters
    ----------
    signal, goals, details : as for `redistribute`
    models : of SignalModel
    shares : of float or None
        Fixed shares of details, each with the fewest moved records: details kept against records moved. None
        is the largest share there is.
    tolerance : as for `audit`

    Returns
    -------
    list of Trial
        One per model and share, in this order; what cannot be done says why.

    Raises
    ------
    NotConvergedError
        When the solver stops early.

    Examples
    --------
    >>> import numpy as np
    >>> models = [SignalModel("haar", 1), SignalModel("db2", 1), SignalModel("db2", 3)]
    >>> trials = sweep(np.array([3, 4, 5, 40]), Goals(caps={3: 10}), models)
    >>> [t.redistribution.moved if t.redistribution else None for t in trials]
    [35, 33, None]
    """
    trials = []
    for model, share in product(models, shares):
        try:
            found = redistribute(signal, goals, model, route=JointRoute(share=share), details=details)
        except AnonymizationError as error:
            trials.append(Trial(model, None, None, str(error)))
            continue
        trials.append(Trial(model, found, audit(signal, found.target, goals, model, tolerance=tolerance)))
    return trials
