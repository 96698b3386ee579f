"""Household trees: whole households are drawn, member by member."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import Claim, NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.donor_tree import LeafRule
from anoncore.method import EVIDENCE, Method
from anoncore.methods.household_trees.drawing import HouseholdDrawing, Households
from anoncore.methods.household_trees.rules import HouseholdRulesHold, household_rules
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.parameters import not_below
from anoncore.release import Release

# Households drawn for each that is released, since some break rules.
DRAWN = 1.5


@dataclass(frozen=True, kw_only=True)
class HouseholdTrees(Method):
    """Household trees: whole households are drawn, what their members share and then member by member.

    How many members a household has, what they share and who is the head are drawn by sequential trees of the
    source's households. Then the members are drawn place by place, each from members of the source that are alike in
    the household, the head, the member before and who is already there. Released households have new numbers. Rules
    that hold in every household of the source are found and respected: variables that all members share, how many have
    each relation, which levels go with the head's, and how far numbers such as the age lie from the head's.

    Claims that every released household keeps all these rules; nothing is proven about a single record.

    Source: Alfons, Kraft, Templ and Filzmoser 2011, *Statistical Methods & Applications* 20, 383–407 (households
    before persons before further variables); Reiter 2005, *Journal of Official Statistics* 21, 441–462 (trees).
    Departs from the first: structures are drawn member by member, where it repeats those of the source.

    Parameters
    ----------
    relation : str
        The variable with levels that says how a member belongs to the household; where none is stated, the first with
        a level that exactly one member of every household has.
    sort_by : str
        A number by which members of one relation are sorted, the largest first, such as the age; as in the file where
        none is stated.
    leaf : int, at least 5
        Households in a leaf, at least. More hide the single household better and lose relations.
    k : int, at least 2
        Numbers and sizes that fewer households hold are not released as they are.
    significance : float, in (0, 1]
        Probability with which chance alone makes a split of a tree stay, or gives a predictor a slope that the leaves
        share.
    """

    title: ClassVar[str] = "Household trees"
    description: ClassVar[str] = (
        "Households are drawn one member after the other, each from the members of many households that are alike in "
        "what was drawn before. A released household is put together from many and stems from no single one."
    )
    rebuilds_households: ClassVar[bool] = True
    makes_new_records: ClassVar[bool] = True

    method: Literal["household-trees"] = "household-trees"
    relation: str = ""
    sort_by: str = ""
    leaf: int = 40
    k: int = 5
    significance: float = 0.05

    def __post_init__(self) -> None:
        not_below(5, leaf=self.leaf)
        not_below(2, k=self.k)
        if not 0 < self.significance <= 1:
            raise AnonymizationError(f"significance must be above 0 and at most 1, got {self.significance}")

    def redraws(self, data: Microdata, edits: EditSet) -> tuple[str, ...]:
        """Return all variables: whole households are drawn."""
        return data.schema.masked

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        problems = []
        if self.relation and (self.relation not in schema.masked or not schema[self.relation].is_categorical):
            problems.append("relation: name a released variable with levels")
        if self.sort_by and (self.sort_by not in schema.masked or schema[self.sort_by].is_categorical):
            problems.append("sort_by: name a released variable that holds numbers")
        if len(schema.with_role("household")) > 1:
            problems.append("variables: only one can have the role household; give the others the role excluded")
        return problems

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Draw as many households.

        Raises
        ------
        AnonymizationError
            With fewer households than two leaves hold, or when parameters do not suit the table.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        column, household = _household(data)
        n = int(household.max(initial=-1)) + 1
        if n < 2 * self.leaf:
            raise AnonymizationError(
                f"household trees with leaves of {self.leaf} need records of at least {2 * self.leaf} households, "
                f"got {n}; lower leaf"
            )
        rules = household_rules(data, household, self.relation)
        if self.relation and not rules.relation:
            raise AnonymizationError("relation: no level of it is that of exactly one member of every household")
        # Of a few households that break a rule nothing is drawn.
        rows = np.flatnonzero(~rules.broken(data.frame, household)[household])
        data, household = data.take(rows), pd.factorize(household[rows])[0].astype(np.intp)
        source, rule = Households.of(data, household, rules, self.sort_by), LeafRule(self.leaf, self.significance)
        drawing = HouseholdDrawing(source, edits, rule, self.k, rng, math.ceil(DRAWN * n))
        frame, drawn = drawing.draw()
        chosen = _chosen(np.bincount(drawn), rules.broken(frame, drawn), n)
        kept = chosen[drawn]
        released = _numbered(frame[kept].reset_index(drop=True), drawn[kept], data.schema, column)
        claims: tuple[Claim, ...] = (NoFormalGuarantee(evidence=EVIDENCE),)
        if column:
            claims = (*claims, HouseholdRulesHold(household=column, rules=rules))
        return Release(
            data=released,
            claims=claims,
            keeps_records=False,
            notes=(
                f"whole households were drawn, every variable from groups of at least {self.leaf} households that are "
                "alike in what was drawn before; no released household stems from one, and their numbers are new",
                "rules that hold in every household of the source, or in all but a few, hold in every released one; "
                "drawn households that broke one were replaced by others of as many members",
            ),
            figures={"households_lacking": n - int(chosen.sum())},
        )

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Leave out households of which later steps or the repair broke a rule."""
        for claim in claims:
            if isinstance(claim, HouseholdRulesHold) and not claim.check(data).holds:
                household = pd.factorize(data.frame[claim.household])[0].astype(np.intp)
                kept = np.flatnonzero(~claim.rules.broken(data.frame, household)[household])
                return data.take(kept), ("households of which later steps broke a rule were left out",)
        return data, ()


def _chosen(sizes: np.ndarray, broken: np.ndarray, households: int) -> np.ndarray:
    """Return (H,) which drawn households are released: of each size as many as of the first, none that is broken."""
    order = np.lexsort((np.arange(len(sizes)), broken, sizes))
    place = np.arange(len(order)) - np.searchsorted(sizes[order], sizes[order])
    wanted = np.bincount(sizes[:households], minlength=int(sizes.max()) + 1)
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[order] = place < wanted[sizes[order]]
    return chosen & ~broken


def _household(data: Microdata) -> tuple[str, np.ndarray]:
    """Return the variable that numbers the households, and (N,) each record's from 0; alone where it is missing."""
    column = next(iter(data.schema.with_role("household")), "")
    if not column:
        return "", np.arange(len(data))
    codes = pd.factorize(data.frame[column])[0].astype(np.intp)
    alone = codes < 0
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(int(alone.sum()))
    return column, np.unique(codes, return_inverse=True)[1]


def _numbered(frame: pd.DataFrame, household: np.ndarray, schema: Schema, column: str) -> Microdata:
    """Return the drawn records with the new numbers of their households, in the order of the source's variables."""
    names = [n for n in schema.names if n in frame or n == column]
    variables = [schema[n] for n in names]
    if column:
        frame = frame.assign(**{column: 1.0 + np.unique(household, return_inverse=True)[1]})
        text = "number of the household in this release, drawn at random"
        number = Variable(column, "continuous", role="household", precision=1.0, description=text)
        variables = [replace(number) if n == column else schema[n] for n in names]
    return Microdata(frame[names], Schema(variables))
