"""Edits as custom expectations. Import this module late: it imports Great Expectations.

The rule itself is evaluated by `anoncore.edits`, here and everywhere else; an expectation carries
the edit as plain JSON and rebuilds it. Results hold counts and nothing else, whatever result
format is asked for, and an error inside a rule names its class and never quotes the data.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import numpy as np
import pandas as pd
from great_expectations.compatibility import pydantic
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import (
    BatchExpectation,
    ColumnMapExpectation,
    MulticolumnMapExpectation,
)
from great_expectations.expectations.metrics.map_metric_provider import (
    ColumnMapMetricProvider,
    MulticolumnMapMetricProvider,
    column_condition_partial,
    multicolumn_condition_partial,
)
from great_expectations.validator.metric_configuration import MetricConfiguration

from anoncore.edits import from_dict

HOLDS = "multicolumn_values.satisfy_edit"
APPLIES = "multicolumn_values.fall_under_edit"
COUNT = ".unexpected_count"
DOMAIN = ("batch_id", "table", "column_list", "row_condition", "condition_parser", "ignore_row_if")


class EditHolds(MulticolumnMapMetricProvider):  # type: ignore[misc]
    """True where the record satisfies the edit, also where the edit does not apply."""

    condition_metric_name = HOLDS
    condition_domain_keys = DOMAIN
    condition_value_keys = ("edit",)

    @multicolumn_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column_list: pd.DataFrame, edit: dict[str, Any], **_: Any) -> pd.Series:
        return _evaluate("holds", edit, column_list)


class EditApplies(MulticolumnMapMetricProvider):  # type: ignore[misc]
    """True where the edit applies to the record."""

    condition_metric_name = APPLIES
    condition_domain_keys = DOMAIN
    condition_value_keys = ("edit",)

    @multicolumn_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column_list: pd.DataFrame, edit: dict[str, Any], **_: Any) -> pd.Series:
        return _evaluate("applies", edit, column_list)


class FiniteNumber(ColumnMapMetricProvider):  # type: ignore[misc]
    """True where the cell is a finite number."""

    condition_metric_name = "column_values.finite_number"

    @column_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column: pd.Series, **_: Any) -> pd.Series:
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype="float64", na_value=np.nan)
        return pd.Series(np.isfinite(values), index=column.index)


class ExpectColumnValuesToBeFiniteNumbers(ColumnMapExpectation):  # type: ignore[misc]
    """Expect every cell that is not missing to hold a finite number."""

    map_metric: ClassVar[str] = "column_values.finite_number"


class _EditExpectation(MulticolumnMapExpectation):  # type: ignore[misc]
    """An edit of one kind over the columns it reads.

    ``missing_count`` is the number of records to which the edit does not apply.
    """

    edit: dict[str, Any]
    ignore_row_if: str = "never"
    map_metric: ClassVar[str] = HOLDS
    kind: ClassVar[str] = ""
    success_keys: ClassVar[tuple[str, ...]] = ("edit", "mostly")
    args_keys: ClassVar[tuple[str, ...]] = ("column_list", "edit")

    @classmethod
    def is_abstract(cls) -> bool:
        """Keep the common base out of the registry."""
        return not cls.kind

    @pydantic.validator("column_list")  # type: ignore[untyped-decorator]
    def _validate_column_list(cls, names: list[str]) -> list[str]:
        # The parent asks for two columns; a bound reads one.
        if not names:
            raise ValueError("column_list must name at least one column")
        return names

    @pydantic.validator("edit")  # type: ignore[untyped-decorator]
    def _validate_edit(cls, edit: dict[str, Any]) -> dict[str, Any]:
        if edit.get("edit") != cls.kind:
            raise ValueError(f"edit must be of kind {cls.kind}")
        from_dict(edit)
        return edit

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None
    ) -> Any:
        """Ask for three counts, and not, as the parent does, for the values that violate."""
        found = BatchExpectation.get_validation_dependencies(self, execution_engine, runtime_configuration)
        domain = {"column_list": self.column_list, "ignore_row_if": "never", "batch_id": self.batch_id}
        for name in (HOLDS + COUNT, APPLIES + COUNT):
            found.set_metric_configuration(
                name,
                MetricConfiguration(
                    name, metric_domain_kwargs=domain, metric_value_kwargs={"edit": self.edit}
                ),
            )
        rows = MetricConfiguration("table.row_count", metric_domain_kwargs={"batch_id": self.batch_id})
        found.set_metric_configuration("table.row_count", rows)
        return found

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        records, violated = int(metrics["table.row_count"]), int(metrics[HOLDS + COUNT])
        missing = int(metrics[APPLIES + COUNT])
        applied = records - missing
        return {
            "success": violated <= (1 - float(self.mostly)) * applied,
            "result": {
                "element_count": records,
                "missing_count": missing,
                "unexpected_count": violated,
                "unexpected_percent": 100.0 * violated / applied if applied else None,
            },
        }


class ExpectLinearEdit(_EditExpectation):
    """Expect Σ cⱼ vⱼ to equal, not to exceed or to reach a constant, where its conditions hold."""

    kind: ClassVar[str] = "linear"


class ExpectBoundEdit(_EditExpectation):
    """Expect a number to lie within its bounds, up to 1e-9 of their size."""

    kind: ClassVar[str] = "bound"


class ExpectRatioEdit(_EditExpectation):
    """Expect the ratio of two numbers to lie within its bounds, where the denominator is above 0."""

    kind: ClassVar[str] = "ratio"


class ExpectConditionalEdit(_EditExpectation):
    """Expect a condition on one cell to hold wherever the conditions on others hold."""

    kind: ClassVar[str] = "conditional"


def _evaluate(what: str, edit: dict[str, Any], frame: pd.DataFrame) -> pd.Series:
    try:
        good = getattr(from_dict(edit), what)(frame)
    except Exception as error:
        failed = type(error).__name__
    else:
        return pd.Series(good, index=frame.index)
    raise RuntimeError(f"{failed} inside the edit")
