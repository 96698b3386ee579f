"""Variables without a role that an outsider may know of people."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MAX_LEVELS

MOST_ASKED = 3
FEWEST_BITS = 0.5  # by which people differ


def maybe_known(data: Microdata, computed: Collection[object]) -> tuple[str, ...]:
    """Return the variables of role other, with few values, by which people differ most; at most `MOST_ASKED`.

    How much is the entropy of their values; amounts of many values are seldom known exactly, and variables in
    ``computed`` add nothing.
    """
    bits = {}
    for one in data.schema:
        if one.role == "other" and one.is_masked and one.name not in computed:
            shares = data.frame[one.name].value_counts(normalize=True, dropna=False).to_numpy()
            shares = shares[shares > 0]
            if len(shares) <= MAX_LEVELS:
                bits[one.name] = -float(shares @ np.log2(shares))
    most = sorted(bits, key=lambda name: -bits[name])[:MOST_ASKED]
    return tuple(name for name in most if bits[name] >= FEWEST_BITS)
