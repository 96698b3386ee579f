"""What a table's columns seem to be, and which rules its records never break.

Everything here is a guess for a person to confirm: kinds and roles come from names and counts,
rules from the records. A rule is `Finding.active` only when no record breaks it and chance does
not explain that: under independence at least `STRONG` records would break it (probability below
e⁻²⁰), or, for sums, enough different combinations of values agree. Values appear in a result only
where at least `MIN_COUNT` records hold them; limits are rounded outward, away from the extremes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.linalg import qr, solve_triangular

from anoncore.edits import BoundEdit, Condition, ConditionalEdit, Edit, LinearEdit, linear_holds
from anoncore.microdata import Kind, Microdata, Role, Variable, observed_precision

MIN_COUNT = 5  # records that must share a value before it is written anywhere
MAX_LISTED = 20  # levels that are listed
MAX_LEVELS = 100  # levels that can be masked; more need recoding first
MAX_CODES = 12  # whole numbers that may be codes of an ordinal variable
MIN_RECORDS = 20  # before uniqueness says anything
STRONG, WEAK = 20.0, 7.0  # exceptions expected by chance, for an active rule and for a suggestion
MIN_ROWS = 30  # complete records behind a sum
MAX_TERMS = 7
SCREEN_ROWS = 64
ROUNDED = 2e-3  # of a term's standard deviation: a sum that holds up to rounding
MAX_SUGGESTED = 20  # of each kind

Sort = Literal["empty", "number", "text", "truth", "date", "other"]
Relation = tuple[tuple[int, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Guess:
    """What one column seems to be.

    Parameters
    ----------
    variable : Variable
        Its role is "identifier" wherever releasing the column would be unsafe or impossible.
    reason : str
        Why, in words that hold no value.
    confirm : bool
        Whether a person should look at it before anything else.
    codes : values that may mean "missing", each with the number of records; proposed, not applied
    """

    variable: Variable
    reason: str
    confirm: bool = False
    codes: tuple[tuple[Any, int], ...] = ()


@dataclass(frozen=True)
class Finding:
    """One rule, why it is proposed, and whether it is safe to use without asking."""

    edit: Edit
    reason: str
    active: bool


@dataclass(frozen=True)
class Profile:
    """Guesses in column order, and the sums found among the columns."""

    guesses: tuple[Guess, ...]
    sums: tuple[Finding, ...]


def profile(frame: pd.DataFrame, *, rng: np.random.Generator) -> Profile:
    """Guess what the columns of ``frame`` are, and find the sums among them.

    Parameters
    ----------
    frame : DataFrame, (N, n), with text column names
        As it was read: nothing declared, missing cells empty.
    rng : numpy Generator
        Chooses the records on which candidates are screened; what passes is checked on all.

    Returns
    -------
    Profile
        No guess makes `Microdata` list levels that fewer than `MIN_COUNT` records hold.

    Examples
    --------
    >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "email": [f"p{i}@example.org" for i in range(40)]})
    >>> [g.variable.role for g in profile(frame, rng=np.random.default_rng(0)).guesses]
    ['quasi-identifier', 'identifier']
    """
    facts = [_facts(frame[name]) for name in frame.columns]
    numeric = {
        f.name: f.spread(frame[f.name]) for f in facts if f.sort == "number" and len(f.counts) >= 3 and not f.bad
    }
    sums = find_sums(pd.DataFrame(numeric, index=frame.index), rng=rng) if len(numeric) > 1 else ()
    adds_up = {n for s in sums if s.active and len(s.edit.variables) > 2 for n in s.edit.variables}
    guesses = tuple(_guess(f, f.name in adds_up) for f in facts)
    numbers = {g.variable.name for g in guesses if g.variable.kind == "continuous" and g.variable.is_masked}
    return Profile(guesses, tuple(s for s in sums if set(s.edit.variables) <= numbers))


# --------------------------------------------------------------------------- one column

GAPS = frozenset(
    "na n/a n.a. #n/a nan null none nil . .. - -- ? missing unknown refused dk "
    "not available not applicable don't know no answer".split(" ")
) | {"not available", "not applicable", "don't know", "no answer"}
CODES = frozenset(sign * v for v in (7, 8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999) for sign in (1, -1))
CODES |= {sign * v for v in (7777, 8888, 9997, 9998, 9999, 99998, 99999, 999999) for sign in (1, -1)}
CODES |= {-1, -2, -3, -4, -5, -6}


@dataclass(frozen=True, eq=False)
class _Facts:
    """One column, counted: ``counts`` maps each known value to its records, ``gaps`` text to records."""

    name: str
    sort: Sort
    records: int
    counts: dict[Any, int]
    gaps: dict[str, int]
    ordered: bool = False
    native: bool = True
    bad: str = ""

    @property
    def known(self) -> int:
        """Records with a value."""
        return sum(self.counts.values())

    @property
    def values(self) -> np.ndarray:
        """The distinct numbers, sorted."""
        return np.sort(np.array([float(v) for v in self.counts]))

    @property
    def whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.sort == "number" and bool(np.all(self.values == np.round(self.values)))

    @property
    def distinct(self) -> float:
        """Distinct values per known record, in [0, 1]."""
        return len(self.counts) / max(1, self.known)

    @property
    def words(self) -> set[str]:
        """The words of the column's name, and all of them in one."""
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.name)
        found = [w for w in re.split(r"[\W_\d]+", parts.casefold()) if w]
        return {*found, "".join(found)}

    @property
    def levels(self) -> tuple[Any, ...] | None:
        """The levels where they may be written down, else None."""
        shown = tuple(_tidy(v) for v in self.counts)
        frequent = min(self.counts.values(), default=0) >= MIN_COUNT
        short = all(len(str(v)) <= 60 for v in shown)
        if not frequent or not short or len(shown) > MAX_LISTED:
            return None
        return shown if self.ordered else tuple(sorted(shown))

    def spread(self, column: pd.Series) -> np.ndarray:
        """Return the column as (N,) float64, NaN where missing."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype="float64", na_value=np.nan)


def _facts(column: pd.Series) -> _Facts:
    name, records = str(column.name), len(column)
    ordered = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.dtype.ordered)
    try:
        counted = column.dropna().value_counts(sort=False)
    except TypeError:
        return _Facts(name, "other", records, {}, {}, bad="holds lists or structures")
    if isinstance(counted.index, pd.CategoricalIndex):
        counted = counted.sort_index()
    counts = {v: int(n) for v, n in zip(counted.index.tolist(), counted.tolist(), strict=True) if n > 0}
    native = pd.api.types.is_numeric_dtype(
        column.cat.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    )
    facts = _Facts(name, "empty", records, counts, {}, ordered, native)
    return facts if not counts else _sorted_out(facts)


def _sorted_out(facts: _Facts) -> _Facts:
    """Say what sort of values a column holds."""
    values = list(facts.counts)
    if all(isinstance(v, bool | np.bool_) for v in values):
        return replace(facts, sort="truth")
    if all(isinstance(v, date | timedelta | pd.Timestamp | pd.Timedelta | pd.Period) for v in values):
        return replace(facts, sort="date")
    if all(isinstance(v, str) for v in values):
        return _text_or_numbers(facts)
    if any(isinstance(v, str) for v in values):
        return replace(facts, sort="other", bad="mixes numbers and text")
    try:
        numbers = np.array([float(v) for v in values])
    except (TypeError, ValueError, OverflowError):
        return replace(facts, sort="other", bad="holds values that are neither numbers nor text")
    if not np.isfinite(numbers).all():
        return replace(facts, sort="other", bad="holds infinite values")
    return replace(facts, sort="number")


def _text_or_numbers(facts: _Facts) -> _Facts:
    """Tell text from numbers among which a few words say that one is missing."""
    if {v.casefold() for v in facts.counts} <= {"true", "false"}:
        return replace(facts, sort="truth")
    gaps = {v: n for v, n in facts.counts.items() if v.strip().casefold() in GAPS}
    rest = {v: n for v, n in facts.counts.items() if v not in gaps}
    numbers = pd.to_numeric(pd.Series(list(rest), dtype="str"), errors="coerce").to_numpy(dtype="float64")
    # Codes with leading zeros and signs of any other kind stay text.
    padded = any(re.match(r"\s*[-+]?0\d", v) for v in rest)
    if not rest or padded or not np.isfinite(numbers).all():
        return replace(facts, sort="text")
    merged: dict[float, int] = {}
    for value, n in zip(numbers.tolist(), rest.values(), strict=True):
        merged[value] = merged.get(value, 0) + n
    return replace(facts, sort="number", counts=merged, gaps=gaps)


def _tidy(value: Any) -> Any:
    if isinstance(value, bool | np.bool_ | str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


# --------------------------------------------------------------------------- roles from names


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IDENTIFIER = _words(
    "id ids uid uuid guid pid oid idno idnr idnumber caseid recordid personid patientid respondentid subjectid "
    "studyid seqn ssn sin nin nino nric bsn cpf curp dni nif ahv pesel mrn iban passport licence license plate vin "
    "name names firstname forename lastname surname fullname username login email mail phone telephone tel mobile "
    "cellphone fax address addr street url website ip latitude longitude lat lon lng gps coordinates comment "
    "comments remark remarks note notes freetext verbatim signature"
)
HOUSEHOLD = _words(
    "household householdid householdnumber hhid hhno hhnr hhnum hid family familyid famid dwelling dwellingid"
)
AREA = _words(
    "area areacode state county province district municipality commune canton ward parish tract nuts lsoa msoa puma "
    "fips metro bundesland department village town city geo geocode territory"
)
WEIGHT = _words(
    "pweight fweight aweight iweight wgt wgtp pwgtp fnlwgt finalwt perwt hhwt asecwt pspwght anweight dweight "
    "designweight sampleweight samplingweight surveyweight finalweight personweight householdweight popweight "
    "calibrationweight grossingfactor expansionfactor statweight"
)
QUASI = _words(
    "age agegroup sex gender race ethnic ethnicity birth birthday birthdate birthyear birthmonth birthplace dob yob "
    "born marital maritalstatus marstat married education educ school schooling degree qualification occupation occ "
    "job profession industry sector nationality citizenship citizen country region zip zipcode postcode postal plz "
    "language migrant migration children kids height ht weight wt date year month day died death deathyear"
)
SENSITIVE = _words(
    "income salary wage wages earnings wealth debt benefit benefits disease diagnosis icd hiv aids cancer diabetes "
    "drug drugs alcohol smoke smoking smoker religion faith politics political party vote union sexual orientation "
    "crime criminal conviction disability disabled health pregnancy pregnancies pregnant abortion depression mental "
    "medication treatment cholesterol bmi sbp dbp"
)
AMOUNT = _words(
    "income salary wage wages earnings amount price cost costs revenue turnover sales tax taxes expenditure spending "
    "assets debt wealth value total sum profit loss balance payment rent budget weight population count"
)
UNORDERED = _words(
    "sex gender race ethnic ethnicity marital maritalstatus marstat country region state county district area nuts "
    "nationality citizenship occupation occ job profession industry sector religion language type kind category "
    "code birthplace party reason cause group arm site center centre hospital zip zipcode postcode postal plz city "
    "town municipality province method source status"
)
TOTALS = _words("total tot sum gross all overall combined")
DIFFERENCES = _words("diff difference change delta net gain loss balance margin profit growth surplus deficit")

SCALES = tuple(
    scale.split("|")
    for scale in (
        "none|very low|low|medium|moderate|high|very high",
        "never|rarely|seldom|sometimes|occasionally|often|usually|always",
        "very poor|poor|bad|fair|good|very good|excellent",
        "very bad|bad|fair|good|very good",
        "strongly disagree|disagree|neutral|neither agree nor disagree|agree|strongly agree",
        "very dissatisfied|dissatisfied|neutral|satisfied|very satisfied",
        "not at all|a little|somewhat|moderately|very|extremely",
        "xs|s|m|l|xl|xxl",
        "small|medium|large",
        "daily|weekly|monthly|yearly|never",
        "primary|secondary|tertiary",
    )
)

LOOKS = (
    (re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "looks like e-mail addresses"),
    (re.compile(r"(https?://|www\.)\S+"), "looks like web addresses"),
    (re.compile(r"\d{1,3}(\.\d{1,3}){3}"), "looks like network addresses"),
    (re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"), "looks like generated keys"),
    (
        re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?"),
        "holds dates; turn them into a year or a number (of days) and give it another role",
    ),
    (
        re.compile(r"-?\d{1,3}([.\s]\d{3})*,\d+|-?\d+,\d+"),
        "holds numbers with a comma; write them with a point and give the column another role",
    ),
    (re.compile(r"\+?[\d\s()/-]{7,}"), "looks like telephone or account numbers"),
)


def _guess(facts: _Facts, adds_up: bool) -> Guess:
    reason = _unreleasable(facts, adds_up)
    if reason:
        confirm = not (facts.words & IDENTIFIER) and facts.sort != "empty"
        return Guess(Variable(facts.name, "nominal", role="identifier"), reason, confirm)
    if facts.words & HOUSEHOLD and facts.distinct < 1 and len(facts.counts) > 2:
        return Guess(
            Variable(facts.name, "nominal", role="household"),
            "the name suggests a household; it is not released by methods that mask records",
            True,
        )
    return _released(facts, adds_up)


def _unreleasable(facts: _Facts, adds_up: bool) -> str:
    """Return why the column should be dropped, or an empty sentence."""
    if facts.sort == "empty":
        return "missing in every record, so dropping it loses nothing"
    if facts.bad:
        return f"{facts.bad}; correct the column and give it another role"
    if facts.sort == "date":
        return "holds dates; turn them into a year or a number (of days) and give it another role"
    if facts.sort == "truth":
        return ""
    few = len(facts.counts) <= 2 and facts.known >= MIN_RECORDS
    if facts.words & IDENTIFIER and not few and not facts.words & (HOUSEHOLD | AREA):
        return "the name suggests an identifier or free text"
    return _text_reason(facts, few) if facts.sort == "text" else _number_reason(facts, adds_up)


def _text_reason(facts: _Facts, few: bool) -> str:
    texts = [v.strip() for v in facts.counts]
    sample = texts[:: max(1, len(texts) // 1000)]
    for pattern, reason in LOOKS:
        if sum(pattern.fullmatch(t) is not None for t in sample) >= 0.9 * len(sample):
            return reason
    if facts.distinct > 0.5 and not few:
        return "text, another one in more than half of the records"
    if np.median([len(t) for t in texts]) > 60:
        return "long text"
    if len(texts) > MAX_LEVELS:
        return f"text with more than {MAX_LEVELS} levels, too many to mask; group them and give another role"
    return ""


def _number_reason(facts: _Facts, adds_up: bool) -> str:
    values = facts.values
    if not facts.whole or adds_up or len(values) <= 2:
        return ""
    if facts.known >= MIN_RECORDS and _as_dates(values):
        return "holds dates written as year, month, day; turn them into a year and give it another role"
    if facts.distinct >= 0.99 and facts.known >= MIN_RECORDS and not facts.words & AMOUNT:
        return "a whole number, another one in (almost) every record"
    if facts.words & UNORDERED and len(values) > MAX_LEVELS:
        return f"more than {MAX_LEVELS} codes, too many to mask; group them and give another role"
    return ""


def _as_dates(values: np.ndarray) -> bool:
    year, month, day = values // 10000, values // 100 % 100, values % 100
    return bool(
        np.all((year >= 1850) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31))
    )


def _released(facts: _Facts, adds_up: bool) -> Guess:
    kind, reason, confirm = _kind(facts, adds_up)
    role, why, unsure = _role(facts)
    levels = None if kind == "continuous" else _levels(facts, kind)
    missing = tuple(facts.gaps)
    if missing:
        confirm = True
        reason += f"; text where a number is missing ({sum(facts.gaps.values())} record(s))"
    if kind != "continuous" and levels is None and not facts.native and facts.sort == "number":
        # Numbers read as text can be levels only when these are listed.
        kind, reason, confirm = "continuous", f"{reason}; too rare levels to list, so kept as a number", True
    if len(facts.counts) == 1:
        reason += "; the same in every record that has one"
    precision = observed_precision(facts.values) if kind == "continuous" else None
    variable = Variable(
        facts.name, kind, role=role, levels=levels, missing=missing, precision=precision
    )
    parts = [p for p in (reason, why) if p]
    return Guess(variable, "; ".join(parts), confirm or unsure, _codes(facts))


def _levels(facts: _Facts, kind: Kind) -> tuple[Any, ...] | None:
    if facts.sort == "truth":
        spelled = tuple(sorted(facts.counts, key=str))
        return spelled if isinstance(spelled[0], str) else (0, 1)
    if facts.sort == "text" and kind == "ordinal" and not facts.ordered:
        return tuple(sorted(facts.counts, key=_scale(facts).index_of))
    return facts.levels


def _kind(facts: _Facts, adds_up: bool) -> tuple[Kind, str, bool]:
    """Return the kind, the reason, and whether to confirm."""
    count = len(facts.counts)
    if adds_up:
        return "continuous", "adds up with other columns", False
    if facts.sort == "truth":
        return ("binary", "true or false", False) if count <= 2 else ("nominal", "true or false, spelled in several ways", True)
    if count <= 2:
        return "binary", "", False
    if facts.sort == "text":
        if facts.levels and (facts.ordered or _scale(facts)):
            return "ordinal", f"{count} levels that seem to be ordered", True
        return "nominal", f"{count} levels", False
    if not facts.whole:
        return "continuous", "", False
    if facts.words & UNORDERED and count <= MAX_LEVELS:
        return "nominal", f"{count} codes without an order, by the name", True
    compact = count <= MAX_CODES and np.ptp(facts.values) <= 30 and facts.known >= 10 * count
    if compact:
        return "ordinal", f"{count} whole numbers: codes in an order? nominal without one, continuous for a count", True
    return "continuous", "", False
