"""Whole sampling units on one side: halves that share none, an order that persists, tables that are not cut so."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.microdata.variable import Role
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.clusters import clusters_of, grouped, strata_of, whole_clusters
from tasks.intake.ingest import ingest
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection, Split, split
from tasks.intake.units import Declared
from tasks.intake.validate import EditsSection, validate_raw
from tasks.masking.anonymize import Masked
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.intake.test_split import CANARY, VARIABLES, both, holdout, sides, started, table

FIRM = Variable("firm", "nominal", role="sampling-unit")
REGION = Variable("region", "nominal", role="stratum")
CLUSTERED, STRATIFIED = (*VARIABLES, FIRM), (*VARIABLES, FIRM, REGION)
CROSS = ReferenceSection(kind="cross", sampling_units=("firm",))
BY_PERSON = ReferenceSection(kind="cross")
HOLDOUT = ReferenceSection(sampling_units=("firm",))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def firms(sizes: Iterable[int]) -> list[str]:
    return [f"{CANARY}F{number}" for number, size in enumerate(sizes) for _ in range(size)]


def clustered(sizes: Iterable[int], strata: int = 0, records: int = 1) -> pd.DataFrame:
    """Return people of firms, each with so many records; the firms are numbered anew within each stratum."""
    firm = [name for name in firms(sizes) for _ in range(records)]
    frame = table(len(firm)).assign(firm=firm, id=[f"{CANARY}-{row // records}" for row in range(len(firm))])
    if strata:
        number = frame["firm"].str.removeprefix(f"{CANARY}F").astype(int)
        frame["region"] = [f"r{n % strata}" for n in number]
        frame["firm"] = [f"{CANARY}F{n // strata}" for n in number]
    return frame


def pair(done: Split) -> tuple[Microdata, Microdata]:
    """Return the two sides of a holdout or the halves of a cross."""
    if not done.halves:
        return both(done)
    one, other = (half.original.load() for half in done.halves)
    return one, other


def names(side: Microdata) -> set[tuple[str, ...]]:
    columns = [name for name in ("firm", "region") if name in side.frame]
    return set(side.frame[columns].astype(str).itertuples(index=False, name=None))


@pytest.mark.parametrize("section", [HOLDOUT, ReferenceSection(share=0.2, sampling_units=("firm",)), CROSS], ids=str)
@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("strata", [0, 3])
def test_the_sides_share_no_sampling_unit(home: Home, section: ReferenceSection, records: int, strata: int) -> None:
    variables = STRATIFIED if strata else CLUSTERED
    sizes = [3 + (7 * n) % 11 for n in range(24)]
    frame = clustered(sizes, strata, records)
    for seed in range(4):
        done = started(home, frame, variables, seed=seed).split(section, variables)
        one, other = pair(done)
        assert not names(one) & names(other)
        assert len(one) + len(other) == len(frame)
        assert done.summary.unused == 0
        assert done.summary.sampling_units == (len(names(one)), len(names(other)))
        assert sum(done.summary.sampling_units) == 24
        assert abs(one.n_units - (1 - section.share) * sum(sizes)) <= max(sizes) / 2
        assert done.summary.disjoint.endswith(" or sampling unit (firm) of the source is on both sides")


def test_every_stratum_has_its_share_but_for_one_sampling_unit(home: Home) -> None:
    frame = clustered([4 + n % 5 for n in range(40)], strata=4)
    one, other = pair(started(home, frame, STRATIFIED, seed=1).split(CROSS, STRATIFIED))
    counts = [side.frame["region"].value_counts() for side in (one, other)]
    assert all(abs(int(counts[0][level]) - int(counts[1][level])) <= 8 for level in counts[0].index)
    assert abs(len(one) - len(other)) <= 8


def test_strata_of_one_sampling_unit_are_shared_out(home: Home) -> None:
    frame = clustered([5] * 20, strata=20)
    one, other = pair(started(home, frame, STRATIFIED, seed=1).split(CROSS, STRATIFIED))
    assert len(one) == len(other) == 50
    assert not names(one) & names(other)


def test_two_sampling_units_of_each_stratum_are_parted(home: Home) -> None:
    frame = clustered([9 + n % 3 for n in range(24)], strata=12)
    one, other = pair(started(home, frame, STRATIFIED, seed=2).split(CROSS, STRATIFIED))
    assert set(one.frame["region"]) == set(other.frame["region"])


def test_sampling_units_that_share_a_unit_are_on_one_side(home: Home) -> None:
    """A person who moved from one firm to another joins them."""
    frame = clustered([6] * 10)
    frame.loc[6, "id"] = frame.loc[0, "id"]
    for seed in range(6):
        one, other = pair(started(home, frame, CLUSTERED, seed=seed).split(CROSS, CLUSTERED))
        assert not names(one) & names(other)
        first = {f"{CANARY}F0", f"{CANARY}F1"}
        assert {name for (name,) in names(one)} & first in (set(), first)


@pytest.mark.parametrize("strata", [0, 3])
def test_sampling_units_keep_their_side_when_others_join_or_leave(home: Home, strata: int) -> None:
    variables = STRATIFIED if strata else CLUSTERED
    frame = clustered([5] * 60, strata)
    key = ["firm", "region"] if strata else ["firm"]
    keys = frame[key].agg("-".join, axis=1)
    kept = frame[~keys.isin(keys.unique()[::10])].sample(frac=1, random_state=1)
    # Of every firm a person leaves and another joins.
    kept = kept.drop_duplicates(subset="id").groupby(key, group_keys=False).tail(4)
    come = kept.drop_duplicates(subset=key).assign(id=[f"{CANARY}-new{n}" for n in range(54)])
    later = pd.concat([kept, come])
    before, after = (names(pair(started(home, f, variables).split(CROSS, variables))[0]) for f in (frame, later))
    still = set(later[key].itertuples(index=False, name=None))
    assert len(still) == 54
    # The cut moves a little; in each stratum by itself.
    assert len((before & still) ^ (after & still)) <= 4 * max(strata, 1)


def in_order(source: Microdata, names_of: np.ndarray) -> list[str]:
    clusters = clusters_of(source)
    assert clusters is not None
    order = grouped(np.arange(source.n_units), clusters, np.argsort(clusters.names))
    return list(dict.fromkeys(names_of[order]))


def test_the_order_of_sampling_units_does_not_depend_on_others() -> None:
    frame = clustered([3] * 30)[["firm"]]
    some = frame[~frame["firm"].isin(frame["firm"].unique()[::4])].sample(frac=1, random_state=2)
    schema = Schema((FIRM,))
    whole, part = (in_order(Microdata.from_frame(f, schema), f["firm"].to_numpy()) for f in (frame, some))
    assert [name for name in whole if name in set(part)] == part


@drawn(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=30),
    strata=st.integers(1, 4),
    share=st.floats(0.1, 0.9),
    seed=st.integers(0, 9),
)
@settings(max_examples=150, deadline=None)
def test_the_cut_is_between_sampling_units_and_near_the_share(
    sizes: list[int], strata: int, share: float, seed: int
) -> None:
    frame = pd.DataFrame({"firm": firms(sizes)})
    frame["region"] = [f"r{int(name.split('F')[-1]) % strata}" for name in frame["firm"]]
    source = Microdata.from_frame(frame, Schema((FIRM, REGION)))
    clusters = clusters_of(source)
    assert clusters is not None
    rng = np.random.default_rng(seed)
    order = grouped(rng.permutation(len(frame)), clusters, rng.permutation(len(clusters.names)))
    masked = round(share * len(frame))
    try:
        first = whole_clusters(order, clusters, strata_of(source), masked)
    except Refused:
        assert len(frame) - max(sizes) < 4 or len(sizes) < 4
        return
    rest = np.setdiff1d(order, first)
    assert min(len(first), len(rest)) >= 2
    assert not set(clusters.of_unit[first]) & set(clusters.of_unit[rest])
    if min(masked, len(frame) - masked) >= max(sizes):
        assert abs(len(first) - masked) <= max(sizes) / 2
        due = frame["region"].value_counts() * masked / len(frame)
        taken = frame["region"].iloc[first].value_counts().reindex(due.index, fill_value=0)
        assert (taken - due).abs().max() <= max(sizes)


@pytest.mark.parametrize("sizes", [[40], [39, 1]])
def test_too_few_sampling_units_for_two_sides_are_refused(home: Home, sizes: list[int]) -> None:
    with pytest.raises(Refused, match=rf"sampling units \(firm\) are set apart, and {len(sizes)} of them") as raised:
        started(home, clustered(sizes), CLUSTERED).split(HOLDOUT, CLUSTERED)
    assert CANARY not in str(raised.value)
    done = started(home, clustered(sizes), CLUSTERED).split(ReferenceSection(kind="leave-one-out"), CLUSTERED)
    assert done.summary.sampling_units == ()


@pytest.mark.parametrize("section", [HOLDOUT, CROSS], ids=str)
def test_sampling_units_that_are_not_released_are_whole_too(home: Home, section: ReferenceSection) -> None:
    frame = clustered([3 + n % 5 for n in range(20)])
    variables = (*VARIABLES, Variable("firm", "nominal", role="excluded"))
    run = Run.start(home, SeedSection(public=1, data_are_public=True))
    frame.to_csv(home.path.parent / "source.csv", index=False)
    read = ingest(run, SourceSection(path="source.csv"), variables, home.path.parent, (), ("firm",))
    checked = validate_raw(run, read, EditsSection())
    one, other = pair(split(run, checked, section, Declared(variables), home.path.parent))
    assert "firm" not in one.frame
    firms_of = [set(frame["firm"].iloc[side.frame.index]) for side in (one, other)]
    assert not firms_of[0] & firms_of[1]
    assert len(one) + len(other) == len(frame)


def test_two_sampling_units_are_a_side_each(home: Home) -> None:
    done = started(home, clustered([30, 10]), CLUSTERED, seed=1).split(HOLDOUT, CLUSTERED)
    assert done.summary.sampling_units == (1, 1)
    assert sorted((done.summary.original, done.summary.reference)) == [10, 30]


def test_missing_sampling_units_are_one(home: Home) -> None:
    frame = clustered([6] * 10)
    frame.loc[frame["firm"].isin(frame["firm"].unique()[:2]), "firm"] = None
    one, other = pair(started(home, frame, CLUSTERED, seed=3).split(CROSS, CLUSTERED))
    assert one.frame["firm"].isna().sum() in (0, 12)
    assert not names(one) & names(other)


def digest(rows: object) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def test_tables_without_sampling_units_are_cut_as_ever(home: Home) -> None:
    """Sides that are set apart in a home stay what they were in its releases."""
    frame = table(101).assign(region=["a"] * 60 + ["b"] * 30 + ["c"] * 10 + ["d"])
    frame["id"] = [f"{CANARY}-{row // 2}" for row in range(101)]
    variables = (*VARIABLES, REGION)
    assert digest((sides(holdout(started(home, table(101), seed=1))),)) == "e46450c9afdb9a13"
    given = started(home, frame, variables, seed=1)
    assert digest((sides(holdout(given, variables)),)) == "f5adaff01ef5ddee"
    halves = [half.original.load().frame.index.tolist() for half in given.split(CROSS, variables).halves]
    assert digest((halves,)) == "83751f461453e3b0"


@pytest.mark.parametrize(
    ("role", "section", "presence", "tested"),
    [
        ("sampling-unit", CROSS, "fail", None),
        ("sampling-unit", BY_PERSON, "pass", "not tested"),
        ("other", CROSS, "pass", None),
    ],
)
def test_a_released_code_is_seen_where_non_members_are_of_other_sampling_units(
    home: Home, role: Role, section: ReferenceSection, presence: str, tested: str | None
) -> None:
    """Values are released in random order within a half: nothing gives a person away but the code."""
    rng = np.random.default_rng(1)
    frame = clustered([50] * 28).assign(age=rng.integers(18, 60, 1400), id="")
    variables = (*VARIABLES, Variable("firm", "nominal", role=role))
    given = started(home, frame, variables, seed=1)
    half = given.split(section, variables).halves[0]
    original = half.original.load()
    mixed = original.frame.apply(lambda column: column.sample(frac=1.0, random_state=rng).to_numpy())
    released = given.run.workspace.store(
        "mixed", Microdata.trusted(mixed.astype(original.frame.dtypes), original.schema)
    )
    masked = Masked(released=released, keeps_records=False)
    assessment = assess(given.run, half, masked, AssessmentSection(), PolicySection()).assessment
    gates = {gate.name: gate.verdict for gate in decide(assessment, PolicySection()).gates}
    assert (gates["value presence"], gates.get("sampling units")) == (presence, tested)
