"""Regressions that an analyst might run, chosen from the associations of the original where none is declared."""

from __future__ import annotations

from anoncore.microdata import Microdata, Variable
from anoncore.utility.pairs import associations
from anoncore.utility.regression_model import Regression

PREDICTORS = 4
WEAK, NEARLY_EQUAL = 0.05, 0.95  # associations of outcome and predictor, between which a predictor is of use
MISSING = 0.3  # share of records without a value, above which a variable is not used
LEVELS = 8


def automatic_regressions(original: Microdata, most: int = 3) -> tuple[Regression, ...]:
    """Choose linear regressions of the original's numbers on the variables with which they are most associated.

    Parameters
    ----------
    original : Microdata
    most : regressions, the ones whose predictors are most associated first

    Returns
    -------
    Regressions with at most four predictors; numbers that one other variable nearly equals, and variables of which
    30 % are missing, are left out.

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
    chosen = {
        name: sorted(found, key=lambda one: -one[0])[:PREDICTORS]
        for name, found in partners.items()
        if original.schema[name].kind == "continuous"
    }
    by_strength = sorted(chosen, key=lambda name: -sum(value**2 for value, _ in chosen[name]))
    return tuple(Regression(outcome=n, predictors=tuple(p for _, p in chosen[n])) for n in by_strength[:most])


def _usable(variable: Variable, original: Microdata) -> bool:
    few = not variable.is_categorical or len(variable.levels or ()) <= LEVELS
    return few and float(original.frame[variable.name].isna().mean()) <= MISSING
