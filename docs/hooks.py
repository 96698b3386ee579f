"""MkDocs hooks: pages and tables that are generated from the code when the site is built."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import griffe
import jupytext
import typer
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from typer.cli import get_docs_for_click

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs/tutorial").glob("*.py"))
PARAMETERS = "<!-- parameters -->"
SIMPLE = {str: "text", bool: "`true` or `false`", int: "whole number", float: "number", Path: "path", Any: "value"}
TYPE = re.compile(r"""(str|int|float|bool|tuple|mapping|list|sequence|array|\{|")|[A-Z]\w*(,|$)|\(""")
RESTRICTION = re.compile(r"(at least|above|at most|below) [\d.]+|[\d.]+ or more|(?<=in )[\[(][\d., ]+[\])]")
ENCODED = "Most methods work on an encoded matrix of the table: see [encoding](encoding.md).\n"
EXAMPLES = """Every page of a method has an example. It completes this plan of an invented table, which the program
below writes: `anonflow check` accepts each, and `anonflow run` masks with it.
"""
EXTERNAL = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?(https?:[^"' >]*)""")
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the executed notebooks."""
    pages: dict[str, str | bytes] = dict(generated_pages())
    for notebook in NOTEBOOKS:
        pages |= executed(notebook)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would load anything from elsewhere: the site must work without a network."""
    if match := EXTERNAL.search(output):
        raise PluginError(f"{page.file.src_uri} loads {match[1]}; put the file into docs/assets")
    return output


def executed(notebook: Path) -> dict[str, str | bytes]:
    """Execute a notebook and return its page and its images by path; a cell that fails three times ends the build.

    A fair release fails a gate about once in a hundred runs, and the cells after it need a release.
    """
    from nbconvert import MarkdownExporter

    name = f"tutorial/{notebook.stem}"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Commands print as into a file: without colours and progress.
    os.environ |= {"COLUMNS": "100", "TTY_COMPATIBLE": "0", "NO_COLOR": "1"}
    node = _executed(notebook, attempts=3)
    text, resources = MarkdownExporter().from_notebook_node(node, {"unique_key": notebook.stem})
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.DOTALL).replace(' border="1" class="dataframe"', "")
    images = {f"tutorial/{path}": data for path, data in resources["outputs"].items()}
    return {f"{name}.md": text, f"{name}.ipynb": jupytext.writes(jupytext.read(notebook), fmt="ipynb"), **images}


def _executed(notebook: Path, attempts: int) -> Any:
    from nbconvert.preprocessors import CellExecutionError, ExecutePreprocessor

    node = jupytext.read(notebook)
    execution = ExecutePreprocessor(timeout=600, kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            execution.preprocess(node, {"metadata": {"path": folder}})
    except CellExecutionError:
        if attempts == 1:
            raise
        return _executed(notebook, attempts - 1)
    return node


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put a method's parameters where its page asks for them; the guide for contributors quotes the mark."""
    if PARAMETERS in markdown and page.file.src_uri.startswith("reference/methods/"):
        return markdown.replace(PARAMETERS, method_parameters(Path(page.file.src_uri).stem))
    return markdown


def generated_pages() -> dict[str, str]:
    """Return the generated pages by path: their Markdown text."""
    return {
        "how-to/contribute.md": _from_root("CONTRIBUTING.md", "how-to"),
        "how-to/deploy.md": _from_root("deploy/GUIDE.md", "how-to"),
        "reference/api/methods.md": method_classes(),
        "reference/changelog.md": _from_root("CHANGELOG.md", "reference"),
        "reference/cli.md": command_reference(),
        "reference/gates.md": gate_reference(),
        "reference/methods/index.md": method_list(),
        "reference/plan.md": plan_reference(),
    }


def methods() -> dict[str, type]:
    """Return the parameter classes of all methods by the name that plans use."""
    from anoncore.registry import METHODS

    return dict(METHODS)


def command_reference() -> str:
    """Return the reference of the command line, from the typer application."""
    from flows.cli import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="anonflow", title="Command line")
    text = re.sub(r"^(#+) `anonflow (.*)`", r"\1 anonflow \2", text, flags=re.MULTILINE)
    return re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)


def plan_reference() -> str:
    """Return the reference of the plan file, from the plan's model."""
    from flows.plan.model import Plan

    text = ["# Plan file", "", "Every key of a plan. How to write one: [Write a plan](../how-to/plan.md).", ""]
    text += key_table(Plan)
    shown: set[type] = {Plan, *methods().values()}
    for name, field in Plan.model_fields.items():
        if name == "steps":
            text += ["", "## steps", "", "A list of at least one method, applied in this order:", ""]
            text += [f"- [`{method}`](methods/{method}.md): {_summary(model)}" for method, model in methods().items()]
        for model in _models(field.annotation):
            text += _section(model, f"## {name} {{ #{_anchor(model)} }}", shown)
    return "\n".join(text) + "\n"


def gate_reference() -> str:
    """Return the reference of the gates, from their registry."""
    from tasks.policy.gates import GATES

    text = ["# Gates", "", "The criteria of the policy, in the order of the report. How the figures are measured:"]
    text += ["[How risk and utility are measured](../explanation/risk.md)."]
    for gate in GATES:
        text += ["", f"## {gate.name[:1].upper()}{gate.name[1:]}", "", gate.description]
        if gate.limits:
            keys = ", ".join(f"`{key}`" for key in gate.limits.model_fields)
            text += ["", f"Its limit in the [policy](plan.md#policy): {keys}."]
    return "\n".join(text) + "\n"


def method_parameters(name: str) -> str:
    """Return the tables of a method's parameters."""
    model = methods()[name]
    shown = {model}
    inner = [line for part in _models(tuple(_annotations(model).values())) for line in _section(part, "", shown)]
    return "\n".join([*key_table(model), *inner])


class DescriptionsOnOneLine(griffe.Extension):
    """Show ``name : description`` in docstrings as a description, with the type and the default that the code states.

    griffe takes one default for all names that share a line.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the parameters and attributes of one docstring."""
        # The sections of the plan are models without parameters, and have a reference of their own.
        if obj.is_class and obj.path.startswith("tasks.") and not obj.parameters:
            return
        for section in obj.docstring.parsed if obj.docstring else ():
            if section.kind in (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes):
                for item in section.value:
                    if section.kind is griffe.DocstringSectionKind.parameters:
                        item.value = _code_default(obj, item)
                    stated = str(item.annotation or "")
                    if " " in stated and not (item.description and TYPE.match(stated)):
                        item.description = f"{stated} {item.description}".strip()
                        item.annotation = _code_annotation(obj, item.name)


def _code_default(obj: griffe.Object, item: Any) -> griffe.Expr | str | None:
    """Return a parameter's default by the code; what the docstring says of parameters that the code does not name."""
    try:
        return obj.parameters[item.name].default  # type: ignore[union-attr]
    except (AttributeError, KeyError):
        return item.value


def _code_annotation(obj: griffe.Object, name: str) -> griffe.Expr | str | None:
    try:
        return obj.parameters[name].annotation if obj.is_function else obj.members[name].annotation
    except (KeyError, AttributeError):
        return None


def method_list() -> str:
    """Return the list of the methods, from their registry."""
    rows = [f"| [{name}]({name}.md) | {_summary(model)} |" for name, model in methods().items()]
    table, plan = ((ROOT / "docs/reference/methods" / name).read_text() for name in ("people.py", "people.yaml"))
    text = ["# Methods", "", "| method | what it is |", "|---|---|", *rows, "", ENCODED, "## Examples", "", EXAMPLES]
    return "\n".join([*text, f"```yaml\n{plan}```\n", f"```python\n{table}```\n"])


def method_classes() -> str:
    """Return the reference of the methods' parameter classes, from their registry."""
    options = "    options: {heading_level: 2}"
    shown = [f"::: {model.__module__}.{model.__name__}\n{options}" for model in methods().values()]
    return "\n\n".join(["# anoncore.methods", *shown]) + "\n"


def _section(model: type, heading: str, shown: set[type]) -> list[str]:
    """Return a model's heading, description and table, then those of the models it consists of; each model once."""
    if model in shown:
        return []
    shown.add(model)
    text = ["", heading or f"### {_title(model)}", "", _summary(model), "", *key_table(model)]
    return text + [line for m in _models(tuple(_annotations(model).values())) for line in _section(m, "", shown)]


def key_table(model: type) -> list[str]:
    """Return the table of a model's keys: default, allowed values and meaning."""
    inherited = [base for base in model.__mro__ if base.__module__.split(".")[0] == model.__module__.split(".")[0]]
    sections = [s for base in inherited for s in griffe.parse_numpy(griffe.Docstring(_plain(base)), warnings=False)]
    of_keys = [s.value for s in sections if s.kind is griffe.DocstringSectionKind.parameters]
    stated = {parameter.name: parameter for parameters in of_keys for parameter in parameters}
    lines = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for key, annotation in _annotations(model).items():
        kind, meaning = (str(stated[key].annotation or ""), stated[key].description) if key in stated else ("", "")
        restriction = match[0] if TYPE.match(kind) and (match := RESTRICTION.search(kind)) else ""
        if not TYPE.match(kind):
            meaning = f"{kind} {meaning}"
        meaning = meaning.strip() or " ".join(_summary(m) for m in _models(annotation))
        cells = [
            f"`{key}`",
            _default(model, key),
            _values(model, key, annotation, restriction),
            meaning,
        ]
        lines.append("| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in cells) + " |")
    return lines


def _annotations(model: type) -> dict[str, Any]:
    """Return the resolved annotations of the keys that a plan may state."""
    if issubclass(model, BaseModel):
        return {key: field.annotation for key, field in model.model_fields.items()}
    hints = get_type_hints(model, include_extras=True)
    return {field.name: hints[field.name] for field in fields(model)}


def _models(annotation: Any) -> Iterator[type]:
    """Give the models and dataclasses inside an annotation, but for methods, which have pages of their own."""
    is_model = isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation))
    if is_model and annotation not in methods().values():
        yield annotation
    for inner in annotation if isinstance(annotation, tuple) else get_args(annotation):
        yield from _models(inner)


def _default(model: type, key: str) -> str:
    if issubclass(model, BaseModel):
        required, value = model.model_fields[key].is_required(), model.model_fields[key].default
    else:
        field = model.__dataclass_fields__[key]
        value = field.default if field.default_factory is MISSING else field.default_factory()
        required = value is MISSING
    if required or value is None:
        return "required" if required else "none"
    if isinstance(value, BaseModel | Mapping):
        return "`{}`"
    plain = list(value) if isinstance(value, tuple) else value
    return f"`{yaml.safe_dump(plain, default_flow_style=True).splitlines()[0]}`"


def _values(model: type, key: str, annotation: Any, restriction: str) -> str:
    """Return which values a key takes: by its annotation, its validation, and what its docstring adds."""
    limits = model.model_fields[key].metadata if issubclass(model, BaseModel) else []
    bounds = [f"{word} {getattr(m, name)}" for m in limits for name, word in BOUNDS.items() if hasattr(m, name)]
    return ", ".join(part for part in (_type(annotation), *bounds, restriction) if part)


def _type(annotation: Any) -> str:
    """Return an annotation in words."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(args[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (Union, types.UnionType):
        if set(methods().values()) <= set(args):
            return "[methods](#steps)"
        return " or ".join(dict.fromkeys(_type(a) for a in args if a is not type(None)))
    if origin is tuple:
        return f"list of {_type(args[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping to {_type(args[1])}"
    return SIMPLE.get(annotation) or f"[{_title(annotation)}](#{_anchor(annotation)})"


def _title(model: type) -> str:
    """Return the value of the key that selects a method or kind of edit, else the class's name in words."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__.removesuffix("Section")).lower()
    return next((str(getattr(model, key)) for key in ("method", "edit") if hasattr(model, key)), words)


def _anchor(model: type) -> str:
    return _title(model).replace(" ", "-")


def _plain(model: type) -> str:
    return re.sub(r"``([^`]*)``", r"`\1`", model.__doc__ or "")


def _summary(model: type) -> str:
    return " ".join(_plain(model).split("\n\n")[0].split())


def _from_root(source: str, folder: str) -> str:
    """Return a document outside docs/ as a page in ``folder``; links to files that are not pages become plain text."""
    text = (ROOT / source).read_text(encoding="utf-8")

    def relink(match: re.Match[str]) -> str:
        label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in path:
            return match[0]
        full = ((ROOT / source).parent / path).resolve()
        if not full.is_relative_to(ROOT / "docs"):
            return label
        up = "../" * len(Path(folder).parts)
        return f"[{label}]({up}{full.relative_to(ROOT / 'docs').as_posix()}{'#' if anchor else ''}{anchor})"

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", relink, text)
