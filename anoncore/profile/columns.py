"""What the columns of a data frame are, and the sums among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.microdata.inference import BODY, Guess, facts_of, guess
from anoncore.profile.findings import Finding
from anoncore.profile.sums import find_sums


@dataclass(frozen=True)
class Profile:
    """Guesses in column order, and the sums among the columns."""

    guesses: tuple[Guess, ...]
    sums: tuple[Finding, ...]


def profile(frame: pd.DataFrame, *, rng: np.random.Generator) -> Profile:
    """Guess what the columns of ``frame`` are, and find the sums among them.

    Parameters
    ----------
    frame : DataFrame, (N, n), with text column names
        As it was read: nothing declared, missing cells empty.
    rng : numpy Generator
        Chooses the records on which candidates are screened; what passes is checked on all.

    Returns
    -------
    Profile
        No guess makes `Microdata` list levels that fewer than `MIN_COUNT` records hold.

    Examples
    --------
    >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "email": [f"p{i}@example.org" for i in range(40)]})
    >>> [g.variable.role for g in profile(frame, rng=np.random.default_rng(0)).guesses]
    ['quasi-identifier', 'identifier']
    """
    facts = [facts_of(frame[name]) for name in frame.columns]
    numeric = {f.name: f.to_numbers(frame[f.name]) for f in facts if f.may_add_up}
    sums = find_sums(pd.DataFrame(numeric, index=frame.index), rng=rng) if len(numeric) > 1 else ()
    terms = {n for s in sums if s.active and len(s.edit.variables) > 2 for n in s.edit.variables}
    bodies = any(f.words & BODY for f in facts)
    guesses = tuple(guess(f, adds_up=f.name in terms, bodies=bodies) for f in facts)
    numbers = {g.variable.name for g in guesses if g.variable.kind == "continuous" and g.variable.is_masked}
    return Profile(guesses, tuple(s for s in sums if set(s.edit.variables) <= numbers))
