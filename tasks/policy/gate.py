"""What a gate is: one criterion of the policy, with all that report, tracking, publication and documents need of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from anoncore.risk import Verdict, three_way, worst_of
from tasks.common.formatting import Interval
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Attack
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import Rounding

# From the worst.
GateVerdict = Literal["fail", "inconclusive", "to decide", "waived", "by design", "pass", "not tested"]
WORST_FIRST: tuple[GateVerdict, ...] = get_args(GateVerdict)
Topic = Literal["Risk", "Claims", "Sense", "Utility"]
Metrics = Mapping[str, float | None]
FormValues = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class BoundedFigure:
    """A figure of which more is harmful, with its interval.

    Parameters
    ----------
    name : of the form of an attack; "" where there is one
    value, lower, upper : the figure and its bounds
    reach : how far the upper bound is above the figure; 0 where it is the bound of something else
    error_ratio : standard error of the mean of two halves, by that of independent errors
    """

    name: str
    value: float
    lower: float
    upper: float
    reach: float
    error_ratio: float = 1.0

    @classmethod
    def of(cls, value: float, interval: Interval, name: str = "") -> BoundedFigure:
        """Return a figure with its own interval."""
        error_ratio = getattr(interval, "error_ratio", 1.0)
        return cls(name, value, interval.lower, interval.upper, interval.upper - value, error_ratio)


@dataclass(frozen=True)
class Bounds:
    """The figures of all forms of an attack, and the limits with which their intervals are compared.

    Parameters
    ----------
    forms : one or several
    passes_within, fails_above : what no upper bound may exceed to pass, and no lower one not to fail
    """

    forms: tuple[BoundedFigure, ...]
    passes_within: float
    fails_above: float

    @property
    def worst(self) -> BoundedFigure:
        """The form whose figure is shown to be largest."""
        return max(self.forms, key=lambda form: (form.lower, form.upper))

    @property
    def upper(self) -> float:
        """The largest upper bound of all forms."""
        return max(form.upper for form in self.forms)

    @property
    def verdict(self) -> Verdict:
        """Compare every interval with the limits; what is not a number fails."""
        return worst_of(
            {three_way(one.lower, one.upper, self.passes_within, fails_above=self.fails_above) for one in self.forms}
        )


# What would decide where chance does not explain the highest scores of an attack, and an accepted attack may.
DOUBTFUL = (
    "; members are more frequent among the highest scores than chance explains, and not shown to be more frequent than "
    "by an attack with an area of 0.55: stronger masking or fewer variables would lower it"
)
# What chance does not explain passes where an accepted attack shows as much so often, in each of its forms.
EXPLAINED_BY_ACCEPTED = 0.2
# The same where chance hardly explains the close records of two halves.
DOUBTFUL_HALVES = "; chance hardly explains it: more units decide it, or a person accepts it"


@dataclass(frozen=True)
class Chance:
    """A test that a harmless release passes, in one form or several.

    Parameters
    ----------
    forms : name and p-value of each; "" where there is one
    level : below which chance does not explain it
    beyond : the same test of a release as bad as is accepted, where more than nothing is; the release fails by both
    asks : below which a person is asked, where that is more than what fails
    """

    forms: FormValues
    level: float
    beyond: Chance | None = None
    asks: float = 0.0

    @property
    def p(self) -> float:
        """The p-value of all forms, by Bonferroni's correction; not a number where one of them is none."""
        return min(self.least * len(self.forms), 1.0)

    @property
    def least(self) -> float:
        """The p-value of the worst form by itself; not a number where one of them is none."""
        return float(np.min([p for _, p in self.forms]))

    @property
    def is_explained(self) -> bool:
        """Whether chance may explain it; what is not a number has no explanation."""
        return self.p >= self.level

    @property
    def fails(self) -> bool:
        """Whether neither chance nor what is accepted explains it; what is not a number fails."""
        return not self.is_explained and (self.beyond is None or self.beyond.fails or math.isnan(self.p))

    @property
    def is_accepted(self) -> bool:
        """Whether what is accepted explains each form, and not only may: a corrected p-value would excuse many."""
        return self.beyond is not None and self.beyond.least >= EXPLAINED_BY_ACCEPTED

    @property
    def is_doubtful(self) -> bool:
        """Whether a person is asked, since chance hardly explains it."""
        return not self.fails and not self.is_accepted and self.p < max(self.level, self.asks)

    @property
    def limit(self) -> str:
        """What fails the release and what passes, as a phrase."""
        fails = f"fail: p < {self.level:.2g}"
        if self.beyond is None:
            return fails
        passes = f"pass: p ≥ {self.level:.2g}, or ≥ {EXPLAINED_BY_ACCEPTED:g} in each form were it 0.55"
        return f"{fails}, and < {self.beyond.level:.2g} were the area 0.55; {passes}"

    def beside(self, verdict: Verdict) -> Verdict:
        """Return the verdict of the test and of bounds together, which are worse by what the test finds."""
        if self.fails:
            return "fail"
        return verdict if self.is_explained or self.is_accepted else worst_of({verdict, "inconclusive"})

    def phrase(self, of: str) -> str:
        """Return what chance does not explain, as the end of a figure; "" where it explains all.

        Parameters
        ----------
        of : what the p-values are of
        """
        if self.is_explained:
            return ""
        accepted = f", {self.beyond.p:.2g} were the area 0.55" if self.beyond else ""
        return f", p = {self.p:.2g} {of}{accepted}"


@dataclass(frozen=True)
class Threshold:
    """A figure that one limit decides as it is: at most as large, or ``at_least``."""

    figure: float
    limit: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the figure is within its limit; what is not a number is not."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


@dataclass(frozen=True)
class GateResult:
    """One question that the policy asks, its answer, and the figures behind it.

    Parameters
    ----------
    name : of the question; a gate may ask several
    verdict : the answer
    figure, limit, baseline : observed, accepted, and expected where no record is at risk from being released
    records : that the answer rests on
    meaning : of the figure, a phrase
    topic : by which reports group the results
    variables : that drive the figure, where single ones can be named, the worst first
    bounds : the interval that is compared with limits; None where something else decides
    chance : the test that fails the release by itself; None without one
    needed : what would decide an inconclusive result, the end of a sentence
    threshold : the figure and the limit as numbers, where neither bounds nor chance decide
    moved : what moved by more than its stated limit and than two samples differ; few records widen the limit applied
    """

    name: str
    verdict: GateVerdict
    figure: str
    limit: str
    baseline: str
    records: int
    meaning: str
    topic: Topic = "Risk"
    variables: tuple[str, ...] = ()
    bounds: Bounds | None = None
    chance: Chance | None = None
    needed: str = ""
    threshold: Threshold | None = None
    moved: tuple[str, ...] = ()

    @property
    def decisive(self) -> Threshold | None:
        """The number that decides and its limit: the upper bound, else the p-value, else the figure."""
        if self.bounds is not None:
            return Threshold(self.bounds.upper, self.bounds.passes_within)
        if self.chance is not None:
            return Threshold(self.chance.p, self.chance.level, at_least=True)
        return self.threshold

    @property
    def explanation(self) -> str:
        """The meaning of the figure, with what would decide where nothing is decided."""
        return self.meaning + (self.needed if self.verdict == "inconclusive" else "")

    @property
    def cause(self) -> str:
        """The name of the question, with the variables that drive the figure."""
        return f"{self.name} ({', '.join(self.variables)})" if self.variables else self.name


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One criterion of the policy.

    Parameters
    ----------
    name : by which the policy and the documents refer to it
    description : a paragraph for the documents: what it looks at, and when it fails
    evaluate : the results, from the assessment and the policy; none where there is nothing to decide. The verdicts
        come from the assessment, the texts from its published part where the gate publishes figures
    limits : the section of the policy that holds its limits; None without
    untested_as : name under which the policy's `untested` accepts that it could not be tested
    individual : its results on risk concern single records, and are waived where the plan waives their protection
    half_is_weighed : one of two halves that fails asks a person where all records pass, who have more to hide among
    publishes : for each figure of the assessment that may be published ("risk.linkage", "utility"), how coarse
    metrics : its figures as numbers, by the names under which they are tracked
    attacks : its rows of the report's table of attacks
    """

    name: str
    description: str
    evaluate: Callable[[Any, Any], tuple[GateResult, ...]] = lambda assessment, policy: ()
    limits: type[Section] | None = None
    untested_as: str = ""
    individual: bool = False
    half_is_weighed: bool = False
    publishes: Mapping[str, Rounding] = field(default_factory=dict)
    metrics: Callable[[Assessment], Metrics] = lambda assessment: {}
    attacks: Callable[[PublishedAssessment], tuple[Attack, ...]] = lambda assessment: ()


def fields_of(value: Any, names: tuple[str, ...], prefix: str) -> dict[str, float | None]:
    """Return some figures of a result as metrics; none where there is no result."""
    return {} if value is None else {f"{prefix}{name}": getattr(value, name) for name in names}
