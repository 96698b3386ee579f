"""Run a suite and report its outcome: counts, never values."""

from __future__ import annotations

import builtins
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from anoncore import errors
from anoncore.edits.lookup import LearnedLookup
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from expectations.learned import LEARNED
from expectations.suite import Rule, Suite

RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}
WHITELIST = ("element_count", "missing_count", "unexpected_count")


@dataclass(frozen=True)
class RuleOutcome:
    """The outcome of one rule.

    Parameters
    ----------
    name, description, kind : of the rule
    success : bool, False also when the rule could not be evaluated
    checked : records to which the rule applied; 1 for the table's columns
    violated : records that break it; 1 when the columns are wrong
    missing : records to which it did not apply
    error : class of what was raised while the rule was evaluated; the counts are then 0 and mean nothing
    """

    name: str
    description: str
    kind: str
    success: bool
    checked: int
    violated: int
    missing: int
    error: str | None


@dataclass(frozen=True)
class ValidationReport:
    """The outcome of every rule of a suite.

    Parameters
    ----------
    rules : in the order of the suite's rules
    suite_digest : `Suite.digest`
    """

    rules: tuple[RuleOutcome, ...]
    suite_digest: str

    @property
    def success(self) -> bool:
        """Whether every rule was evaluated and holds for every record."""
        return not self.violated

    @property
    def violated(self) -> tuple[RuleOutcome, ...]:
        """The rules that do not hold, or could not be evaluated."""
        return tuple(rule for rule in self.rules if not rule.success)

    @classmethod
    def of_parts(cls, reports: Sequence[ValidationReport]) -> ValidationReport:
        """Return the report of a table whose parts, one at least, were checked by the same suite.

        Raises
        ------
        AnonymizationError
            When a part was checked by another suite.
        """
        first = reports[0]
        if any(one.suite_digest != first.suite_digest for one in reports):
            raise AnonymizationError("the parts of a table were not checked by the same suite; nothing is released")
        return cls(tuple(map(_of_parts, zip(*(one.rules for one in reports), strict=True))), first.suite_digest)


def _of_parts(outcomes: Sequence[RuleOutcome]) -> RuleOutcome:
    """Return the outcome of one rule on all parts; the columns are the same in each."""
    add = max if outcomes[0].kind == "columns" else sum
    return replace(
        outcomes[0],
        success=all(one.success for one in outcomes),
        checked=add(one.checked for one in outcomes),
        violated=add(one.violated for one in outcomes),
        missing=add(one.missing for one in outcomes),
        error=next((one.error for one in outcomes if one.error), None),
    )


def validate(frame: pd.DataFrame, suite: Suite, edits: EditSet | None = None) -> ValidationReport:
    """Check a table against everything its schema and edits state.

    Parameters
    ----------
    frame : DataFrame, (N, n), as `Microdata.frame` or `Microdata.plain` give it; missing codes are
        empty cells already. Not modified.
    suite : Suite, of the table's completed schema and its edits
    edits : EditSet, optional
        Those of the suite, where lookups have learned their tables from another table, the source.

    Returns
    -------
    ValidationReport

    Raises
    ------
    AnonymizationError
        When rules are lost in building the suite, or come back without an outcome.

    Claim: nothing in the report, in a log or in an exception stems from a cell, beyond counts.

    Examples
    --------
    >>> validate(data.frame, Suite.of(data.schema, edits)).success  # doctest: +SKIP
    True
    """
    learned = {e.name: e for e in (edits or EditSet()).lookups if isinstance(e, LearnedLookup)}
    with _quiet(), _known(learned):
        results = _run(frame, suite.expectations())
        digest = suite.digest
    by_name = {result.expectation_config.meta["rule"]: result for result in results}
    if len(results) != len(suite.rules) or set(by_name) != {rule.name for rule in suite.rules}:
        raise AnonymizationError(
            f"validation returned {len(results)} outcomes for {len(suite.rules)} rules; check the version of "
            "great_expectations against the lock"
        )
    return ValidationReport(tuple(_outcome(rule, by_name[rule.name]) for rule in suite.rules), digest)


def _run(frame: pd.DataFrame, suite: Any) -> list[Any]:
    """Run the suite in a context that keeps nothing."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    source = context.data_sources.add_pandas("memory")
    try:
        table = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("all")
        batch = table.get_batch({"dataframe": frame})
        return list(batch.validate(suite, result_format=RESULT_FORMAT).results)
    finally:
        # Great Expectations keeps its latest context, and with it the table, until the next one.
        context.data_sources.delete("memory")


def _outcome(rule: Rule, result: Any) -> RuleOutcome:
    error = _error_class(result.exception_info)
    success = bool(result.success) and error is None
    if rule.kind == "columns":
        counts = (1, int(not success), 0) if error is None else (0, 0, 0)
    else:
        elements, missing, violated = (int((result.result or {}).get(key) or 0) for key in WHITELIST)
        counts = (elements - missing, violated, missing)
    return RuleOutcome(rule.name, rule.description, rule.kind, success, *counts, error)


def _error_class(info: Any) -> str | None:
    """Return the class of the first exception in ``info``, whose texts may quote the data.

    Great Expectations gives one flat mapping, or one for each metric that failed.
    """
    if not info:
        return None
    parts = [info] if "raised_exception" in info else list(info.values())
    raised = [p for p in parts if p.get("raised_exception")]
    if not raised:
        return None
    for line in str(raised[0].get("exception_traceback")).splitlines():
        match = re.match(r"(?:[\w.]+\.)?(?:RuntimeError: (\w+) inside the rule$|(\w+)(?::|$))", line)
        if match and (match[1] or match[2]) in _known_exceptions():
            return match[1] or match[2]
    return "Exception"


def _known_exceptions() -> set[str]:
    """Return names of exception classes; a name in a text counts only when it is one of them."""
    import great_expectations.exceptions

    modules = (builtins, errors, pd.errors, great_expectations.exceptions)
    return {
        name
        for module in modules
        for name, thing in vars(module).items()
        if isinstance(thing, type) and issubclass(thing, Exception)
    }


@contextmanager
def _known(learned: Mapping[str, LearnedLookup]) -> Iterator[None]:
    """Hand the tables of lookups to the expectations."""
    token = LEARNED.set(learned)
    try:
        yield
    finally:
        LEARNED.reset(token)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Great Expectations from logging, because it quotes exceptions."""
    logger = logging.getLogger("great_expectations")
    level, disabled = logger.level, logger.disabled
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.disabled = disabled
