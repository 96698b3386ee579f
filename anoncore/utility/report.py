"""Everything that is measured of a release's usefulness, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.threads import in_threads
from anoncore.microdata import Microdata
from anoncore.text import text_table
from anoncore.utility._sides import Floats, weighting
from anoncore.utility.figures import FigureComparison, UtilityComparison, compare_utility
from anoncore.utility.marginals import MarginalUtility, marginal_utility
from anoncore.utility.propensity import Propensity, propensity_utility
from anoncore.utility.regression import Regression, RegressionUtility, regression_utility
from anoncore.utility.variables import VariableTable, variable_utility

WORST = 10  # marginal tables that are named, the worst first


@dataclass(frozen=True)
class PropensityComparison:
    """The propensity figure of the release beside the reference's, None where there is none."""

    released: Propensity
    reference: Propensity | None


@dataclass(frozen=True)
class WeightUse:
    """How survey weights were used.

    Parameters
    ----------
    variable : name of the weight variable; None when weights were given otherwise, or there are none
    used : whether any table was weighted
    repaired : per table (original, released, reference), records whose weight cannot be used and counts as 0
    """

    variable: str | None
    used: bool
    repaired: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class UtilityReport:
    """What a release preserves, every figure beside the reference's; no record of any table.

    Parameters
    ----------
    columns : encoded columns that ``figures`` compares
    left_out : encoded columns that are not compared, their level or variable being suppressed
    figures : means, variances, correlations of the encoded columns; None when no column is left
    variables : every variable by itself
    propensity : on all encoded columns, suppressed ones too; None when no column varies in the original
    marginals : tables of two variables, and of three where they were asked for; named are the worst alone
    regressions : those declared, in their order
    weights : how the survey weights were used that all of these respect
    """

    columns: tuple[str, ...]
    left_out: int
    figures: UtilityComparison | None
    variables: VariableTable
    propensity: PropensityComparison | None
    marginals: tuple[MarginalUtility, ...]
    regressions: tuple[RegressionUtility, ...]
    weights: WeightUse

    def figure(self, name: str) -> FigureComparison | None:
        """Return one of the four figures; None when no column is left."""
        return next((one for one in self.figures.figures if one.name == name), None) if self.figures else None

    def summary(self) -> str:
        """Return the figures as a plain text table."""
        rows: list[tuple[str, float | None, float | None]] = [
            (f"{one.name.replace('_', ' ')}, median difference", one.released_median, one.reference_median)
            for one in (self.figures.figures if self.figures else ())
        ]
        if self.propensity:
            ours, theirs = self.propensity.released, self.propensity.reference
            rows.append(("propensity score, ratio to chance", ours.ratio, theirs.ratio if theirs else None))
        rows += [(f"tables of {m.size} variables, mean distance", m.mean, m.reference_mean) for m in self.marginals]
        for one in self.regressions:
            reference = one.reference.mean_overlap if one.reference else None
            rows.append((f"interval overlap of {one.regression.formula}", one.released.mean_overlap, reference))
        return text_table(("utility", "release", "reference"), rows)


def measure_utility(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    encoder: Encoder | None = None,
    encoded: Sequence[Floats | None] | None = None,
    regressions: Sequence[Regression] = (),
    weights: str | Sequence[ArrayLike | None] | None = None,
    interactions: int = 0,
    triples: int = 0,
) -> UtilityReport:
    """Measure everything that tells how useful a release is.

    Parameters
    ----------
    original, released, reference : Microdata
    encoder : fitted to the original; when None it is fitted here, to the variables that all tables have
    encoded : the matrices of the three tables under that encoder, where they are there already
    regressions : those whose results the release should keep
    weights : name of the weight variable, or one array or None per table; the first variable with role
        "weight" when None; ``(None, None, None)`` for none at all
    interactions : products of columns that the propensity score uses at most
    triples : tables of three variables that are compared at most

    Returns
    -------
    UtilityReport; deterministic, and no figure is ever NaN.

    Raises
    ------
    AnonymizationError
        When a table has no records, the release no variable in common, a regression does not suit the
        schema, or weights do not fit.

    Notes
    -----
    Claim: none. Source: that of each figure.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("x", "continuous"), Variable("y", "continuous")])
    >>> data = Microdata(pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [2.0, 1, 4, 3]}), schema)
    >>> measure_utility(data, data).marginals[0].largest
    0.0
    """
    tables = [original, released] + ([] if reference is None else [reference])
    found = weighting(tables, weights)
    arrays = found.arrays
    variables = variable_utility(
        original, released, reference, weights=found.variable or (arrays if weights is not None else None)
    )
    if encoder is None:
        there = [name for name in original.schema.masked if name not in variables.absent]
        if not there:
            raise AnonymizationError("the release has none of the original's variables in a comparable form")
        encoder = Encoder.fit(original.select(there))
    matrices = [
        encoder.encode(table) if matrix is None else matrix
        for table, matrix in zip(tables, [*(encoded or ()), None, None, None], strict=False)
    ]
    kept = kept_columns(encoder, released)
    names = tuple(name for name, keep in zip(encoder.column_names(), kept, strict=True) if keep)
    sizes = [(2, 2000)] + ([(3, triples)] if triples else [])
    jobs: list[Callable[[], Any]] = [
        lambda: _compared(matrices, kept, names, arrays),
        *(
            partial(_propensity, matrices, arrays, side, interactions)
            for side in range(1, len(tables) if encoder.width else 1)
        ),
        *(
            partial(marginal_utility, original, released, reference, size=size, limit=limit, weights=arrays)
            for size, limit in sizes
        ),
        *(partial(regression_utility, one, original, released, reference, weights=arrays) for one in regressions),
    ]
    done = list(in_threads(lambda job: job(), jobs))
    sides = [one for one in done if isinstance(one, Propensity)]
    return UtilityReport(
        columns=names,
        left_out=int((~kept).sum()),
        figures=done[0],
        variables=variables,
        propensity=PropensityComparison(sides[0], sides[1] if len(sides) > 1 else None) if sides else None,
        marginals=tuple(one.worst_only(WORST) for one in done if isinstance(one, MarginalUtility)),
        regressions=tuple(one for one in done if isinstance(one, RegressionUtility)),
        weights=WeightUse(found.variable, any(array is not None for array in arrays), found.repaired),
    )


def kept_columns(encoder: Encoder, released: Microdata, without: Sequence[str] = ()) -> np.ndarray:
    """Return (m,) bool: False for what was suppressed, levels and variables with one level left.

    What was suppressed on purpose would otherwise hide what masking did to the rest. ``without`` names
    variables that no figure may tell of, such as the areas between which a hidden group was moved:
    differences of correlation with them would give its counts back.
    """
    kept = np.ones(encoder.width, dtype=bool)
    for block in encoder.blocks:
        variable = block.variable
        if variable.name in without:
            kept[block.columns] = False
            continue
        if variable.name in released.schema and variable.is_categorical:
            there = released.level_counts(variable.name)
            held = [there.get(level, 0) > 0 for level in variable.levels or ()]
            kept[block.columns] = held if variable.kind == "nominal" else sum(held) > 1
    return kept


def _compared(
    matrices: Sequence[Floats], kept: np.ndarray, names: Sequence[str], arrays: Sequence[Floats | None]
) -> UtilityComparison | None:
    if not names:
        return None
    parts = [matrix[:, kept] for matrix in matrices]
    other = parts[2] if len(parts) > 2 else None
    return compare_utility(parts[0], parts[1], other, names=names, weights=arrays)


def _propensity(
    matrices: Sequence[Floats], arrays: Sequence[Floats | None], side: int, interactions: int
) -> Propensity:
    return propensity_utility(
        matrices[0],
        matrices[side],
        weights=arrays[0],
        other_weights=arrays[side],
        interactions=interactions,
    )
