"""Check the runs in MLflow against what the ledger holds of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from tasks.common.errors import ReleaseError, visible
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.decision.outcomes import SHOWN, is_decision
from tasks.record import ledger
from tasks.record.approvers import same
from tasks.record.entry import LedgerEntry, ReleaseFacts
from tasks.record.ledger_verification import Entries, Finding, reference_problems
from tasks.record.mirrored import Mirrors
from tasks.record.pruned import Pruned
from tasks.tracking import mlflow as track
from tasks.tracking.curves import curve_problems
from tasks.tracking.mlflow import StoredRun

Entry = LedgerEntry[ReleaseFacts]
# What the parts of a run are called in sentences, where their names do not say it.
PARTS = {"run": "experiment, user, times or end", "history": "metrics' histories"}


def run_problems(home: Home, known: Entries) -> Iterator[Finding]:
    """Check each tracked run against what was read back when it was made, and its tags against the ledger."""
    mirrors, runs, pruned = Mirrors.of(known), entries_of_runs(known), Pruned.of(known).runs
    problems: list[Finding] = []
    try:
        with _scratch(home):
            identity = ledger.identity(home)
            stored = track.stored_runs([*runs], home.path / "mlflow" / "artifacts", identity)
            for run, entries in runs.items():
                where, parts = f"MLflow run {run} of {entries[-1].facts.release}", mirrors.parts_of(entries[-1].facts)
                if run in pruned:
                    parts = {part: digest for part, digest in parts.items() if part != "artifacts"}
                problems += _of_run(where, entries, parts, stored.get(run))
        for tags in (one.tags for one in stored.values() if one.tags.get(track.HOME) == identity):
            number, _, digest = tags.get("release.entry", "").partition(" ")
            where = f"the MLflow run of {visible(tags.get('release.id', 'a release'))}"
            problems += reference_problems(known, where, int(number) if number.isdecimal() else None, digest)
        problems += curve_problems(home, known)
    except ReleaseError as error:
        sentence = f"MLflow was not reached, so its runs are not checked: {error}"
        problems.append(Finding("mlflow not reached", "mlflow", sentence))
    yield from problems


def entries_of_runs(known: Entries) -> dict[str, list[Entry]]:
    """Return the entries that each run mirrors; those of runs that were lost for good are left out."""
    mirrors = Mirrors.of(known)
    runs: dict[str, list[Entry]] = {}
    for entry in ledger.select(known, ReleaseFacts):
        if run := mirrors.run_of(entry.facts):
            runs.setdefault(run, []).append(entry)
    return runs


@contextmanager
def _scratch(home: Home) -> Iterator[None]:
    """Let what is downloaded lie in a workspace of the home, which the next run wipes if this is killed."""
    with ExitStack() as stack:
        # Where the home cannot be written to, the system's temporary folder has to do. Nothing is drawn.
        with suppress(OSError):
            stack.enter_context(Run.opened(home, SeedSection(public=0, data_are_public=True)))
        yield


def _of_run(where: str, entries: list[Entry], parts: Mapping[str, str], now: StoredRun | None) -> Iterator[Finding]:
    if now is None or now.deleted:
        yield Finding("mlflow deleted", where, f"{where} was deleted; see anonflow audit rebuild-mirror")
    if now is None:
        return
    for part, digest in parts.items():
        if now.parts.get(part) != digest:
            sentence = f"{where}: its {PARTS.get(part, part)} are not those that were logged"
            yield Finding(f"mlflow {part}", where, sentence)
    yield from _decision_problems(where, entries, now.tags)
    shown = [SHOWN[e.event] for e in entries if e.event in SHOWN]
    status = now.tags.get("release.status")
    if shown and status != shown[-1]:
        sentence = (
            f"{where}: its status says {visible(status)}, and the ledger {shown[-1]}; it was edited, or MLflow "
            "could not be reached when it was decided (anonflow audit mirror sets it right)"
        )
        yield Finding("mlflow status", where, sentence)


def _decision_problems(where: str, entries: list[Entry], tags: Mapping[str, str]) -> Iterator[Finding]:
    """Check who decided, why and when, as the tags of a run say it, against the ledger.

    The last decision is not asked for: one that a crash has cut short is carried out without these tags.
    """
    entered = {
        "decided_by": [e.facts.decided_by for e in entries if is_decision(e.event, e.facts)],
        "decision_reason": [e.facts.decided.reason for e in entries if e.facts.decided],
        "status_since": [e.time for e in entries],
    }
    for key, values in entered.items():
        tag = tags.get(f"release.{key}")
        if tag is not None and not any(same(tag, track.tag(value)) for value in values):
            sentence = f"{where}: its tag release.{key} is in no entry of the ledger about it"
            yield Finding("mlflow decision", where, sentence)
