"""A plan's file: YAML that can do no harm, with the line on which everything stands."""

from __future__ import annotations

import os
import stat
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


def read_text(path: Path) -> str:
    """Return the text of a plan's file.

    Raises `Refused` when it is not there, no file, too large, or no UTF-8 text.
    """
    shown, problem = f"plan {cut(visible(path.name))}", ""
    try:
        # A pipe would wait for ever, and a device might never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                problem = "cannot be read as a file"
            elif len(content := file.read(MAX_BYTES + 1)) > MAX_BYTES:
                problem = f"is larger than {MAX_BYTES // 1_000_000} MB, which no plan needs"
            else:
                return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        problem = "does not exist"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except (OSError, ValueError):
        problem = "cannot be read as a file"
    raise Refused(f"{shown} {problem}")


def parse(text: str, name: str) -> tuple[Any, dict[tuple[Any, ...], int]]:
    """Return the document and the line on which each of its parts stands."""
    problem, loader = "", None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            problem = "is empty"
        else:
            lines: dict[tuple[Any, ...], int] = {}
            _note_lines(node, (), lines)
            return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        problem = _unreadable(error)
    except (yaml.YAMLError, ValueError, RecursionError):
        problem = "is not readable YAML"
    finally:
        if loader is not None:
            loader.dispose()
    raise Refused(f"plan {name} {problem}")


def _unreadable(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}" if mark else ""
    return cut(f"is not readable YAML{where}: {visible(error.problem or 'check the layout')}", LONGEST_PROBLEM)


def yaml_value(text: str) -> Any:
    """Return a value as a plan would have it.

    Raises `ValueError` when it is not readable as one.
    """
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
        problem = ""
        if self._depth > MAX_DEPTH:
            problem = f"lists and keys inside each other more than {MAX_DEPTH} times"
        elif self._nodes > MAX_NODES:
            problem = f"more than {MAX_NODES} values, which no plan needs"
        if problem:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        node = self._compose(parent, index)
        self._depth -= 1
        return node

    def _compose(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed in a plan", problem_mark=event.start_mark
            )
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
        return node

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            problem = ""
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key must be one word or text"
            elif key.tag != "tag:yaml.org,2002:str":
                problem = f"the key {cut(key.value)} is not text to YAML; quote it"
            elif key.value in seen:
                problem = f"the key {cut(key.value)} stands twice"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        read = not (isinstance(node, yaml.ScalarNode) and node.tag in NUMBERS and len(node.value) > MAX_NUMBER)
        try:
            value = super().construct_object(node, deep) if read else None
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
            read = False
        if not read or isinstance(value, bytes):
            problem = "a value that YAML takes for a number or a date, and cannot read; quote it if it is text"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(value, int) and abs(value) >= MAX_WHOLE:
            problem = "a number with more than 18 digits, which no plan needs"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return value


# To a number in groups of sixty, what is read grows with the square of its length.
NUMBERS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def _note_lines(node: Any, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> None:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note_lines(value, (*at, key.value), lines)
            lines[(*at, key.value)] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _note_lines(value, (*at, number), lines)


def odd_values(value: Any, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> list[str]:
    """Return what is said to readers and would write to their terminals, and codes that are none.

    YAML makes truth values of yes and no.

    Such a list is then replaced by plain codes, so that the rest of the plan can be judged too.
    """
    if isinstance(value, dict):
        return [p for key, part in value.items() for p in odd_values(part, (*at, key), lines)]
    if isinstance(value, str) and at[-1:] and at[-1] in TEXTS and CONTROL.search(value):
        return [f"line {lines[at]}: {_shown(at)}: {NO_CONTROL}"]
    if not isinstance(value, list):
        return []
    if at and at[-1] in CODES and not all(_is_code(v) for v in value):
        value[:] = [str(i) for i in range(len(value))]
        return [f"line {lines[at]}: {_shown(at)}: {NO_CODE}"]
    if at[-1:] == ("levels",) and any(odd(v) for v in value if isinstance(v, str)):
        return [f"line {lines[at]}: {_shown(at)}: {NO_CONTROL}"]
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


WORDS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "extra_forbidden": "is not a key that stands here; check its spelling",
    "unexpected_keyword_argument": "is not a key that stands here; check its spelling",
    "model_type": "must hold keys with values",
    "model_attributes_type": "must hold keys with values",
    "dataclass_type": "must hold keys with values",
    "dict_type": "must hold keys with values",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text; quote it",
    "union_tag_not_found": "does not say of which kind it is; add method (of a step) or edit (of a rule)",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "string_pattern_mismatch": "must have the form {pattern}",
    "string_too_short": "must have {min_length} characters at least",
    "string_too_long": "must have {max_length} characters at most",
    "too_short": "must not be empty",
    "too_long": "must hold {max_length} at most",
}


def sentences(error: ValidationError, lines: dict[tuple[Any, ...], int]) -> list[str]:
    """Return one sentence each; a list is not called empty because its items were refused."""
    found: list[Any] = error.errors(include_url=False, include_input=False)
    places = [e["loc"] for e in found]
    return [
        _sentence(e, lines)
        for e in found
        if e["type"] != "too_short"
        or not any(len(p) > len(e["loc"]) and p[: len(e["loc"])] == e["loc"] for p in places)
    ]


def _sentence(error: Any, lines: dict[tuple[Any, ...], int]) -> str:
    """Say where and what; parts of the place that the file does not have are tags of a union."""
    at: tuple[Any, ...] = ()
    for part in error["loc"]:
        if (*at, part) in lines:
            at = (*at, part)
    absent = error["type"].startswith("missing") and at[-1:] != error["loc"][-1:]
    place = (*at, error["loc"][-1]) if absent else at
    return f"line {lines[at]}: {_shown(place) or 'the plan'}: {in_words(error)}"


def in_words(error: Any) -> str:
    """Return what is wrong as a person would say it."""
    words = WORDS.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Value error, ")
    return words.format_map(error.get("ctx", {}))


def _shown(place: tuple[Any, ...]) -> str:
    """Return a place as a person counts: variables.3.name."""
    return ".".join(str(p + 1) if isinstance(p, int) else cut(visible(p)) for p in place)
