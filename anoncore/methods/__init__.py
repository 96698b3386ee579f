"""The masking methods: one module and one line here for each, which registers it."""

from anoncore.boxes.statistics import Statistic as Statistic
from anoncore.methods.additive_noise import AdditiveNoise as AdditiveNoise
from anoncore.methods.data_shuffling import DataShuffling as DataShuffling
from anoncore.methods.extreme_records import ExtremeRecords as ExtremeRecords
from anoncore.methods.fuzzy_microaggregation import FuzzyMicroaggregation as FuzzyMicroaggregation
from anoncore.methods.global_recoding import GlobalRecoding as GlobalRecoding
from anoncore.methods.gower_microaggregation import GowerMicroaggregation as GowerMicroaggregation
from anoncore.methods.group_anonymity.parameters import GroupAnonymity as GroupAnonymity
from anoncore.methods.household_trees.parameters import HouseholdTrees as HouseholdTrees
from anoncore.methods.local_suppression import LocalSuppression as LocalSuppression
from anoncore.methods.mdav import MDAV as MDAV
from anoncore.methods.optimal_boxes.parameters import OptimalBoxes as OptimalBoxes
from anoncore.methods.pram import PRAM as PRAM
from anoncore.methods.rank_swapping import RankSwapping as RankSwapping
from anoncore.methods.rare_levels import RareLevels as RareLevels
from anoncore.methods.record_swapping import RecordSwapping as RecordSwapping
from anoncore.methods.rhs import RHS as RHS
from anoncore.methods.sequential_trees import SequentialTrees as SequentialTrees
from anoncore.methods.spectral_rhs import SpectralRHS as SpectralRHS
from anoncore.methods.spectral_suppression import SpectralSuppression as SpectralSuppression
from anoncore.methods.spectral_swap import SpectralSwap as SpectralSwap
from anoncore.methods.spectral_synthesis import SpectralSynthesis as SpectralSynthesis
from anoncore.methods.value_coding import ValueCoding as ValueCoding
from anoncore.methods.weight_calibration import WeightCalibration as WeightCalibration
