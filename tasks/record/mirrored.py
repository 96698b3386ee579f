"""Which run of MLflow mirrors a release, also when the first one was lost and made again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.record.entry import Facts, LedgerEntry, MirrorFacts, ReleaseFacts


@dataclass(frozen=True)
class Mirrors:
    """The runs that were made again, as the ledger has it.

    Parameters
    ----------
    runs : the new run of each lost one; empty where there is none
    parts : digests of what each new run held when it was logged
    """

    runs: dict[str, str] = field(default_factory=dict)
    parts: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, known: Iterable[LedgerEntry[Facts]]) -> Mirrors:
        """Return those that the entries name."""
        mirrors = cls()
        for facts in (entry.facts for entry in known):
            if isinstance(facts, MirrorFacts):
                for lost, new in facts.runs.items():
                    mirrors.runs.update({old: new for old, one in mirrors.runs.items() if one == lost and lost})
                    mirrors.runs[lost] = new
                mirrors.parts.update({run: dict(parts) for run, parts in facts.parts.items()})
        return mirrors

    def run_of(self, facts: ReleaseFacts) -> str:
        """Return the run that mirrors an entry; empty where it was lost for good."""
        return self.runs.get(facts.mlflow_run, facts.mlflow_run)

    def parts_of(self, facts: ReleaseFacts) -> dict[str, str]:
        """Return digests of what that run held when it was logged."""
        return self.parts.get(self.run_of(facts), dict(facts.mlflow))
