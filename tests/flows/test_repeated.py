"""Many releases of one table: measured together, and stopped when together they give people away."""

from __future__ import annotations

import json
import shutil

import pytest

from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.home import Home
from tasks.policy.gate import GateResult
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]
GATE = "earlier releases"


@pytest.fixture
def home(tmp_path) -> Home:
    return Home.locate(tmp_path / "home")


def repeated(office, home: Home, number: int):
    """Release the table under a plan that differs from the others in nothing but its title."""
    return carry_out(load_plan(office(more=f"publication: {{title: number {number}}}")), home, Direct())


@pytest.fixture(scope="module")
def first_made(tmp_path_factory, write_office, tracking):
    folder = tmp_path_factory.mktemp("first")
    home = Home.locate(folder / "home")
    outcome = carry_out(load_plan(write_office(folder)), home, Direct())
    assert outcome.status == "published"
    return home, outcome


@pytest.fixture
def first(first_made, home):
    """The first release of the table, the test's own home being as it was then."""
    made_in, outcome = first_made
    shutil.copytree(made_in.path, home.path, dirs_exist_ok=True)
    return outcome


def gate(outcome) -> GateResult:
    return next(g for g in outcome.gates if g.name == GATE)


def test_swapped_releases_of_one_table_stay_harmless_together(office, home, first):
    outcomes = [first, repeated(office, home, 1), repeated(office, home, 2)]
    assert [o.status for o in outcomes] == ["published"] * 3
    assert len({o.release for o in outcomes}) == 3
    assert gate(outcomes[0]).figure == "0"
    assert gate(outcomes[2]).figure.endswith("with 2 of 2")
    assert gate(outcomes[2]).records > 0
    # The people set apart are in none of the releases.
    dossiers = [json.loads((home.assessment(o.release) / "dossier.json").read_text()) for o in outcomes]
    assert [d["assessment"]["prior_releases"]["releases"] for d in dossiers] == [0, 1, 2]
    assert dossiers[2]["assessment"]["prior_releases"]["attack"]["n_releases"] == 3


def test_an_earlier_release_without_the_same_variables_asks_a_person(office, home, first):
    book = home.releases / "office" / first.release / "codebook.json"
    content = json.loads(book.read_text())
    content["variables"][0]["kind"] = "nominal"
    book.chmod(0o600)
    book.write_text(json.dumps(content))
    again = repeated(office, home, 1)
    assert again.status == "awaiting"
    assert gate(again).verdict == "inconclusive"
    assert gate(again).figure == "1, of which 0 can be compared"


def test_a_blank_line_and_another_order_do_not_make_another_table(office, home, first):
    path = office()
    file = path.parent / "people.csv"
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
