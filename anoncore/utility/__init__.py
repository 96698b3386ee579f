"""Utility: how far a release moves means, variances and correlations, beside a reference sample."""

from anoncore.utility.figures import (
    Figure,
    FigureComparison,
    UtilityComparison,
    UtilityFigures,
    compare_utility,
    utility_figures,
)

__all__ = [
    "Figure",
    "FigureComparison",
    "UtilityComparison",
    "UtilityFigures",
    "compare_utility",
    "utility_figures",
]
