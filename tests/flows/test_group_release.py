"""A plan that hides where a group is: what is published, what only the custodian sees, how it is refused."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.decision.approval import decide
from tasks.publication.manifest import verify_release
from tasks.record.decision import Decision
from tests.limits import UTILITY

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

AREAS = list("abcdefgh")
MEMBERS = [61, 23, 131, 37, 29, 83, 17, 613]

PLAN = """
anonflow: 1
name: garrison
source: {path: people.csv}
variables:
  - {name: person, kind: nominal, role: identifier}
  - {name: house, kind: nominal, role: household}
  - {name: area, kind: nominal, role: area, levels: [a, b, c, d, e, f, g, h, elsewhere]}
  - {name: service, kind: ordinal, role: sensitive, levels: [0, 1, 2, 3]}
  - {name: age, kind: continuous, role: quasi-identifier, precision: 1}
  - {name: sex, kind: binary, role: quasi-identifier, levels: [f, m]}
  - {name: income, kind: continuous, role: sensitive, precision: 1}
HOME
reference: {kind: leave-one-out}
assessment: {margin: 0.15}
steps:
  - method: group-anonymity
    vital: [{service: [2, 3]}]
    parameter: area
    order: [a, b, c, d, e, f, g, h]
    caps: {h: 100}
    details: DETAILS
  MORE
policy: POLICY
"""
REASON = "the file has long been public but for the area"
ALONE = f"{{{UTILITY}, individual_protection: none, individual_protection_reason: {REASON}, untested: [membership]}}"


def people(records=6000, seed=3):
    rng = np.random.default_rng(seed)
    house = np.repeat(np.arange(records), rng.choice([1, 2, 3], records, p=[0.5, 0.3, 0.2]))[:records]
    area = rng.choice(9, records, p=[*np.full(8, 0.115), 0.08])[house]
    serves = np.zeros(records, dtype=bool)
    for a, count in enumerate(MEMBERS):
        serves[rng.choice(np.flatnonzero(area == a), count, replace=False)] = True
    return pd.DataFrame(
        {
            "person": [f"p{i}" for i in range(records)],
            "house": house,
            "area": np.array([*AREAS, "elsewhere"])[area],
            "service": np.where(serves, rng.choice([2, 3], records), rng.choice([0, 1], records)),
            "age": rng.integers(18, 80, records),
            "sex": rng.choice(["f", "m"], records),
            "income": np.exp(rng.normal(8, 0.5, records)).round(),
        }
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def write(folder, frame=None, *, policy=ALONE, details="winsorised", step="", with_home=False):
    """Write table and plan; return the plan's path."""
    (people() if frame is None else frame).to_csv(folder / "people.csv", index=False)
    text = PLAN.replace("POLICY", policy).replace("DETAILS", details)
    text = text.replace("MORE", f"- {step}" if step else "")
    text = text.replace("HOME", "  - {name: home, kind: nominal}" if with_home else "")
    path = folder / "garrison.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def plan(tmp_path: Path):
    """Return a function that writes table and plan, and returns the plan's path."""
    return partial(write, tmp_path)


def _run(path, home):
    return carry_out(load_plan(path), home, Direct())


def _counts(frame):
    return frame.loc[frame["service"].isin([2, 3]), "area"].astype(str).value_counts().reindex(AREAS, fill_value=0)


@pytest.fixture(scope="module")
def hidden(tmp_path_factory, tracking):
    """Return a home, how its only run ended, and how the approval of that release did."""
    folder = tmp_path_factory.mktemp("hidden")
    home = Home.locate(folder / "home")
    outcome = _run(write(folder), home)
    return home, outcome, decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="fine"))


def test_a_person_decides_and_the_release_hides_the_group(hidden):
    _, outcome, done = hidden
    assert outcome.status == "awaiting", outcome.reason
    assert done.status == "published"
    assert verify_release(done.folder) == []
    published, source = pd.read_parquet(done.folder / "data.parquet"), people()
    assert _counts(source).tolist() == MEMBERS
    assert _counts(published)["h"] <= 100
    assert _counts(published).sum() == sum(MEMBERS)
    assert published["area"].astype(str).value_counts().to_dict() == source["area"].value_counts().to_dict()
    assert REASON in (done.folder / "method.md").read_text()


def test_the_counts_before_stand_on_the_custodians_page_alone(hidden):
    home, outcome, done = hidden
    (page,) = (home.path / "assessments" / outcome.release).glob("custodian*.html")
    assert page.stat().st_mode & 0o077 == 0
    told = re.sub(r"<[^>]+>", " ", page.read_text())
    assert all(f" {n} " in told for n in MEMBERS)
    assert not list(done.folder.glob("custodian*"))
    for path in done.folder.iterdir():
        if path.suffix in (".md", ".json", ".html"):
            text = re.sub(r'"[0-9a-f]{16,}"|base64,[A-Za-z0-9+/=]+', "", path.read_text())
            assert not re.search(r"\b(613|131)\b", text), path.name


def test_goals_are_not_published(hidden):
    """Whoever reads that h was capped knows where the group was."""
    _, _, done = hidden
    for name in ("method.md", "report.html", "assessment.json", "manifest.json"):
        assert "caps" not in (done.folder / name).read_text(), name


def test_utility_figures_do_not_tell_the_hidden_count(hidden):
    """A difference of correlations of area and service, added to what the release shows, tells the count."""
    _, _, done = hidden
    told = json.loads((done.folder / "assessment.json").read_text())
    frame = pd.read_parquet(done.folder / "data.parquet")
    here = (frame["area"].astype(str) == "h").to_numpy()
    code = frame["service"].astype(int).to_numpy()
    serves = np.isin(code, [2, 3])
    # By how much one member more in h, and one fewer elsewhere, changes the correlation.
    effect = (code[serves].mean() - code[~serves].mean()) / (code.std() * here.std() * len(frame))
    gap = next(f for f in told["assessment"]["utility"]["figures"] if f["name"] == "correlation")["released_largest"]
    restored = _counts(frame)["h"] + gap / effect
    assert abs(restored - MEMBERS[7]) > 0.1 * MEMBERS[7]


def test_counts_of_identical_records_do_not_tell_how_many_moved(hidden):
    """Every record that did not move equals its own; whoever knows how many did knows what h has lost."""
    home, outcome, done = hidden
    kept = home.path / "assessments" / outcome.release
    (page,) = kept.glob("custodian*.html")
    told = re.sub(r"<[^>]+>", " ", page.read_text())
    moved = int(re.search(r"records whose area changed\s+([\d,]+)", told)[1].replace(",", ""))
    for name in ("assessment.json", "method.md", "report.html"):
        text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", (done.folder / name).read_text()).replace(",", "")
        assert not re.search(rf"\b({moved}|{6000 - moved})\b", text), name


def test_plain_details_are_rejected_by_the_inversion(plan, home):
    outcome = _run(plan(details="plain"), home)
    assert outcome.status == "rejected"
    assert "inverting the wavelet route" in outcome.reason
    assert outcome.folder is None


def test_a_home_that_stays_with_the_members_is_rejected(plan, home):
    frame = people().assign(home=lambda f: f["area"])
    outcome = _run(plan(frame, with_home=True), home)
    assert outcome.status == "rejected"
    assert "found again from the other variables" in outcome.reason


def test_counts_hold_after_spectral_swapping(plan, home):
    policy = "{approval: person, untested: [membership]}"
    outcome = _run(plan(step="{method: spectral-swap}", policy=policy), home)
    gate = next(g for g in outcome.gates if g.name.startswith("the group's counts"))
    assert gate.verdict == "pass"
    if outcome.status == "awaiting":
        done = decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="fine"))
        published = pd.read_parquet(done.folder / "data.parquet")
        assert _counts(published)["h"] <= 100
        assert _counts(published).sum() == sum(MEMBERS)
    else:
        assert "the group's counts" not in outcome.reason


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"policy": "{approval: person}"},
            "individual_protection: none with an individual_protection_reason",
        ),
        ({"step": "{method: spectral-swap}"}, "is for plans that only hide a group"),
        ({"policy": "{individual_protection: none}"}, "needs an individual_protection_reason"),
    ],
)
def test_plans_that_are_refused(plan, wrong, said):
    with pytest.raises(Refused, match=re.escape(said)):
        load_plan(plan(**wrong))


def test_names_in_the_step_are_checked_with_the_plan(plan):
    path = plan()
    path.write_text(path.read_text().replace("parameter: area", "parameter: place"))
    with pytest.raises(Refused, match="place: no such variable is released"):
        load_plan(path)


def test_figures_of_single_records_are_told_as_if_nobody_had_moved(hidden):
    home, outcome, _ = hidden
    figures = json.loads((home.path / "assessments" / outcome.release / "dossier.json").read_text())["assessment"]
    assert figures["as_source"]
    households = people()["house"].nunique()
    assert figures["risk"]["identical"]["n_released"] == figures["risk"]["identical"]["n"] == households
    assert {g.verdict for g in outcome.gates if g.name.startswith("prediction")} == {"waived"}


def test_what_an_edit_computes_from_the_area_is_left_out_of_the_figures(plan, home):
    frame = people()
    frame["area"] = frame["area"].map({a: i for i, a in enumerate([*AREAS, "elsewhere"])})
    frame = frame.assign(zone=100 * frame["area"] + frame["age"])
    path = plan(frame)
    text = path.read_text().replace("levels: [a, b, c, d, e, f, g, h, elsewhere]", "levels: [0,1,2,3,4,5,6,7,8]")
    text = text.replace("name: area, kind: nominal", "name: area, kind: ordinal")
    text = text.replace("order: [a, b, c, d, e, f, g, h]", "order: [0, 1, 2, 3, 4, 5, 6, 7]")
    text = text.replace("caps: {h: 100}", 'caps: {"7": 100}')
    text = text.replace("reference:", "  - {name: zone, kind: continuous, precision: 1}\nreference:")
    rule = "{edit: linear, name: zone, terms: {area: 100, age: 1, zone: -1}, dependent: zone}"
    path.write_text(text.replace("steps:", f"edits: {{rules: [{rule}]}}\nsteps:"))
    outcome = _run(path, home)
    told = json.loads((home.path / "assessments" / outcome.release / "dossier.json").read_text())["assessment"]
    names = {column.split("=")[0] for column in told["utility"]["columns"]}
    assert not names & {"area", "zone"}
    assert "age" in names
    published = pd.read_parquet(home.candidates / outcome.release / "data.parquet")
    assert (published["zone"] == 100 * published["area"] + published["age"]).all()


def test_goals_cannot_be_guessed_from_a_digest(plan, hidden, tmp_path):
    file, (home, outcome, _) = load_plan(plan()), hidden
    dossier = json.loads((home.path / "assessments" / outcome.release / "dossier.json").read_text())
    assert dossier["plan"]["digest"] != file.plan.digest
    other = carry_out(file, Home.locate(tmp_path / "another"), Direct())
    away = json.loads((tmp_path / "another" / "assessments" / other.release / "dossier.json").read_text())
    assert away["plan"]["digest"] != dossier["plan"]["digest"]
    again = carry_out(file, home, Direct())
    assert again.release == outcome.release
    assert "caps" not in file.plan.public_text()
    assert "method: group-anonymity" in file.plan.public_text()


def test_goals_that_move_nobody_are_refused(plan, home):
    path = plan(details="plain")
    path.write_text(path.read_text().replace("caps: {h: 100}", "caps: {h: 5000}"))
    with pytest.raises(Refused, match="the goals move no record"):
        _run(path, home)


def test_methods_of_identical_groups_are_refused_beside_it(plan):
    with pytest.raises(Refused, match="cannot be combined"):
        load_plan(plan(step="{method: mdav}", policy="{by_design: [uncertainty], untested: [membership]}"))
    within = "{method: mdav, within: [area, service]}"
    load_plan(plan(step=within, policy="{by_design: [uncertainty], untested: [membership]}"))
    policy = "{by_design: [uncertainty, ambiguity], untested: [membership]}"
    with pytest.raises(Refused, match="cannot be combined"):
        load_plan(plan(step="{method: optimal-boxes}", policy=policy))
    load_plan(plan(step="{method: optimal-boxes, categorical: constant}", policy=policy))


def test_missing_areas_and_later_swapping_go_together(plan, home):
    frame = people()
    frame.loc[frame.index % 13 == 0, "area"] = None
    policy = "{approval: person, untested: [membership]}"
    outcome = _run(plan(frame, step="{method: spectral-swap}", policy=policy), home)
    gate = next(g for g in outcome.gates if g.name.startswith("the group's counts"))
    assert gate.verdict == "pass"
