"""Commands and links in documents exist; no document names a machine's path or a registry."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from flows.cli import app
from tests.docs.conftest import ROOT

TRACKED = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard", "*.md", "docs/*"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()
TEXTS = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in TRACKED
    if name.endswith((".md", ".py", ".css", ".csv")) and (ROOT / name).exists()
}
PAGES = {name: text for name, text in TEXTS.items() if name.endswith(".md") and not name.startswith("tests/")}
COMMAND = typer.main.get_command(app)
GROUPS = [name for name, command in COMMAND.commands.items() if hasattr(command, "commands")]
CONSOLE = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# Places of one machine, and addresses from which packages are fetched.
PRIVATE = re.compile(r"/(?:work|root|tmp/wt|home/\w+)/|file://|https?://[^\s)]*(?:pypi|pythonhosted|registry|mirror)")


def commands(text: str) -> list[list[str]]:
    """Return the words of every command line in a document's console blocks; ``releases`` is the guide's alias."""
    lines = [line.removeprefix("$ ") for block in CONSOLE.findall(text) for line in block.splitlines()]
    found = [match for line in lines if (match := re.search(r"(?:^|; |&& )(?:anonflow|releases) ([a-z].*)", line))]
    return [["anonflow", *shlex.split(match[1], comments=True)] for match in found]


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    command, rest = COMMAND, words[1:]
    while hasattr(command, "commands"):
        name, *rest = rest
        assert name in command.commands, f"{' '.join(words)}: there is no command {name}"
        command = command.commands[name]
    return command, rest


def leaves(command: Any, path: str) -> list[str]:
    if not hasattr(command, "commands"):
        return [path]
    return [leaf for name, one in command.commands.items() for leaf in leaves(one, f"{path} {name}")]


WRITTEN = [(name, words) for name, text in PAGES.items() for words in commands(text)]


def test_there_are_commands_and_pages_to_check():
    assert len(WRITTEN) > 30
    assert {"README.md", "docs/tutorial/first-release.md"} <= {name for name, _ in WRITTEN}


@pytest.mark.parametrize(("page", "words"), WRITTEN, ids=lambda v: v if isinstance(v, str) else " ".join(v)[:60])
def test_commands_in_documents_exist_with_their_options(page, words):
    command, rest = resolve(words)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in rest if word.startswith("--") and word.split("=")[0] not in options | {"--help"}]
    assert unknown == [], page


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences_exist(page):
    for line in re.findall(r"`anonflow ([a-z][a-z -]*)", PAGES[page]):
        resolve(["anonflow", *line.split()[: 2 if line.split()[0] in GROUPS else 1]])
    named = re.findall(r"(?:^\$ |`)make ([a-z-]+)", PAGES[page], re.MULTILINE)
    assert set(named) <= TARGETS


def test_the_command_reference_covers_every_command(hooks):
    headings = set(re.findall(r"^#+ (anonflow .*)$", hooks.command_reference(), re.MULTILINE))
    assert set(leaves(COMMAND, "anonflow")) <= headings


@pytest.fixture(scope="module")
def generated(hooks):
    """Return the paths of the pages that are made when the site is built."""
    notebooks = {notebook.with_suffix(suffix) for notebook in hooks.NOTEBOOKS for suffix in (".md", ".ipynb")}
    return {ROOT / "docs" / path for path in hooks.generated_pages()} | notebooks


@pytest.mark.parametrize("page", PAGES)
def test_links_between_documents_are_alive(page, generated):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", PAGES[page], flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            continue
        full = Path((ROOT / page).parent / path).resolve()
        assert full.exists() or full in generated, f"{page}: {target}"
        if anchor and full.suffix == ".md" and full.exists():
            headings = re.findall(r"^#+ (.*)$", full.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}, (
                f"{page}: {target}"
            )


@pytest.mark.parametrize("name", TEXTS)
def test_no_document_names_a_machine_or_a_registry(name):
    assert PRIVATE.findall(TEXTS[name]) == []


def test_the_python_example_of_the_readme_runs():
    [example] = re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    assert len(names["release"].data) == 3
