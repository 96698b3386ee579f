"""Examples in docstrings are run, and what is public explains itself."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import anoncore

MODULES = [anoncore.__name__, *(m.name for m in pkgutil.walk_packages(anoncore.__path__, "anoncore."))]
PUBLIC = [
    pytest.param(module, name, id=f"{module}.{name}")
    for module in ("anoncore", "anoncore.methods", "anoncore.profile", "anoncore.risk", "anoncore.utility")
    for name in importlib.import_module(module).__all__
    if inspect.isfunction(one := getattr(importlib.import_module(module), name)) or inspect.isclass(one)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_help_describes_what_is_public(module, name):
    one = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(one) or ""
    # A dataclass without a docstring gets its signature for one.
    assert text
    assert not text.startswith(f"{name}(")
    summary = text.splitlines()[0]
    assert summary.endswith(".")
    assert len(summary.split()) > 2
