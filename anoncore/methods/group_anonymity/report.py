"""What is published about the move of a group, and what is for the custodian alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anoncore.encoding import Encoder
from anoncore.kernels.wavelet import relocation
from anoncore.kernels.wavelet.redistribution import Redistribution
from anoncore.microdata import Microdata
from anoncore.risk.group_masking import Group, Hidden


def figures_of(
    before: Microdata, after: Microdata, hidden: Hidden, chosen: Redistribution, moved: relocation.Moves
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return the published figures of the move, counted in the two files, and those for the custodian alone.

    How many records moved shows what a capped area has lost, so it is published as a power of ten. No means
    of single areas are published; the largest shift is rounded up.
    """
    group, m = hidden.group, len(hidden.group.order)
    home, away = group.areas(before.frame), group.areas(after.frame)
    members = group.members(before.frame), group.members(after.frame)
    changed = np.flatnonzero((home != away) | (members[0] != members[1]))
    heads = np.bincount(away[away >= 0], minlength=m)
    shift = _mean_shift(before, group, home, away, heads)
    share = len(changed) / max(heads.sum(), 1)
    was, now = (group.totals(one.frame, np.ones(len(one), dtype=bool)) for one in (before, after))
    figures = {
        "details_kept": _two_digits(chosen.beta),
        "counts_off": int((~np.isclose(group.counts(after.frame), hidden.target, rtol=1e-9)).sum()),
        "populations_off": int((~np.isclose(was, now, rtol=1e-9)).sum()),
        "records_moved_at_most": float(f"{10.0 ** np.ceil(np.log10(share)):.0e}") if share else 0.0,
        "largest_mean_shift_at_most": _rounded_up(float(np.abs(shift).max(initial=0.0))),
        "cost_per_record": _two_digits(moved.cost / max(len(changed) / 2, 1)),
        "goals_unmet": len(chosen.unmet),
    }
    if before.schema.with_role("household") and (home != away).any():
        figures |= {"households_split": _split(before, home, away, changed)}
    exact = {
        "exact_share": np.array(chosen.beta),
        "agreement": np.array(chosen.agreement),
        "group_moved": np.array(chosen.moved),
        "records_moved": np.array(len(changed)),
        "units_moved": np.array(moved.moved_units),
        "mean_shift": shift,
        "mean_shift_bound": relocation.mean_shift_bound(moved, heads),
        "flows": moved.flow_members,
    }
    return figures, exact


def _mean_shift(
    data: Microdata,
    group: Group,
    home: np.ndarray,
    away: np.ndarray,
    population: np.ndarray,
) -> np.ndarray:
    """Return (m, t): by how much the mean of each other variable has changed in each area of (m,) records."""
    names, m, changed = group.others(data.schema), len(population), np.flatnonzero(home != away)
    names = [name for name in names if name != group.weight]
    if not names or not len(changed):
        return np.zeros((m, 1))
    # One scale for all areas in order; only records that moved count in the sums.
    encoder = Encoder.fit(data.take(np.flatnonzero(home >= 0)).select(names), numeric="linear")
    x = encoder.encode(data.take(changed).select(names))
    sums = [np.bincount(away[changed], x[:, j], m) - np.bincount(home[changed], x[:, j], m) for j in range(x.shape[1])]
    return np.column_stack([np.zeros(m), *sums]) / np.maximum(population, 1)[:, None]


def _split(data: Microdata, home: np.ndarray, away: np.ndarray, changed: np.ndarray) -> int:
    """Return how many households that were in one area are in two."""
    names = list(data.schema.with_role("household"))
    frame = data.frame[names].assign(home=home, away=away)
    moved = frame.iloc[changed][names].dropna().drop_duplicates()
    members = frame.merge(moved, on=names)
    areas = members.groupby(names, observed=True)[["home", "away"]].nunique()
    return int(((areas["home"] == 1) & (areas["away"] > 1)).sum())


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def _rounded_up(value: float) -> float:
    """Return the next of 1, 2, 5 × 10ⁿ."""
    if value <= 0:
        return 0.0
    scale = 10.0 ** np.floor(np.log10(value))
    return float(f"{next(s * scale for s in (1, 2, 5, 10) if s * scale >= value * (1 - 1e-12)):.0e}")


def notes_of(
    hidden: Hidden, figures: Mapping[str, float], swapped: tuple[str, ...], *, in_households: bool
) -> tuple[str, ...]:
    """Return sentences on what was done; the counts before are hidden, and are in none of them."""
    group, names = hidden.group, ", ".join(swapped)
    how = f"exchanged {names}"
    if group.parameter in swapped:
        how = f"changed places ({names}), {'with their households' if in_households else 'one by one'},"
    moved, shift = 100 * figures["records_moved_at_most"], figures["largest_mean_shift_at_most"]
    notes = [
        f"members of a group {how} with people outside it in {len(group.order)} areas of "
        f"{group.parameter}; at most {moved:.4g} % of the records there moved, and every area keeps its "
        "population",
        "the group's counts per area are not the true ones: of the size of their "
        f"{hidden.details} wavelet details ({hidden.model.wavelet}, {hidden.model.level} level(s)) "
        f"{figures['details_kept']:.2g} is kept; no mean of another variable in an area shifted by more than "
        f"{shift:g} standard deviations (levels count as -1 and 1)",
        "no single record is protected by this step: each is as it was, apart from what was exchanged",
    ]
    if group.weight is not None:
        notes.append(f"counts are sums of {group.weight}, which every area keeps; goals hold up to a record's weight")
    if figures["goals_unmet"]:
        notes.append(f"{figures['goals_unmet']:.0f} goal(s) are missed, as the paper's route does not consider them")
    return tuple(notes)
