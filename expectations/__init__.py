"""Great Expectations at the edge: suites built from a schema and its edits, reports without values.

Importing this package does not import Great Expectations, which takes seconds; its functions do.
"""

from expectations.report import RuleOutcome, ValidationReport, validate
from expectations.suite import Rule, Suite

__all__ = ["Rule", "RuleOutcome", "Suite", "ValidationReport", "validate"]
