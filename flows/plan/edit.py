"""Write a changed plan into its file's text: what did not change stays as written, comments and order included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, TypeVar

import yaml

from flows.plan.file import node_of, parse
from flows.plan.model import Plan
from tasks.common.digests import plain
from tasks.common.errors import Fault

T = TypeVar("T")
MARK = "  # by anonflow tune"


@dataclass(frozen=True)
class _Edit:
    """Characters of a text to replace."""

    start: int
    end: int
    text: str


def with_changes(text: str, old: Plan, new: Plan) -> str:
    """Return the text of a plan's file, changed to say what ``new`` says.

    Steps, rules of edits that are left out, roles and precisions of variables, and ``by_design`` of the policy may
    differ; a changed line is marked.

    Raises
    ------
    Fault
        When the text cannot be changed so, or something else differs.
    """
    root = node_of(text)
    changes = [
        *_of_sequence(text, _value(root, "steps"), old.steps, new.steps),
        *_of_sequence(text, _value(root, "edits", "rules"), old.edits.rules, new.edits.rules),
        *_of_variables(text, root, old, new),
    ]
    if old.policy.by_design != new.policy.by_design:
        changes += _of_key(text, root, ("policy", "by_design"), list(new.policy.by_design))
    for one in sorted(changes, key=lambda one: one.start, reverse=True):
        text = text[: one.start] + one.text + text[one.end :]
    if Plan.model_validate(parse(text, new.name)[0]).digest != new.digest:
        raise Fault("the changed plan cannot be written into the plan's file as it is laid out; change it by hand")
    return text


def _value(node: Any, *keys: str) -> Any:
    """Return the node under some keys; None where there is none."""
    for key in keys:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node


def _of_sequence(text: str, node: Any, old: Sequence[T], new: Sequence[T]) -> Iterator[_Edit]:
    """Yield what replaces, adds and removes items of a list; the others stay as they are written."""
    if old == new or node is None:
        return
    if node.flow_style:
        yield _Edit(node.start_mark.index, node.end_mark.index, _flow([_stated(one) for one in new]))
        return
    if not new:
        colon = text.index(":", _line_start(text, _end_of_key(text, node.value[0].start_mark.index)))
        yield _Edit(colon + 1, colon + 1, " []")
    keys = [list(map(repr, items)) for items in (old, new)]
    for kind, i1, i2, j1, j2 in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        added = []
        for item, one in zip_longest(node.value[i1:i2], new[j1:j2]):
            if one is None:
                yield _Edit(_line_start(text, item.start_mark.index), _line_end(text, _end(item)) + 1, "")
            elif item is not None:
                end = _end(item)
                mark = MARK if end == _line_end(text, end) else ""
                yield _Edit(item.start_mark.index, end, _flow(_stated(one)) + mark)
            else:
                added.append(_flow(_stated(one)) + MARK)
        if added:
            yield _inserted(text, node, i2, added)


def _inserted(text: str, node: Any, position: int, items: Iterable[str]) -> _Edit:
    """Return what adds items of a block list before a position, above the comments of the item that is there."""
    first = node.value[0].start_mark.index
    indent = " " * (text.rfind("-", _line_start(text, first), first) - _line_start(text, first))
    at = _line_end(text, _end(node.value[position - 1])) if position else _end_of_key(text, first)
    return _Edit(at, at, "".join(f"\n{indent}- {item}" for item in items))


def _end_of_key(text: str, first: int) -> int:
    """Return the end of the line above a list's first item and the comments above it."""
    at = _line_start(text, first)
    while at and text[_line_start(text, at - 1) : at].strip()[:1] in ("", "#"):
        at = _line_start(text, at - 1)
    return max(0, at - 1)


def _of_variables(text: str, root: Any, old: Plan, new: Plan) -> Iterator[_Edit]:
    items = _value(root, "variables").value
    for item, before, after in zip(items, old.variables, new.variables, strict=True):
        for key in ("role", "precision"):
            if getattr(before, key) != getattr(after, key):
                yield from _of_key(text, item, (key,), getattr(after, key))


def _of_key(text: str, node: Any, keys: tuple[str, ...], value: Any) -> Iterator[_Edit]:
    """Yield what sets the value under some keys of a mapping, which are added where they are absent."""
    first, *rest = keys
    inner = _value(node, first)
    if inner is not None and rest and inner.value:
        yield from _of_key(text, inner, tuple(rest), value)
        return
    for key in reversed(rest):
        value = {key: value}
    if inner is not None:
        yield _Edit(inner.start_mark.index, _end(inner), _flow(value))
    elif node.flow_style:
        at = node.end_mark.index - 1
        yield _Edit(at, at, f", {first}: {_flow(value)}")
    else:
        at = _line_end(text, _end(node))
        yield _Edit(at, at, f"\n{' ' * node.start_mark.column}{first}: {_flow(value)}{MARK}")


def _end(node: Any) -> int:
    """Return where the text of a node ends; to YAML a block ends where the next thing begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _stated(value: Any) -> dict[str, Any]:
    """Return a step or a rule as a plan states it: without what has its default, its kind first."""
    kept = {f.name: getattr(value, f.name) for f in fields(value) if f.name == "method" or not _is_default(value, f)}
    return {name: plain(kept[name]) for name in sorted(kept, key=lambda name: name not in ("method", "edit"))}


def _is_default(value: Any, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return bool(getattr(value, field.name) == default)


def _flow(value: Any) -> str:
    """Return a value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")
