"""Survey weights, by the name of a column and the distribution of its values."""

from __future__ import annotations

import re

import numpy as np

from anoncore.microdata.inference.columns import ColumnFacts
from anoncore.microdata.inference.vocabulary import BODY_UNITS, PERHAPS_WEIGHT, WEIGHS_A_SAMPLE, WEIGHT

NAMED = re.compile(r"wgt|fnlw|(^|[^a-z])p?weights?_?(yr|final|samp)")
PERHAPS_NAMED = re.compile(r"^wt[a-z]{3,}|wt$")  # WTINT2YR of a health survey, popwt
HEAVIEST = 1000.0  # a median beyond it is of no body, in kilograms or in pounds
SKEWED = 10.0  # the 99th percentile of what is weighed is seldom such a multiple of its median


def weighs_records(facts: ColumnFacts, *, bodies: bool) -> bool:
    """Whether a column seems to hold the survey weights of records.

    A name that only weights have decides. Where bodies have weights too, the values do: as weights of a sample they
    are far beyond those of a body, or far apart, or 1 on average and no whole numbers, or all the same.

    Parameters
    ----------
    facts : of the column
    bodies : whether the table describes bodies, by a height or an index of body mass
    """
    words = facts.words
    if facts.content != "number" or facts.numbers[0] < 0 or words & BODY_UNITS:
        return False
    weighs = words & PERHAPS_WEIGHT or PERHAPS_NAMED.search(facts.name.casefold())
    if words & WEIGHT or NAMED.search(facts.name.casefold()) or (weighs and words & WEIGHS_A_SAMPLE):
        return True
    if not weighs:
        return False
    counts = np.array([facts.counts[v] for v in sorted(facts.counts, key=float)])
    mean = float(facts.numbers @ counts / counts.sum())
    median, heavy = facts.numbers[np.searchsorted(np.cumsum(counts), counts.sum() * np.array([0.5, 0.99]))].tolist()
    normalised = 0.8 <= mean <= 1.25 and not facts.all_whole
    skewed = heavy > HEAVIEST and heavy > SKEWED * median
    return median > HEAVIEST or (not bodies and (skewed or normalised or len(facts.numbers) == 1))
