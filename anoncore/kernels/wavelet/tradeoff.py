"""Details kept against records moved: one redistribution after the other, each audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anoncore.errors import AnonymizationError
from anoncore.kernels.wavelet.decomposition import Floats, Integers, Pad
from anoncore.kernels.wavelet.inversion import Audit, audit
from anoncore.kernels.wavelet.redistribution import Details, Goals, Redistribution, redistribute


@dataclass(frozen=True, eq=False)
class Trial:
    """One way to redistribute, and how it fares.

    Parameters
    ----------
    wavelet : str
    level : int
    redistribution : Redistribution or None
    audit : Audit or None
    problem : str
        Why there is no redistribution; empty when there is one.
    """

    wavelet: str
    level: int
    redistribution: Redistribution | None
    audit: Audit | None
    problem: str = ""


def sweep(
    signal: Integers | Floats,
    goals: Goals,
    wavelets: Sequence[str] = ("haar", "db2", "db3", "db4", "sym4", "coif1"),
    levels: Sequence[int] = (1, 2, 3),
    *,
    shares: Sequence[float | None] = (None,),
    details: Details = "plain",
    population: Integers | Floats | None = None,
    ratio: bool = False,
    pad: Pad = "refuse",
    names: Sequence[str] | None = None,
    tolerance: float = 0.1,
) -> list[Trial]:
    """Redistribute with several wavelets, levels and shares of details; audit each.

    Parameters
    ----------
    signal, goals, details, population, ratio, pad, names : as for `redistribute`
    wavelets : names of discrete wavelets of PyWavelets
    levels : of int
    shares : of float or None
        Fixed shares of details, each with the fewest moved records: details kept against records moved. None
        is the largest share there is.
    tolerance : as for `audit`

    Returns
    -------
    list of Trial
        One per wavelet, level and share, in this order; what cannot be done says why.

    Raises
    ------
    NotConvergedError
        When the solver stops early.

    Examples
    --------
    >>> import numpy as np
    >>> trials = sweep(np.array([3, 4, 5, 40]), Goals(caps={3: 10}), ["haar", "db2"], [1, 3])
    >>> [(t.wavelet, t.level, t.redistribution.moved if t.redistribution else None) for t in trials]
    [('haar', 1, 35), ('haar', 3, None), ('db2', 1, 33), ('db2', 3, None)]
    """
    trials = []
    for wavelet, level, share in ((w, n, s) for w in wavelets for n in levels for s in shares):
        try:
            found = redistribute(
                signal,
                goals,
                wavelet=wavelet,
                level=level,
                population=population,
                ratio=ratio,
                details=details,
                share=share,
                pad=pad,
                names=names,
            )
        except AnonymizationError as error:
            trials.append(Trial(wavelet, level, None, None, str(error)))
            continue
        checked = audit(
            signal,
            found.target,
            goals,
            wavelet=wavelet,
            level=level,
            tolerance=tolerance,
            population=population,
            ratio=ratio,
            pad=pad,
        )
        trials.append(Trial(wavelet, level, found, checked))
    return trials
