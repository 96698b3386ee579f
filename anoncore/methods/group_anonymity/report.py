"""What is published about the move of a group, and what is for the custodian alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anoncore.encoding import Encoder
from anoncore.encoding.moments import Moments, linear_encoder
from anoncore.kernels.wavelet.redistribution import Redistribution
from anoncore.kernels.wavelet.relocation import Moves, mean_shift_bound
from anoncore.microdata import Microdata, Schema
from anoncore.risk.group_masking import Group, Hidden


@dataclass(frozen=True, eq=False, repr=False)
class Changes:
    """What a move changed, in sums over records.

    Parameters
    ----------
    changed : records whose area, or whether they are members, is another
    relocated : records whose area is another
    counts : (m,) the group after the move
    before, after : (m,) the totals of all records
    heads : (m,) int, the records after
    shifts : (m, t) sums of the other variables, encoded, of records that came, less those of records that left
    """

    changed: int
    relocated: int
    counts: np.ndarray
    before: np.ndarray
    after: np.ndarray
    heads: np.ndarray
    shifts: np.ndarray

    @classmethod
    def of(cls, before: Microdata, after: Microdata, group: Group, encoder: Encoder) -> Changes:
        """Compare a part of the records with what the move made of them."""
        home, away, m = group.areas(before.frame), group.areas(after.frame), len(group.order)
        vital = group.members(before.frame), group.members(after.frame)
        moved = np.flatnonzero(home != away)
        x = encoder.encode(before.take(moved))
        shifts = [
            np.bincount(away[moved], x[:, j], m) - np.bincount(home[moved], x[:, j], m) for j in range(x.shape[1])
        ]
        everyone = np.ones(len(before), dtype=bool)
        return cls(
            changed=int(((home != away) | (vital[0] != vital[1])).sum()),
            relocated=len(moved),
            counts=group.totals(after.frame, vital[1]),
            before=group.totals(before.frame, everyone),
            after=group.totals(after.frame, everyone),
            heads=np.bincount(away[away >= 0], minlength=m),
            shifts=np.column_stack([np.zeros(m), *shifts]),
        )

    @classmethod
    def summed(cls, parts: Sequence[Changes]) -> Changes:
        """Return the changes of all parts of the records."""
        return cls(*(sum(values[1:], values[0]) for values in zip(*(vars(one).values() for one in parts), strict=True)))

    @property
    def mean_shift(self) -> np.ndarray:
        """By how much the mean of each other variable has changed in each area, (m, t), in standard deviations."""
        return self.shifts / np.maximum(self.heads, 1)[:, None]


def others_in_areas(group: Group, data: Microdata) -> dict[str, Moments]:
    """Return the moments of the variables of `others_of` of those records that are in the areas."""
    inside = data.take(np.flatnonzero(group.areas(data.frame) >= 0))
    return {name: Moments.of(inside, name) for name in others_of(group, data.schema)}


def others_of(group: Group, schema: Schema) -> list[str]:
    """Return the variables whose means a move shifts."""
    return [name for name in group.others(schema) if name != group.weight]


def figures_of(
    before: Microdata, after: Microdata, hidden: Hidden, chosen: Redistribution, moves: Moves
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return the published figures of the move, counted in the two files, and those for the custodian alone."""
    group, schema = hidden.group, before.schema
    # One scale for all areas in order; only records that moved count in the sums.
    encoder = linear_encoder(schema, others_in_areas(group, before))
    changes = Changes.of(before, after, group, encoder)
    figures, exact = figures_from(changes, hidden, chosen, moves)
    if schema.with_role("household") and changes.relocated:
        figures |= {"households_split": _split(before, group.areas(before.frame), group.areas(after.frame))}
    return figures, exact


def figures_from(
    changes: Changes, hidden: Hidden, chosen: Redistribution, moves: Moves
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return the published figures of the move, and those for the custodian alone.

    How many records moved shows what a capped area has lost, so it is published as a power of ten. No means
    of single areas are published; the largest shift is rounded up.
    """
    share, shift = changes.changed / max(changes.heads.sum(), 1), changes.mean_shift
    figures = {
        "details_kept": _two_digits(chosen.beta),
        "counts_off": int((~np.isclose(changes.counts, hidden.target, rtol=1e-9)).sum()),
        "populations_off": int((~np.isclose(changes.before, changes.after, rtol=1e-9)).sum()),
        "records_moved_at_most": float(f"{10.0 ** np.ceil(np.log10(share)):.0e}") if share else 0.0,
        "largest_mean_shift_at_most": _rounded_up(float(np.abs(shift).max(initial=0.0))),
        "cost_per_record": _two_digits(moves.cost / max(changes.changed / 2, 1)),
        "goals_unmet": len(chosen.unmet),
    }
    exact = {
        "exact_share": np.array(chosen.beta),
        "agreement": np.array(chosen.agreement),
        "group_moved": np.array(chosen.moved),
        "records_moved": np.array(changes.changed),
        "units_moved": np.array(moves.moved_units),
        "mean_shift": shift,
        "mean_shift_bound": mean_shift_bound(moves, changes.heads),
        "flows": moves.flow_members,
    }
    return figures, exact


def _split(data: Microdata, home: np.ndarray, away: np.ndarray) -> int:
    """Return how many households that were in one area are in two."""
    names = list(data.schema.with_role("household"))
    frame = data.frame[names].assign(home=home, away=away)
    moved = frame.loc[home != away, names].dropna().drop_duplicates()
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
        f"{group.parameter}; at most {moved:.4g} % of the records there moved, and the step leaves "
        "every area its population",
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
