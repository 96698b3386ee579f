"""A plan's file: YAML that can do no harm, with the line of every value."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tasks.common.errors import CONTROL, Refused, cut, odd, visible

MAX_BYTES = 5_000_000
MAX_WHOLE = 10**18
MAX_NODES = 200_000
MAX_DEPTH = 30
MAX_NUMBER = 1000
LONGEST_PROBLEM = 500

# Keys and positions that lead to a value, and the line of each value.
Place = tuple[Any, ...]
Lines = dict[Place, int]


def read_text(path: Path, what: str = "plan") -> str:
    """Return the text of a file of a plan; raises `Refused` when there is none, or it is too large or not UTF-8."""
    shown, problem = f"{what} {cut(visible(path.name))}", ""
    try:
        # A pipe would wait for ever, and a device might never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                problem = "cannot be read as a file"
            elif len(content := file.read(MAX_BYTES + 1)) > MAX_BYTES:
                problem = f"is larger than {MAX_BYTES // 1_000_000} MB, which no {what} needs"
            else:
                return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        problem = "does not exist"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except (OSError, ValueError):
        problem = "cannot be read as a file"
    raise Refused(f"{shown} {problem}")


def parse(text: str, name: str) -> tuple[Any, Lines]:
    """Return the document and the line of each of its parts."""
    problem, loader = "", None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            return loader.construct_document(node), dict(_lines_of(node, ()))
        problem = "is empty"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        problem = f"is not readable YAML{where}: {visible(error.problem or 'check the layout')}"
    except (yaml.YAMLError, ValueError, RecursionError):
        problem = "is not readable YAML"
    finally:
        if loader is not None:
            loader.dispose()
    raise Refused(f"plan {name} {cut(problem, LONGEST_PROBLEM)}")


def node_of(text: str) -> yaml.Node | None:
    """Return the document that `parse` has read as a tree of nodes, each with its place in the text."""
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def yaml_value(text: str) -> Any:
    """Return a value as a plan would have it; raises `ValueError` when it is not readable as one."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader without aliases
    except (yaml.YAMLError, RecursionError):
        pass
    raise ValueError("not readable YAML")


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which can be made to grow without bound, and without doubled keys."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"lists and keys inside each other more than {MAX_DEPTH} times")
        if self._nodes > MAX_NODES:
            self._refuse(f"more than {MAX_NODES} values, which no plan needs")
        if self.check_event(yaml.AliasEvent):
            self._refuse("aliases (*name) are not allowed in a plan")
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
        self._depth -= 1
        return node

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse("a key must be one word or text", key)
            elif key.tag != "tag:yaml.org,2002:str":
                self._refuse(f"the key {cut(key.value)} is not text to YAML; quote it", key)
            elif key.value in seen:
                self._refuse(f"the key {cut(key.value)} is given twice", key)
            seen.add(key.value)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        readable = not (isinstance(node, yaml.ScalarNode) and node.tag in NUMBERS and len(node.value) > MAX_NUMBER)
        value: Any = None
        try:
            value = super().construct_object(node, deep) if readable else None
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
            readable = False
        if not readable or isinstance(value, bytes):
            self._refuse("a value that YAML takes for a number or date and cannot read; quote it if it is text", node)
        if isinstance(value, int) and abs(value) >= MAX_WHOLE:
            self._refuse("a number with more than 18 digits, which no plan needs", node)
        return value

    def _refuse(self, problem: str, node: Any = None) -> None:
        """Refuse the document because of a node, by default the one that begins here."""
        mark = (self.peek_event() if node is None else node).start_mark  # type: ignore[no-untyped-call]
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


# To a number in groups of sixty, what is read grows with the square of its length.
NUMBERS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def _lines_of(node: Any, at: Place, line: int | None = None) -> Iterator[tuple[Place, int]]:
    """Yield every place of a document with its line; a value has the line of its key."""
    yield at, (node.start_mark.line if line is None else line) + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _lines_of(value, (*at, key.value), key.start_mark.line)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _lines_of(value, (*at, number))


def odd_values(value: Any, at: Place, lines: Lines) -> list[str]:
    """Return texts that could control a terminal, and codes that are none (YAML makes truth values of yes and no).

    Such a list is then replaced by plain codes, so that the rest of the plan can be judged too.
    """
    if isinstance(value, dict):
        return [p for key, part in value.items() for p in odd_values(part, (*at, key), lines)]
    if isinstance(value, str) and at[-1:] and at[-1] in TEXTS and CONTROL.search(value):
        return [f"line {lines[at]}: {place_in_words(at)}: {NO_CONTROL}"]
    if not isinstance(value, list):
        return []
    if at and at[-1] in CODES and not all(_is_code(v) for v in value):
        value[:] = [str(i) for i in range(len(value))]
        return [f"line {lines[at]}: {place_in_words(at)}: {NO_CODE}"]
    if at[-1:] == ("levels",) and any(odd(v) for v in value if isinstance(v, str)):
        return [f"line {lines[at]}: {place_in_words(at)}: {NO_CONTROL}"]
    return [p for i, part in enumerate(value) for p in odd_values(part, (*at, i), lines)]


TEXTS = ("title", "description", "contact", "licence", "individual_protection_reason", "experiment")
NO_CONTROL = "must not hold control characters, which a terminal or a reader takes for something else"
CODES = ("levels", "missing", "values")
NO_CODE = (
    "must hold numbers or text; quote what YAML takes for something else (yes, no, true, null, dates), "
    "and write the truth values of a column as 0 and 1"
)


def _is_code(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


# Sentences by kind of error, a kind with its variants separated by spaces.
_SENTENCES = {
    "missing missing_argument missing_keyword_only_argument": "is missing",
    "extra_forbidden unexpected_keyword_argument": "is not a key here{keys}",
    "model_type model_attributes_type dataclass_type dict_type": "must hold keys with values",
    "tuple_type list_type": "must be a list",
    "string_type": "must be text; quote it",
    "union_tag_not_found": "does not state its kind; add method (of a step) or edit (of a rule)",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "literal_error enum": "must be {expected}",
    "int_type int_parsing int_from_float": "must be a whole number",
    "float_type float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type bool_parsing": "must be true or false",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have {min_length} characters at least",
    "string_too_long": "must have {max_length} characters at most",
    "too_short": "must not be empty",
    "too_long": "must hold {max_length} at most",
}
WORDS = {kind: sentence for kinds, sentence in _SENTENCES.items() for kind in kinds.split()}


@dataclass(frozen=True)
class PlanError:
    """What pydantic found wrong: its kind, where, and what is wrong as a person would say it."""

    kind: str
    place: Place
    in_words: str


def errors_of(error: ValidationError, keys_at: Callable[[Place], Iterable[str]]) -> list[PlanError]:
    """Return pydantic's errors; the first unknown key of a place comes with those that are allowed there."""
    errors: list[PlanError] = []
    stated: set[Place] = set()
    for one in error.errors(include_url=False, include_input=False):
        kind, place = one["type"], one["loc"]
        words, keys = WORDS.get(kind), ""
        if words is not None and words.endswith("{keys}") and place[:-1] not in stated:
            stated.add(place[:-1])
            keys = f"; allowed: {', '.join(keys_at(place[:-1]))}"
        known = None if words is None else words.format_map({**one.get("ctx", {}), "keys": keys})
        errors.append(PlanError(kind, place, known or one["msg"].removeprefix("Value error, ")))
    return errors


def sentences(error: ValidationError, lines: Lines, keys_at: Callable[[Place], Iterable[str]]) -> list[str]:
    """Return one sentence each; a list is not called empty because its items were refused.

    ``keys_at`` gives the keys that are allowed at a place.
    """
    errors = errors_of(error, keys_at)
    places = [e.place for e in errors]

    def holds_refused(at: Place) -> bool:
        return any(len(place) > len(at) and place[: len(at)] == at for place in places)

    return [_sentence(e, lines) for e in errors if e.kind != "too_short" or not holds_refused(e.place)]


def _sentence(error: PlanError, lines: Lines) -> str:
    """Return where and what; parts of the place that the file does not have are tags of a union."""
    at: Place = ()
    for part in error.place:
        if (*at, part) in lines:
            at = (*at, part)
    absent = error.kind.startswith("missing") and at[-1:] != error.place[-1:]
    place = (*at, error.place[-1]) if absent else at
    return f"line {lines[at]}: {place_in_words(place) or 'the plan'}: {error.in_words}"


def place_in_words(place: Place) -> str:
    """Return a place as a person counts: variables.3.name."""
    return ".".join(str(p + 1) if isinstance(p, int) else cut(visible(p)) for p in place)
