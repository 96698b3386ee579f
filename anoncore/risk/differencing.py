"""Differencing: what two releases that follow each other reveal of the people who joined in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from anoncore.microdata import ComparedUnits, Microdata
from anoncore.microdata.units import unit_means
from anoncore.risk._checks import Floats
from anoncore.risk._proportions import normal_quantile
from anoncore.risk._tracing import trace_scores, trait_differences
from anoncore.risk._values import SortedValues, aligned_values, shared_variables
from anoncore.risk.membership import membership_attack
from anoncore.risk.scores import SINGLE, Certainty
from anoncore.risk.verdicts import Verdict, three_way, worst_of

# A number counts as read off within this many standard deviations of the true one, or within its precision.
NEAR = 0.05
# So many people who joined have a variance of their own; of fewer it is the control's.
OWN_VARIANCE = 20
LEAST_CONTROL = 20
# Of each upper bound, two-sided: what is read off of these very people is known, only what is luck in it is not.
UPPER = 0.9
WAYS = ("counts of levels", "sums of numbers", "values that are new")
# Who joined, by all variables together: each alone may reveal next to nothing of a person.
TRACED = "traces of records"
# Limits: few people join, and the worst of many pairs is several standard errors above its excess. An area is accepted
# up to 0.6 by default, as of other attacks.
PASSES_WITHIN, AREA_PASSES_WITHIN = 3.0, 2.0

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Decoded:
    """What one way of decoding reads off: the share of a person's values that it gets right.

    Parameters
    ----------
    way : one of `WAYS`, or `TRACED`: the area under the ROC curve of those who joined against others
    joined, control : of those who joined, and of people in neither release for whom the same is guessed; 0.5 is the
        control of an area
    excess, lower, upper : the difference, with its interval
    variables : that the way reads
    """

    way: str
    joined: float
    control: float
    excess: float
    lower: float
    upper: float
    variables: int

    @property
    def traced(self) -> bool:
        """Whether it shows who joined, and reads no values off."""
        return self.way == TRACED

    def verdict(self, limit: float) -> Verdict:
        """Compare the excess with a limit: beyond it the way fails, within a multiple it passes."""
        multiple = AREA_PASSES_WITHIN if self.traced else PASSES_WITHIN
        return three_way(self.lower, self.upper, multiple * limit, fails_above=limit)


@dataclass(frozen=True)
class Differencing:
    """Two releases subtracted from each other, beside the same guesses for people in neither.

    Parameters
    ----------
    ways : of decoding that apply
    n_joined, n_control : people who joined, and of the control
    confidence : of the lower bounds, all together; 95 % of each upper one
    """

    meaning: ClassVar[str] = (
        "How many more of their values are read off from the difference of two releases for people who joined in "
        "between than for people in neither."
    )

    ways: tuple[Decoded, ...]
    n_joined: int
    n_control: int
    confidence: float

    @property
    def worst(self) -> Decoded:
        """The way whose excess is shown to be largest."""
        return max(self.ways, key=lambda way: (way.lower, way.upper))

    @property
    def upper(self) -> float:
        """The largest upper bound of all ways."""
        return max(way.upper for way in self.ways)

    def verdict(self, limit: float) -> Verdict:
        """Return the worst verdict of all ways."""
        return worst_of({way.verdict(limit) for way in self.ways})


def differencing(
    earlier: Microdata,
    released: Microdata,
    joined: Microdata,
    control: Microdata,
    *,
    arrived: int | None = None,
    certainty: Certainty = SINGLE,
) -> Differencing | None:
    """Subtract an earlier release from a later one, and read off the values of those who joined.

    The attacker knows how many records joined, j. The earlier release's figures are scaled to the M₂ − j records that
    it should have contributed: d = (figure of the later) − (M₂ − j)/M₁ · (figure of the earlier). Of each categorical
    variable he guesses the level whose count differs most; of each number the differing sum over the differing
    number of values, right within 0.05 standard deviations or the precision of the variable; and a value that the
    later release alone holds, or a number that it holds more often, he ascribes to whoever joined. Last he asks which
    people, of whom he knows everything, joined, by the traces of all variables together: of m uncorrelated ones that
    are kept exactly, in a difference with the variance of s² persons, the area is Φ(√(m / 2s²)). Fifty variables and
    240 persons give 0.63.

    Parameters
    ----------
    earlier, released : Microdata; two releases, the later one second
    joined : records of the source behind the later release that are not behind the earlier one
    control : records of people who are behind neither release, or behind both
    arrived : records that joined, where ``joined`` are those of people who changed; by default all of them
    certainty : of all lower bounds together, with the number of pairs of releases that are tried, each in four ways;
        each upper one holds at 95 %, as a release passes only within all

    Returns
    -------
    Differencing, or None where nobody joined, the control has fewer than 20 people or no variable is shared

    Notes
    -----
    A person's figure is the share of their values that is guessed right; the interval is that of the difference of
    two means over people, with the control's variance where fewer than 20 joined. Where both releases hold exact
    counts and one person joins every level is read off. By symmetry the same holds of those who leave, whose records
    are no longer at hand. What is not tried: rows of the two releases that are aligned with each other.

    Sources: differences of exact tables, Dinur and Nissim 2003, PODS; invariants of a release, US Census Bureau 2021;
    traces, see `anoncore.risk._tracing`.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({f"v{j}": rng.choice(list("abc"), 200) for j in range(30)})
    >>> people = Microdata(frame, Schema(Variable(name, "nominal") for name in frame))
    >>> before, after = people.take(np.arange(99)), people.take(np.arange(100))
    >>> differencing(before, after, people.take(np.array([99])), people.take(np.arange(100, 200))).worst.joined
    1.0
    """
    tables = (earlier, released, joined, control)
    names = shared_variables(tables)
    if not names or not len(joined) or not len(earlier) or control.n_units < LEAST_CONTROL:
        return None
    more = len(joined) if arrived is None else arrived
    scale = (len(released) - more) / len(earlier)
    hits: dict[str, list[tuple[Flags, Flags]]] = {way: [] for way in WAYS}
    traits: list[tuple[csr_array, Floats]] = []
    for name in names:
        columns = aligned_values(tables, name)
        numeric = joined.schema[name].kind == "continuous"
        for way, guess in _guesses(columns, numeric, scale, joined.schema[name].precision or 0.0):
            hits[way].append((guess[: len(joined)], guess[len(joined) :]))
        traits.append(trait_differences(columns, numeric, scale))
    units = ComparedUnits(joined.units, control.units)
    certain = replace(certainty.over(len(WAYS) + 1), units=units)
    z = normal_quantile(1.0 - (1.0 - certain.confidence) / certain.tests), normal_quantile(UPPER)
    ways = [_decoded(way, pairs, joined, control, z) for way, pairs in hits.items() if pairs]
    people, moved = hstack([one for one, _ in traits], format="csr"), np.concatenate([one for _, one in traits])
    scores = np.split(trace_scores(people, moved, more), [len(joined)])
    ways.append(_traced(scores[0], scores[1], certain, len(names)))
    return Differencing(tuple(ways), joined.n_units, control.n_units, certain.confidence)


def _traced(joined: Floats, control: Floats, certain: Certainty, variables: int) -> Decoded:
    """Return how well the scores show who joined, as an area beyond one half."""
    area = membership_attack(joined, control, confidence=certain.confidence, tests=certain.tests, units=certain.units)
    upper = membership_attack(joined, control, confidence=UPPER, units=certain.units).upper
    return Decoded(TRACED, area.auc, 0.5, area.auc - 0.5, area.lower - 0.5, upper - 0.5, variables)


def _guesses(columns: list[Floats], numeric: bool, scale: float, precision: float) -> Iterator[tuple[str, Flags]]:
    """Yield for each way whether it is right for those who joined and for the control, in this order."""
    earlier, released = columns[:2]
    people = np.concatenate(columns[2:])
    if numeric:
        yield WAYS[1], _by_sums(earlier, released, people, scale, precision)
    else:
        values = SortedValues(np.concatenate(columns))
        known = values.known
        counts = [np.bincount(SortedValues(known).interval(side)[0], minlength=len(known)) for side in columns[:2]]
        yield WAYS[0], SortedValues(known).interval(people)[0] == int(np.argmax(counts[1] - scale * counts[0]))
    later, before = (SortedValues(side).counts(people) for side in (released, earlier))
    yield WAYS[2], later - scale * before >= 0.5 if numeric else (later > 0) & (before == 0)


def _by_sums(earlier: Floats, released: Floats, people: Floats, scale: float, precision: float) -> Flags:
    present = [side[~np.isnan(side)] for side in (earlier, released)]
    values = len(present[1]) - scale * len(present[0])
    if values < 0.5:
        return np.zeros(len(people), dtype=bool)
    guess = (present[1].sum() - scale * present[0].sum()) / values
    reach = max(NEAR * float(present[1].std()), precision)
    return np.asarray(np.abs(people - guess) <= reach)


def _decoded(
    way: str, pairs: list[tuple[Flags, Flags]], joined: Microdata, control: Microdata, z: tuple[float, float]
) -> Decoded:
    sides = zip(zip(*pairs, strict=True), (joined.units, control.units), strict=True)
    one, other = (unit_means(np.mean(hits, axis=0), units) for hits, units in sides)
    chance = float(other.var(ddof=1))
    own = float(one.var(ddof=1)) if len(one) >= OWN_VARIANCE else chance
    excess, error = float(one.mean() - other.mean()), float(np.sqrt(own / len(one) + chance / len(other)))
    bounds = max(-1.0, excess - z[0] * error), min(1.0, excess + z[1] * error)
    return Decoded(way, float(one.mean()), float(other.mean()), excess, *bounds, len(pairs))
