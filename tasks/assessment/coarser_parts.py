"""Whether a part by which a release is judged, a half or a sub-table, is coarser than the release itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from anoncore.recoding import Recoding
from tasks.common.partitions import StoredPartitions
from tasks.common.workspace import StoredRecords
from tasks.masking.anonymize import Masked

# Of the records, how many more a part may lack a value of, or a level, beside chance.
MOST = 0.02
# Standard deviations that are put down to chance.
DEVIATIONS = 3.0


def coarser_variables(part: Masked, whole: Masked) -> tuple[str, ...]:
    """Return the variables that a part shows more coarsely than the release of all records, for which it stands.

    Attacks on such a part see less than those on the release: steps that decide by counts decide by fewer records.

    Parameters
    ----------
    part, whole : what the same plan released of a part of the records, and of all

    Returns
    -------
    tuple of str
        Variables that were recoded otherwise; that lack values in more records than in the release; or levels of which
        as many records of the release hold, where a step decided by the part alone: by more than 2 % of the records
        and three standard deviations of chance. What a hidden group exchanges is left out.
    """
    one, other = _Shown.of(part.measured), _Shown.of(whole.measured)
    coarser = {*_recoded_otherwise(part.recodings, whole.recodings), *_values_lost(one, other)}
    # Without such a step groups of k records are larger among fewer, and hide their members as well.
    coarser |= {name for name in other.levels if part.decided_alone and _levels_lost(name, one, other)}
    return tuple(name for name in other.names if name in coarser - {*whole.hidden_variables})


@dataclass(frozen=True, eq=False, repr=False)
class _Shown:
    """How many records of a release hold each level of a variable, and how many lack a value."""

    records: int
    units: int
    names: tuple[str, ...]
    levels: dict[str, Counter[str]]
    missing: Counter[str]

    @classmethod
    def of(cls, released: StoredRecords) -> _Shown:
        """Count, a partition at a time."""
        records = units = 0
        levels, missing = dict[str, Counter[str]](), Counter[str]()
        if isinstance(released, StoredPartitions):
            return cls._of_partitions(released)
        for data in released.parts():
            records, units, names = records + len(data), units + data.n_units, data.schema.names
            for variable in data.schema:
                missing[variable.name] += int(data.frame[variable.name].isna().sum())
                if variable.is_categorical:
                    held = {str(level): count for level, count in data.level_counts(variable.name).items() if count}
                    levels.setdefault(variable.name, Counter()).update(held)
        return cls(records, units, tuple(names), levels, missing)

    @classmethod
    def _of_partitions(cls, released: StoredPartitions) -> _Shown:
        """Count a column at a time; each record is a unit."""
        names = released.schema.names
        held = {v.name: released.level_counts(v.name) for v in released.schema if v.is_categorical}
        levels = {name: Counter({str(level): n for level, n in counts.items() if n}) for name, counts in held.items()}
        missing = Counter({name: released.missing_values(name) for name in names})
        return cls(len(released), len(released), tuple(names), levels, missing)


def _recoded_otherwise(part: tuple[Recoding, ...], whole: tuple[Recoding, ...]) -> Iterator[str]:
    """Yield the variables whose recodings differ in what becomes of a value."""
    for name in {one.variable for one in (*part, *whole)}:
        # What a level covers of its hierarchy depends on the levels that are there.
        own, others = (
            [replace(r, covered={}, share=1.0) for r in side if r.variable == name] for side in (part, whole)
        )
        if own != others:
            yield name


def _values_lost(part: _Shown, whole: _Shown) -> Iterator[str]:
    """Yield the variables that are not shown, or lack more values than chance explains."""
    for name in whole.names:
        if name not in part.names:
            yield name
            continue
        before, now = whole.missing[name] / whole.records, part.missing[name] / part.records
        error = np.sqrt(max(before * (1.0 - before), 1.0 / part.units) / part.units)
        if now - before > MOST + DEVIATIONS * error:
            yield name


def _levels_lost(name: str, part: _Shown, whole: _Shown) -> bool:
    """Return whether the levels that a part lacks are those of more records of the release than chance explains."""
    there = part.levels.get(name, Counter[str]())
    counts = np.array(list(whole.levels[name].values()), dtype=float)
    lost = np.array([level not in there for level in whole.levels[name]], dtype=bool)
    shares, units = counts / whole.records, counts * whole.units / whole.records
    # A level of c units is absent from a random part f of them with a probability of about exp(−f c).
    chance = np.exp(-units * part.units / whole.units)
    expected, error = (shares * chance).sum(), np.sqrt((shares**2 * chance * (1.0 - chance)).sum())
    return bool(shares[lost].sum() - expected > MOST + DEVIATIONS * error)
