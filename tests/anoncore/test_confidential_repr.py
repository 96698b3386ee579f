"""No repr, str, summary or HTML of a result shows a record, a value of one, or a level that was observed."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Encoder, Microdata, Schema, anonymize, measure_risk, measure_utility
from anoncore.methods import MDAV, AdditiveNoise, OptimalBoxes, SpectralSwap
from anoncore.profile import find_rules, profile
from anoncore.utility import Regression, UtilitySettings

HOLDS_DATA = re.compile(r"ndarray|NDArray|Floats|Integers|DataFrame|Series|csr_array")
# Distinctive parts of every value that one record alone has.
CANARIES = ("98765", "canary", "0.8765")


def _dataclasses() -> list[type]:
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(anoncore.__path__, "anoncore.")]
    classes = {one for module in modules for _, one in inspect.getmembers(module, inspect.isclass)}
    return sorted(
        (one for one in classes if dataclasses.is_dataclass(one) and one.__module__.startswith("anoncore")),
        key=lambda one: (one.__module__, one.__name__),
    )


@pytest.mark.parametrize("one", _dataclasses(), ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_a_dataclass_that_holds_a_frame_or_an_array_does_not_show_it(one):
    generated = "__repr__" in vars(one) and hasattr(vars(one)["__repr__"], "__wrapped__")
    shown = [f.name for f in dataclasses.fields(one) if f.repr and HOLDS_DATA.search(str(f.type))]
    assert not (generated and shown), "leave these fields out of repr, or the class with repr=False"


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    n = 120
    frame = pd.DataFrame(
        {
            "income": rng.integers(1000, 2000, n).astype(float),
            "height": rng.normal(1.7, 0.1, n).round(2),
            "region": rng.choice(["north", "east", "south"], n),
            "grade": rng.choice(["low", "medium", "high"], n),
            "name": [f"canary{i}" for i in range(n)],
        }
    )
    frame["twice"] = 2 * frame.income
    frame.loc[7, ["income", "height", "region", "twice"]] = [98765.25, 0.8765, "canary", 98765.5]
    return frame


@pytest.fixture(scope="module")
def results() -> dict[str, object]:
    """One of everything that a user of the library is given, made of data with canaries."""
    frame = _frame()
    original = Microdata.from_frame(frame.drop(columns="name"))
    encoder = Encoder.fit(original)
    found = profile(frame, rng=np.random.default_rng(0))
    numbers = original.select(["income", "height"])
    steps = [
        (original, MDAV(k=3)),
        (original, AdditiveNoise()),
        (original, SpectralSwap()),
        (numbers, OptimalBoxes(k=3)),
    ]
    releases = {params.method: anonymize(data, params, rng=np.random.default_rng(0)) for data, params in steps}
    settings = UtilitySettings(regressions=(Regression(outcome="income", predictors=("height", "grade")),))
    return {
        "microdata": original,
        "schema": original.schema,
        "inferred": Schema.infer(frame),
        "encoder": encoder,
        "blocks": encoder.blocks,
        "profile": found,
        "rules": find_rules(original, found.sums),
        "checks": releases["mdav"].check(),
        "utility": measure_utility(original, releases["mdav"].data, original, settings=settings),
        "risk": measure_risk(original, releases["mdav"].data, original, rng=np.random.default_rng(0)),
        **releases,
    }


@pytest.mark.parametrize("form", [repr, str, "summary", "_repr_html_"], ids=str)
def test_no_result_shows_a_canary(results, form):
    for name, result in results.items():
        if callable(form):
            text = form(result)
        elif hasattr(result, form):
            text = getattr(result, form)()
            assert text
        else:
            continue
        assert not [canary for canary in CANARIES if canary in text], name


@pytest.mark.parametrize("name", ["microdata", "schema", "mdav", "checks", "utility", "risk"])
def test_results_summarise_themselves_as_text_and_as_html(results, name):
    text, html = results[name].summary(), results[name]._repr_html_()
    assert len(text.splitlines()) > 2
    assert html.startswith("<table><caption>")
    assert html.count("<table>") == html.count("</table>") == len(text.split("\n\n"))
