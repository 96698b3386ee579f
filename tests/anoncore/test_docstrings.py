"""Examples in docstrings are run, and what is public explains itself."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import anoncore

MODULES = [anoncore.__name__, *(m.name for m in pkgutil.walk_packages(anoncore.__path__, "anoncore."))]
PACKAGES = ("anoncore", "anoncore.methods", "anoncore.profile", "anoncore.risk", "anoncore.utility")
PUBLIC = [
    pytest.param(package, name, id=f"{package}.{name}")
    for package in PACKAGES
    for name, one in vars(importlib.import_module(package)).items()
    if (inspect.isfunction(one) or inspect.isclass(one)) and not name.startswith("_")
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
