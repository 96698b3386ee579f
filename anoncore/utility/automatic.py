"""Regressions that an analyst might run, chosen from the associations of the original where none is declared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from anoncore.microdata import Microdata, Variable
from anoncore.utility.pairs import associations
from anoncore.utility.regression_model import Regression

PREDICTORS = 4
WEAK, NEARLY_EQUAL = 0.05, 0.95  # associations of outcome and predictor, between which a predictor is of use
MISSING = 0.3  # share of records without a value, above which a variable is not used
LEVELS = 8
IN_ORDER = 0.999  # rank correlation from which one number is taken for a function of the other

Computed = Mapping[str, Collection[str]]
NOTHING_COMPUTED: Computed = MappingProxyType({})


def automatic_regressions(
    original: Microdata, most: int = 3, computed: Computed = NOTHING_COMPUTED
) -> tuple[Regression, ...]:
    """Choose linear regressions of the original's numbers on the variables with which they are most associated.

    Parameters
    ----------
    original : Microdata
    most : regressions, the ones whose predictors are most associated first
    computed : variables that edits compute, by name, with those that they are computed from; an equation of which no
        variable is computed is not looked at

    Returns
    -------
    Regressions with at most four predictors; variables of which 30 % are missing are left out. No two variables of a
    regression nearly equal or determine each other, as a wage and its logarithm, and none is computed from another, as
    a body mass index from the weight: nothing would be estimated.

    Notes
    -----
    Source: elementary; the choice uses the original alone, so that it does not favour a release.
    """
    usable = {v.name for v in original.schema if v.is_masked and _usable(v, original)}
    partners: dict[str, list[tuple[float, str]]] = {}
    for (a, b), value in associations(original).items():
        if {a, b} <= usable and WEAK <= abs(value) <= NEARLY_EQUAL:
            partners.setdefault(a, []).append((abs(value), b))
            partners.setdefault(b, []).append((abs(value), a))
    codes = pd.DataFrame({name: pd.factorize(original.frame[name], sort=True)[0] for name in partners})
    chosen = {
        name: predictors
        for name, found in partners.items()
        if original.schema[name].kind == "continuous" and (predictors := _predictors(name, found, codes, computed))
    }
    by_strength = sorted(chosen, key=lambda name: -sum(value**2 for value, _ in chosen[name]))
    return tuple(Regression(outcome=n, predictors=tuple(p for _, p in chosen[n])) for n in by_strength[:most])


def _predictors(
    outcome: str, found: list[tuple[float, str]], codes: pd.DataFrame, computed: Computed
) -> list[tuple[float, str]]:
    """Return the strongest of ``found``, none of which determines, or follows from, the outcome or another one."""
    chosen: list[tuple[float, str]] = []
    for value, name in sorted(found, key=lambda one: -one[0]):
        others = (outcome, *(n for _, n in chosen))
        if any(b in _sources(name, computed) or name in _sources(b, computed) for b in others):
            continue
        if not any(_tied(codes[name].to_numpy(), codes[b].to_numpy()) for b in others):
            chosen.append((value, name))
        if len(chosen) == PREDICTORS:
            break
    return chosen


def _sources(name: str, computed: Computed) -> set[str]:
    """Return all variables that one is computed from, through others that are computed.

    Examples
    --------
    >>> sorted(_sources("group", {"bmi": ("weight", "height"), "group": ("bmi",)}))
    ['bmi', 'height', 'weight']
    """
    found: set[str] = set()
    new = {name}
    while new := {source for one in new for source in computed.get(one, ())} - found:
        found |= new
    return found


def _tied(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether one of two variables, as codes (N,) in their order and -1 where missing, follows from the other."""
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    if not len(a):
        return False
    combinations = len(np.unique(a * (int(b.max()) + 1) + b))
    different = [len(np.unique(one)) for one in (a, b)]
    if combinations in different and min(different) > 1 and combinations <= len(a) / 2:
        return True
    return min(different) > LEVELS and bool(abs(spearmanr(a, b).statistic) >= IN_ORDER)


def _usable(variable: Variable, original: Microdata) -> bool:
    few = not variable.is_categorical or len(variable.levels or ()) <= LEVELS
    return few and float(original.frame[variable.name].isna().mean()) <= MISSING
