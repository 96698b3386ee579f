"""Household trees: released households keep what holds in every household of the source."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.edits.kinds import BoundEdit
from anoncore.methods import HouseholdTrees
from anoncore.methods.household_trees.rules import household_rules


def families(n: int = 300, seed: int = 0) -> Microdata:
    """Return heads, most with a partner of the other sex, and children born two or three years apart."""
    draw = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        age, sex, region, couple = int(draw.integers(25, 70)), draw.choice(["f", "m"]), draw.choice(["n", "s"]), False
        rows.append((number, region, "head", sex, age))
        if couple := draw.random() < 0.7:
            rows.append((number, region, "partner", "m" if sex == "f" else "f", age - int(draw.integers(0, 4))))
        child = age - int(draw.integers(20, 26))
        for _ in range(int(draw.integers(0, 4)) if couple else 0):
            if child < 0:
                break
            rows.append((number, region, "child", draw.choice(["f", "m"]), child))
            child -= int(draw.integers(2, 4))
    frame = pd.DataFrame(rows, columns=["hid", "region", "relation", "sex", "age"])
    frame["members"] = frame.groupby("hid")["hid"].transform("size").map("of {}".format)
    frame = frame.sample(frac=1, random_state=seed).reset_index(drop=True)
    roles = {"hid": "household"}
    kinds = {"age": "continuous"}
    schema = Schema([Variable(name, kinds.get(name, "nominal"), roles.get(name, "other")) for name in frame])
    return Microdata(frame, schema).with_units(frame["hid"])


@pytest.fixture(scope="module")
def source() -> Microdata:
    return families()


@pytest.fixture(scope="module")
def release(source: Microdata) -> anoncore.Release:
    return anoncore.anonymize(source, HouseholdTrees(sort_by="age", leaf=20), rng=np.random.default_rng(1))


def test_rules_that_hold_in_every_household_are_found(source: Microdata) -> None:
    rules = household_rules(source, source.unit_codes)
    assert (rules.constant, rules.of_size) == (("region", "members"), ("members",))
    assert (rules.relation, rules.head) == ("relation", "head")
    assert {(one.level, one.fewest, one.most) for one in rules.members} >= {("head", 1, 1), ("partner", 0, 1)}
    same_sex = [e for e in rules.edits.edits if e.name.startswith("sex beside head: sex") and "partner" in e.name]
    assert [e.then.values for e in same_sex] == [("m",), ("f",)]
    assert not rules.broken(source.frame, source.unit_codes).any()


def test_released_households_are_consistent(source: Microdata, release: anoncore.Release) -> None:
    frame = release.data.plain()
    households = frame.groupby("hid")
    assert len(households) == pytest.approx(300, abs=5)
    assert households["region"].nunique().eq(1).all()
    assert (frame["members"] == households["hid"].transform("size").map("of {}".format)).all()
    assert (frame["relation"].eq("head").groupby(frame["hid"]).sum() == 1).all()
    assert (frame["relation"].eq("partner").groupby(frame["hid"]).sum() <= 1).all()
    head = frame[frame["relation"] == "head"].set_index("hid")
    partner = frame[frame["relation"] == "partner"].set_index("hid")
    assert (partner["sex"] != head["sex"].loc[partner.index]).all()
    gap = partner["age"] - head["age"].loc[partner.index]
    assert gap.between(-5, 0).all()
    child = frame[frame["relation"] == "child"].sort_values(["hid", "age"])
    apart = child.groupby("hid")["age"].diff().dropna()
    assert apart.isin([2, 3]).mean() > 0.9
    assert sorted(frame["hid"].unique()) == list(range(1, len(households) + 1))
    assert all(check.holds for check in release.check())


def with_odd(source: Microdata, households: int) -> Microdata:
    """Return the source with partners of the same sex in so many households."""
    frame = source.frame.copy()
    partners = frame.index[frame["relation"] == "partner"][:households]
    frame.loc[partners, "sex"] = frame.loc[partners, "sex"].map({"f": "m", "m": "f"})
    return Microdata(frame, source.schema).with_units(frame["hid"])


@pytest.mark.parametrize("households", [1, 4])
def test_a_few_households_that_break_a_rule_do_not_undo_it(source: Microdata, households: int) -> None:
    rules = household_rules(source, source.unit_codes)
    odd = with_odd(source, households)
    assert len(household_rules(odd, odd.unit_codes)) == len(rules)
    other = anoncore.anonymize(odd, HouseholdTrees(sort_by="age", leaf=20), rng=np.random.default_rng(1)).data
    assert not rules.broken(other.frame, pd.factorize(other.frame["hid"])[0]).any()
    many = with_odd(source, 12)
    assert len(household_rules(many, many.unit_codes)) < len(rules)


def test_nothing_stated_tells_the_one_household_that_breaks_a_rule(
    source: Microdata, release: anoncore.Release
) -> None:
    odd = with_odd(source, 1)
    other = anoncore.anonymize(odd, HouseholdTrees(sort_by="age", leaf=20), rng=np.random.default_rng(1))
    assert other.notes == release.notes
    assert [one.statement for one in other.claims] == [one.statement for one in release.claims]
    assert {*other.figures} == {*release.figures} == {"households_lacking"}
    assert all("rules" not in check.figures for one in (other, release) for check in one.check())


def test_shares_are_those_of_the_source(source: Microdata, release: anoncore.Release) -> None:
    ours, theirs = source.plain(), release.data.plain()
    for name in ("region", "relation", "members"):
        shares = [one[name].value_counts(normalize=True) for one in (ours, theirs)]
        assert shares[0].sub(shares[1], fill_value=0).abs().max() < 0.08
    ages = [one.groupby("relation")["age"].mean() for one in (ours, theirs)]
    assert (ages[0] - ages[1]).abs().max() < 4


def test_a_broken_household_is_counted_and_left_out_after_later_steps(release: anoncore.Release) -> None:
    frame = release.data.frame.copy()
    at = frame.index[frame["relation"] == "partner"][0]
    frame.loc[at, "relation"] = "head"
    broken = Microdata.trusted(frame, release.data.schema)
    claim = release.claims[1]
    assert claim.check(broken).figures["households_breaking"] == 1
    restored, notes = HouseholdTrees().restore(broken, release.claims, edits=EditSet(), rng=np.random.default_rng(0))
    assert notes
    assert claim.check(restored).holds
    assert frame.loc[at, "hid"] not in set(restored.frame["hid"])


def test_heads_may_lack_numbers_more_often_than_members(source: Microdata) -> None:
    draw = np.random.default_rng(2)
    unknown = (source.frame["relation"] == "head") & (draw.random(len(source)) < 0.3)
    gaps = Microdata(source.frame.assign(age=source.frame["age"].mask(unknown)), source.schema, source.units)
    rules = household_rules(gaps, gaps.unit_codes)
    assert any(e.name.startswith("age less that of the head") for e in rules.edits.edits)
    assert not rules.broken(gaps.frame, gaps.unit_codes).any()
    ageless = Microdata(
        gaps.frame.assign(age=source.frame["age"].mask(source.frame["relation"] == "head")), gaps.schema
    )
    assert not any("less that" in e.name for e in household_rules(ageless, gaps.unit_codes).edits.edits)


def test_edits_of_records_are_respected(source: Microdata) -> None:
    edits = EditSet([BoundEdit(name="adults", variable="age", upper=60)])
    adult = Microdata(source.frame.assign(age=source.frame["age"].clip(upper=60)), source.schema, source.units)
    released = anoncore.anonymize(adult, HouseholdTrees(leaf=20), rng=np.random.default_rng(1), edits=edits)
    assert released.data.frame["age"].max() <= 60


def test_a_table_without_relation_keeps_what_members_share(source: Microdata) -> None:
    plain = source.select(["hid", "region", "members", "age"])
    release = anoncore.anonymize(plain, HouseholdTrees(leaf=20), rng=np.random.default_rng(1))
    assert release.claims[1].rules.relation == ""
    assert all(check.holds for check in release.check())


def test_what_does_not_suit_the_table_is_said(source: Microdata) -> None:
    wrong = HouseholdTrees(relation="age", sort_by="sex").problems(source.schema, EditSet())
    assert [problem.split(":")[0] for problem in wrong] == ["relation", "sort_by"]
    with pytest.raises(AnonymizationError, match="exactly one member"):
        anoncore.anonymize(source, HouseholdTrees(relation="sex", leaf=20), rng=np.random.default_rng(1))
    with pytest.raises(AnonymizationError, match="records of at least 800 households, got 300"):
        anoncore.anonymize(source, HouseholdTrees(leaf=400), rng=np.random.default_rng(1))
