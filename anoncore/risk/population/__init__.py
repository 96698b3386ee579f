"""Risk in the population that the records are a sample of."""

from anoncore.risk.population.frequencies import Frequencies, Missing, groups_of, key_codes, key_frequencies
from anoncore.risk.population.individual import household_risk, individual_risk
from anoncore.risk.population.known import KnownPopulationRisk, known_population_risk
from anoncore.risk.population.reidentifications import Reidentifications, expected_reidentifications
from anoncore.risk.population.report import (
    KeyContribution,
    PopulationRisk,
    SpecialRisk,
    population_risk,
    sampling_weights,
    special_risk,
)
from anoncore.risk.population.suda import SpecialUniques, special_uniques
from anoncore.risk.population.uniqueness import PopulationUniqueness, population_uniqueness

__all__ = [
    "Frequencies",
    "KeyContribution",
    "KnownPopulationRisk",
    "Missing",
    "PopulationRisk",
    "PopulationUniqueness",
    "Reidentifications",
    "SpecialRisk",
    "SpecialUniques",
    "expected_reidentifications",
    "groups_of",
    "household_risk",
    "individual_risk",
    "key_codes",
    "key_frequencies",
    "known_population_risk",
    "population_risk",
    "population_uniqueness",
    "sampling_weights",
    "special_risk",
    "special_uniques",
]
