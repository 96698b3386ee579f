"""Which levels, or missing values, of one or two units of the source a release names, in whatever form it has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from anoncore.boxes.columns import levels_in_sets
from anoncore.encoding.scores import probability_names
from anoncore.microdata import Microdata, Variable
from anoncore.parameters import FEWEST_HOLDERS


def rare_levels_named(
    original: Microdata, measured: Microdata, released: Microdata, *, rows_linked: bool = False
) -> tuple[str, ...]:
    """Name the variables that release a level, or lack a value, as one or two units of the original do.

    Where it is known which row is whose, so do variables that are missing together.

    Parameters
    ----------
    original : Microdata, in the levels of the release
    measured : Microdata, the released records as single values
    released : Microdata, the same as they are published: levels in sets, or in the names of columns
    rows_linked : whether rows of the release stem from the records of the original with their index
    """
    names = [v.name for v in measured.schema if v.is_masked and v.name in original.schema]
    together = missing_together(original, measured, names) if rows_linked else set()
    return tuple(
        v.name
        for v in original.schema
        if v.is_masked and (v.name in together or _holds_rare(v, original, measured, released))
    )


def missing_together(original: Microdata, released: Microdata, names: list[str]) -> set[str]:
    """Name the variables whose missing values, taken together, are those of one or two units and of their own rows.

    None where most units with such missing values have rows with others, so that single ones are as by chance.
    """
    gaps, rows = (table.frame[names].isna().to_numpy() for table in (original, released))
    pattern = np.unique(gaps, axis=0, return_inverse=True)[1].ravel()
    held = np.unique(np.column_stack([pattern, original.unit_codes]), axis=0)[:, 0]
    own = released.frame.index.get_indexer(original.frame.index)
    rare = (np.bincount(held)[pattern] < FEWEST_HOLDERS) & gaps.any(axis=1) & (own >= 0)
    kept = rare & (rows[own] == gaps).all(axis=1)
    most = 2 * kept.sum() >= rare.sum()
    return {name for name, missing in zip(names, gaps[kept].any(axis=0), strict=True) if missing and most}


def levels_named(variable: Variable, columns: Iterable[str], texts: Iterable[object]) -> tuple[set[str], bool]:
    """Return the levels of a variable of the source that a release names, and whether it has a missing value in sets.

    Parameters
    ----------
    variable : of the source
    columns : of the release, of which some may be named after levels whose probabilities they hold
    texts : what the release holds in the column of the variable: levels, or sets of them
    """
    levels, missing = levels_in_sets(texts, variable)
    there = set(columns)
    by_column = zip(variable.levels or (), probability_names(variable), strict=True)
    return levels | {str(level) for level, column in by_column if column in there}, missing


def names_rare(
    variable: Variable,
    columns: Iterable[str],
    texts: Iterable[object],
    *,
    lacks: bool,
    holders: Mapping[Any, int],
    missing: int,
) -> bool:
    """Return whether a level, or a missing value, is released that one or two units of the source hold.

    Parameters
    ----------
    variable, columns, texts : as for `levels_named`
    lacks : whether released records lack the variable
    holders, missing : units of the source that hold each level, and that lack the variable
    """
    levels, in_sets = levels_named(variable, columns, texts) if variable.is_categorical else (set[str](), False)
    if (lacks or in_sets) and 0 < missing < FEWEST_HOLDERS:
        return True
    return any(0 < count < FEWEST_HOLDERS and str(level) in levels for level, count in holders.items())


def _holds_rare(variable: Variable, original: Microdata, measured: Microdata, released: Microdata) -> bool:
    name = variable.name
    shown = released if variable.is_categorical and name in released.frame else measured
    lacking = original.unit_codes[original.frame[name].isna().to_numpy()]
    return names_rare(
        variable,
        released.schema.names,
        released.frame[name].dropna().unique() if variable.is_categorical and name in released.frame else (),
        lacks=name in shown.frame and bool(shown.frame[name].isna().any()),
        holders=original.level_units(name) if variable.is_categorical else {},
        missing=len(np.unique(lacking)),
    )
