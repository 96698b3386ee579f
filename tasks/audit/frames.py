"""A home's releases, figures and approvals as data frames, for auditors who work in a notebook; read-only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.common.errors import Refused, visible
from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.dossier import find_dossier
from tasks.record.entry import LedgerEntry, ReleaseFacts

DECIDED = ("approved", "rejected", "withdrawn")


@dataclass(frozen=True)
class Records:
    """What a home has on record, each table as a frame. Nothing is written, and no frame holds data of a release.

    The ledger is read as it is: `anonflow audit verify` says whether it was changed.

    Parameters
    ----------
    home : the home

    Examples
    --------
    >>> records = Records.open(".anonflow")  # doctest: +SKIP
    >>> records.releases()[["name", "published"]]  # doctest: +SKIP
    """

    home: Home

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Records:
        """Return the records of the home in a folder.

        Raises
        ------
        Refused
            When the folder is no home, or its files are of a format that this version cannot use.
        """
        folder = Path(path).absolute()
        # A home that is not there would be created.
        if not (folder / Home.ledger.place).is_file():
            raise Refused(f"{visible(folder.name)} holds no ledger; name the folder of a home, such as .anonflow")
        return cls(Home.locate(folder))

    def entries(self) -> pd.DataFrame:
        """Return one row for each entry of the ledger: number, time, event, what it is about, by whom, digest."""
        columns = ("number", "time", "event", "about", "by", "digest")
        rows = [
            (e.number, e.time, e.event, e.facts.subject, e.facts.actor, e.digest) for e in ledger.entries(self.home)
        ]
        return _frame(columns, rows, times=("time",))

    def releases(self) -> pd.DataFrame:
        """Return one row for each published release: plan, times, verdict, who approved it, manifest."""
        columns = ("release", "name", "published", "withdrawn", "verdict", "approved_by", "manifest")
        gone = {e.facts.release: e.time for e in ledger.find(self.home, ReleaseFacts, "withdrawn")}
        rows = [
            (
                e.facts.release,
                e.facts.name,
                e.time,
                gone.get(e.facts.release),
                e.facts.verdict,
                "; ".join(one.approver for one in e.facts.approvals),
                e.facts.manifest,
            )
            for e in ledger.find(self.home, ReleaseFacts, "published")
        ]
        return _frame(columns, rows, times=("published", "withdrawn"))

    def figures(self) -> pd.DataFrame:
        """Return one row for each gate of each candidate whose dossier the home keeps, with limit and baseline.

        Raises
        ------
        Refused
            When a dossier is not the one that the ledger names.
        """
        columns = ("release", "topic", "gate", "verdict", "figure", "limit", "baseline", "records")
        last = {e.facts.release: e for e in ledger.find(self.home, ReleaseFacts)}
        rows = [
            (release, g.topic, g.name, g.verdict, g.figure, g.limit, g.baseline, g.records)
            for release, gates in self._gates(last).items()
            for g in gates
        ]
        return _frame(columns, rows)

    def approvals(self) -> pd.DataFrame:
        """Return one row for each decision of a person: on what, which, by whom, why, and whether it is signed."""
        columns = ("time", "release", "name", "event", "by", "reason", "signed")
        rows = [
            (e.time, e.facts.release, e.facts.name, e.event, one.approver, one.reason, bool(one.signature))
            for e in ledger.find(self.home, ReleaseFacts)
            if (one := e.facts.decided) is not None and e.event in DECIDED
        ]
        return _frame(columns, rows, times=("time",))

    def _gates(self, last: Mapping[str, LedgerEntry[ReleaseFacts]]) -> dict[str, tuple[Any, ...]]:
        gates = {}
        for release, entry in last.items():
            if (dossier := find_dossier(self.home, release)) is None:
                continue
            if dossier.digest != entry.facts.dossier:
                raise Refused(
                    f"the dossier of {release} is not the one that the ledger names; see anonflow audit verify"
                )
            gates[release] = dossier.verdict.gates
        return gates


def _frame(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]], times: tuple[str, ...] = ()) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=list(columns))
    return frame.assign(**{name: pd.to_datetime(frame[name], utc=True) for name in times})
