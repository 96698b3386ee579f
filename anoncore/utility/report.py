"""All measures of a release's usefulness, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from anoncore.encoding import EncodedTables, Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.threads import in_threads
from anoncore.microdata import Microdata
from anoncore.summary import Summarised, SummaryTable
from anoncore.utility._sides import Floats, Weights, left_in, value_matrices, weighting
from anoncore.utility.automatic import Computed, automatic_regressions
from anoncore.utility.figures import FigureComparison, UtilityComparison, compare_utility
from anoncore.utility.marginals import MarginalUtility, marginal_utility
from anoncore.utility.pairs import PairUtility, pair_utility
from anoncore.utility.propensity import MODELS, Propensity, propensity_utility, tree_propensity
from anoncore.utility.regression import RegressionUtility, regression_utility
from anoncore.utility.regression_model import Regression
from anoncore.utility.structure import Structure, structure
from anoncore.utility.variables import VariableTable, VariableUtility, variable_utility

WORST = 10  # marginal tables that are named, the worst first
PAIRS = 2000  # tables of two variables that are compared at most
HEADER = ("figure", "released", "reference")


@dataclass(frozen=True, kw_only=True)
class UtilitySettings:
    """What is measured beside means, variances, correlations, single variables and pairs of them.

    Parameters
    ----------
    regressions : those whose results the release should keep
    automatic : regressions that are chosen from the original's associations beside them, at most
    computed : variables that edits compute, by name, with those that they are computed from, which no such regression
        joins
    interactions : products of columns that the propensity score uses at most
    triples : tables of three variables that are compared at most
    """

    regressions: tuple[Regression, ...] = ()
    automatic: int = 6
    computed: Computed = field(default_factory=dict)
    interactions: int = 0
    triples: int = 0


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


@dataclass(frozen=True, eq=False, repr=False)
class UtilityReport(Summarised):
    """How much of the original's statistics a release keeps, every figure beside the reference's.

    Parameters
    ----------
    columns : encoded columns that ``figures`` compares
    left_out : encoded columns that are not compared, their level or variable being suppressed
    figures : means, variances, correlations of the encoded columns; None when no column is left
    variables : every variable by itself
    pairs : the associations of all pairs of variables, on their own scales
    structure : what the original never holds, and how much of it the release does
    propensity : on all encoded columns, suppressed ones too; None when no column varies in the original
    tree : the same of a classification tree on the variables themselves; None where they cannot be compared
    marginals : tables of two variables, and of three where they were asked for; named are the worst alone
    regressions : those declared, in their order
    automatic : those chosen from the original's associations
    weights : how the survey weights were used that all of these respect
    units_left_out : statistical units of the original that comparisons leave out, see `measure_utility`
    """

    columns: tuple[str, ...]
    left_out: int
    figures: UtilityComparison | None
    variables: VariableTable
    pairs: PairUtility
    structure: Structure
    propensity: PropensityComparison | None
    tree: PropensityComparison | None
    marginals: tuple[MarginalUtility, ...]
    regressions: tuple[RegressionUtility, ...]
    automatic: tuple[RegressionUtility, ...]
    weights: WeightUse
    units_left_out: int = 0

    def __repr__(self) -> str:
        return f"UtilityReport({len(self.variables.variables)} variables, {len(self.columns)} encoded columns)"

    @property
    def worst_variable(self) -> VariableUtility | None:
        """The variable whose distance is largest beside its limit; None without variables."""
        return max(self.variables.variables, key=lambda one: one.beside_chance, default=None)

    def figure(self, name: str) -> FigureComparison | None:
        """Return one of the four figures; None when no column is left."""
        return next((one for one in self.figures.figures if one.name == name), None) if self.figures else None

    def summary_tables(self) -> Iterator[SummaryTable]:
        """Return the main figures beside the reference's; 0 is unchanged, but 1 in ratios and overlaps."""
        rows: list[tuple[object, ...]] = []
        if variable := self.worst_variable:
            base = variable.reference_shift and variable.reference_shift.distance
            rows.append((f"distance of {variable.name}, the worst variable", variable.released_shift.distance, base))
        if self.pairs.worst:
            pair = self.pairs.worst[0]
            rows.append(
                (f"{pair.measure} of {' and '.join(pair.variables)}, the worst pair", pair.change, pair.reference)
            )
        for name, score in (("propensity score", self.propensity), ("propensity score by a tree", self.tree)):
            if score:
                other = score.reference and score.reference.ratio
                rows.append((f"{name}, ratio to chance", score.released.ratio, other))
        for one in self.figures.figures if self.figures else ():
            rows.append((f"{one.name.replace('_', ' ')}, median", one.released_median, one.reference_median))
        for table in self.marginals:
            rows.append((f"tables of {table.size} variables, mean distance", table.mean, table.reference_mean))
        for fit in (*self.regressions, *self.automatic):
            overlap = fit.reference and fit.reference.mean_overlap
            rows.append((f"interval overlap of {fit.regression.formula}", fit.released.mean_overlap, overlap))
        yield SummaryTable("Utility: difference from the original", HEADER, rows)
        moved = [(f"{one.figure} of {one.variable}", one.released, one.reference) for one in self.variables.worst]
        yield SummaryTable("Variables that have moved most", HEADER, moved)


def measure_utility(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    settings: UtilitySettings | None = None,
    weights: Weights = None,
    encoded: EncodedTables | None = None,
    left_out: np.ndarray | None = None,
) -> UtilityReport:
    """Measure how useful a release is, beside a reference sample of the same population.

    Parameters
    ----------
    original, released, reference : Microdata
    settings : regressions to compare, and how much else is measured
    weights : name of the weight variable, or one array or None per table; the first variable with role
        "weight" when None; ``(None, None, None)`` for none at all
    encoded : the same tables and their encoding; when None the encoder is fitted here, to the variables that
        all tables have
    left_out : (N,) bool, records of the original without which the release is compared; whole statistical units, drawn
        at random and kept secret. Ranges, totals, and what the original never holds are of all records.

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
    Claim: none. An attacker who knows all units but one computes that one from how far a figure has moved, where the
    release and the figure are published: by one unit the share p of a level moves by 1/(N·√(p(1 − p))) of its standard
    deviations, more than figures are rounded to where the level is rare. With L units left out at random, whom the
    attacker does not know, a count has an error of √(L·p(1 − p)) besides. Source: that of each figure, else own.

    Examples
    --------
    >>> import pandas as pd
    >>> data = Microdata.from_frame(pd.DataFrame({"x": [1.5, 2, 3, 4], "y": [2.5, 1, 4, 3]}))
    >>> measure_utility(data, data).marginals[0].largest
    0.0
    """
    settings = settings or UtilitySettings()
    whole = [original, released] + ([] if reference is None else [reference])
    weighted = weighting(whole, weights)
    variables = variable_utility(original, released, reference, weights=weighted.given, left_out=left_out)
    tables, arrays = left_in(whole, weighted.arrays, left_out)
    encoder = encoded.encoder if encoded else _fitted(original, variables)
    matrices = encoded.matrices if encoded else [encoder.encode(table) for table in whole]
    if left_out is not None:
        original, matrices[0] = tables[0], matrices[0][~left_out]
    kept = kept_columns(encoder, released)
    names = tuple(name for name, keep in zip(encoder.column_names(), kept, strict=True) if keep)
    marginals = partial(marginal_utility, original, released, reference, weights=arrays)
    regression = partial(regression_utility, original=original, released=released, reference=reference, weights=arrays)
    chosen = automatic_regressions(original, settings.automatic, settings.computed) if settings.automatic else ()
    sizes = [(2, PAIRS)] + ([(3, settings.triples)] if settings.triples else [])
    jobs: list[Callable[[], Any]] = [
        partial(_compared, matrices, kept, names, arrays),
        *_propensities(tables, matrices if encoder.width else [], arrays, settings.interactions),
        partial(pair_utility, original, released, reference, weights=arrays),
        partial(structure, *whole),
        *(partial(marginals, size=size, limit=limit) for size, limit in sizes),
        *(partial(regression, one) for one in (*settings.regressions, *chosen)),
    ]
    done = list(in_threads(lambda job: job(), jobs))
    scores, trees = ([one for one in done if isinstance(one, Propensity) and one.model == m] for m in MODELS)
    fits = [one for one in done if isinstance(one, RegressionUtility)]
    return UtilityReport(
        columns=names,
        left_out=int((~kept).sum()),
        figures=done[0],
        variables=variables,
        pairs=next(one for one in done if isinstance(one, PairUtility)),
        structure=next(one for one in done if isinstance(one, Structure)),
        propensity=_beside(scores),
        tree=_beside(trees),
        marginals=tuple(one.worst_only(WORST) for one in done if isinstance(one, MarginalUtility)),
        regressions=tuple(fits[: len(settings.regressions)]),
        automatic=tuple(fits[len(settings.regressions) :]),
        weights=WeightUse(weighted.variable, any(array is not None for array in arrays), weighted.repaired),
        units_left_out=whole[0].n_units - original.n_units,
    )


def propensity_between(one: Microdata, other: Microdata) -> dict[str, Propensity]:
    """Return the propensity scores that separate two tables, by their models; of two samples this is a baseline.

    Parameters
    ----------
    one, other : Microdata with the same variables; the encoding is fitted to the first

    Returns
    -------
    dict by the names of `MODELS`, without a model that has no column
    """
    tables = [one, other]
    encoder = Encoder.fit(one)
    matrices = [encoder.encode(table) for table in tables] if encoder.width else []
    jobs = _propensities(tables, matrices, weighting(tables, None).arrays, 0)
    return {score.model: score for score in in_threads(lambda job: job(), jobs)}


def _propensities(
    tables: Sequence[Microdata], matrices: Sequence[Floats], arrays: Sequence[Floats | None], interactions: int
) -> list[Callable[[], Propensity]]:
    """Return what separates the first table from each other one, by regression and by tree, yet to be carried out.

    ``matrices`` are the encoded tables; none where no column varies.
    """
    score = partial(propensity_utility, weights=arrays[0], interactions=interactions)
    sides = list(zip(matrices, arrays, strict=True))[1:] if matrices else []
    plain = value_matrices(tables)
    tree = partial(tree_propensity, plain[0])
    others = plain[1:] if plain[0].shape[1] else []
    return [
        *(partial(score, matrices[0], matrix, other_weights=array) for matrix, array in sides),
        # Which records and permutations are taken is no secret: the same table gives the same figure.
        *(partial(tree, side, rng=np.random.default_rng(0)) for side in others),
    ]


def _beside(scores: Sequence[Propensity]) -> PropensityComparison | None:
    return PropensityComparison(scores[0], scores[1] if len(scores) > 1 else None) if scores else None


def kept_columns(encoder: Encoder, released: Microdata, without: Sequence[str] = ()) -> np.ndarray:
    """Return (m,) bool: False for what was suppressed, levels and variables with one level left.

    What was suppressed on purpose would otherwise hide what masking did to the rest. ``without`` names
    variables that no figure may describe, such as the areas between which a hidden group was moved:
    differences of correlation with them would give its counts back.
    """
    kept = np.ones(encoder.width, dtype=bool)
    for block in encoder.blocks:
        variable = block.variable
        if variable.name in without:
            kept[block.columns] = False
        elif variable.name in released.schema and variable.is_categorical:
            counts = released.level_counts(variable.name)
            held = [counts.get(level, 0) > 0 for level in variable.levels or ()]
            kept[block.columns] = held if variable.kind == "nominal" else sum(held) > 1
    return kept


def _fitted(original: Microdata, variables: VariableTable) -> Encoder:
    names = [name for name in original.schema.masked if name not in variables.absent]
    if not names:
        raise AnonymizationError("the release has none of the original's variables in a comparable form")
    return Encoder.fit(original.select(names))


def _compared(
    matrices: Sequence[Floats], kept: np.ndarray, names: Sequence[str], arrays: Sequence[Floats | None]
) -> UtilityComparison | None:
    if not names:
        return None
    return compare_utility(*(matrix[:, kept] for matrix in matrices), names=names, weights=arrays)
