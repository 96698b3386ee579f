"""What numbers the parameters of methods and measures may be."""

from __future__ import annotations

from anoncore.errors import AnonymizationError


def not_below(least: float, **parameters: float | None) -> None:
    """Raise AnonymizationError where a parameter that is stated is below ``least``."""
    for name, value in parameters.items():
        if value is not None and value < least:
            raise AnonymizationError(f"{name} must be at least {least}, got {value}")


def between(name: str, value: float, low: float, high: float) -> float:
    """Return a parameter that lies strictly between two bounds.

    Raises
    ------
    AnonymizationError
        Where it does not.
    """
    if not low < value < high:
        raise AnonymizationError(f"{name} must be between {low:g} and {high:g}, got {value:g}")
    return float(value)
