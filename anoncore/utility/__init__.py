"""Utility: how well a release keeps distributions, correlations and results, beside a reference sample."""

from anoncore.utility._coefficients import Coefficient, Estimate
from anoncore.utility._shifts import Shift, Summary
from anoncore.utility.figures import (
    Figure,
    FigureComparison,
    UtilityComparison,
    UtilityFigures,
    compare_utility,
    utility_figures,
)
from anoncore.utility.marginals import MarginalUtility, marginal_utility
from anoncore.utility.pairs import PairChange, PairUtility, pair_utility
from anoncore.utility.propensity import Propensity, propensity_utility, tree_propensity
from anoncore.utility.regression import RegressionComparison, RegressionUtility, regression_utility
from anoncore.utility.regression_model import Regression
from anoncore.utility.report import (
    PropensityComparison,
    UtilityReport,
    UtilitySettings,
    WeightUse,
    kept_columns,
    measure_utility,
    propensity_between,
)
from anoncore.utility.structure import Pattern, Structure, structure
from anoncore.utility.totals import TotalKept
from anoncore.utility.variables import (
    VariableTable,
    VariableUtility,
    WorstVariable,
    variable_utility,
)

__all__ = [
    "Coefficient",
    "Estimate",
    "Figure",
    "FigureComparison",
    "MarginalUtility",
    "PairChange",
    "PairUtility",
    "Pattern",
    "Propensity",
    "PropensityComparison",
    "Regression",
    "RegressionComparison",
    "RegressionUtility",
    "Shift",
    "Structure",
    "Summary",
    "TotalKept",
    "UtilityComparison",
    "UtilityFigures",
    "UtilityReport",
    "UtilitySettings",
    "VariableTable",
    "VariableUtility",
    "WeightUse",
    "WorstVariable",
    "compare_utility",
    "kept_columns",
    "marginal_utility",
    "measure_utility",
    "pair_utility",
    "propensity_between",
    "propensity_utility",
    "regression_utility",
    "structure",
    "tree_propensity",
    "utility_figures",
    "variable_utility",
]
