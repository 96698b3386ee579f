"""Exact linear relations: columns that are sums, differences or copies of others, or add up to one number."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.profile.constant_sums import constant_sum
from anoncore.profile.dependents import Sum, nearly, with_dependents
from anoncore.profile.findings import Finding
from anoncore.profile.null_space import null_space
from anoncore.profile.relations import Relation, deviation, vector
from anoncore.profile.rounded_sums import rounded_sums
from anoncore.profile.shifted_sums import shifted_sums
from anoncore.profile.triples import triples


def find_sums(frame: pd.DataFrame, *, rng: np.random.Generator) -> tuple[Finding, ...]:
    """Find columns that are sums or differences of others, in every record that has all of them.

    Parameters
    ----------
    frame : DataFrame, (N, n) float64, NaN where missing
    rng : numpy Generator
        Chooses the records on which candidates are screened.

    Returns
    -------
    tuple of Finding
        Linear edits with coefficients ±1, at most `MAX_TERMS` terms, none implied by the others.
        They hold exactly, or up to rounding, in all records or in nearly all, and name a dependent. Those of three
        whole numbers may have a constant, as age, schooling and the years since. Not active are
        those all of whose columns are computed from others already. At most one sum is a number,
        as of shares of a whole, of columns that are in no other one.

    Screening is by brute force over pairs for three terms, so that none is passed over; longer
    sums come from the null space of complete records (QR with column pivoting), so they are found
    only among columns that are mostly missing together or not at all, and of which at least twice
    as many records are complete. Not looked at further: in one set of such columns, more than
    `null_space.MAX_TANGLED` dependencies that are mixtures of several; and mixtures that are left
    once `null_space.PATIENCE` sets in a row have brought nothing new.
    """
    values, names = frame.to_numpy(dtype="float64"), [str(c) for c in frame.columns]
    copies, columns = _copies(values)
    short = [(tuple(columns[j] for j in r[0]), r[1]) for r in triples(values[:, columns], rng)]
    exact = {r for r in short if deviation(values, r) == 0.0}
    chosen = _independent([*copies, *(r for r in short if r in exact)], [], len(names))
    longer = null_space(values, columns, chosen, rng)
    chosen = _independent([r for r in longer if deviation(values, r) == 0.0], chosen, len(names))
    inexact = [s for r in short if r not in exact and (s := nearly(r, values))]
    fixed = {r[0][-1] for r in chosen}
    inexact += [Sum(*rounded) for rounded in rounded_sums(values, [j for j in columns if j not in fixed])]
    inexact += [Sum(r, slack or None, constant) for r, constant, slack in shifted_sums(values, columns)]
    more = _independent([s.relation for s in inexact], chosen, len(names))[len(chosen) :]
    slack = {s.relation: s for s in reversed(inexact)}
    sums = with_dependents([*map(Sum, chosen), *(slack[r] for r in more)], values, names)
    used = {j for r in [*chosen, *more] for j in r[0]}
    return *sums, *constant_sum(values, names, used)


def _copies(values: np.ndarray) -> tuple[list[Relation], list[int]]:
    """Return relations between equal columns, and the columns that repeat no earlier one."""
    first: dict[bytes, int] = {}
    pairs = [(first.setdefault((column + 0.0).tobytes(), j), j) for j, column in enumerate(values.T)]
    copies: list[Relation] = [((i, j), (1.0, -1.0)) for i, j in pairs if i != j]
    copies = [copy for copy in copies if deviation(values, copy) == 0.0]
    repeated = {copy[0][1] for copy in copies}
    return copies, [j for j in range(values.shape[1]) if j not in repeated]


def _independent(candidates: list[Relation], chosen: list[Relation], n: int) -> list[Relation]:
    """Return ``chosen`` and those candidates, short ones first, that do not follow from others."""
    result = list(chosen)
    basis = np.zeros((min(n, len(chosen) + len(candidates)), n))  # orthonormal rows
    rank = 0
    ranked = sorted(candidates, key=lambda r: (len(r[0]), max(r[0])))
    for position, relation in enumerate([*chosen, *ranked]):
        row = vector(relation, n)
        for _ in range(2):  # once leaves the noise of binary numbers along the basis
            row -= basis[:rank].T @ (basis[:rank] @ row)
        rest = np.linalg.norm(row)
        if rest > 1e-9:
            basis[rank] = row / rest
            rank += 1
            result += [relation] if position >= len(chosen) else []
    return result
