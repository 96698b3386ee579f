"""How gates decide on records that the release comes close to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anoncore.risk import ExtremeRecords, TailTest
from tasks.common.formatting import count
from tasks.policy.attack import p_phrase
from tasks.policy.gate import Chance, GateResult, GateVerdict, Metrics
from tasks.policy.limits import SHARE
from tasks.policy.rounding import people_counted

# What distances are compared with, for the documents.
OTHERS = (
    "the reference, or other people of the original where the reference holds less than a quarter of the records of "
    "both release and original"
)


def compared_with(within_original: bool) -> str:
    """Return what distances to the release are compared with, in words."""
    return "other people of the original" if within_original else "the reference"


def result_of(name: str, rule: TailTest, level: float, meaning: str, *, beside: str) -> GateResult:
    """Return the result of one test of close records, which fails at its share of the level and asks below it.

    Parameters
    ----------
    beside : with what distances are compared
    """
    chance = Chance(rule.forms or (("", rule.p),), level * SHARE, asks=level)
    verdict: GateVerdict = "inconclusive" if rule.verdict == "inconclusive" or rule.p < level else "pass"
    if rule.verdict != "inconclusive" and chance.fails:
        verdict = "fail"
    paired = rule.n_close_pairs is not None
    pairs = f" (pairs at most {rule.close_pairs_released} of at most {rule.n_close_pairs})" if paired else ""
    third = "; chance gives the release at most a third of close pairs" if paired else ""
    return GateResult(
        name=name,
        verdict=verdict,
        figure=f"at most {rule.n_released}{pairs}, {p_phrase(rule.p)}",
        limit=f"fail: p < {chance.level:.2g}; pass: p ≥ {level:g}",
        baseline=f"at most {rule.n_reference}, {beside}",
        records=rule.n,
        meaning=f"{meaning}{third}",
        chance=chance,
        needed=_undecided(rule, level, chance.level),
    )


def _undecided(rule: TailTest, level: float, fails: float) -> str:
    if rule.p < level:
        why = "p lies between the two levels"
    else:
        why = f"copies of all {rule.n:,} records may not reach p < {fails:.2g}, or non-members are matched as closely"
    return f"; {why}: more records decide it, or a person accepts it"


def figures(rules: Mapping[str, TailTest], prefix: str) -> Metrics:
    """Return all figures of some tests, by the names of these."""
    return {
        f"{prefix}{rule}/{name}": value
        for rule, result in rules.items()
        for name, value in vars(result).items()
        if type(value) in (int, float)
    }


def result_of_extremes(name: str, extreme: ExtremeRecords, *, beside: str) -> GateResult:
    """Return the result of the rule for extreme records: one that is matched is too many, unless chance explains it."""
    return GateResult(
        name=name,
        verdict=extreme.verdict,
        figure=f"{matched(extreme)} matched",
        limit="0, or what chance explains",
        baseline=f"{up_to(extreme.baseline)}, {beside}",
        records=extreme.n,
        meaning="people far from everyone else, whom a close released record would disclose",
        needed="; chance hardly explains it, or records are equal in a table that repeats them: fewer variables, or a "
        "person accepts it",
    )


def matched(extreme: ExtremeRecords) -> str:
    """Return how many of the extreme records are matched, in words."""
    return f"{up_to(extreme.n_matched)} of {up_to(extreme.n_extreme)}"


def up_to(n: int) -> str:
    """Return a published count in words."""
    return f"at most {count(n)}" if n else "0"


def extremes_counted(extreme: ExtremeRecords, step: float) -> ExtremeRecords:
    """Publish how many are matched as the next ten; that none is stands in the verdict."""
    shown = people_counted(extreme, step)
    none = {name: 0 for name in ("n_matched", "baseline") if not getattr(extreme, name)}
    return replace(shown, **none)  # type: ignore[arg-type]
