"""Changes of a plan that are tried by playing the in/out game again."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.edits.kinds import BoundEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.methods import MDAV, AdditiveNoise, ExtremeRecords, RareLevels
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import GameSettings, TargetRisk, choose_targets
from tasks.assessment.remedies import Change, changes, try_change
from tasks.masking.anonymize import ShadowMask

BOUND = BoundEdit(name="least", variable="a", lower=0)
TIED = LookupEdit(name="tied", dependent="c", of=("a",))


def people() -> Microdata:
    frame = pd.DataFrame(np.random.default_rng(0).gamma(2.0, 3.0, (80, 3)).round(2), columns=list("abc"))
    return Microdata(frame, Schema([Variable(name, "continuous") for name in "abc"]))


def target(**drivers: float) -> TargetRisk:
    return TargetRisk(3, ("isolated",), {"distance": 0.9}, "distance", 0.7, 0.3, tuple(drivers.items()))


def proposed(*steps, edits: EditSet | None = None, targets: tuple[TargetRisk, ...] = ()) -> dict[str, Change]:
    return {one.name: one for one in changes(ShadowMask(steps, edits or EditSet(())), people(), targets)}


def try_it(change: Change, rounds: int = 48):
    rng = np.random.default_rng(2)
    targets = choose_targets(people(), isolated=6, random=4, rng=rng)
    settings = GameSettings(rounds, variables=("a", "b", "c"))
    return try_change(change, people(), targets, settings=settings, rng=rng, on_round=lambda number: None)


def test_larger_groups_and_treated_extremes_are_tried_where_the_plan_has_or_lacks_them() -> None:
    both = proposed(RareLevels(k=3), MDAV(k=4))
    assert both["k twice as large in every step that has one"].mask.steps == (RareLevels(k=6), MDAV(k=8))
    first = both["extreme values top-coded first"].mask.steps[0]
    assert (first.method, first.action) == ("extreme-records", "top-code")
    assert list(proposed(ExtremeRecords(), AdditiveNoise())) == []


def test_the_most_revealing_variable_is_left_out_unless_an_edit_ties_it_to_others() -> None:
    told = (target(a=0.7, b=0.2, c=0.1), target(a=0.6, b=0.3, c=0.1))
    assert proposed(MDAV(), targets=told)["without the variable a"].people(people()).schema.names == ("b", "c")
    assert proposed(MDAV(), edits=EditSet((BOUND,)), targets=told)["without the variable a"].mask.edits == EditSet()
    assert "without the variable b" in proposed(MDAV(), edits=EditSet((BOUND, TIED)), targets=told)


def test_a_remedy_shows_its_effect_on_the_same_people() -> None:
    exact = try_it(Change("as it is", ShadowMask((AdditiveNoise(b=0.01),), EditSet(()))))
    coarse = try_it(proposed(MDAV(k=10))["k twice as large in every step that has one"])
    assert exact.mean > 0.95
    assert coarse.mean < exact.mean - 0.1
    assert coarse.lower < coarse.mean < coarse.upper
    without = try_it(Change("without b", ShadowMask((AdditiveNoise(b=0.01),), EditSet(())), "b"))
    assert without.problem == ""
    assert try_it(Change("too coarse", ShadowMask((MDAV(k=200),), EditSet(())))).problem != ""
