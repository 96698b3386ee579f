"""One module per method: its frozen parameters and ``anonymize(data, params, *, edits, rng) -> Release``."""

from anoncore.methods.additive_noise import AdditiveNoise
from anoncore.methods.data_shuffling import DataShuffling
from anoncore.methods.extreme_records import ExtremeRecords
from anoncore.methods.fuzzy_microaggregation import FuzzyMicroaggregation
from anoncore.methods.group_anonymity import GroupAnonymity
from anoncore.methods.mdav import MDAV
from anoncore.methods.optimal_boxes import OptimalBoxes, Statistic
from anoncore.methods.rare_levels import RareLevels
from anoncore.methods.rhs import RHS
from anoncore.methods.spectral_rhs import SpectralRHS
from anoncore.methods.spectral_swap import SpectralSwap

__all__ = [
    "MDAV",
    "RHS",
    "AdditiveNoise",
    "DataShuffling",
    "ExtremeRecords",
    "FuzzyMicroaggregation",
    "GroupAnonymity",
    "OptimalBoxes",
    "RareLevels",
    "SpectralRHS",
    "SpectralSwap",
    "Statistic",
]
