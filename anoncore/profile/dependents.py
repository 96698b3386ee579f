"""From relations to edits: which column of a sum was computed, and the name of the edit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from anoncore.edits.kinds import LinearEdit, linear_holds
from anoncore.microdata.inference import DIFFERENCES, TOTALS, words_of
from anoncore.profile.findings import Finding, outward
from anoncore.profile.relations import ROUNDED, Relation, complete, deviation


def with_dependents(relations: list[Relation], values: np.ndarray, names: Sequence[str]) -> list[Finding]:
    """Turn relations into edits, each with a dependent that no other edit computes and no cycle needs.

    The dependents are chosen jointly, by assignment, so that a total goes to its own parts.
    """
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
        why = "" if target is not None else "each of them is computed from others already"
        findings.append(Finding(_linear(relation, names, target), why, active=target is not None))
    return findings


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
    return score + 1e-3 * j / len(names)


def _linear(relation: Relation, names: Sequence[str], target: int | None, tolerance: float | None = None) -> LinearEdit:
    columns, coefficients = relation
    sign = -1.0 if target is None else -math.copysign(1.0, coefficients[columns.index(target)])
    terms = {names[j]: sign * c + 0.0 for j, c in zip(columns, coefficients, strict=True)}
    last = names[columns[-1] if target is None else target]
    terms[last] = terms.pop(last)
    return LinearEdit(
        name=f"{last} adds up" if len(columns) > 2 else f"{last} repeats",
        terms=terms,
        dependent=None if target is None else last,
        tolerance=tolerance,
    )


def nearly(relation: Relation, values: np.ndarray, names: Sequence[str]) -> Finding | None:
    """Propose a sum that holds in nearly every record, or up to rounding."""
    gap = deviation(values, relation)
    if not 0 < gap < math.inf:
        return None
    part = complete(values, relation)
    target = max(relation[0], key=lambda j: _dependence(j, relation, values, names))
    wrong = int((~linear_holds(part, np.array(relation[1]), "==", 0.0)).sum())
    if wrong <= 0.01 * len(part):
        why = f"holds in all but {wrong} of {len(part)} records"
        return Finding(_linear(relation, names, target), why, active=False)
    if gap > ROUNDED * float(part.std(axis=0).min()):
        return None
    edit = _linear(relation, names, target, outward(gap, upward=True))
    return Finding(edit, "holds up to rounding; the tolerance is rounded up", active=False)
