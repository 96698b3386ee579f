"""Earlier releases of the same table: what an attacker gains who puts all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.microdata import ComparedUnits, Microdata, Schema, Variable
from anoncore.recoding import Recoding, in_unknown_levels, recoded
from anoncore.risk import MEMBERSHIP_ATTACKS, AveragingAttack, averaging_attack
from anoncore.risk.scores import Certainty
from tasks.assessment.assess import AssessmentSection
from tasks.common.errors import Refused
from tasks.common.partitions import StoredPartitions
from tasks.common.run import Run
from tasks.intake.columns import to_microdata
from tasks.intake.members import recognised
from tasks.intake.read import read
from tasks.intake.source import SourceSection
from tasks.intake.split import Sides, Split
from tasks.intake.validate import Checked
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import PriorReleases
from tasks.policy.section import PolicySection
from tasks.record.members import counted
from tasks.record.predecessors import Predecessor, codebook_of

# The newest; each costs two searches.
AT_MOST = 50
# Of the records of an earlier release, so many hold levels that people have, or a variable is not compared.
KNOWN = 0.9
KINDS = ("data.parquet", "data.csv", "data.sav", "data.dta", "data.xpt")
# Of the units held out, the share that an earlier release may hold: the boundary moves a little as units come and go.
MOST_KNOWN = 0.1
# The same where units are known by their values alone, which some share.
MOST_ALIKE = 0.5


def against_earlier(
    run: Run,
    earlier: tuple[Predecessor, ...],
    checked: Checked,
    sides: Split,
    masked: Masked,
    section: AssessmentSection,
) -> PriorReleases:
    """Attack with all releases of these units together, the candidate last.

    One that lacks variables of the candidate, or is of units that are held out now, or of which this is not known,
    cannot be compared, and is counted. With a table in partitions none is compared.
    """
    if not earlier or sides.reference is None or isinstance(sides.reference, StoredPartitions):
        return PriorReleases(len(earlier))
    apart = _apart(run, earlier, checked, sides)
    folders = [run.home.files_of(one.facts.name, one.facts.release) for one in apart]
    return PriorReleases(len(earlier), *_attacked(run, folders[-AT_MOST:], sides, masked, section))


def _apart(run: Run, earlier: tuple[Predecessor, ...], checked: Checked, sides: Split) -> Iterator[Predecessor]:
    """Return the releases in which the units held out are not: their non-members would be members of the others."""
    if sides.summary.kind != "holdout" or sides.reference is None:
        yield from earlier
        return
    keys = None if checked.keys is None else checked.keys.load()
    held_out = recognised(run, sides.reference.load(), keys)
    for one in earlier:
        most = MOST_KNOWN if keys is not None and one.units == "identities" else MOST_ALIKE
        before = one.members(run.home)
        if before is not None and counted(one.known(held_out).in_common(before)) <= most * held_out.count:
            yield one


def _attacked(
    run: Run, folders: list[Path], sides: Split, masked: Masked, section: AssessmentSection
) -> tuple[int, AveragingAttack | None]:
    """Return how many releases could be compared, and the attack with them and the candidate.

    Where all units are in the release those are attacked of whom risk is published.
    A release in finer levels than the candidate's is recoded as this is; one in levels that cannot be compared is not.
    """
    names = comparable(sides.original.load(), candidate := masked.measured.load(), masked)
    if not names:
        return 0, None
    people = recoded_people(sides, names, masked.recodings)
    left_out = None if sides.summary.kind == "holdout" else sides.left_out_rows("risk")
    if left_out is not None:
        people = people[0].take(np.flatnonzero(~left_out)), people[1]
    found = (in_levels_of(people[0], whole_release(run, folder), masked.recodings) for folder in folders)
    before = [table for table, _ in found if table is not None and table.schema.names == people[0].schema.names]
    attack = by_all_releases(run, people, [*before, candidate], section) if before else None
    return (0, None) if attack is None else (len(before), attack)


def recoded_people(sides: Sides, names: list[str], recodings: tuple[Recoding, ...]) -> tuple[Microdata, Microdata]:
    """Return the original and the reference in the levels of the release, with the variables that are compared."""
    assert sides.reference is not None
    original, reference = (recoded(side.load(), recodings).select(names) for side in (sides.original, sides.reference))
    return original, reference


def by_all_releases(
    run: Run,
    people: tuple[Microdata, Microdata],
    releases: list[Microdata],
    section: AssessmentSection,
    *,
    pseudonyms: bool = False,
) -> AveragingAttack | None:
    """Attack the records of one side with all of its releases, the newest last.

    Parameters
    ----------
    people : members and non-members, see `recoded_people`
    pseudonyms : whether an attacker can join the rows of a unit

    Returns
    -------
    AveragingAttack, or None
        None where nothing is encoded, and where a variable is released in levels none of which people have: the attack
        would guess, whatever the releases disclose.
    """
    original, reference = people
    encoder = Encoder.fit(original)
    if not encoder.width or any(in_unknown_levels(table, original) for table in releases):
        return None
    rng, settings = run.rng("earlier"), section.settings(PolicySection())
    asked = [side.take(settings.queries(len(side), rng)) for side in (original, reference)]
    members, others = (encoder.encode(side) for side in asked)
    tables = [encoder.encode(table.select(original.schema.names)) for table in releases]
    units = ComparedUnits(*(side.units for side in asked))
    owners = [table.frame.index.to_numpy() if table.units is None else table.units for table in releases]
    return averaging_attack(
        members,
        others,
        tables,
        certainty=Certainty(tests=MEMBERSHIP_ATTACKS, units=units),
        pseudonyms=owners if pseudonyms else None,
    )


def comparable(original: Microdata, candidate: Microdata, masked: Masked) -> list[str]:
    """Return the variables by which releases are compared.

    Between those that hide a group its members were moved, and what that did is not to be disclosed.
    """
    return [n for n in candidate.schema.names if n in original.schema and n not in masked.hidden_variables]


def in_levels_of(
    people: Microdata, before: Microdata | None, recodings: tuple[Recoding, ...]
) -> tuple[Microdata | None, int]:
    """Return an earlier release in the levels of people, and how many variables of both have no level in common.

    It may hold the levels of the source, which are recoded as the people's were, or levels that were recoded alike.

    Parameters
    ----------
    people : records of the source, recoded
    before : all variables of the earlier release; None where it cannot be read
    recodings : by which the people's levels became coarser
    """
    kinds = {} if before is None else {v.name: v.is_categorical for v in before.schema}
    both = [v for v in people.schema if kinds.get(v.name) == v.is_categorical]
    if before is None or not both:
        return None, 0
    variables = [replace(before.schema[v.name], precision=v.precision) for v in both]
    before = Microdata.trusted(before.frame[[v.name for v in both]], Schema(variables), before.units)
    # Numbers that were put into intervals stay in their middles.
    coarse, taken = recoded(before, recodings), dict[str, Microdata]()
    for v in both:
        as_it_is, again = (_known(people, table, v.name) for table in (before, coarse))
        if max(as_it_is, again) > 0:
            taken[v.name] = before if v.is_categorical and as_it_is >= again else coarse
    if not taken:
        return None, len(both)
    frame = pd.DataFrame({name: table.frame[name] for name, table in taken.items()})
    schema = Schema(table.schema[name] for name, table in taken.items())
    return Microdata.trusted(frame, schema, before.units), len(both) - len(taken)


def _known(people: Microdata, table: Microdata, name: str) -> float:
    """Return the share of the records whose level of a variable is one of the people's, or whose number is present."""
    column = table.frame[name]
    if people.schema[name].is_categorical:
        share = float(column.dropna().isin(people.frame[name].dropna().unique()).mean())
        # A level such as "other" that both have does not make the rest comparable.
        return share if share >= KNOWN else 0.0
    return float(column.notna().mean())


def whole_release(run: Run, folder: Path) -> Microdata | None:
    """Return all variables of an earlier release, by its own codebook; None where it cannot be read.

    Levels may have been merged or emptied, and numbers rounded: they are what the release holds.
    """
    file = next((folder / name for name in KINDS if (folder / name).is_file()), None)
    held = codebook_of(folder).get("variables", [])
    if file is None or not held:
        return None
    variables = tuple(Variable(v["name"], v["kind"], temporal=v.get("temporal")) for v in held)
    try:
        frame, _ = read(run, SourceSection(path=file.name), variables, folder)
        return to_microdata(frame[[v.name for v in variables]], variables)[0]
    except (AnonymizationError, Refused, KeyError):
        return None
