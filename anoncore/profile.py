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
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.linalg import qr, solve_triangular
from scipy.optimize import linear_sum_assignment

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
ROUNDED = 5e-3  # of a term's standard deviation: a sum that holds up to rounding
NESTED = "holds lists or structures"
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
    numeric = {f.name: f.spread(frame[f.name]) for f in facts if f.may_add_up}
    sums = find_sums(pd.DataFrame(numeric, index=frame.index), rng=rng) if len(numeric) > 1 else ()
    adds_up = {n for s in sums if s.active and len(s.edit.variables) > 2 for n in s.edit.variables}
    guesses = tuple(_guess(f, f.name in adds_up) for f in facts)
    numbers = {g.variable.name for g in guesses if g.variable.kind == "continuous" and g.variable.is_masked}
    return Profile(guesses, tuple(s for s in sums if set(s.edit.variables) <= numbers))


# --------------------------------------------------------------------------- one column

GAPS = frozenset(
    (
        "na",
        "n/a",
        "n.a.",
        "#n/a",
        "nan",
        "null",
        "none",
        "nil",
        ".",
        "..",
        "-",
        "--",
        "?",
        "missing",
        "unknown",
    )
) | {"refused", "dk", "don't know", "no answer", "not available", "not applicable"}
CODES = frozenset(
    sign * v for v in (7, 8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999) for sign in (1, -1)
)
CODES |= {sign * v for v in (7777, 8888, 9997, 9998, 9999, 99998, 99999, 999999) for sign in (1, -1)}
CODES |= {-1, -2, -3, -4, -5, -6}


@dataclass(frozen=True, eq=False)
class _Facts:
    """One column, counted.

    ``counts`` maps each known value to its records, ``gaps`` each text that stands for a missing
    number; ``native`` numbers have a dtype of numbers, ``spelled`` ones are text, ``padded`` text
    is numbers with leading zeros.
    """

    name: str
    sort: Sort
    records: int
    counts: dict[Any, int]
    gaps: dict[str, int]
    ordered: bool = False
    native: bool = True
    padded: bool = False
    spelled: bool = False
    bad: str = ""

    @cached_property
    def known(self) -> int:
        """Records with a value."""
        return sum(self.counts.values())

    @cached_property
    def values(self) -> np.ndarray:
        """The distinct numbers, sorted."""
        return np.sort(np.array([float(v) for v in self.counts]))

    @cached_property
    def whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.sort == "number" and bool(np.all(self.values == np.round(self.values)))

    @property
    def distinct(self) -> float:
        """Distinct values per known record, in [0, 1]."""
        return len(self.counts) / max(1, self.known)

    @cached_property
    def words(self) -> set[str]:
        """The words of the column's name, and all of them in one."""
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.name).casefold()
        found = [w for w in re.split(r"[\W_\d]+", parts) if w]
        return {*found, "".join(found), *re.split(r"[\W_]+", parts)}

    @property
    def may_add_up(self) -> bool:
        """Whether the column may take part in a sum: numbers, neither too few nor beyond measure."""
        return self.sort == "number" and len(self.counts) >= 3 and bool(np.abs(self.values).max() < 1e100)

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
        if isinstance(counted.index, pd.CategoricalIndex):
            counted = counted.sort_index()
        counts = {v: int(n) for v, n in zip(counted.index.tolist(), counted.tolist(), strict=True) if n > 0}
    except (TypeError, ValueError):
        return _Facts(name, "other", records, {}, {}, bad=NESTED)
    native = pd.api.types.is_numeric_dtype(
        column.cat.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    )
    facts = _Facts(name, "empty", records, counts, {}, ordered, native)
    return facts if not counts else _sorted_out(facts)


def _sorted_out(facts: _Facts) -> _Facts:
    """Say what sort of values a column holds."""
    kinds = {type(v) for v in facts.counts}
    if all(issubclass(k, bool | np.bool_) for k in kinds):
        return replace(facts, sort="truth")
    if all(issubclass(k, date | timedelta | pd.Timestamp | pd.Timedelta | pd.Period) for k in kinds):
        return replace(facts, sort="date")
    if all(issubclass(k, str) for k in kinds):
        return _text_or_numbers(facts)
    if any(issubclass(k, str) for k in kinds):
        return replace(facts, sort="other", bad="mixes numbers and text")
    try:
        numbers = np.array([float(v) for v in facts.counts])
    except (TypeError, ValueError, OverflowError):
        return replace(facts, sort="other", bad="holds values that are neither numbers nor text")
    if not np.isfinite(numbers).all():
        return replace(facts, sort="other", bad="holds infinite values")
    return replace(facts, sort="number")


def _text_or_numbers(facts: _Facts) -> _Facts:
    """Tell text from numbers among which a few words say that one is missing."""
    texts = pd.Series(list(facts.counts), dtype="str")
    if len(texts) <= 2 and texts.str.casefold().isin(["true", "false"]).all():
        return replace(facts, sort="truth")
    gaps = {v: n for v, n in facts.counts.items() if v.strip().casefold() in GAPS}
    rest = texts[~texts.isin(gaps)]
    numbers = pd.to_numeric(rest, errors="coerce").to_numpy(dtype="float64")
    if rest.empty or np.isnan(numbers).any():
        return replace(facts, sort="text")
    if np.isinf(numbers).any():
        return replace(facts, sort="other", bad="holds infinite values")
    # 01 is another code than 1, and a float does not hold more than 15 digits.
    padded = bool(rest.str.match(r"\s*[-+]?0\d").any())
    if padded or rest.str.match(r"\s*[-+]?\d{16}").any():
        return replace(facts, sort="text", padded=padded)
    merged: dict[float, int] = {}
    for value, text in zip(numbers.tolist(), rest, strict=True):
        merged[value] = merged.get(value, 0) + facts.counts[text]
    return replace(facts, sort="number", counts=merged, gaps=gaps, spelled=True)


def _tidy(value: Any) -> Any:
    if isinstance(value, bool | np.bool_ | str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


# --------------------------------------------------------------------------- roles from names


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IDENTIFIER = _words(
    "id ids uid uuid guid pid oid idno idnr idnumber caseid recordid personid patientid respondentid "
    "subjectid studyid seqn ssn sin nin nino nric bsn cpf curp dni nif ahv pesel mrn iban passport "
    "licence license plate vin name names firstname forename lastname surname fullname username login "
    "email mail phone telephone tel mobile cellphone fax address addr street url website ip latitude "
    "longitude lat lon lng gps coordinates comment comments remark remarks note notes freetext verbatim "
    "signature"
)
HOUSEHOLD = _words(
    "household householdid householdnumber hhid hhno hhnr hhnum hid family familyid famid dwelling dwellingid"
)
AREA = _words(
    "area areacode state county province district municipality commune canton ward parish tract nuts "
    "lsoa msoa puma fips metro bundesland department village town city geo geocode territory"
)
WEIGHT = _words(
    "pweight fweight aweight iweight wgt wgtp pwgtp fnlwgt finalwt perwt hhwt asecwt pspwght anweight "
    "dweight designweight sampleweight samplingweight surveyweight finalweight personweight "
    "householdweight popweight calibrationweight grossingfactor expansionfactor statweight"
)
QUASI = _words(
    "age agegroup sex gender race ethnic ethnicity birth birthday birthdate birthyear birthmonth "
    "birthplace dob yob born marital maritalstatus marstat married education educ school schooling "
    "degree qualification occupation occ job profession industry sector nationality citizenship citizen "
    "country region zip zipcode postcode postal plz language migrant migration children kids height ht "
    "weight wt date year month day died death deathyear"
)
SENSITIVE = _words(
    "income salary wage wages earnings wealth debt benefit benefits disease diagnosis icd hiv aids "
    "cancer diabetes drug drugs alcohol smoke smoking smoker religion faith politics political party "
    "vote union sexual orientation crime criminal conviction disability disabled health pregnancy "
    "pregnancies pregnant abortion depression mental medication treatment cholesterol bmi sbp dbp"
)
AMOUNT = _words(
    "income salary wage wages earnings amount price cost costs revenue turnover sales tax taxes "
    "expenditure spending assets debt wealth value total sum profit loss balance payment rent budget "
    "weight population count"
)
UNORDERED = _words(
    "sex gender race ethnic ethnicity marital maritalstatus marstat country region state county "
    "district area nuts nationality citizenship occupation occ job profession industry sector religion "
    "language type kind category code birthplace party reason cause group arm site center centre "
    "hospital zip zipcode postcode postal plz city town municipality province method source status"
)
TOTALS = _words("total tot sum gross all overall combined")
DIFFERENCES = _words(
    "diff difference change delta net gain loss balance margin profit growth surplus deficit"
)

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
    # A region's id, or a hospital's name, is a code of something that many share.
    shared = facts.words & (HOUSEHOLD | AREA | UNORDERED) and facts.distinct < 0.5
    if facts.words & IDENTIFIER and not few and not shared:
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
    foreign = facts.sort == "number" and not facts.native and levels is None and kind != "continuous"
    if foreign and (kind == "ordinal" or not facts.spelled):
        # Levels that are read as text have the order of text, unless they are listed.
        kind, reason, confirm = "continuous", f"{reason}; some too rare to list, so kept as a number", True
    parts = [reason, why, "codes with leading zeros" if facts.padded else ""]
    if len(facts.counts) == 1:
        parts.append("the same in every record that has a value")
    if kind != "continuous" and levels is None:
        parts.append(_left_open(facts))
    precision = observed_precision(facts.values) if kind == "continuous" else None
    variable = Variable(facts.name, kind, role=role, levels=levels, missing=missing, precision=precision)
    return Guess(variable, "; ".join(p for p in parts if p), confirm or unsure, _codes(facts))


def _left_open(facts: _Facts) -> str:
    """Say why the levels are not listed, and what that costs."""
    if len(facts.counts) > MAX_LISTED:
        reason = f"levels not listed, there are more than {MAX_LISTED}"
    else:
        reason = f"levels not listed, since fewer than {MIN_COUNT} records hold one of them"
    return reason


def _levels(facts: _Facts, kind: Kind) -> tuple[Any, ...] | None:
    if facts.sort == "truth":
        spelled = tuple(sorted(facts.counts, key=str))
        return spelled if isinstance(spelled[0], str) else (0, 1)
    if facts.sort == "text" and kind == "ordinal" and not facts.ordered:
        scale = _scale(facts)
        return tuple(sorted(facts.counts, key=lambda v: scale[v.strip().casefold()]))
    return facts.levels


def _kind(facts: _Facts, adds_up: bool) -> tuple[Kind, str, bool]:
    """Return the kind, the reason, and whether to confirm."""
    count = len(facts.counts)
    if adds_up:
        return "continuous", "adds up with other columns", False
    if facts.sort == "truth":
        spelled = "true or false" + (", spelled in several ways" if count > 2 else "")
        return "binary" if count <= 2 else "nominal", spelled, count > 2
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
    codes = [value for value, _ in _codes(facts)]
    span = np.ptp(facts.values[~np.isin(facts.values, codes)])
    if count <= MAX_CODES and span <= 30 and facts.known >= 10 * count:
        return "ordinal", f"{count} whole numbers, taken for codes in an order", True
    return "continuous", "", False


def _scale(facts: _Facts) -> dict[str, int]:
    """Return the rank of every level on a known scale, or nothing."""
    told = {v.strip().casefold() for v in facts.counts}
    if len(told) < len(facts.counts):
        return {}
    for scale in SCALES:
        if told <= set(scale):
            return {word: rank for rank, word in enumerate(scale)}
    return {}


def _role(facts: _Facts) -> tuple[Role, str, bool]:
    """Return the role that the name suggests, the reason, and whether to confirm."""
    words = facts.words
    numbers = facts.sort == "number" and len(facts.counts) > 2
    if numbers and facts.values[0] >= 0 and words & WEIGHT:
        return "weight", "the name suggests a survey weight", True
    if words & AREA:
        return "area", "the name suggests an area", True
    if words & SENSITIVE:
        return "sensitive", "", False
    if words & QUASI:
        weighs = numbers and "weight" in words
        return "quasi-identifier", "role weight if it is a survey weight" if weighs else "", weighs
    return "other", "", False


def _codes(facts: _Facts) -> tuple[tuple[Any, int], ...]:
    """Return values that may mean "missing": words, and outlying or piled-up codes."""
    if facts.sort == "text":
        return tuple((v, n) for v, n in sorted(facts.counts.items()) if v.strip().casefold() in GAPS)
    if facts.sort != "number" or len(facts.counts) < 3 or not facts.whole:
        return ()
    counts = {float(v): n for v, n in facts.counts.items()}
    found = _outlying(facts.values, counts, 1.0) + _outlying(-facts.values[::-1], counts, -1.0)
    usual = float(np.median(list(counts.values())))
    for value, n in counts.items():
        if abs(value) >= 99 and value in CODES and n >= 10 * usual:
            found.append(value)
    return tuple((_tidy(v), counts[v]) for v in sorted(set(found)) if counts[v] >= MIN_COUNT)


def _outlying(values: np.ndarray, counts: dict[float, int], sign: float) -> list[float]:
    """Return the codes at the upper end of ``values`` that stand apart from all other values."""
    end = len(values)
    while end > 2 and sign * values[end - 1] in CODES:
        end -= 1
    if end == len(values) or (sign < 0 and values[end - 1] > 0):
        return []
    rest = values[:end]
    alone_negative = sign < 0 and values[end] > 0 >= rest[-1]
    apart = values[end] - rest[-1] > max(1.0, 0.2 * (rest[-1] - rest[0]))
    return [sign * v for v in values[end:]] if apart or alone_negative else []


# --------------------------------------------------------------------------- sums


def find_sums(frame: pd.DataFrame, *, rng: np.random.Generator) -> tuple[Finding, ...]:
    """Find columns that are sums or differences of others, in every record that has all of them.

    Parameters
    ----------
    frame : DataFrame, (N, n) float64, NaN where missing
    rng : numpy Generator
        Chooses the records on which candidates are screened.

    Returns
    -------
    tuple of Finding
        Linear edits with coefficients ±1, at most `MAX_TERMS` terms, none implied by the others.
        Active ones hold exactly and name a dependent. Sums of three terms that hold up to
        rounding, or in at least 99 % of the records, are suggestions.

    Screening is by brute force over pairs for three terms; longer sums come from the null space
    of complete records (QR with column pivoting), so they are found only among columns that are
    mostly missing together or not at all.
    """
    values = frame.to_numpy(dtype="float64")
    names = [str(c) for c in frame.columns]
    copies, kept = _copies(values)
    part = values[:, kept]
    triples = [_renumbered(r, kept) for r in _triples(part, rng)]
    exact = [r for r in triples if _deviation(values, r) == 0.0]
    close = [r for r in triples if r not in set(exact)]
    chosen = _independent([*copies, *exact], [], len(names))
    longer = _null_space(values, kept, chosen, rng)
    chosen = _independent([r for r in longer if _deviation(values, r) == 0.0], chosen, len(names))
    findings = _with_dependents(chosen, values, names)
    for relation in _independent(close, chosen, len(names))[len(chosen) :][:MAX_SUGGESTED]:
        finding = _nearly(relation, values, names)
        findings += [finding] if finding else []
    return tuple(findings)


def _copies(values: np.ndarray) -> tuple[list[Relation], list[int]]:
    """Return relations between equal columns, and the columns that repeat no earlier one."""
    seen: dict[bytes, int] = {}
    found: list[Relation] = []
    for j in range(values.shape[1]):
        key = (values[:, j] + 0.0).tobytes()
        first = seen.setdefault(key, j)
        copy = ((first, j), (1.0, -1.0))
        if first != j and _deviation(values, copy) == 0.0:
            found.append(copy)
    repeated = {copy[0][1] for copy in found}
    return found, [j for j in range(values.shape[1]) if j not in repeated]


def _renumbered(relation: Relation, columns: Sequence[int]) -> Relation:
    return tuple(columns[j] for j in relation[0]), relation[1]


def _triples(values: np.ndarray, rng: np.random.Generator) -> list[Relation]:
    """Return every x_k = ± x_i ± x_j that a sample of records does not refute."""
    present = ~np.isnan(values)
    patterns, group = _patterns(present)
    width = np.nan_to_num(np.nanstd(values, axis=0))
    found: dict[Relation, None] = {}
    for i in range(values.shape[1]):
        # Where x_i is 0 it would say nothing.
        informative = present[:, i] & (values[:, i] != 0)
        for g, first in enumerate(patterns):
            others = np.flatnonzero((group == g) & (np.arange(len(group)) > i))
            rows = np.flatnonzero(informative & present[:, first]) if len(others) else others
            if len(rows) < MIN_ROWS:
                continue
            if len(rows) > SCREEN_ROWS:
                rows = rows[rng.integers(len(rows), size=SCREEN_ROWS)]
            for relation in _pairs(values[rows], i, others, width):
                found[relation] = None
    return list(found)


def _patterns(present: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return, of (N, n) bool, the first column of each pattern, and (n,) the pattern of each column."""
    seen: dict[bytes, int] = {}
    packed = np.packbits(present, axis=0)
    group = np.array([seen.setdefault(packed[:, j].tobytes(), len(seen)) for j in range(present.shape[1])])
    return [int(np.flatnonzero(group == g)[0]) for g in range(len(seen))], group


def _pairs(block: np.ndarray, i: int, others: np.ndarray, width: np.ndarray) -> Iterator[Relation]:
    """Yield the relations of column i with each of ``others`` that hold in ``block`` (m, n)."""
    slack = ROUNDED * np.minimum(np.minimum(width[i], width[others])[:, None], width[None, :])
    for sign in (1.0, -1.0):
        pair = block[:, [i]] + sign * block[:, others]
        for target in (1.0, -1.0):
            gap = np.abs(pair[:6, :, None] - target * block[:6, None, :])
            alive = ~(gap > slack).any(axis=0)
            alive[:, i] = alive[np.arange(len(others)), others] = False
            for a, k in np.argwhere(alive):
                rest = np.abs(pair[:, a] - target * block[:, k])
                if (~np.isnan(rest)).sum() >= 10 and not (rest > slack[a, k]).any():
                    yield _canonical((i, int(others[a]), int(k)), (1.0, sign, -target))


def _canonical(columns: Iterable[int], coefficients: Iterable[float]) -> Relation:
    pairs = sorted(zip(columns, coefficients, strict=True))
    lead = pairs[0][1]
    return tuple(c for c, _ in pairs), tuple(f / lead for _, f in pairs)


def _deviation(values: np.ndarray, relation: Relation) -> float:
    """Return the largest |Σ c x| over complete records; 0 where exact, infinite without evidence."""
    part = values[:, list(relation[0])]
    part = part[~np.isnan(part).any(axis=1)]
    if not _supported(part):
        return math.inf
    coefficients = np.array(relation[1])
    if linear_holds(part, coefficients, "==", 0.0).all():
        return 0.0
    return float(np.abs(part @ coefficients).max())


def _supported(part: np.ndarray) -> bool:
    """Whether complete records (m, t) differ enough for a sum that fits to be no accident."""
    if len(part) < MIN_ROWS or (part != 0).sum(axis=0).min() < 10:
        return False
    telling = part[(part != 0).any(axis=1)]
    if len(np.unique(telling[:2000], axis=0)) < 20:
        return False
    return all(
        len(np.unique(telling[:2000, j])) >= 3 or len(np.unique(telling[:, j])) >= 3
        for j in range(part.shape[1])
    )


def _independent(candidates: list[Relation], chosen: list[Relation], n: int) -> list[Relation]:
    """Return ``chosen`` and those candidates, short ones first, that do not follow from others."""
    result = list(chosen)
    rows = [_vector(r, n) for r in result]
    for relation in sorted(candidates, key=lambda r: (len(r[0]), max(r[0]))):
        row = _vector(relation, n)
        if np.linalg.matrix_rank(np.array([*rows, row])) == len(rows) + 1:
            rows.append(row)
            result.append(relation)
    return result


def _vector(relation: Relation, n: int) -> np.ndarray:
    row = np.zeros(n)
    row[list(relation[0])] = relation[1]
    return row


def _null_space(
    values: np.ndarray, kept: list[int], chosen: list[Relation], rng: np.random.Generator
) -> list[Relation]:
    """Return relations of 3 … `MAX_TERMS` columns, from complete records of columns missing together."""
    n = values.shape[1]
    present = ~np.isnan(values[:, kept])
    together = present.astype("float32").T @ present.astype("float32")
    found: dict[Relation, None] = {}
    tried = set()
    for first, share in product(_patterns(present)[0], (0.95, 0.75, 0.5)):
        near = np.flatnonzero(together[first] >= share * max(1.0, together[first, first]))
        key = tuple(near.tolist())
        if len(near) < 3 or key in tried:
            continue
        tried.add(key)
        rows = np.flatnonzero(present[:, near].all(axis=1))
        if len(rows) >= max(MIN_ROWS, 2 * len(near)):
            columns = np.asarray(kept)[near]
            block = _telling(values[rows][:, columns], rng)
            found |= dict.fromkeys(_dependencies(block, columns, chosen, n))
    return list(found)


def _telling(block: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return some records of ``block`` (m, t), among them up to 8 in which each column is not 0."""
    rows = [rng.permutation(len(block))[:50]]
    rows += [rng.permutation(np.flatnonzero(column))[:8] for column in block.T]
    return np.asarray(block[np.unique(np.concatenate(rows))])


def _dependencies(block: np.ndarray, columns: np.ndarray, chosen: list[Relation], n: int) -> list[Relation]:
    """Return which of ``columns`` are sums of others in ``block`` (m, t), as sparse as can be."""
    scale = np.sqrt((block**2).mean(axis=0))
    usable = np.flatnonzero(scale > 0)
    if len(usable) < 3:
        return []
    r, order = qr(block[:, usable] / scale[usable], mode="r", pivoting=True, check_finite=False)
    size = np.abs(np.diag(r))
    rank = int((size > 1e-10 * size[0]).sum())
    if rank == len(usable):
        return []
    at = columns[usable[order]]
    scales = scale[usable[order]]
    combined = solve_triangular(r[:rank, :rank], r[:rank, rank:], check_finite=False)
    basis = [_vector(c, n) for c in chosen]
    found = []
    for k in range(combined.shape[1]):
        coefficients = combined[:, k] * scales[rank + k] / scales[:rank]
        whole = np.round(coefficients)
        if np.abs(coefficients - whole).max() > 1e-4:
            continue
        row = np.zeros(n)
        row[at[:rank]], row[at[rank + k]] = whole, -1.0
        row = _sparser(row, basis)
        terms = np.flatnonzero(row)
        if 3 <= len(terms) <= MAX_TERMS and np.abs(row).max() == 1:
            found.append(_canonical(terms.tolist(), row[terms].tolist()))
    return found


def _sparser(row: np.ndarray, basis: list[np.ndarray]) -> np.ndarray:
    """Add known relations to ``row`` while that makes it shorter."""
    while basis:
        tried = [row + m * other for other in basis for m in (-2.0, -1.0, 1.0, 2.0)]
        best = min(tried, key=lambda v: np.abs(v).sum())
        if not 0 < np.abs(best).sum() < np.abs(row).sum():
            break
        row = best
    return row


def _with_dependents(relations: list[Relation], values: np.ndarray, names: list[str]) -> list[Finding]:
    """Turn relations into edits, each with a dependent that no other computes and no circle needs.

    The dependents are chosen together, by assignment, so that a total goes to its own parts.
    """
    scores = np.full((len(relations), len(names)), -1e9)
    for i, relation in enumerate(relations):
        for j in relation[0]:
            scores[i, j] = _dependence(j, relation, values, names)
    best = linear_sum_assignment(scores, maximize=True)[1] if relations else ()
    findings: list[Finding] = []
    above: dict[int, set[int]] = {}
    for i, relation in enumerate(relations):
        ranked = [int(best[i]), *sorted(relation[0], key=lambda j: scores[i, j], reverse=True)]
        taken = {*above, *(int(j) for j in best[i + 1 :])}
        free = (j for j in ranked if j in relation[0] and j not in taken)
        target = next((j for j in free if not _circular(j, relation[0], above)), None)
        if target is not None:
            above[target] = set(relation[0]) - {target}
        why = "" if target is not None else "each of them is computed from others already"
        findings.append(Finding(_linear(relation, names, target), why, active=target is not None))
    return findings


def _circular(target: int, columns: Iterable[int], above: dict[int, set[int]]) -> bool:
    waiting, seen = set(columns) - {target}, set()
    while waiting:
        j = waiting.pop()
        if j == target:
            return True
        seen.add(j)
        waiting |= above.get(j, set()) - seen
    return False


def _dependence(j: int, relation: Relation, values: np.ndarray, names: list[str]) -> float:
    """Score how much column j looks like the one that was computed; the later column wins a tie."""
    columns, coefficients = relation
    own = coefficients[columns.index(j)]
    lone = sum(c == own for c in coefficients) == 1
    words = _Facts(names[j], "number", 0, {}, {}).words
    others = [k for k in columns if k != j]
    score = 4.0 * bool(words & TOTALS and lone) + 4.0 * bool(words & DIFFERENCES)
    # wt82_71 carries the endings of wt82 and wt71.
    endings = [m.group() for k in others if (m := re.search(r"\d+$", names[k]))]
    if len(set(endings)) > 1 and all(e in names[j] for e in endings):
        score += 4.0
    negative = {k: bool(np.nanmin(values[:, k]) < 0) for k in columns}
    score += 2.0 * (negative[j] and not any(negative[k] for k in others))
    score += 1.0 * (lone and not any(negative.values()))
    return score + 1e-3 * j / len(names)


def _linear(
    relation: Relation, names: list[str], target: int | None, tolerance: float | None = None
) -> LinearEdit:
    columns, coefficients = relation
    sign = -1.0 if target is None else -math.copysign(1.0, coefficients[columns.index(target)])
    terms = {names[j]: sign * c + 0.0 for j, c in zip(columns, coefficients, strict=True)}
    last = names[columns[-1] if target is None else target]
    return LinearEdit(
        name=f"{last} adds up" if len(columns) > 2 else f"{last} repeats",
        terms={k: c for k, c in terms.items() if k != last} | {last: terms[last]},
        dependent=None if target is None else last,
        tolerance=tolerance,
    )


def _nearly(relation: Relation, values: np.ndarray, names: list[str]) -> Finding | None:
    """Propose a sum that holds in nearly every record, or up to rounding."""
    part = values[:, list(relation[0])]
    part = part[~np.isnan(part).any(axis=1)]
    deviation = _deviation(part, (tuple(range(len(relation[0]))), relation[1]))
    if not 0 < deviation < math.inf:
        return None
    target = max(relation[0], key=lambda j: _dependence(j, relation, values, names))
    wrong = int((~linear_holds(part, np.array(relation[1]), "==", 0.0)).sum())
    if wrong <= 0.01 * len(part):
        why = f"holds in all but {wrong} of {len(part)} records"
        return Finding(_linear(relation, names, target), why, active=False)
    if deviation > ROUNDED * float(part.std(axis=0).min()):
        return None
    edit = _linear(relation, names, target, outward(deviation, upward=True))
    return Finding(edit, "holds up to rounding; the tolerance is rounded up", active=False)


def outward(value: float, *, upward: bool) -> float:
    """Return the next 1, 2 or 5 × 10ᵉ beyond ``value``, never ``value`` itself; 0 stays 0.

    Examples
    --------
    >>> outward(74, upward=True), outward(25, upward=False), outward(100, upward=True)
    (100.0, 20.0, 200.0)
    """
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = math.floor(math.log10(size))
    ladder = [float(f"{s}e{e}") for e in range(exponent - 1, exponent + 2) for s in (1, 2, 5)]
    if (value > 0) == upward:
        return math.copysign(min(v for v in ladder if v > size * (1 + 1e-9)), value)
    return math.copysign(max(v for v in ladder if v < size * (1 - 1e-9)), value)


# --------------------------------------------------------------------------- rules


def find_rules(data: Microdata, sums: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """Find rules that no record of ``data`` breaks.

    Parameters
    ----------
    data : Microdata, N records
    sums : what `profile` found; those among continuous variables are kept

    Returns
    -------
    tuple of Finding
        Sums; limits; levels that follow from a number's range (older where age is above 50);
        cells that are empty, or levels that are fixed, where another variable takes a level; and,
        as suggestions only, orders between numbers and cells that are empty together. Every
        active rule was evaluated on all records. Names are unique.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [*range(30, 70)] * 5})
    >>> frame["older"] = (frame.age > 50).astype(int)
    >>> schema = Schema([Variable("age", "continuous"), Variable("older", "binary")])
    >>> [f.edit.name for f in find_rules(Microdata(frame, schema)) if f.active]
    ['age is not negative', 'older follows from age', 'older follows from age (2)']
    """
    table = _Table(data)
    kept = [f for f in sums if all(n in table.numeric for n in f.edit.variables)]
    computed = {f.edit.dependent for f in kept if f.active and isinstance(f.edit, LinearEdit)}
    findings = [*kept, *_bounds(table, kept)]
    findings += [*_cuts(table), *_implications(table, {str(n) for n in computed}), *_orders(table, kept)]
    return tuple(_named_apart([_sure(f, data.frame) for f in findings]))


def _sure(finding: Finding, frame: pd.DataFrame) -> Finding:
    """Keep a rule active only when every record satisfies it as it will be checked."""
    if finding.active and not finding.edit.holds(frame).all():
        return replace(finding, active=False, reason=f"{finding.reason}; not in every record")
    return finding


def _named_apart(findings: list[Finding]) -> Iterator[Finding]:
    used: dict[str, int] = {}
    for finding in findings:
        name = finding.edit.name
        used[name] = used.get(name, 0) + 1
        while used[name] > 1 and f"{name} ({used[name]})" in used:
            used[name] += 1
        if used[name] > 1:
            name = f"{name} ({used[name]})"
            used[name] = 1
        yield replace(finding, edit=replace(finding.edit, name=name))


class _Table:
    """The numbers of a table, and its levels as codes."""

    def __init__(self, data: Microdata) -> None:
        self.records = len(data)
        released = [v for v in data.schema if v.is_masked]
        self.numeric = {
            v.name: data.frame[v.name].to_numpy(dtype="float64") for v in released if v.kind == "continuous"
        }
        self.precision = {v.name: v.precision for v in released if v.kind == "continuous"}
        self.levels: dict[str, tuple[Any, ...]] = {}
        self.codes: dict[str, np.ndarray] = {}
        for v in released:
            if v.is_categorical and v.levels and len(v.levels) <= MAX_LISTED:
                self.levels[v.name] = v.levels
                self.codes[v.name] = data.frame[v.name].cat.codes.to_numpy()
        self.gaps = {v.name: data.frame[v.name].isna().to_numpy() for v in released}

    def counts(self, name: str) -> np.ndarray:
        """Return (q,) the records at each level."""
        known = self.codes[name][self.codes[name] >= 0]
        return np.bincount(known, minlength=len(self.levels[name]))


def _bounds(table: _Table, sums: Sequence[Finding]) -> Iterator[Finding]:
    """Propose limits: 0 where nothing is below it; others rounded outward, for a person to mend."""
    implied = {f.edit.dependent for f in sums if isinstance(f.edit, LinearEdit) and _sum_of_parts(f, table)}
    for name, column in table.numeric.items():
        known = column[~np.isnan(column)]
        if len(known) < MIN_ROWS or name in implied:
            continue
        low, high = float(known.min()), float(known.max())
        lower, upper = outward(low, upward=False), outward(high, upward=True)
        if low >= 0 and (table.precision[name] or 0) >= 1:
            lower = math.floor(lower)
        if low >= 0 and high <= 1 and (known != np.round(known)).any():
            lower, upper = 0.0, 1.0
        if low >= 0:
            edit = BoundEdit(name=f"{name} is not negative", variable=name, lower=0.0)
            hint = f"the data suggest {lower:.12g} to {upper:.12g}, rounded outward"
            yield Finding(edit, hint, active=True)
        elif np.isfinite([lower, upper]).all():
            edit = BoundEdit(name=f"limits of {name}", variable=name, lower=lower, upper=upper)
            yield Finding(edit, "rounded outward", active=False)


def _sum_of_parts(finding: Finding, table: _Table) -> bool:
    """Whether the dependent is a plain sum of parts that are never negative."""
    edit = finding.edit
    assert isinstance(edit, LinearEdit)
    parts = {n: c for n, c in edit.terms.items() if n != edit.dependent}
    whole = edit.dependent is not None and edit.terms[edit.dependent] < 0
    return whole and all(c > 0 and np.nanmin(table.numeric[n]) >= 0 for n, c in parts.items())


# ------------------------------------------------------------- levels that follow from a number


def _cuts(table: _Table) -> list[Finding]:
    """Find variables whose levels occupy separate ranges of a number."""
    names = [n for n, column in table.numeric.items() if len(np.unique(column[~np.isnan(column)])) >= 5]
    found: list[Finding] = []
    if not names:
        return found
    numbers = np.column_stack([table.numeric[n] for n in names])
    step = max(1, table.records // 1000)
    for name, codes in table.codes.items():
        q = len(table.levels[name])
        if not 2 <= (table.counts(name) > 0).sum() <= MAX_CODES:
            continue
        near = _separate(codes[::step], numbers[::step], q)
        sure = [j for j in near if _is_cut(codes, numbers[:, j], q)]
        for place, j in enumerate(sure):
            found += _cut(table, name, names[j], active=place == 0)
    return found


def _is_cut(codes: np.ndarray, number: np.ndarray, q: int) -> bool:
    """Whether the levels have separate ranges, each with enough records to tell."""
    counts = np.bincount(codes[(codes >= 0) & ~np.isnan(number)], minlength=q)
    enough = counts[counts > 0].min(initial=len(codes)) >= MIN_RECORDS
    return bool(enough and len(_separate(codes, number[:, None], q)))


def _ranges(codes: np.ndarray, numbers: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lowest and highest (q, n) number at each level; NaN where a level has none."""
    order = np.argsort(codes, kind="stable")
    sorted_codes, rows = codes[order], numbers[order]
    low, high = np.full((q, numbers.shape[1]), np.nan), np.full((q, numbers.shape[1]), np.nan)
    for level in range(q):
        start, stop = np.searchsorted(sorted_codes, [level, level + 1])
        if stop > start:
            low[level] = np.fmin.reduce(rows[start:stop], axis=0)
            high[level] = np.fmax.reduce(rows[start:stop], axis=0)
    return low, high


def _separate(codes: np.ndarray, numbers: np.ndarray, q: int) -> np.ndarray:
    """Return the columns of ``numbers`` (N, n) in which at least 2 of q levels have separate ranges."""
    low, high = _ranges(codes, numbers, q)
    order = np.argsort(low, axis=0)
    low, high = np.take_along_axis(low, order, axis=0), np.take_along_axis(high, order, axis=0)
    apart = (high[:-1] < low[1:]) | np.isnan(low[1:])
    return np.flatnonzero(apart.all(axis=0) & ~np.isnan(low[1]))


def _cut(table: _Table, name: str, number: str, *, active: bool) -> list[Finding]:
    """Return one rule for each level that a range of ``number`` fixes."""
    codes, column, unit = table.codes[name], table.numeric[number], table.precision[number]
    low, high = (side[:, 0] for side in _ranges(codes, column[:, None], len(table.levels[name])))
    order = [int(v) for v in np.argsort(low) if not np.isnan(low[v])]
    edges = [_edge(column, float(high[a]), float(low[b]), unit) for a, b in pairwise(order)]
    gaps = bool((codes[~np.isnan(column)] < 0).any())
    found = []
    for place, level in enumerate(order):
        lower = edges[place - 1][1] if place else None
        upper = edges[place][0] if place < len(edges) else None
        then = Condition(variable=name, values=(table.levels[name][level],), missing=True if gaps else None)
        when = (Condition(variable=number, lower=lower, upper=upper),)
        edit = ConditionalEdit(name=f"{name} follows from {number}", when=when, then=then)
        why = "each level has its own range; cut at a round number where there is one"
        found.append(Finding(edit, why, active=active))
    return found


def _edge(column: np.ndarray, low: float, high: float, unit: float | None) -> tuple[float, float]:
    """Return where a range that reaches to ``low`` ends, and where the next, from ``high``, begins.

    A round number between them and, on a grid of ``unit``, the next one; where that would write
    down a value that few records hold, the middle twice, which is on no grid.
    """
    middle = _roundest(low, high)
    if unit is None:
        return middle, middle
    end = round(float(np.floor(round(middle / unit, 6)) * unit), 9)
    start = round(end + unit, 9)
    held = [int((column == v).sum()) for v in (end, start)]
    if any(0 < n < MIN_COUNT for n in held):
        return (low + high) / 2, (low + high) / 2
    return end, start


def _roundest(low: float, high: float) -> float:
    """Return the number in (low, high) with the fewest digits, or ``low`` when there is no room."""
    for decimals in range(-9, 16):
        step = 10.0**-decimals
        candidate = round((math.floor(low / step) + 1) * step, max(0, decimals))
        if low < candidate < high:
            return candidate
    return low


# ------------------------------------------------------------- what follows from a level


@dataclass(frozen=True)
class _Mark:
    """One statement about a cell: the variable takes a level, or (level None) is missing."""

    name: str
    level: int | None


@dataclass(frozen=True)
class _Implied:
    """What follows from one mark: the pairs of marks it forbids, and how surprising that is.

    ``value`` is the level of the mark, ``consequent`` the one mark that must hold, if it is one.
    """

    mark: _Mark
    value: Any
    then: Condition
    expected: float
    active: bool
    forbids: frozenset[frozenset[Any]]
    consequent: _Mark | None = None


def _implications(table: _Table, computed: set[str]) -> list[Finding]:
    """Find cells that are always empty, and levels that never occur, beside another level."""
    joint = _Joint(table)
    found: list[_Implied] = []
    for mark in joint.marks:
        if joint.of(mark, mark) < MIN_RECORDS or mark.name in computed:
            continue
        for name in table.gaps:
            if name != mark.name and name not in computed:
                found += _implied(table, joint, mark, name)
    return _pruned(found, list(table.gaps))


class _Joint:
    """In how many records two marks hold together."""

    def __init__(self, table: _Table) -> None:
        self.records = table.records
        self.marks = [_Mark(n, q) for n, levels in table.levels.items() for q in range(len(levels))]
        self.marks += [_Mark(n, None) for n, gap in table.gaps.items() if gap.any()]
        self._place = {mark: i for i, mark in enumerate(self.marks)}
        self._counts = np.zeros((len(self.marks), len(self.marks)))
        for start in range(0, table.records if self.marks else 0, 20_000):
            rows = slice(start, start + 20_000)
            held = [
                table.gaps[m.name][rows] if m.level is None else table.codes[m.name][rows] == m.level
                for m in self.marks
            ]
            block = np.column_stack(held).astype("float32")
            self._counts += block.T @ block
        starts = np.cumsum([0, *(len(levels) for levels in table.levels.values())])
        self._levels = {n: slice(*at) for n, at in zip(table.levels, pairwise(starts.tolist()), strict=True)}

    def levels(self, name: str, mark: _Mark | None = None) -> np.ndarray:
        """Return (q,) the records at each level of ``name``: all, or those at which ``mark`` holds too."""
        at = self._levels[name]
        return np.diag(self._counts)[at] if mark is None else self._counts[self._place[mark], at]

    def of(self, one: _Mark, other: _Mark) -> float:
        """Return the records at which both hold; 0 for a variable that is never missing."""
        i, j = self._place.get(one), self._place.get(other)
        return 0.0 if i is None or j is None else float(self._counts[i, j])


def _implied(table: _Table, joint: _Joint, mark: _Mark, name: str) -> list[_Implied]:
    """Return what ``mark`` says about the variable ``name``: empty, not empty, or of some levels."""
    size, gap = joint.of(mark, mark), _Mark(name, None)
    beside, gaps = joint.of(mark, gap), joint.of(gap, gap)
    if mark.level is None:
        # Cells that are empty together are only proposed, from the earlier column to the later.
        columns = list(table.gaps)
        expected = size * (1 - gaps / joint.records)
        if beside < size or expected < STRONG or columns.index(mark.name) > columns.index(name):
            return []
        forbids = frozenset({frozenset({mark, (name, "known")})})
        return [_Implied(mark, None, Condition(variable=name, missing=True), expected, False, forbids, gap)]
    value = table.levels[mark.name][mark.level]
    if beside == size:
        expected = size * (1 - gaps / joint.records)
        forbids = frozenset({frozenset({mark, (name, "known")})})
        then = Condition(variable=name, missing=True)
        found = [_Implied(mark, value, then, expected, expected >= STRONG, forbids, gap)]
        return found if expected >= WEAK else []
    expected = size * gaps / joint.records
    found = []
    if beside == 0 and expected >= STRONG and _decides(table, joint, mark.name, gap):
        forbids = frozenset({frozenset({mark, gap})})
        found.append(_Implied(mark, value, Condition(variable=name, missing=False), expected, True, forbids))
    return found + (_implied_levels(table, joint, mark, name) if name in table.levels else [])


def _decides(table: _Table, joint: _Joint, name: str, gap: _Mark) -> bool:
    """Whether each level of ``name`` has the cell always or never missing, and both happen."""
    marks = [_Mark(name, q) for q in range(len(table.levels[name]))]
    shares = [joint.of(m, gap) / joint.of(m, m) for m in marks if joint.of(m, m)]
    return set(shares) == {0.0, 1.0}


def _implied_levels(table: _Table, joint: _Joint, mark: _Mark, name: str) -> list[_Implied]:
    """Return the levels left beside ``mark``: those seen, and those too rare to be missed."""
    assert mark.level is not None
    counts, beside = joint.levels(name), joint.levels(name, mark)
    missed = beside.sum() * counts / max(1.0, counts.sum())
    absent = (beside == 0) & (missed >= WEAK)
    expected = float(missed[absent].sum())
    if expected < STRONG:
        return []
    lost, kept = np.flatnonzero(absent), np.flatnonzero((counts > 0) & ~absent)
    if counts[kept].min() < MIN_COUNT:
        return []
    single, gap = len(kept) == 1, joint.of(mark, _Mark(name, None)) > 0
    values = tuple(table.levels[name][q] for q in kept)
    then = Condition(variable=name, values=values, missing=True if gap else None)
    forbids = frozenset(frozenset({mark, _Mark(name, int(q))}) for q in lost)
    consequent = _Mark(name, int(kept[0])) if single and not gap else None
    value = table.levels[mark.name][mark.level]
    return [_Implied(mark, value, then, expected, single, forbids, consequent)]


def _pruned(found: list[_Implied], order: list[str]) -> list[Finding]:
    """Drop what follows from other rules, join like rules, and keep the most surprising suggestions."""
    follows: dict[_Mark, set[_Mark]] = {}
    for rule in found:
        if rule.consequent is not None:
            follows.setdefault(rule.mark, set()).add(rule.consequent)
    kept: list[_Implied] = []
    covered: set[frozenset[Any]] = set()
    for rule in sorted(found, key=lambda r: (not r.active, -r.expected, order.index(r.mark.name))):
        if not all(pair in covered or _emptied(pair, covered) for pair in rule.forbids):
            if not _by_way(rule, follows, order):
                kept.append(rule)
            covered |= rule.forbids
    joined = _joined(kept)
    active = [f for f in joined if f.active]
    return active + [f for f in joined if not f.active][:MAX_SUGGESTED]


def _emptied(pair: frozenset[Any], covered: set[frozenset[Any]]) -> bool:
    """Whether two levels cannot meet because the one empties the variable of the other."""
    marks = [m for m in pair if isinstance(m, _Mark) and m.level is not None]
    return any(frozenset({a, (b.name, "known")}) in covered for a in marks for b in marks if a != b)


def _joined(rules: list[_Implied]) -> list[Finding]:
    """Return one edit for all levels of a variable that have the same consequent."""
    groups: dict[Any, list[_Implied]] = {}
    for rule in rules:
        key = (rule.mark.name, rule.mark.level is None, rule.then, rule.active)
        groups.setdefault(key, []).append(rule)
    found = []
    for (name, gap, then, active), group in groups.items():
        values = None if gap else tuple(sorted(r.value for r in group))
        when = Condition(variable=name, values=values, missing=True if gap else None)
        what = "follows from" if then.values else "missing by" if then.missing else "known by"
        edit = ConditionalEdit(name=f"{then.variable} {what} {name}", when=(when,), then=then)
        expected = sum(r.expected for r in group)
        why = "" if active else f"by chance {expected:.0f} record(s) would break it"
        found.append(Finding(edit, why, active))
    return found


def _by_way(rule: _Implied, follows: dict[_Mark, set[_Mark]], order: list[str]) -> bool:
    """Whether ``rule`` follows from two others, by way of a third mark."""
    if rule.consequent is None:
        return False
    for middle in follows.get(rule.mark, set()) - {rule.consequent}:
        if rule.consequent not in follows.get(middle, set()):
            continue
        same = rule.mark in follows.get(middle, set())
        if not same or order.index(middle.name) < order.index(rule.mark.name):
            return True
    return False


# ------------------------------------------------------------- order


def _orders(table: _Table, sums: Sequence[Finding]) -> list[Finding]:
    """Find numbers that never exceed another; suggestions, the most surprising ones first."""
    names = [n for n, c in table.numeric.items() if np.sum(~np.isnan(c)) >= 5 * MIN_RECORDS]
    together = [set(f.edit.variables) for f in sums]
    found: dict[tuple[str, str], float] = {}
    step = max(1, table.records // 1000)
    sample = {n: table.numeric[n][::step] for n in names}
    for low in names:
        for high in names:
            if low == high or any({low, high} <= s for s in together) or (sample[low] > sample[high]).any():
                continue
            share = _share_above(sample[low], sample[high])
            gap = table.numeric[high] - table.numeric[low]
            both = ~np.isnan(gap)
            if (
                share >= 0.05
                and both.sum() >= 5 * MIN_RECORDS
                and gap[both].min() >= 0
                and gap[both].max() > 0
            ):
                found[low, high] = share
    direct = {
        (low, high): share
        for (low, high), share in found.items()
        if not any((low, m) in found and (m, high) in found for m in names)
    }
    ranked = sorted(direct.items(), key=lambda item: -item[1])[:MAX_SUGGESTED]
    return [
        Finding(
            LinearEdit(name=f"{low} is at most {high}", terms={high: 1.0, low: -1.0}, relation=">="),
            f"by chance {share:.0%} of the records would break it",
            active=False,
        )
        for (low, high), share in ranked
    ]


def _share_above(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of all pairs, as if independent, in which ``one`` exceeds ``other``."""
    one, other = one[~np.isnan(one)], np.sort(other[~np.isnan(other)])
    if not len(one) or not len(other):
        return 0.0
    return float(np.searchsorted(other, one, side="left").mean() / len(other))
