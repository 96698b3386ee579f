"""Scores of an in/out game: how strongly one release suggests that each of a few people is in the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.encoding import Encoder
from anoncore.kernels.agreement import largest_agreement
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._values import SortedValues, aligned_values

Evidence = NDArray[np.float32]
ScoreName = Literal["distance", "density", "presence", "agreement"]

SCORES: tuple[ScoreName, ...] = ("distance", "density", "presence", "agreement")
_NEIGHBOURS = 5


@dataclass(frozen=True, eq=False, repr=False)
class ShadowScores:
    """What one release suggests of each target.

    Parameters
    ----------
    scores : (S, T), larger where the target seems to be in the data, in the order of `SCORES`
    evidence : (S, T, n), what each variable adds to the score; of the densities to that of the distance
    """

    scores: Floats
    evidence: Evidence


@dataclass(frozen=True, eq=False, repr=False)
class TargetScores:
    """An attacker who knows all values of T people, and of the population the people who are no targets.

    Encoding, and how rare a value is, are fitted to the people who are no targets: scores of one target in two
    releases then differ by the releases alone.

    Parameters
    ----------
    names : n variables that the attacker compares
    asked : the targets, with these variables
    points : (T, m) the targets, encoded
    encoder : fitted to the people who are no targets
    rarity : (T, n) −log of the share of those people who hold each target's value, half a person added
    """

    names: tuple[str, ...]
    asked: Microdata
    points: Floats
    encoder: Encoder
    rarity: Evidence

    @classmethod
    def of(cls, asked: Microdata, others: Microdata, names: Sequence[str]) -> TargetScores:
        """Learn what is known before any release, of the targets and of people who are no targets."""
        asked, others = asked.select(list(names)), others.select(list(names))
        rarity = np.empty((len(asked), len(names)), dtype=np.float32)
        for j, name in enumerate(names):
            population, values = aligned_values([others, asked], name)
            rarity[:, j] = -np.log((SortedValues(population).counts(values) + 0.5) / (len(others) + 1.0))
        encoder = Encoder.fit(others)
        return cls(tuple(names), asked, encoder.encode(asked), encoder, rarity)

    def of_release(self, released: Microdata) -> ShadowScores:
        """Score every target: nearness of released rows, presence of rare values, and the row that shares most."""
        near, gaps = self._distances(released)
        present, shared = self._values(released)
        scores = [-near[:, 0], -near.mean(axis=1), present.sum(axis=1), shared.sum(axis=1)]
        return ShadowScores(np.stack(scores).astype(np.float64), np.stack([-gaps, -gaps, present, shared]))

    def _distances(self, released: Microdata) -> tuple[Floats, Evidence]:
        """Return (T, 5) distances to the nearest rows, and (T, n) squared gaps between a target and the nearest one."""
        points, rows = self.points, self.encoder.encode(released)
        gaps = np.zeros(self.rarity.shape, dtype=np.float32)
        if not self.encoder.width:
            return np.zeros((len(points), 1)), gaps
        distances, places = nearest(points, rows, min(_NEIGHBOURS, len(rows)))
        squares = (points - rows[places[:, 0]]) ** 2
        place = {name: j for j, name in enumerate(self.names)}
        for block in self.encoder.blocks:
            columns = squares[:, block.columns.start : block.end]
            gaps[:, place[block.variable.name]] = columns.sum(axis=1)
        return distances, gaps

    def _values(self, released: Microdata) -> tuple[Evidence, Evidence]:
        """Return the (T, n) rarities of the values that are in the release, and of those that one row shares."""
        lower, upper = (np.zeros(self.rarity.shape, dtype=np.int32) for _ in range(2))
        rows = np.full((len(self.names), len(released)), -1, dtype=np.int32)
        for j, name in enumerate(self.names):
            # A variable that is released in another form shares no value.
            if name in released.schema:
                values, published = self._aligned(released, name)
                pool = SortedValues(published)
                rows[j] = pool.places
                lower[:, j], upper[:, j] = pool.interval(values)
        best = rows[:, largest_agreement(lower, upper, self.rarity, rows)[2]].T
        return self.rarity * (upper > lower), self.rarity * ((lower <= best) & (best < upper))

    def _aligned(self, released: Microdata, name: str) -> tuple[Floats, Floats]:
        """Return a variable's values as `aligned_values` does, level by level instead of record by record."""
        asked, published = self.asked.frame[name], released.frame[name]
        if not (isinstance(asked.dtype, pd.CategoricalDtype) and isinstance(published.dtype, pd.CategoricalDtype)):
            values, others = aligned_values([self.asked, released], name)
            return values, others
        # The codes of the asked levels; those that no one asks for are −1, and missing cells NaN.
        codes = asked.dtype.categories.get_indexer(published.dtype.categories).astype(np.float64)
        codes = np.append(codes, np.nan)[published.cat.codes.to_numpy()]
        own = asked.cat.codes.to_numpy().astype(np.float64)
        own[own < 0] = np.nan
        return own, codes
