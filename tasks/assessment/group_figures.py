"""Measure whether a release repeats what was computed from all records of a group."""

from __future__ import annotations

from dataclasses import replace

from anoncore.recoding import recoded
from anoncore.risk import GroupFigure, group_figures
from tasks.assessment.assess import MaskedSides
from tasks.policy.assessment import Assessment


def with_group_figures(assessment: Assessment, compared: MaskedSides, figures: tuple[GroupFigure, ...]) -> Assessment:
    """Return the assessment with the figures of groups that the release repeats.

    Parameters
    ----------
    compared : the original records, which hold the figures as they are, and what is released of them: all, or those
        of the sub-table where the table is in partitions
    figures : those that were found when the whole table was read
    """
    # A figure stands beside the level that its group has in the release.
    levels = tuple(one for one in compared.masked.recodings if one.levels)
    original = recoded(compared.sides.original.load(), levels)
    found = group_figures(original, compared.masked.measured.load(), figures)
    return replace(assessment, risk=replace(assessment.risk, group_figures=found))
