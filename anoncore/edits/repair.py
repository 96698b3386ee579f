"""Making every record satisfy every edit, for methods that do not honour edits themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anoncore.edits.dependents import dependent
from anoncore.edits.donors import from_donors
from anoncore.edits.kinds import ConditionalEdit, LinearEdit, SetEdit
from anoncore.edits.levels import Source, cells, consequent, donated, empty, falsified, with_cells
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import Edit, EditSet
from anoncore.edits.numbers import Component, components, is_numeric, settle
from anoncore.edits.product import ProductEdit
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.microdata import (
    Microdata,
    Schema,
    Variable,
    observed_precision,
    round_to,
)

PASSES = 10
# From this pass on, whatever is still unsettled may also change the antecedents of its edits.
SEARCH_FROM = 4
# Of the records: so many may take cells of donors when nothing else has settled them.
FEW = 0.05


@dataclass(frozen=True, eq=False)
class Repaired:
    """Microdata that satisfy every edit, and how much had to change.

    Parameters
    ----------
    data : Microdata, N records in the order of the input
    changed : by edit name the number of records that were changed on its account
    cells_changed, records_changed : int, over all edits
    """

    data: Microdata
    changed: dict[str, int]
    cells_changed: int
    records_changed: int

    @property
    def share(self) -> float:
        """The share of all cells that were changed."""
        return self.cells_changed / max(self.data.frame.size, 1)


def repair(data: Microdata, edits: EditSet, *, rng: np.random.Generator) -> Repaired:
    """Change records as little as possible so that every edit holds for every record.

    Only records that violate an edit are changed. Numbers move to the nearest point that satisfies
    linear edits, ratios, bounds and range consequents together, in units of standard deviations
    and over the cells present, and are then placed on their units one variable after the other,
    coarse units first, fine ones and then dependents last, which absorb the remainders. Variables
    with levels stay while the numbers can make up for it, else they take a near level. Set edits
    take the nearest allowed level of an ordered variable, or draw one. Conditional edits are
    settled on their consequent; when that has failed `SEARCH_FROM` times, on whichever cell leaves
    the fewest edits violated. A computed variable follows its parts into and out of missingness; one that is looked
    up is looked up again, and only where other edits forbid the result do its determinants become those of a donor.
    What is then left, if it is at most 5 % of the records, takes all variables that its edits tie together from the
    nearest record without any violation.

    Parameters
    ----------
    data : Microdata, N records
    edits : EditSet; lookups that have not learned their table learn it from ``data``
    rng : numpy Generator; draws are made per distinct record, not per row

    Returns
    -------
    Repaired; where equalities demand more decimals than a variable had, its precision is refined.

    Raises
    ------
    AnonymizationError
        When an edit names variables the data lack or computes with text.
    InfeasibleError
        When records remain that no change was found for.

    Claim: every edit holds for every record, or an error; records identical before are identical
    after, so groups of identical records stay as large (k-anonymity).
    Source: projection as in `anoncore.kernels.projection`; donors after Fellegi and Holt 1976,
    with changes on the consequent first instead of their minimal set of fields.

    Examples
    --------
    >>> repair(data, edits, rng=np.random.default_rng(1)).changed  # doctest: +SKIP
    {'total': 12, 'pregnancies': 3}
    """
    problems = edits.obstacles(data.schema)
    if problems:
        raise AnonymizationError("\n".join(problems))
    edits = edits.learned(data)
    names = [v.name for v in data.schema if v.is_masked]
    file = data.frame[names]
    sound = edits.satisfied(file)
    rows = np.flatnonzero(~sound)
    violating = file.iloc[rows]
    group = violating.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    distinct = violating.iloc[first].reset_index(drop=True)
    source = Source(file, sound, data.schema, edits, rng)
    settling = _Settling(distinct, source, components(file, data.schema, edits))
    settling.run(np.bincount(group, minlength=len(distinct)))
    return _assemble(data, rows, group, distinct, settling)


class _Settling:
    """Distinct records, M of them, on their way to satisfying all edits."""

    def __init__(self, records: pd.DataFrame, source: Source, parts: tuple[Component, ...]) -> None:
        self.before = records
        self.frame = records.copy()
        self.source = source
        self.parts = parts
        self.edits = source.edits
        self.touched = {e.name: np.zeros(len(records), dtype=bool) for e in source.edits.edits}

    def run(self, counts: np.ndarray) -> None:
        """Settle all records; ``counts`` (M,) says for how many each stands."""
        for turn in range(PASSES):
            rows = np.flatnonzero(~self.edits.satisfied(self.frame))
            if not len(rows):
                return
            for edit in self.edits.edits:
                if turn >= SEARCH_FROM:
                    self._search(edit, rows)
                elif isinstance(edit, SetEdit | ConditionalEdit):
                    self._consequent(edit, rows)
            self._follow(rows)
            self._numbers(rows)
            self._follow_parts(rows)
        self._donate(counts)
        self._refuse(counts)

    def _put(self, name: str, rows: np.ndarray, new: np.ndarray, because: Edit | None = None) -> None:
        values = cells(self.frame[name])
        values[rows] = new
        self.frame[name] = with_cells(self.frame[name], values)
        if because is not None:
            self.touched[because.name][rows] = True

    def _violators(self, edit: Edit, rows: np.ndarray) -> np.ndarray:
        return rows[~edit.holds(self.frame.iloc[rows])]

    def _consequent(self, edit: SetEdit | ConditionalEdit, rows: np.ndarray) -> None:
        rows = self._violators(edit, rows)
        name = edit.variables[-1]
        if is_numeric(edit):
            # A number that is there is moved together with those that linear edits tie to it.
            rows = rows[self.frame[name].iloc[rows].isna().to_numpy()]
        if len(rows):
            self._put(name, rows, consequent(edit, self.frame.iloc[rows], self.source), edit)

    def _search(self, edit: Edit, rows: np.ndarray) -> None:
        """Choose, among the consequent, each antecedent and other determinants, what leaves the fewest violations."""
        rows = self._violators(edit, rows)
        if not len(rows):
            return
        part = self.frame.iloc[rows]
        best, least = np.full(len(rows), -1), self._penalty(part)
        proposals: list[dict[str, np.ndarray]] = []
        if isinstance(edit, SetEdit | ConditionalEdit):
            proposals.append({edit.variables[-1]: consequent(edit, part, self.source)})
            least[:] = np.inf
        if isinstance(edit, LinearEdit | ConditionalEdit):
            proposals += [{c.variable: falsified(c, part, self.source)} for c in edit.when]
        if self.edits.following:
            proposals += [self._redetermined(proposal, part) for proposal in proposals]
        for i, proposal in enumerate(proposals):
            penalty = self._penalty(self._assigned(part, proposal))
            best, least = np.where(penalty < least, i, best), np.minimum(penalty, least)
        for i, proposal in enumerate(proposals):
            for name, new in proposal.items():
                if (best == i).any():
                    self._put(name, rows[best == i], new[best == i], edit)

    def _assigned(self, part: pd.DataFrame, proposal: dict[str, np.ndarray]) -> pd.DataFrame:
        return part.assign(**{name: with_cells(part[name], new) for name, new in proposal.items()})

    def _redetermined(self, proposal: dict[str, np.ndarray], part: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return a proposal with determinants of donors that hold the proposed values, and what follows from them."""
        result = dict(proposal)
        for lookup in reversed(self.edits.lookups):
            if lookup.dependent in result:
                result |= donated(lookup, result[lookup.dependent], part, self.source)
        for edit in self.edits.following:
            if set(edit.parts) & set(result):
                new, _ = dependent(edit, self._assigned(part, result), self.source.schema[edit.dependent])
                result[edit.dependent] = cells(new)
        return result

    def _penalty(self, part: pd.DataFrame) -> np.ndarray:
        """Return (m,) violations; numeric ones weigh less, because they can still be projected away."""
        penalty = np.zeros(len(part))
        for edit in self.edits.edits:
            penalty += ~edit.holds(part) * (1.0 if is_numeric(edit) else 1000.0)
        return penalty

    def _follow(self, rows: np.ndarray) -> None:
        """Empty a computed cell whose part was emptied; compute one whose last part was filled."""
        for edit in self.edits.dependents:
            if isinstance(edit, LookupEdit | ProductEdit):
                self._follow_one(edit, rows)
            elif edit.parts:
                self._follow_sum(edit, rows)

    def _follow_sum(self, edit: LinearEdit, rows: np.ndarray) -> None:
        name, rest = str(edit.dependent), list(edit.parts)
        now, past = (f[rest].iloc[rows].isna().to_numpy() for f in (self.frame, self.before))
        own = empty(cells(self.frame[name].iloc[rows]))
        lost = rows[(now & ~past).any(axis=1) & ~own]
        if len(lost):
            absent = np.full(len(lost), np.nan if not self.source.schema[name].is_categorical else -1)
            self._put(name, lost, absent, edit)
        broken = rows[(past & ~now).any(axis=1) & ~now.any(axis=1) & own]
        if len(broken) and not self.source.schema[name].is_categorical:
            part = self.frame.iloc[broken]
            column, _ = dependent(edit, part.drop(columns=name), self.source.schema[name])
            self._put(name, broken, column.to_numpy(), edit)

    def _follow_parts(self, rows: np.ndarray) -> None:
        for edit in self.edits.following:
            self._follow_one(edit, rows)

    def _follow_one(self, edit: LookupEdit | ProductEdit, rows: np.ndarray) -> None:
        """Look up or multiply the dependent again where a part was changed, or where it is another."""
        violated = ~edit.holds(self.frame.iloc[rows])
        changed = np.zeros(len(rows), dtype=bool)
        for name in edit.parts:
            now, past = (cells(f[name].iloc[rows]) for f in (self.frame, self.before))
            changed |= (now != past) & ~(empty(now) & empty(past))
        # Where a determinant was changed, it was on account of another edit.
        self.touched[edit.name][rows[violated & ~changed]] = True
        at = rows[violated | changed]
        if len(at):
            column, _ = dependent(edit, self.frame.iloc[at], self.source.schema[edit.dependent])
            self._put(edit.dependent, at, cells(column))

    def _numbers(self, rows: np.ndarray) -> None:
        part = self.frame.iloc[rows]
        for component in self.parts:
            settled = settle(component, part)
            for name, (at, new) in settled.cells.items():
                self._put(name, rows[at], new)
            for name, moved in settled.moved.items():
                self.touched[name][rows[moved]] = True

    def _donate(self, counts: np.ndarray) -> None:
        """Replace what edits tie together by the cells of sound records, where few records are left."""
        left = np.flatnonzero(~self.edits.satisfied(self.frame))
        if not len(left) or counts[left].sum() > FEW * len(self.source.file):
            return
        for edit in self.edits.edits:
            rows = self._violators(edit, left)
            for name, new in from_donors(edit, self.frame.iloc[rows], self.source).items():
                self._put(name, rows, new, edit)

    def _refuse(self, counts: np.ndarray) -> None:
        """Raise when records remain that violate an edit."""
        left = ~self.edits.satisfied(self.frame)
        if not left.any():
            return
        names = [e.name for e in self.edits.edits if (~e.holds(self.frame)).any()]
        raise InfeasibleError(
            f"{int(counts[left].sum())} record(s) could not be made to satisfy all edits after {PASSES} "
            f"passes; still violated: {', '.join(names)}. Loosen one of them, or an edit it meets, or "
            "leave one of their variables out of the masking"
        )


def _assemble(
    data: Microdata, rows: np.ndarray, group: np.ndarray, distinct: pd.DataFrame, settling: _Settling
) -> Repaired:
    """Write the settled records, of which row ``rows[i]`` is number ``group[i]``, into the table."""
    frame, variables = data.frame.copy(), {v.name: v for v in data.schema}
    changed = np.zeros(len(distinct), dtype=bool)
    counts = np.bincount(group, minlength=len(distinct))
    cells_changed = 0
    for name in distinct.columns:
        before, after = cells(distinct[name]), cells(settling.frame[name])
        differs = (before != after) & ~(empty(before) & empty(after))
        if not differs.any():
            continue
        changed |= differs
        cells_changed += int(counts[differs].sum())
        values = cells(frame[name])
        values[rows] = after[group]
        frame[name] = with_cells(frame[name], values)
        variables[name] = _refined(variables[name], after[differs], values)
    result = Microdata(frame, Schema(variables[n] for n in data.schema.names))
    violated = [n for n, v in settling.edits.violations(result.frame).items() if v]
    if violated:
        raise InfeasibleError(f"the repaired records still violate {', '.join(violated)}; report this")
    return Repaired(
        data=result,
        changed={name: int(counts[at].sum()) for name, at in settling.touched.items()},
        cells_changed=cells_changed,
        records_changed=int(counts[changed].sum()),
    )


def _refined(variable: Variable, new: np.ndarray, values: np.ndarray) -> Variable:
    """Return the variable with a precision of which its ``new`` values, too, are multiples."""
    unit, new = variable.precision, new[~empty(new)]
    if variable.is_categorical or unit is None or np.array_equal(round_to(new, unit), new):
        return variable
    return replace(variable, precision=observed_precision(values))
