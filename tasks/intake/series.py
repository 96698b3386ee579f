"""What the releases of a plan are to each other, and which units are behind each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from anoncore.method import ENOUGH
from tasks.common.run import Run
from tasks.common.secrets import check_name
from tasks.common.sections import Section
from tasks.intake.split import Split


class SeriesSection(Section):
    """What the releases of this plan are to each other.

    Every release of a plan is compared with the earlier ones, declared or not; here it is stated how exact figures are
    kept from being subtracted.

    Parameters
    ----------
    kind : ``register``: people come and go between releases. ``panel``: the same people are asked again. Of both, each
        release is made of a secret part of the units, drawn anew, so that no figure is kept exactly. ``snapshot``:
        other people every time; nothing is drawn. Without it nothing is drawn either. A plan that draws must not state
        its seed, which would draw the same units again.
    left_out : L, which says how many are not drawn: of N units L·N / (N + L), rounded. More hide newcomers better and
        cost accuracy: errors of means and shares grow as if by a factor of the square root of 1 + L / N. Means
        of T releases have the noise of L / T. With fewer than 200 figures that the steps keep exactly are not hidden,
        and a person is asked as where nothing is drawn.
    shared : names a secret that another home has, too. The home then keeps digests of the units' identifiers by it,
        which ``anonflow digests export`` writes, and compares the releases of others that were imported. Without it
        other homes are not known.
    pseudonym : names a column to be added: a pseudonym of each record's unit, the same in every release of this plan,
        so that readers can follow a unit. An attacker can, too: all rows of a pseudonym are attacked as one, which
        needs ``reference: cross``. It shows which units are new. Without it rows of two releases cannot be joined.
    """

    kind: Literal["register", "panel", "snapshot"] | None = None
    left_out: int = Field(default=ENOUGH, ge=1, le=10_000)
    shared: str | None = None
    pseudonym: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")

    @model_validator(mode="after")
    def _names_a_secret(self) -> SeriesSection:
        check_name(self.shared, "shared")
        return self

    @property
    def draws(self) -> bool:
        """Whether each release is made of a secret part of the units."""
        return self.kind in ("register", "panel")

    @property
    def too_few(self) -> int:
        """How many are left out where these are too few to hide figures that the steps keep exactly; else 0."""
        return self.left_out if self.draws and self.left_out < ENOUGH else 0

    def omitted(self, units: int) -> int:
        """Return how many of so many units are not drawn.

        Examples
        --------
        >>> [SeriesSection(kind="register").omitted(units) for units in (200, 814, 100_000)]
        [100, 161, 200]
        """
        return round(self.left_out * units / (units + self.left_out)) if self.draws else 0

    def notes(self, units: int) -> tuple[str, ...]:
        """Return the law by which so many units are drawn, for the method statement; nothing where none are."""
        hidden = f"too few to hide figures that are kept exactly: it takes a left_out of {ENOUGH}"
        law = "what a step keeps exactly are figures of the units drawn, which are not published"
        joined = f"{self.pseudonym} is a keyed pseudonym of a record's unit, the same in every release of this plan"
        if not self.draws:
            return ()
        return (
            *((joined,) if self.pseudonym else ()),
            f"of {units} statistical units {self.omitted(units)} were left out at random, drawn anew for every "
            f"release: {hidden if self.too_few else law}; weights are those of the units drawn: sums over the "
            f"population are {units / max(1, units - self.omitted(units)):.2f} times as large",
        )


def draw(run: Run, split: Split, section: SeriesSection) -> Split:
    """Return the split with the units behind this release alone as its original records.

    The part is a simple random sample without replacement, independent of every other release's.
    """
    original = split.original.load()
    n = original.n_units
    kept = np.sort(run.rng("series-draw").permutation(n)[section.omitted(n) :])
    rows = np.isin(original.unit_codes, kept)
    drawn = original.take(np.flatnonzero(rows))
    left_out = split.left_out and run.workspace.store_arrays(
        "left-out-drawn", **{of: before[rows] for of, before in split.left_out.load().items()}
    )
    summary = replace(
        split.summary,
        original=len(drawn),
        original_units=drawn.n_units,
        unused=split.summary.unused + len(original) - len(drawn),
    )
    return replace(split, original=run.workspace.store("drawn", drawn), summary=summary, left_out=left_out)
