"""No module imports itself through others, not within a function, nor for types alone."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def _sorted_modules(graph: grimp.ImportGraph) -> tuple[str, ...]:
    """Return the modules in an order in which each follows those it imports; CycleError where there is none."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return tuple(TopologicalSorter(imports).static_order())


def test_no_module_of_ours_is_in_a_cycle_of_imports() -> None:
    graph = grimp.build_graph("anoncore", "expectations", "tasks", "flows", cache_dir=None)
    ordered = _sorted_modules(graph)
    assert ordered.index("anoncore.errors") < ordered.index("anoncore.registry") < ordered.index("flows.cli")


def test_a_cycle_inside_a_package_is_seen() -> None:
    graph = grimp.ImportGraph()
    graph.add_import(importer="package.one", imported="package.two")
    graph.add_import(importer="package.two", imported="package.one")
    with pytest.raises(CycleError, match=r"package\.one"):
        _sorted_modules(graph)
