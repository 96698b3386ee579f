"""Check the declared edits, on the raw data and again on what is to be released."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from anoncore.boxes.edits import over_ranges
from anoncore.edits.model import BoundEdit, ConditionalEdit, EditSet, LinearEdit, RatioEdit, SetEdit
from expectations.report import validate as run_suite
from tasks.common.errors import Fault, Refused
from tasks.common.workspace import Run, Section

Rule = Annotated[LinearEdit | BoundEdit | SetEdit | ConditionalEdit | RatioEdit, Field(discriminator="edit")]


class EditsSection(Section):
    """What every record must satisfy, before and after masking.

    Parameters
    ----------
    on_violation : What happens to source records that violate an edit: ``refuse`` ends the run and names the edits;
        ``set-aside`` leaves the records out of the release; ``repair`` keeps them, since masked records are made to
        satisfy every edit in any case.
    rules : Each of the kind ``linear``, ``bound``, ``set``, ``conditional`` or ``ratio``.
    """

    on_violation: Literal["refuse", "set-aside", "repair"] = "refuse"
    rules: tuple[Rule, ...] = ()

    def edit_set(self) -> EditSet:
        """Return the edits as one set."""
        return EditSet(self.rules)


def validate_raw(run: Run, section: EditsSection) -> dict[str, int]:
    """Count violations in the raw data, carry out the plan's policy, and return how many it sets aside.

    Raises
    ------
    Refused
        With policy ``refuse`` and a violated edit; with ``set-aside`` when too few records are left.
    """
    data = run.load("source")
    edits = section.edit_set()
    report = run_suite(data.frame, data.schema, edits)
    run.write_json("validated-raw", report.to_dict())
    broken = [rule for rule in report.rules if not rule.success]
    failed = [rule for rule in broken if rule.error]
    if failed:
        raise Fault(f"checks that could not be carried out: {', '.join(r.name for r in failed)}")
    if broken and section.on_violation == "refuse":
        counts = ", ".join(f"{rule.name} ({rule.violated})" for rule in broken)
        raise Refused(
            f"the raw data violate edits (records): {counts}; correct the data or the edits, "
            "or state on_violation: set-aside or repair"
        )
    aside = 0
    if broken and section.on_violation == "set-aside":
        good = edits.satisfied(data.frame)
        aside = int((~good).sum())
        if good.sum() < 4:
            raise Refused(f"{aside} of {len(data)} records violate an edit; too few are left to release")
        run.save("source", data.take(np.flatnonzero(good)))
    return {"set_aside": aside}


def validate_masked(run: Run, section: EditsSection) -> None:
    """Prove that the data to be released satisfy every edit.

    Of ranges it is shown that each holds a value with which the edit is satisfied.

    Raises
    ------
    Fault
        When one does not hold, since the repair step has promised it.
    Refused
        When ranges hold no such value.
    """
    data = run.load("released")
    edits = section.edit_set()
    silent: tuple[str, ...] = ()
    if run.has("points"):
        edits, silent = over_ranges(edits, [n for n in run.load("points").schema.names if n not in data.schema])
    report = run_suite(data.frame, data.schema, edits)
    run.write_json("validated-masked", report.to_dict() | {"silent": silent})
    run.write_json("suite", {"json": report.suite_json, "sha256": report.suite_digest})
    broken = [rule.name for rule in report.rules if not rule.success]
    if broken and run.has("points"):
        raise Refused(
            f"no value in some ranges satisfies: {', '.join(broken)}; records that break an edit must be "
            "set aside before they are put into boxes (on_violation: set-aside)"
        )
    if broken:
        raise Fault(f"after repair the masked data still violate: {', '.join(broken)}; nothing is released")
