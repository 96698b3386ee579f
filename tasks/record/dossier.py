"""The dossier of a candidate: everything on which a person decides, in counts, figures and names, never data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from anoncore.microdata import Variable
from expectations.report import RuleOutcome, ValidationReport
from tasks.common.digests import digest_of, jsonable, plain
from tasks.common.errors import Refused
from tasks.common.home import DOSSIER, Home
from tasks.common.values import from_json, to_json
from tasks.policy.assessment import Assessment
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import at_least_ten
from tasks.policy.verdict import Verdict
from tasks.record.entry import TargetFacts

FORMAT = 1
CHANGED = "the dossier was changed, or is of another format; restore it from a backup"


@dataclass(frozen=True, kw_only=True)
class HealthFacts:
    """What a plan states of a data set on health; its section `publication: health` says what each means."""

    categories: tuple[str, ...]
    themes: tuple[str, ...]
    purposes: tuple[str, ...]
    places: tuple[str, ...]
    kind: str
    keywords: tuple[str, ...]
    provenance: str
    access: str
    email: str
    page: str
    publisher_type: str
    publisher_note: str
    trusted: bool
    access_body: str
    access_body_email: str
    access_body_page: str


@dataclass(frozen=True)
class PlanIdentity:
    """The plan of a run, the digests by which it and what masks in it are recognised, and what it says to readers.

    Parameters
    ----------
    passport : the formats of metadata that are published
    health : what it states of a data set on health, if it is one
    """

    name: str
    digest: str
    title: str = ""
    description: str = ""
    masking: str = ""
    contact: str = ""
    licence: str = ""
    passport: tuple[str, ...] = ()
    health: HealthFacts | None = None


@dataclass(frozen=True)
class RunFacts:
    """The run that made a candidate.

    Parameters
    ----------
    by, requester : the account that ran the plan, and the one that asked for it
    code : SHA-256 of the installed sources
    versions : of the libraries, by name
    seed : where randomness came from, in words; never the seed
    rebuild : whether it was asked to draw anew, though plan and data may be unchanged
    """

    id: str
    created: str
    by: str
    requester: str
    code: str
    versions: Mapping[str, str]
    seed: str
    rebuild: bool = False


@dataclass(frozen=True)
class SourceSummary:
    """The table that was read: counts and digests, no values.

    Parameters
    ----------
    records, units, variables : how many of them
    unit : the columns by which records belong to one statistical unit; empty where each is a unit of its own
    dropped : its identifiers and excluded columns, which are not released
    digest : SHA-256 of its content
    records_digest : of its records in any order, without identifiers; keyed, so that guesses cannot be tried on it
    notes : what reading has changed or noticed, a sentence each
    """

    records: int
    units: int
    unit: tuple[str, ...]
    variables: int
    dropped: tuple[str, ...]
    digest: str
    records_digest: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitSummary:
    """The masked records and the reference sample: their sizes, and why they share no unit.

    Parameters
    ----------
    original, reference, unused : records
    original_units, reference_units : statistical units
    disjoint : how it is known that the two share no unit
    coinciding : records of the original whose values a record of the reference has, too
    sampling_units : how many are on either side, each of them whole; empty where the plan does not name them
    """

    kind: str
    original: int
    reference: int
    unused: int
    original_units: int
    reference_units: int
    disjoint: str
    coinciding: int
    sampling_units: tuple[int, ...] = ()

    @property
    def published(self) -> SplitSummary:
        """The summary with records that coincide to the next ten: an exact number depends on single people.

        Beside a file, which an attacker may have, no number is published: it would follow from all members.
        """
        return replace(self, coinciding=0 if self.kind == "file" else at_least_ten(self.coinciding))


@dataclass(frozen=True)
class RepairSummary:
    """What was changed after masking so that the edits hold: records, cells, and records by edit.

    Parameters
    ----------
    share : of all released cells, those that were changed
    """

    records: int
    cells: int
    edits: Mapping[str, int]
    share: float


@dataclass(frozen=True)
class PublishedEdits:
    """What is published of the edits: nothing that was counted in the source.

    Whether a rule that was found in the data holds, or how many records break one, may be due to a single person.

    Parameters
    ----------
    policy : as in `EditFacts`
    rules : the outcomes on the released data of the rules that are published
    all_named : whether these are all rules
    repaired : without the rules that are not published
    unverifiable : those of the published rules
    """

    policy: str
    rules: tuple[RuleOutcome, ...]
    all_named: bool
    repaired: RepairSummary
    unverifiable: tuple[str, ...]


@dataclass(frozen=True)
class EditFacts:
    """The declared edits before and after masking.

    Parameters
    ----------
    policy : what the plan asks for raw records that violate an edit
    set_aside : raw records that were left out for that reason
    unverifiable : edits that released ranges cannot be shown to satisfy
    unpublished : edits that documents which are published do not name
    """

    policy: str
    set_aside: int
    raw: ValidationReport
    masked: ValidationReport
    repaired: RepairSummary
    unverifiable: tuple[str, ...] = ()
    unpublished: tuple[str, ...] = ()

    @property
    def published(self) -> PublishedEdits:
        """What may be published."""
        hidden = set(self.unpublished)
        return PublishedEdits(
            policy=self.policy,
            rules=tuple(rule for rule in self.masked.rules if rule.name not in hidden),
            all_named=not hidden,
            repaired=replace(self.repaired, edits={k: n for k, n in self.repaired.edits.items() if k not in hidden}),
            unverifiable=tuple(name for name in self.unverifiable if name not in hidden),
        )


@dataclass(frozen=True)
class MethodStep:
    """One masking step: its method, and the parameters that are not confidential."""

    method: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> MethodStep:
        """Return the step of a method and its parameters in one mapping."""
        return cls(stated["method"], {name: value for name, value in stated.items() if name != "method"})


@dataclass(frozen=True)
class MethodFacts:
    """The masking steps, and what they have noticed, a sentence each."""

    steps: tuple[MethodStep, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ApprovalTerms:
    """Who must approve the candidate when a person decides, and within how many days."""

    approvers: int = 1
    names: tuple[str, ...] = ()
    requester_may_approve: bool = True
    within_days: float | None = None


@dataclass(frozen=True)
class ReleasedFile:
    """A data file of a release, which holds all records, or a part of them where several files are of one format."""

    name: str
    bytes: int
    sha256: str
    records: int


@dataclass(frozen=True)
class ReleaseIdentity:
    """A release as it would be published; its id is taken from its content.

    Parameters
    ----------
    name : the plan's
    variables : as released, with the levels that occur
    targets : where the plan has it delivered, as the plan states it
    missing : released values that are missing, by variable
    """

    id: str
    name: str
    records: int
    variables: tuple[Variable, ...] = ()
    files: tuple[ReleasedFile, ...] = ()
    targets: tuple[TargetFacts, ...] = ()
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """Earlier runs on the same data, and their releases under other plans."""

    earlier_runs: int = 0
    published: int = 0


@dataclass(frozen=True)
class Dossier:
    """All facts on a candidate; its digest is what people approve and the ledger holds.

    Parameters
    ----------
    unprotected : why single records are not protected; empty where they are
    assessment : every figure of risk and utility
    files : SHA-256 of each file of the candidate, by name; empty until all are written
    """

    plan: PlanIdentity
    run: RunFacts
    source: SourceSummary
    split: SplitSummary
    edits: EditFacts
    method: MethodFacts
    assessment: Assessment
    verdict: Verdict
    release: ReleaseIdentity
    approval: ApprovalTerms = ApprovalTerms()
    history: History = History()
    unprotected: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, object]:
        """The parts by their names, as templates take them."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def published_parts(self, shown: PublishedAssessment) -> dict[str, object]:
        """Return the parts as templates of published documents take them."""
        return self.parts | {"assessment": shown, "edits": self.edits.published, "split": self.split.published}

    def to_dict(self) -> dict[str, Any]:
        """Return the dossier as plain values, each part under its name."""
        return dict(self._plain)

    @cached_property
    def _plain(self) -> dict[str, Any]:
        # As it will be read back: a whole number in place of a float would give another digest then.
        return {"format": FORMAT, **to_json(from_json(Dossier, plain(to_json(self))))}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the dossier in canonical form, in hexadecimal."""
        return digest_of(self.to_dict())

    def to_json(self) -> bytes:
        """Return the dossier as it is stored: its parts and its digest."""
        stored = self.to_dict() | {"sha256": self.digest}
        return (json.dumps(stored, indent=1, ensure_ascii=False, default=jsonable) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Dossier:
        """Return a stored dossier.

        Raises
        ------
        Refused
            When it is not what it was stored as, or of another format.
        """
        stored, _ = _stored(content)
        del stored["format"]
        try:
            return from_json(Dossier, stored)
        except ValueError:
            pass
        raise Refused(CHANGED)


def stored_digest(content: bytes) -> str:
    """Return the digest of a stored dossier, which it has in fact.

    Raises
    ------
    Refused
        When it is not what it was stored as, or of another format.
    """
    return _stored(content)[1]


def _stored(content: bytes) -> tuple[dict[str, Any], str]:
    """Return the plain values of a stored dossier, and their digest."""
    try:
        stored = json.loads(content)
        digest, version = stored.pop("sha256"), stored["format"]
    except (ValueError, AttributeError, KeyError, TypeError):
        digest, version = "", None
    if version != FORMAT or digest_of(stored) != digest:
        raise Refused(CHANGED)
    return stored, digest


def find_dossier(home: Home, release: str) -> Dossier | None:
    """Return the dossier that a home stores of a candidate, also of a rejected one; None of one that was pruned.

    Raises
    ------
    Refused
        When it is not what it was stored as.
    """
    path = home.assessment(release) / DOSSIER
    return Dossier.from_json(path.read_bytes()) if path.exists() else None


def find_verdict(home: Home, release: str) -> Verdict | None:
    """Return what the policy said of a candidate, without the rest of its dossier; None of one that was pruned.

    Raises
    ------
    Refused
        When the dossier is not what it was stored as.
    """
    path = home.assessment(release) / DOSSIER
    if not path.exists():
        return None
    stored, _ = _stored(path.read_bytes())
    try:
        return from_json(Verdict, stored.get("verdict"))
    except ValueError:
        pass
    raise Refused(CHANGED)


def read_dossier(home: Home, release: str) -> Dossier:
    """Return the dossier of a candidate that was not pruned; errors as of `find_dossier`, and `Refused` without one."""
    if (dossier := find_dossier(home, release)) is None:
        raise Refused(f"the dossier of {release} is not in the home any more")
    return dossier
