"""Write a changed plan into its file's text: what did not change stays as written, comments and order included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, TypeVar

from flows.plan.file import node_of
from flows.plan.layout import (
    Edit,
    apply_edits,
    edits_of_key,
    end_of,
    end_of_key,
    flow,
    inserted,
    line_end,
    line_start,
    value_of,
)
from flows.plan.model import Plan, PlanFile, judged
from tasks.common.digests import plain
from tasks.common.errors import Fault

T = TypeVar("T")
MARK = "  # by anonflow tune"


def with_changes(file: PlanFile, new: Plan) -> str:
    """Return the text of a plan's file, changed to say what ``new`` says.

    Steps, rules of edits that are left out, roles and precisions of variables, and ``by_design`` of the policy may
    differ; a changed line is marked.

    Raises
    ------
    Fault
        When the text cannot be changed so, or something else differs.
    """
    text, old = file.text, file.plan
    root = node_of(text)
    changes = [
        *_of_sequence(text, value_of(root, "steps"), old.steps, new.steps),
        *_of_sequence(text, value_of(root, "edits", "rules"), old.edits.rules, new.edits.rules),
        *_of_variables(text, root, old, new),
    ]
    if old.policy.by_design != new.policy.by_design:
        changes += edits_of_key(text, root, ("policy", "by_design"), list(new.policy.by_design), MARK)
    text = apply_edits(text, changes)
    written, _ = judged(text, file.path)
    if written is None or written.digest != new.digest:
        raise Fault("the changed plan cannot be written into the plan's file as it is laid out; change it by hand")
    return text


def _of_sequence(text: str, node: Any, old: Sequence[T], new: Sequence[T]) -> Iterator[Edit]:
    """Yield what replaces, adds and removes items of a list; the others stay as they are written."""
    if old == new or node is None:
        return
    if node.flow_style:
        yield Edit(node.start_mark.index, node.end_mark.index, flow([plain_step(one) for one in new]))
        return
    if not new:
        colon = text.index(":", line_start(text, end_of_key(text, node.value[0].start_mark.index)))
        yield Edit(colon + 1, colon + 1, " []")
    keys = [list(map(repr, items)) for items in (old, new)]
    for kind, i1, i2, j1, j2 in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        added = []
        for item, one in zip_longest(node.value[i1:i2], new[j1:j2]):
            if one is None:
                yield Edit(line_start(text, item.start_mark.index), line_end(text, end_of(item)) + 1, "")
            elif item is not None:
                end = end_of(item)
                mark = MARK if end == line_end(text, end) else ""
                yield Edit(item.start_mark.index, end, flow(plain_step(one)) + mark)
            else:
                added.append(flow(plain_step(one)) + MARK)
        if added:
            yield inserted(text, node, i2, added)


def _of_variables(text: str, root: Any, old: Plan, new: Plan) -> Iterator[Edit]:
    items = value_of(root, "variables").value
    for item, before, after in zip(items, old.variables, new.variables, strict=True):
        for key in ("role", "precision"):
            if getattr(before, key) != getattr(after, key):
                yield from edits_of_key(text, item, (key,), getattr(after, key), MARK)


def plain_step(value: Any) -> dict[str, Any]:
    """Return a step or a rule as a plan states it: without what has its default, its kind first."""
    kept = {f.name: getattr(value, f.name) for f in fields(value) if f.name == "method" or not _is_default(value, f)}
    return {name: plain(kept[name]) for name in sorted(kept, key=lambda name: name not in ("method", "edit"))}


def _is_default(value: Any, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return bool(getattr(value, field.name) == default)
