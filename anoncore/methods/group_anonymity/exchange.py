"""Exchange members of a group with other records: areas, or what makes a member; populations and edits are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from anoncore.edits.model import EditSet
from anoncore.errors import InfeasibleError
from anoncore.kernels.streams import Stream
from anoncore.kernels.wavelet.redistribution import round_to_total
from anoncore.kernels.wavelet.relocation import Moves, combined, net_flows
from anoncore.methods.group_anonymity.pool import (
    Counterparts,
    Exchange,
    places,
    tallies,
    with_values_from,
)
from anoncore.microdata import Microdata, Schema
from anoncore.risk.group_masking import Group, Hidden

SETTLED = 3  # exchanges in an area, at most, for less than a record's weight
WEIGHTED_ROUNDS = 10  # of exchanges, each for what weights leave beside the target


def exchanged(data: Microdata, exchange: Exchange) -> tuple[Microdata, Moves]:
    """Carry an exchange out on microdata: in a pool, which grows where some find no place in it.

    Raises
    ------
    InfeasibleError
        When too few records can move, or an edit or a kept group would be broken; or when some find no place in the
        largest pool.
    """
    frame, needed, everyone = data.frame, data.select(exchange.names(data.schema)), True
    if exchange.takes_all(data.schema):
        rows = np.flatnonzero(places(exchange.group, frame) < len(exchange.flows))
        result = exchange.within(needed.take(rows))
    else:
        for shares in exchange.shares(tallies(exchange.group, frame)):
            rows, everyone = exchange.drawn(frame, 0, shares), exchange.covers(shares)
            result = exchange.within(needed.take(rows))
            if result.is_complete:
                break
    exchange.check(result, in_households=exchange.in_households(data.schema), everyone=everyone)
    source = np.arange(len(frame))
    source[rows] = rows[result.source]
    return Microdata.trusted(with_values_from(frame, exchange.swapped, source), data.schema, data.units), result.moves


def exchanged_to(
    data: Microdata,
    group: Group,
    target: np.ndarray,
    counterparts: Counterparts,
    edits: EditSet,
    stream: Stream,
) -> tuple[Microdata, Moves]:
    """Exchange members until the counts (m,) are the target, sums of weights as near as whole records come.

    A weight stays in its area, and a counterpart has the nearest one. What is beside the target is exchanged once more,
    as long as it is a record's weight; then members exchange weights with others of their own area.
    """
    own = edits.within(data.schema.masked)
    if group.weight is None:
        flows = net_flows(group.counts(data.frame), target, counterparts.distances)
        return exchanged(data, Exchange(group, flows, counterparts, own, stream))
    rounds: list[Moves] = []
    for number in range(WEIGHTED_ROUNDS):
        counts = group.counts(data.frame)
        gap = counts - target * (counts.sum() / target.sum())
        wanted = gap / _mean_weight(data, group)
        records = round_to_total(wanted, 0, low=np.floor(wanted) - 1)
        if rounds and not records.any():
            break
        flows = net_flows(np.maximum(records, 0), np.maximum(-records, 0), counterparts.distances)
        data, moves = exchanged(data, Exchange(group, flows, counterparts, own, stream.named(number)))
        rounds.append(moves)
    settled = _settled(data, group, target, counterparts.swapped, own)
    return Microdata.trusted(settled, data.schema), combined(rounds)


def _settled(
    data: Microdata, group: Group, target: np.ndarray, swapped: tuple[str, ...], edits: EditSet
) -> pd.DataFrame:
    """Return the frame after members exchanged with others of their area whose weights differ by what is missing."""
    frame, area = data.frame, group.areas(data.frame)
    sound = edits.satisfied(frame)
    for place in range(len(target)):
        rows = np.flatnonzero(area == place)
        for _ in range(SETTLED):
            part = frame.iloc[rows]
            member, weight = group.members(part), group.weights(part)
            pair = _nearest_pair(weight, member, target[place] - weight[member].sum())
            if pair is None:
                break
            source = np.arange(len(frame))
            source[rows[pair]] = rows[pair[:, ::-1]]
            tried = with_values_from(frame, swapped, source)
            if (sound & ~edits.satisfied(tried)).any():
                break
            frame = tried
    return frame


def _nearest_pair(weight: np.ndarray, member: np.ndarray, gap: float) -> np.ndarray | None:
    """Return (1, 2) the member and the other whose weights differ most nearly by the gap; None where 0 is nearer."""
    inside, outside = np.flatnonzero(member), np.flatnonzero(~member)
    if not len(inside) or not len(outside):
        return None
    outside = outside[np.argsort(weight[outside], kind="stable")]
    at = np.searchsorted(weight[outside], weight[inside] + gap)
    near = np.clip(np.stack([at - 1, at]), 0, len(outside) - 1)
    off = np.abs(weight[outside[near]] - weight[inside] - gap)
    side, which = np.unravel_index(int(off.argmin()), off.shape)
    if off[side, which] >= abs(gap) * (1 - 1e-9):
        return None
    return np.array([[inside[which], outside[near[side, which]]]])


def _mean_weight(data: Microdata, group: Group) -> float:
    return float(group.weights(data.frame)[group.members(data.frame) & (group.areas(data.frame) >= 0)].mean())


def populations(group: Group, frame: pd.DataFrame) -> np.ndarray:
    """Return (m,) int: the records in each area; float, their weights, where these are counted."""
    return group.totals(frame, np.ones(len(frame), dtype=bool))


def with_claimed_counts(
    data: Microdata, hidden: Hidden, counterparts: Counterparts, edits: EditSet, stream: Stream
) -> Microdata:
    """Move masked records once more, so that the group's counts are the claimed ones after later steps too.

    The counts of its kept groups stay as they are.

    Raises
    ------
    InfeasibleError
        When later steps have changed the size of the group, or too few records can move.
    """
    check_countable(hidden.group, data.schema)
    counted = tallies(hidden.group, data.frame)
    exchange = exchange_back(hidden, counted, counterparts, data.schema, edits, stream)
    return data if exchange is None else exchanged(data, exchange)[0]


def check_countable(group: Group, schema: Schema) -> None:
    """Raise InfeasibleError where a group's counts cannot be restored.

    That is where it is no longer released, or sums of weights are counted.
    """
    if group.weight is not None:
        raise InfeasibleError(
            "a later step has changed weighted counts of the group, which whole records cannot restore exactly; make "
            "group-anonymity the last step"
        )
    if lost := sorted({n for n in (group.parameter, *group.variables) if n not in schema}):
        raise InfeasibleError(
            f"a later step does not release {', '.join(lost)}, by which the group is counted; make "
            "group-anonymity the last step"
        )


def exchange_back(
    hidden: Hidden, counted: np.ndarray, counterparts: Counterparts, schema: Schema, edits: EditSet, stream: Stream
) -> Exchange | None:
    """Return the exchange by which `tallies` become the claimed counts; None where they are.

    Counterparts resemble members in what is still released.

    Raises
    ------
    InfeasibleError
        When later steps have changed the size of the group.
    """
    m, counts, distances = len(hidden.group.order), counted[1], counterparts.distances
    outside, unknown = counted[:, m:].sum(axis=0).tolist()
    # What later steps carried out of the areas is taken back first from other areas, then from no known one.
    rest = int(counts.sum() - hidden.target.sum())
    kept = min(max(rest, 0), int(counts[m + 1])) if outside else rest
    target = np.append(hidden.target, [rest - kept, kept])
    if np.array_equal(counts, target):
        return None
    if rest < 0 or target[m] > outside or target[m + 1] > unknown:
        raise InfeasibleError(
            "a later step has changed the size of the group, so that its counts cannot be the chosen ones; "
            "let that step keep the number of records at every level (swapping does), or, in memory, make "
            "group-anonymity the last step"
        )
    if distances is not None:  # elsewhere, and no known area, are farther than any area
        distances = np.pad(distances, (0, 2), constant_values=distances.max() + 1)
    flows = net_flows(counts, target, distances)
    match_on = tuple(n for n in hidden.match_on if n in hidden.group.others(schema))
    own = edits.within(schema.masked)
    return Exchange(hidden.group, flows, replace(counterparts, match_on=match_on), own, stream)
