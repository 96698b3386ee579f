"""What can go wrong, named; messages never contain a data value."""

from __future__ import annotations

from typing import Any


class AnonymizationError(ValueError):
    """The data, the parameters or their combination cannot be honoured."""


class InfeasibleError(AnonymizationError):
    """No solution satisfies what was asked; the message names what conflicts."""


class NotConvergedError(AnonymizationError):
    """An iteration stopped before its tolerance; ``state`` holds what was reached.

    Parameters
    ----------
    message : str
        What did not converge, how far it came and what to change.
    state : object
        The last iterate, so that a caller may keep it.
    """

    def __init__(self, message: str, state: Any = None) -> None:
        super().__init__(message)
        self.state = state
