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


# Of a released level: one or two people of the source who hold it are known by it.
FEWEST_HOLDERS = 3


def fewest_in_share(fewest: int, share: float) -> int:
    """Return how many units of a share of them hold what ``fewest`` of all hold; 3 of them at least, or ``fewest``.

    Examples
    --------
    >>> fewest_in_share(20, 0.5), fewest_in_share(5, 0.5), fewest_in_share(3, 0.5)
    (10, 3, 3)
    """
    return min(fewest, max(FEWEST_HOLDERS, int(fewest * share)))
