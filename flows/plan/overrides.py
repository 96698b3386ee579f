"""Settings to try in place of a plan's steps, as the command line has them: ``method:key=value:key=value``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from anoncore.method import Method
from anoncore.registry import METHODS
from flows.plan.file import errors_of, yaml_value
from flows.plan.keys import keys_at
from flows.plan.model import Plan, PlanFile
from tasks.common.digests import digest_of
from tasks.common.errors import Refused, cut, visible
from tasks.masking.anonymize import Step
from tasks.policy.section import Measure

PLAN = "plan"
MAX_SETTINGS = 100
LONGEST = 500
MEASURES: tuple[Measure, ...] = get_args(Measure)
OPEN, CLOSE, QUOTES = "[{(", "]})", "'\""
_STEP: TypeAdapter[Any] = TypeAdapter(Step)


@dataclass(frozen=True)
class Setting:
    """Steps to try, under the name that the user gave them."""

    name: str
    steps: tuple[Method, ...]

    @property
    def label(self) -> str:
        """How a step of the run is called: method and parameters, the masking methods of the plan's own."""
        if self.name != PLAN:
            return " ".join(_parts(self.name, ":"))
        masking = [s.method for s in self.steps if not s.prepares]
        return f"{PLAN} ({', '.join(masking or [s.method for s in self.steps])})"


def settings_of(methods: Sequence[str], file: PlanFile) -> tuple[Setting, ...]:
    """Return the settings to try, the plan's own steps first.

    Parameters
    ----------
    methods : texts such as ``"spectral-swap, mdav:k=5"``, settings apart by spaces or commas, parameters by
        colons; without any, each method that masks records is tried at its defaults where it suits the table

    Raises
    ------
    Refused
        When a method or a parameter is not known, or a value is not allowed.

    Examples
    --------
    >>> [s.name for s in settings_of(["mdav:k=5"], file)]  # doctest: +SKIP
    ['plan', 'mdav:k=5']
    """
    plan = file.plan
    own = Setting(PLAN, plan.steps)
    texts = [text for given in methods for text in _parts(given, " ,\t\r\n")]
    if len(texts) > MAX_SETTINGS:
        raise Refused(f"--methods: {len(texts)} settings; at most {MAX_SETTINGS} are compared at once")
    if texts:
        settings = [Setting(text, _replaced(plan.steps, _step(text, plan.steps))) for text in texts]
    else:
        defaults = {name: method() for name, method in _masking().items() if _has_defaults(method)}
        tried = [Setting(name, _replaced(plan.steps, step)) for name, step in defaults.items()]
        settings = [s for s in tried if not candidate(plan, s, ()).problems(file.base)]
    once: dict[str, Setting] = {}
    for setting in (own, *settings):
        # Equal steps are tried once, under their first name.
        once.setdefault(digest_of([asdict(step) for step in setting.steps]), setting)
    return tuple(once.values())


def candidate(plan: Plan, setting: Setting, by_design: Sequence[str]) -> Plan:
    """Return the plan with other steps, and with a policy that acknowledges no more than they make void.

    Groups of identical records are always measured as acknowledged: what a setting lacks besides the
    acknowledgement is worth knowing. Whether a person must approve is no question to a setting.
    """
    void = {measure for step in setting.steps for measure in step.void_by_design}
    void &= acknowledged(plan, by_design) | {"uncertainty"}
    policy = plan.policy.model_copy(
        update={"by_design": tuple(m for m in MEASURES if m in void), "approval": "automatic"}
    )
    return plan.model_copy(update={"steps": setting.steps, "policy": policy})


def acknowledged(plan: Plan, by_design: Sequence[str]) -> set[str]:
    """Return the measures that the plan, or the user besides, acknowledges to say nothing."""
    return {*plan.policy.by_design, *by_design}


def _masking() -> dict[str, type[Method]]:
    """Return the methods that mask records, by name."""
    return {name: method for name, method in METHODS.items() if not method.prepares}


def _has_defaults(method: type[Method]) -> bool:
    parameters = fields(method)
    return not any(f.default is MISSING and f.default_factory is MISSING for f in parameters)


def _replaced(steps: tuple[Method, ...], new: Method) -> tuple[Method, ...]:
    """Return the steps with ``new`` for the one of its method, if it prepares, else for all that mask records."""
    if new.prepares:
        return tuple(new if step.method == new.method else step for step in steps)
    masking = [i for i, step in enumerate(steps) if not step.prepares]
    at = masking[0] if masking else len(steps)
    before, after = steps[:at], [step for i, step in enumerate(steps[at:], start=at) if i not in masking]
    return (*before, new, *after)


def _prepared(steps: Sequence[Method]) -> dict[str, Method]:
    """Return the steps that prepare records, by method, where there is one of it."""
    counts = Counter(step.method for step in steps)
    return {step.method: step for step in steps if step.prepares and counts[step.method] == 1}


def _step(text: str, steps: Sequence[Method]) -> Any:
    """Return the parameters that ``method:key=value:key=value`` states; those that prepare keep the others."""
    method, *pairs = _parts(text, ":") or [""]
    preparing = _prepared(steps)
    known = {**_masking(), **{name: type(step) for name, step in preparing.items()}}
    if method not in known:
        raise Refused(
            f"--methods: {_shown(method)!r} is no method that masks records, and no single step of the plan that "
            f"prepares them; {_one_of(known)}"
        )
    allowed = [f.name for f in fields(known[method]) if f.name != "method"]
    stated = {"method": method}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key not in allowed or not equals or key in stated:
            raise Refused(
                f"--methods: {_shown(pair)!r} does not set a parameter of {method} once, as key=value; "
                f"{_one_of(allowed)}"
            )
        stated[key] = _value(text, value)
    try:
        return _STEP.validate_python((asdict(preparing[method]) if method in preparing else {}) | stated)
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, e.place[1:]))}: {e.in_words}".removeprefix(": ")
            for e in errors_of(error, partial(keys_at, Step))
        ]
    raise Refused(f"--methods: {_shown(text)}: {cut('; '.join(map(visible, wrong)), LONGEST)}")


def _value(text: str, value: str) -> Any:
    """Read a value as the plan would."""
    try:
        return yaml_value(value)
    except ValueError:
        pass
    raise Refused(f"--methods: {_shown(text)}: {_shown(value)!r} is not a value that YAML can read")


def _shown(text: str) -> str:
    return cut(visible(text))


def _one_of(names: Iterable[str]) -> str:
    return f"choose from {', '.join(names)}"


def _parts(text: str, marks: str) -> list[str]:
    """Return the parts of a text between any of ``marks`` outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        else:
            depth += (letter in OPEN) - (letter in CLOSE)
        if letter in marks and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]
