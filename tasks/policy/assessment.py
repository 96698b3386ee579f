"""The assessment of a release: every figure of risk and utility, with the only conversion to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anoncore.claims import ClaimCheck
from anoncore.partitions.close_records import CloseRecords
from anoncore.risk import (
    AveragingAttack,
    Comparison,
    Differencing,
    Game,
    HiddenUnits,
    IdentifierMatches,
    Relabelling,
    RiskReport,
    RowOrder,
    TailTest,
    Verdict,
)
from anoncore.risk.scores import ScoreAttack
from anoncore.utility import UtilityReport
from tasks.common import values
from tasks.common.errors import Refused

FORMAT = 4


@dataclass(frozen=True)
class Records:
    """Numbers of records; ``reference`` is None without a reference sample."""

    original: int
    released: int
    reference: int | None


@dataclass(frozen=True)
class RareLevels:
    """Released levels of a variable that fewer than k released records hold."""

    variable: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class PriorReleases:
    """Published releases of the same data, and the attack with all of them and the candidate together.

    Parameters
    ----------
    releases, compared : all of them, and those that could be compared with the candidate
    attack : None where none could be
    """

    releases: int
    compared: int = 0
    attack: AveragingAttack | None = None


@dataclass(frozen=True)
class UnitChanges:
    """How many statistical units joined, left or changed since a published release.

    In what is published each number is the first of its ten, and not below the least.

    Parameters
    ----------
    release : the earlier one
    joined, left : None for both where 1 to least − 1 did one of them: the numbers of units of two releases are known,
        and with one count the other could be computed
    changed : None for 1 to least − 1, and where the variables differ
    same_variables : of both releases; where they differ it is not known who changed
    in_common : units of both, of a release of another home; None where it is not shown, or the release is this home's
    """

    release: str
    joined: int | None
    left: int | None
    changed: int | None
    same_variables: bool = True
    in_common: int | None = None

    @property
    def few(self) -> bool:
        """Whether so few joined, left or changed that a difference may be theirs, or that is not known."""
        return None in (self.joined, self.left, self.changed)


@dataclass(frozen=True)
class PairDifferencing:
    """An earlier release, and what the candidate and it reveal when one is subtracted from the other.

    Parameters
    ----------
    release : the earlier one
    verdict : by the plan's limit
    attack : None where so few units joined, left or changed that their number could be computed from its figures
    changed : whether it asks about units that changed, and not about those that joined
    lacking : variables of both releases that are not compared, as they have no level in common
    """

    release: str
    verdict: Verdict
    attack: Differencing | None
    changed: bool = False
    lacking: int = 0

    @property
    def few(self) -> bool:
        """Whether few joined, left or changed, or it is not known how many, so that there are no figures."""
        return self.attack is None


@dataclass(frozen=True)
class Series:
    """The published releases that a candidate follows: who changed since each, and what subtracting it reveals.

    Parameters
    ----------
    releases, known : all of them, and those whose units the home knows
    least : so many units have to join, leave or change, or none
    identified : units are known by identifiers; otherwise by the values of their records
    few : releases since which fewer did, or of other variables
    newest : changes since the newest release whose units are known; None where there is none
    pairs : the differencing attack with each earlier release that it was tried with, on who joined and who changed
    untested : attacks on who joined, or on who changed where the earlier release cannot be read in the levels of the
        candidate, that could not be carried out
    not_tried : those with which it was not tried, since more units joined since than since the others
    left : those since which units only left, and figures follow from the source: their records are not at hand
    exact : those of partly the same units, where figures follow from the source and all units are in each release, or
        so many that those left out do not hide the figures
    left_out : the ``left_out`` of a plan that leaves out too few; else 0
    large : those since which a unit with so many records joined or changed that what is drawn does not hide it
    alike : releases with fewer than five known units in common whose figures are as near as those of nearly the same
        units
    unread : such releases with nearly as many records whose figures could not be compared
    elsewhere : changes since releases of other homes, named office/release, that hold units of the candidate
    by_other_secrets : other homes whose digests are known, where all are by other secrets than the plan's
    rejected : attempts by the same masking on nearly the same units that were rejected
    as_of : the number of the ledger's last entry when releases were looked up; 0 in what is published
    keeps_figures : whether some figures follow from the source, so that releases of nearly as many records are compared
    """

    releases: int
    known: int
    least: int
    identified: bool
    few: tuple[UnitChanges, ...] = ()
    newest: UnitChanges | None = None
    pairs: tuple[PairDifferencing, ...] = ()
    untested: int = 0
    not_tried: int = 0
    left: int = 0
    exact: int = 0
    left_out: int = 0
    large: int = 0
    alike: int = 0
    unread: int = 0
    elsewhere: tuple[UnitChanges, ...] = ()
    by_other_secrets: int = 0
    rejected: int = 0
    as_of: int = 0
    keeps_figures: bool = True


@dataclass(frozen=True)
class InOutGame:
    """The in/out game of a plan: what it found, or why it could not be played to its end."""

    game: Game | None
    problem: str = ""


@dataclass(frozen=True)
class ReferenceOverlap:
    """Whether a reference sample seems to hold records of the original.

    Parameters
    ----------
    matches : records of the original that are identical to one of the reference
    duplicates : records of the original that are identical to another of the original
    records : of the original, looked at
    p : one-sided p-value of so many matches in a sample of other people
    named : records of the reference that carry an identifier of the original
    """

    matches: int
    duplicates: int
    records: int
    p: float
    named: int


@dataclass(frozen=True)
class ExternalFiles:
    """What externally produced files hold besides what was measured.

    Parameters
    ----------
    unmeasured : released columns that were not measured
    named : released records that carry a confirmed identifier of the original
    supposed : released columns that look like identifiers
    relabelling : variables whose released levels may not be the original's of the same name
    row_order : variables that stand in the rows of the original
    """

    unmeasured: int
    named: int
    supposed: tuple[IdentifierMatches, ...] = ()
    relabelling: Relabelling | None = None
    row_order: RowOrder | None = None


@dataclass(frozen=True)
class VariableShift:
    """How far a variable's distribution has moved: by Kolmogorov, total variation or the share missing."""

    variable: str
    distance: float


@dataclass(frozen=True)
class FullRelease:
    """What was measured over all records of a large release; the rest is measured of its sub-table.

    Parameters
    ----------
    records : sizes of the full tables
    identical : records of the original that are released unchanged, beside the reference or the rest of the source
    nearest : how well the distance to the nearest of all released records distinguishes some members from some
        non-members; None without non-members
    close : how close the release comes to some people, to the most isolated and to the extreme ones of all
    shifts : of each variable
    coarser : variables that the sub-table shows more coarsely than the release, so that attacks on it see less
    """

    records: Records
    identical: TailTest
    nearest: ScoreAttack | None
    close: CloseRecords
    shifts: tuple[VariableShift, ...]
    coarser: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Half:
    """What was measured of one half of the units, masked by the whole plan, with the other half as its reference.

    Parameters
    ----------
    records, risk : sizes of the tables, and the measures
    prior_releases : the attack with as many releases of this half as were published of the source; None on the first
    coarser : variables that the half shows more coarsely than the release, so that attacks on it see less
    """

    records: Records
    risk: RiskReport
    prior_releases: PriorReleases | None = None
    coarser: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Assessment:
    """Every figure of one assessment; counts, figures and names, never data.

    Parameters
    ----------
    records : sizes of the tables
    risk, utility : the measures
    claims : of the method, as checked on the release
    source_values : why the method may publish numbers of single records as they are, a sentence each
    source_levels : variables of which a released level, or a missing value, is held by few units of the source
    method_figures : what the masking steps measured themselves, under "step<number>.<name>"
    rare_levels : that few released records hold
    as_source : single records are measured as if none had moved, because the release hides a group alone
    continuous_form : the prediction measures before scores are turned back into levels; None where there is none
    prior_releases, series : None where no home was searched for them
    in_out_game : None where the plan does not ask for it
    external : of externally produced files; None for releases of a run
    risk_published : risk without the units that published figures leave out; None where `risk` is published
    overlap : of reference and original; None without a reference sample
    hidden_units : whether records look like several of one unit; None of trials
    halves : of a ``cross``, what takes non-members is measured of two halves; the rest is of all records
    full_release : of a large table, what is measured of all records; claims, levels and dominated numbers
        are of all records, too, and everything else is of a sub-table, a random part of the units that the same plan
        has masked
    """

    records: Records
    risk: RiskReport
    utility: UtilityReport
    claims: tuple[ClaimCheck, ...] = ()
    source_values: tuple[str, ...] = ()
    source_levels: tuple[str, ...] = ()
    method_figures: Mapping[str, float] = field(default_factory=dict)
    rare_levels: tuple[RareLevels, ...] = ()
    as_source: bool = False
    continuous_form: Comparison | None = None
    prior_releases: PriorReleases | None = None
    series: Series | None = None
    in_out_game: InOutGame | None = None
    hidden_units: HiddenUnits | None = None
    external: ExternalFiles | None = None
    overlap: ReferenceOverlap | None = None
    halves: tuple[Half, ...] = ()
    full_release: FullRelease | None = None
    risk_published: RiskReport | None = None

    @property
    def is_external(self) -> bool:
        """Whether the release is an externally produced file."""
        return self.external is not None

    def of(self, half: Half) -> Assessment:
        """Return the assessment with what was measured of one half in place of what was measured of all records.

        Groups on the quasi-identifiers are those of all records: a half is a smaller sample of the population. So are
        figures of groups, of which a half holds parts.
        """
        risk = replace(half.risk, disclosure=self.risk.disclosure, group_figures=self.risk.group_figures)
        return replace(
            self, records=half.records, risk=risk, prior_releases=half.prior_releases, halves=(), risk_published=None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the assessment as JSON takes it, with the number of its format."""
        return {"format": FORMAT, **values.to_json(self, whole=True)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Assessment:
        """Return a stored assessment.

        Raises
        ------
        Refused
            When it is of another format.
        """
        if stored.get("format") != FORMAT:
            raise Refused(f"the assessment is not of format {FORMAT}; assess again with this version")
        return values.from_json(cls, {name: value for name, value in stored.items() if name != "format"})
