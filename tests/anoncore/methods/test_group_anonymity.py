"""Group anonymity on microfiles: exact counts, whole households, edits, what is told and what is not."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anoncore
from anoncore import (
    AnonymizationError,
    Condition,
    ConditionalEdit,
    EditSet,
    InfeasibleError,
    LinearEdit,
    Microdata,
    Schema,
    Variable,
)
from anoncore.encoding import Encoder
from anoncore.kernels.wavelet.relocation import moved_means
from anoncore.methods import MDAV, GroupAnonymity, OptimalBoxes, RareLevels, SpectralSwap
from anoncore.methods.group_anonymity import pool

AREAS = ("a", "b", "c", "d", "e", "f", "g", "h")
MEMBERS = (30, 5, 80, 12, 9, 41, 6, 217)


def rng(seed=0):
    return np.random.default_rng(seed)


def microfile(records=6000, members=MEMBERS, seed=0, elsewhere=0.1, households=True, outside=0):
    """People in households in areas and elsewhere, a given number of members of the group in each area."""
    r = rng(seed)
    m = len(members)
    size = r.choice([1, 2, 3, 4], records, p=[0.4, 0.3, 0.2, 0.1])
    house = np.repeat(np.arange(records), size)[:records]
    area = r.choice(m + 1, records, p=[*np.full(m, (1 - elsewhere) / m), elsewhere])[house]
    soldier = np.zeros(records, dtype=int)
    for a, count in enumerate([*members, outside]):
        soldier[r.choice(np.flatnonzero(area == a), count, replace=False)] = 1
    frame = pd.DataFrame(
        {
            "house": house,
            "area": np.array([*AREAS[:m], "elsewhere"])[area],
            "service": np.where(soldier == 1, r.choice([1, 2], records), r.choice([0, 3, 4], records)),
            "age": r.integers(18, 70, records),
            "sex": r.choice(["f", "m"], records),
            "income": np.exp(r.normal(8, 0.5, records)).round(),
        }
    )
    variables = [
        Variable("house", "nominal", role="household" if households else "identifier"),
        Variable("area", "nominal", role="area"),
        Variable("service", "ordinal", levels=(0, 1, 2, 3, 4)),
        Variable("age", "continuous"),
        Variable("sex", "binary"),
        Variable("income", "continuous"),
    ]
    return Microdata(frame, Schema(variables))


def params(**more):
    given_ = {"vital": ({"service": (1, 2)},), "parameter": "area", "order": AREAS, "caps": {"h": 60}}
    return GroupAnonymity(**(given_ | {"details": "winsorised"} | more))


def mask(data, p, edits=(), seed=1):
    return anoncore.anonymize(data, p, rng=rng(seed), edits=EditSet(edits))


@pytest.fixture(scope="module")
def data():
    return microfile()


@pytest.fixture(scope="module")
def release(data):
    return mask(data, params())


def outcome(data, p, seed):
    try:
        return mask(data, p, seed=seed)
    except InfeasibleError as error:
        return str(error)


def counted(frame):
    return frame.loc[frame["service"].isin([1, 2]), "area"].value_counts()


# -- the rewritten file


def test_hidden_counts_survive_microaggregation_within_area_and_group():
    people = microfile(1500, (30, 12, 40, 12, 15, 21, 16, 117), households=False)
    frame = people.frame.assign(service=(people.frame["service"].astype(int).isin([1, 2])).astype(int))
    schema = Schema(v if v.name != "service" else Variable("service", "binary") for v in people.schema)
    chosen = {"vital": ({"service": (1,)},), "caps": {"h": 50}}
    hidden = mask(Microdata(frame, schema), params(**chosen))
    assert set(params(**chosen).group_variables) == {"area", "service"}
    grouped = mask(hidden.data, MDAV(k=5, within=("area", "service")))
    assert hidden.claims[0].check(grouped.data).holds
    assert all(check.holds for check in grouped.check())
    assert grouped.data.frame["income"].nunique() < 0.2 * len(frame)
    assert not hidden.claims[0].check(mask(hidden.data, MDAV(k=5)).data).holds
    with pytest.raises(InfeasibleError, match=r"combination\(s\) of levels of area, service have fewer than k = 20"):
        mask(hidden.data, MDAV(k=20, within=("area", "service")))
    with pytest.raises(AnonymizationError, match="age is no variable with levels"):
        mask(hidden.data, MDAV(within=("age",)))


def test_hidden_counts_survive_generalisation_within_area_and_group():
    people = microfile(3000, (30, 12, 40, 12, 15, 21, 16, 117), households=False)
    people = people.select([n for n in people.schema.names if n != "sex"])
    frame = people.frame.assign(service=people.frame["service"].isin([1, 2]).map({True: "y", False: "n"}))
    schema = Schema(v if v.name != "service" else Variable("service", "binary") for v in people.schema)
    hidden = mask(Microdata(frame, schema), params(vital=({"service": ("y",)},), caps={"h": 50}))
    boxes = mask(hidden.data, OptimalBoxes(k=5, categorical="constant"))
    assert hidden.claims[0].check(boxes.data).holds
    assert all(check.holds for check in boxes.check())
    assert not hidden.claims[0].check(mask(hidden.data, OptimalBoxes(k=5)).data).holds


def test_counts_are_the_chosen_ones_and_populations_stay(data, release):
    before, after = data.frame, release.data.frame
    assert counted(before)[list(AREAS)].tolist() == list(MEMBERS)
    assert counted(after)[list(AREAS)].tolist() == release.confidential["after"].tolist()
    assert counted(after)["h"] <= 60
    assert counted(after).sum() == sum(MEMBERS)
    assert before["area"].value_counts().to_dict() == after["area"].value_counts().to_dict()
    assert release.claims[0].check(release.data).holds


def test_only_the_area_changes(data, release):
    pd.testing.assert_frame_equal(data.frame.drop(columns="area"), release.data.frame.drop(columns="area"))
    elsewhere = data.frame["area"] == "elsewhere"
    assert (release.data.frame.loc[elsewhere, "area"] == "elsewhere").all()
    assert data.schema == release.data.schema
    assert release.keeps_records


def test_households_stay_whole_and_sizes_per_area_stay(data, release):
    before, after = data.frame, release.data.frame
    assert after.groupby("house")["area"].nunique().max() == 1
    sizes = [f.groupby("house").agg(n=("area", "size"), area=("area", "first")) for f in (before, after)]
    assert sizes[0].value_counts().to_dict() == sizes[1].value_counts().to_dict()
    moved = (before["area"] != after["area"]).to_numpy()
    mates = before[moved].groupby("house")["service"].agg(lambda s: s.isin([1, 2]).sum())
    assert (mates == 0).any()
    assert (mates >= 1).any()
    assert release.figures["households_split"] == 0


def test_without_households_single_records_move():
    data = microfile(households=False)
    release = mask(data, params())
    moved = data.frame["area"] != release.data.frame["area"]
    assert moved.sum() == 2 * release.confidential["group_moved"]
    assert "households_split" not in release.figures


def test_a_household_in_two_areas_moves_by_its_parts():
    frame = microfile().frame.assign(house=lambda f: f.index // 3)
    schema = Schema([Variable("house", "nominal", role="household"), *microfile().schema.variables[1:]])
    data = Microdata(frame, schema)
    release = mask(data, params())
    assert release.claims[0].check(release.data).holds
    parts = frame.assign(new=release.data.frame["area"]).groupby(["house", "area"], observed=True)["new"]
    assert parts.nunique().max() == 1


def test_gaps_in_area_group_and_household_are_handled():
    frame = microfile().frame.astype(object)
    frame.loc[:50, "area"] = None
    frame.loc[60:90, "service"] = None
    frame.loc[100:300, "house"] = None
    schema = Schema(
        [
            Variable("house", "nominal", role="household"),
            Variable("area", "nominal"),
            Variable("service", "ordinal", levels=(0, 1, 2, 3, 4)),
            Variable("age", "continuous"),
            Variable("sex", "binary"),
            Variable("income", "continuous"),
        ]
    )
    release = mask(Microdata(frame, schema), params())
    assert release.data.frame["area"].isna().sum() == 51
    assert release.claims[0].check(release.data).holds


def test_several_attributes_and_several_sets_of_values():
    data = microfile(9000)
    vital = ({"service": (1, 2), "sex": ("m",)}, {"service": (4,), "sex": ("f",)})
    release = mask(data, params(vital=vital, caps={"h": 150}))
    frame = release.data.frame
    member = (frame["service"].isin([1, 2]) & (frame["sex"] == "m")) | ((frame["service"] == 4) & (frame["sex"] == "f"))
    found = frame.loc[member, "area"].value_counts()
    assert found[list(AREAS)].tolist() == release.confidential["after"].tolist()
    assert found["h"] <= 150


def test_a_number_can_tell_the_group():
    frame = microfile().frame.assign(service=lambda f: f["service"].astype(float))
    schema = Schema([Variable("service", "continuous") if v.name == "service" else v for v in microfile().schema])
    release = mask(Microdata(frame, schema), params(vital=({"service": (1, 2.0)},)))
    assert counted(release.data.frame)["h"] <= 60


def test_ratio_signals_raises_protection_and_weights():
    data = microfile(12_000)
    release = mask(data, params(signal="ratio", raises={"b": 20}, protected=("c",), weights={"d": 5.0}, level=1))
    found = counted(release.data.frame)
    assert found["b"] >= 20
    assert found["c"] <= 80
    assert found["h"] <= 60


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=8, max_size=8),
    st.integers(0, 40),
    st.booleans(),
    st.integers(0, 99),
)
def test_any_signal(members, cap, households, seed):
    data = microfile(3000, tuple(members), seed=seed, households=households)
    if not sum(members):
        with pytest.raises(AnonymizationError, match="no record of the areas"):
            mask(data, params(caps={"a": cap}, details="plain"))
        return
    release = outcome(data, params(caps={"a": cap}, details="plain"), seed)
    if isinstance(release, str):
        assert "cap of a" in release or (members[0] <= cap and "move no record" in release)
        return
    found = counted(release.data.frame).reindex(AREAS, fill_value=0)
    assert found.tolist() == release.confidential["after"].tolist()
    assert found["a"] <= cap
    assert found.sum() == sum(members)
    assert data.frame["area"].value_counts().to_dict() == release.data.frame["area"].value_counts().to_dict()


def test_the_spread_of_the_counts_can_be_stated(data):
    release = mask(data, params(spread=0.5, wavelet="haar", level=1))
    before, after = (release.confidential[name] for name in ("before", "after"))
    assert after.std() == pytest.approx(0.5 * before.std(), rel=0.02)
    assert counted(release.data.frame)["h"] <= 60
    assert "spread" in GroupAnonymity.confidential_parameters
    with pytest.raises(InfeasibleError, match="with the spread asked for"):
        mask(data, params(spread=3.0))
    with pytest.raises(AnonymizationError, match="spread must be above 0"):
        params(spread=0.0)


NEAR = {"a": ("b", "e"), "b": ("c", "f"), "c": ("d", "g"), "d": ("h",), "e": ("f",), "f": ("g",), "g": ("h",)}


@pytest.mark.parametrize("map_", [{"columns": 4, "level": 1}, {"neighbours": NEAR, "wavelet": "haar", "level": 1}])
def test_areas_on_a_map(data, map_):
    release = mask(data, params(**map_))
    assert counted(release.data.frame)["h"] <= 60
    assert release.claims[0].check(release.data).holds
    assert release.claims[1].check(release.data).holds
    other = mask(data, params(level=1, wavelet="haar"))
    assert other.confidential["after"].tolist() != release.confidential["after"].tolist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"columns": 4, "neighbours": NEAR, "wavelet": "haar"}, "two ways to state a map"),
        ({"columns": 3, "level": 1}, "rows and columns must be full"),
        ({"columns": 0}, "columns must be at least 1"),
        ({"columns": 4, "level": 1, "pad": "zero"}, "pad belongs to areas in a line"),
        ({"neighbours": NEAR}, "the wavelets of a graph are haar"),
        ({"neighbours": {"a": ("z",)}, "wavelet": "haar"}, "z is none of the areas"),
    ],
)
def test_a_map_that_is_none_is_refused(wrong, message):
    with pytest.raises(AnonymizationError, match=message):
        params(**wrong)


# -- weights, and what is exchanged


def sampled(seed=0, *, fine=False, strata=3):
    """People with weights of five strata, so many of which each area has, and a region of two areas."""
    data = microfile(8000, tuple(3 * n for n in MEMBERS), seed=seed, households=False)
    r = rng(seed)
    area = data.frame["area"].astype(str).to_numpy()
    position = np.array([(*AREAS, "elsewhere").index(a) for a in area])
    stratum = (position + r.integers(0, strata, len(area))) % 5
    weight = np.array([1.5, 2.25, 3.0, 4.4, 6.1])[stratum] * (r.uniform(0.9, 1.1, len(area)) if fine else 1)
    extra = [
        Variable("region", "nominal"),
        Variable("stratum", "nominal", role="stratum"),
        Variable("weight", "continuous", role="weight"),
    ]
    frame = data.frame.assign(region=[f"r{p // 2}" for p in position], stratum=stratum, weight=weight)
    return Microdata(frame, Schema([*data.schema.variables, *extra]))


@pytest.mark.parametrize("fine", [False, True])
def test_weighted_counts_meet_their_goals_and_areas_keep_their_weights(fine):
    data = sampled(fine=fine)
    largest = float(data.frame["weight"].max())
    stated = params(weight="weight", caps={"h": 800.0}, follows=("region", "stratum"), match_on=("age",))
    release = mask(data, stated)
    before, after = data.frame, release.data.frame
    member = after["service"].isin([1, 2])
    sums = after[member].groupby("area", observed=True)["weight"].sum()[list(AREAS)]
    np.testing.assert_allclose(sums, release.confidential["after"], rtol=1e-9)
    assert sums["h"] <= 800 + largest
    assert release.confidential["before"][7] > 1500
    assert sums.sum() == pytest.approx(release.confidential["before"].sum(), abs=0.01 if fine else 1)
    # What belongs to a place stays there to the last value, so that it does not show who came.
    place = ["area", "region", "stratum", "weight"]
    pd.testing.assert_frame_equal(
        before[place].sort_values(place, ignore_index=True), after[place].sort_values(place, ignore_index=True)
    )
    person = ["service", "age", "sex", "income"]
    pd.testing.assert_frame_equal(before[person], after[person])
    assert all(check.holds for check in (release.check() if fine else [release.claims[0].check(release.data)]))
    assert any("sums of weight" in note for note in release.notes)
    assert release.figures["goals_unmet"] == 0
    with pytest.raises(InfeasibleError, match="weighted counts"):
        stated.restore(data, release.claims, edits=EditSet(), rng=rng())


def test_values_of_the_group_are_exchanged_where_areas_cannot_be():
    data = microfile()
    release = mask(data, params(swapped="group", match_on=("age",)))
    before, after = data.frame, release.data.frame
    assert counted(after)["h"] <= 60
    assert counted(after)[list(AREAS)].tolist() == release.confidential["after"].tolist()
    rest = ["house", "area", "age", "sex", "income"]
    pd.testing.assert_frame_equal(before[rest], after[rest])
    assert before["service"].value_counts().to_dict() == after["service"].value_counts().to_dict()
    assert (before["service"] != after["service"]).sum() == 2 * release.confidential["group_moved"]
    assert any(note.startswith("members of a group exchanged service with people outside it") for note in release.notes)
    assert params(swapped="group").hidden_variables == ("service",)
    assert all(check.holds for check in release.check())


def test_exchanged_values_break_no_edit():
    data = microfile(households=False)
    young = Condition(variable="age", upper=29)
    civil = Condition(variable="service", values=(0, 3, 4))
    minor = ConditionalEdit(name="adults", when=(young,), then=civil)
    frame = data.frame.assign(service=lambda f: f["service"].astype(int).where(f["age"] >= 30, 0))
    people = Microdata(frame, data.schema)
    release = mask(people, params(swapped="group", match_on=("income",), caps={"h": 40}), (minor,))
    assert counted(release.data.frame)["h"] <= 40
    assert minor.holds(release.data.frame).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weight": "nothing"}, "no such variable"),
        ({"weight": "sex"}, "holds no numbers"),
        ({"follows": ("service",)}, "which is the area or makes a member"),
        ({"swapped": "group", "kept": ({"service": (3,)},)}, "kept names variables of the group"),
    ],
)
def test_what_is_exchanged_is_checked(data, wrong, message):
    assert any(message in problem for problem in params(**wrong).problems(data.schema, EditSet()))


def test_strata_that_would_stay_with_a_person_are_refused():
    problems = params(weight="weight").problems(sampled().schema, EditSet())
    assert problems == [
        "stratum: strata and sampling units that stay with a person show where they came from; name them in follows"
    ]
    assert not params(weight="weight", swapped="group").problems(sampled().schema, EditSet())


def test_weights_that_only_members_have_leave_no_counterpart():
    data = sampled()
    member = data.frame["service"].isin([1, 2])
    frame = data.frame.assign(weight=np.where(member, 1.0, 4.0) + rng().uniform(0, 0.5, len(member)))
    stated = params(weight="weight", caps={"h": 200.0}, follows=("region", "stratum"), match_on=("age",))
    with pytest.raises(InfeasibleError, match=r"counterparts of near weights: cap of h, the total of the group"):
        mask(Microdata(frame, data.schema), stated)


def test_weights_that_go_with_the_group_give_a_count_away_and_the_audit_says_so():
    data = sampled()
    member = data.frame["service"].isin([1, 2])
    low = rng().random(len(member)) < np.where(member, 0.9, 0.1)
    frame = data.frame.assign(weight=np.where(low, 1.0, 2.0))
    stated = params(weight="weight", caps={"h": 250.0}, follows=("region", "stratum"), match_on=("age",))
    release = mask(Microdata(frame, data.schema), stated)
    counts, _, audit = release.check()
    assert counts.holds
    assert audit.figures["found_by_looks"] == 1


def test_a_weight_of_0_is_refused():
    frame = sampled().frame.assign(weight=lambda f: f["weight"].where(f.index > 3, 0.0))
    with pytest.raises(AnonymizationError, match="weight: 'weight' must be above 0 in every record"):
        mask(Microdata(frame, sampled().schema), params(weight="weight", follows=("stratum",)))


@pytest.mark.parametrize("follows", [("region", "stratum"), ("stratum",)])
def test_who_moved_does_not_show_among_the_members_of_an_area(follows):
    """An attacker who knows of half of the members whether they came learns nothing of the others in their area."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    data = sampled(strata=5)
    after = mask(data, params(weight="weight", caps={"h": 800.0}, follows=follows, match_on=("age",))).data.frame
    came = (data.frame["area"].astype(str) != after["area"].astype(str)).to_numpy()
    seen = pd.DataFrame({n: pd.factorize(after[n])[0] for n in ("area", "region", "stratum", "sex")})
    seen[["age", "income", "weight"]] = after[["age", "income", "weight"]].to_numpy()
    member = after["service"].isin([1, 2]).to_numpy() & (after["area"] != "h").to_numpy()
    known, asked = (np.flatnonzero(member)[part::2] for part in (0, 1))
    model = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(seen.iloc[known], came[known])
    score, area, came = model.predict_proba(seen.iloc[asked])[:, 1], seen["area"].to_numpy()[asked], came[asked]
    places = [a for a in np.unique(area) if 0 < came[area == a].mean() < 1]
    within = [roc_auc_score(came[area == a], score[area == a]) for a in places]
    mean = np.average(within, weights=[(area == a).sum() for a in places])
    assert abs(mean - 0.5) < 0.07 if "region" in follows else mean > 0.9


def test_the_papers_route_says_what_it_misses(data):
    # A large shift levels the counts, and the least area gets more than its cap.
    release = mask(data, params(route="paper", shift=900.0, caps={"h": 10}, details="plain"))
    assert release.figures["goals_unmet"] == 1
    assert any("1 goal(s) are missed" in note for note in release.notes)
    assert release.claims[0].check(release.data).holds


def test_means_of_other_variables_shift_as_the_costs_bound_them():
    data = microfile(60_000, tuple(10 * n for n in MEMBERS))
    near = mask(data, params(caps={"h": 600}))
    far = mask(data, params(caps={"h": 600}, match_on=("sex",)))
    inside = np.flatnonzero(data.frame["area"] != "elsewhere")
    others = data.take(inside).select(["age", "sex", "income"])
    x = Encoder.fit(others, numeric="linear").encode(others)
    shifts = []
    for release in (near, far):
        home, away = (
            f["area"].cat.set_categories(AREAS).cat.codes.to_numpy()[inside] for f in (data.frame, release.data.frame)
        )
        shift = moved_means(x, home, away, len(AREAS))
        np.testing.assert_allclose(release.confidential["mean_shift"][:, 1:], shift, atol=1e-12)
        shifts.append(np.abs(shift).max())
        assert shifts[-1] <= release.figures["largest_mean_shift_at_most"] < 2.6 * shifts[-1]
    length = np.linalg.norm(near.confidential["mean_shift"], axis=1)
    assert (length <= near.confidential["mean_shift_bound"] + 1e-12).all()
    assert 0 < shifts[0] < shifts[1] / 3


# -- edits that tie the area to other variables


def with_dialect(data, share=0.1):
    """Areas a to d are northern; a northern dialect is spoken there only, a general one everywhere."""
    r = rng(5)
    north = data.frame["area"].isin(["a", "b", "c", "d"]).to_numpy()
    spoken = np.where(r.random(len(data)) < share, np.where(north, "northern", "southern"), "general")
    frame = data.frame.assign(dialect=spoken)
    return Microdata(frame, Schema([*data.schema, Variable("dialect", "nominal")]))


DIALECT = [
    ConditionalEdit(
        name="northern is spoken in the north",
        when=(Condition(variable="dialect", values=("northern",)),),
        then=Condition(variable="area", values=("a", "b", "c", "d", "elsewhere")),
    ),
    ConditionalEdit(
        name="southern is spoken in the south",
        when=(Condition(variable="dialect", values=("southern",)),),
        then=Condition(variable="area", values=("e", "f", "g", "h", "elsewhere")),
    ),
]


@pytest.mark.parametrize("match_on", [(), ("income",)])
@pytest.mark.parametrize("households", [True, False])
def test_edits_on_the_area_hold_still(match_on, households):
    data = with_dialect(microfile(households=households))
    free = mask(data, params(match_on=("income",)))
    assert sum(EditSet(DIALECT).violations(free.data.frame).values()) > 10
    bound = mask(data, params(match_on=match_on), DIALECT)
    assert sum(EditSet(DIALECT).violations(bound.data.frame).values()) == 0
    assert bound.claims[0].check(bound.data).holds


def test_records_that_broke_an_edit_may_do_so_still():
    frame = with_dialect(microfile()).frame
    frame = frame.assign(dialect=frame["dialect"].cat.set_categories(frame["dialect"].cat.categories))
    frame.loc[::7, "dialect"] = "northern"
    data = Microdata(frame, with_dialect(microfile()).schema)
    kept = EditSet(DIALECT).satisfied(frame)
    assert not kept.all()
    assert EditSet(DIALECT).satisfied(mask(data, params(), DIALECT).data.frame)[kept].all()


def test_an_edit_on_numbers_lets_pass_who_may_go():
    """Nobody above 60 lives in b: members of h who are older stay, whoever resembles them."""
    frame = microfile().frame
    frame = frame.assign(age=np.where(frame["area"] == "b", np.minimum(frame["age"], 60), frame["age"]))
    rule = ConditionalEdit(
        name="b is young",
        when=(Condition(variable="area", values=("b",)),),
        then=Condition(variable="age", upper=60),
    )
    release = mask(Microdata(frame, microfile().schema), params(raises={"b": 20}), [rule])
    assert EditSet([rule]).violations(release.data.frame) == {"b is young": 0}
    assert counted(release.data.frame)["b"] >= 20


def test_edits_that_nobody_could_keep_are_named():
    data = with_dialect(microfile(), share=1.0)
    with pytest.raises(InfeasibleError, match=r"breaking (northern|southern)|break no edit there"):
        mask(data, params(raises={"b": 100}), DIALECT)


def test_other_edits_play_no_part(data):
    rule = LinearEdit(name="age", terms={"age": 1.0}, relation="<=", constant=120)
    assert mask(data, params(), [rule]).claims[0].check


# -- the pool of those who may move


@pytest.fixture
def pools(monkeypatch):
    """Draw pools of ten, or twice those needed, and return the sizes of those that were tried."""
    sizes, within = [], pool.Exchange.within

    def recorded(exchange, records):
        sizes.append(len(records))
        return within(exchange, records)

    monkeypatch.setattr(pool.Exchange, "within", recorded)
    monkeypatch.setattr(pool, "POOL", 10)
    return sizes


def test_members_and_counterparts_are_drawn_where_they_are_many(pools):
    data = microfile(20_000, tuple(3 * n for n in MEMBERS), households=False)
    release = mask(data, params(caps={"h": 400}))
    (considered,) = pools
    moved = int(release.confidential["group_moved"])
    # About twice as many members and others as move, of 651 and 15 000.
    assert 2 * moved < considered < 5 * moved + 8 * 30
    assert release.claims[0].check(release.data).holds
    assert data.frame["area"].value_counts().to_dict() == release.data.frame["area"].value_counts().to_dict()
    assert (data.frame["area"] != release.data.frame["area"]).sum() == 2 * moved


def test_all_are_considered_where_a_pool_has_no_counterpart(pools):
    """Only people of exactly 40 may come to h: of ten others per area that are drawn, hardly any is."""
    frame = microfile(households=False).frame
    away = frame["area"] != "h"
    rule = ConditionalEdit(
        name="h is forty",
        when=(Condition(variable="area", values=("h",)),),
        then=Condition(variable="age", lower=40, upper=40),
    )
    people = Microdata(frame.assign(age=frame["age"].where(away, 40)), microfile(households=False).schema)
    release = mask(people, params(caps={"h": 205}, details="plain", level=1, match_on=("income",)), [rule])
    assert counted(release.data.frame)["h"] <= 205
    assert EditSet([rule]).violations(release.data.frame) == {"h is forty": 0}
    assert pools == sorted(pools)
    assert len(pools) == 4
    assert pools[0] < pools[3] / 20


# -- what is told


def test_nothing_exact_about_the_original_is_told(data, release):
    """Neither the counts before nor how many moved stands in any text or figure."""
    told = json.dumps(
        [release.notes, dict(release.figures)]
        + [[c.claim, c.observed, dict(c.figures)] for c in release.check()]
        + [c.statement for c in release.claims]
    )
    numbers = {float(n) for n in re.findall(r"\d+\.?\d*(?:e-?\d+)?", told)}
    exact = release.confidential
    flows = exact["flows"]
    secrets = {*exact["before"][exact["before"] > 12].tolist(), *flows[flows > 12].ravel().tolist()}
    secrets |= {float(exact[name]) for name in ("group_moved", "records_moved", "units_moved", "agreement")}
    assert not numbers & {float(s) for s in secrets}
    assert not re.search(r"\bh\b", told)


def test_representations_hide_the_original(release):
    for claim in release.claims:
        assert "217" not in repr(claim)
    assert "217" not in repr(release.figures)


def test_how_many_moved_is_told_as_a_power_of_ten_only(data, release):
    share = float(release.confidential["records_moved"]) / int((data.frame["area"] != "elsewhere").sum())
    told = release.figures["records_moved_at_most"]
    assert told in (1.0, 0.1, 0.01, 0.001)
    assert told / 10 < share <= told
    # With one area capped, the exact number would all but tell its count: after + moved.
    gives_away = release.confidential["after"][7] + release.confidential["group_moved"]
    assert gives_away == pytest.approx(217, rel=0.2)


def test_confidential_parameters_are_parameters():
    assert set(GroupAnonymity.confidential_parameters) < {f.name for f in fields(GroupAnonymity)}


# -- refusals


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"vital": ()}, "vital must name"),
        ({"vital": ({},)}, "vital must name"),
        ({"vital": ({"service": ()},)}, "vital must name"),
        ({"order": ("a",)}, "order must list at least 2 areas, each once, got 1"),
        ({"order": ("a", "a")}, "each once"),
        ({"level": 0}, "level must be at least 1, got 0"),
        ({"level": 4}, "8 positions cannot be decomposed to level 4"),
        ({"order": AREAS[:6], "caps": {"a": 1}}, "must be a multiple of 4, such as 4 or 8; pad it"),
        ({"wavelet": "morl"}, "wavelet must be a discrete one"),
        ({"tolerance": 0}, "tolerance must lie between 0 and 1"),
        ({"share": 1.5}, "share must lie in 0 to 1, got 1.5"),
        ({"caps": {"h": -1}}, "caps must be 0 or more"),
        ({"weights": {"h": float("nan")}}, "weights must be 0 or more"),
        ({"caps": {"z": 1}}, "z is none of the areas in order"),
        ({"protected": ("z", "y")}, "y, z is none of the areas"),
        ({"free": ("h",)}, "h is named free and also capped"),
        ({"caps": {}}, "nothing would be hidden"),
        ({"shift": 3.0}, "coefficients and shift belong to route: paper"),
        ({"route": "paper", "share": 0.5}, "share, spread and weights belong to route: joint"),
        ({"route": "paper", "coefficients": (1.0,)}, "coefficients must be 2 for 8 areas and level 2, got 1"),
    ],
)
def test_parameters_check_themselves(wrong, said):
    with pytest.raises(AnonymizationError, match=re.escape(said)):
        params(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"parameter": "place"}, "place: no such variable is released"),
        ({"parameter": "house"}, "house: no such variable is released"),
        ({"vital": ({"rank": (1,)},)}, "rank: no such variable"),
        ({"match_on": ("height",)}, "height: no such variable"),
        ({"match_on": ("area", "age")}, "match_on lists area, which defines"),
        ({"parameter": "age"}, "'age' has no levels"),
        ({"vital": ({"area": ("a",)},)}, "vital, kept and parameter must be different"),
        ({"vital": ({"service": (1, 9)},)}, "1 value(s) given for 'service' are none of its levels"),
        ({"vital": ({"age": ("old",)},)}, "'age' holds numbers"),
        (
            {"order": (*AREAS[:7], "z"), "caps": {"a": 1}},
            "1 value(s) given for 'area' are none of its levels",
        ),
    ],
)
def test_names_and_values_are_checked_against_the_table(data, wrong, said):
    with pytest.raises(AnonymizationError, match=re.escape(said)):
        mask(data, params(**wrong))


def test_goals_that_contradict_each_other_are_named(data):
    with pytest.raises(InfeasibleError, match="these goals contradict each other: cap of h, raise of a"):
        mask(data, params(raises={"a": 100}))
    with pytest.raises(AnonymizationError, match="the cap of h lies below its raise"):
        params(raises={"h": 61})


def test_too_few_counterparts_names_areas_and_no_numbers():
    """In h people live in twos, everywhere else alone."""
    frame = microfile().frame.sort_values("area", kind="stable", ignore_index=True)
    frame = frame.assign(house=np.where(frame["area"] == "h", frame.index // 2, 10**6 + frame.index))
    with pytest.raises(InfeasibleError, match="too few records to move: no counterpart of equal size") as caught:
        mask(Microdata(frame, microfile().schema), params())
    assert "h to" in str(caught.value)
    assert "declare no household" in str(caught.value)
    assert not re.search(r"\d", str(caught.value))


def test_one_record_is_refused():
    data = Microdata(
        pd.DataFrame({"area": ["a"], "service": [0]}),
        Schema([Variable("area", "nominal", levels=AREAS), Variable("service", "ordinal", levels=(0, 1, 2))]),
    )
    with pytest.raises(AnonymizationError, match="no record of the areas in order belongs to the group"):
        mask(data, params())


def test_same_seed_same_file_other_seed_other_file(data, release):
    pd.testing.assert_frame_equal(release.data.frame, mask(data, params()).data.frame)
    assert not release.data.frame["area"].equals(mask(data, params(match_on=("sex",)), seed=2).data.frame["area"])


# -- after later steps


def restored(data, claim, edits=EditSet()):  # noqa: B008  frozen
    return params().restore(data, (claim,), edits=edits, rng=rng())[0]


def test_counts_are_restored_after_spectral_swapping(data, release):
    swapped = mask(release.data, SpectralSwap()).data
    claim = release.claims[0]
    assert not claim.check(swapped).holds
    again = restored(swapped, claim)
    assert claim.check(again).holds
    assert again.frame["area"].value_counts().to_dict() == swapped.frame["area"].value_counts().to_dict()
    pd.testing.assert_frame_equal(again.frame.drop(columns="area"), swapped.frame.drop(columns="area"))


def test_restoring_keeps_edits_and_returns_what_is_right_already():
    data = with_dialect(microfile(outside=90))
    release = mask(data, params(), DIALECT)
    claim = release.claims[0]
    assert restored(release.data, claim) is release.data
    swapped = mask(release.data, SpectralSwap()).data
    kept = EditSet(DIALECT).satisfied(swapped.frame)
    again = restored(swapped, claim, EditSet(DIALECT))
    assert claim.check(again).holds
    assert EditSet(DIALECT).satisfied(again.frame)[kept].all()


def test_counts_are_restored_by_the_fewest_steps_on_the_map():
    data = microfile(households=False)
    step = params(caps={"a": 20, "h": 100}, columns=4, wavelet="haar", level=1)
    release = mask(data, step)
    again = step.restore(data, release.claims[:1], edits=EditSet(), rng=rng())[0]
    distances = step.model(np.ones(8)).layout.distances(8)

    def steps(after):
        ends = [one.frame.loc[data.frame["service"].isin([1, 2]), "area"] for one in (data, after)]
        return sum(distances[AREAS.index(a), AREAS.index(b)] for a, b in zip(*ends, strict=True))

    assert steps(again) == steps(release.data)


def test_counts_are_restored_with_households(data, release):
    shuffled = data  # the counts before are as wrong as any
    again = restored(shuffled, release.claims[0])
    assert release.claims[0].check(again).holds
    assert again.frame.groupby("house")["area"].nunique().max() == 1


def test_restoring_is_refused_in_words(data, release):
    claim = release.claims[0]
    frame = release.data.frame
    fewer = frame.assign(service=frame["service"].where(~frame["service"].isin([1]), 0))
    with pytest.raises(InfeasibleError, match="changed the size of the group") as caught:
        restored(Microdata(fewer, data.schema), claim)
    assert not re.search(r"\d", str(caught.value))
    with pytest.raises(InfeasibleError, match="does not release service"):
        restored(release.data.select(["area", "age"]), claim)


def test_before_and_after_recoding(data):
    recoded = mask(data, RareLevels(k=5)).data
    release = mask(recoded, params())
    assert release.claims[0].check(mask(release.data, RareLevels(k=5)).data).holds


@pytest.mark.parametrize("households", [True, False])
def test_several_groups_are_hidden_by_steps_that_keep_those_before(households):
    source = microfile(households=households)
    both = GroupAnonymity(vital=({"sex": ("f",)},), parameter="area", order=AREAS, caps={"a": 300})
    women = both.group().counts(source.frame)
    first = params(caps={"h": 100, "c": 40})
    stated = {"vital": both.vital, "caps": {"a": women[0] - 60}, "match_on": ("age",)}
    second = params(**stated, kept=({"service": (1, 2)},))
    moved = mask(source, first)
    again = mask(moved.data, second)
    # Both claims hold of the last file: the second step left the first group's counts alone.
    assert all(claim.check(again.data).holds for claim in (moved.claims[0], again.claims[0]))
    np.testing.assert_array_equal(first.group().counts(again.data.frame), moved.claims[0].hidden.target)
    assert both.group().counts(again.data.frame)[0] <= women[0] - 60
    without = mask(moved.data, params(**stated))
    assert not moved.claims[0].check(without.data).holds


def test_kept_groups_that_leave_no_counterpart_are_refused_in_words():
    frame = pd.DataFrame({"area": list("aabb"), "service": [1, 1, 0, 0], "sex": list("mmff")})
    data = Microdata(frame, Schema(Variable(n, "ordinal" if n == "service" else "binary") for n in frame))
    stated = {"vital": ({"service": (1,)},), "order": ("a", "b"), "level": 1, "wavelet": "haar", "details": "plain"}
    mask(data, params(**stated, caps={"a": 1}))
    with pytest.raises(InfeasibleError, match="too few records to move"):
        mask(data, params(**stated, caps={"a": 1}, kept=({"sex": ("m",)},)))
