"""One module per method: its frozen parameters and ``anonymize(data, params, *, edits, rng) -> Release``."""

from anoncore.methods.extreme_records import ExtremeRecords
from anoncore.methods.rare_levels import RareLevels
from anoncore.methods.spectral_rhs import SpectralRHS
from anoncore.methods.spectral_swap import SpectralSwap

__all__ = ["ExtremeRecords", "RareLevels", "SpectralRHS", "SpectralSwap"]
