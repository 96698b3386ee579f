"""What columns seem to be: kinds and roles from names and counts, levels, codes for "missing"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from anoncore.microdata import Kind, Role, Variable, observed_precision
from anoncore.profile.columns import Facts, facts_of, tidy
from anoncore.profile.findings import MAX_CODES, MAX_LISTED, MIN_COUNT, MIN_RECORDS, Guess, Profile
from anoncore.profile.sums import find_sums
from anoncore.profile.vocabulary import (
    AMOUNT,
    AREA,
    CODES,
    GAPS,
    HOUSEHOLD,
    IDENTIFIER,
    LOOKS,
    QUASI,
    SCALES,
    SENSITIVE,
    UNORDERED,
    WEIGHT,
)

MAX_LEVELS = 100  # levels that can be masked; more need recoding first


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
    facts = [facts_of(frame[name]) for name in frame.columns]
    numeric = {f.name: f.spread(frame[f.name]) for f in facts if f.may_add_up}
    sums = find_sums(pd.DataFrame(numeric, index=frame.index), rng=rng) if len(numeric) > 1 else ()
    adds_up = {n for s in sums if s.active and len(s.edit.variables) > 2 for n in s.edit.variables}
    guesses = tuple(_guess(f, f.name in adds_up) for f in facts)
    numbers = {g.variable.name for g in guesses if g.variable.kind == "continuous" and g.variable.is_masked}
    return Profile(guesses, tuple(s for s in sums if set(s.edit.variables) <= numbers))


def _guess(facts: Facts, adds_up: bool) -> Guess:
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


def _unreleasable(facts: Facts, adds_up: bool) -> str:
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


def _text_reason(facts: Facts, few: bool) -> str:
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


def _number_reason(facts: Facts, adds_up: bool) -> str:
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
    return bool(np.all((year >= 1850) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)))


def _released(facts: Facts, adds_up: bool) -> Guess:
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


def _left_open(facts: Facts) -> str:
    """Say why the levels are not listed, and what that costs."""
    if len(facts.counts) > MAX_LISTED:
        reason = f"levels not listed, there are more than {MAX_LISTED}"
    else:
        reason = f"levels not listed, since fewer than {MIN_COUNT} records hold one of them"
    return reason


def _levels(facts: Facts, kind: Kind) -> tuple[Any, ...] | None:
    if facts.sort == "truth":
        spelled = tuple(sorted(facts.counts, key=str))
        return spelled if isinstance(spelled[0], str) else (0, 1)
    if facts.sort == "text" and kind == "ordinal" and not facts.ordered:
        scale = _scale(facts)
        return tuple(sorted(facts.counts, key=lambda v: scale[v.strip().casefold()]))
    return facts.levels


def _kind(facts: Facts, adds_up: bool) -> tuple[Kind, str, bool]:
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


def _scale(facts: Facts) -> dict[str, int]:
    """Return the rank of every level on a known scale, or nothing."""
    told = {v.strip().casefold() for v in facts.counts}
    if len(told) < len(facts.counts):
        return {}
    for scale in SCALES:
        if told <= set(scale):
            return {word: rank for rank, word in enumerate(scale)}
    return {}


def _role(facts: Facts) -> tuple[Role, str, bool]:
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


def _codes(facts: Facts) -> tuple[tuple[Any, int], ...]:
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
    return tuple((tidy(v), counts[v]) for v in sorted(set(found)) if counts[v] >= MIN_COUNT)


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
