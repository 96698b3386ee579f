"""What every run begins with: the source is read, its edits are checked, the reference sample is set apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flows.plan.engine import judged_by_sub_table
from flows.plan.model import PlanFile
from tasks.common.keys import keyed_digest
from tasks.common.run import Run
from tasks.intake.ingest import Ingested, ingest
from tasks.intake.partitions import ingest_partitions
from tasks.intake.split import Split, split
from tasks.intake.units import Declared
from tasks.intake.validate import Checked, validate_raw


@dataclass(frozen=True)
class Prepared:
    """A plan's table, ready to be masked.

    Parameters
    ----------
    run : bound to the digest of the source
    plan_digest, masking : of the plan, keyed where it states something confidential, and of what masks in it, keyed
    ingested, checked, split : results of the steps
    """

    run: Run
    plan_digest: str
    masking: str
    ingested: Ingested
    checked: Checked
    split: Split


def plan_digest(run: Run, file: PlanFile) -> str:
    """Return the digest of a plan, keyed where the plan states something confidential."""
    return keyed_digest(run.home, file.plan.digest) if file.plan.confides else file.plan.digest


def read_source(run: Run, file: PlanFile, step: Callable[..., Any]) -> Ingested:
    """Read a plan's source as a step."""
    plan = file.plan
    read, more = (ingest, (plan.reference.sampling_units,)) if run.executor is None else (ingest_partitions, ())
    ingested: Ingested = step(
        "Read the source", read, run, plan.source, plan.variables, file.base, plan.unit, *more, retry=True
    )
    return ingested


def prepare(run: Run, file: PlanFile, step: Callable[..., Any], ingested: Ingested, *, trial: bool = False) -> Prepared:
    """Check the edits on the records that were read, and set the reference sample apart.

    A trial of settings masks one half of a ``cross`` and tests it with the other.
    """
    plan = file.plan
    run = run.bound_to(ingested.summary.digest)
    checked = step("Check the edits on the raw data", validate_raw, run, ingested, plan.edits)
    reference = plan.reference.of_one_half if trial else plan.reference
    most = plan.assessment.sample_above if not trial and judged_by_sub_table(plan) else None
    given = (run, checked, reference, Declared(plan.variables, plan.unit), file.base, most)
    sides = step("Set the reference apart", split, *given, retry=True)
    return Prepared(
        run, plan_digest(run, file), keyed_digest(run.home, f"masking {plan.masking}"), ingested, checked, sides
    )
