"""Lookups with the tables they have learned, for the time of one validation: no expectation can carry them."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from anoncore.edits.lookup import LearnedLookup

# Tables are confidential; whatever a suite holds is published.
LEARNED: ContextVar[Mapping[str, LearnedLookup]] = ContextVar("LEARNED")
