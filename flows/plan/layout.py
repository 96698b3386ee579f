"""Change single values in a plan's text: what does not change stays as written, comments and order included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from flows.plan.file import Place, node_of
from tasks.common.errors import Fault


@dataclass(frozen=True)
class Edit:
    """Characters of a text to replace."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with edits carried out, which must not overlap."""
    for one in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: one.start] + one.text + text[one.end :]
    return text


def with_value(text: str, place: Place, value: Any) -> str:
    r"""Return the text with a value at a place; sections and keys on the way to it are added where they are absent.

    Examples
    --------
    >>> with_value("steps:\n  - {method: mdav, k: 5}  # five\n", ("steps", 0, "k"), 7)
    'steps:\n  - {method: mdav, k: 7}  # five\n'
    """
    node: Any = node_of(text)
    keys = list(place)
    while keys and isinstance(keys[0], int):
        node = _item(node, keys.pop(0))
    while len(keys) > 1 and isinstance(value_of(node, keys[0]), yaml.Node):
        inner = value_of(node, keys[0])
        if not inner.value:
            break
        node = inner
        keys.pop(0)
        while keys and isinstance(keys[0], int):
            node = _item(node, keys.pop(0))
    if not keys:
        return apply_edits(text, [Edit(node.start_mark.index, end_of(node), flow(value))])
    if any(isinstance(key, int) for key in keys):
        raise Fault("a plan has no value at that place")
    return apply_edits(text, edits_of_key(text, node, tuple(keys), value))


def without_value(text: str, place: Place) -> str:
    """Return the text without the item or the key at a place, its line's comment included."""
    parent: Any = node_of(text)
    for part in place[:-1]:
        parent = _item(parent, part) if isinstance(part, int) else value_of(parent, part)
    spans = [(_start(item), _last(item)) for item in parent.value]
    at = place[-1] if isinstance(place[-1], int) else [key.value for key, _ in parent.value].index(place[-1])
    if parent.flow_style:
        return apply_edits(text, [_cut_from_flow(spans, at)])
    if len(spans) == 1:
        raise Fault("the last item of a list or section is not removed; write an empty one in its place")
    start = line_start(text, spans[at][0].start_mark.index)
    return apply_edits(text, [Edit(start, line_end(text, end_of(spans[at][1])) + 1, "")])


def with_item(text: str, place: Place, position: int, value: Any) -> str:
    """Return the text with an item more in the list at a place, before the item that is at ``position`` now."""
    node: Any = node_of(text)
    for part in place:
        node = value_of(node, part)
    if node is None or not node.value:
        return with_value(text, place, [value])
    if not node.flow_style:
        return apply_edits(text, [inserted(text, node, position, [flow(value)])])
    if position < len(node.value):
        at = node.value[position].start_mark.index
        return apply_edits(text, [Edit(at, at, f"{flow(value)}, ")])
    at = end_of(node.value[-1])
    return apply_edits(text, [Edit(at, at, f", {flow(value)}")])


def value_of(node: Any, *keys: Any) -> Any:
    """Return the node under some keys; None where there is none."""
    for key in keys:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node


def edits_of_key(text: str, node: Any, keys: tuple[str, ...], value: Any, mark: str = "") -> Iterator[Edit]:
    """Yield what sets the value under some keys of a mapping, which are added where they are absent."""
    first, *rest = keys
    inner = value_of(node, first)
    if inner is not None and rest and inner.value:
        yield from edits_of_key(text, inner, tuple(rest), value, mark)
        return
    for key in reversed(rest):
        value = {key: value}
    if inner is not None:
        yield Edit(inner.start_mark.index, end_of(inner), flow(value))
    elif node.flow_style:
        at = node.end_mark.index - 1
        yield Edit(at, at, f", {first}: {flow(value)}" if node.value else f"{first}: {flow(value)}")
    else:
        at = line_end(text, end_of(node))
        yield Edit(at, at, f"\n{' ' * node.start_mark.column}{first}: {flow(value)}{mark}")


def inserted(text: str, node: Any, position: int, items: Iterable[str]) -> Edit:
    """Return what adds items to a block list before a position, above the comments of the item that is there."""
    first = node.value[0].start_mark.index
    indent = " " * (text.rfind("-", line_start(text, first), first) - line_start(text, first))
    at = line_end(text, end_of(node.value[position - 1])) if position else end_of_key(text, first)
    return Edit(at, at, "".join(f"\n{indent}- {item}" for item in items))


def end_of_key(text: str, first: int) -> int:
    """Return the end of the line above a list's first item and the comments above it."""
    at = line_start(text, first)
    while at and text[line_start(text, at - 1) : at].strip()[:1] in ("", "#"):
        at = line_start(text, at - 1)
    return max(0, at - 1)


def end_of(node: Any) -> int:
    """Return where the text of a node ends; to YAML a block ends where the next thing begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    return end_of(_last(node.value[-1]))


def line_start(text: str, at: int) -> int:
    """Return where the line of a place begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return where the line of a place ends."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def flow(value: Any) -> str:
    """Return a value in one line of YAML, as it may stand within ``{}`` and ``[]``, too."""
    text = yaml.dump(
        [value], Dumper=_OneLine, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return text.removeprefix("[").removesuffix("]\n")


class _OneLine(yaml.SafeDumper):
    """Writes texts of several lines with escapes, in one."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if text and text.splitlines() != [text] else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_OneLine.add_representer(str, _quoted)


def _item(node: Any, position: Any) -> Any:
    if not isinstance(node, yaml.SequenceNode) or not 0 <= position < len(node.value):
        raise Fault("a plan has no value at that place")
    return node.value[position]


def _start(item: Any) -> Any:
    return item[0] if isinstance(item, tuple) else item


def _last(item: Any) -> Any:
    return item[1] if isinstance(item, tuple) else item


def _cut_from_flow(spans: list[tuple[Any, Any]], at: int) -> Edit:
    """Return what removes an item of a flow list or mapping, with the comma before or after it."""
    start, end = spans[at][0].start_mark.index, end_of(spans[at][1])
    if at + 1 < len(spans):
        return Edit(start, spans[at + 1][0].start_mark.index, "")
    return Edit(end_of(spans[at - 1][1]) if at else start, end, "")
