"""One release from plan to outcome, without Prefect: every way a run can end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from anoncore.edits.model import EditSet
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import Fault, Refused
from tasks.common.home import Home
from tasks.common.run import exclusive_run
from tasks.decision.approval import decide
from tasks.decision.assessment_integrity import custodian_pages
from tasks.decision.outcomes import Outcome
from tasks.engine.progress import Progress
from tasks.publication.manifest import verify_release
from tasks.record import ledger, signing
from tasks.record.decision import Decision
from tasks.record.dossier import read_dossier
from tasks.record.entry import Head, ReleaseFacts
from tasks.record.ledger_store import store_of
from tests.flows.conftest import CANARY_TEXT

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def _run(plan: Path, home: Home, **options):
    return carry_out(load_plan(plan), home, Direct(), **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory, write_office, tracking):
    """Return a function that gives a home with one run of a plan, made once, and how that ended."""
    done = {}

    def make(more: str = "") -> tuple[Path, Home, Outcome]:
        if more not in done:
            folder = tmp_path_factory.mktemp("made")
            plan, home = write_office(folder, more=more), Home.locate(folder / "home")
            done[more] = plan, home, _run(plan, home)
        return done[more]

    return make


@pytest.fixture
def after(made, home):
    """Return a function that gives how a plan's first run ended, the test's own home being as it was then."""

    def copied(more: str = "") -> Outcome:
        _, other, outcome = made(more)
        shutil.copytree(other.path, home.path, dirs_exist_ok=True)
        return outcome

    return copied


PERSON = "policy: {approval: person}"


def test_a_release_is_published_whole(made):
    _, home, outcome = made()
    assert outcome.status == "published", outcome.reason
    names = {p.name for p in outcome.folder.iterdir()}
    assert names == {
        "data.parquet", "data.csv", "codebook.json", "expectations.json", "report.html", "method.md",
        "assessment.json", "authority.json", "manifest.json", "manifest.json.sig", "public-key.pem",
        "datapackage.json", "ddi-codebook.xml", "croissant.json",
    }  # fmt: skip
    assert verify_release(outcome.folder) == []
    assert ledger.problems(home) == []
    assert [e.event for e in ledger.entries(home)] == ["publishing", "published"]
    assert not any(home.workspaces.iterdir())
    assert sum(outcome.seconds.values()) > 0


def test_the_published_file_keeps_the_edits_and_drops_identifiers(made):
    plan, _, outcome = made()
    published = pd.read_parquet(outcome.folder / "data.parquet")
    source = pd.read_csv(plan.parent / "people.csv")
    assert "person" not in published
    assert (published["net"] + published["tax"] == published["gross"]).all()
    edits = EditSet(load_plan(plan).plan.edits.rules)
    assert sum(edits.violations(published).values()) == 0
    shared = published.astype(str).merge(source[published.columns].astype(published.dtypes).astype(str))
    assert len(shared) == 0
    again = pd.read_csv(outcome.folder / "data.csv").astype(published.dtypes)
    pd.testing.assert_frame_equal(again, published, check_exact=False)


def test_a_cross_releases_every_record_and_attacks_halves_with_earlier_releases_too(after, office, home, people):
    first = after("reference: {kind: cross}")
    assert first.status == "published", first.reason
    published = pd.read_parquet(first.folder / "data.parquet")
    assert len(published) == len(people())
    stored = read_dossier(home, first.release).assessment
    assert stored.records.reference is None
    assert [half.records.reference for half in stored.halves] == [len(people()) // 2] * 2
    assert "two random halves of the source" in (first.folder / "report.html").read_text()
    second = _run(office(people(seed=2), more="reference: {kind: cross}"), home)
    dossier = read_dossier(home, second.release)
    assert [half.prior_releases.compared for half in dossier.assessment.halves] == [1, 1]
    (prior,) = [gate for gate in dossier.verdict.gates if gate.name == "earlier releases"]
    assert prior.bounds is not None
    assert prior.verdict == prior.bounds.verdict


def test_a_holdout_after_a_whole_release_is_not_compared_with_it(after, office, home):
    after("reference: {kind: cross}")
    dossier = read_dossier(home, _run(office(), home).release)
    assert (dossier.assessment.prior_releases.releases, dossier.assessment.prior_releases.compared) == (1, 0)
    (gate,) = [gate for gate in dossier.verdict.gates if gate.name == "earlier releases"]
    assert gate.verdict == "inconclusive"


def test_a_dependency_holds_in_the_release_and_its_table_is_nowhere(office, people, home):
    frame = people()
    frame.loc[:1, "region"] = "west"
    divisions = {"north": "cold", "east": "cold", "south": "warm", "west": CANARY_TEXT}
    plan = office(frame.assign(division=frame["region"].map(divisions)).drop(columns="person"))
    person, division = "{name: person, kind: nominal, role: identifier}", "{name: division, kind: nominal}"
    text = plan.read_text().replace(person, division)
    rule = "    - {edit: lookup, name: division follows from region, dependent: division, of: [region]}\n"
    plan.write_text(text.replace("assessment:", f"{rule}assessment:"))
    outcome = _run(plan, home)
    assert outcome.reason == "a person must decide: rare levels (region)"
    folder = home.path / "candidates" / outcome.release
    published = pd.read_parquet(folder / "data.parquet")
    pairs = set(published[["region", "division"]].astype(object).fillna("").itertuples(index=False, name=None))
    assert pairs == {("north", "cold"), ("east", "cold"), ("south", "warm"), ("west", "")}
    method = (folder / "method.md").read_text()
    assert "division follows from region: it was left out of the masking and looked up again" in method
    assert "division is missing in" in method
    suite = json.loads((folder / "expectations.json").read_text())["expectations"]
    (lookup,) = [one["kwargs"]["edit"] for one in suite if one["type"] == "expect_lookup_edit"]
    assert set(lookup) == {"edit", "name", "dependent", "of"}
    assert not [p for p in home.path.rglob("*") if p.is_file() and CANARY_TEXT.encode() in p.read_bytes()]


def test_unchanged_data_and_plan_publish_nothing_new(office, after, home):
    first = after()
    second = _run(office(), home)
    assert second.status == "unchanged"
    assert second.release == first.release
    assert len(list((home.releases / "office").iterdir())) == 1


def test_changed_data_make_another_release(office, after, home, people):
    first = after()
    others = people(seed=2).assign(person=lambda frame: frame["person"] + "-2")
    second = _run(office(others), home)
    assert second.status == "published"
    assert second.release != first.release
    versions = [json.loads((home.releases / "office" / r / "manifest.json").read_text())["version"]
                for r in (first.release, second.release)]  # fmt: skip
    assert versions == [1, 2]


def test_a_public_seed_repeats_to_the_byte(office, home, tmp_path):
    plan = office(more="seed: {public: 5, data_are_public: true}")
    first = _run(plan, home)
    other = _run(plan, Home.locate(tmp_path / "other"))
    assert first.release == other.release
    again = _run(plan, home, rebuild=True)
    assert again.status == "unchanged"
    assert again.release == first.release


def test_rejected_publishes_nothing_and_says_why(made):
    _, home, outcome = made("policy: {utility: {pair: 0, two_samples: 0, exceeded: reject}}")
    assert outcome.status == "rejected"
    assert "worst pair (" in outcome.reason
    assert outcome.folder is None
    assert not home.releases.exists() or not any(home.releases.rglob("data*"))
    assert outcome.report.exists()


def test_a_rejection_stands_until_plan_or_data_change(office, after, home, people):
    """Else a schedule would draw until chance lets one through."""
    strict = "policy: {utility: {pair: 0, two_samples: 0, exceeded: reject}}"
    first = after(strict)
    again = _run(office(more=strict), home)
    assert (again.status, again.release) == ("rejected", first.release)
    assert again.reason.startswith("rejected before, and neither data nor plan have changed")
    assert len(ledger.find(home, ReleaseFacts, "rejected")) == 1
    assert _run(office(more=strict), home, rebuild=True).release != first.release
    assert len(ledger.find(home, ReleaseFacts, "rejected")) == 2
    assert _run(office(people(seed=3), more=strict), home).release != first.release
    assert _run(office(), home).status == "published"


def test_what_a_person_has_rejected_is_not_asked_again(office, after, home):
    outcome = after(PERSON)
    decide(home, Decision(act="reject", release=outcome.release, by="A. Smith", reason="too risky"))
    again = _run(office(more=PERSON), home)
    assert again.status == "rejected"
    assert again.reason.endswith("(by A. Smith)")
    retitled = _run(office(more="publication: {title: another}"), home)
    assert (retitled.status, retitled.reason) == ("awaiting", "a person must decide: earlier attempts")


def test_a_group_of_identical_records_needs_acknowledgement(office, home):
    step = "{method: spectral-rhs, k: 10}"
    with pytest.raises(Refused, match="by_design"):
        _run(office(step=step), home)
    outcome = _run(office(step=step, more="policy: {by_design: [uncertainty], approval: person}"), home)
    claims = [g for g in outcome.gates if g.name.startswith("10-anonymity")]
    assert claims
    assert claims[0].verdict == "pass"


def test_awaiting_then_approved(office, after, home):
    outcome = after(PERSON)
    assert outcome.status == "awaiting"
    assert not home.releases.exists()
    assert _run(office(more=PERSON), home).status == "awaiting"
    done = decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="read the report"))
    assert done.status == "published"
    assert verify_release(done.folder) == []
    assert [e.event for e in ledger.entries(home)] == ["awaiting", "approved", "publishing", "published"]
    assert ledger.entries(home)[1].facts.actor == "A. Smith"
    with pytest.raises(Refused, match="awaits"):
        decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="again"))


def test_awaiting_then_rejected(after, home):
    outcome = after(PERSON)
    assert (
        decide(home, Decision(act="reject", release=outcome.release, by="A. Smith", reason="too risky")).status
        == "rejected"
    )
    assert not any(home.candidates.iterdir())
    assert ledger.problems(home) == []


def test_a_candidate_changed_while_waiting_is_not_published(after, home):
    outcome = after(PERSON)
    data = home.candidates / outcome.release / "data.csv"
    data.write_text(data.read_text() + "x")
    with pytest.raises((Refused, Fault), match=r"data\.csv"):
        decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="fine"))
    assert (
        decide(home, Decision(act="reject", release=outcome.release, by="A. Smith", reason="changed")).status
        == "rejected"
    )
    assert not home.releases.exists() or not any(home.releases.rglob("data*"))


def test_raw_violations_by_policy(office, home, people):
    frame = people()
    frame.loc[:4, "gross"] += 10
    with pytest.raises(Refused, match=r"net and tax make gross \(5\)"):
        _run(office(frame), home)
    assert not any(home.workspaces.iterdir())
    aside = _run(office(frame, on_violation="set-aside"), home)
    assert aside.status == "published", aside.reason
    dossier = json.loads((home.path / "assessments" / aside.release / "dossier.json").read_text())
    assert dossier["edits"]["set_aside"] == 5
    assert sum(dossier["assessment"]["records"][k] for k in ("original", "reference")) <= 2995
    repaired = _run(office(frame, on_violation="repair"), home)
    together = next(g for g in repaired.gates if g.name == "earlier releases")
    assert together.verdict == "pass"
    assert together.figure.endswith("with 1 of 1")


def test_a_publication_cut_short_is_settled_by_the_next_run(office, after, home):
    """Killed between putting the files in place and the ledger's entry, or before either."""
    plan = office()
    first = after()
    lines = home.ledger.read_text().splitlines()
    announced = ledger.entries(home)[0]

    def cut_short() -> None:
        home.ledger.write_text(lines[0] + "\n")
        store_of(home).put_head(ledger._signed(Head(number=1, digest=announced.digest), signing.signing_key(home)))

    cut_short()
    assert _run(plan, home).status == "unchanged"
    entry = ledger.entries(home)[-1]
    assert (entry.event, entry.facts.recovered) == ("published", True)
    cut_short()
    shutil.rmtree(home.releases / "office" / first.release)
    assert _run(plan, home).status == "published"
    assert [e.event for e in ledger.entries(home)][:2] == ["publishing", "abandoned"]
    assert ledger.problems(home) == []


def test_two_runs_of_one_plan_do_not_overlap(office, home):
    plan = office()
    with exclusive_run(home, "office"), pytest.raises(Refused, match="under way"):
        _run(plan, home)


def test_a_rejected_candidate_cannot_be_approved_any_more(after, home):
    outcome = after(PERSON)
    kept = home.candidates / outcome.release
    shutil.copytree(kept, home.path / "copy")
    decide(home, Decision(act="reject", release=outcome.release, by="A. Smith", reason="too risky"))
    shutil.move(home.path / "copy", kept)
    with pytest.raises(Refused, match="awaits no decision any more: it is rejected"):
        decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="after all"))


def test_records_of_one_person_stay_on_one_side(office, home, people):
    """Many identical records of each person, which would hide a verbatim copy from every comparison."""
    frame = people(400)
    frame = frame.loc[frame.index.repeat(6)].reset_index(drop=True)
    outcome = _run(office(frame, step="{method: extreme-records, action: winsorise, tail: 0.001}"), home)
    assert outcome.status == "rejected"
    assert "identical records" in outcome.reason


def test_an_in_out_game_decides_and_names_people_to_the_custodian_alone(office, home, people):
    plan = office(people(400), more="game: {shadows: 64, isolated: 10, random: 5}\npolicy: {membership_auc: 0.9}")
    shown = []
    outcome = carry_out(load_plan(plan), home, Direct(lambda label, *_, **more: shown.append(label)))
    gate = next(one for one in outcome.gates if one.name == "in/out game")
    assert (gate.verdict, gate.records) == ("pass", 200)
    assert "Play the in/out game: 98%" in shown
    kept = home.assessment(outcome.release)
    page = kept / "custodian-game.html"
    assert page.stat().st_mode & 0o777 == 0o600
    assert "custodian-game.html" in custodian_pages(home, outcome.release)
    assert "In/out game, isolated people" in (kept / "report.html").read_text()
    for path in (page, home.game("office")):
        assert CANARY_TEXT not in path.read_text()
    assert not list(home.path.glob("releases/**/custodian*"))


def test_the_progress_of_long_tasks_says_how_fast_and_how_long() -> None:
    told: list[str] = []
    runner = Direct(lambda label, *_, **more: told.append(label))
    runner.label, runner.records = "Mask the records", 3_000_000
    for seconds in (9.0, 20.0):
        runner.tasks_done(Progress("masked", 2, 6, seconds))
    runner.tasks_done(Progress("masked", 6, 6, 60.0))
    assert told == ["Mask the records: 33%, about 40 s left, 50,000 records/s"]


def test_a_step_that_breaks_wipes_the_workspace(office, home, monkeypatch):
    def broken(*_):
        raise ValueError("918273645")

    monkeypatch.setattr("flows.prepare.split", broken)
    with pytest.raises(Fault) as caught:
        _run(office(), home)
    assert "918273645" not in str(caught.value)
    assert caught.value.__context__ is None
    assert not any(home.workspaces.iterdir())
    assert ledger.entries(home) == []


def test_references(made, office, home):
    def tested(outcome):
        assert outcome.status in ("published", "awaiting")
        membership = next(g for g in outcome.gates if g.name == "membership")
        return outcome.records, membership.verdict != "not tested"

    assert tested(made()[2]) == (750, True)
    assert tested(_run(office(more="reference: {kind: leave-one-out}"), home)) == (1500, False)


def test_a_reference_that_holds_the_people_of_the_source_asks_a_person(office, home, people):
    """Members would be compared with members, so that no attack finds anything."""

    def asked(reference):
        frame = reference.assign(person=[f"other {i}" for i in range(len(reference))])
        frame.to_csv(Path(plan).parent / "others.csv", index=False)
        gates = _run(plan, home).gates
        return {g.name: g.verdict for g in gates}.get("reference of other people")

    plan = office(more="reference: {kind: file, disjoint_by: identifier, source: {path: others.csv}}")
    assert asked(people()) == "inconclusive"
    assert asked(people(seed=5)) is None


def test_steps_are_chained(office, home):
    plan = office(step="{method: rare-levels, k: 5}\n  - {method: extreme-records}\n  - {method: spectral-swap}")
    outcome = _run(plan, home)
    assert outcome.status in ("published", "awaiting"), outcome.reason
