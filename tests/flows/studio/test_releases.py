"""What approvers and auditors read from the ledger: what waits, what changed, how figures moved."""

from __future__ import annotations

from flows.studio.releases import curves, differences, entries_of, history, waiting
from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.entry import Terms
from tests.tasks.facts import release_facts


def gates(membership: str, verdict: str = "pass") -> dict[str, tuple[str, str]]:
    return {"membership": (verdict, f"{membership} [0.400, 0.600]; halves"), "worst pair": ("pass", "a2 moved by 0.17")}


def test_what_waits_what_changed_and_how_figures_moved(tmp_path):
    home = Home.locate(tmp_path / "home")
    assert (entries_of(home), waiting(entries_of(home)), curves(entries_of(home), "p")) == ((), [], [])
    first = release_facts(name="p", release="p-1", plan="a", gates=gates("0.51"))
    second = release_facts(name="p", release="p-2", plan="b", gates=gates("0.53"))
    third = release_facts(name="p", release="p-3", plan="b", gates=gates("0.58", "inconclusive"), terms=Terms())
    for event, facts in (("published", first), ("published", second), ("awaiting", third)):
        ledger.append(home, event, facts)
    known = entries_of(home)
    assert [(one.facts.release, one.candidate.approved) for one in waiting(known)] == [("p-3", False)]
    assert [entry.event for entry in history(known, "p-2")] == ["published"]
    before, changes = differences(known, third)
    assert before == "p-2"
    assert [(c.subject, c.before[:10], c.now[:13]) for c in changes] == [("membership", "pass: 0.53", "inconclusive:")]
    assert [c.subject for c in differences(known, second)[1]] == ["plan", "membership"]
    assert differences(known, first) == ("", [])
    risk, loss = curves(known, "p")
    assert (risk.values, loss.values, risk.releases) == ((0.51, 0.53), (0.17, 0.17), ("p-1", "p-2"))
    assert all(0 <= x <= 300 and 0 <= y <= 80 for curve in (risk, loss) for x, y in curve.points)


def test_a_curve_is_of_the_figure_and_not_of_the_number_of_conditions(tmp_path):
    home = Home.locate(tmp_path / "home")
    for number, figure in enumerate(
        ("2 conditions: +0.01, shown > -0.02; of all ≤ +0.04", "4 conditions: −0.03 [−0.1, 0]")
    ):
        own = {"singling out": ("pass", figure)}
        ledger.append(home, "published", release_facts(name="p", release=f"p-{number}", plan=str(number), gates=own))
    (drawn,) = curves(entries_of(home), "p")
    assert (drawn.title, drawn.values) == ("Risk: singling out", (0.01, -0.03))
