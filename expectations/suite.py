"""Suites of expectations, built from a schema and its edits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anoncore.edits.kinds import ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import Edit, EditSet
from anoncore.edits.product import ProductEdit
from anoncore.edits.serialization import to_dict
from anoncore.errors import AnonymizationError
from anoncore.microdata import Schema, Variable

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

SUITE = "anonflow"


@dataclass(frozen=True)
class Rule:
    """One declared rule, and the expectation that checks it.

    Parameters
    ----------
    name : str
        An edit's own name; "schema: …" for what the schema implies.
    kind : "columns", "levels", "numbers", or the kind of edit
    description : in plain words, without a value
    expectation : the class that checks it, of `great_expectations.expectations` or `expectations.edits`
    arguments : what the class is built with, plain JSON
    """

    name: str
    kind: str
    description: str
    expectation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Suite:
    """Every rule that a schema and its edits state, in a fixed order, and the suite that checks them.

    Columns in order; for each variable that is released, numbers or levels, in column order; the
    edits in the order in which they were declared. Identifiers and households contribute their
    names alone, because what they hold is never released. The levels of other variables are
    metadata where they were stated; where they were observed, the schema handed in decides: a
    suite that is published with a release must be built from the release's own schema, so that
    it lists no level that the masking removed.
    """

    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, schema: Schema, edits: EditSet) -> Suite:
        """Return the suite of a completed schema and its edits.

        Raises
        ------
        AnonymizationError
            When two rules would share a name.

        Examples
        --------
        >>> [rule.name for rule in Suite.of(Schema([Variable("age", "continuous")]), EditSet()).rules]
        ['schema: columns', 'schema: age']
        """
        columns = Rule(
            "schema: columns",
            "columns",
            _columns(schema.names),
            "ExpectTableColumnsToMatchOrderedList",
            {"column_list": list(schema.names)},
        )
        rules = (columns, *(_variable_rule(v) for v in schema if v.is_masked), *map(_edit_rule, edits.edits))
        counts = Counter(rule.name for rule in rules)
        if duplicates := sorted(name for name, count in counts.items() if count > 1):
            raise AnonymizationError(f"rules share a name: {', '.join(duplicates)}; rename the edit")
        return cls(rules)

    def with_column(self, name: str) -> Suite:
        """Return the suite of the same table with one more column at its end, of which nothing else is expected."""
        columns, *rest = self.rules
        names = [*columns.arguments["column_list"], name]
        return Suite((replace(columns, description=_columns(names), arguments={"column_list": names}), *rest))

    def expectations(self) -> ExpectationSuite:
        """Return the suite of Great Expectations as it is read from `json`, attached to no context."""
        return _read(self.json)

    @cached_property
    def json(self) -> str:
        """The suite as JSON with sorted keys, the same text for the same rules, as it goes into the release.

        Each expectation is marked with its rule's name.

        Raises
        ------
        AnonymizationError
            When a rule is lost, in building the suite or in writing and reading it: Great Expectations
            drops expectations it does not know with no more than a line in its log.
        """
        # Both imports take seconds; the second registers the custom expectations.
        import great_expectations.expectations as core
        from great_expectations import ExpectationSuite

        from expectations import edits as custom

        built = []
        for rule in self.rules:
            expectation = getattr(custom, rule.expectation, None) or getattr(core, rule.expectation)
            built.append(expectation(**rule.arguments, meta={"rule": rule.name}))
        suite = ExpectationSuite(name=SUITE, expectations=built)
        text = json.dumps(suite.to_json_dict(), sort_keys=True, ensure_ascii=False, allow_nan=False)
        for action, checked in (("building", suite), ("reading", _read(text))):
            names = [e.meta["rule"] for e in checked.expectations]
            if names != [rule.name for rule in self.rules]:
                raise AnonymizationError(
                    f"{action} the suite kept {len(names)} of {len(self.rules)} rules; check the version of "
                    "great_expectations against the lock"
                )
        return text

    @property
    def digest(self) -> str:
        """The SHA-256 of `json`, in hexadecimal."""
        return hashlib.sha256(self.json.encode()).hexdigest()


def _columns(names: Sequence[str]) -> str:
    return f"the table has exactly the {len(names)} declared columns, in their order"


def _read(text: str) -> ExpectationSuite:
    from great_expectations import ExpectationSuite

    return ExpectationSuite(**json.loads(text))


def _variable_rule(variable: Variable) -> Rule:
    name, arguments = f"schema: {variable.name}", {"column": variable.name}
    if variable.levels is None:
        description = f"{variable.name} holds finite numbers where it is not empty"
        return Rule(name, "numbers", description, "ExpectColumnValuesToBeFiniteNumbers", arguments)
    description = f"{variable.name} is one of its {len(variable.levels)} levels where it is not empty"
    levels = {"value_set": list(variable.levels)}
    return Rule(name, "levels", description, "ExpectColumnValuesToBeInSet", arguments | levels)


def _edit_rule(edit: Edit) -> Rule:
    if isinstance(edit, SetEdit):
        arguments: dict[str, object] = {"column": edit.variable, "value_set": to_dict(edit)["values"]}
        return Rule(edit.name, edit.edit, describe(edit), "ExpectColumnValuesToBeInSet", arguments)
    arguments = {"edit": to_dict(edit)}
    return Rule(edit.name, edit.edit, describe(edit), f"Expect{edit.edit.capitalize()}Edit", arguments)


def describe(edit: Edit) -> str:
    """Return what an edit asks, in plain words: its variables and coefficients, but no value.

    Examples
    --------
    >>> describe(LinearEdit(name="total", terms={"income": 1, "wages": -1, "benefits": -1}))
    'income − wages − benefits equals 0'
    """
    if isinstance(edit, LinearEdit):
        relation = {"==": "equals", "<=": "is at most", ">=": "is at least"}[edit.relation]
        constant = "0" if edit.constant == 0 else "its stated constant"
        text = f"{_sum(edit)} {relation} {constant}" + (" within its tolerance" if edit.tolerance else "")
        return text + (f", where {_names(edit)} as stated" if edit.when else "")
    if isinstance(edit, RatioEdit):
        return f"{edit.numerator} / {edit.denominator} lies within its stated limits"
    if isinstance(edit, SetEdit):
        return f"{edit.variable} is one of {len(edit.values)} stated values"
    if isinstance(edit, ConditionalEdit):
        return f"where {_names(edit)} as stated, {_consequent(edit)}"
    if isinstance(edit, LookupEdit):
        return f"{edit.dependent} follows from {', '.join(edit.of)}"
    if isinstance(edit, ProductEdit):
        powers = " × ".join(name if power == 1 else f"{name}^{power:g}" for name, power in edit.of.items())
        rest = "" if edit.otherwise is None else ", or a stated number where that is none"
        return f"{edit.dependent} is {powers}, times its stated factor, within its tolerance{rest}"
    return f"{edit.variable} lies within its stated bounds"


def _sum(edit: LinearEdit) -> str:
    text = ""
    for name, coefficient in edit.terms.items():
        size = "" if abs(coefficient) == 1 else f"{abs(coefficient):g}·"
        text += (" − " if coefficient < 0 else " + ") + size + name
    return text.removeprefix(" + ").replace(" − ", "−", 1) if text.startswith(" − ") else text[3:]


def _names(edit: LinearEdit | ConditionalEdit) -> str:
    names = list(dict.fromkeys(c.variable for c in edit.when))
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _consequent(edit: ConditionalEdit) -> str:
    then = edit.then
    also = " or empty" if then.missing else ""
    if then.values is not None:
        return f"{then.variable} is one of {len(then.values)} stated value(s){also}"
    if then.lower is not None or then.upper is not None:
        return f"{then.variable} lies within its stated limits{also}"
    return f"{then.variable} is {'empty' if then.missing else 'not empty'}"
