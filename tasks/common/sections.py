"""The base of every section of a plan."""

from __future__ import annotations

import re

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the plan, owned by the task that reads it. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)


def short_name(others: str, longest: int) -> AfterValidator:
    """Return the check of a name of lower-case letters, digits and the characters ``others``."""
    form = re.compile(f"[a-z0-9][a-z0-9{re.escape(others)}]{{0,{longest - 1}}}")
    allowed = ", ".join(("lower-case letters a to z", "digits", *(repr(one) for one in others)))

    def check(name: str) -> str:
        if not form.fullmatch(name):
            raise ValueError(
                f"must hold {allowed} alone, begin with a letter or digit, and have at most {longest} characters"
            )
        return name

    return AfterValidator(check)
