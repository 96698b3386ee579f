"""MkDocs hooks: pages that are generated from the code when the site is built."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, content in generated_pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def generated_pages() -> dict[str, str]:
    """Return the generated pages by path: their Markdown text."""
    return {
        "how-to/deploy.md": _from_root("deploy/GUIDE.md", "how-to"),
        "reference/changelog.md": _from_root("CHANGELOG.md", "reference"),
        "reference/cli.md": command_reference(),
    }


def command_reference() -> str:
    """Return the reference of the command line, from the typer application."""
    from flows.cli import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="anonflow", title="Command line")
    return re.sub(r"^(#+) `anonflow (.*)`", r"\1 anonflow \2", text, flags=re.MULTILINE)


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
