"""Wavelet group anonymity in one place: decompose a signal, redistribute it, and try to undo that."""

from anoncore.kernels.wavelet.decomposition import (
    Decomposition,
    decompose,
    outlier_positions,
    pad_signal,
    reconstruction_matrix,
    sparse_reconstruction,
    winsorise,
)
from anoncore.kernels.wavelet.inversion import Audit, Inversion, audit, invert
from anoncore.kernels.wavelet.redistribution import Goals, Redistribution, redistribute

__all__ = [
    "Audit",
    "Decomposition",
    "Goals",
    "Inversion",
    "Redistribution",
    "audit",
    "decompose",
    "invert",
    "outlier_positions",
    "pad_signal",
    "reconstruction_matrix",
    "redistribute",
    "sparse_reconstruction",
    "winsorise",
]
