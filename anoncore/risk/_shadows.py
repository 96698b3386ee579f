"""Shadow releases of an in/out game, one after the other or in processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata
from anoncore.recoding import Recoding, in_unknown_levels, recoded
from anoncore.risk._target_scores import ShadowScores, TargetScores
from anoncore.risk._values import Flags

Places = NDArray[np.intp]

_TIMED = 4  # releases after which the rest is estimated; a game has more
_WORTH_SECONDS = 20.0  # a process takes some seconds to start


@dataclass(frozen=True, eq=False, repr=False)
class ShadowRelease:
    """What a masking would publish, and how it coarsened variables, the same for all records."""

    data: Microdata
    recodings: tuple[Recoding, ...] = ()


Mask = Callable[[Microdata, np.random.Generator], Microdata | ShadowRelease]


@dataclass(frozen=True, eq=False, repr=False)
class Shadows:
    """What every shadow release needs.

    Parameters
    ----------
    people : everyone
    mask : the whole plan
    attacker : scores the targets on a release
    owners : (N,) the unit of a record that is in or out, −1 for those that are always in
    units : (U,) the units that are in or out
    inside : (R, U) which of them are in
    generators : R
    releases : of each round, with the same units in or out; their scores are averaged
    turnover, drawn : shares of the other units, and of all, that each release lacks, drawn anew
    """

    people: Microdata
    mask: Mask
    attacker: TargetScores
    owners: Places
    units: Places
    inside: Flags
    generators: Sequence[np.random.Generator]
    releases: int = 1
    turnover: float = 0.0
    drawn: float = 0.0

    def score(self, number: int) -> ShadowScores:
        """Make the shadow releases of one round and score the targets on them."""
        present = (self.owners < 0) | np.isin(self.owners, self.units[self.inside[number]])
        own = self.generators[number]
        generators = [own] if self.releases == 1 else own.spawn(self.releases)
        scored = [self._scored(present, generator) for generator in generators]
        parts = np.mean([one.scores for one in scored], axis=0), np.mean([one.evidence for one in scored], axis=0)
        return ShadowScores(*parts)

    def _scored(self, present: Flags, rng: np.random.Generator) -> ShadowScores:
        if self.turnover:
            away = rng.random(self.people.n_units) < self.turnover
            present = present & ~((self.owners < 0) & away[self.people.unit_codes])
        if self.drawn:
            left_out = rng.random(self.people.n_units) < self.drawn
            present = present & ~left_out[self.people.unit_codes]
        masked = self.mask(self.people.take(np.flatnonzero(present)), rng)
        release = masked if isinstance(masked, ShadowRelease) else ShadowRelease(masked)
        attacker = self._recoded(release.recodings)
        if names := in_unknown_levels(release.data, attacker.asked):
            raise AnonymizationError(
                f"{', '.join(names)}: no released level is one that people have, so that nothing could be compared; "
                "let the masking report its recodings, or state the coarser levels in the data"
            )
        return attacker.of_release(release.data)

    def _recoded(self, recodings: tuple[Recoding, ...]) -> TargetScores:
        """Return the attacker, who recodes what they know as a release is recoded."""
        if not recodings:
            return self.attacker
        others = self.people.take(np.flatnonzero(self.owners < 0))
        asked, known = (recoded(side, recodings) for side in (self.attacker.asked, others))
        return TargetScores.of(asked, known, self.attacker.names)

    def scored(self, processes: int) -> Generator[ShadowScores]:
        """Give the scores of all rounds in their order; in processes where the rest takes long."""
        yield self.score(0)  # not timed: it loads what the others find in memory
        rounds, begun = len(self.generators), time.perf_counter()
        for number in range(1, _TIMED):
            yield self.score(number)
        rest = range(_TIMED, rounds)
        seconds = (time.perf_counter() - begun) / (_TIMED - 1) * len(rest)
        if processes < 2 or seconds < _WORTH_SECONDS:
            yield from map(self.score, rest)
            return
        pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_prepare, initargs=(self,))
        try:
            yield from pool.map(_score, rest)
        finally:
            # Whoever stops does not wait for rounds that have not begun.
            pool.shutdown(cancel_futures=True)


class _Here:
    """What this process works on, where it is one of a game's."""

    shadows: Shadows


def _prepare(shadows: Shadows) -> None:
    """Make this process ready: it ends with its parent, and uses one processor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threadpool_limits(limits=1)
    _Here.shadows = shadows


def _end_with_parent() -> None:
    """Leave no process behind, with records in its memory, where the parent was killed."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _score(number: int) -> ShadowScores:
    return _Here.shadows.score(number)
