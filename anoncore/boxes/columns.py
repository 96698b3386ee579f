"""Boxes as released columns: the range of every number, the set of levels, one row per record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.boxes.reader import BOX, DISTINCT, HIGH, LOW, MARKS, WEIGHT, read_boxes
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable, round_to
from anoncore.microdata.temporal import SCALE

ABOUT = {
    BOX: "number of the record's box; records of one box are identical, the numbers mean nothing",
    WEIGHT: "how much the record counts in weighted estimates, 1 on average; the same for its whole box",
    LOW: "lower end of the range that holds",
    HIGH: "upper end of the range that holds",
    DISTINCT: "so many values far enough apart, at least, stand in the record's box, of",
}
# A mean weight stated to the last digit would be an equation about the box's people.
WEIGHT_UNIT = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class BoxTable:
    """Which of B boxes each of N records is in, and what is said of every box.

    Parameters
    ----------
    label : (N,) int, 0 … B − 1, every box in use
    lower, upper : (B, n), ends of the ranges in the variables' units; NaN where its records have none
    sizes : (B,) int, records per box
    distinct : (B, n), values ε apart, NaN where there are no values; None when they do not matter
    """

    label: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sizes: np.ndarray
    distinct: np.ndarray | None = None


def taken_names(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return variables with levels whose names would mean something else in a table of boxes.

    Parameters
    ----------
    schema : Schema of the data
    names : variables to be released as ranges
    """
    return [n for n in schema.masked if n not in names and (n in (BOX, WEIGHT) or n.endswith((LOW, HIGH, DISTINCT)))]


def as_ranges(
    data: Microdata,
    names: Sequence[str],
    boxes: BoxTable,
    *,
    weights: np.ndarray | None = None,
    counted: Sequence[str] = (),
    sets: bool = True,
) -> Microdata:
    """Return one row per record that says of its box: number, weight, ranges, and the levels it holds.

    Parameters
    ----------
    data : Microdata, N records, with canonical levels
    names : the n variables whose ranges are released, in the order of the boxes' columns
    boxes : BoxTable
    weights : (B,), of every record of the box, 1 on average, released in units of 0.01; None for no weights
    counted : variables whose distinct values are released
    sets : whether variables with levels become the set of levels in the box, as text parted by a mark that stands in
        no level; else they stay as they are

    Returns
    -------
    Microdata
        In the order of ``data``. Which columns there are, and what they mean, follows from the parameters and the
        schema, not from the records.

    Raises
    ------
    AnonymizationError
        When every mark stands in some level of a variable of which a box holds several.

    Examples
    --------
    >>> data = Microdata(pd.DataFrame({"x": [1.0, 2.0]}), Schema([Variable("x", "continuous")]))
    >>> one = BoxTable(np.array([0, 0]), np.array([[0.0]]), np.array([[5.0]]), np.array([2]))
    >>> as_ranges(data, ["x"], one).frame.columns.tolist()
    ['box', 'x_lo', 'x_hi']
    """
    label = boxes.label
    columns: dict[str, np.ndarray | pd.Series] = {BOX: label.astype("float64")}
    variables = [Variable(BOX, "continuous", precision=1, description=ABOUT[BOX])]
    if weights is not None:
        columns[WEIGHT] = round_to(weights, WEIGHT_UNIT)[label]
        variables.append(
            Variable(WEIGHT, "continuous", role="weight", precision=WEIGHT_UNIT, description=ABOUT[WEIGHT])
        )
    for variable in data.schema:
        if variable.name in names:
            at = list(names).index(variable.name)
            ends = {LOW: boxes.lower, HIGH: boxes.upper}
            if boxes.distinct is not None and variable.name in counted:
                ends[DISTINCT] = boxes.distinct
            for end, values in ends.items():
                made = _described(variable, end)
                columns[made.name] = values[label, at] + 0.0
                variables.append(made)
        elif variable.is_masked:
            column, described = _sets(data, variable, label) if sets else (data.frame[variable.name], variable)
            columns[variable.name] = column
            variables.append(described)
    return Microdata(pd.DataFrame(columns, index=data.frame.index), Schema(variables))


def middles(data: Microdata, names: Sequence[str], boxes: BoxTable) -> Microdata:
    """Return what a reader may take the ranges for: their middle, and a level where a box holds a single one.

    Parameters
    ----------
    data, names, boxes : as for `as_ranges`

    Returns
    -------
    Microdata, N records, with the schema of what is released of ``data``; a level is missing where the box
    holds several.
    """
    frame = data.frame[list(data.schema.masked)].copy()
    centre = (boxes.lower / 2.0 + boxes.upper / 2.0)[boxes.label]
    for at, name in enumerate(names):
        frame[name] = round_to(centre[:, at], data.schema[name].precision)
    for name in data.schema.masked:
        if name not in names:
            single = _held(data, name, boxes.label).sum(axis=1) == 1
            frame[name] = frame[name].where(single[boxes.label])
    return Microdata(frame, data.schema.select(data.schema.masked))


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedBoxes:
    """B boxes as the release gives them.

    Parameters
    ----------
    names : the n variables with ranges
    lower, upper : (B, n)
    sizes : (B,) int
    held : for each variable with levels (B, q + 1) bool, which of its q levels, and last the missing value, a box holds
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    sizes: np.ndarray
    held: dict[str, np.ndarray]


def released_boxes(released: Microdata, levels: Schema) -> ReleasedBoxes:
    """Read back, from the release alone, what `as_ranges` has said.

    Parameters
    ----------
    released : Microdata of ranges
    levels : Schema with the levels of the variables that are released as sets

    Examples
    --------
    >>> frame = pd.DataFrame({"box": [0.0, 0.0], "x_lo": [1.0, 1.0], "x_hi": [2.0, 2.0], "s": ["a|b", "a|b"]})
    >>> kinds = {"box": "continuous", "x_lo": "continuous", "x_hi": "continuous", "s": "nominal"}
    >>> data = Microdata(frame, Schema(Variable(n, k) for n, k in kinds.items()))
    >>> ranges = released_boxes(data, Schema([Variable("s", "nominal", levels=("a", "b", "c"))]))
    >>> ranges.sizes.tolist(), ranges.held["s"].tolist()
    ([2], [[True, True, False, False]])
    """
    read = read_boxes(released.frame)
    first = np.unique(read.codes, return_index=True)[1]
    lower, upper, sizes = read.bounds()
    held = {
        v.name: _parsed(released.frame[v.name].iloc[first], v)
        for v in levels
        if v.is_categorical and v.is_masked and v.name in released.schema
    }
    return ReleasedBoxes(read.variables, lower, upper, sizes, held)


def _described(variable: Variable, end: str) -> Variable:
    about = f" ({variable.description})" if variable.description else ""
    return Variable(
        variable.name + end,
        "continuous",
        role=variable.role,
        description=f"{ABOUT[end]} {variable.name}{about}",
        measured_in=variable.measured_in or SCALE.get(variable.temporal or "", ""),
    )


def _held(data: Microdata, name: str, label: np.ndarray) -> np.ndarray:
    """Return (B, q + 1) bool: the levels, and last the missing value, that stand in each box."""
    held = np.zeros((int(label.max()) + 1, len(data.schema[name].levels or ()) + 1), dtype=bool)
    held[label, data.frame[name].cat.codes.to_numpy()] = True
    return held


def _words(levels: Sequence[object]) -> tuple[str | None, list[str]]:
    """Return the mark that parts the levels of a set, None where each stands in a level, and the words."""
    texts = [str(level) for level in levels]
    mark = next((m for m in MARKS if not any(m in text for text in texts)), None)
    return mark, [*texts, "missing" if "missing" not in texts else "(missing)"]


def _sets(data: Microdata, variable: Variable, label: np.ndarray) -> tuple[pd.Series, Variable]:
    """Return for every record the set of levels in its box, as text."""
    held = _held(data, variable.name, label)
    mark, words = _words(variable.levels or ())
    if mark is None and (held.sum(axis=1) > 1).any():
        raise AnonymizationError(
            f"boxes: the levels of {variable.name!r} hold every one of {' '.join(MARKS)}, one of which must "
            "part the levels of a set; recode them or choose categorical: constant"
        )
    patterns, own = np.unique(held, axis=0, return_inverse=True)
    texts = np.array([(mark or "").join(w for w, there in zip(words, row, strict=True) if there) for row in patterns])
    parted = f", parted by {mark}" if mark else ""
    about = f"the set of values in the record's box{parted}. {variable.description}".strip()
    described = Variable(variable.name, "nominal", role=variable.role, description=about)
    return pd.Series(texts[own.reshape(-1)[label]], index=data.frame.index), described


def levels_in_sets(texts: Iterable[object], variable: Variable) -> tuple[set[str], bool]:
    """Return which levels of a variable stand in texts, levels or sets of them, and whether a missing value does.

    Examples
    --------
    >>> levels_in_sets(["a|missing", "b"], Variable("s", "nominal", levels=("a", "b", "c"))) == ({"a", "b"}, True)
    True
    """
    mark, words = _words(variable.levels or ())
    known, held = set(words), set[str]()
    for text in {str(text) for text in texts}:
        held.update([text] if mark is None or text in known else text.split(mark))
    return (held & known) - {words[-1]}, words[-1] in held


def _parsed(column: pd.Series, variable: Variable) -> np.ndarray:
    """Return (B, q + 1) bool from the texts of B boxes; a missing value is a set of missing values."""
    mark, words = _words(variable.levels or ())
    place = {word: at for at, word in enumerate(words)}
    codes, texts = pd.factorize(column.astype("object").map(str, na_action="ignore"))
    rows = np.zeros((len(texts) + 1, len(words)), dtype=bool)
    for row, text in zip(rows, texts, strict=False):
        levels = [text] if mark is None or text in place else text.split(mark)
        row[[place[word] for word in levels if word in place]] = True
    rows[-1, -1] = True
    return rows[codes]
