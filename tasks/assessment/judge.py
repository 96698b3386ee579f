"""Mask, check, measure and decide: what a plan's sections say of one table, and nothing is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.intake.validate import EditsSection, Validated, validate_masked
from tasks.masking.anonymize import Masked, Step
from tasks.masking.partitions import mask_records
from tasks.policy.assessment import Assessment
from tasks.policy.section import PolicySection
from tasks.policy.verdict import Verdict, decide


class Sections(Protocol):
    """The sections of a plan on which a verdict depends."""

    steps: tuple[Step, ...]
    edits: EditsSection
    assessment: AssessmentSection
    policy: PolicySection


@dataclass(frozen=True)
class Judged:
    """The masked data by reference, how the edits fared, every figure, and the verdict."""

    masked: Masked
    validated: Validated
    assessment: Assessment
    verdict: Verdict


def mask_and_judge(run: Run, sides: Sides, plan: Sections) -> Judged:
    """Carry a plan's steps out on the original side and put the policy's gates to the result.

    Neither earlier releases nor the in/out game are looked at: both belong to a release.
    """
    masked = mask_records(run, sides.original, plan.steps, plan.edits.edit_set())
    validated = validate_masked(masked, plan.edits, sides.original)
    assessment = assess(run, sides, masked, plan.assessment, plan.policy).assessment
    return Judged(masked, validated, assessment, decide(assessment, plan.policy))
