"""What was removed from a home in order, as the ledger has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.record.entry import Facts, LedgerEntry, PruneFacts, ReleaseFacts
from tasks.record.mirrored import Mirrors


@dataclass(frozen=True)
class Pruned:
    """What may be missing: nothing of a release that was ever published, or that was assessed again since.

    Parameters
    ----------
    releases : candidates without dossier and pages
    runs : runs in MLflow without attached files
    """

    releases: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, known: Sequence[LedgerEntry[Facts]]) -> Pruned:
        """Return what the entries say."""
        pruned, published, runs_of = cls(), set[str](), dict[str, set[str]]()
        mirrors = Mirrors.of(known)
        for entry in known:
            facts = entry.facts
            if isinstance(facts, PruneFacts):
                pruned.releases.update(facts.releases)
                pruned.runs.update(facts.runs)
            elif isinstance(facts, ReleaseFacts):
                runs_of.setdefault(facts.release, set()).add(mirrors.run_of(facts))
                pruned.releases.discard(facts.release)
                pruned.runs.discard(mirrors.run_of(facts))
                if entry.event == "published":
                    published.add(facts.release)
        for release in published:
            pruned.releases.discard(release)
            pruned.runs.difference_update(runs_of[release])
        return pruned
