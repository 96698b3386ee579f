"""How counts per position make a signal, and how that signal is decomposed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from anoncore.kernels.wavelet.decomposition import Decomposition, Floats, Integers, Pad, pad_signal
from anoncore.kernels.wavelet.layout import Layout, Line


@dataclass(frozen=True, eq=False, repr=False)
class SignalModel:
    """How counts per position make a signal, and how it is decomposed.

    Parameters
    ----------
    wavelet : str
        Name of a discrete wavelet of PyWavelets.
    level : int
        Levels of detail.
    pad : {"refuse", "zero", "repeat"}
        As for `pad_signal`. Counts whose padded signal has the details asked for are restricted by every added
        position: each leaves one coefficient less to choose.
    population : (m,) int, optional
        Records of any kind per position, at least the counts, which never exceed it. Confidential where the counts are.
    ratio : bool
        Whether the signal is counts / population.
    layout : Line, Grid or Graph
        Which positions are neighbours; only a line is padded.
    """

    wavelet: str = "db2"
    level: int = 2
    pad: Pad = "refuse"
    population: Integers | Floats | None = None
    ratio: bool = False
    layout: Layout = field(default_factory=Line)

    @property
    def heads(self) -> Floats | None:
        """What counts are divided by (m,): the population of a ratio signal, else None."""
        return np.asarray(self.population, dtype=float) if self.ratio and self.population is not None else None

    def signal(self, counts: Floats) -> Floats:
        """Return the signal (m,) of counts: records or, for a ratio signal, records per head (0 where none are)."""
        heads = self.heads
        if heads is None:
            return counts.copy()
        return np.divide(counts, heads, out=np.zeros(len(counts)), where=heads > 0)

    def padded(self, signal: Floats) -> Floats:
        """Return a signal (m,) extended to a length (n,) that suits the levels; only a line is extended."""
        return pad_signal(signal, self.level, self.pad) if isinstance(self.layout, Line) else np.array(signal)

    def decompose(self, signal: Floats) -> Decomposition:
        """Decompose a signal (m,), padded to a length (n,) that suits the levels."""
        return self.layout.decompose(self.padded(signal), self.wavelet, self.level)

    def reconstruction(self, length: int) -> csr_array[np.float64]:
        """Return (n, coefficients) sparse: column j is the reconstruction of the j-th unit coefficient."""
        return self.layout.reconstruction(length, self.wavelet, self.level)
