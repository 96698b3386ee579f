"""Edits as custom expectations. Import this module late: it imports Great Expectations.

The rule itself is evaluated by `anoncore.edits`, here and everywhere else; an expectation carries
the edit as plain JSON and rebuilds it. A lookup is checked against the table that the validation was
given, else it asks that records which agree in the determinants agree in the dependent, as any reader
of a release can. Each rule costs one metric, which returns two counts: what violates it is never
collected, whatever result format is asked for, and an error inside a rule names its class and does
not quote the data.

The metrics are of the table, and not of several columns, because Great Expectations refuses those
over fewer than two columns, and a bound reads one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import numpy as np
import pandas as pd
from great_expectations.compatibility import pydantic
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from anoncore.edits.serialization import from_dict
from expectations.learned import LEARNED

EDIT = "table.edit_counts"
NUMBERS = "table.finite_number_counts"
ROWS = "table.row_count"

Counts = tuple[int, int]


class EditCounts(TableMetricProvider):  # type: ignore[misc]
    """Records to which an edit applies, and records that violate it."""

    metric_name = EDIT
    value_keys = ("edit",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Counts:
        def count() -> Counts:
            stated = from_dict(metric_value_kwargs["edit"])
            edit = LEARNED.get({}).get(stated.name, stated)
            frame = _table(execution_engine, metric_domain_kwargs)[list(dict.fromkeys(edit.variables))]
            return int(edit.applies(frame).sum()), int((~edit.holds(frame)).sum())

        return _without_data(count)


class FiniteNumberCounts(TableMetricProvider):  # type: ignore[misc]
    """Cells of a column that are not missing, and those of them that are no finite number."""

    metric_name = NUMBERS
    value_keys = ("column",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Counts:
        def count() -> Counts:
            column = _table(execution_engine, metric_domain_kwargs)[metric_value_kwargs["column"]]
            present = column.notna().to_numpy()
            values = pd.to_numeric(column, errors="coerce").to_numpy(dtype="float64", na_value=np.nan)
            return int(present.sum()), int((present & ~np.isfinite(values)).sum())

        return _without_data(count)


class _CountedExpectation(BatchExpectation):  # type: ignore[misc]
    """A rule that two counts decide; ``missing_count`` counts the records to which it does not apply."""

    counts: ClassVar[str] = ""

    @classmethod
    def is_abstract(cls) -> bool:
        """Keep the common bases out of the registry."""
        return not cls.counts or cls.__name__.startswith("_")

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        records, (applied, violated) = int(metrics[ROWS]), metrics[self.counts]
        return {
            "success": violated == 0,
            "result": {
                "element_count": records,
                "missing_count": records - applied,
                "unexpected_count": violated,
                "unexpected_percent": 100.0 * violated / applied if applied else None,
            },
        }


class ExpectColumnValuesToBeFiniteNumbers(_CountedExpectation):
    """Expect every cell that is not missing to hold a finite number."""

    column: str
    counts: ClassVar[str] = NUMBERS
    metric_dependencies: ClassVar[tuple[str, ...]] = (NUMBERS, ROWS)
    success_keys: ClassVar[tuple[str, ...]] = ("column",)
    args_keys: ClassVar[tuple[str, ...]] = ("column",)


class _EditExpectation(_CountedExpectation):
    """An edit of one kind, as `anoncore.edits.serialization.to_dict` writes it."""

    edit: dict[str, Any]
    kind: ClassVar[str] = ""
    counts: ClassVar[str] = EDIT
    metric_dependencies: ClassVar[tuple[str, ...]] = (EDIT, ROWS)
    success_keys: ClassVar[tuple[str, ...]] = ("edit",)
    args_keys: ClassVar[tuple[str, ...]] = ("edit",)

    @pydantic.validator("edit")  # type: ignore[untyped-decorator]
    def _validate_edit(cls, edit: dict[str, Any]) -> dict[str, Any]:
        if from_dict(edit).edit != cls.kind:
            raise ValueError(f"edit must be of kind {cls.kind}")
        return edit


class ExpectLinearEdit(_EditExpectation):
    """Expect Σ cⱼ vⱼ to equal, not to exceed or to reach a constant, where its conditions hold."""

    kind: ClassVar[str] = "linear"


class ExpectBoundEdit(_EditExpectation):
    """Expect a number to lie within its bounds, up to 1e-9 of their size."""

    kind: ClassVar[str] = "bound"


class ExpectRatioEdit(_EditExpectation):
    """Expect the ratio of two numbers to lie within its limits, where the denominator is above 0."""

    kind: ClassVar[str] = "ratio"


class ExpectConditionalEdit(_EditExpectation):
    """Expect a condition on one cell to hold wherever the conditions on others hold."""

    kind: ClassVar[str] = "conditional"


class ExpectLookupEdit(_EditExpectation):
    """Expect a variable to follow from others: records that agree in these agree in it."""

    kind: ClassVar[str] = "lookup"


class ExpectProductEdit(_EditExpectation):
    """Expect a number to be a product of powers of others, within its tolerance."""

    kind: ClassVar[str] = "product"


def _table(engine: Any, domain: Any) -> pd.DataFrame:
    frame: pd.DataFrame = engine.get_compute_domain(domain, domain_type=MetricDomainTypes.TABLE)[0]
    return frame


def _without_data(count: Callable[[], Counts]) -> Counts:
    """Return the counts; on an error raise one that names its class alone."""
    try:
        return count()
    except Exception as error:
        failed = type(error).__name__
    raise RuntimeError(f"{failed} inside the rule")
