"""Numbers that a release may hold in place of the source's, and their assignment by rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from anoncore.kernels.ranks import match_ranks
from anoncore.kernels.smoothed_values import recommended_reach, smoothed_values
from anoncore.microdata import Microdata, Variable, outer_limits, round_to


def drawn_numbers(data: Microdata, names: Iterable[str], *, k: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw the numbers of a release near the source's: none reveals which person it comes from.

    Parameters
    ----------
    data : Microdata, N records
    names : variables; those that are not continuous are left out
    k : int
        Numbers that at least so many statistical units hold, and as many as ranks are averaged over, are kept as
        they are.
    rng : numpy Generator

    Returns
    -------
    mapping of variable to (m,) float64, as many as the source has numbers, rounded to its precision. A number that
    fewer than k records hold occurs no more often than by chance; where at most k hold any that is not a spike, and
    there is no spike, all are NaN.
    """
    variables = [data.schema[n] for n in names if n in data.schema and data.schema[n].kind == "continuous"]
    drawn = {}
    for variable in variables:
        column = data.frame[variable.name].to_numpy()
        order = np.argsort(column, kind="stable")[: int((~np.isnan(column)).sum())]
        if len(order):
            drawn[variable.name] = drawn_in_order(data, variable, order, n_variables=len(variables), k=k, rng=rng)
    return drawn


def drawn_in_order(
    data: Microdata, variable: Variable, order: np.ndarray, *, n_variables: int, k: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the numbers of a variable near the source's, as `drawn_numbers` does.

    Parameters
    ----------
    order : (m,) int, at least 1
        The records that have a number, in ascending order of it.
    n_variables : int
        Variables whose numbers are drawn.

    Returns
    -------
    (m,) float64, nearly ascending
    """
    reach = max(recommended_reach(len(order), n_variables), k)
    units = None if data.units is None else data.units[order]
    ordered = data.frame[variable.name].to_numpy()[order]
    limits = outer_limits(ordered, units)
    drawn = smoothed_values(ordered, reach, k=k, rng=rng, units=units, limits=limits)
    return round_to(drawn, variable.precision) + 0.0  # no −0


def coded_numbers(data: Microdata, names: Iterable[str], tail: int | None) -> dict[str, np.ndarray]:
    """Return the source's own numbers, the ``tail`` smallest and largest replaced by their mean.

    Parameters
    ----------
    data : Microdata, N records
    names : variables; those that are not continuous are left out
    tail : None replaces none

    Returns
    -------
    mapping of variable to (m,) float64
    """
    coded = {}
    for name in names:
        if name not in data.schema or data.schema[name].kind != "continuous":
            continue
        source = np.sort(data.frame[name].dropna().to_numpy())
        if len(source) and tail is not None:
            width = min(tail, len(source))
            source[:width] = source[:width].mean()
            source[-width:] = source[-width:].mean()
            source = round_to(source, data.schema[name].precision)
        coded[name] = source
    return coded


def with_numbers_by_rank(
    masked: Microdata, numbers: Mapping[str, np.ndarray], *, by: Mapping[str, np.ndarray] | None = None
) -> Microdata:
    """Return masked microdata with other numbers, assigned by rank.

    Parameters
    ----------
    masked : Microdata, N records
    numbers : of each variable as many as ``masked`` holds
    by : (N,) scores of variables by which they are ranked; by default their masked numbers
    """
    frame = masked.frame.copy()
    for name, values in numbers.items():
        present = frame[name].notna().to_numpy()
        if present.any():
            column = frame[name].to_numpy(copy=True)
            scores = column if by is None else by[name]
            column[present] = match_ranks(scores[present], values)
            frame[name] = column
    return Microdata(frame, masked.schema)


def drawn_note(k: int) -> str:
    """Return how drawn numbers came about, for the method statement."""
    return (
        "numbers that very many records hold are kept, every other is drawn from averages over the ranks around it, so "
        f"that no number of fewer than {k} people is published but by chance"
    )
