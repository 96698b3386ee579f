"""What the worker reports of itself, as its health endpoint answers it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """How the worker is, and what it made of the folder of plans.

    Attributes
    ----------
    ready : whether it has begun to look for due runs
    reached : when it last reached Prefect, seconds since 1970
    schedules : when each plan runs, in words
    changes : what happened to the deployment of each plan at the last change of the folder
    problems : why a file of the folder is no plan, by file name
    """

    ready: bool = False
    reached: float = 0.0
    schedules: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
