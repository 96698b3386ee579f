"""Variables without a role that an outsider may know of people."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MAX_LEVELS, words_of
from anoncore.microdata.inference.vocabulary import DESIGN, PERHAPS_WEIGHT, WEIGHT
from anoncore.profile import Guess

MOST_ASKED = 3
FEWEST_BITS = 0.5  # by which people differ
DIFFER = "people differ by it, and its name says no role"


def asked_about(guesses: Iterable[Guess], data: Microdata, computed: Collection[object]) -> tuple[Guess, ...]:
    """Ask about the variables of role other, with few values, by which people differ most; at most `MOST_ASKED`.

    How much is the entropy of their values; amounts of many values are seldom known exactly, variables in ``computed``
    add nothing, and weights and strata are no one's.
    """
    guesses = tuple(guesses)
    bits = {}
    for one in guesses:
        name = one.variable.name
        settled = one.confirm or name in computed or words_of(name) & (DESIGN | PERHAPS_WEIGHT | WEIGHT)
        if one.variable.role == "other" and not settled:
            shares = data.frame[name].value_counts(normalize=True, dropna=False).to_numpy()
            shares = shares[shares > 0]
            if len(shares) <= MAX_LEVELS:
                bits[name] = -float(shares @ np.log2(shares))
    most = sorted((name for name in bits if bits[name] >= FEWEST_BITS), key=lambda name: -bits[name])[:MOST_ASKED]
    return tuple(replace(g, reason=_joined(g.reason)) if g.variable.name in most else g for g in guesses)


def _joined(reason: str) -> str:
    return f"{reason}; {DIFFER}" if reason else DIFFER
