"""Releases that follow each other: who came and went is counted, and what subtracting them reveals is measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from flows.cli import app, exit_code_of
from flows.commands import shown
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.decision.approval import decide
from tasks.decision.outcomes import Outcome
from tasks.policy.gate import GateResult
from tasks.record import signing
from tasks.record.decision import Decision
from tasks.record.dossier import read_dossier

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]
CHANGE = "change since earlier releases"
# Noise, and nobody set apart: the changes are those of the file.
STEP = "{method: additive-noise, b: 1.0}"
SERIES = "reference: {kind: leave-one-out}\nseries: {kind: register, shared: POPULATION}"
MORE = f"{SERIES}\npolicy: {{approval: person, tail_p: 1.0e-9}}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("POPULATION", "a secret of two offices" * 2)
    return Home.locate(tmp_path / "home")


def released(
    office, home: Home, frame: pd.DataFrame, more: str = MORE, name: str = "office", without: str = "", least: int = 5
) -> Outcome:
    path = office(frame, step=STEP, more=f"{more[:-1]}, least_change: {least}}}")
    text = path.read_text().replace("name: office", f"name: {name}", 1)
    path.write_text(re.sub(rf"(name: {without}, .*role: )[a-z-]+", r"\1excluded", text) if without else text)
    return carry_out(load_plan(path), home, Direct())


def gate(outcome: Outcome, name: str = CHANGE) -> GateResult | None:
    return next((one for one in outcome.gates if one.name == name), None)


def approved(home: Home, outcome: Outcome) -> Outcome:
    assert outcome.status == "awaiting", outcome.reason
    return decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="read"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command prints."""
    capsys.readouterr()
    assert exit_code_of(lambda: app(list(arguments), standalone_mode=True), as_json=False) == 0
    return capsys.readouterr().out


def test_a_month_with_few_newcomers_waits_and_says_why(office, home, people, capsys):
    everyone = people(400)
    first = released(office, home, everyone[:300])
    assert gate(first) is None
    assert first.records == 300 - 120, "of 300 people 120 are left out"
    approved(home, first)
    # Ten left and ten joined, in another order.
    second = released(office, home, everyone[10:310].sample(frac=1.0, random_state=1))
    found = gate(second)
    assert (found.verdict, found.figure) == (
        "pass",
        f"since {first.release}: 10 to 19 joined, 10 to 19 left, 0 changed",
    )
    approved(home, second)
    third = released(office, home, everyone[10:313], without="region")
    found = gate(third)
    assert third.status == "awaiting"
    assert CHANGE in third.reason
    assert found.figure.startswith(
        f"since {first.release}: 10 to 19 joined, 10 to 19 left; who changed is not known, as its variables are "
        f"others; since {second.release}: 1 to 4 joined or 1 to 4 left; who"
    )
    series = read_dossier(home, third.release).assessment.series
    assert (series.releases, series.known, len(series.few), series.identified) == (2, 2, 2, True)
    assert {pair.release for pair in series.pairs} == {first.release, second.release}, "by the variables of both"
    figure = gate(third, "differencing").figure
    assert figure == "2 pair(s) not shown, as few joined, left or changed, or it is not known how many"
    command = ("show", third.release, "--home", str(home.path))
    brief = said(capsys, *command)
    assert f"{first.release}: 10 to 19 joined, 10 to 19 left; who changed is not known" in brief
    assert "follows 2 published release(s)" in brief
    decided = sum(one.verdict not in shown.OPEN for one in third.gates)
    assert f"{decided} other gate(s) pass or are not asked; --all shows them" in brief
    assert len(said(capsys, *command, "--all").splitlines()) > len(brief.splitlines())
    with pytest.raises(typer.Exit):
        shown.finish(third, home, as_json=False, seconds=1.0)
    assert f"Next    {CHANGE}: run the plan again when more have joined" in capsys.readouterr().out
    stored = np.load(home.members_of(second.release))
    assert stored["identities"].shape == (300,)
    assert home.members_of(second.release).stat().st_mode & 0o077 == 0


def test_who_changed_since_a_release_that_cannot_be_read_is_not_tested(office, home, people):
    everyone = people(300)
    first = released(office, home, everyone)
    approved(home, first)
    (home.files_of("office", first.release) / "codebook.json").unlink()
    changed = everyone.assign(children=(everyone["children"] + 1) % 4)
    found = gate(released(office, home, changed), "differencing")
    assert (found.verdict, found.figure.split(",")[0]) == ("inconclusive", "1 pair(s) not tested")


# All units are in each release, by steps that keep level counts.
ALL = MORE.replace("register", "snapshot")


def test_who_only_left_was_not_tested_and_exact_figures_are_not_subtracted_unasked(office, home, people):
    everyone = people(300)
    first = released(office, home, everyone, ALL)
    approved(home, first)
    second = released(office, home, everyone[10:], ALL)
    found = gate(second)
    assert found.verdict == "inconclusive"
    assert "1 earlier release(s) of partly the same units, while figures follow from the source" in found.figure
    assert "declare `series: {kind: register}`" in found.needed
    assert gate(second, "differencing").figure.startswith("1 pair(s) not tested, as units only left")
    approved(home, second)
    changed = everyone[10:].assign(age=lambda frame: frame["age"] + 1)
    third = released(office, home, changed, ALL)
    assert "290 to 299 changed; 2 earlier release(s) of partly the same units" in gate(third).figure


def test_the_same_people_under_other_identifiers_ask_a_person(office, home, people):
    everyone = people(900)
    approved(home, released(office, home, everyone, ALL))
    renumbered = everyone[1:].assign(person=[f"n{number}" for number in range(899)])
    found = gate(released(office, home, renumbered, ALL, name="other", without="region"))
    assert found.verdict == "inconclusive"
    assert "1 other release(s) not tested, whose figures are as near as those of nearly the same units" in found.figure
    assert "declare the same identifier" in found.needed
    strangers = people(900, seed=5).assign(person=[f"s{number}" for number in range(900)])
    assert gate(released(office, home, strangers, ALL, name="third", without="region")) is None


def test_a_release_of_as_many_records_whose_figures_cannot_be_compared_asks_a_person(office, home, people):
    everyone = people(900)
    first = released(office, home, everyone, ALL)
    approved(home, first)
    for file in home.files_of("office", first.release).glob("data.*"):
        file.unlink()
    renumbered = everyone[1:].assign(person=[f"n{number}" for number in range(899)])
    found = gate(released(office, home, renumbered, ALL, name="other", without="region"))
    assert found.verdict == "inconclusive"
    assert "1 other release(s) not tested, whose figures cannot be compared" in found.figure
    few = everyone[:800].assign(person=[f"n{number}" for number in range(800)])
    assert gate(released(office, home, few, ALL, name="third", without="region")) is None


def test_the_same_plan_with_identifiers_given_out_anew_is_compared_by_its_figures(office, home, people):
    everyone = people(900)
    approved(home, released(office, home, everyone, ALL))
    # A year later, so that no one is known by the values either.
    renumbered = everyone.assign(person=[f"n{number}" for number in range(900)], age=everyone["age"] + 1)
    found = gate(released(office, home, renumbered[1:], ALL))
    assert (found.verdict, "890 to 899 joined, 900 to 909 left" in found.figure) == ("inconclusive", True)
    assert "1 other release(s) not tested, whose figures are as near as those of nearly the same units" in found.figure
    assert "declare the same identifier" in found.needed
    strangers = people(900, seed=5).assign(person=[f"s{number}" for number in range(900)])
    assert gate(released(office, home, strangers, ALL)).verdict == "pass"


def test_a_release_of_others_in_between_hides_nothing(office, home, people):
    everyone = people(900)
    approved(home, released(office, home, everyone, ALL))
    strangers = people(700, seed=5).assign(person=[f"s{number}" for number in range(700)])
    approved(home, released(office, home, strangers, ALL))
    renumbered = everyone.assign(person=[f"n{number}" for number in range(900)], age=everyone["age"] + 1)
    found = gate(released(office, home, renumbered[1:], ALL, name="other"))
    assert "1 other release(s) not tested, whose figures are as near" in found.figure


def test_other_names_kinds_and_labels_do_not_hide_that_people_are_the_same(office, home, people):
    everyone = people(900)
    approved(home, released(office, home, everyone, ALL))
    other = everyone[1:].assign(person=[f"n{number}" for number in range(899)], age=everyone["age"] + 1)
    other["region"] = "of " + other["region"]
    path = office(other.rename(columns={"region": "area"}), step=STEP, more=ALL)
    text = path.read_text().replace("name: office", "name: other", 1).replace("name: region", "name: area")
    path.write_text(text.replace("kind: ordinal", "kind: nominal"))
    found = gate(carry_out(load_plan(path), home, Direct()))
    assert "1 other release(s) not tested, whose figures are as near" in found.figure


def test_a_step_that_treats_one_variable_does_not_hide_what_the_others_keep_exactly(office, home, people):
    everyone, steps = people(300), f"{{method: pram, variables: [region], keep: 0.9}}\n  - {STEP}"
    outcomes = []
    for frame in (everyone, everyone[10:]):
        path = office(frame, step=steps, more=f"{ALL[:-1]}, least_change: 5}}")
        outcomes.append(carry_out(load_plan(path), home, Direct()))
        if not outcomes[1:]:
            approved(home, outcomes[0])
    found = gate(outcomes[1])
    assert found.verdict == "inconclusive"
    assert "1 earlier release(s) of partly the same units, while figures follow from the source" in found.figure


def test_a_register_that_leaves_out_too_few_is_asked_as_one_that_leaves_out_none(office, home, people):
    few = MORE.replace("kind: register", "kind: register, left_out: 1")
    everyone = people(300)
    first = released(office, home, everyone, few)
    assert first.records == 299
    approved(home, first)
    found = gate(released(office, home, everyone[10:], few))
    assert found.verdict == "inconclusive"
    assert "a left_out of 1 is too few to hide them" in found.figure


def test_what_waited_while_another_was_published_is_run_again(office, home, people):
    frame = people(300)
    one, other = (released(office, home, frame, name=name) for name in ("office", "other"))
    assert {one.status, other.status} == {"awaiting"}
    approved(home, one)
    with pytest.raises(Refused, match="was not measured together with it"):
        approved(home, other)
    again = released(office, home, frame, name="other")
    assert gate(again).figure == f"since {one.release}: 0 joined, 0 left, 0 changed"
    renamed = released(office, home, frame[1:], name="renamed", least=1_000_000)
    assert gate(renamed).figure == f"since {one.release}: 1 to 999999 joined or 1 to 999999 left, 0 changed"
    assert read_dossier(home, renamed.release).assessment.prior_releases.releases == 1
    approved(home, again)
    with pytest.raises(Refused, match="was not measured together with it"):
        approved(home, renamed)


def test_what_another_office_has_released_of_the_same_people_asks_a_person(office, home, people, tmp_path, capsys):
    everyone = people(320)
    first = released(office, home, everyone[:300])
    approved(home, first)
    secret, other = ("--secret", "POPULATION"), ("--home", str(tmp_path / "other"))
    exported, key = tmp_path / "digests.json", tmp_path / "public.pem"
    key.write_text(signing.public_key(home))
    said(capsys, "digests", "export", str(exported), *secret, "--home", str(home.path))
    said(capsys, "digests", "import", str(exported), "--office", "north", "--key", str(key), *secret, *other)
    assert "north" in said(capsys, "digests", "list", *other)
    elsewhere = released(office, Home.locate(tmp_path / "other"), everyone[50:])
    found = gate(elsewhere)
    assert found.verdict == "inconclusive"
    counts = "250 to 259 units in common, 20 to 29 that it lacks, 50 to 59 that it has besides"
    assert found.figure == f"beside north/{first.release} of another home: {counts}"


def test_people_of_a_panel_keep_their_pseudonym_and_their_histories_are_attacked(office, home, people):
    more = "reference: {kind: cross}\nseries: {kind: panel, pseudonym: who}\npolicy: {approval: person, tail_p: 1.0e-9}"
    frame = people(310).assign(region="north")
    path = office(frame, step=STEP, more=more)
    tables, outcomes = [], []
    for month in range(2):
        frame.loc[:8, ["gross", "net"]] += 1000 * month
        frame[: 300 + 10 * month].to_csv(path.parent / "people.csv", index=False)
        outcomes.append(approved(home, carry_out(load_plan(path), home, Direct())))
        tables.append(pd.read_csv(outcomes[-1].folder / "data.csv").set_index("who"))
    first, second = tables
    assert first.index.is_unique
    assert first.index.str.fullmatch("[0-9a-f]{16}").all()
    both = first.index.intersection(second.index)
    assert 300 - 2 * 120 <= len(both) < 300 - 120, "others are drawn"
    assert first.loc[both, "gross"].corr(second.loc[both, "gross"]) > 0.1, "noise of one standard deviation, twice"
    book = json.loads((outcomes[1].folder / "codebook.json").read_text())["variables"][-1]
    assert (book["name"], book["levels"]) == ("who", None)
    assessment = read_dossier(home, outcomes[1].release).assessment
    assert [pair.changed for pair in assessment.series.pairs] == [False, True], "the added column is not in the way"
    assert assessment.series.untested == 0
    assert assessment.series.newest.changed == 9
    assert all(half.prior_releases.attack.histories is not None for half in assessment.halves)
    expected = json.loads((outcomes[1].folder / "expectations.json").read_text())
    assert "who" in json.dumps(expected)
