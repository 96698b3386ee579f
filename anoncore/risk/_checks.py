"""Checks shared by the risk measures; messages never contain a data value."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anoncore.errors import AnonymizationError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Number = TypeVar("Number", bound=np.number)


def _finite(name: str, values: ArrayLike) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnonymizationError(f"{name} must be numeric; encode the table before measuring") from None
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise AnonymizationError(f"{name} must be finite, got {count} missing or infinite values; encode them")
    return array


def matrix(name: str, values: ArrayLike, columns: int | None = None) -> Floats:
    """Return a finite (N ≥ 1, n ≥ 1) matrix, with the stated number of columns if one is stated."""
    array = _finite(name, values)
    if array.ndim != 2 or 0 in array.shape:
        raise AnonymizationError(f"{name} must be a matrix of records by columns, got shape {array.shape}")
    if columns is not None and array.shape[1] != columns:
        raise AnonymizationError(
            f"{name} must have {columns} columns as original has, got {array.shape[1]}; use one encoding"
        )
    return array


def vector(name: str, values: ArrayLike, length: int | None = None) -> Floats:
    """Return finite values, one per record, (N ≥ 1,), of the stated length if one is stated."""
    array = _finite(name, values)
    if array.ndim != 1 or not len(array):
        raise AnonymizationError(f"{name} must hold one value per record, got shape {array.shape}")
    if length is not None and len(array) != length:
        raise AnonymizationError(f"{name} must hold {length} values, one per record, got {len(array)}")
    return array


def same_size(released: int, reference: int) -> None:
    """Refuse sets whose sizes differ by more than 1 % and one record: nearest distances shrink with size."""
    if abs(released - reference) > max(1.0, 0.01 * reference):
        raise AnonymizationError(
            f"n_released must be equal on both sides, got {released} and {reference}; "
            "use compare_matched, or subsample the larger set"
        )


def frozen(values: NDArray[Number]) -> NDArray[Number]:
    """Return a read-only copy."""
    copy = np.array(values)
    copy.setflags(write=False)
    return copy
