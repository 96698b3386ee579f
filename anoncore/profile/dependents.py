"""From relations to edits: which column of a sum was computed, and the name of the edit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from anoncore.edits.kinds import LinearEdit, linear_holds
from anoncore.microdata.inference import DIFFERENCES, TOTALS, words_of
from anoncore.microdata.precision import outward
from anoncore.profile.findings import Finding
from anoncore.profile.relations import ROUNDED, Relation, complete, deviation

UNLIKE = 0.01  # of the records, in which a sum is missing and its parts are not, or the reverse


@dataclass(frozen=True)
class Sum:
    """A relation among columns, the slack with which it holds, None for binary noise, and the constant it gives."""

    relation: Relation
    tolerance: float | None = None
    constant: float = 0.0


def with_dependents(sums: list[Sum], values: np.ndarray, names: Sequence[str]) -> list[Finding]:
    """Turn sums into edits, each with a dependent that no other edit computes and no cycle needs.

    The dependents are chosen jointly, by assignment, so that a total goes to its own parts.
    """
    relations = [s.relation for s in sums]
    scores = np.full((len(relations), len(names)), -1e9)
    for i, relation in enumerate(relations):
        for j in relation[0]:
            scores[i, j] = _dependence(j, relation, values, names)
    best = linear_sum_assignment(scores, maximize=True)[1].tolist() if relations else []
    findings: list[Finding] = []
    computed_from: dict[int, set[int]] = {}
    for i, relation in enumerate(relations):
        ranked = [best[i], *sorted(relation[0], key=lambda j: scores[i, j], reverse=True)]
        taken = {*computed_from, *best[i + 1 :]}
        free = (j for j in ranked if j in relation[0] and j not in taken)
        target = next((j for j in free if not _circular(j, relation[0], computed_from)), None)
        if target is not None:
            computed_from[target] = set(relation[0]) - {target}
        edit = _linear(sums[i], names, target)
        broken = _broken(sums[i], values)
        why = f"in all but {broken} of {len(complete(values, relation))} records" if broken else ""
        why = why if target is not None else "each of them is computed from others already"
        if target is not None and not _missing_alike(target, relation, values):
            del computed_from[target]
            edit = replace(edit, dependent=None)
        findings.append(Finding(edit, why, active=target is not None, broken=broken))
    return findings


def _broken(one: Sum, values: np.ndarray) -> int:
    """Return the number of complete records in which a sum does not hold."""
    part, coefficients = complete(values, one.relation), np.array(one.relation[1])
    return int((~linear_holds(part, coefficients, "==", one.constant, one.tolerance)).sum())


def _missing_alike(target: int, relation: Relation, values: np.ndarray) -> bool:
    """Whether a column is missing where its parts are: else computing it would empty or fill its cells."""
    parts = np.isnan(values[:, [j for j in relation[0] if j != target]]).any(axis=1)
    return bool(np.mean(parts != np.isnan(values[:, target])) <= UNLIKE)


def _circular(target: int, columns: Iterable[int], computed_from: dict[int, set[int]]) -> bool:
    waiting, seen = set(columns) - {target}, set()
    while waiting:
        j = waiting.pop()
        if j == target:
            return True
        seen.add(j)
        waiting |= computed_from.get(j, set()) - seen
    return False


def _dependence(j: int, relation: Relation, values: np.ndarray, names: Sequence[str]) -> float:
    """Score how much column j looks like the one that was computed; the later column wins a tie."""
    columns, coefficients = relation
    lone = sum(c == coefficients[columns.index(j)] for c in coefficients) == 1
    words = words_of(names[j])
    others = [k for k in columns if k != j]
    score = 4.0 * bool(words & TOTALS and lone) + 4.0 * bool(words & DIFFERENCES)
    # wt82_71 carries the endings of wt82 and wt71.
    endings = [m.group() for k in others if (m := re.search(r"\d+$", names[k]))]
    if len(set(endings)) > 1 and all(e in names[j] for e in endings):
        score += 4.0
    negative = {k: bool(np.nanmin(values[:, k]) < 0) for k in columns}
    score += 2.0 * (negative[j] and not any(negative[k] for k in others))
    score += 1.0 * (lone and not any(negative.values()))
    size = abs(coefficients[columns.index(j)])
    average = lone and size == max(map(abs, coefficients)) > min(map(abs, coefficients))
    score += 2.0 * (lone and len(columns) > 3) + 4.0 * average
    largest = max(columns, key=lambda k: float(np.nanmean(np.abs(values[:, k]))))
    score += 0.5 * (j == largest and lone and len(columns) > 2)
    return score + 1e-3 * j / len(names)


def _linear(one: Sum, names: Sequence[str], target: int | None) -> LinearEdit:
    columns, coefficients = one.relation
    sign = -1.0 if target is None else -math.copysign(1.0, coefficients[columns.index(target)])
    terms = {names[j]: sign * c + 0.0 for j, c in zip(columns, coefficients, strict=True)}
    last = names[columns[-1] if target is None else target]
    terms[last] = terms.pop(last)
    return LinearEdit(
        name=f"{last} adds up" if len(columns) > 2 else f"{last} repeats",
        terms=terms,
        constant=sign * one.constant + 0.0,
        dependent=None if target is None else last,
        tolerance=one.tolerance,
    )


def nearly(relation: Relation, values: np.ndarray) -> Sum | None:
    """Return a sum that holds in nearly every record, or up to rounding; None where it does not."""
    gap = deviation(values, relation)
    if not 0 < gap < math.inf:
        return None
    part = complete(values, relation)
    if _broken(Sum(relation), values) <= 0.01 * len(part):
        return Sum(relation)
    if gap > ROUNDED * float(part.std(axis=0).min()):
        return None
    return Sum(relation, outward(gap, upward=True))
