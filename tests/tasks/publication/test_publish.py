"""What is published: whole, signed, never overwritten, and nothing that was not assessed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.methods import SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.digests import sha256_of
from tasks.common.errors import Fault, Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.common.workspace import StoredMicrodata, Workspace
from tasks.intake.ingest import ingest
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection, split
from tasks.intake.units import Declared
from tasks.intake.validate import EditsSection, validate_masked, validate_raw
from tasks.masking.anonymize import mask
from tasks.policy.gate import GateResult
from tasks.policy.section import PolicySection
from tasks.policy.verdict import Verdict, decide
from tasks.publication.candidate import (
    Candidate,
    PublicationSection,
    keep_candidate,
    load_candidate,
    method_statement,
    prepare_data,
    prepare_documents,
)
from tasks.publication.dossier import Results, Stated, gather
from tasks.publication.manifest import verify_release
from tasks.publication.publish import publish
from tasks.record.dossier import Dossier, PlanIdentity, ReleaseIdentity
from tests.tasks.facts import enter

CANARY = "CANARY4711"
SEED = 730274627364518273645182736451827364518273
PUBLICATION = PublicationSection(title="People", description="A test.", contact="us", licence="CC0")
VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("children", "continuous", precision=1.0),
    Variable("wages", "continuous"),
    Variable("other", "continuous"),
    Variable("income", "continuous"),
    Variable("grade", "ordinal", levels=("low", "mid", "high")),
    Variable("town", "nominal"),
    Variable("sex", "binary", levels=(0, 1)),
    Variable("empty", "continuous"),
)
EDITS = EditsSection(
    rules=(
        LinearEdit(
            name="income",
            terms={"wages": 1.0, "other": 1.0, "income": -1.0},
            dependent="income",
            tolerance=0.02,
        ),
        BoundEdit(name="children", variable="children", lower=0.0),
        BoundEdit(name="limit of a draft", variable="children", upper=20.0),
    ),
    published=("income", "children"),
)
PASSPORTS = ("datapackage.json", "ddi-codebook.xml", "croissant.json")
LONELY = f"{CANARY}-village"


def people(records: int = 160) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wages, other = (np.exp(rng.normal(mean, 0.7, records)).round(2) for mean in (8, 6))
    frame = pd.DataFrame(
        {
            "id": [f"{CANARY}-{i}" for i in range(records)],
            "children": np.where(rng.random(records) < 0.1, np.nan, rng.poisson(1.5, records)),
            "wages": wages,
            "other": other,
            "income": (wages + other).round(2),
            "grade": rng.choice(["low", "mid", "high"], records),
            "town": rng.choice(["NA", "DE", "FR", ""], records),
            "sex": rng.integers(0, 2, records),
            "empty": np.nan,
        }
    )
    frame.loc[:39, "town"] = [f"{LONELY}-{i}" for i in range(40)]
    return frame


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run, Dossier]:
    """Carry a small table through the real steps up to the candidate, once."""
    base = tmp_path_factory.mktemp("prepared")
    people().to_csv(base / "people.csv", index=False)
    seed = SeedSection(public=SEED, data_are_public=True)
    run = Run.start(Home.locate(base / "home"), seed)
    ingested = ingest(run, SourceSection(path="people.csv"), VARIABLES, base)
    run = run.bound_to(ingested.summary.digest)
    checked = validate_raw(run, ingested, EDITS)
    sides = split(run, checked, ReferenceSection(), Declared(VARIABLES), base)
    steps = (SpectralSwap(),)
    masked = mask(run, sides.original, steps, EDITS.edit_set())
    validated = validate_masked(masked, EDITS, sides.original)
    assessment = assess(run, sides, masked, AssessmentSection(), PolicySection()).assessment
    results = Results(
        ingested=ingested,
        checked=checked,
        split=sides,
        masked=masked,
        validated=validated,
        assessment=assessment,
        verdict=decide(assessment, PolicySection()),
        release=prepare_data(run, masked.released, validated.suite.json, "people", PUBLICATION, "0" * 64),
    )
    stated = Stated(
        PlanIdentity("people", "0" * 64, "People", passport=PUBLICATION.passport), steps, seed, EDITS, PolicySection()
    )
    return base / "home", run, prepare_documents(run, gather(run, stated, results), "<html>report</html>").dossier


@pytest.fixture
def run(prepared: tuple[Path, Run, Dossier], tmp_path: Path) -> Run:
    """A copy of the prepared run, to be spoilt."""
    source, run, _ = prepared
    home = Home(tmp_path / "home")
    shutil.copytree(source, home.path)
    folder = home.workspaces / run.id
    return Run(run.id, home, Workspace(folder), replace(run.streams, folder=folder))


def stored(run: Run, name: str) -> StoredMicrodata:
    path = run.workspace.folder / f"{name}.parquet"
    return StoredMicrodata(path, sha256_of(path))


def prepare(run: Run, plan: str, section: PublicationSection = PUBLICATION) -> ReleaseIdentity:
    return prepare_data(run, stored(run, "released"), "{}", "people", section, plan)


@pytest.fixture
def dossier(prepared: tuple[Path, Run, Dossier]) -> Dossier:
    return prepared[2]


@pytest.fixture
def candidate(run: Run, dossier: Dossier) -> Candidate:
    return Candidate(run.workspace.folder / "candidate", dossier)


@pytest.fixture
def release(run: Run, candidate: Candidate) -> Path:
    return publish(run.home, candidate)


@pytest.fixture
def waiting(run: Run, candidate: Candidate) -> Path:
    """A candidate that awaits a person, as the flow leaves it."""
    folder = keep_candidate(run.home, candidate)
    enter(run.home, "awaiting", release=candidate.dossier.release.id, dossier=candidate.dossier.digest)
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return the records as tuples, None for missing, in the order in which they stand."""
    return [tuple(None if pd.isna(v) else v for v in row) for row in frame.itertuples(index=False)]


def read_csv(folder: Path) -> pd.DataFrame:
    text = {"grade": "str", "town": "str"}
    return pd.read_csv(folder / "data.csv", keep_default_na=False, na_values=[""], dtype=text)


# The data


def test_both_files_hold_the_released_records_in_one_new_order(run: Run, release: Path) -> None:
    released = stored(run, "released").load().plain()
    parquet, csv = rows(pd.read_parquet(release / "data.parquet")), rows(read_csv(release))
    assert parquet == csv
    before = rows(released)
    assert parquet != before
    assert sorted(map(str, parquet)) == sorted(map(str, before))
    assert sum(a == b for a, b in zip(parquet, before, strict=True)) < len(before) / 4


def test_the_order_is_no_records_order_and_drawn_from_the_runs_secret(run: Run, tmp_path: Path) -> None:
    other = Run.start(run.home, SeedSection())
    shutil.copy(stored(run, "released").path, other.workspace.folder)
    first, second = prepare(run, "0" * 64), prepare(other, "0" * 64)
    assert first.id != second.id
    frames = [pd.read_parquet(r.workspace.folder / "candidate" / "data.parquet") for r in (run, other)]
    assert rows(frames[0]) != rows(frames[1])
    assert sorted(map(str, rows(frames[0]))) == sorted(map(str, rows(frames[1])))


def test_no_row_number_is_published(release: Path) -> None:
    assert list(read_csv(release).columns) == [v.name for v in VARIABLES[1:]]
    stored = pd.read_parquet(release / "data.parquet")
    assert list(stored.columns) == [v.name for v in VARIABLES[1:]]
    assert stored.index.equals(pd.RangeIndex(len(stored)))


def test_whole_numbers_have_no_decimal_point_though_some_are_missing(release: Path) -> None:
    lines = (release / "data.csv").read_text().splitlines()
    header = lines[0].split(",")
    for name in ("children", "sex"):
        cells = {line.split(",")[header.index(name)] for line in lines[1:]}
        assert all(cell == "" or cell.isdigit() for cell in cells)
    assert "" in {line.split(",")[header.index("children")] for line in lines[1:]}
    assert pd.read_parquet(release / "data.parquet")["children"].dtype in ("Int64", "float64")


def test_awkward_values_come_back_from_both_files(run: Run) -> None:
    texts = ["NA", "a,b", 'say "x"', "two\nlines", "größe", "=1+1", " padded ", "null"]
    frame = pd.DataFrame({"t": texts, "x": [1e-9, 1e15, -0.0, 0.1, 1 / 3, 2**53, np.nan, 5.0]})
    data = Microdata(frame, Schema([Variable("t", "nominal"), Variable("x", "continuous")]))
    other = Run.start(run.home, SeedSection())
    other.workspace.store("released", data)
    prepare(other, "0")
    folder = other.workspace.folder / "candidate"
    csv = pd.read_csv(folder / "data.csv", keep_default_na=False, na_values={"x": [""]})
    parquet = pd.read_parquet(folder / "data.parquet")
    assert rows(csv) == rows(parquet)
    assert sorted(map(str, rows(csv))) == sorted(map(str, rows(data.plain())))


@pytest.mark.parametrize("formats", [("parquet",), ("csv",)])
def test_only_the_formats_of_the_plan_are_written(run: Run, formats: tuple[str, ...]) -> None:
    folder = run.workspace.folder / "candidate"
    shutil.rmtree(folder)
    release = prepare(run, "0", PublicationSection(formats=formats))
    assert [f.name for f in release.files] == [f"data.{formats[0]}"]
    assert {p.name for p in folder.iterdir()} == {
        f"data.{formats[0]}",
        "codebook.json",
        "expectations.json",
    }


def test_the_same_content_has_the_same_id(run: Run) -> None:
    ids = [prepare(run, plan).id for plan in ("0", "0", "1")]
    assert ids[0] == ids[1] != ids[2]


# What describes it


def test_the_codebook_describes_exactly_the_columns(run: Run, release: Path) -> None:
    book = json.loads((release / "codebook.json").read_text())
    data = read_csv(release)
    assert [v["name"] for v in book["variables"]] == list(data.columns)
    assert book["records"] == len(data)
    for variable in book["variables"]:
        column = data[variable["name"]]
        assert variable["missing"] == int(column.isna().sum())
        assert set(variable) == {field.name for field in fields(Variable)}
        if variable["levels"] is not None:
            assert set(column.dropna()) == set(variable["levels"])
    grade = next(v for v in book["variables"] if v["name"] == "grade")
    assert grade["levels"] == ["low", "mid", "high"]
    assert (book["title"], book["contact"], book["licence"]) == ("People", "us", "CC0")


def test_the_codebook_names_no_value_of_somebody_who_is_not_in_the_release(
    run: Run, release: Path, dossier: Dossier
) -> None:
    apart = set(stored(run, "reference").load().frame["town"].dropna()) - set(
        stored(run, "released").load().frame["town"].dropna()
    )
    assert any(level.startswith(LONELY) for level in apart)
    book = (release / "codebook.json").read_text()
    assert not [level for level in apart if f'"{level}"' in book or f"'{level}'" in str(dossier.release)]


def test_the_suite_names_no_value_of_somebody_who_is_not_in_the_release(run: Run, release: Path) -> None:
    apart = set(stored(run, "reference").load().frame["town"].dropna()) - set(
        stored(run, "released").load().frame["town"].dropna()
    )
    suite = (release / "expectations.json").read_text()
    assert not [level for level in apart if f'"{level}"' in suite]


def test_nothing_that_was_counted_of_the_source_s_edits_is_published(release: Path, dossier: Dossier) -> None:
    assert "limit of a draft" in {rule.name for rule in dossier.edits.raw.rules}
    names = "report.html", "method.md", "assessment.json", "authority.json", "expectations.json", *PASSPORTS
    texts = {name: (release / name).read_text() for name in names}
    assert not [name for name, text in texts.items() if "limit of a draft" in text]
    assert '"children"' in texts["expectations.json"]
    edits = json.loads(texts["assessment.json"])["edits"]
    assert set(edits) == {"policy", "rules", "all_named", "repaired", "unverifiable"}
    assert {"income", "children"} <= {rule["name"] for rule in edits["rules"]}
    assert not edits["all_named"]


def test_no_identifier_and_no_secret_is_published(run: Run, release: Path) -> None:
    bound = int(hashlib.sha256(f"{SEED}|{run.streams.data_digest}".encode()).hexdigest(), 16)
    secrets = [str(SEED), f"{SEED:x}", str(bound), f"{bound:x}"]
    for file in release.iterdir():
        content = file.read_bytes()
        assert not any(f"{CANARY}-{i}".encode() in content for i in range(160))
        assert not any(secret.encode() in content for secret in secrets)


def test_the_method_statement_names_methods_and_parameters_and_no_secret(release: Path) -> None:
    text = (release / "method.md").read_text()
    assert "Step 1: spectral-swap with " in text
    assert "Dropped: id." in text
    assert "Randomness: public, stated in the plan" in text
    step = next(line for line in text.replace("\\", "").splitlines() if "Step 1: " in line)
    assert set(re.findall(r"(\w+) = ", step)) == {f.name for f in fields(SpectralSwap)} - {"method"}
    assert not re.search(r"= [^;]*(None|True|False|['()])", step)


def test_the_method_statement_claims_no_more_than_was_measured(dossier: Dossier) -> None:
    gate = GateResult("prediction distance", "inconclusive", "excess ≤ 0.062", "≤ 0.050", "0, the reference", 750, "")
    reason = "a person must decide: prediction distance"
    text = method_statement(replace(dossier, verdict=Verdict("await", reason, (gate,))))
    text = text.replace("\\", "")
    assert "no formal guarantee" in text
    assert not re.search(r"guarantee.*holds", text)
    assert "prediction distance: inconclusive. excess ≤ 0.062; limit: ≤ 0.050" in text
    assert f"The policy did not release this automatically: {reason}." in text


def test_the_method_statement_holds_no_count_that_tells_a_single_record(dossier: Dossier) -> None:
    identical = replace(dossier.assessment.risk.identical, n_released=356, n_reference=398)
    given = replace(
        dossier,
        source=replace(dossier.source, records=98_765, units=87_654, unit=("id",)),
        edits=replace(dossier.edits, policy="set-aside", unverifiable=("income",)),
        assessment=replace(dossier.assessment, risk=replace(dossier.assessment.risk, identical=identical)),
    )
    text = method_statement(given)
    assert not [count for count in ("356", "398", "98765", "87654", "98770") if count in text]
    assert "all hold, but for income" in text


def test_markup_of_a_title_or_a_name_stays_text_in_the_method_statement(dossier: Dossier) -> None:
    markup = "![t](http://evil.example/a.png) <script>alert(1)</script>"
    source = replace(dossier.source, dropped=("<script>alert(2)</script>pid",))
    changed = replace(dossier, plan=replace(dossier.plan, title=markup), source=source)
    text = method_statement(changed)
    assert "alert(1)" in text
    assert "alert(2)" in text
    assert not re.search(r"(?<!\\)[<\[]|://", text)


def test_the_assessment_holds_figures_and_no_missing_numbers(release: Path) -> None:
    assessment = json.loads((release / "assessment.json").read_text(), parse_constant=pytest.fail)
    assert assessment["assessment"]["records"]["released"] == 80
    assert assessment["verdict"]["gates"]


# Manifest, signature, permissions


def test_the_manifest_covers_every_file_with_its_sum(release: Path, dossier: Dossier) -> None:
    own = {"manifest.json", "manifest.json.sig", "public-key.pem"}
    found = manifest(release)
    assert set(found["files"]) == {p.name for p in release.iterdir()} - own
    assert set(found["files"]) == {
        "assessment.json",
        "authority.json",
        "codebook.json",
        "croissant.json",
        "data.csv",
        "data.parquet",
        "datapackage.json",
        "ddi-codebook.xml",
        "expectations.json",
        "method.md",
        "report.html",
    }
    assert all(sha256_of(release / file) == digest for file, digest in found["files"].items())
    assert (found["release"], found["version"]) == (dossier.release.id, 1)
    assert found["dossier"] == dossier.digest
    assert release.name == dossier.release.id
    assert verify_release(release) == []


def test_the_signature_verifies_with_the_published_key_and_no_other_content(release: Path) -> None:
    key: Any = load_pem_public_key((release / "public-key.pem").read_bytes())
    signature = bytes.fromhex((release / "manifest.json.sig").read_text())
    content = (release / "manifest.json").read_bytes()
    key.verify(signature, content)
    with pytest.raises(InvalidSignature):
        key.verify(signature, content + b" ")


def test_what_is_published_is_the_owners_alone(run: Run, candidate: Candidate) -> None:
    before = os.umask(0)
    try:
        release = publish(run.home, candidate)
    finally:
        os.umask(before)
    for path in (
        release,
        release.parent,
        run.home.releases,
        *release.iterdir(),
        run.home.path / "publish.lock",
    ):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "data": (lambda folder: spoil(folder / "data.csv"), "data.csv was changed"),
    "gone": (lambda folder: (folder / "codebook.json").unlink(), "codebook.json is gone"),
    "manifest": (lambda folder: spoil(folder / "manifest.json"), "manifest.json is not what was signed"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is gone"),
    "garbage": (
        lambda folder: (folder / "manifest.json").write_text("x"),
        "manifest.json or its signature cannot",
    ),
    "list": (
        lambda folder: (folder / "manifest.json").write_text("[]"),
        "manifest.json or its signature cannot",
    ),
    "signature": (
        lambda folder: (folder / "manifest.json.sig").write_text("zz"),
        "manifest.json is not what was",
    ),
    "key": (
        lambda folder: (folder / "public-key.pem").write_text("x"),
        "manifest.json is not what was signed",
    ),
    "added": (lambda folder: (folder / "more.csv").write_text("x"), "more.csv was added"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_was_done_to_a_release_is_found_and_never_called_published(
    run: Run, candidate: Candidate, release: Path, how: str
) -> None:
    change, finding = SPOILT[how]
    change(release)
    assert verify_release(release)[0].sentence.startswith(finding)
    with pytest.raises(Fault, match=f"was published before and is no longer what it was: {finding}"):
        publish(run.home, candidate)


# Publishing


def test_publishing_twice_changes_nothing(run: Run, candidate: Candidate, release: Path) -> None:
    before = {p.name: (p.stat().st_mtime_ns, sha256_of(p)) for p in release.iterdir()}
    assert publish(run.home, candidate) == release
    assert {p.name: (p.stat().st_mtime_ns, sha256_of(p)) for p in release.iterdir()} == before
    assert [p.name for p in release.parent.iterdir()] == [release.name]


def another(run: Run, dossier: Dossier, plan: str) -> Candidate:
    release = prepare(run, plan)
    changed = replace(dossier, release=release, plan=replace(dossier.plan, digest=plan), files={})
    return prepare_documents(run, changed, "x")


def test_a_second_release_stands_beside_the_first_with_the_next_version(
    run: Run, dossier: Dossier, release: Path
) -> None:
    second = publish(run.home, another(run, dossier, "1" * 64))
    assert second.parent == release.parent
    assert (manifest(release)["version"], manifest(second)["version"]) == (1, 2)
    assert verify_release(release) == verify_release(second) == []


@pytest.mark.parametrize("file", ["data.csv", "data.parquet", "codebook.json", "report.html"])
@pytest.mark.parametrize("change", [spoil, Path.unlink], ids=["changed", "gone"])
def test_a_candidate_that_is_not_the_one_assessed_is_not_published(
    run: Run, candidate: Candidate, file: str, change: Callable[[Path], object]
) -> None:
    change(candidate.folder / file)
    with pytest.raises(Fault, match=f"{file} of people-[0-9a-f]+ differ.*nothing is published"):
        publish(run.home, candidate)
    assert list((run.home.releases / "people").iterdir()) == []


def test_a_file_that_changes_while_it_is_copied_is_not_published(
    run: Run, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copyfile

    def meddling(source: Path, target: Path) -> None:
        if source.name == "data.csv":
            spoil(source)
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", meddling)
    with pytest.raises(Fault, match=r"data\.csv of"):
        publish(run.home, candidate)
    assert list((run.home.releases / "people").iterdir()) == []


def test_a_file_that_was_slipped_in_is_not_published(run: Run, candidate: Candidate) -> None:
    (candidate.folder / "raw.csv").write_text(CANARY)
    assert not (publish(run.home, candidate) / "raw.csv").exists()


def test_what_a_crash_left_half_published_is_no_release(
    run: Run, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def crash(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", crash)
    with pytest.raises(KeyboardInterrupt):
        publish(run.home, candidate)
    monkeypatch.setattr(os, "rename", rename)
    folder = run.home.releases / "people"
    assert all(p.name.startswith(".") for p in folder.iterdir())
    (folder / ".people-000000000000.4711").mkdir()
    release = publish(run.home, candidate)
    assert [p.name for p in folder.iterdir()] == [release.name]
    assert manifest(release)["version"] == 1
    assert verify_release(release) == []


# Waiting for a person


def test_a_waiting_candidate_comes_back_and_can_be_published(run: Run, waiting: Path, dossier: Dossier) -> None:
    again = load_candidate(run.home, dossier.release.id)
    assert again.folder == waiting
    assert again.dossier.digest == dossier.digest
    assert replace(again.dossier, assessment={}) == replace(dossier, assessment={})
    assert not (run.workspace.folder / "candidate").exists()
    release = publish(run.home, again)
    assert verify_release(release) == []
    assert not (release / "dossier.json").exists()
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in waiting.iterdir())


def test_a_dossier_of_numpy_numbers_is_the_same_after_waiting(run: Run, dossier: Dossier) -> None:
    figures = {"n": np.int64(3), "x": np.float64(0.1), "whole": 2}
    assessment = replace(dossier.assessment, method_figures=figures)
    changed = Candidate(run.workspace.folder / "candidate", replace(dossier, assessment=assessment))
    keep_candidate(run.home, changed)
    enter(run.home, "awaiting", release=dossier.release.id, dossier=changed.dossier.digest)
    assert load_candidate(run.home, dossier.release.id).dossier.digest == changed.dossier.digest


@pytest.mark.parametrize(
    "release_id",
    [
        "../x",
        "..",
        ".",
        "",
        "/etc",
        "a/b",
        "people-0123456789ab",
        "people",
        "..\0",
        "x" * 300,
        "people-\x1b[2J",
    ],
)
def test_an_id_that_is_none_is_refused(run: Run, waiting: Path, release_id: str) -> None:
    (run.home.path / "dossier.json").write_text("{}")
    (run.home.path / "x").mkdir()
    with pytest.raises(Refused, match="awaits a decision; see anonflow list") as raised:
        sanitise_errors(load_candidate)(run.home, release_id)
    assert str(raised.value).isprintable()


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "data": (lambda folder: spoil(folder / "data.csv"), r"data\.csv of people-\w+ differ"),
    "data gone": (lambda folder: (folder / "data.parquet").unlink(), r"data\.parquet of people-\w+ differ"),
    "verdict": (
        lambda folder: (folder / "dossier.json").write_text(
            (folder / "dossier.json").read_text().replace('"decision": "', '"decision": "x')
        ),
        "dossier of people-.* was changed",
    ),
    "dossier gone": (lambda folder: (folder / "dossier.json").unlink(), "dossier of people-.* was changed"),
    "garbage": (
        lambda folder: (folder / "dossier.json").write_text(CANARY),
        "dossier of people-.* was changed",
    ),
    "list": (lambda folder: (folder / "dossier.json").write_text("[]"), "dossier of people-.* was changed"),
    "empty": (lambda folder: (folder / "dossier.json").write_text("{}"), "dossier of people-.* was changed"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_candidate_that_was_changed_while_it_waited_is_refused(
    run: Run, waiting: Path, dossier: Dossier, how: str
) -> None:
    change, message = CHANGES[how]
    change(waiting)
    with pytest.raises(Refused, match=message) as raised:
        sanitise_errors(load_candidate)(run.home, dossier.release.id)
    assert CANARY not in str(raised.value)


def test_a_dossier_with_a_new_sum_of_its_own_is_still_not_the_ledgers(
    run: Run, waiting: Path, dossier: Dossier
) -> None:
    (waiting / "dossier.json").write_bytes(replace(dossier, files={}).to_json())
    with pytest.raises(Refused, match="was changed after it was assessed"):
        load_candidate(run.home, dossier.release.id)


def test_a_candidate_that_the_ledger_does_not_know_is_refused(run: Run, candidate: Candidate) -> None:
    keep_candidate(run.home, candidate)
    with pytest.raises(Refused, match="was changed after it was assessed"):
        load_candidate(run.home, candidate.dossier.release.id)


def test_a_candidate_that_waits_already_is_replaced_by_its_like(run: Run, waiting: Path, dossier: Dossier) -> None:
    prepare(run, "0" * 64)
    again = prepare_documents(run, replace(dossier, files={}), "<html>later</html>")
    assert keep_candidate(run.home, again) == waiting
    enter(run.home, "awaiting", release=dossier.release.id, dossier=again.dossier.digest)
    assert load_candidate(run.home, dossier.release.id).dossier.digest == again.dossier.digest
