"""Inference of kinds, roles and levels from the columns of a data frame, for a person to confirm."""

from anoncore.microdata.inference.columns import MAX_LISTED, NESTED, facts_of, words_of
from anoncore.microdata.inference.guesses import (
    GROUP_NUMBERS,
    MAX_CODES,
    MAX_LEVELS,
    MAYBE_IDENTIFIER,
    MIN_RECORDS,
    NAMES,
    Guess,
    guess,
    guess_columns,
)
from anoncore.microdata.inference.vocabulary import AREA, BODY, DIFFERENCES, TIMES, TOTALS
from anoncore.microdata.precision import MIN_COUNT

__all__ = [
    "AREA",
    "BODY",
    "DIFFERENCES",
    "GROUP_NUMBERS",
    "MAX_CODES",
    "MAX_LEVELS",
    "MAX_LISTED",
    "MAYBE_IDENTIFIER",
    "MIN_COUNT",
    "MIN_RECORDS",
    "NAMES",
    "NESTED",
    "TIMES",
    "TOTALS",
    "Guess",
    "facts_of",
    "guess",
    "guess_columns",
    "words_of",
]
