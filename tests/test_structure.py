"""Limits on the size and the coupling of the sources; contracts between layers are in pyproject.toml."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ROOT / "flows" / "commands"
SOURCES = ("anoncore", "expectations", "tasks", "flows")
MOST_PACKAGES = 15
MOST_ARROWS = 40
MOST_DICTIONARIES = 40
MOST_SUBSCRIPTS = 120
MOST_PARAMETERS = 6
MOST_LONG_SIGNATURES = 8
MOST_LONG_SIGNATURES_OF_ALL = 20
LONGEST_BODY = 60
# The length of nine bodies in ten, in lines without the docstring.
USUAL_BODY = 22

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def sorted_modules(graph: grimp.ImportGraph) -> tuple[str, ...]:
    """Return the modules in an order in which each follows those it imports; CycleError where there is none."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return tuple(TopologicalSorter(imports).static_order())


def package_arrows(graph: grimp.ImportGraph, root: str) -> set[tuple[str, str]]:
    """Return which packages of ``root`` import which others, each pair once."""
    parts = [module.split(".")[:2] for module in graph.modules]
    packages = {".".join(part) for part in parts if part[0] == root and len(part) == 2}
    return {
        (package, other)
        for package in packages
        for module in {package, *graph.find_descendants(package)}
        for imported in graph.find_modules_directly_imported_by(module)
        if (other := ".".join(imported.split(".")[:2])) in packages - {package}
    }


def body_lines(function: Function) -> int:
    """Return the lines of a function from its name to its end, without its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def parameters(function: Function) -> int:
    """Return how many parameters a function names."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports of ours, those inside functions and for types among them."""
    return grimp.build_graph(*SOURCES, cache_dir=None)


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """The syntax of each source file."""
    return {path: ast.parse(path.read_text()) for root in SOURCES for path in (ROOT / root).rglob("*.py")}


@pytest.fixture(scope="module")
def nodes(trees: dict[Path, ast.Module]) -> list[ast.AST]:
    """The syntax of all sources."""
    return [node for tree in trees.values() for node in ast.walk(tree)]


@pytest.fixture(scope="module")
def functions(nodes: list[ast.AST]) -> list[Function]:
    """All functions and methods."""
    return [node for node in nodes if isinstance(node, Function)]


def test_no_module_is_in_a_cycle_of_imports(graph: grimp.ImportGraph) -> None:
    ordered = sorted_modules(graph)
    assert ordered.index("anoncore.errors") < ordered.index("anoncore.registry") < ordered.index("flows.cli")


def test_a_cycle_inside_a_package_is_reported() -> None:
    graph = grimp.ImportGraph()
    graph.add_import(importer="package.one", imported="package.two")
    graph.add_import(importer="package.two", imported="package.one")
    with pytest.raises(CycleError, match=r"package\.one"):
        sorted_modules(graph)


def test_packages_of_tasks_and_the_imports_between_them_are_few(graph: grimp.ImportGraph) -> None:
    arrows = package_arrows(graph, "tasks")
    assert len(graph.find_children("tasks")) <= MOST_PACKAGES
    assert ("tasks.intake", "tasks.record") in arrows
    assert len(arrows) <= MOST_ARROWS, sorted(arrows)


def test_values_have_types_and_not_string_keys(nodes: list[ast.AST]) -> None:
    subscripts = [node for node in nodes if isinstance(node, ast.Subscript)]
    typed = [node for node in subscripts if isinstance(node.value, ast.Name) and node.value.id == "dict"]
    dictionaries = [node for node in typed if ast.unparse(node) == "dict[str, Any]"]
    # A `Literal` is a type: every method and every edit states its kind by one.
    keyed = [node for node in subscripts if not (isinstance(node.value, ast.Name) and node.value.id == "Literal")]
    by_name = [node for node in keyed if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)]
    assert 0 < len(dictionaries) <= MOST_DICTIONARIES
    assert 0 < len(by_name) <= MOST_SUBSCRIPTS


def test_functions_are_short(functions: list[Function]) -> None:
    lengths = sorted(map(body_lines, functions))
    too_long = [function.name for function in functions if body_lines(function) > LONGEST_BODY]
    assert not too_long
    assert lengths[int(0.9 * len(lengths))] <= USUAL_BODY


def test_functions_take_few_parameters(trees: dict[Path, ast.Module], functions: list[Function]) -> None:
    everywhere = [function.name for function in functions if parameters(function) > MOST_PARAMETERS]
    assert len(everywhere) <= MOST_LONG_SIGNATURES_OF_ALL, everywhere
    # Compiled kernels take arrays, or named tuples of them: numba knows no dataclass. A command takes its options.
    others = [tree for path, tree in trees.items() if not path.stem.endswith("_compiled") and path.parent != COMMANDS]
    own = [node for tree in others for node in ast.walk(tree) if isinstance(node, Function)]
    crowded = [function.name for function in own if parameters(function) > MOST_PARAMETERS]
    assert len(crowded) <= MOST_LONG_SIGNATURES, crowded


def test_long_bodies_and_signatures_are_measured_without_docstrings() -> None:
    (function,) = ast.parse('def f(a, /, b, *, c=(1,\n2)):\n    """One\n\n    two."""\n    return a\n').body
    assert isinstance(function, ast.FunctionDef)
    assert (body_lines(function), parameters(function)) == (3, 3)
