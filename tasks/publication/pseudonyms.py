"""Pseudonyms in the releases of one plan: the rows of a unit carry the same one in each of them."""

from __future__ import annotations

import hmac

from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.errors import Refused
from tasks.common.run import Run
from tasks.common.workspace import StoredRecords
from tasks.connectors.fingerprint import record_digests
from tasks.intake.series import SeriesSection
from tasks.intake.split import Sides
from tasks.intake.units import persistent_names
from tasks.intake.validate import Checked
from tasks.masking.anonymize import Masked

BYTES = 8


def with_pseudonyms(
    run: Run, checked: Checked, sides: Sides, masked: Masked, section: SeriesSection, plan: str
) -> StoredRecords:
    """Return the released records with the pseudonym of each record's unit, as text of 16 characters.

    It is HMAC-SHA256 of what identifies the unit, 64 bits, with a key of the home and of the plan's name: other plans
    and other homes give the same unit another one.

    Raises
    ------
    Refused
        When the steps do not keep records, so that a released row is no unit's.
    """
    if section.pseudonym is None or checked.keys is None:
        return masked.released
    if not masked.keeps_records:
        raise Refused(
            "series: pseudonym needs steps that mask each record, and these make records that are no one's; remove it, "
            "or choose other steps"
        )
    released, original = masked.released.load(), sides.original.load()
    known = checked.keys.load().iloc[original.frame.index]
    rows = record_digests(original.frame[list(original.schema.masked)])
    identities = persistent_names(known, original.unit_codes, rows)
    places = original.frame.index.get_indexer(released.frame.index)
    key = hmac.digest(run.home.digest_secret(), b"pseudonyms of " + plan.encode(), "sha256")
    named = [hmac.digest(key, one.tobytes(), "sha256")[:BYTES].hex() for one in identities.astype("<u8")]
    frame = released.frame.assign(**{section.pseudonym: [named[unit] for unit in original.unit_codes[places]]})
    schema = Schema([*released.schema, Variable(section.pseudonym, "nominal", role="identifier")])
    return run.workspace.store("with-pseudonyms", Microdata(frame, schema, released.units))
