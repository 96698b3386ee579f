"""Disclosure on quasi-identifiers: rare combinations, what they give away, and who could be found by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.groups import distinct_counts
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._groups import codes, cuts, ordered_distances, places
from anoncore.risk._proportions import Proportion, normal_quantile, proportion
from anoncore.risk.population import (
    Missing,
    PopulationRisk,
    SpecialRisk,
    groups_of,
    key_codes,
    population_risk,
    sampling_weights,
    special_risk,
)


@dataclass(frozen=True)
class GroupRisk:
    """Groups of records identical on the quasi-identifiers; what one person decides is None where it is published.

    Parameters
    ----------
    n, n_groups, smallest : statistical units, of which one may be in several groups, groups, and the fewest units of a
        group (0 without records); without declared units each record is one
    k : the size asked for
    below_k, uniques : units in groups smaller than k, and in groups of one, as shares; the intervals take
        them for independent draws
    expected : Σ over records of 1/size, right guesses of an attacker who knows that his people are in the
        sample and picks a record of the right group for each: the number of groups
    expected_lower, expected_upper : within which that number falls; the guesses are independent
    highest : 1/smallest, the largest risk of anybody
    """

    meaning: ClassVar[str] = (
        "How many people share a combination of quasi-identifiers: an attacker who knows a person's combination, "
        "and that the person took part, could find a record that is alone with it."
    )

    n: int
    n_groups: int
    smallest: int | None
    k: int
    below_k: Proportion
    uniques: Proportion
    expected: float
    expected_lower: float
    expected_upper: float
    highest: float | None


@dataclass(frozen=True)
class SensitiveRisk:
    """What a group gives away about one sensitive variable; a missing cell counts as a value.

    Parameters
    ----------
    name : the variable
    distance : "ordered" for numbers and ordinal levels, else "equal"
    n, n_groups : records and groups looked at
    l_distinct : fewest different values in a group
    l_entropy : smallest exp(entropy) of a group, an effective number of values
    t : largest distance between a group's distribution and that of all records, 0 … 1
    beta : largest relative gain of a value, (share in a group − share of all records) / share of all records
    homogeneous : records in groups of a single value, as a share
    """

    meaning: ClassVar[str] = (
        "What belonging to a group of quasi-identifiers discloses about a sensitive variable even if no one in "
        "the group can be distinguished from the others."
    )

    name: str
    distance: Literal["ordered", "equal"]
    n: int
    n_groups: int
    l_distinct: int | None
    l_entropy: float | None
    t: float
    beta: float | None
    homogeneous: Proportion


@dataclass(frozen=True)
class TableDisclosure:
    """The figures of one table.

    Parameters
    ----------
    groups : on the quasi-identifiers
    population : where its size is known, None elsewhere
    sensitive : one per sensitive variable
    """

    groups: GroupRisk
    population: PopulationRisk | None
    sensitive: tuple[SensitiveRisk, ...]


@dataclass(frozen=True)
class Disclosure:
    """The release's figures, and beside them those of other people's records.

    Parameters
    ----------
    released : all released records
    compared, reference : the release and the reference at equal size, which the figures depend on; None
        without a reference
    quasi_identifiers : the variables that make the groups
    binning : one sentence per continuous one of them
    special : released records that few of them make unique; None for a single one
    cut : continuous ones with more released values than classes
    """

    meaning: ClassVar[str] = (
        "Released records are taken at face value, as if they were the people's own: masked values make "
        "groups too, and finding one of them finds no one. Other people's records, published as they are, "
        "would give the figures beside them."
    )

    released: TableDisclosure
    compared: TableDisclosure | None
    reference: TableDisclosure | None
    quasi_identifiers: tuple[str, ...]
    binning: tuple[str, ...]
    special: SpecialRisk | None = None
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DisclosureSettings:
    """What makes the groups, and how they are counted.

    Parameters
    ----------
    quasi_identifiers, sensitive : names; by default the released variables with that role
    weight : name of the variable of sampling weights, 0 or more, in release and reference
    population : people of the population, where there are no weights
    missing : what a missing value of a quasi-identifier means to risk in the population and to special uniques
    k : size of a group that is asked for, at least 2
    bins : classes of a continuous quasi-identifier, at least 2; risk in the population knows none
    confidence : 0 … 1, two-sided
    confidence_in_population : of risk in the population, which limits may decide on
    """

    quasi_identifiers: Sequence[str] | None = None
    sensitive: Sequence[str] | None = None
    weight: str | None = None
    population: float | None = None
    missing: Missing = "level"
    k: int = 5
    bins: int = 10
    confidence: float = 0.95
    confidence_in_population: float = 0.99


_SETTINGS = DisclosureSettings()


def disclosure_risk(
    released: Microdata,
    *,
    original: Microdata,
    reference: Microdata | None = None,
    settings: DisclosureSettings = _SETTINGS,
    rng: np.random.Generator,
) -> Disclosure:
    """Count groups on the quasi-identifiers and measure what they give away.

    Continuous quasi-identifiers are cut at the ``bins``-quantiles of the original, deciles by default; where
    the original has no more than ``bins`` different values, halfway between these. A missing cell is a level
    of its own. Sensitive values are not cut, and no quasi-identifier is for risk in the population: its keys are the
    released values as they are.

    Parameters
    ----------
    released : Microdata, M records
    original : Microdata, for the cuts only
    reference : Microdata, optional, other people of the same population; of release and reference the larger
        is subsampled to the size of the smaller
    settings : DisclosureSettings
    rng : generator; not drawn from when sizes are equal

    Returns
    -------
    Disclosure

    Raises
    ------
    AnonymizationError
        When a variable is absent or plays two parts, or a parameter is out of range.

    Notes
    -----
    Source: Samarati and Sweeney 1998; Machanavajjhala et al. 2007, distinct and entropy l-diversity; Li, Li
    and Venkatasubramanian 2007, t-closeness with the ordered and the equal distance; Cao and Karras 2012, basic
    β-likeness. Departs from t-closeness
    where numbers are missing: t = |Δ share missing| + min(shares known)·(distance of the known), an upper
    bound of the earth mover's distance in which a missing value lies at distance 1 from every number. Risk in the
    population: :func:`population_risk`; special uniques: :func:`special_risk`.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> frame = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> data = Microdata(frame, Schema([Variable("sex", "binary", role="quasi-identifier")]))
    >>> disclosure_risk(data, original=data, rng=np.random.default_rng(1)).released.groups.expected
    2.0
    """
    bins, weight = settings.bins, settings.weight
    if settings.k < 2 or bins < 2:
        raise AnonymizationError(f"k and bins must be at least 2, got {settings.k} and {bins}")
    normal_quantile(settings.confidence)
    quasi, hidden = parts(released, settings.quasi_identifiers, settings.sensitive)
    settings = replace(settings, quasi_identifiers=quasi, sensitive=hidden)
    tables = [original, released] + ([] if reference is None else [reference])
    for table, side in zip(tables, ("original", "released", "reference"), strict=False):
        wanted = quasi + (() if side == "original" else hidden + (() if weight is None else (weight,)))
        absent = [name for name in wanted if name not in table.schema]
        if absent:
            raise AnonymizationError(f"{side} must hold {', '.join(absent)}; name only variables it has")
        if not len(table):
            raise AnonymizationError(f"{side} must hold at least one record, got none")
    classes = {
        name: cuts(original.frame[name].to_numpy(dtype="float64"), bins)
        for name in quasi
        if original.schema[name].kind == "continuous"
    }
    measure = partial(_table, settings=settings, classes=classes)
    compared = other = None
    whole = measure(released)
    if reference is not None:
        size = min(len(released), len(reference))
        compared = whole if len(released) == size else measure(_part(released, size, rng))
        other = measure(_part(reference, size, rng))
    sentences = tuple(
        f"{name}: {len(edges) + 1} classes, cut "
        + (f"at the {bins}-quantiles of the original" if wide else "between its values")
        for name, (edges, wide) in classes.items()
    )
    special = special_risk(
        _keys(released, settings, classes), quasi, missing=settings.missing, confidence=settings.confidence
    )
    cut = tuple(name for name, (edges, _) in classes.items() if released.frame[name].nunique() > len(edges) + 1)
    return Disclosure(whole, compared, other, quasi, sentences, special, cut)


def parts(
    released: Microdata, quasi_identifiers: Sequence[str] | None, sensitive: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the quasi-identifiers and of the sensitive variables, checked."""
    schema = released.schema
    for name, value in (("quasi_identifiers", quasi_identifiers), ("sensitive", sensitive)):
        if isinstance(value, str):
            raise AnonymizationError(f"{name} must be a list of names, got one text")
    quasi = schema.with_role("quasi-identifier") if quasi_identifiers is None else tuple(quasi_identifiers)
    hidden = schema.with_role("sensitive") if sensitive is None else tuple(sensitive)
    if not quasi:
        raise AnonymizationError("quasi_identifiers must name at least one variable; none has that role")
    absent = [name for name in quasi + hidden if name not in schema]
    if absent:
        raise AnonymizationError(f"released must hold {', '.join(absent)}; name only variables it has")
    both = set(quasi) & set(hidden)
    if both or len(set(quasi)) < len(quasi) or len(set(hidden)) < len(hidden):
        raise AnonymizationError("quasi_identifiers and sensitive must name different variables, each of them once")
    return quasi, hidden


def _part(data: Microdata, size: int, rng: np.random.Generator) -> Microdata:
    return data if len(data) == size else data.take(np.sort(rng.choice(len(data), size, replace=False)))


Classes = dict[str, tuple[Floats, bool]]


def _keys(data: Microdata, settings: DisclosureSettings, classes: Classes) -> NDArray[np.int64]:
    names = settings.quasi_identifiers or ()
    return key_codes(data, names, [classes.get(name, (None, False))[0] for name in names])


def _table(data: Microdata, settings: DisclosureSettings, classes: Classes) -> TableDisclosure:
    confidence, keys = settings.confidence, _keys(data, settings, classes)
    group, weights = groups_of(keys), sampling_weights(data, settings.weight, settings.population)
    sizes = np.bincount(group)
    population = None
    if weights is not None:
        exact = key_codes(data, settings.quasi_identifiers or ())
        certainty = settings.confidence_in_population
        population = population_risk(exact, weights, missing=settings.missing, data=data, confidence=certainty)
    return TableDisclosure(
        groups=_group_risk(sizes if data.units is None else distinct_counts(group, data.units), settings.k, confidence),
        population=population,
        sensitive=tuple(_sensitive(data, name, group, sizes, confidence) for name in settings.sensitive or ()),
    )


def _group_risk(sizes: Indices, k: int, confidence: float) -> GroupRisk:
    n, groups = int(sizes.sum()), len(sizes)
    alone = int((sizes == 1).sum())
    spread = normal_quantile(confidence) * math.sqrt(float((1.0 - 1.0 / sizes).sum()))
    smallest = int(sizes.min())
    return GroupRisk(
        n=n,
        n_groups=groups,
        smallest=smallest,
        k=k,
        below_k=proportion(float(sizes[sizes < k].sum()), n, confidence),
        uniques=proportion(alone, n, confidence),
        expected=float(groups),
        expected_lower=max(float(alone), groups - spread),
        expected_upper=min(float(n), groups + spread),
        highest=1.0 / smallest,
    )


def _sensitive(data: Microdata, name: str, group: Indices, sizes: Indices, confidence: float) -> SensitiveRisk:
    code = codes(data, name, None)
    pair, count = np.unique(group * (int(code.max()) + 1) + code, return_counts=True)
    there, value = pair // (int(code.max()) + 1), pair % (int(code.max()) + 1)
    distinct = np.bincount(there, minlength=len(sizes))
    share, overall = count / sizes[there], np.bincount(code)[value] / len(data)
    entropy = np.bincount(there, -share * np.log(share), len(sizes))
    variable = data.schema[name]
    if variable.kind in ("continuous", "ordinal"):
        t = ordered_distances(*places(data, name), group, len(sizes))
    else:
        # Levels that the group lacks add their share among all records.
        apart = np.bincount(there, np.abs(share - overall) - overall, len(sizes))
        t = 0.5 * (1.0 + apart.astype(np.float64))
    return SensitiveRisk(
        name=name,
        distance="ordered" if variable.kind in ("continuous", "ordinal") else "equal",
        n=len(data),
        n_groups=len(sizes),
        l_distinct=int(distinct.min()),
        l_entropy=float(np.exp(max(0.0, entropy.min()))),
        t=min(1.0, max(0.0, float(t.max()))),
        beta=float((share / overall).max()) - 1.0,
        homogeneous=proportion(float(sizes[distinct == 1].sum()), len(data), confidence),
    )
