"""Global recoding: key variables at the levels of their hierarchies that lose least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import Claim, KAnonymity, LDiversity, TCloseness, key_codes
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.key_groups import Items, holding_units
from anoncore.kernels.lattice import Key, Level, Mean, Model, Node, at_least, close, diverse, optimal_node
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import fewest_in_share, not_below
from anoncore.recoding import Hierarchy, Recoding, misfit, places, recoded, steps_of
from anoncore.release import Release

Loss = Literal["loss", "entropy", "precision"]


@dataclass(frozen=True, kw_only=True)
class GlobalRecoding(Method):
    """Global recoding: every key at the level of its hierarchy at which the keys together lose least.

    Claims k-anonymity on the keys, counting for each record the units that hold all keys which it has left, and
    ℓ-diversity and t-closeness of sensitive variables where these are asked for; made to hold again after later steps.
    No other levels that suppress so few records lose less. Other variables stay as they are, so it is a step before
    masking. Deterministic.

    Source: Samarati and Sweeney 1998 (full-domain generalisation with suppression); Kohlmayer et al. 2012, Flash;
    Prasser, Kohlmayer and Kuhn 2016 (bounds). Hierarchies and losses are as in ARX.

    Parameters
    ----------
    k : int, at least 2
        Statistical units that share the released keys of every record.
    keys : tuple of variable names
        The key variables; empty for all quasi-identifiers.
    hierarchies : mapping of key to ``rows``, ``widths`` or ``kept``
        Rows as in ARX's files, widths of intervals, or numbers of characters kept; drafted for other keys.
    highest : mapping of key to int, 0 or more
        The highest step that a key may take; 0 leaves it as it is.
    suppression : float in [0, 1)
        The largest share of the records whose keys become missing; others that share too few keys, for want of better.
    diversity : mapping of sensitive variable to int, at least 2
        Values of it that records with the same keys hold, ℓ.
    closeness : mapping of sensitive variable with levels to float, above 0 and below 1
        The largest distance of its distribution among records with the same keys from that of all, t.
    loss : {"loss", "entropy", "precision"}
        What is minimised: the share of the hierarchy's levels that a released one covers, as a geometric mean over the
        keys (Iyengar 2002); the non-uniform entropy (Gionis and Tassa 2009); or the height in the hierarchy
        (Sweeney 2002), both as means over keys and records, the entropy in bits. A suppressed cell counts as one of the
        highest level.
    """

    title: ClassVar[str] = "Global recoding"
    description: ClassVar[str] = (
        "Variables by which a person could be recognised are released in coarser levels, the same for all people, and "
        "left out for the few who are rare even then."
    )
    prepares: ClassVar[bool] = True
    treats_records_alone: ClassVar[bool] = True

    # Rows name every level of the source, also one that a single person holds; notes say what became of each key.
    confidential_parameters: ClassVar[tuple[str, ...]] = ("hierarchies",)

    method: Literal["global-recoding"] = "global-recoding"
    k: int = 5
    keys: tuple[str, ...] = ()
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    highest: Mapping[str, int] = field(default_factory=dict)
    suppression: float = 0.02
    diversity: Mapping[str, int] = field(default_factory=dict)
    closeness: Mapping[str, float] = field(default_factory=dict)
    loss: Loss = "loss"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        if not 0 <= self.suppression < 1:
            raise AnonymizationError(f"suppression must lie in [0, 1), got {self.suppression}")
        for what, least, below, stated in (
            ("highest", 0, np.inf, self.highest),
            ("diversity", 2, np.inf, self.diversity),
            ("closeness", 1e-9, 1, self.closeness),
        ):
            for name, value in stated.items():
                if not least <= value < below:
                    raise AnonymizationError(f"{what} of {name} is out of range, got {value}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """Everything but what it treats."""
        return LEVEL_COUNTS, MEANS, VALUES

    def in_share(self, share: float) -> GlobalRecoding:
        """Return the step with k as few units as in a share of all."""
        return replace(self, k=fewest_in_share(self.k, share))

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        keys, released = self._keys(schema), set(schema.masked)
        sensitive = {*self.diversity, *self.closeness}
        wrong = (
            ("keys", set(self.keys) - released, "is not released; name released variables"),
            ("hierarchies", set(self.hierarchies) - set(keys), "is no key; name keys"),
            ("highest", set(self.highest) - set(keys), "is no key; name keys"),
            ("diversity, closeness", sensitive - released, "is not released; name released variables"),
            ("diversity, closeness", sensitive & set(keys), "is a key, too; name other variables"),
            (
                "closeness",
                {n for n in self.closeness if n in released and not schema[n].is_categorical},
                "has no levels; group its numbers first",
            ),
        )
        problems = [f"{what}: {', '.join(sorted(names))} {problem}" for what, names, problem in wrong if names]
        problems += [
            f"hierarchies: {name}: {problem}"
            for name, hierarchy in self.hierarchies.items()
            if name in released and (problem := misfit(schema[name], hierarchy))
        ]
        coarsened = {name for name in keys if self.highest.get(name, 1)}
        problems += [
            f"keys: edit {edit.name} computes one of {', '.join(edit.variables)}, which coarser levels of "
            f"{', '.join(sorted(at))} would break; state highest: 0 for them, or leave the edit out"
            for edit in edits.dependents
            if (at := coarsened & set(edit.variables))
        ]
        return problems if keys else ["keys: there is no quasi-identifier; name the keys", *problems]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Recode.

        Raises
        ------
        AnonymizationError
            When parameters do not suit the table.
        InfeasibleError
            When even the highest levels suppress more than ``suppression``.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        keys = self._keys(data.schema)
        steps = {name: self._steps(data, name) for name in keys}
        node = self._optimum(data, steps)
        chosen = tuple(steps[n][level - 1] for n, level in zip(keys, node.levels, strict=True) if level)
        masked, cells = self._suppressed(recoded(data, chosen))
        at = dict(zip(keys, node.levels, strict=True))
        where = "; ".join(
            f"{n} {_phrase(steps[n][level - 1], level) if level else 'as it is'}" for n, level in at.items()
        )
        return Release(
            data=masked,
            claims=self._claims(keys),
            keeps_records=True,
            recodings=chosen,
            notes=(
                f"key variables were recoded to a step of their hierarchies ({where}); of the combinations that leave "
                f"out the keys of at most {self.suppression:.1%} of the records, the one that loses least by the "
                f"measure {self.loss}",
                "risk and utility are measured against the source in the same levels; what coarser levels themselves "
                "lose is the figure loss alone",
            ),
            figures={"loss": node.loss, "suppressed_records": cells, "classes": node.groups, "nodes": node.evaluated},
        )

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Leave out the keys of records that later steps made rare."""
        masked = data
        # Records whose keys are left out hold those of no other: of others, too few may then be left.
        while (step := self._suppressed(masked, later=True))[1]:
            masked = step[0]
        if masked is data:
            return data, ()
        return masked, ("after the later steps, the keys of records that these made rare are left out, too",)

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        sensitive = {*self.diversity, *self.closeness}
        return self.keys or tuple(v.name for v in schema if v.role == "quasi-identifier" and v.name not in sensitive)

    def _steps(self, data: Microdata, name: str) -> tuple[Recoding, ...]:
        steps = steps_of(data, name, self.hierarchies.get(name))
        return steps[: self.highest.get(name, len(steps))]

    def _claims(self, keys: tuple[str, ...]) -> tuple[Claim, ...]:
        return (
            KAnonymity(k=self.k, variables=keys, missing="holders"),
            *(LDiversity(l=number, quasi_identifiers=keys, sensitive=name) for name, number in self.diversity.items()),
            *(TCloseness(t=t, quasi_identifiers=keys, sensitive=name) for name, t in self.closeness.items()),
        )

    def _models(self, data: Microdata, weights: np.ndarray) -> list[Model]:
        """Return the models for the records of ``data``, each of which stands for ``weights`` (n,) of them."""
        models = [at_least(self.k)]
        for name, number in self.diversity.items():
            models.append(diverse(places(data.frame[name]), number))
        for name, most in self.closeness.items():
            ordered = data.schema[name].kind == "ordinal"
            models.append(close(places(data.frame[name]), most, ordered=ordered, weights=weights))
        return models

    def _optimum(self, data: Microdata, steps: Mapping[str, tuple[Recoding, ...]]) -> Node:
        sensitive = [n for n in data.schema.names if n in self.diversity or n in self.closeness]
        items = Items(key_codes(data, [*steps, *sensitive]), data.units)
        few = data.take(items.records)
        keys = [_key(few, name, own, items.weights, self.loss) for name, own in steps.items()]
        mean: Mean = "geometric" if self.loss == "loss" else "arithmetic"
        return optimal_node(
            keys,
            self._models(few, items.weights),
            weights=items.weights,
            units=items.units,
            limit=self.suppression,
            mean=mean,
            monotone=not self.closeness and (data.units is None or not self.diversity),
        )

    def _suppressed(self, data: Microdata, *, later: bool = False) -> tuple[Microdata, int]:
        """Return the table without the keys of records that break a model, and how many these are.

        Records without keys are a group of their own: where it breaks a model, the smallest other groups join it. After
        ``later`` steps, which may leave out single keys, k units must hold those which a record has left.
        """
        keys = list(self._keys(data.schema))
        order = np.argsort(data.unit_codes, kind="stable")
        sorted_, units, one = (
            data.take(order),
            data.unit_codes[order].astype(np.int64),
            np.ones(len(data), dtype=np.int64),
        )
        models = self._models(sorted_, one)[later:]
        number = sorted_.frame.groupby(keys, dropna=False, observed=True, sort=False).ngroup().to_numpy()
        first, sizes = np.unique(number, return_index=True)[1], np.bincount(number)
        bare = sorted_.frame[keys].isna().all(axis=1).to_numpy()
        gone = np.any([bare, *(model(first[number], one, units) for model in models)], axis=0)
        if later:
            gone |= holding_units(key_codes(sorted_, keys), units) < self.k
        for smallest in np.argsort(sizes, kind="stable"):
            group = np.where(gone, gone.argmax(), first[number])
            if not any((model(group, one, units) & gone).any() for model in models):
                break
            gone |= number == smallest
        rows = np.zeros(len(data), dtype=bool)
        rows[order] = gone & ~bare
        frame = data.frame.copy()
        for name in keys:
            frame[name] = frame[name].mask(rows)
        return Microdata.trusted(frame, data.schema, data.units), int(rows.sum())


def _phrase(step: Recoding, number: int) -> str:
    """Return what a step makes of a variable; how many steps there are would reveal its extremes."""
    if step.width is not None:
        return "left out" if np.isinf(step.width) else f"in intervals of {step.width:g}"
    return "as one level" if len(set(step.levels.values())) == 1 else f"at step {number}"


def _key(data: Microdata, name: str, steps: tuple[Recoding, ...], weights: np.ndarray, loss: Loss) -> Key:
    """Return a key's levels with what each loses."""
    columns = [data.frame[name], *(step.apply(data).frame[name] for step in steps)]
    codes = [places(column) for column in columns]
    if loss == "precision":
        costs = [np.full(len(data), at / max(len(steps), 1)) for at in range(len(columns))]
    elif loss == "loss":
        shares = [_shares(step, column) for step, column in zip(steps, columns[1:], strict=True)]
        costs = [np.zeros(len(data)), *shares]
    else:
        held = [np.bincount(own, weights)[own] for own in codes]
        bits = [np.log2(own / held[0]) for own in held]
        most = np.log2(weights.sum() / held[0])
        return Key([Level(*level) for level in zip(codes, bits, strict=True)], most)
    return Key([Level(*level) for level in zip(codes, costs, strict=True)], np.ones(len(data)))


def _shares(step: Recoding, column: pd.Series) -> np.ndarray:
    """Return (n,) the share of its hierarchy that each released value covers; a missing value covers nothing."""
    if step.width is not None:
        return np.full(len(column), step.share) if np.isinf(step.width) else np.where(column.isna(), 0.0, step.share)
    return column.astype(object).map(step.covered.get).fillna(0.0).to_numpy(dtype="float64")
