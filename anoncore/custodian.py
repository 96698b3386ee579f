"""A report for the custodian alone: text, charts and tables as values, without layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, repr=False)
class Mark:
    """A short judgement: good or not, in words."""

    good: bool
    text: str


Cell: TypeAlias = str | int | Mark | None


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of cells; ``numeric`` names the columns that hold numbers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class BarChart:
    """Two values of each of m areas, before and after, with what was asked for.

    Parameters
    ----------
    description : the chart in one sentence, for readers who cannot see it
    unit : of the values
    names : of the areas
    before, after : (m,) float64
    at_most, at_least : limits by position of the area
    """

    description: str
    unit: str
    names: tuple[str, ...]
    before: np.ndarray
    after: np.ndarray
    at_most: Mapping[int, float] = field(default_factory=dict)
    at_least: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class LineChart:
    """Panels of two lines over m areas; each panel is a title with (m,) values before and after."""

    description: str
    names: tuple[str, ...]
    panels: tuple[tuple[str, np.ndarray, np.ndarray], ...]


@dataclass(frozen=True, eq=False, repr=False)
class FlowChart:
    """How many members went from which area (row) to which (column): (m, m) int."""

    description: str
    names: tuple[str, ...]
    counts: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class TradeOffPanel:
    """Trials as points.

    Parameters
    ----------
    title : of the panel
    points : (t, 2) float64
    good : (t,) bool
    own : (s, 2) float64, the trials that differ from the release in one setting, joined by a line
    released : the release's own point, where it belongs to the panel
    """

    title: str
    points: np.ndarray
    good: np.ndarray
    own: np.ndarray
    released: tuple[float, float] | None


@dataclass(frozen=True, eq=False, repr=False)
class TradeOffChart:
    """What is gained against what it costs, by trial; ``good`` and ``bad`` say what the marks mean."""

    description: str
    gain: str
    cost: str
    good: str
    bad: str
    panels: tuple[TradeOffPanel, ...]


Chart: TypeAlias = BarChart | LineChart | FlowChart | TradeOffChart


@dataclass(frozen=True, eq=False, repr=False)
class Section:
    """A part of the report: a heading, text, a chart with its caption, and tables."""

    heading: str
    text: str = ""
    chart: Chart | None = None
    caption: str = ""
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class CustodianReport:
    """What a step shows to the custodian alone. Confidential as a whole.

    Parameters
    ----------
    warning : what the report shows that the release hides
    title : of the report
    introduction : the step's settings
    sections : in their order
    """

    warning: str
    title: str
    introduction: str
    sections: tuple[Section, ...]
