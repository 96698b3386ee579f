"""Attribute inference: what a release tells about those who took part beyond what it tells about anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices, between
from anoncore.risk._proportions import Difference, Proportion, difference, normal_quantile, proportion
from anoncore.risk.disclosure import parts
from anoncore.risk.linkage import sampling_error
from anoncore.risk.prediction import sample_queries
from anoncore.risk.verdicts import Verdict, three_way, worst_of

_ENTRIES = 1 << 22  # votes held at a time
PASSES_WITHIN = 3.0  # margins; the worst of many variables is several standard errors above its excess
_SPARE = 4  # further combinations looked at where some records do not tell a variable
_ROUNDING = 1e-9


@dataclass(frozen=True)
class AttributeInference:
    """Guesses of one sensitive variable, of members and of strangers.

    Parameters
    ----------
    name : the variable
    members : share of right guesses about people of A
    strangers : about people of A*, the baseline: what the release says about anybody
    excess : members − strangers, on which alone the verdict rests
    constant_guess : share of strangers guessed right by one guess for all, the release's most frequent
        level, or its mean
    tolerance : in standard deviations, within which a number counts as guessed; None for levels
    n_released : released records that tell the variable
    verdict : "fail" when the whole interval of the excess lies above the margin, "pass" when all of it lies
        within three times the margin, else "inconclusive"
    """

    meaning: ClassVar[str] = (
        "How much more often a sensitive value is guessed right for somebody who took part than for a "
        "stranger; a useful release lets strangers be guessed too, and only the excess is due to taking part."
    )

    name: str
    members: Proportion
    strangers: Proportion
    excess: Difference
    constant_guess: float
    tolerance: float | None
    n_released: int
    verdict: Verdict


@dataclass(frozen=True)
class InferenceRisk:
    """The attack on every sensitive variable.

    Parameters
    ----------
    variables : one result each
    quasi_identifiers : what the attacker knows
    neighbours : released records that he asks at least
    margin, confidence : the excess tolerated, and the coverage of intervals
    n_members, n_strangers, n_released : people asked about, and released records
    sampling_error : bound on the error of each share as to all people, at 99 %; 0 when all were asked about
    verdict : the worst of the variables'; "pass" without any
    """

    meaning: ClassVar[str] = AttributeInference.meaning

    variables: tuple[AttributeInference, ...]
    quasi_identifiers: tuple[str, ...]
    neighbours: int
    margin: float
    confidence: float
    n_members: int
    n_strangers: int
    n_released: int
    sampling_error: float
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class InferenceSettings:
    """What the attacker knows and guesses, and how that is judged.

    Parameters
    ----------
    quasi_identifiers, sensitive : names; by default the released variables with that role
    neighbours : at least 1
    tolerance : above 0, in standard deviations of the members' values on the encoding's scale (logs of
        strictly positive variables); a mean this close counts as guessed
    margin : excess tolerated, 0 … 1
    epsilon : bound on the sampling error of a share at 99 %, where people are sampled; released records
        never are
    confidence : 0 … 1, two-sided
    """

    quasi_identifiers: Sequence[str] | None = None
    sensitive: Sequence[str] | None = None
    neighbours: int = 1
    tolerance: float = 0.1
    margin: float = 0.05
    epsilon: float = 0.01
    confidence: float = 0.95

    def check(self) -> None:
        """Raise AnonymizationError where a number is out of range."""
        if self.neighbours < 1:
            raise AnonymizationError(f"neighbours must be at least 1, got {self.neighbours}")
        if not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise AnonymizationError(f"tolerance must be above 0 standard deviations, got {self.tolerance:g}")
        between("margin", self.margin, 0, 1)
        normal_quantile(self.confidence)


_SETTINGS = InferenceSettings()


def attribute_inference(
    original: Microdata,
    reference: Microdata,
    released: Microdata,
    *,
    settings: InferenceSettings = _SETTINGS,
    rng: np.random.Generator,
) -> InferenceRisk:
    """Attack sensitive variables of people whose quasi-identifiers are known.

    The attacker takes the nearest released records on the quasi-identifiers, all copies of one combination
    together, until he has at least ``neighbours`` that tell the variable, and guesses their most frequent
    level or their mean. Levels with equally many votes share the guess. People whose own value is missing
    are not asked about, having nothing to disclose.

    Parameters
    ----------
    original : Microdata, members; the encoding is fitted to them
    reference : Microdata, strangers of the same population
    released : Microdata
    settings : InferenceSettings
    rng : generator, for the sample of people only

    Returns
    -------
    InferenceRisk

    Raises
    ------
    AnonymizationError
        When a variable is absent or plays two parts, or a parameter is out of range.

    Notes
    -----
    Equally near combinations are taken in the order of their values, never of the records, which could tell
    the members' order. Intervals: Wilson 1927, Newcombe 1998. Source: docs/explanation/risk.md; the comparison with
    strangers is that of Giomi et al. 2023, who compare with a control set likewise.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("age", "continuous"), Variable("ill", "binary")])
    >>> frame = pd.DataFrame({"age": range(60), "ill": [0, 1] * 30})
    >>> one, other = Microdata(frame, schema), Microdata(frame.assign(ill=[1, 0] * 30), schema)
    >>> known = InferenceSettings(quasi_identifiers=["age"], sensitive=["ill"])
    >>> attribute_inference(one, other, one, settings=known, rng=np.random.default_rng(1)).verdict
    'fail'
    """
    settings.check()
    quasi, hidden = parts(released, settings.quasi_identifiers, settings.sensitive)
    for side, table in (("original", original), ("reference", reference), ("released", released)):
        absent = [name for name in quasi + hidden if name not in table.schema]
        if absent:
            raise AnonymizationError(f"{side} must hold {', '.join(absent)}; name only variables it has")
        if not len(table):
            raise AnonymizationError(f"{side} must hold at least one record, got none")
    tables = (original, reference)
    people = [table.take(sample_queries(len(table), epsilon=settings.epsilon, rng=rng)) for table in tables]
    encoder = Encoder.fit(original.select(quasi))
    known, members, strangers = (_encoded(encoder, side.select(quasi)) for side in (released, *people))
    gaps = any(bool(released.frame[name].isna().any()) for name in hidden)
    search = _Search(known, (members, strangers), settings.neighbours, gaps)
    outcomes = [search.outcome(_values(original, people, released, name), settings) for name in hidden]
    found = tuple(_judged(name, outcome, settings) for name, outcome in zip(hidden, outcomes, strict=True))
    return InferenceRisk(
        variables=found,
        quasi_identifiers=quasi,
        neighbours=settings.neighbours,
        margin=settings.margin,
        confidence=settings.confidence,
        n_members=len(people[0]),
        n_strangers=len(people[1]),
        n_released=len(released),
        sampling_error=max(sampling_error(len(part), len(side)) for part, side in zip(people, tables, strict=True)),
        verdict=worst_of({one.verdict for one in found}),
    )


def _encoded(encoder: Encoder, data: Microdata) -> Floats:
    """Return the encoding, with a column of zeros where no variable varies: then all are equally near."""
    matrix = encoder.encode(data)
    return matrix if encoder.width else np.zeros((len(data), 1))


@dataclass(frozen=True, eq=False, repr=False)
class _Values:
    """One variable of members and strangers (``truths``), and of the release, NaN where missing.

    Numbers are in the encoding's standard deviations, with 0 levels; levels are codes common to all.
    """

    truths: list[Floats]
    released: Floats
    levels: int


@dataclass(frozen=True, eq=False, repr=False)
class _Outcome:
    """How right the guesses are, for members and strangers with a value, and one guess for all strangers.

    ``n_released`` released records tell the variable; ``tolerance`` is None for levels.
    """

    members: Floats
    strangers: Floats
    constant: float
    n_released: int
    tolerance: float | None


def _values(original: Microdata, people: list[Microdata], released: Microdata, name: str) -> _Values:
    tables = [*people, released]
    variable = original.schema[name]
    if variable.kind == "continuous" and released.schema[name].kind == "continuous":
        encoder = Encoder.fit(original.select([name]))
        columns = []
        for table in tables:
            gap = table.frame[name].isna().to_numpy()
            if encoder.width:
                numbers = encoder.encode(table.select([name]))[:, 0]
            else:
                numbers = table.frame[name].to_numpy(dtype="float64")
            columns.append(np.where(gap, np.nan, numbers))
        return _Values(columns[:-1], columns[-1], 0)
    series = [table.frame[name] for table in tables]
    levels: dict[object, None] = {}
    for column in series:
        levels |= dict.fromkeys(column.dropna().unique().tolist())
    codes = [pd.Index(list(levels)).get_indexer(pd.Index(column.astype(object))) for column in series]
    columns = [np.where(code < 0, np.nan, code.astype(np.float64)) for code in codes]
    return _Values(columns[:-1], columns[-1], max(1, len(levels)))


class _Search:
    """Nearest combinations of quasi-identifiers, found once, and once more where too few tell a variable."""

    def __init__(self, known: Floats, asked: tuple[Floats, Floats], neighbours: int, gaps: bool) -> None:
        self._points, number = np.unique(known + 0.0, axis=0, return_inverse=True)
        self._number: Indices = number.reshape(-1)
        self._asked, self._neighbours = asked, neighbours
        wide = min(neighbours + (_SPARE if gaps else 0), len(self._points))
        self._near = [nearest(rows, self._points, wide)[1] for rows in asked]

    def outcome(self, column: _Values, settings: InferenceSettings) -> _Outcome:
        """Guess the values of one variable."""
        truths, tolerance = column.truths, None if column.levels else settings.tolerance
        there = ~np.isnan(column.released)
        asked = [np.flatnonzero(~np.isnan(truth)) for truth in truths]
        if not there.any():
            members, strangers = (np.zeros(len(one)) for one in asked)
            return _Outcome(members, strangers, 0.0, 0, tolerance)
        number, values = self._number[there], column.released[there]
        score = _votes if column.levels else _means
        scale = column.levels or settings.tolerance
        copies = np.bincount(number, minlength=len(self._points))
        right = [
            score(truth[rows], *self._taken(side, rows, copies), number, values, scale)
            for side, (truth, rows) in enumerate(zip(truths, asked, strict=True))
        ]
        known = truths[1][asked[1]]
        shape = len(known), 1
        alike = np.zeros(shape, dtype=np.intp), np.ones(shape), np.zeros_like(number)
        constant = score(known, *alike, values, scale)
        share = float(constant.mean()) if len(known) else 0.0
        return _Outcome(right[0], right[1], share, len(values), tolerance)

    def _taken(self, side: int, rows: Indices, copies: Indices) -> tuple[Indices, Floats]:
        """Return (q, d) combinations, and 1 for those that are needed to have enough records, else 0.

        copies : (D,) records of each combination that tell the variable
        """
        near = self._near[side][rows]
        count = copies[near]
        total = np.cumsum(count, axis=1)
        taken = ((total - count < self._neighbours) & (count > 0)).astype(np.float64)
        telling = np.flatnonzero(copies)
        short = np.flatnonzero(total[:, -1] < self._neighbours) if near.shape[1] < len(copies) else rows[:0]
        if len(short):
            wide = min(self._neighbours, len(telling))
            found = telling[nearest(self._asked[side][rows[short]], self._points[telling], wide)[1]]
            count = copies[found]
            near[short, :wide], taken[short] = found, 0.0
            taken[short, :wide] = np.cumsum(count, axis=1) - count < self._neighbours
        return near, taken


def _votes(truth: Floats, near: Indices, taken: Floats, number: Indices, values: Floats, levels: float) -> Floats:
    """Return (q,) 1/t where the true level is among the t most frequent ones, else 0."""
    width, wide, points = int(levels), near.shape[1], int(max(number.max(), near.max(initial=0))) + 1
    cells = number, values.astype(np.intp)
    counts = csr_array((np.ones(len(values)), cells), shape=(points, width))
    right = np.empty(len(truth))
    step = max(1, _ENTRIES // (width + wide))
    for begin in range(0, len(truth), step):
        rows = slice(begin, begin + step)
        part = near[rows]
        at = np.arange(0, part.size + 1, wide)
        chosen = csr_array((taken[rows].ravel(), part.ravel(), at), shape=(len(part), points))
        votes = (chosen @ counts).toarray()
        top = votes == votes.max(axis=1, keepdims=True)
        hit = top[np.arange(len(part)), truth[rows].astype(np.intp)]
        right[rows] = hit / top.sum(axis=1)
    return right


def _means(truth: Floats, near: Indices, taken: Floats, number: Indices, values: Floats, tolerance: float) -> Floats:
    """Return (q,) 1 where the mean lies within the tolerance, else 0."""
    points = int(max(number.max(), near.max(initial=0))) + 1
    # About one value, so that equal ones have exactly their own mean.
    base = float(values[0])
    sums = np.bincount(number, values - base, points)
    records = (taken * np.bincount(number, minlength=points)[near]).sum(axis=1)
    mean = base + (taken * sums[near]).sum(axis=1) / records
    return (np.abs(mean - truth) <= tolerance * (1.0 + _ROUNDING)).astype(np.float64)


def _judged(name: str, outcome: _Outcome, settings: InferenceSettings) -> AttributeInference:
    sides = outcome.members, outcome.strangers
    one, other = (proportion(float(side.sum()), len(side), settings.confidence) for side in sides)
    excess = difference(one, other)
    return AttributeInference(
        name=name,
        members=one,
        strangers=other,
        excess=excess,
        constant_guess=outcome.constant,
        tolerance=outcome.tolerance,
        n_released=outcome.n_released,
        verdict=three_way(excess.lower, excess.upper, PASSES_WITHIN * settings.margin, fails_above=settings.margin),
    )
