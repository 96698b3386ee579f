"""Inference of kinds, roles and levels from the columns of a data frame, for a person to confirm."""

from anoncore.microdata.inference.columns import MAX_LISTED, MIN_COUNT, NESTED, facts_of, words_of
from anoncore.microdata.inference.guesses import MAX_CODES, MIN_RECORDS, Guess, guess, guess_columns
from anoncore.microdata.inference.vocabulary import DIFFERENCES, TOTALS

__all__ = [
    "DIFFERENCES",
    "MAX_CODES",
    "MAX_LISTED",
    "MIN_COUNT",
    "MIN_RECORDS",
    "NESTED",
    "TOTALS",
    "Guess",
    "facts_of",
    "guess",
    "guess_columns",
    "words_of",
]
