"""Pages of approvers and auditors: what waits, one release with its report, and the record of all decisions."""

from __future__ import annotations

import re

from starlette.responses import HTMLResponse, Response

from flows.studio import releases
from flows.studio.pages import REPORT_HEADERS, Asked, show, to
from tasks.common.errors import Refused, cut, visible
from tasks.policy.gate import WORST_FIRST
from tasks.record.approvers import listed_by
from tasks.record.dossier import find_dossier
from tasks.record.entry import ApproverFacts
from tasks.record.ledger import select
from tasks.record.series import series_of

MOST_ENTRIES = 200
SHORT = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


def decisions(one: Asked) -> Response:
    """Show what waits for people."""
    return show(one, "decisions", waiting=releases.waiting(releases.entries_of(one.studio.home)))


def release_page(one: Asked) -> Response:
    """Show one release: what the policy says, what changed since the last one, who decided; and the form to decide."""
    known, home = releases.entries_of(one.studio.home), one.studio.home
    events = releases.history(known, one.subject)
    facts = events[-1].facts
    waits = next((w for w in releases.waiting(known) if w.facts.release == facts.release), None)
    dossier = find_dossier(home, facts.release)
    before, changes = releases.differences(known, facts)
    gates = sorted(dossier.verdict.gates if dossier else (), key=lambda gate: WORST_FIRST.index(gate.verdict))
    reason = dossier.verdict.reason if dossier else facts.reason
    values = {"events": events, "facts": facts, "waits": waits, "gates": gates, "before": before, "changes": changes}
    signed = bool(listed_by(select(known, ApproverFacts)))
    return show(one, "release", **values, signed=signed, dossier=facts.dossier, pruned=dossier is None, reason=reason)


def report(one: Asked) -> Response:
    """Return the report of a release, which brings its own styles and no script."""
    releases.history(releases.entries_of(one.studio.home), one.subject)
    path = one.studio.home.assessment(one.subject) / "report.html"
    if not path.is_file():
        raise Refused("the report of this release is not in the home any more")
    return HTMLResponse(path.read_bytes(), 200, REPORT_HEADERS)


def decide(one: Asked) -> Response:
    """Carry out a decision as the commands do, which check name, signature, dossier and terms again."""
    release, form = one.subject, one.form
    act, by = form.get("decision", ""), one.name or form.get("by", "").strip()
    reason = form.get("reason", "").strip()
    if act not in ("approve", "reject"):
        raise Refused("Choose approve or reject.")
    if not by or not reason:
        raise Refused("State your name and a reason.")
    if not SHORT.fullmatch(release):
        raise Refused(f"no release is called {cut(visible(release))}")
    waits = next(
        (w for w in releases.waiting(releases.entries_of(one.studio.home)) if w.facts.release == release), None
    )
    if waits is None:
        raise Refused("This release waits for no decision any more; nothing was done.")
    if form.get("dossier") != waits.facts.dossier:
        raise Refused("This page was loaded before the release was assessed anew. Nothing was done; read it again.")
    given = [f"--by={by}", f"--reason={reason}", f"--dossier={waits.facts.dossier}", "--json"]
    signature = "".join(form.get("signature", "").split())
    more = [f"--signature={signature}"] if signature else []
    return to(f"/work/{one.studio.jobs.start(act, release, [release, *given, *more], one.name).id}")


def record(one: Asked) -> Response:
    """Show the releases of every plan with their figures over time, and who decided what."""
    known = releases.entries_of(one.studio.home)
    series = [(line, releases.curves(known, line.plan)) for line in series_of(known)]
    return show(one, "record", series=series, entries=list(reversed(known))[:MOST_ENTRIES], count=len(known))
