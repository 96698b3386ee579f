"""The risk of a table in the population that it is a sample of, and the variables that make its records special."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._proportions import Proportion, proportion
from anoncore.risk.population.frequencies import Codes, Missing, checked_weights, groups_of, key_frequencies
from anoncore.risk.population.individual import household_risk, individual_risk
from anoncore.risk.population.reidentifications import Reidentifications, expected_reidentifications
from anoncore.risk.population.suda import special_uniques
from anoncore.risk.population.uniqueness import PopulationUniqueness, population_uniqueness

# Sets of variables times records that a search for special uniques looks at, at most: about a second.
_MOST_LOOKED_AT = 5e7
FEW_VARIABLES = 3


@dataclass(frozen=True)
class PopulationRisk:
    """Re-identifications expected of an attacker who knows the whole population, but not who is in the sample.

    Parameters
    ----------
    records : how many are traced, with an interval
    individual : Σ over records of the individual risk, which takes each group by itself and its weights
    highest : of the individual risks; None where it is not published
    households : records of which a record of the same unit is traced, by the individual risks; None without units
    uniqueness : share of the population that is unique on the key
    k_map : fewest people of the population, by the weights, with the key of a record; None where it is not published
    presence : largest share of the people with a record's key, by the weights, who are in the data (δ-presence); None
        where it is not published
    counted : share of the records that these figures are of; others lack a key, where those are excluded
    """

    meaning: ClassVar[str] = (
        "How many records would be traced to their person by an attacker who knows the whole population but not who "
        "took part; the population behind a group is estimated."
    )

    records: Reidentifications
    individual: float
    highest: float | None
    households: float | None
    uniqueness: PopulationUniqueness
    k_map: float | None
    presence: float | None
    counted: float = 1.0

    @property
    def n(self) -> int:
        """The number of records."""
        return self.records.n


@dataclass(frozen=True)
class KeyContribution:
    """The share of all scores of special uniques that sets with one variable have."""

    name: str
    share: float


@dataclass(frozen=True)
class SpecialRisk:
    """Records that few variables make unique in the sample.

    Parameters
    ----------
    largest : most variables of a set that was looked at
    few : records that are alone on `known` variables or fewer, as a share
    contributions : of the key variables, the largest first
    """

    largest: int
    few: Proportion
    contributions: tuple[KeyContribution, ...]

    @property
    def known(self) -> int:
        """How many variables an attacker knows of a person: three, or as many as were looked at."""
        return min(FEW_VARIABLES, self.largest)


def sampling_weights(data: Microdata, weight: str | None, population: float | None) -> Floats | None:
    """Return (N,) sampling weights: those of a variable, or the population's equal shares; None where neither is known.

    Parameters
    ----------
    data : Microdata
    weight : name of the variable of sampling weights; a record of weight 0, which estimates leave out, counts as 1,
        since its person is in the population
    population : people of the population, where no weights are
    """
    if weight is None:
        return None if population is None else np.full(len(data), population / len(data))
    try:
        stated = data.frame[weight].to_numpy(dtype="float64")
        return checked_weights(np.where((stated == 0.0) & (stated > 0.0).any(), 1.0, stated), len(data))
    except (TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, AnonymizationError) else "weights must be numeric"
        raise AnonymizationError(f"weight {weight!r}: {reason}") from None


def population_risk(
    keys: Codes, weights: Floats, *, missing: Missing = "level", data: Microdata, confidence: float = 0.95
) -> PopulationRisk:
    """Measure the risk of a table in the population that its weights stand for.

    Parameters
    ----------
    keys : (N, m) levels of the key variables, −1 where a value is missing
    weights : (N,) sampling weights above 0; where they sum to less than N, the population is the sample
    missing : of :func:`key_frequencies`. With holders, the number of groups takes a missing value as a level
    data : Microdata, for the units of its records, or else the households that it numbers; a record without a number
        is a household of its own
    confidence : of the interval

    Returns
    -------
    PopulationRisk

    Notes
    -----
    Claim and source: those of :func:`expected_reidentifications`, :func:`individual_risk`, :func:`household_risk` and
    :func:`population_uniqueness`.
    """
    counted: NDArray[np.bool_] = np.ones(len(keys), dtype=bool)
    if missing == "excluded":
        counted &= (keys >= 0).all(axis=1)
    found = key_frequencies(keys, weights, missing=missing)
    risk = np.zeros(len(keys))
    people = np.maximum(found.population, found.sample)[counted]
    risk[counted] = individual_risk(found.sample[counted], people)
    sizes = np.bincount(groups_of(keys[counted])) if counted.any() else np.ones(1, dtype=np.intp)
    total = max(float(weights[counted].sum()), float(sizes.sum()))
    units = _numbered_households(data) if data.units is None else data.units
    return PopulationRisk(
        records=expected_reidentifications(sizes, total, confidence=confidence),
        individual=float(risk.sum()),
        highest=float(risk.max(initial=0.0)),
        households=None if units is None else float(household_risk(risk, units).sum()),
        uniqueness=population_uniqueness(sizes, total),
        k_map=float(people.min()) if len(people) else None,
        presence=float((found.sample[counted] / people).max()) if len(people) else None,
        counted=float(counted.mean()) if len(counted) else 0.0,
    )


def _numbered_households(data: Microdata) -> NDArray[np.intp] | None:
    """Return (N,) the household of each record; None where none are numbered."""
    codes = data.role_codes("household")
    if codes is None:
        return None
    names = [name for name in data.schema.with_role("household") if name in data.frame]
    alone = data.frame[names].isna().any(axis=1).to_numpy()
    return np.where(alone, len(data) + np.arange(len(data)), codes)


def special_risk(
    keys: Codes, names: Sequence[str], *, missing: Missing = "level", confidence: float = 0.95
) -> SpecialRisk | None:
    """Find the records that few variables make unique, and which variables those are; None for a single variable.

    Parameters
    ----------
    keys : (N, m) levels of the key variables, −1 where a value is missing
    names : of the variables
    missing : a missing value is a level, or else in no set
    confidence : of the share

    Notes
    -----
    Sets are looked at up to the size at which their number, times the records, is at most 5·10⁷. Claim and source:
    :func:`special_uniques`.
    """
    m, n = len(names), len(keys)
    if m < 2 or not n:
        return None
    sets, largest = float(m), 1
    while largest < m and (sets + math.comb(m, largest + 1)) * n <= _MOST_LOOKED_AT:
        largest += 1
        sets += math.comb(m, largest)
    found = special_uniques(keys, missing_is_level=missing == "level", largest=largest)
    few = int(((found.smallest > 0) & (found.smallest <= FEW_VARIABLES)).sum())
    order = np.argsort(-found.contributions, kind="stable")
    shares = tuple(KeyContribution(names[j], float(found.contributions[j])) for j in order)
    return SpecialRisk(largest, proportion(few, n, confidence), shares)
