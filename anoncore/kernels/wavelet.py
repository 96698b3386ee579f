"""Wavelet group anonymity in one place: decompose a signal, redistribute it, and try to undo that."""

from anoncore.kernels.decomposition import (
    Decomposition,
    decompose,
    outlier_positions,
    pad_signal,
    reconstruction_matrix,
    sparse_reconstruction,
    winsorise,
)
from anoncore.kernels.inversion import Audit, Inversion, audit, invert
from anoncore.kernels.redistribution import Goals, Redistribution, redistribute

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
