"""Entries of the ledger: what each kind holds, and the one form in which an entry is written, signed and read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeVar, get_args

from tasks.common.values import from_json, to_json

FORMAT: Final = 1
# What the first entry names as the digest of the entry before it.
START = "0" * 64

Asked = Literal["awaiting", "approved", "rejected", "expired", "superseded"]
Placed = Literal["publishing", "published", "unchanged", "abandoned", "withdrawing", "withdrawn"]
DeliveryEvent = Literal["delivering", "delivered", "delivery failed", "recalled", "recall failed"]
ApproverEvent = Literal["approver-added", "approver-removed"]
LossEvent = Literal["resumed", "settled"]
ExchangeEvent = Literal["digests-exported", "digests-imported"]
OwnEvent = Literal["key-rotated", "mirror-rebuilt", "pruned"]
Event = Literal[Asked, Placed, DeliveryEvent, ApproverEvent, ExchangeEvent, LossEvent, OwnEvent]


# Who decided where no person did; no person may be called so.
NOBODY = "the policy alone"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What every entry holds apart from its place in the ledger: counts, digests, names and reasons, never data.

    Attributes
    ----------
    by : the account that made the entry, or the name that was stated
    """

    by: str

    @property
    def subject(self) -> str:
        """The release, the approver or the office that an entry is about; empty where it is about this home itself."""
        return str(getattr(self, "release", getattr(self, "approver", getattr(self, "office", ""))))

    @property
    def actor(self) -> str:
        """The approver who decided, else who made the entry."""
        decided = getattr(self, "decided", None)
        return decided.approver if decided else self.by


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Who must approve a candidate and until when, as the plan asked when the candidate was made.

    Attributes
    ----------
    approvers : how many must approve
    names : who may; everyone on the list where it is empty
    requester_may_approve : whether the requester, and the account that ran the plan, may approve
    expires : when the time to decide ends; never where it is empty
    signed : whether the home had approvers with keys then
    """

    approvers: int = 1
    names: tuple[str, ...] = ()
    requester_may_approve: bool = True
    expires: str = ""
    signed: bool = False


@dataclass(frozen=True, kw_only=True)
class SignedDecision:
    """The decision of one approver; without key and signature where the home has no list of approvers."""

    approver: str
    reason: str
    key: str = ""
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class KeyFingerprints:
    """Fingerprints of the secrets that stay the same in every run of a home; None where a secret is not there."""

    digests: str | None = None
    holdout: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts(Facts):
    """What is entered of a candidate, and of the release that it becomes.

    Attributes
    ----------
    run, requester, name, release : which run, for whom, of which plan, and the identity of its content
    plan, data, records, dossier : digests of the plan, of the source and its records, and of the dossier
    masking : digest of what masks in the plan, keyed
    rebuild : whether it was drawn anew on demand
    candidate : SHA-256 of each file of the candidate
    verdict, reason, gates : what the policy says, why, and each gate's verdict and figure
    unprotected : why single records are not protected; empty where they are
    open_risk : whether a gate on risk failed or is open, that of few changed units aside
    mlflow_run, mlflow : the tracked run, and digests of what it held when it was logged
    custodian : SHA-256 of each page that only the custodian reads
    terms : who must approve; only of candidates that were presented to approvers
    superseded_by : the newer candidate or release of the same plan that took this candidate's place
    decided, approvals : the decision that an entry is about; every approval behind a publication
    manifest, files : SHA-256 of the published manifest and of each published file
    recovered : whether a later run settled what a crash had cut short
    """

    run: str
    requester: str
    name: str
    release: str
    plan: str
    data: str
    records: str
    dossier: str
    masking: str
    candidate: Mapping[str, str]
    verdict: Literal["publish", "reject", "await"]
    reason: str
    gates: Mapping[str, tuple[str, str]]
    mlflow_run: str
    mlflow: Mapping[str, str]
    version: str
    code: str
    custodian: Mapping[str, str]
    keys: KeyFingerprints
    rebuild: bool = False
    open_risk: bool = False
    unprotected: str = ""
    terms: Terms | None = None
    superseded_by: str = ""
    decided: SignedDecision | None = None
    approvals: tuple[SignedDecision, ...] = ()
    manifest: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    recovered: bool = False

    @property
    def decided_by(self) -> str:
        """Who approved the release or decided otherwise; the policy where no person did."""
        people = self.approvals or filter(None, [self.decided])
        return "; ".join(one.approver for one in people) or NOBODY

    def is_about(self, data: str, records: str) -> bool:
        """Return whether the source was the same file, or held the same records."""
        return self.data == data or self.records == records


@dataclass(frozen=True, kw_only=True)
class TargetFacts:
    """A table or folder to which releases are delivered: names, and never a secret."""

    table: str | None = None
    database: str | None = None
    if_exists: str | None = None
    folder: str | None = None
    storage: str | None = None

    @property
    def system(self) -> str:
        """The database or storage in which the target is."""
        return f"database {self.database}" if self.table is not None else f"storage {self.storage or ''}"


@dataclass(frozen=True, kw_only=True)
class DeliveryFacts(Facts):
    """What is entered of the delivery of a release: by its manifest's digest, to which target and where in it."""

    release: str
    name: str
    manifest: str
    target: TargetFacts
    place: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ApproverFacts(Facts):
    """What is entered when an approver is added to the list or removed from it."""

    approver: str
    public_key: str
    accounts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExchangeFacts(Facts):
    """What is entered when digests of units are given to other homes, or taken over from one.

    Attributes
    ----------
    office : what the other home is called here; empty for an export
    public_key : whose signature the file bears
    file : its SHA-256
    home : the identity of the ledger of the home whose releases they are
    key : what recognises the shared secret
    releases : a digest of the units of each release
    """

    office: str
    public_key: str
    file: str
    home: str
    key: str
    releases: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class KeyFacts(Facts):
    """What is entered when the home signs with a new key: both public keys, and the new one's signature."""

    reason: str
    old_key: str
    new_key: str
    accepted: str


@dataclass(frozen=True, kw_only=True)
class Head:
    """Which entry is the last, signed, so that entries that are cut off are missed."""

    number: int
    digest: str
    signature: str = ""

    @property
    def content(self) -> bytes:
        """What is signed of it."""
        return f"anonflow head {self.number} {self.digest}".encode()


@dataclass(frozen=True, kw_only=True)
class LossFacts(Facts):
    """What is entered when the head did not name the last entry: why, and what the head was."""

    reason: str
    head: Head | None = None


@dataclass(frozen=True, kw_only=True)
class MirrorFacts(Facts):
    """What is entered when runs that MLflow has lost were made again from dossiers.

    Attributes
    ----------
    runs : the new run of each lost one; empty where its dossier is there no more
    parts : digests of what each new run held when it was logged
    """

    reason: str
    runs: Mapping[str, str]
    parts: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class PruneFacts(Facts):
    """What is entered before old things of the home are removed.

    Attributes
    ----------
    before : everything removed is older
    releases : candidates that were never published, whose dossier, report and pages are removed
    runs : runs in MLflow whose attached files are removed; their figures stay
    removed : how many things of each kind are removed
    """

    before: str
    releases: tuple[str, ...]
    runs: tuple[str, ...]
    removed: Mapping[str, int]


F = TypeVar("F", bound=Facts, covariant=True)
KIND_OF: dict[str, type[Facts]] = {
    **dict.fromkeys((*get_args(Asked), *get_args(Placed)), ReleaseFacts),
    **dict.fromkeys(get_args(DeliveryEvent), DeliveryFacts),
    **dict.fromkeys(get_args(ApproverEvent), ApproverFacts),
    **dict.fromkeys(get_args(ExchangeEvent), ExchangeFacts),
    **dict.fromkeys(get_args(LossEvent), LossFacts),
    "key-rotated": KeyFacts,
    "mirror-rebuilt": MirrorFacts,
    "pruned": PruneFacts,
}


@dataclass(frozen=True, kw_only=True)
class Header:
    """The place of an entry in the ledger, and what chains and signs it.

    Attributes
    ----------
    previous : the digest of the entry before
    digest : SHA-256 of everything but digest and signature, see `content_digest`
    signature : of the digest's characters, by the home's key, in hexadecimal
    """

    format: Literal[1] = FORMAT
    number: int
    time: str
    event: Event
    previous: str
    digest: str = ""
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class LedgerEntry(Header, Generic[F]):
    """One entry: its header, and what it says."""

    facts: F


HEADER = tuple(field.name for field in fields(Header))


def entry_json(entry: LedgerEntry[Facts]) -> dict[str, Any]:
    """Return an entry as one JSON object of its header and its facts."""
    return {**{name: getattr(entry, name) for name in HEADER}, **to_json(entry.facts)}


def content_digest(entry: LedgerEntry[Facts]) -> str:
    """Return the SHA-256 of an entry's canonical form without digest and signature."""
    form = entry_json(entry)
    del form["digest"], form["signature"]
    return hashlib.sha256(canonical(form)).hexdigest()


def entry_line(entry: LedgerEntry[Facts]) -> bytes:
    """Return how an entry is written: in one form only, so that no other text reads as the same entry."""
    return canonical(entry_json(entry))


@lru_cache(maxsize=100_000)
def parse_entry(line: bytes) -> LedgerEntry[Facts] | None:
    """Return the entry that a line holds; None when it is not one of this format.

    A line always holds the same, and a process that stays, as pages do, reads a ledger again after each entry.
    """
    try:
        form = json.loads(line)
        header = from_json(Header, {name: form.pop(name) for name in HEADER})
        return LedgerEntry(**vars(header), facts=from_json(KIND_OF[header.event], form))
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return None


def canonical(form: Any) -> bytes:
    """Return JSON in canonical form: sorted keys, no spaces, other characters than ASCII escaped."""
    return json.dumps(form, sort_keys=True, separators=(",", ":")).encode("ascii")
