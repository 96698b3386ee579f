"""A table drawn variable by variable, each from source records that are alike in the variables before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammainccinv
from scipy.stats import norm

from anoncore.edits.kinds import BoundEdit, LinearEdit, RatioEdit
from anoncore.edits.lookup import LearnedLookup
from anoncore.edits.model import Edit, EditSet
from anoncore.edits.product import ProductEdit
from anoncore.kernels.donor_tree import (
    DonorTree,
    LeafRule,
    Singles,
    independent_targets,
    leaf_lines,
    level_scores,
    target_groups,
)
from anoncore.kernels.ranks import normal_scores
from anoncore.kernels.ridge import ridge
from anoncore.kernels.shared_slopes import centred, slope_within, tilted_shares, with_slopes
from anoncore.kernels.smoothed_values import recommended_reach, smoothed_values, without_extremes
from anoncore.microdata import SPIKE, Microdata, Schema, Variable, outer_limits, round_to

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Flags = NDArray[np.bool_]
# Edits that compute a variable from others, and can.
_Computing = LinearEdit | ProductEdit | LearnedLookup
# For each variable so far: its parts in the table, and with which states and tenths of the next they never occur.
_Never = list[tuple[Integers, Flags, Flags]]

# Levels up to which each has a column of its own beside its place on axes.
_OWN_COLUMNS = 8
# Draws from the leaf, and from all donors, for a record that breaks an edit, before the repair step has to see to it.
_ATTEMPTS = 20, 40
# Parts, by rank, of the numbers of a variable for which is asked what never occurs together.
PARTS = 10
# Two levels never occur together if fewer than k units hold both, or fewer than two, though chance would give more with
# a probability of 1 − e⁻⁸ if they were independent. With e⁻⁵, cells that were empty by chance separated members from
# non-members.
NEVER = 8.0
# The same of adjacent tenths of a number together, of which there are more.
_RUN = 10.0
_FIRST, _LAST = np.triu_indices(PARTS + 1, 2)
_COVERED = (np.arange(PARTS) >= _FIRST[:, None]) & (np.arange(PARTS) < _LAST[:, None])
# A linear model carries scores, and a tree what is left, if it leaves less than this share of what leaves leave.
_CARRIES = 0.75
_REGULAR, _MISSING = 0, 1
# Probability below which chance does not explain that any share of a variable is another than the source's.
_UNLIKELY = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class _Draws:
    """One variable as drawn for all records, codes of levels or numbers, and what draws records again.

    ``again`` draws from the leaf, or from all records; ``number`` a regular number, from the leaf, for those that have
    one.
    """

    values: Floats
    again: Callable[[Integers, bool], Floats]
    number: Callable[[Integers], Floats] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class _Rules:
    """What the values of one variable must satisfy beside those drawn before: edits, and what never occurs together.

    ``computing`` are the edits that compute what the others read, in their order.
    """

    computing: Sequence[_Computing]
    sums: Sequence[Edit]
    others: Sequence[Edit]
    never: _Never

    @classmethod
    def of(cls, edits: EditSet, variable: Variable, drawn: Iterable[str], schema: Schema, never: _Never) -> _Rules:
        """Take the edits among ``variable``, what was drawn before, and what follows from these and is not drawn."""
        seen, new, possible = {*drawn, variable.name}, {variable.name}, []
        for edit in edits.dependents:
            if isinstance(edit, _Computing) and seen.issuperset(edit.parts) and edit.dependent not in schema:
                possible.append(edit)
                seen.add(str(edit.dependent))
                new |= {str(edit.dependent)} if new & set(edit.parts) else set()
        asked = [e for e in edits.edits if e not in possible and new & set(e.variables) and seen >= set(e.variables)]
        read, computing = {name for e in asked for name in e.variables}, []
        for edit in reversed(possible):
            if edit.dependent in read:
                computing.append(edit)
                read |= set(edit.parts)
        sums = [e for e in asked if variable.kind == "continuous" and isinstance(e, LinearEdit | RatioEdit | BoundEdit)]
        return cls(computing[::-1], sums, [e for e in asked if e not in sums], never)

    def checked(self, frame: pd.DataFrame, rows: Integers, parts: Integers) -> tuple[Flags, Flags]:
        """Return (n,) whether levels and conditions fit, and whether numbers do, of the records ``rows``."""
        fits, adds_up = np.ones(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
        for table, states, regular in self.never:
            fits &= ~states[table[rows], parts]
            adds_up &= ~regular[table[rows], parts]
        for one in self.computing:
            frame[one.dependent] = one.look_up(frame) if isinstance(one, LearnedLookup) else one.solve(frame)
        for edit in self.others:
            fits &= edit.holds(frame)
        for edit in self.sums:
            adds_up &= edit.holds(frame)
        return fits, adds_up


@dataclass(frozen=True, eq=False, repr=False)
class _Computed:
    """A number that an edit computes once the last of its parts is drawn: its parts in the source, see `_Rules`."""

    edit: LinearEdit | ProductEdit
    variable: Variable
    parts: Integers
    never: _Never


@dataclass(eq=False, repr=False)
class Drawing:
    """The table drawn so far, and the variables in it as predictors of the next.

    Parameters
    ----------
    data : Microdata, N records
    rule : LeafRule
    k : int
        Numbers that fewer statistical units hold are not released as they are.
    rng : numpy Generator
    records : int, optional
        Records to draw; N when None.

    Attributes
    ----------
    frame : DataFrame of as many records, the variables drawn so far
    """

    data: Microdata
    rule: LeafRule
    k: int
    rng: np.random.Generator
    records: int | None = None
    frame: pd.DataFrame = field(init=False)
    # Columns of the source and of the table; and pairs of codes of levels, which become columns for each target.
    _columns: list[tuple[Singles, Singles]] = field(default_factory=list)
    _levels: list[tuple[Integers, Integers]] = field(default_factory=list)
    # The parts of each variable so far, see `_parts`, in the source and in the table; and whether it is a number.
    _pairs: list[tuple[Integers, Integers, bool]] = field(default_factory=list)
    # Of the numbers that edits compute from variables so far, those of the source.
    _computed: dict[str, Floats] = field(default_factory=dict)
    _known_cuts: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    _unfit: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.frame = pd.DataFrame(index=pd.RangeIndex(len(self.data) if self.records is None else self.records))
        self._units = self.data.unit_codes
        self._n_numbers = sum(self.data.schema[name].kind == "continuous" for name in self.data.schema.masked)

    def add(self, variable: Variable, edits: EditSet) -> None:
        """Draw one variable for all records.

        Those are drawn again that break an edit among the variables so far, or hold levels, spikes, missing values or
        tenths of numbers together that never occur together in the source.
        """
        source = self.data.frame[variable.name]
        draws = self._ordered(variable, edits) if variable.kind == "continuous" else self._codes(source)
        parts_of_source = self._parts(variable, self._source(variable))
        never = self._never(variable, parts_of_source)
        rules = _Rules.of(edits, variable, map(str, self.frame), self.data.schema, never)
        completed = list(self._completed(variable, edits))
        values, rows = draws.values, np.arange(len(self.frame))

        def checked(values: Floats, rows: Integers) -> tuple[Integers, Flags, Flags]:
            frame = self.frame.iloc[rows].reset_index(drop=True)
            frame[variable.name] = _column(source, variable, values)
            parts = self._parts(variable, values)
            fits, adds_up = rules.checked(frame, rows, parts)
            for one in completed:
                own = self._parts(one.variable, one.edit.solve(frame))
                for table, states, regular in one.never:
                    adds_up &= ~(states | regular)[table[rows], own]
            return parts, fits, adds_up

        for attempt in range(sum(_ATTEMPTS)):
            parts, fits, adds_up = checked(values[rows], rows)
            wrong = rows[~fits]
            # A number that does not add up is drawn anew as a number: as missing it would satisfy every sum.
            off = rows[fits & ~adds_up & (parts >= 1) & (parts <= PARTS)] if draws.number else rows[:0]
            if not len(wrong) and not len(off):
                break
            values[wrong] = draws.again(wrong, attempt >= _ATTEMPTS[0])
            if draws.number:
                # A prediction that leads to an impossible number leads there again: later ones are of any record.
                of_any = attempt >= _ATTEMPTS[0] and attempt % 2
                values[off] = draws.number(self.rng.integers(len(self.frame), size=len(off)) if of_any else off)
            rows = np.concatenate([wrong, off])
        else:
            self._unfit.update(rows.tolist())
        self._balance(values, self._parts(variable, values), parts_of_source, draws, checked)
        self.frame[variable.name] = _column(source, variable, values)
        self._pairs.append((parts_of_source, self._parts(variable, values), variable.kind == "continuous"))
        self._remember(variable)
        for one in completed:
            drawn = one.edit.solve(self.frame)
            self._pairs.append((one.parts, self._parts(one.variable, drawn), True))
            self._remember_numbers(one.variable, drawn)

    def _balance(
        self,
        values: Floats,
        parts: Integers,
        of_source: Integers,
        draws: _Draws,
        checked: Callable[[Floats, Integers], tuple[Integers, Flags, Flags]],
    ) -> None:
        """Draw again what is too frequent, where chance does not explain the shares of levels, spikes and tenths.

        What was drawn again until it fits is what fits most records: a small change of what few have much of. As many
        records as a random sample of the source has hold each in the end, where others can be drawn.
        """
        size = max(int(parts.max()), int(of_source.max())) + 1
        shares = np.bincount(of_source, minlength=size) / len(of_source)
        held = np.bincount(parts, minlength=size)
        expected = len(parts) * shares
        farthest = norm.isf(_UNLIKELY / size) * np.sqrt(np.maximum(expected * (1.0 - shares), 1.0))
        if not (np.abs(held - expected) > farthest).any():
            return
        wanted = self.rng.multinomial(len(parts), shares)
        for _ in range(_ATTEMPTS[0]):
            rows = _beyond(parts, held - wanted, self.rng)
            if not len(rows):
                break
            new = draws.again(rows, False)
            to, fits, adds_up = checked(new, rows)
            chosen = np.flatnonzero(fits & adds_up)
            # Of those that would fill a part, as many as it lacks.
            chosen = chosen[_first(to[chosen], wanted - held)]
            values[rows[chosen]], parts[rows[chosen]] = new[chosen], to[chosen]
            held = np.bincount(parts, minlength=size)

    @property
    def fitting(self) -> Integers:
        """The numbers of all records: first of those for which a value that fits was found each time, then others."""
        is_unfit = np.isin(np.arange(len(self.frame)), list(self._unfit))
        return np.argsort(is_unfit, kind="stable")

    def given(self, variable: Variable, column: pd.Series) -> None:
        """Take a variable that is known of the records to draw: numbers, or levels of the source's."""
        coded = column if variable.kind == "continuous" else column.cat.codes
        values = np.asarray(coded, dtype=np.float64)
        self.frame[variable.name] = column.array
        parts = self._parts(variable, self._source(variable)), self._parts(variable, values)
        self._pairs.append((*parts, variable.kind == "continuous"))
        self._remember(variable)

    def _never(self, variable: Variable, parts: Integers) -> _Never:
        """Return what never occurs beside the ``parts`` of a variable."""
        # Parts that a computed number has in the table alone are counted, too: as never held.
        rows = [max(int(one.max()), int(table.max()), PARTS) + 1 for one, table, _ in self._pairs]
        return [
            (table, *self._never_together((one, is_number), parts, variable, n))
            for (one, table, is_number), n in zip(self._pairs, rows, strict=True)
        ]

    def _never_together(
        self, before: tuple[Integers, bool], other: Integers, variable: Variable, rows: int
    ) -> tuple[Flags, Flags]:
        """Return (rows, b) which parts of one drawn before never occur with the states of ``variable``, and its tenths.

        What a single unit holds would reveal that it took part, so that one counts as none, and fewer than k do where
        chance would give many.
        """
        size = rows, max(int(other.max()), PARTS) + 1
        one, is_number = before

        def absent(parts: Integers, *, in_tenths: bool) -> Flags:
            held = self._holders(one * size[1] + parts, rows * size[1]).reshape(size)
            return _absent(held, self.k, (is_number, in_tenths))

        tenths = absent(other, in_tenths=variable.kind == "continuous")
        if variable.kind != "continuous":
            return tenths, np.zeros_like(tenths)
        regular = (other >= 1) & (other <= PARTS)
        states = absent(np.where(regular, 1, other), in_tenths=False)
        states[:, 1 : PARTS + 1] = states[:, [1]]
        tenths[:, 0] = tenths[:, PARTS + 1 :] = False
        return states, tenths

    def _holders(self, cells: Integers, size: int) -> Integers:
        """Return (size,) the statistical units that hold each of ``cells`` (N,)."""
        if self.data.units is not None:
            n_units = int(self._units.max(initial=0)) + 1
            cells = np.unique(cells * n_units + self._units) // n_units
        return np.bincount(cells, minlength=size)

    def _completed(self, variable: Variable, edits: EditSet) -> Iterator[_Computed]:
        """Yield the numbers that edits compute from ``variable`` and the variables so far, and that are not drawn."""
        drawn = {*map(str, self.frame), variable.name}
        for edit in edits.dependents:
            name = str(edit.dependent)
            if not isinstance(edit, LinearEdit | ProductEdit) or name in self.data.schema:
                continue
            if variable.name in edit.parts and drawn.issuperset(edit.parts):
                computed = Variable(name, "continuous")
                self._computed[name] = edit.solve(self.data.frame)
                own = self._parts(computed, self._computed[name])
                yield _Computed(edit, computed, own, self._never(computed, own))

    def _codes(self, source: pd.Series) -> _Draws:
        """Draw levels, a missing value being one of them."""
        codes = source.cat.codes.to_numpy().astype(np.intp)
        drawn = self._classes(codes, np.arange(len(codes)))

        def draw(rows: Integers, from_all: bool) -> Floats:
            return drawn(rows, from_all).astype(np.float64)

        return _Draws(draw(np.arange(len(self.frame)), False), draw)

    def _ordered(self, variable: Variable, edits: EditSet) -> _Draws:
        """Draw a number, or its distance from those drawn before that it never passes and equals in many records.

        The distance is from the nearest of them, drawn again where it leads beyond what a number drawn by itself can
        be: up to the source's largest, released ones would reveal its holder. A number that has a spike of its own is
        drawn by itself, and so is one that is present where another is missing.
        """
        x = self._source(variable)
        best = 0.0
        for sign in (1.0, -1.0) if not len(self._states(x)[1]) else ():
            names = [n for n, above in _orders(variable.name, edits) if above == sign and n in self.frame]
            if not names:
                continue
            # From the nearest one: the largest of those below, or the least of those above.
            ends = [np.max([sign * np.asarray(one) for one in side], axis=0) for side in self._sides(names)]
            away = sign * x - ends[0]
            same = float((away == 0).mean())
            if same > best and 0.0 in self._states(away)[1] and np.isnan(away).sum() == np.isnan(x).sum():
                best, distance, base, direction = same, away, sign * ends[1], sign
        if not best:
            return self._numbers(variable, x)
        draws = self._numbers(variable, distance)
        within = self._ends(x)

        def beside(rows: Integers, draw: Callable[[Integers], Floats]) -> Floats:
            values = np.full(len(rows), np.nan)
            left = np.arange(len(rows))
            for _ in range(_ATTEMPTS[0]):
                drawn = base[rows[left]] + direction * draw(rows[left])
                values[left] = round_to(drawn, variable.precision) + 0.0  # no −0
                left = left[(values[left] < within[0]) | (values[left] > within[1])]
                if not len(left):
                    break
            values[left] = base[rows[left]]
            return values

        def number(rows: Integers) -> Floats:
            assert draws.number is not None
            return beside(rows, draws.number)

        def again(rows: Integers, from_all: bool) -> Floats:
            return beside(rows, lambda some: draws.again(some, from_all))

        return _Draws(again(np.arange(len(base)), False), again, number if draws.number else None)

    def _ends(self, x: Floats) -> tuple[float, float]:
        """Return between which numbers those of ``x`` (N,) are that are not of the outermost units."""
        order = np.argsort(x, kind="stable")[: int((~np.isnan(x)).sum())]
        units = None if self.data.units is None else self.data.units[order]
        kept = without_extremes(x[order], units=units, rng=self.rng)
        return float(kept[0]), float(kept[-1])

    def _sides(self, names: Sequence[str]) -> tuple[list[Floats], list[Floats]]:
        """Return numbers that were drawn before: as they are in the source, and as drawn."""
        drawn = [self.frame[name].to_numpy(dtype=np.float64) for name in names]
        return [self._source(self.data.schema[name]) for name in names], drawn

    def _numbers(self, variable: Variable, x: Floats) -> _Draws:
        """Draw what the numbers ``x`` (N,) are (missing, a spike, or regular), then the regular ones."""
        states, spikes = self._states(x)
        state = self._classes(states, np.arange(len(x)))
        known = np.concatenate([[np.nan, np.nan], spikes])
        drawn = state(np.arange(len(self.frame)), False)
        values, regular = known[drawn], np.flatnonzero(drawn == _REGULAR)
        if not len(regular):
            return _Draws(values, lambda rows, from_all: known[state(rows, from_all)])
        number = self._regular(x, np.flatnonzero((states == _REGULAR) & ~np.isnan(x)), variable)
        values[regular] = number(regular)

        def draw(rows: Integers, from_all: bool) -> Floats:
            again = state(rows, from_all)
            new, wanted = known[again], np.flatnonzero(again == _REGULAR)
            new[wanted] = number(rows[wanted])
            return new

        return _Draws(values, draw, number)

    def _parts(self, variable: Variable, values: Floats) -> Integers:
        """Return what ``values`` are: 0 missing and 1 … levels; of numbers 0 missing, 1 … 10 tenths, 11 … spikes."""
        if variable.kind != "continuous":
            return values.astype(np.intp) + 1
        cuts, spikes = self._cuts(variable)
        parts = np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="left"))
        for number, spike in enumerate(spikes, start=PARTS + 1):
            parts[values == spike] = number
        return parts.astype(np.intp)

    def _cuts(self, variable: Variable) -> tuple[Floats, Floats]:
        """Return the numbers between the tenths of all, which are those of the utility measures, and the spikes."""
        if variable.name not in self._known_cuts:
            source = self._source(variable)
            known = source[~np.isnan(source)]
            tenths = np.arange(1, PARTS) / PARTS
            cuts = np.unique(np.quantile(known, tenths, method="inverted_cdf")) if len(known) else np.empty(0)
            self._known_cuts[variable.name] = cuts, self._states(source)[1]
        return self._known_cuts[variable.name]

    def _source(self, variable: Variable) -> Floats:
        """Return what is drawn from: codes of levels, or numbers in the unit to which they are released."""
        if variable.name in self._computed:
            return self._computed[variable.name]
        column = self.data.frame[variable.name]
        if variable.kind != "continuous":
            return np.asarray(column.cat.codes, dtype=np.float64)
        return np.asarray(round_to(column.to_numpy(dtype=np.float64), variable.precision)) + 0.0  # no −0

    def _states(self, x: Floats) -> tuple[Integers, Floats]:
        """Return (N,) 0 regular, 1 missing, 2 … spikes; and the spikes' numbers."""
        numbers, codes = np.unique(x, return_inverse=True)
        held, by_units = np.bincount(codes), self._holders(codes, len(numbers))
        known = ~np.isnan(numbers)
        spike = known & (held >= SPIKE * held[known].sum()) & (by_units >= max(self.rule.least, self.k))
        state_of = np.where(known, _REGULAR, _MISSING)
        state_of[spike] = 2 + np.arange(int(spike.sum()))
        states = state_of[codes]
        regular = states == _REGULAR
        if len(np.unique(self._units[regular])) <= self.k:
            states[regular] = _MISSING  # no average of so few hides the single unit
        missing = states == _MISSING
        if len(np.unique(self._units[missing])) < self.k and not missing.all():
            # So few reveal that one of them took part: they are drawn like regular numbers, or else the main spike.
            states[missing] = np.bincount(states[~missing]).argmax() if not (states == _REGULAR).any() else _REGULAR
        return states.astype(np.intp), numbers[spike]

    def _regular(self, x: Floats, rows: Integers, variable: Variable) -> Callable[[Integers], Floats]:
        """Return what draws regular numbers: a normal score by a linear model and a tree, and the number of its rank.

        The linear model carries scores that follow others closely, where leaves are too wide for what lies within; a
        line in a leaf does for variables that few records hold together.
        """
        order = rows[np.argsort(x[rows], kind="stable")]
        reach = max(recommended_reach(len(order), max(self._n_numbers, 1)), self.k)
        units = None if self.data.units is None else self.data.units[order]
        limits = outer_limits(x[order], units)
        pool = np.sort(smoothed_values(x[order], reach, k=self.k, rng=self.rng, units=units, limits=limits))
        scores = normal_scores(x[rows])
        source, table = self._predictors(scores, rows)
        carried, expected = np.zeros(len(rows)), np.zeros(len(self.frame))
        fitted, predicted = carried, expected
        if source.shape[1]:
            model = ridge(source, scores, self._weights(rows), 1.0 + 0.1 * source.shape[1])
            fitted, predicted = model(source), model(table)
            source, table = (_beside(one, own) for one, own in ((source, fitted), (table, predicted)))
        tree = self._grow(source, scores, rows)
        if np.var(scores - fitted) < _CARRIES * tree.variance_within(scores):
            carried, expected = fitted, predicted
            tree = self._grow(source, scores - carried, rows)
        # Equal numbers have places of their own, as their smoothed values have.
        place = np.empty(len(rows))
        place[np.argsort(x[rows], kind="stable")] = np.arange(len(rows))
        left, places = normal_scores(place) - carried, normal_scores(np.arange(float(len(rows))))
        lines = leaf_lines(tree, source, left, self.rule.significance, self._weights(rows))
        own, leaf = tree.leaf_of(source), tree.leaf_of(table)
        left, expected = left - lines.at(source, own), expected + lines.at(table, leaf)
        source, table = self._with_slopes(source, table, rows)
        if source.shape[1]:
            beyond, weights = centred(left, own, self._weights(rows)), self._weights(rows)
            within = slope_within(source, beyond, own, weights, self._rule(beyond, rows))
            left, expected = left - within(source, own), expected + within(table, leaf)

        def number(records: Integers) -> Floats:
            drawn = expected[records] + left[tree.donors(leaf[records], self.rng)]
            at = np.interp(drawn, places, np.arange(len(places))) + self.rng.uniform(-0.5, 0.5, len(drawn))
            return np.asarray(round_to(_read_between(pool, at), variable.precision)) + 0.0  # no −0

        return number

    def _classes(self, target: Integers, rows: Integers) -> Callable[[Integers, bool], Integers]:
        """Return what draws for records the class of a source record of their leaf, or of all.

        Linear relations that are too weak for a split tilt the shares of the classes in the leaves.
        """
        source, table = self._predictors(target, rows)
        tree, weights = self._grow(source, target, rows), self._weights(rows)
        leaf, own, tilted = tree.leaf_of(table), tree.leaf_of(source), None
        source, table = self._with_slopes(source, table, rows)
        if source.shape[1]:
            tilted = tilted_shares(source, target, own, weights, self._rule(target, rows))

        def classes(records: Integers, from_all: bool) -> Integers:
            if from_all:
                return target[self.rng.integers(len(rows), size=len(records))]
            if tilted is None:
                return target[tree.donors(leaf[records], self.rng)]
            return np.asarray(tilted.draw(table[records], leaf[records], self.rng), dtype=np.intp)

        return classes

    def _with_slopes(self, source: Singles, table: Singles, rows: Integers) -> list[Singles]:
        """Return the predictors that may have slopes, of both: the first columns."""
        units = len(np.unique(self._units[rows]))
        return [with_slopes(one, units) for one in (source, table)]

    def _rule(self, target: NDArray[np.generic], rows: Integers) -> LeafRule:
        """Return the rule for leaves and slopes, with the independent targets of a unit."""
        if self.data.units is None:
            return self.rule
        return replace(self.rule, independent=independent_targets(target, self._units[rows]))

    def _grow(self, predictors: Singles, target: NDArray[np.generic], rows: Integers) -> DonorTree:
        rule, weights = self._rule(target, rows), self._weights(rows)
        return DonorTree.grow(predictors, target, rule, rng=self.rng, weights=weights)

    def _weights(self, rows: Integers) -> Floats | None:
        """Return one over the records of the same unit among ``rows``, so that units are counted."""
        if self.data.units is None:
            return None
        _, unit, size = np.unique(self.data.units[rows], return_inverse=True, return_counts=True)
        return np.asarray(1.0 / size[unit])

    def _predictors(self, target: NDArray[np.generic], rows: Integers) -> tuple[Singles, Singles]:
        """Return the predictors of ``target``: of the source's ``rows``, and of all records of the table."""
        source, table = [column[rows] for column, _ in self._columns], [column for _, column in self._columns]
        groups = target_groups(target)
        for codes, drawn in self._levels:
            scores = level_scores(codes[rows], groups, int(max(codes.max(), drawn.max())) + 1).astype(np.float32)
            source += list(scores[codes[rows]].T)
            table += list(scores[drawn].T)
        if not source:
            return np.empty((len(rows), 0), dtype=np.float32), np.empty((len(self.frame), 0), dtype=np.float32)
        return np.column_stack(source), np.column_stack(table)

    def _remember(self, variable: Variable) -> None:
        """Let the variable drawn last predict those that follow."""
        pair = self.data.frame[variable.name], self.frame[variable.name]
        if variable.kind == "continuous":
            self._remember_numbers(variable, pair[1].to_numpy(dtype=np.float64))
            return
        source, table = (column.cat.codes.to_numpy().astype(np.intp) + 1 for column in pair)
        levels = np.unique(source)
        if variable.kind == "ordinal":
            self._columns.append((source.astype(np.float32), table.astype(np.float32)))
            levels = levels[levels == 0]  # where it is missing
        elif len(levels) > 2:
            self._levels.append((source, table))
        if len(levels) <= _OWN_COLUMNS:
            for level in levels:
                self._indicate(source == level, table == level)

    def _remember_numbers(self, variable: Variable, y: Floats) -> None:
        """Let a number that was drawn as ``y`` (N,) predict the variables that follow."""
        x = self._source(variable)
        held = x[~np.isnan(x)]
        if len(held):
            points, places = np.unique(held, return_inverse=True)
            score = np.zeros(len(points))
            score[places] = normal_scores(held)
            self._columns.append((_between(x, points, score), _between(y, points, score)))
        self._indicate(np.isnan(x), np.isnan(y))
        for spike in self._cuts(variable)[1]:
            self._indicate(x == spike, y == spike)

    def _indicate(self, source: Flags, table: Flags) -> None:
        if source.any() and not source.all():
            self._columns.append((source.astype(np.float32), table.astype(np.float32)))


def _between(values: Floats, points: Floats, scores: Floats) -> Singles:
    """Return the normal scores of ``values``, interpolated; 0, the mean, where missing."""
    return np.where(np.isnan(values), 0.0, np.interp(values, points, scores)).astype(np.float32)


def _read_between(ordered: Floats, places: Floats) -> Floats:
    """Return ascending numbers (n,) at ``places`` between their ranks 0 … n − 1: those that repeat only themselves.

    Numbers that are drawn repeatedly would otherwise repeat where those of the source do not.
    """
    last = len(ordered) - 1
    places = last - np.abs(last - np.abs(places))  # reflected at the ends, which would repeat otherwise
    nearest, below = ordered[np.rint(places).astype(np.intp)], np.floor(places).astype(np.intp)
    above = np.minimum(below + 1, last)
    repeats = np.diff(ordered, prepend=np.nan) == 0
    repeats[:-1] |= repeats[1:]
    between = ordered[below] + (places - below) * (ordered[above] - ordered[below])
    return np.where(repeats[below] | repeats[above], nearest, between)


def _beyond(parts: Integers, excess: Integers, rng: np.random.Generator) -> Integers:
    """Draw records (n,) of each part, as many as it has too many."""
    order = rng.permutation(len(parts))
    return order[_first(parts[order], excess)]


def _first(parts: Integers, most: Integers) -> Integers:
    """Return the places of the first records (n,) of each part, so many of each at most.

    Examples
    --------
    >>> _first(np.array([1, 0, 1, 1]), np.array([0, 2])).tolist()
    [0, 2]
    """
    order = np.argsort(parts, kind="stable")
    ranked = parts[order]
    return np.sort(order[np.arange(len(parts)) - np.searchsorted(ranked, ranked) < most[ranked]])


def _beside(table: Singles, column: Floats) -> Singles:
    return np.column_stack([table, column.astype(np.float32)])


def _orders(name: str, edits: EditSet) -> Iterator[tuple[str, float]]:
    """Yield the variables that ``name`` never falls below, with 1, or exceeds, with −1."""
    for edit in edits.linear:
        if name in edit.terms and edit.relation != "==" and not edit.constant and len(edit.terms) == 2:
            other, factor = next((n, f) for n, f in edit.terms.items() if n != name)
            if factor == -edit.terms[name]:
                yield other, -1.0 if (factor > 0) == (edit.relation == ">=") else 1.0


def _column(source: pd.Series, variable: Variable, values: Floats) -> pd.Series:
    """Return drawn values as a column: numbers, or the levels of ``source`` by their codes."""
    if variable.kind == "continuous":
        return pd.Series(values)
    codes = values.astype(np.intp)
    return pd.Series(pd.Categorical.from_codes(codes, source.cat.categories, ordered=source.cat.ordered))


def _absent(held: Integers, k: int, in_tenths: tuple[bool, bool] = (False, False)) -> Flags:
    """Return (a, b) which cells of a table of units are too empty for chance to explain it; see `NEVER`.

    Row and column 0 are missing values. All others together count, too, and where rows, or columns, 1 … 10 are tenths
    of a number, adjacent ones do.
    """
    expected = held.sum(axis=1, keepdims=True) * held.sum(axis=0) / max(int(held.sum()), 1)
    held, expected = (np.vstack([one, one[1:].sum(axis=0)]) for one in (held, expected))
    held, expected = (np.column_stack([one, one[:, 1:].sum(axis=1)]) for one in (held, expected))
    absent = np.zeros(held.shape, dtype=bool)
    for fewer in {2, k}:
        absent |= (held < fewer) & (expected >= gammainccinv(fewer, np.exp(-NEVER)))
    for is_number, cells, *table in (
        (in_tenths[1], absent, held, expected),
        (in_tenths[0], absent.T, held.T, expected.T),
    ):
        if is_number:
            own, by_chance = (np.cumsum(one[:, : PARTS + 1], axis=1) for one in table)
            empty = (own[:, _LAST] - own[:, _FIRST] < k) & (
                by_chance[:, _LAST] - by_chance[:, _FIRST] >= gammainccinv(k, np.exp(-_RUN))
            )
            cells[:, 1 : PARTS + 1] |= empty @ _COVERED
    absent[1:-1] |= absent[-1]
    absent[:, 1:-1] |= absent[:, [-1]]
    return absent[:-1, :-1]
