"""Many releases of one table: measured together, and stopped when together they give people away."""

from __future__ import annotations

import json

import pytest

from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.home import Home
from tasks.policy.gate import GateResult
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]
GATE = "earlier releases"
# Noise that a single release of these few columns gets away with.
NOISY = "{method: additive-noise, b: 1.0}"
MEASURED = "policy: {linkage_rate: 1.0, linkage_certain: 1.0, inconclusive: person}"


@pytest.fixture
def home(tmp_path) -> Home:
    return Home.locate(tmp_path / "home")


def repeated(office, home: Home, step: str, times: int, more: str = "") -> list:
    """Publish one table under plans that differ in nothing but their title, until one is stopped."""
    outcomes = []
    for number in range(times):
        title = f"publication: {{title: number {number}}}"
        plan = load_plan(office(step=step, more=f"{title}\n{more}"))
        outcomes.append(carry_out(plan, home, Direct()))
        if outcomes[-1].status != "published":
            break
    return outcomes


def gate(outcome) -> GateResult:
    return next(g for g in outcome.gates if g.name == GATE)


def test_swapped_releases_of_one_table_stay_harmless_together(office, home):
    outcomes = repeated(office, home, "{method: spectral-swap}", 3)
    assert [o.status for o in outcomes] == ["published"] * 3
    assert len({o.release for o in outcomes}) == 3
    assert gate(outcomes[0]).figure == "0"
    assert gate(outcomes[2]).figure.endswith("with 2 of 2")
    assert gate(outcomes[2]).records > 0
    # The people set apart are in none of the releases.
    dossiers = [json.loads((home.assessment(o.release) / "dossier.json").read_text()) for o in outcomes]
    assert [d["assessment"]["prior_releases"]["releases"] for d in dossiers] == [0, 1, 2]
    assert dossiers[2]["assessment"]["prior_releases"]["attack"]["n_releases"] == 3


def test_an_earlier_release_without_the_same_variables_asks_a_person(office, home):
    first = carry_out(load_plan(office(step="{method: spectral-swap}")), home, Direct())
    assert first.status == "published"
    book = first.folder / "codebook.json"
    content = json.loads(book.read_text())
    content["variables"][0]["kind"] = "nominal"
    book.chmod(0o600)
    book.write_text(json.dumps(content))
    again = repeated(office, home, "{method: spectral-swap}", 1)[0]
    assert again.status == "awaiting"
    assert gate(again).verdict == "inconclusive"
    assert gate(again).figure == "1, of which 0 can be compared"


def test_a_blank_line_and_another_order_do_not_make_another_table(office, home):
    path = office(step="{method: spectral-swap}")
    file = path.parent / "people.csv"
    first = carry_out(load_plan(path), home, Direct())
    assert first.status == "published"
    head, *rows = file.read_text().splitlines(keepends=True)
    file.write_text(head + "".join(rows[::-1]) + "\n\n")
    assert carry_out(load_plan(path), home, Direct()).release == first.release
    again = carry_out(load_plan(path), home, Direct(), rebuild=True)
    assert [e.facts.rebuild for e in ledger.find(home, ReleaseFacts, "published")] == [
        False,
        again.status == "published",
    ]
    path.write_text(path.read_text().replace("name: ", "name: other-", 1))
    other = carry_out(load_plan(path), home, Direct())
    assert gate(other).figure.endswith("with 2 of 2")
