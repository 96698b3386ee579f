"""The keys that a plan may state at a place."""

from __future__ import annotations

from dataclasses import fields

import pytest

from anoncore.microdata import Variable
from anoncore.registry import METHODS
from flows.plan.keys import keys_at
from flows.plan.model import Plan

VARIABLE = tuple(field.name for field in fields(Variable))


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ((), tuple(Plan.model_fields)),
        (("variables", 1), VARIABLE),
        (("edits", "rules", 0, "bound"), ("edit", "name", "variable", "lower", "upper")),
        (
            ("policy", "utility"),
            (
                "marginal",
                "pair",
                "total",
                "two_samples",
                "spike",
                "propensity",
                "overlap",
                "exceeded",
                "beyond",
                "impossible",
            ),
        ),
        (("publication", "to", 0), ("table", "database", "if_exists", "folder", "storage")),
        (("policy", "utility", "pair"), ()),
        (("no", "section"), ()),
    ],
)
def test_the_keys_of_a_section_are_those_of_its_model(place: tuple[str | int, ...], keys: tuple[str, ...]) -> None:
    assert keys_at(Plan, place) == keys


@pytest.mark.parametrize("method", METHODS)
def test_the_keys_of_a_step_are_the_parameters_of_its_method(method: str) -> None:
    assert keys_at(Plan, ("steps", 0, method)) == tuple(field.name for field in fields(METHODS[method]))


def test_an_optional_section_has_its_keys() -> None:
    assert keys_at(Plan, ("reference", "source")) == keys_at(Plan, ("source",)) != ()
