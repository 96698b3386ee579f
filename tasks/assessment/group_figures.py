"""Measure whether a release repeats what was computed from all records of a group."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk import GroupFigure, group_figures
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Assessment


def with_group_figures(
    assessment: Assessment, sides: Sides, masked: Masked, figures: tuple[GroupFigure, ...]
) -> Assessment:
    """Return the assessment with the figures of groups that the release repeats.

    Parameters
    ----------
    sides, masked : the original records, which hold the figures as they are, and the whole release
    figures : those that were found when the whole table was read
    """
    found = group_figures(sides.original.load(), masked.measured.load(), figures)
    return replace(assessment, risk=replace(assessment.risk, group_figures=found))
