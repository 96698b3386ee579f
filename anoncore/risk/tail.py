"""What distributions hide: single records matched far more closely than their neighbours lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, hypergeom

from anoncore.errors import AnonymizationError
from anoncore.parameters import between
from anoncore.risk._checks import Floats, same_size, vector
from anoncore.risk.pairs import SHARE, ClosePairs
from anoncore.risk.prediction import PredictionMeasures

# McNemar's part of the level, where close pairs are tested too.
MCNEMARS = 0.2

Distances = PredictionMeasures | ArrayLike
_ORDER = ("pass", "inconclusive", "fail")

FACTOR = 5.0  # of the 99th percentile of distances to the nearest other, beyond which a record is extreme
_REPEATED = 0.05  # share of the records that repeat another one, from which on equal records prove nothing
# Of the most isolated people, by whom is seen how often others match such a person; and below which probability that
# explains no matched extreme records, or hardly.
_LONELY, _UNEXPLAINED, _DOUBTFUL = 0.05, 0.01, 0.05
ISOLATED = 0.01  # share of the records
FEWEST_ISOLATED = 10  # people; of fewer than seven no number is conspicuous at the level 0.01


@dataclass(frozen=True)
class TailTest:
    """Records the release comes suspiciously close to, beside those the reference comes close to.

    Parameters
    ----------
    n : records looked at
    n_duplicates : of these, records with an identical twin in A, which can never be in the tail
    n_released, n_reference : tail records against the release and (the baseline) against the reference
    only_released, only_reference : tail records against one of them only, on which McNemar's test rests
    tau, level : share of the own neighbour's distance that counts as close, and the test's level
    p : one-sided p-value; where close pairs were tested too, the smaller of both with the level shared out
    verdict : "pass", "fail", or "inconclusive" when even copies of all n could not reach the level, or when the
        reference alone excludes chance and non-members do not
    n_close_pairs, close_pairs_released : close pairs that were looked at, and those of them with a released
        row, see `close_pairs`; None where pairs say nothing or nobody else is known
    forms : name and p-value of each, where ``p`` is that of several together, by Bonferroni's correction
    others_repeat : whether records of A* repeat each other, or are released unchanged; None where that is not told
    """

    n: int
    n_duplicates: int
    n_released: int
    n_reference: int
    only_released: int
    only_reference: int
    tau: float
    level: float
    p: float
    verdict: Literal["pass", "fail", "inconclusive"]
    n_close_pairs: int | None = None
    close_pairs_released: int | None = None
    forms: tuple[tuple[str, float], ...] = ()
    others_repeat: bool | None = None

    def beside(self, nonmembers: TailTest) -> TailTest:
        """Return the test with what as many non-members show, for whom the original stands for other people.

        Release, original and reference being samples of one population and one size, members whom the release alone
        comes close to, members whom the reference alone does, and non-members whom the release alone does are equally
        many by chance: p = P(Bin(all three, ⅓) ≥ the first). Without non-members the second alone shows chance. Where
        that fails and this does not, the release may be made from non-members, too, so that nothing is decided.
        """
        trials = self.only_released + self.only_reference + nonmembers.only_released
        p = float(binom.sf(self.only_released - 1, trials, 1.0 / 3.0))
        verdict = "fail" if p < self.level else "inconclusive" if self.verdict == "fail" else self.verdict
        return replace(self, p=p, verdict=verdict)

    def with_copies(self, possible: int, share: float = 0.5) -> TailTest:
        """Return the test, inconclusive where even so many copies as the rows that were searched may hold are too few.

        By chance ``share`` of the records that one set alone comes close to are the release's.
        """
        least = share**possible
        if self.n_close_pairs is not None:
            least = min(least / MCNEMARS, SHARE**possible / (1.0 - MCNEMARS))
        return replace(self, verdict="inconclusive") if self.verdict == "pass" and least >= self.level else self

    @classmethod
    def in_forms(cls, tests: Mapping[str, TailTest]) -> TailTest:
        """Return several tests of the same records as one, which fails by chance at the level of each.

        Counts are those of the form that chance explains least. Whether copies could be noticed at all is said by the
        first one; what any of them leaves open stays so.
        """
        first = next(iter(tests.values()))
        worst = min(tests.values(), key=lambda test: test.p)
        p = min(1.0, worst.p * len(tests))
        if p < first.level:
            verdict: Literal["pass", "fail", "inconclusive"] = "fail"
        else:
            verdict = "inconclusive" if any(test.verdict == "inconclusive" for test in tests.values()) else "pass"
        return replace(worst, p=p, verdict=verdict, forms=tuple((name, test.p) for name, test in tests.items()))

    @property
    def baseline(self) -> float:
        """Share of records in the tail of the reference."""
        return self.n_reference / self.n


@dataclass(frozen=True)
class ExtremeRecords:
    """Records far from all others, and how many of them the release matches.

    Parameters
    ----------
    n : records looked at
    n_extreme : records whose nearest neighbour lies farther than ``factor`` times the 99th percentile
    n_matched, baseline : of these, matched within tau by the release, and by the reference
    factor, tau : what counts as extreme, and as matched
    verdict : "fail" when more are matched than chance explains; "pass" when none is, or others are matched as often;
        "inconclusive" between these, and where chance repeats records, and these are equal
    p : the probability with which other people match as many, by how often they match isolated people
    """

    n: int
    n_extreme: int
    n_matched: int
    baseline: int
    factor: float
    tau: float
    verdict: Literal["pass", "fail", "inconclusive"]
    p: float = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Extremes:
    """The extreme records among n: (q,) distances ``whole``, ``chance`` and ``own``, as those of `Closeness`.

    ``repeated`` is the share of records that repeat another one.
    """

    whole: Floats
    chance: Floats
    own: Floats
    n: int
    repeated: float


@dataclass(frozen=True)
class MatchedByChance:
    """How often people are matched by others who have nothing of them.

    Parameters
    ----------
    hits, trials : of the 5 % most isolated people
    far_hits, far_trials : of people who are as far from everybody as extreme records
    """

    hits: int = 0
    trials: int = 0
    far_hits: int = 0
    far_trials: int = 0

    @classmethod
    def of(cls, gap: Floats, other: Floats, limit: float, tau: float) -> MatchedByChance:
        """Count people, of (q,) distances to the nearest of their own sample and of another one, matched within tau.

        Extreme are those farther than ``limit`` from their own sample.
        """
        if not len(gap):
            return cls()
        met, far = other < tau * gap, gap > limit
        lonely = (gap > 0.0) & (gap >= np.quantile(gap, 1.0 - _LONELY))
        return cls(int(met[lonely].sum()), int(lonely.sum()), int(met[far].sum()), int(far.sum()))

    def __add__(self, more: MatchedByChance) -> MatchedByChance:
        return MatchedByChance(*(one + other for one, other in zip(astuple(self), astuple(more), strict=True)))

    def p(self, matched: int, people: int) -> float:
        """Return the probability that as many of so many are matched; 0 where nobody was tried.

        With the share that half of the posterior distribution of that of the isolated people lies below.
        """
        if not matched or not self.trials:
            return 0.0 if matched else 1.0
        share = beta.ppf(0.5, self.hits + 0.5, self.trials - self.hits + 0.5)
        return float(binom.sf(matched - 1, people, share))

    def over(self, draws: int) -> MatchedByChance:
        """Return the counts of one of several draws that ask about the same people."""
        return MatchedByChance(*(round(one / draws) for one in astuple(self)))

    def by_the_farthest(self) -> MatchedByChance:
        """Return chance by people as far out as extreme records where these are matched more often than isolated ones.

        In a heavy tail people lie on lines. Many must be that far, of several parts of a table: one of a few proves
        nothing.
        """
        more = self.far_hits * self.trials > self.hits * self.far_trials
        return replace(self, hits=self.far_hits, trials=self.far_trials) if more else self

    def explains(self, matched: int, people: int) -> bool:
        """Return whether extreme people are matched by others, too, and not clearly less often."""
        whole, met = people + self.far_trials, matched + self.far_hits
        return bool(self.far_hits) and hypergeom.sf(matched - 1, whole, met, people) >= _DOUBTFUL


def tail_test(
    released: Distances,
    reference: Distances,
    own: Distances,
    *,
    tau: float = 0.1,
    level: float = 0.01,
    pairs: ClosePairs | None = None,
) -> TailTest:
    """Test whether more records are nearly copied than a sample of other people would match by chance.

    The tail of a set S is T = {j : d_j(S) < τ·d_j(A − A_j)}. Under the null hypothesis that the release
    puts a record into its tail no more often than the reference does, the records in just one of the two
    tails fall on either side evenly: p = P(Bin(discordant, ½) ≥ only in the release's), McNemar's test in
    exact form. A record with an identical twin has d_j(A − A_j) = 0 and, the inequality being strict,
    is in no tail: whoever matches it matches the twin as well.

    Where A* holds other people, pairs of two people say more about chance than A* alone does
    (`close_pairs`). Then both tests are carried out and share the level, a fifth of it McNemar's, which stays
    because near twins among people raise the baseline of pairs: p = min(p_pairs / 0.8, p_McNemar / 0.2).
    Where people are that close by chance, pairs show nothing and McNemar's test has the whole level.

    Parameters
    ----------
    released, reference, own : (N,) nearest distances of the same records to the release, to A* and to
        A − A_j, in one unit; or PredictionMeasures, of which the distance is taken
    tau : 0 … 1
    level : 0 … 1
    pairs : close pairs of the same people, at the same tau, where A* shares no record with A

    Returns
    -------
    TailTest

    Raises
    ------
    AnonymizationError
        When the three do not belong to the same records, the sets searched differ in size, or pairs were
        taken at another tau.

    Notes
    -----
    Level ``level``. Not from the paper: its Kolmogorov–Smirnov test passes a release with 5 % of the records
    copied. Test: McNemar 1947, exact form; the level shared out by Bonferroni's inequality with weights.

    Examples
    --------
    >>> ones = np.ones(100)
    >>> tail_test(np.where(np.arange(100) < 8, 0.01, 1), ones, ones).p
    0.00390625
    """
    near, other, gap = aligned(released, reference, own)
    if pairs is not None and pairs.tau != tau:
        raise AnonymizationError(f"pairs must be close at tau {tau:g}, got those at {pairs.tau:g}")
    return _tail(near, other, gap, tau, level, pairs)


def isolated_test(
    released: Distances,
    reference: Distances,
    own: Distances,
    *,
    share: float = ISOLATED,
    tau: float = 0.1,
    level: float = 0.01,
) -> TailTest:
    """Run the tail test on the most isolated records of the original, those easiest to recognise.

    Isolated are the ⌈share·N⌉ records, and ten at least, with the largest d_j(A − A_j), and all that tie with the last.

    Parameters
    ----------
    released, reference, own, tau, level : see :func:`tail_test`
    share : 0 … 1

    Returns
    -------
    TailTest, of the isolated records only

    Raises
    ------
    AnonymizationError
        As :func:`tail_test`.

    Notes
    -----
    Exact given the records chosen, because the choice looks at the original only. Source: docs/explanation/risk.md.

    Examples
    --------
    >>> ones = np.ones(1000)
    >>> isolated_test(ones, ones, np.arange(1000.0)).n
    10
    """
    near, other, gap = aligned(released, reference, own)
    isolated = most_isolated(gap, share)
    return _tail(near[isolated], other[isolated], gap[isolated], tau, level, None)


def most_isolated(gap: Floats, share: float = ISOLATED) -> NDArray[np.bool_]:
    """Return (N,) whether a distance is among the ⌈share·N⌉ largest, ten at least, or ties with the least of these."""
    number = max(math.ceil(between("share", share, 0, 1) * len(gap)), FEWEST_ISOLATED)
    place = max(len(gap) - number, 0)
    return np.asarray(gap >= np.partition(gap, place)[place])


def extreme_records(
    released: Distances,
    reference: Distances,
    own: Distances,
    *,
    tau: float = 0.1,
) -> ExtremeRecords:
    """Count the extreme records that the release matches; one is too many, unless others match such people, too.

    Extreme is a record whose d_j(A − A_j) exceeds five times the 99th percentile of these distances
    (of the positive ones where that percentile is zero, duplicates being the rule then); matched, when
    d_j(release) < τ·d_j(A − A_j). The result holds counts and no row numbers. In tables of few variables with far ends
    other people come as near by chance: how often is seen from isolated people whom the reference matches.

    Parameters
    ----------
    released, reference, own : see :func:`tail_test`; of all records, because a sample would miss extremes
    tau : 0 … 1

    Returns
    -------
    ExtremeRecords

    Raises
    ------
    AnonymizationError
        As :func:`tail_test`, and when the measures are of sampled queries.

    Notes
    -----
    A rule, not a test. Two extreme records beside each other hide one another from it. It fails where P(Bin(extreme
    records, share) ≥ matched) is below 0.01, the share being that of the 5 % most isolated people whom others match
    (the median by Jeffreys' prior): 0 of them leave too little for one of four extreme records, and open what is one of
    many. It passes a match only where others match extreme people as well, and not clearly less often.
    Source: docs/explanation/risk.md.

    Examples
    --------
    >>> own = np.append(np.ones(200), 50.0)
    >>> extreme_records(own * 0.02, own, own).n_matched
    1
    """
    if isinstance(own, PredictionMeasures) and own.n_queries < own.n_original:
        raise AnonymizationError(
            f"own must measure all {own.n_original} records, got {own.n_queries}; leave queries out"
        )
    between("tau", tau, 0, 1)
    near, other, gap = aligned(released, reference, own)
    extreme, repeated = is_extreme(gap), float((gap == 0.0).mean())
    chance = MatchedByChance.of(gap, other, extreme_distance(gap), tau)
    extremes = Extremes(near[extreme], other[extreme], gap[extreme], len(gap), repeated)
    return matched_extremes(extremes, tau=tau, chance=chance)


def matched_extremes(
    extremes: Extremes, *, tau: float = 0.1, chance: MatchedByChance = MatchedByChance()
) -> ExtremeRecords:
    """Count the matched ones of extreme records; see `extreme_records`.

    Where at least 5 % of the records repeat others, chance repeats an extreme one, too: equal records alone leave the
    rule undecided then.
    """
    near, gap, repeated = extremes.whole, extremes.own, extremes.repeated
    hits = near < tau * gap
    matched = int(hits.sum())
    p, repeats = chance.p(matched, len(gap)), repeated >= _REPEATED and not near[hits].any()
    verdict: Literal["pass", "fail", "inconclusive"] = "inconclusive"
    if not matched or (p >= _DOUBTFUL and chance.explains(matched, len(gap))):
        verdict = "pass"
    elif p < _UNEXPLAINED and not repeats:
        verdict = "fail"
    return ExtremeRecords(
        n=extremes.n,
        n_extreme=len(gap),
        n_matched=matched,
        baseline=int((extremes.chance < tau * gap).sum()),
        factor=FACTOR,
        tau=tau,
        verdict=verdict,
        p=p,
    )


def worst_extremes(rules: Iterable[ExtremeRecords]) -> ExtremeRecords:
    """Return the one of several looks at the same records that decides: the worst verdict, and the least probable."""
    return max(rules, key=lambda rule: (_ORDER.index(rule.verdict), -rule.p, rule.n_matched))


def is_extreme(gap: Floats, factor: float = FACTOR) -> NDArray[np.bool_]:
    """Return (N,) bool: distances to the own nearest neighbour above `extreme_distance`."""
    return np.asarray(gap > extreme_distance(gap, factor))


def extreme_distance(gap: Floats, factor: float = FACTOR) -> float:
    """Return ``factor`` times the 99th percentile of distances to the own nearest neighbour.

    Where that percentile is 0, duplicates being the rule, it is taken of the positive distances; 0 without any.
    """
    usual = np.quantile(gap, 0.99)
    if usual == 0.0 and gap.any():
        usual = np.quantile(gap[gap > 0.0], 0.99)
    return float(factor * usual)


def aligned(released: Distances, reference: Distances, own: Distances) -> tuple[Floats, Floats, Floats]:
    """Return the distances of the same records to three sets; see `tail_test`."""
    if isinstance(released, PredictionMeasures) and isinstance(reference, PredictionMeasures):
        same_size(released.n_released, reference.n_released)
    sides = [side.distance if isinstance(side, PredictionMeasures) else side for side in (released, reference, own)]
    near = vector("released", sides[0])
    return near, vector("reference", sides[1], len(near)), vector("own", sides[2], len(near))


def _tail(near: Floats, other: Floats, gap: Floats, tau: float, level: float, pairs: ClosePairs | None) -> TailTest:
    between("tau", tau, 0, 1)
    between("level", level, 0, 1)
    near_hits, other_hits = near < tau * gap, other < tau * gap
    only_near, only_other = int((near_hits & ~other_hits).sum()), int((other_hits & ~near_hits).sum())
    p = float(binom.sf(only_near - 1, only_near + only_other, 0.5))
    apart = int((gap > 0.0).sum())
    if pairs is not None and not pairs.telling:
        pairs = None
    if pairs is not None:
        p = min(1.0, pairs.p / (1.0 - MCNEMARS), p / MCNEMARS)
    test = TailTest(
        n=len(gap),
        n_duplicates=len(gap) - apart,
        n_released=int(near_hits.sum()),
        n_reference=int(other_hits.sum()),
        only_released=only_near,
        only_reference=only_other,
        tau=tau,
        level=level,
        p=p,
        verdict="fail" if p < level else "pass",
        n_close_pairs=None if pairs is None else pairs.n,
        close_pairs_released=None if pairs is None else pairs.n_released,
    )
    return test.with_copies(apart)
