"""Claims about statistical units: ten months of one company are no ten companies."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import KAnonymity, LDiversity, Microdata, Schema, Variable
from anoncore.claims import BlockwiseKAnonymity, ClaimCheck, EffectiveRecords, LinkagePosterior
from anoncore.kernels.groups import distinct_counts, joined_groups
from anoncore.methods import MDAV, RHS, FuzzyMicroaggregation, OptimalBoxes, RareLevels, SpectralRHS, SpectralSwap

MONTHS, COMPANIES = 10, 30
SCHEMA = Schema([Variable(name, "continuous") for name in ("sales", "staff", "energy")])


def companies(seed: int = 0) -> Microdata:
    """Return ten months of each company, which resemble each other far more than other companies."""
    rng = np.random.default_rng(seed)
    levels = np.repeat(rng.normal(0, 100, (COMPANIES, 3)), MONTHS, axis=0)
    frame = pd.DataFrame(levels + rng.normal(0, 1, levels.shape), columns=SCHEMA.names)
    return Microdata(frame, SCHEMA, np.repeat(np.arange(COMPANIES), MONTHS))


def identical(groups: list[list[int]], secrets: list[list[str]] | None = None) -> Microdata:
    """Return groups of identical records of the units given."""
    rows = [(f"g{g}", secrets[g][i] if secrets else "s") for g, units in enumerate(groups) for i in range(len(units))]
    schema = Schema([Variable("q", "nominal"), Variable("secret", "nominal")])
    return Microdata(pd.DataFrame(rows, columns=["q", "secret"]), schema, list(itertools.chain(*groups)))


def test_a_group_of_k_records_of_fewer_units_is_not_k_anonymous():
    data = identical([[1, 1, 1, 2], [3, 4, 5]])
    check = KAnonymity(k=3, variables=("q",)).check(data)
    assert not check.holds
    assert check.observed == "fewest units in a group of identical records: 2 (4 records), 2 groups"
    assert check.figures == {"smallest_group": 2, "groups": 2}
    assert KAnonymity(k=3, variables=("q",)).check(data.with_units(None)).holds
    assert KAnonymity(k=2, variables=("q",)).check(data).holds
    blockwise = BlockwiseKAnonymity(k=3, blocks=(("q",), ("secret",))).check(data)
    assert (blockwise.holds, blockwise.figures["smallest_group"]) == (False, 2)


@pytest.mark.parametrize(
    ("units", "secrets", "diversity"),
    [
        ([1, 1, 1, 1], "abcd", 1),
        ([1, 2, 3, 4], "abcd", 4),
        ([1, 1, 1, 2], "abca", 2),
        # One unit holds three values, the others one: an attacker who knows that unit sees one value.
        ([1, 1, 1, 2, 3], "abcaa", 2),
        ([1, 1, 2, 2, 3, 3], "abbcca", 3),
        ([1, 2, 3], "aaa", 1),
    ],
)
def test_l_values_are_those_of_l_units(units, secrets, diversity):
    data = identical([units, [7, 8, 9, 10]], [list(secrets), list("wxyz")])
    best = max(
        len({secrets[i] for i in rows})
        for size in range(1, len(units) + 1)
        for rows in itertools.combinations(range(len(units)), size)
        if len({units[i] for i in rows}) == size
    )
    assert best == diversity
    for l in (2, 3, 4):  # noqa: E741
        check = LDiversity(l=l, quasi_identifiers=("q",), sensitive="secret").check(data)
        assert check.holds == (diversity >= l)
        assert f": {diversity}, 2 groups" in check.observed


@pytest.mark.parametrize("params", [MDAV(k=5), MDAV(k=5, blocks=(("staff",),)), RHS(k=5), SpectralRHS(k=5)], ids=str)
def test_microaggregation_groups_k_units(params):
    data = companies()
    alone = anoncore.anonymize(data.with_units(None), params, rng=np.random.default_rng(0))
    assert alone.check()[0].holds
    assert not params.anonymize(
        data.with_units(None), edits=anoncore.EditSet(), rng=np.random.default_rng(0)
    ).data.units
    assert not alone.claims[0].check(alone.data.with_units_of(data)).holds
    release = anoncore.anonymize(data, params, rng=np.random.default_rng(0))
    check = release.check()[0]
    assert check.holds
    assert check.figures["smallest_group"] >= 5
    assert any("fewer than 5 statistical units were joined" in note for note in release.notes)
    assert not any("statistical units" in note for note in alone.notes)


@pytest.mark.parametrize("params", [FuzzyMicroaggregation(k=5), OptimalBoxes(k=5)], ids=str)
def test_methods_that_group_records_fail_their_claim(params):
    release = anoncore.anonymize(companies(), params, rng=np.random.default_rng(0))
    assert release.data.units is not None
    failed = [check for check in release.check() if not check.holds]
    assert [check.kind for check in failed] == ["KAnonymity"]
    assert failed[0].figures["smallest_group"] == 1


def test_rows_that_stem_from_no_record_are_of_no_unit():
    assert anoncore.anonymize(companies(), SpectralSwap(), rng=np.random.default_rng(0)).data.units is None


def test_promises_about_records_say_of_how_many_units_they_are():
    claim = EffectiveRecords(k=3, fewest=4.0, centres_below=0)
    assert claim.check(companies()).observed.endswith("; 300 records are of 30 units, which may be linked")
    assert "units" not in claim.check(companies().with_units(None)).observed


def test_small_groups_join_the_nearest_until_none_is_small():
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(300, 2)), np.repeat(np.arange(60), 5)
    units = rng.integers(0, 40, 300)
    units[:50] = 0
    joined = joined_groups(x, labels, units, 8)
    assert distinct_counts(joined, units).min() >= 8
    assert all(len(set(joined[labels == group].tolist())) == 1 for group in range(60))
    assert joined_groups(x, joined, units, 8).tolist() == joined.tolist()
    assert joined_groups(x, labels, np.arange(300), 5).tolist() == labels.tolist()


def test_fewer_than_k_units_cannot_be_grouped():
    with pytest.raises(anoncore.AnonymizationError, match="groups of 9 units need as many, got 8"):
        joined_groups(np.zeros((16, 1)), np.repeat([0, 1], 8), np.arange(16) % 8, 9)


@pytest.mark.parametrize(
    ("kind", "action"),
    [("nominal", "suppress"), ("nominal", "merge"), ("ordinal", "merge"), ("ordinal", "redistribute")],
)
def test_a_level_of_many_records_of_few_units_is_rare(kind, action):
    """Level a is held by 30 units; b to f by ten records each, of the same three units."""
    units = [*range(30), *(unit for _ in "bcdef" for unit in [100] * 6 + [101] * 3 + [102])]
    values = ["a"] * 30 + [level for level in "bcdef" for _ in range(10)]
    data = Microdata(pd.DataFrame({"q": values}), Schema([Variable("q", kind, levels=tuple("abcdef"))]), units)
    assert data.level_units("q") == {"a": 30} | dict.fromkeys("bcdef", 3)
    assert data.with_units(None).level_units("q") == data.level_counts("q") == {"a": 30} | dict.fromkeys("bcdef", 10)
    release = anoncore.anonymize(data, RareLevels(k=3, action=action), rng=np.random.default_rng(0))
    assert release.data.level_units("q") == data.level_units("q")
    release = anoncore.anonymize(data, RareLevels(k=4, action=action), rng=np.random.default_rng(0))
    held = {level: n for level, n in release.data.level_units("q").items() if n}
    assert min(held.values()) >= 4
    assert release.check()[0].holds
    assert "fewer than 4 statistical units" in release.notes[0]


def test_a_claim_on_blocks_publishes_the_worst_of_them():
    blocks = [identical([range(9), range(9)]), identical([range(5), range(6), range(7), range(8)])]
    check = ClaimCheck.of_blocks([KAnonymity(k=6, variables=("q",)).check(block) for block in blocks])
    assert (check.holds, check.records, check.figures) == (False, 44, {"smallest_group": 5, "groups": 6})
    assert check.observed == "holds in 1 of 2 blocks of records, smallest group 5, groups 6"
    kept = {"k": 5, "centres": 4, "distinct_centres": 4, "sweeps": 9}
    posteriors = [
        LinkagePosterior(worst=0.1, share_above=0.0, converged=True, **kept).check(blocks[0]),
        LinkagePosterior(worst=0.4, share_above=0.22, converged=False, **kept).check(blocks[1]),
    ]
    of_all = {"worst_posterior": 0.4, "share_above": pytest.approx(0.13), "centres": 8, "distinct_centres": 8}
    assert ClaimCheck.of_blocks(posteriors).figures == {**of_all, "converged": 0.0}
    fewest = [EffectiveRecords(k=5, fewest=n, centres_below=n < 5).check(blocks[0]) for n in (7.0, 3.5)]
    assert ClaimCheck.of_blocks(fewest).figures == {"fewest_effective_records": 3.5, "centres_below": 1}
