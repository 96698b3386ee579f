"""Microaggregation on microdata: blocks of variables are encoded, grouped, and decoded from the groups' centres."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.contributions import contributions_of
from anoncore.edits.conditions import numbers
from anoncore.edits.implications import implications
from anoncore.edits.kinds import RatioEdit
from anoncore.edits.model import EditSet
from anoncore.edits.repair import repair
from anoncore.encoding import Decoding, Encoder
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.alternatives import project_by_rules
from anoncore.kernels.groups import Representative, group_means, group_medoids, joined_groups
from anoncore.kernels.projection import Polytope
from anoncore.microdata import Microdata, Schema
from anoncore.microdata.units import unit_codes

Constrain = Callable[[np.ndarray], np.ndarray]

ROUNDING_NOTE = (
    "numbers are rounded to their variables' units; where an edit ties them, the coarsest unit is rounded "
    "first and the finest, or the variable that the edit computes, takes up the remainder"
)


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Variables that are aggregated together.

    Parameters
    ----------
    data : Microdata, N records of these variables alone
    edits : EditSet, the edits that speak of them
    encoder : Encoder, fitted to ``data``; numbers are standardised and not logged, so that linear
        edits stay linear
    matrix : (N, m) float64, in standard deviations
    constrain : maps centres (c, m) to the nearest that satisfy the linear edits and bounds; None
        where there are none
    """

    data: Microdata
    edits: EditSet
    encoder: Encoder
    matrix: np.ndarray
    constrain: Constrain | None

    def undominated(self, centres: np.ndarray, labels: np.ndarray, k: int) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return centres of which no number is mostly one unit's, and the variables that changed; see `undominated`."""
        changed, names = undominated(self.data, self.encoder, centres, labels, k)
        return (self.constrain(changed) if names and self.constrain is not None else changed), names

    def decode_centres(
        self, centres: np.ndarray, labels: np.ndarray, form: Decoding, rng: np.random.Generator
    ) -> Microdata:
        """Return the microdata in which record i holds centre ``labels[i]``.

        Parameters
        ----------
        centres : (c, m), labels : (N,) int
        form : how scores become levels; records of one group always share them
        rng : numpy Generator, for edits that only a random draw can satisfy

        Returns
        -------
        Microdata, N records in their order; every edit of the block holds, after rounding, and
        records of one group are identical.
        """
        decoded = self.encoder.decode(centres[labels], form=form, groups=labels, index=self.data.frame.index)
        return repair(decoded, self.edits, rng=rng).data if len(self.edits) else decoded


def of_k_units(data: Microdata, x: np.ndarray, groups: np.ndarray, k: int) -> np.ndarray:
    """Return groups of records in which each holds k statistical units; see `joined_groups`."""
    return groups if data.units is None else joined_groups(x, groups, data.units, k)


def dominated_pools(
    name: str, labels: np.ndarray, positions: np.ndarray, means: np.ndarray, data: Microdata, k: int
) -> np.ndarray:
    """Return (G,) int: groups over which a number is averaged together, so that no average is mostly one unit's.

    Parameters
    ----------
    name : the number
    labels : (N,) int, every number 0..G-1 in use
    positions : (G, m) where the groups lie
    means : (G,) what would be published of each group, NaN where nothing is
    data : Microdata, whose records they are
    k : units that make a contribution nobody's

    Notes
    -----
    Source: see `anoncore.kernels.dominated`.
    """
    if data.frame[name].isna().all():
        return np.arange(len(positions))
    parts, middle = contributions_of(data, name, k)
    return parts.pools(labels, positions, np.nan_to_num(means - middle))


def undominated(
    data: Microdata, encoder: Encoder, centres: np.ndarray, labels: np.ndarray, k: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Average numbers over several groups where a group's average would be mostly one unit's contribution.

    Parameters
    ----------
    data : Microdata, N records
    encoder : Encoder, by which ``centres`` are encoded; numbers that it takes to logarithms or scores are no averages
    centres : (c, m) float64
    labels : (N,) int, the centre of each record
    k : units that make a contribution nobody's

    Returns
    -------
    (c, m) float64 with the same totals, and the names of the variables that changed
    """
    used, groups = np.unique(labels, return_inverse=True)
    sizes, changed, names = np.bincount(groups), centres.copy(), []
    for block in encoder.blocks:
        if block.variable.kind != "continuous" or block.floor is not None or block.quantiles is not None:
            continue
        means = centres[used, block.start] * block.scale + block.location
        pools = dominated_pools(block.variable.name, groups, centres[used], means, data, k)
        if pools.max() + 1 < len(used):
            totals = np.bincount(pools, sizes * centres[used, block.start])
            changed[used, block.start] = (totals / np.bincount(pools, sizes))[pools]
            names.append(block.variable.name)
    return changed, tuple(names)


def represented(
    data: Microdata, encoder: Encoder, matrix: np.ndarray, groups: np.ndarray, kind: Representative, k: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (N, m) what stands for the group of each record, and the variables averaged over several groups.

    Source: Lasko & Vinterbo (2010), sections III-B2 and IV-B: MASK, the group's mean or its record nearest to it.
    """
    if kind == "medoid":
        return matrix[group_medoids(matrix, groups)][groups], ()
    centres, names = undominated(data, encoder, group_means(matrix, groups), groups, k)
    return centres[groups], names


def pooled_note(names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence on the variables whose averages are of several groups; nothing for none."""
    if not names:
        return ()
    return (
        f"averages of {', '.join(names)} that would be mostly one unit's contribution are those of several groups "
        "together, so that no average multiplied by its number of records shows it",
    )


UNIT = 1e-6  # standard deviations by which a number without a precision leaves a condition
OUTERMOST = 20  # units at either end on whose values no published share of a variance depends
TARGETS = 500  # records that the attack across blocks is tried on
Memberships = Callable[[int], np.ndarray]


def linked_across_blocks(
    labels: Sequence[np.ndarray], memberships: Sequence[Memberships], rng: np.random.Generator
) -> float:
    """Return the share of records whose row is found by an attacker who intersects the blocks.

    Parameters
    ----------
    labels : for each block (N,) int, the centre that each released row holds
    memberships : for each block a function of a record's position that returns (c,), how likely it got each centre,
        as an attacker computes who knows the record, all centres and the parameters
    rng : numpy Generator, that chooses 500 records where there are more

    Returns
    -------
    float
        The share of records whose own row is the likeliest, ties among t rows counting as 1/t.

    Source: after Nin, Herranz and Torra 2008, *On the disclosure risk of multivariate microaggregation*.
    """
    n = len(labels[0])
    targets = np.arange(n) if n <= TARGETS else rng.choice(n, TARGETS, replace=False)
    hits = 0.0
    for target in targets:
        likelihood = np.ones(n)
        for label, of in zip(labels, memberships, strict=True):
            likelihood *= of(int(target))[label]
        best = likelihood >= likelihood.max() * (1 - 1e-9)
        hits += best[target] / best.sum()
    return float(hits / len(targets))


def blocks_note(linked: float) -> str:
    """Return a sentence on `linked_across_blocks`."""
    return (
        f"the blocks are drawn apart: an attacker who knows a record and all centres, and combines the blocks, finds "
        f"its row in {100 * linked:.3g} % of cases; k holds within each block alone"
    )


def variances_kept(before: Microdata, after: Microdata, k: int) -> dict[str, float]:
    """Return the share of each number's variance that a release keeps between its tails; see `corrected_covariance`.

    Parameters
    ----------
    before, after : Microdata, N records of the source and of the release in the same order
    k : units of a group

    Returns
    -------
    dict of float, to 0.001 and at most 1
        Variances are of the values in which those beyond the 20th unit from either end, or the k-th if k is larger,
        are replaced by that unit's, in source and release alike. From the share of all values an attacker would compute
        the value of a unit that dominates the squares. Without ten times as many units a variable has no share.
    """
    kept = {}
    for v in after.schema:
        if v.kind != "continuous" or not v.is_masked:
            continue
        source, released = (one.frame[v.name].to_numpy(dtype=np.float64) for one in (before, after))
        bounds = _tails(source, before.units, max(OUTERMOST, k))
        if bounds is None:
            continue
        within = float(np.nanvar(source.clip(*bounds)))
        if within > 0:
            kept[v.name] = round(min(float(np.nanvar(released.clip(*bounds))) / within, 1.0), 3)
    return {name: share for name, share in kept.items() if share > 0}


def _tails(values: np.ndarray, units: np.ndarray | None, rank: int) -> tuple[float, float] | None:
    """Return the values beyond which ``rank`` units lie at either end; None with less than ten times as many units."""
    known = ~np.isnan(values)
    outermost = pd.Series(values[known]).groupby(unit_codes(units, len(values))[known])
    lowest, highest = (np.sort(one.to_numpy()) for one in (outermost.min(), outermost.max()))
    return (float(lowest[rank - 1]), float(highest[-rank])) if len(lowest) >= 10 * rank else None


def corrected_covariance(covariance: pd.DataFrame, kept: Mapping[str, float]) -> pd.DataFrame:
    """Estimate the covariances of the source from those of a release of group means.

    Parameters
    ----------
    covariance : (n, n) of the release, rows and columns named by variable
    kept : share of each variable's variance that the release keeps, as its notes state; they state none of variables
        with few units

    Returns
    -------
    DataFrame (n, n)
        C_ij / √(kept_i kept_j): variances about as the source has them, less so where its tails lose more or less than
        the rest; covariances as if numbers went together within groups as they do between them.

    Notes
    -----
    Source: the law of total covariance; the pooled covariance within groups, which is not published, is taken to have
    the correlations of the group means.

    Examples
    --------
    >>> released = pd.DataFrame([[0.9, 0.3], [0.3, 0.4]], ["x", "y"], ["x", "y"])
    >>> corrected_covariance(released, {"x": 0.9, "y": 0.4}).round(3).to_numpy().tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    shrink = np.sqrt([kept[str(name)] for name in covariance.columns])
    return covariance.div(shrink, axis=0).div(shrink, axis=1)


def variances_note(kept: Mapping[str, float]) -> tuple[str, ...]:
    """Return a sentence on `variances_kept`; nothing without numbers."""
    if not kept:
        return ()
    shares = ", ".join(f"{name} {share:g}" for name, share in kept.items())
    return (
        f"share of the variance kept, without the tails: {shares}; a released variance divided by it, and a covariance "
        "divided by the root of both shares, are about the source's",
    )


def without(schema: Schema, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables of a schema other than ``names``."""
    return tuple(n for n in schema.names if n not in names)


def unmixed_problems(schema: Schema, names: tuple[str, ...], edits: EditSet) -> list[str]:
    """Return what is wrong with variables ``names`` whose levels groups of records must not mix."""
    if wrong := sorted(n for n in names if n not in schema or not (schema[n].is_masked and schema[n].is_categorical)):
        return [f"within: {', '.join(wrong)} is no variable with levels that is released"]
    if not set(schema.masked) - set(names):
        return ["within lists every variable, so that none is left to mask"]
    known = [e for e in edits.within(schema.masked).edits if e not in edits.dependents]
    tied = [e.name for e in known if set(names) & set(e.variables) and set(e.variables) - set(names)]
    if tied:
        return [f"within: edit(s) {', '.join(tied)} tie these variables to others, which masking would break"]
    return []


def unmixed_strata(data: Microdata, names: tuple[str, ...], k: int) -> np.ndarray:
    """Return (N,) int: the combination of levels of ``names`` that each record has, missing values being one.

    Raises
    ------
    InfeasibleError
        When combinations have fewer than k statistical units.
    """
    if not names:
        return np.zeros(len(data), dtype=np.intp)
    codes = pd.DataFrame({n: data.frame[n].cat.codes.to_numpy() for n in names})
    strata = codes.groupby(list(names), sort=True).ngroup().to_numpy()
    units = np.arange(len(data)) if data.units is None else data.units
    held = np.unique(np.column_stack([strata, units]), axis=0)[:, 0]
    if few := int((np.bincount(held) < k).sum()):
        raise InfeasibleError(
            f"within: {few} combination(s) of levels of {', '.join(names)} have fewer than k = {k} statistical units; "
            "merge levels, lower k, or set those records aside"
        )
    return strata


def units_note(data: Microdata, k: int) -> tuple[str, ...]:
    """Return what a reader must know of groups where units have several records."""
    if data.units is None or data.n_units == len(data):
        return ()
    return (f"groups of fewer than {k} statistical units were joined with the nearest, so that groups are larger",)


def blocks(data: Microdata, names: tuple[tuple[str, ...], ...], edits: EditSet) -> Iterator[Block]:
    """Yield the blocks of variables ``names``, and the variables in none of them as one more.

    Parameters
    ----------
    data : Microdata, N records
    names : variables of each block; empty for all in one
    edits : EditSet; those that name variables the data lack are left out

    Raises
    ------
    AnonymizationError
        When a name is unknown or stands twice, or an edit spans blocks.
    InfeasibleError
        When edits contradict each other; it names them.
    """
    if problems := block_problems(data.schema, names, edits):
        raise AnonymizationError("\n".join(problems))
    edits = edits.within(data.schema.masked)
    if conflict := edits.conflict():
        raise InfeasibleError(f"no record can satisfy these edits together: {', '.join(conflict)}")
    for part in _parts(data.schema, names):
        yield _block(data.select(part), edits.within(part))


def block_problems(schema: Schema, names: tuple[tuple[str, ...], ...], edits: EditSet) -> list[str]:
    """Return what is wrong with blocks of variables, one sentence each; as for `blocks`.

    What an edit computes after masking is in no block: its parts are.
    """
    computed = {str(e.dependent) for e in edits.dependents}
    stated = [n for block in names for n in block if n not in computed]
    unknown = sorted(set(stated) - set(schema.masked))
    twice = sorted({n for n in stated if stated.count(n) > 1})
    problems = [
        f"blocks: {', '.join(wrong)} {what}; every variable that is released stands in one block"
        for wrong, what in ((unknown, "is not released"), (twice, "stands in more than one"))
        if wrong
    ]
    parts = [set(part) for part in _parts(schema, names)]
    spanning = []
    for edit in edits.edits:
        if edit in edits.dependents:
            continue
        # An edit about a computed variable is one about its parts, which repair would move one by one.
        read = _parts_of(set(edit.variables), edits) & set(schema.masked)
        if not any(read <= part for part in parts):
            spanning.append(edit.name)
    if spanning:
        problems.append(
            f"blocks: the variables of edit(s) {', '.join(spanning)} stand in different blocks; put those of "
            "one edit together"
        )
    return problems


def _parts_of(variables: set[str], edits: EditSet) -> set[str]:
    """Return the variables with computed ones replaced by what they are computed from."""
    for edit in reversed(edits.dependents):
        if edit.dependent in variables:
            variables = (variables | set(edit.parts)) - {str(edit.dependent)}
    return variables


def _parts(schema: Schema, names: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """Return the blocks in the order of the schema, and what stands in none as the last."""
    stated = {n for block in names for n in block}
    rest = set(schema.masked) - stated
    parts = [tuple(n for n in schema.masked if n in block) for block in (*names, rest)]
    return [part for part in parts if part]


def _block(data: Microdata, edits: EditSet) -> Block:
    encoder = Encoder.fit(data, numeric="linear")
    matrix = encoder.encode(data)
    if not encoder.width:
        # One column in which all are alike: without any there would be nothing to group by.
        matrix = np.zeros((len(data), 1))
    return Block(data, edits, encoder, matrix, constraint(encoder, _always_binding(edits, data)))


def _always_binding(edits: EditSet, data: Microdata) -> EditSet:
    """Return the edits without the ratios whose denominator may be below 0, where they do not apply."""
    lower, _ = edits.bounds(data.schema.names)
    lowest = dict(zip(data.schema.names, lower, strict=True))
    return EditSet(
        e
        for e in edits.edits
        if not isinstance(e, RatioEdit)
        or lowest[e.denominator] >= 0
        or not (numbers(data.frame[e.denominator]) < 0).any()
    )


def constraint(encoder: Encoder, edits: EditSet) -> Constrain | None:
    """Return what makes centres satisfy the edits among continuous variables, those under conditions too.

    Parameters
    ----------
    encoder : Encoder, fitted with ``numeric="linear"``
    edits : EditSet; those about variables with levels, and under conditions on values that are missing anywhere, are
        left to repair

    Returns
    -------
    Function from (c, m) centres to the nearest (c, m) that satisfy them (of several edits under conditions, to near
    ones: `project_by_rules`), or None without such edits.
    The distance is that of the encoded space, which is W = diag(1/sd²) in original units.
    """
    fitted = {b.variable.name: b for b in encoder.blocks if b.variable.kind == "continuous"}
    binding = edits.within(fitted)
    names = [n for n in fitted if any(n in e.variables for e in binding.edits)]
    A, b = binding.equalities(names)
    G, h = binding.inequalities(names)
    lower, upper = binding.bounds(names)
    present = [n for n in names if fitted[n].indicator is None]
    units = {n: fitted[n].variable.precision or UNIT * fitted[n].scale for n in present}
    rules = implications(binding.within(present), names, units)
    if not (rules or len(A) or len(G) or np.isfinite(lower).any() or np.isfinite(upper).any()):
        return None
    columns = [fitted[n].start for n in names]
    location = np.array([fitted[n].location for n in names])
    scale = np.array([fitted[n].scale for n in names])

    polytope = Polytope(A, b, lower, upper, G, h)

    def constrain(centres: np.ndarray) -> np.ndarray:
        values = project_by_rules(centres[:, columns] * scale + location, polytope, rules, scale)
        constrained = centres.copy()
        constrained[:, columns] = (values - location) / scale
        return constrained

    return constrain


def joined(parts: list[Microdata], schema: Schema) -> Microdata:
    """Return blocks of variables as one table, in the order of ``schema``."""
    variables = {v.name: v for part in parts for v in part.schema}
    names = [n for n in schema.names if n in variables]
    frame = pd.concat([part.frame for part in parts], axis=1)[names]
    return Microdata.trusted(frame, Schema(variables[n] for n in names))
