"""What columns seem to be: kinds and roles from names and counts, levels, codes for "missing"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from anoncore.errors import AnonymizationError
from anoncore.microdata.inference.columns import (
    MAX_LISTED,
    ColumnFacts,
    as_number_or_text,
    facts_of,
    words_in_order,
)
from anoncore.microdata.inference.vocabulary import (
    AMOUNT,
    AREA,
    BODY,
    DATE_PARTS,
    DESIGN,
    GROUPS,
    HOUSEHOLD,
    IDENTIFIER,
    MEASURED,
    MISSING_CODES,
    MISSING_TEXTS,
    NO_HOUSEHOLD,
    NUMBERED,
    ONE_UNIT,
    PERSONAL,
    PREFIXES,
    QUASI,
    RATES,
    SCALES,
    SENSITIVE,
    TEXT_PATTERNS,
    TIMES,
    UNORDERED,
    UNPREFIXED,
)
from anoncore.microdata.inference.weights import weighs_records
from anoncore.microdata.precision import MAX_DECIMALS, MIN_COUNT, observed_precision, round_to
from anoncore.microdata.temporal import Temporal, temporal_of
from anoncore.microdata.variable import Kind, Role, Variable

# A few values do not decide a number's precision where they are less than one in so many records.
FEW_OF = 100
MAX_LEVELS = 100  # levels that can be masked; more need recoding first
MAX_COUNTED = 7  # different numbers of a count that are taken for codes
MAX_CODES = 12  # whole numbers that may be codes of an ordinal variable
FREQUENT = 10  # records of a level, below which drafts have it suppressed
MANY_RECORDS = 200  # of a table, in which a column without a frequent level is nearly empty
FEWEST_COUNTED = 6  # different numbers, before their frequencies say that they are counts
FALLING = -0.8  # rank correlation of a number and its frequency
FEWEST_MULTIPLES = 12  # different numbers, all of them of tens or hundreds, before that is their unit
MIN_RECORDS = 20  # before uniqueness says anything
UNIQUE = 0.99  # distinct values per record, from which on a value says whose record it is
LARGEST_HOUSEHOLDS = 50.0  # records of a household, on average
UNLIKE_GROUPS = 4.0  # variance of the sizes of groups, in that of chance
UNORDERED_GROUPS = 1.2  # ratio of von Neumann: 2 where neighbours have nothing in common
COLLISIONS = 7.0  # equal values that chance would give; with none, the numbers were given out one by one
CLOCK = 40  # different times of day; chance would leave as many numbers alone in one of 10^8 columns
FILLED = 0.5  # of the numbers in a range
MAYBE_IDENTIFIER = "whole numbers that hardly repeat, taken for an amount"
NAMES = "the name suggests names, addresses or free text; identifier if it says whose record it is"
GROUP_NUMBERS = "whole numbers that seem to number groups of records"
DATES = "write them by ISO 8601 (2024-12-31), or turn them into a year, and give it another role"


@dataclass(frozen=True)
class Guess:
    """What one column seems to be.

    Parameters
    ----------
    variable : Variable
        Its role is "identifier" or "excluded" wherever releasing the column would be unsafe or impossible.
    reason : str
        Why, in words that hold no value.
    confirm : bool
        Whether a person should look at it before anything else.
    codes : values that may mean "missing", each with the number of records; proposed, not applied
    frequent : where levels are not listed since some are rare, the others
    """

    variable: Variable
    reason: str
    confirm: bool = False
    codes: tuple[tuple[Any, int], ...] = field(default=(), repr=False)
    frequent: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class _Reason:
    """Why a column should be dropped, whether equal values of it are of one statistical unit, and of which time."""

    reason: str
    names_unit: bool = False
    temporal: Temporal | None = None

    @classmethod
    def of_dates(cls, facts: ColumnFacts) -> _Reason | None:
        """Return the reason for dates and times that can be read as such, None for other values."""
        temporal = temporal_of(facts.counts)
        if temporal is None:
            return None
        held = "times of day" if temporal == "time" else "dates"
        return cls(f"holds {held}; give it another role to release them", temporal=temporal)


def guess_columns(frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Guess what each column of ``frame`` is, from its name and its values.

    Parameters
    ----------
    frame : DataFrame, (N, n), with text column names

    Raises
    ------
    AnonymizationError
        When a column name is not text, or occurs twice.
    """
    if not all(isinstance(name, str) for name in frame.columns):
        raise AnonymizationError("column names must be text; rename the columns that are numbers")
    if not frame.columns.is_unique:
        raise AnonymizationError("column names must be unique; rename or remove one of each that are equal")
    return tuple(guess(facts_of(frame[name])) for name in frame.columns)


def guess(facts: ColumnFacts, *, adds_up: bool = False, bodies: bool = False) -> Guess:
    """Guess what one column is; ``adds_up`` when it is a term of a sum of columns, ``bodies`` in a table of bodies."""
    if weighs_records(facts, bodies=bodies):
        precision = observed_precision(facts.numbers)
        variable = Variable(facts.name, "continuous", role="weight", precision=precision)
        constant = "; the same in every record" if len(facts.counts) == 1 else ""
        return Guess(variable, f"name and values suggest a survey weight{constant}", True)
    if dropped := _unreleasable(facts, adds_up):
        confirm = dropped.names_unit and not facts.words & (IDENTIFIER | ONE_UNIT)
        confirm = confirm or dropped.reason.startswith(GROUP_NUMBERS)
        role: Role = "identifier" if dropped.names_unit else "excluded"
        variable = Variable(facts.name, "nominal", role=role)
        if dropped.temporal is not None:
            variable = Variable(facts.name, "continuous", role=role, temporal=dropped.temporal)
        return Guess(variable, dropped.reason, confirm)
    if facts.words & HOUSEHOLD and not facts.words & NO_HOUSEHOLD and _numbers_groups(facts):
        reason = "the name suggests a household; it is not released by methods that mask records"
        return Guess(Variable(facts.name, "nominal", role="household"), reason, True)
    return _released(facts, adds_up)


def _numbers_groups(facts: ColumnFacts) -> bool:
    """Whether the values may number households: small groups of records, and no fractions."""
    whole = facts.content == "text" or facts.all_whole
    return whole and len(facts.counts) > MAX_LISTED and LARGEST_HOUSEHOLDS**-1 <= facts.distinct_share < 1


def _unreleasable(facts: ColumnFacts, adds_up: bool) -> _Reason | None:
    """Return why the column should be dropped, or None if it need not be."""
    if facts.content == "empty":
        return _Reason("missing in every record, so dropping it loses nothing")
    if facts.problem:
        return _Reason(f"{facts.problem}; correct the column and give it another role")
    if facts.content == "date":
        return _Reason.of_dates(facts) or _Reason(f"holds dates; {DATES}")
    if facts.content == "boolean":
        return None
    two_levels = len(facts.counts) <= 2 and facts.present >= MIN_RECORDS
    # A region's id, or a hospital's name, is a code of something that many share.
    shared = facts.words & (HOUSEHOLD | AREA | UNORDERED) and facts.distinct_share < 0.5
    if not two_levels and not shared:
        numbered = facts.words & ONE_UNIT and not facts.words & MEASURED and len(facts.counts) > MAX_LEVELS
        named = facts.words & IDENTIFIER and (len(facts.counts) > MAX_CODES or facts.distinct_share > 0.5)
        if named or (numbered and (facts.content == "text" or facts.all_whole)):
            return _Reason("the name suggests an identifier", names_unit=True)
        if facts.words & PERSONAL:
            return _Reason(NAMES)
    return _text_reason(facts, two_levels) if facts.content == "text" else _number_reason(facts, adds_up)


def _text_reason(facts: ColumnFacts, two_levels: bool) -> _Reason | None:
    texts = [v.strip() for v in facts.counts]
    sample = texts[:: max(1, len(texts) // 1000)]
    for pattern, reason, names_unit in TEXT_PATTERNS:
        if names_unit is None and facts.listable_levels is not None:
            continue  # periods or ranges: no number of a person has few levels that all repeat
        if sum(pattern.fullmatch(t) is not None for t in sample) >= 0.9 * len(sample):
            if names_unit is False and (dates := _Reason.of_dates(facts)) is not None:
                return dates
            return _Reason(reason, facts.distinct_share >= UNIQUE if names_unit is None else names_unit)
    if facts.distinct_share > 0.5 and not two_levels:
        return _Reason("text, another one in more than half of the records", facts.distinct_share >= UNIQUE)
    if np.median([len(t) for t in texts]) > 60:
        return _Reason("long text")
    if len(texts) > MAX_LEVELS:
        return _Reason(
            f"text with more than {MAX_LEVELS} levels, too many to mask well; group them and give another role, or "
            "identifier if it says whose record it is"
        )
    return None


def _number_reason(facts: ColumnFacts, adds_up: bool) -> _Reason | None:
    values = facts.numbers
    if not facts.all_whole or adds_up or len(values) <= 2:
        return None
    if facts.present >= MIN_RECORDS and _as_dates(values):
        return _Reason("holds dates written as year, month, day; turn them into a year and give it another role")
    if _as_times(values):
        return _Reason("holds times of day written as 1345 for 13:45; turn them into hours and give it another role")
    if _hardly_repeats(facts) and _given_out(facts):
        return _Reason("whole numbers that do not repeat and were given out one by one", names_unit=True)
    if len(values) > MAX_LEVELS and _numbers_of_groups(facts):
        reason = f"{GROUP_NUMBERS}, too many to mask well; identifier or household if they say whose record it is"
        return _Reason(reason)
    if _unordered(facts) and len(values) > MAX_LEVELS:
        return _Reason(f"more than {MAX_LEVELS} codes, too many to mask well; group them and give another role")
    return None


def _hardly_repeats(facts: ColumnFacts) -> bool:
    unique = facts.distinct_share >= UNIQUE and facts.present >= MIN_RECORDS
    return unique and facts.all_whole and not facts.words & AMOUNT


def _given_out(facts: ColumnFacts) -> bool:
    """Whether whole numbers that never repeat rise from record to record, fill their range, or are spread evenly.

    Spread evenly, they must never repeat where chance would repeat some, or have all one length.
    """
    values, n = facts.numbers, len(facts.numbers)
    if facts.distinct_share < 1 or not (values % 10).any():
        return False
    if facts.rises:
        return True
    low, high = values[[0, -1]]
    if n >= FILLED * (high - low + 1):
        return True
    even = np.abs((values - low) / (high - low) - np.linspace(0, 1, n)).max() <= 1.63 / np.sqrt(n)
    repeats = n**2 / (high - low) / 2 >= COLLISIONS
    return bool(even and (repeats or (low >= 10_000 and len(str(int(low))) == len(str(int(high))))))


def _numbers_of_groups(facts: ColumnFacts) -> bool:
    """Whether whole numbers that repeat are those of schools, mothers or communities.

    Their name says so and nothing else, or the records stand in their order, which a measured quantity seldom gives, or
    they count from 1 and the next number is as often far more or less frequent as any other.
    """
    repeat = facts.all_whole and len(facts.counts) > MAX_CODES and facts.distinct_share < UNIQUE
    if not repeat or facts.numbers[0] < 0 or _falls_off(facts) or facts.words & HOUSEHOLD:
        return False
    if len(facts.counts) <= MAX_LISTED:
        return _numbered_from_one(facts)
    words = words_in_order(facts.name)
    named = all(_names_group(word) or word in NUMBERED for word in words) and any(map(_names_group, words))
    if named or (words and words[-1].endswith("code")):
        return True
    measured = facts.words & (AMOUNT | MEASURED | QUASI | SENSITIVE | BODY | TIMES)
    return bool(facts.rises and not measured) or _numbered_from_one(facts)


def _numbered_from_one(facts: ColumnFacts) -> bool:
    """Whether whole numbers are all from 1 on, and their frequencies differ without order, as sizes of groups do.

    Those of a quantity rise and fall: the ratio of the squared differences of neighbours to the variance (von Neumann
    1941) is far below 2, as it is in any order. Those of numbers drawn evenly hardly differ.
    """
    n = len(facts.counts)
    whole_range = facts.numbers[0] == 1 and facts.numbers[-1] == n <= MAX_LEVELS and facts.present >= FREQUENT * n
    if not whole_range or facts.words & (AMOUNT | MEASURED | QUASI | SENSITIVE | BODY | TIMES):
        return False
    frequencies = np.array([facts.counts[v] for v in facts.numbers.tolist()], dtype="float64")
    differ = frequencies.var(ddof=1) >= UNLIKE_GROUPS * frequencies.mean()
    roots = np.sqrt(frequencies)
    return bool(differ and (np.diff(roots) ** 2).sum() >= UNORDERED_GROUPS * ((roots - roots.mean()) ** 2).sum())


def _names_group(word: str) -> bool:
    """Whether a word names a group, alone or with what numbers it; the wave may follow: schidkn, of kindergarten."""
    return word in GROUPS or any(word[:end] in GROUPS and _numbers(word[end:]) for end in range(3, len(word)))


def _numbers(ending: str) -> bool:
    return ending in NUMBERED or any(len(ending) > 2 >= len(ending) - len(word) > 0 for word in _beginning(ending))


def _beginning(text: str) -> list[str]:
    return [word for word in NUMBERED if len(word) > 1 and text.startswith(word)]


def _unordered(facts: ColumnFacts) -> bool:
    """Whether the name is that of codes without an order, and the values are not those of a count or a size."""
    words = _words_for(facts)
    return bool(words & (UNORDERED | DESIGN) and not words & MEASURED and not _falls_off(facts))


def _words_for(facts: ColumnFacts) -> set[str]:
    """Return the words of the name; area and tenure are sizes where they have too many values, or can be 0."""
    size = facts.content == "number" and (len(facts.counts) > MAX_LEVELS or 0 in facts.counts)
    return facts.words - {"area", "tenure"} if size else facts.words


def _falls_off(facts: ColumnFacts) -> bool:
    """Whether larger values are rarer throughout, as those of a count; a few codes from 1 on may be so ordered."""
    count = len(facts.counts)
    if count < FEWEST_COUNTED or not (facts.numbers[0] == 0 or count > MAX_CODES):
        return False
    frequencies = [facts.counts[v] for v in facts.numbers.tolist()]
    return len(set(frequencies)) > 1 and bool(spearmanr(facts.numbers, frequencies).statistic <= FALLING)


def _in_steps(values: np.ndarray) -> bool:
    """Whether the values follow each other at equal distances, as codes in an order do."""
    return len(values) < 3 or float(np.ptp(np.diff(values))) == 0


def _as_dates(values: np.ndarray) -> bool:
    year, month, day = values // 10000, values // 100 % 100, values % 100
    return bool(np.all((year >= 1850) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)))


def _as_times(values: np.ndarray) -> bool:
    """Whether distinct whole numbers are hours and minutes: of others some end in 60 to 99, or all in 00 and 50."""
    clock = len(values) >= CLOCK and values[0] >= 0 and values[-1] <= 2400 and (values % 100 < 60).all()
    return bool(clock and len(np.unique(values // 100)) > 2 and (values % 50 != 0).any())


def _released(facts: ColumnFacts, adds_up: bool) -> Guess:
    kind, reason, confirm = _kind(facts, adds_up)
    if kind != "continuous" and facts.records >= MANY_RECORDS and max(facts.counts.values()) < FREQUENT:
        reason = f"no level is held by {FREQUENT} records, so that none could be released"
        return Guess(Variable(facts.name, "nominal", role="excluded"), reason)
    role, why = _role(facts)
    levels = None if kind == "continuous" else _levels(facts, kind)
    if facts.missing_texts:
        reason += f"; text where a number is missing ({sum(facts.missing_texts.values())} record(s))"
    unlisted_codes = facts.content == "number" and not facts.numeric_dtype and levels is None and kind != "continuous"
    if unlisted_codes and (kind == "ordinal" or not facts.parsed):
        # Levels that are read as text have the order of text, unless they are listed.
        kind, reason, confirm = "continuous", f"{reason}; some too rare to list, so kept as a number", False
    parts = [reason, why, "codes with leading zeros" if facts.leading_zeros else ""]
    if len(facts.counts) == 1:
        parts.append("the same in every record that has a value")
    frequent: tuple[Any, ...] = ()
    if kind != "continuous" and levels is None:
        many = len(facts.counts) > MAX_LISTED
        frequent = () if many else facts.frequent_levels
        because = (
            f"there are more than {MAX_LISTED}" if many else f"since fewer than {MIN_COUNT} records hold one of them"
        )
        parts.append(f"levels not listed, {because}")
    precision = _precision(facts) if kind == "continuous" else None
    missing = tuple(facts.missing_texts)
    variable = Variable(facts.name, kind, role=role, levels=levels, missing=missing, precision=precision)
    return Guess(variable, "; ".join(p for p in parts if p), confirm, _codes(facts), frequent)


def _precision(facts: ColumnFacts) -> float | None:
    """Return the unit of which values are multiples: tens or hundreds, too, of amounts that were rounded so.

    Of many records a few do not decide it: their decimals would show, and every released number would have some.
    """
    distinct = facts.numbers
    unit = observed_precision(distinct)
    if unit != 1.0 and len(distinct) >= FEWEST_MULTIPLES:
        counts = np.array([facts.counts[value] for value in sorted(facts.counts, key=float)])
        for coarser in (10.0**-decimals for decimals in range(MAX_DECIMALS)):
            odd = round_to(distinct, coarser) != distinct
            if 0 < counts[odd].sum() < MIN_COUNT <= counts.sum() / FEW_OF:
                distinct, unit = distinct[~odd], observed_precision(distinct[~odd])
                break
    if unit != 1.0 or len(distinct) < FEWEST_MULTIPLES:
        return unit
    return max(u for u in (1.0, 10.0, 100.0, 1000.0) if not (distinct % u).any())


def _levels(facts: ColumnFacts, kind: Kind) -> tuple[Any, ...] | None:
    if facts.content == "boolean":
        spelled = tuple(sorted(facts.counts, key=str))
        return spelled if isinstance(spelled[0], str) else (0, 1)
    if facts.content == "text" and kind == "ordinal" and not facts.ordered:
        scale = _scale(facts)
        return tuple(sorted(facts.counts, key=lambda v: scale[v.strip().casefold()]))
    return facts.listable_levels


def _kind(facts: ColumnFacts, adds_up: bool) -> tuple[Kind, str, bool]:
    """Return the kind, the reason, and whether to confirm."""
    count = len(facts.counts)
    if adds_up:
        return "continuous", "adds up with other columns", False
    if facts.content == "boolean":
        spelled = "true or false" + (", spelled in several ways" if count > 2 else "")
        return "binary" if count <= 2 else "nominal", spelled, False
    if count <= 2:
        return "binary", "", False
    if facts.content == "text":
        if facts.listable_levels and (facts.ordered or _scale(facts)):
            return "ordinal", f"{count} levels that seem to be ordered", False
        return "nominal", f"{count} levels", False
    if not facts.all_whole:
        few = facts.listable_levels is not None and count <= MAX_CODES and facts.present >= 10 * count
        return ("ordinal", f"{count} numbers and none between them", False) if few else ("continuous", "", False)
    groups = _numbers_of_groups(facts)
    if count <= MAX_LEVELS and (groups or _unordered(facts)):
        return "nominal", GROUP_NUMBERS if groups else f"{count} codes, by the name without an order", groups
    if _few_codes(facts):
        return _codes_or_numbers(facts)
    if _hardly_repeats(facts):
        return "continuous", MAYBE_IDENTIFIER, True
    return "continuous", "", False


def _usual(facts: ColumnFacts) -> np.ndarray:
    """Return the distinct numbers without those that may mean "missing"."""
    return np.asarray(facts.numbers[~np.isin(facts.numbers, [value for value, _ in _codes(facts)])])


def _few_codes(facts: ColumnFacts) -> bool:
    count = len(facts.counts)
    has_tail = _falls_off(facts) and min(facts.counts.values()) < MIN_COUNT
    counted = count > MAX_COUNTED and (facts.words & MEASURED or has_tail)
    return bool(count <= MAX_CODES and np.ptp(_usual(facts)) <= 30 and facts.present >= 10 * count and not counted)


def _codes_or_numbers(facts: ColumnFacts) -> tuple[Kind, str, bool]:
    """Take codes that leave out some for names, and others for places in an order."""
    usual, count = _usual(facts), len(facts.counts)
    frequent = usual[[facts.counts[v] >= 0.01 * facts.present for v in usual.tolist()]]
    if _in_steps(frequent) or usual[-1] > 9 or facts.words & (MEASURED | DATE_PARTS):
        return "ordinal", f"{count} whole numbers, taken for codes in an order", False
    return "nominal", f"{count} whole numbers with gaps, taken for codes without an order", False


def _scale(facts: ColumnFacts) -> dict[str, int]:
    """Return the rank of every level on a common scale, or nothing."""
    levels = {v.strip().casefold() for v in facts.counts}
    if len(levels) < len(facts.counts):
        return {}
    scale = next((scale for scale in SCALES if levels <= set(scale)), [])
    return {word: rank for rank, word in enumerate(scale)}


def _role(facts: ColumnFacts) -> tuple[Role, str]:
    """Return the role that the name suggests, and the reason."""
    words = facts.words
    if len(facts.counts) == 1:
        return "other", ""
    if _words_for(facts) & AREA and not words & RATES:
        return "area", "the name suggests an area"
    meant = words | ({w.removeprefix(p) for w in words for p in PREFIXES} - UNPREFIXED)
    if meant & SENSITIVE:
        return "sensitive", ""
    # Hours per day are no date.
    if meant & (QUASI - DATE_PARTS if words & MEASURED else QUASI):
        return "quasi-identifier", ""
    return "other", ""


def _codes(facts: ColumnFacts) -> tuple[tuple[Any, int], ...]:
    """Return values that may mean "missing": words, and outlying or piled-up codes."""
    if facts.content == "text":
        return tuple((v, n) for v, n in sorted(facts.counts.items()) if v.strip().casefold() in MISSING_TEXTS)
    if facts.content != "number" or len(facts.counts) < 3 or not facts.all_whole:
        return ()
    counts = {float(v): n for v, n in facts.counts.items()}
    usual = float(np.median(list(counts.values())))
    codes = {v for v, n in counts.items() if abs(v) >= 99 and v in MISSING_CODES and n >= 10 * usual}
    codes.update(_outlying(facts.numbers, 1.0))
    if not _from_minus_to_plus(facts):
        codes.update(_outlying(-facts.numbers[::-1], -1.0))
    return tuple((as_number_or_text(v), counts[v]) for v in sorted(codes) if counts[v] >= MIN_COUNT)


def _from_minus_to_plus(facts: ColumnFacts) -> bool:
    """Whether numbers are a scale about 0; -1, 0 and 1 only where cells are empty, as -1 may mean so beside 0 and 1."""
    symmetric = bool(np.array_equal(facts.numbers, -facts.numbers[::-1]))
    return symmetric and (len(facts.counts) > 3 or facts.present < facts.records)


def _outlying(values: np.ndarray, sign: float) -> list[float]:
    """Return the codes at the upper end of ``values`` that stand apart from all other values."""
    end = len(values)
    while end > 2 and sign * values[end - 1] in MISSING_CODES:
        end -= 1
    if end == len(values) or (sign < 0 and values[end - 1] > 0):
        return []
    rest = values[:end]
    only_negatives = sign < 0 and values[end] > 0 >= rest[-1]
    apart = values[end] - rest[-1] > max(1.0, 0.2 * (rest[-1] - rest[0]))
    return [sign * v for v in values[end:]] if apart or only_negatives else []
