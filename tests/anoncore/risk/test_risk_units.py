"""Risk by statistical units: months of one company are neither other companies nor independent of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema, Variable
from anoncore.encoding import EncodedTables
from anoncore.kernels.neighbors import nearest_of_others
from anoncore.kernels.smoothed_values import smoothed_values
from anoncore.methods import ExtremeRecords
from anoncore.microdata import ComparedUnits, unit_means
from anoncore.risk import RiskSettings, compare, measure_encoded_risk
from anoncore.risk._equal_sizes import equal_sizes
from anoncore.risk.bounds import Side, bounds
from anoncore.risk.closeness import closeness
from anoncore.risk.density import density
from anoncore.risk.disclosure import DisclosureSettings, disclosure_risk
from anoncore.risk.jackknife import Deletions, set_variance
from anoncore.risk.linkage import LinkageSettings, linkage
from anoncore.risk.membership import membership_attack
from anoncore.risk.scores import Certainty, score_attack
from anoncore.risk.singling_out import singling_out
from anoncore.risk.subset_linkage import subset_linkage

KEYS = [Variable(name, "continuous", role="quasi-identifier") for name in "ab"]
SCHEMA = Schema([*KEYS, Variable("c", "continuous"), Variable("s", "binary", role="sensitive", levels=(0, 1))])


def panel(companies: int, months: int, seed: int, within: float = 0.02) -> Microdata:
    """Return months of companies that resemble each other far more than other companies."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.normal(size=(companies, 3)), months, axis=0)
    frame = pd.DataFrame(centres + within * rng.normal(size=centres.shape), columns=list("abc"))
    frame["s"] = rng.integers(0, 2, len(frame))
    return Microdata(frame, SCHEMA, np.repeat(np.arange(companies), months))


def matrix(data: Microdata) -> np.ndarray:
    return data.frame[list("abc")].to_numpy(copy=True)


@pytest.mark.parametrize("columns", [2, 12])
def test_the_nearest_of_other_units_are_the_true_ones(columns):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, columns)).round(1 if columns == 2 else 4)
    units = np.sort(rng.integers(0, 12, 120))
    units[:60] = 0
    distances, indices = nearest_of_others(points, points, 3, own=units, units=units)
    for row in range(len(points)):
        gaps = np.sqrt(((points - points[row]) ** 2).sum(axis=1))
        order = [i for i in np.lexsort((np.arange(120), gaps)) if units[i] != units[row]][:3]
        assert indices[row].tolist() == order
        np.testing.assert_allclose(distances[row], gaps[order])
    with pytest.raises(anoncore.AnonymizationError, match="k must be between 1 and 60, got 61"):
        nearest_of_others(points, points, 61, own=units, units=units)


@pytest.mark.parametrize("with_reference", [True, False])
def test_units_of_one_record_each_change_no_figure(with_reference):
    original, released, reference = (panel(40, 3, seed, 0.5).with_units(None) for seed in (1, 2, 3))
    figures = []
    for units in (None, 3 * np.arange(120)):
        tables = EncodedTables.of(
            original.with_units(units), released, reference.with_units(units) if with_reference else None
        )
        settings = RiskSettings(rows_linked=True)
        report, _ = measure_encoded_risk(tables, settings, rng=np.random.default_rng(5))
        figures.append(replace(report, curves=None))
    assert figures[0] == figures[1]


def test_a_copied_company_is_not_hidden_by_its_own_months():
    original, reference, other = (panel(30, 8, seed) for seed in (1, 2, 3))
    x, r, y = (matrix(side) for side in (original, reference, other))
    # Every company has one of its months copied, a little blurred: nearer than its other months are to it.
    y[::8] = x[::8] + 0.01
    rng = np.random.default_rng(0)
    units = ComparedUnits(original.units, reference.units)
    rows = np.arange(len(x))
    by_record, by_unit = (closeness(x, y, r, 5, queries=rows, rng=rng, **given) for given in ({}, {"units": units}))
    assert by_record.tail(0.1, 0.01).verdict == "pass"
    found = by_unit.tail(0.1, 0.01)
    assert (found.n, found.n_released, found.verdict) == (30, 30, "fail")
    assert found.n_close_pairs is None or found.n_close_pairs <= 30
    assert by_unit.isolated(0.1, 0.01).n == 10
    assert by_unit.isolated(0.1, 0.01).verdict == "fail"


def test_identical_records_of_one_unit_count_once():
    original, reference = panel(30, 8, 1), panel(30, 8, 2)
    x, r = matrix(original), matrix(reference)
    y = matrix(panel(30, 8, 3))
    y[:8] = x[:8]
    rows, units = np.arange(len(x)), ComparedUnits(original.units, reference.units)
    copied = [
        closeness(x, y, r, 5, queries=rows, rng=np.random.default_rng(0), **given).identical(0.01)
        for given in ({}, {"units": units})
    ]
    assert [(one.n, one.n_released, one.only_released) for one in copied] == [(240, 8, 8), (30, 1, 1)]
    assert [one.verdict for one in copied] == ["fail", "pass"]


def test_without_others_a_unit_is_compared_with_the_rest_of_the_source():
    original = panel(30, 4, 1)
    x, rows, rng = matrix(original), np.arange(120), np.random.default_rng(0)
    alone, by_unit = (
        closeness(x, x, None, 5, queries=rows, rng=rng, **given)
        for given in ({}, {"units": ComparedUnits(original.units)})
    )
    assert np.median(by_unit.reference.distance) > 5 * np.median(alone.reference.distance)
    np.testing.assert_allclose(by_unit.reference.distance, by_unit.own)
    # Each record in the release: the own months hide it no longer.
    assert by_unit.tail(0.1, 0.01).n_released == 30


def test_records_of_one_unit_do_not_add_to_the_certainty_of_membership():
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(40), 10)
    scores = [rng.normal(size=40)[units] for _ in range(2)]
    alone = membership_attack(*(rng.normal(size=400) for _ in range(2)))
    clustered = membership_attack(*scores, units=ComparedUnits(units, units))
    assert (clustered.n_members, clustered.n_nonmembers) == (40, 40)
    assert clustered.upper - clustered.lower > 2.5 * (alone.upper - alone.lower)
    assert clustered.auc == membership_attack(scores[0][::10], scores[1][::10]).auc
    assert unit_means(np.array([1.0, 2.0, 6.0]), np.array([3, 1, 3])).tolist() == [2.0, 3.5]


def test_a_unit_is_revealed_by_one_of_its_many_records():
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(300), 20)
    scores = [rng.normal(size=6000) for _ in range(2)]
    harmless = membership_attack(*scores, units=ComparedUnits(units, units))
    scores[0][::20] += 6.0
    revealed = membership_attack(*scores, units=ComparedUnits(units, units))
    assert harmless.verdict != "fail"
    assert revealed.lower > 0.9
    attack = score_attack(*scores, certainty=Certainty(units=ComparedUnits(units, units)))
    assert attack.area.lower > 0.9
    assert attack.top.p < 1e-9


def test_every_attack_on_membership_counts_units():
    original, released, reference = (panel(30, 4, seed, 0.3) for seed in (1, 2, 3))
    settings = RiskSettings()
    report, _ = measure_encoded_risk(
        EncodedTables.of(original, released, reference), settings, rng=np.random.default_rng(5)
    )
    assert report.membership is not None
    assert report.score_coincidence is not None
    counted = [report.membership, report.score_coincidence.attack]
    for family in (report.presence, report.agreement, report.density, report.partial_copies):
        assert family is not None
        counted += [family, *(one.attack.area for one in family.attacks)]
    assert {(one.n_members, one.n_nonmembers) for one in counted} == {(30, 30)}
    assert report.linkability is not None
    assert (report.linkability.n_members, report.linkability.n_nonmembers) == (30, 30)
    assert report.value_pairs is not None
    assert report.value_pairs.n == 30


def test_a_row_of_the_own_unit_is_a_right_match():
    original = panel(30, 4, 1)
    x = matrix(original)
    # The months of each company change places.
    order = np.arange(120).reshape(30, 4)[:, [1, 2, 3, 0]].ravel()
    y, units = x[order], original.units
    by_record = linkage(x, y, rng=np.random.default_rng(0))
    by_unit = linkage(x, y, settings=LinkageSettings(units=units, row_units=units), rng=np.random.default_rng(0))
    assert by_record.rate.value == 0.0
    assert (by_unit.rate.value, by_unit.rate.n) == (1.0, 30)


def test_an_extreme_company_is_set_aside_with_all_its_months():
    data = panel(120, 6, 4)
    frame = data.frame.copy()
    frame.loc[:5, ["a", "b", "c"]] += 500.0
    data = Microdata(frame, SCHEMA, data.units)
    params, rng = ExtremeRecords(), np.random.default_rng(0)
    assert len(anoncore.anonymize(data.with_units(None), params, rng=rng).data) == 720
    left = anoncore.anonymize(data, params, rng=rng).data
    assert sorted(set(range(720)) - set(left.frame.index)) == list(range(6))
    assert 0 not in left.units


@pytest.mark.parametrize("action", ["top-code", "winsorise"])
def test_coded_ends_are_of_several_units(action):
    data = panel(60, 6, 4)
    coded = anoncore.anonymize(data, ExtremeRecords(action=action), rng=np.random.default_rng(0)).data
    for end in (-1, 1):
        changed = np.flatnonzero((coded.frame["a"] - data.frame["a"]).abs() > 0)
        side = changed[np.sign(data.frame["a"].to_numpy()[changed]) == end]
        assert len(set(data.units[side].tolist())) >= 5


def test_a_number_that_one_unit_repeats_is_no_spike():
    ordered = np.sort(np.concatenate([np.full(30, 5.0), np.linspace(0, 10, 90)]))
    one = np.where(ordered == 5.0, 1000, np.arange(120))
    kept = smoothed_values(ordered, 5, k=10)
    assert (kept == 5.0).sum() >= 30
    assert not (smoothed_values(ordered, 5, k=10, units=one)[ordered == 5.0] == 5.0).all()
    np.testing.assert_array_equal(smoothed_values(ordered, 5, k=10, units=np.arange(120)), kept)


def test_the_standard_error_of_the_comparison_is_that_of_units():
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(60), 10)
    one, other = rng.normal(size=(2, 60))
    each = compare(one, other)
    repeated = compare(one[units], other[units], units=units)
    # Ten equal records of each unit say as much as one.
    assert repeated.upper == pytest.approx(each.upper)
    assert repeated.lower == pytest.approx(each.lower)
    alone = compare(one[units], other[units])
    assert alone.upper < each.upper - 0.05
    shuffled = rng.permutation(600)
    again = compare(one[units][shuffled], other[units][shuffled], units=units[shuffled])
    assert again.upper == pytest.approx(repeated.upper)


def test_the_variance_is_that_of_a_ratio_of_totals():
    rng = np.random.default_rng(4)
    units = rng.integers(0, 15, 80)
    one, other = rng.normal(size=(2, 80)).round(1)
    found = compare(one, other, units=units)
    sizes = np.unique(units, return_counts=True)[1]
    m, total = sizes.mean(), 80 + 2 * sizes.mean()
    upper = []
    for x in np.unique([one, other]):
        surplus = np.array([((one <= x) * 1 - (other <= x))[units == u].sum() for u in np.unique(units)])
        e = surplus.sum() / total
        squares = ((surplus - sizes * e) ** 2).sum() + (m - m * e) ** 2 + (-m - m * e) ** 2
        upper.append(e + 1.6448536269514722 * np.sqrt(squares) / total)
    assert found.upper == pytest.approx(max(upper))


def test_groups_of_quasi_identifiers_count_units():
    frame = pd.DataFrame({"q": ["x"] * 6 + ["y"] * 4})
    schema = Schema([Variable("q", "nominal", role="quasi-identifier")])
    data = Microdata(frame, schema, [1] * 6 + [2, 3, 4, 5])
    settings = DisclosureSettings(k=3)
    for table, smallest, below in ((data, 1, 0.2), (data.with_units(None), 4, 0.0)):
        found = disclosure_risk(table, original=table, settings=settings, rng=np.random.default_rng(0)).released.groups
        assert (found.smallest, found.below_k.value) == (smallest, below)


def test_a_row_of_the_own_unit_is_certain_by_some_variables():
    original = panel(30, 4, 1)
    frame = original.frame.assign(a=np.repeat(np.arange(30.0), 4))
    # The company's number is released beside numbers of others: four rows of one company agree.
    original = Microdata(frame, SCHEMA, original.units)
    order = np.random.default_rng(0).permutation(120)
    released = Microdata(frame.assign(b=frame["b"].to_numpy()[order], c=0.0), SCHEMA, original.units)
    for one, other, share in ((original, released, 1.0), (original.with_units(None), released.with_units(None), 0.0)):
        found = subset_linkage(EncodedTables.of(one, other, None), rng=np.random.default_rng(1))
        assert found is not None
        alone = next(subset for subset in found.subsets if subset.name == "the variable a")
        assert alone.certain.value == share
        assert alone.certain.n == (30 if share else 120) == found.n_people
        assert alone.linked.value == pytest.approx(share or 0.25)


def test_a_group_of_rows_of_one_unit_hides_nobody():
    original = panel(30, 4, 1)
    y = np.repeat(matrix(original).reshape(30, 4, 3).mean(axis=1), 4, axis=0)
    rng = np.random.default_rng(0)
    settings = LinkageSettings(units=original.units, row_units=original.units)
    found = [linkage(matrix(original), y, settings=one, rng=rng) for one in (LinkageSettings(), settings)]
    assert [one.rate.value for one in found] == pytest.approx([0.25, 1.0])
    assert [one.group_rate for one in found] == pytest.approx([0.25, 1.0])


def test_a_condition_that_is_true_of_one_company_alone_singles_it_out():
    original, reference = panel(40, 4, 1), panel(40, 4, 2)
    tables = []
    for side, first in ((original, 0), (reference, 1000)):
        frame = side.frame.assign(a=first + np.repeat(np.arange(40.0), 4), b=0.0, c=0.0, s=0)
        tables.append(Microdata(frame, SCHEMA, side.units))
    # The number of each company is released; four months of it hold it.
    found = [
        singling_out(one, one, other, rng=np.random.default_rng(0))
        for one, other in (tables, [side.with_units(None) for side in tables])
    ]
    values = [one.worst.residual.value for one in found if one is not None and one.worst is not None]
    assert values == pytest.approx([1.0, 0.0], abs=0.01)
    assert [(one.n_members, one.n_nonmembers) for one in found if one is not None] == [(40, 40), (160, 160)]


def test_the_classifier_is_not_told_by_the_households_of_non_members():
    # Members, non-members and release are independent: a classifier that learned from a household knows its rest.
    areas = []
    for seed in range(8):
        sides = [panel(60, 5, 100 + 3 * seed + i, within=0.1) for i in range(3)]
        members, others, released = (matrix(side) for side in sides)
        units = ComparedUnits(sides[0].units, sides[1].units)
        found = density(
            members, others, released, certainty=Certainty(units=units), rng=np.random.default_rng(seed)
        ).attacks[-1]
        assert found.name == "classifier"
        areas.append(found.attack.area.auc)
    assert abs(np.mean(areas) - 0.5) < 0.06  # 0.68 where records of one household are parted


def test_the_density_of_people_is_that_of_other_units():
    """Records of one person lie closer together, the more there are: that says nothing of the population."""
    areas = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        sides = []
        for _ in range(2):
            units, spread = np.repeat(np.arange(200), rng.integers(1, 9, 200)), 10 ** rng.uniform(-3, 0, 200)
            rows = rng.normal(size=(200, 6))[units] + rng.normal(size=(len(units), 6)) * spread[units, None]
            sides.append((rows, units))
        (members, own), (others, theirs) = sides
        certainty, noise = Certainty(units=ComparedUnits(own, theirs)), rng.normal(size=members.shape)
        found = density(members, others, members + 0.7 * noise, certainty=certainty, rng=rng)
        areas.append(next(one.attack.area.auc for one in found.attacks if one.name == "density ratio, 1 neighbour"))
    assert np.mean(areas) > 0.56  # 0.52 where a person's other records count as others


def test_the_draw_of_a_set_is_a_draw_of_units():
    n, units = 40, np.repeat(np.arange(20), 2)
    near, far = np.zeros(n), np.ones(n)
    draw = np.arange(n)[:, None] % 20
    without = Side(near, far[:, None], Deletions(200, draw, *[far[:, None]] * 3))

    def variance(released: Side) -> float:
        """Return the squared distance of the lower bound from the adjusted share at 0, in standard errors."""
        found = bounds("distance", [(released, Side(far))], 0.05, 0.05, units=units)
        return (n / (n + 4) - found.lower) ** 2 / (2.0 * np.log(20.0))

    owed = set_variance(near, far[:, None], draw, 200, np.zeros(1))[0]
    assert owed > 0.0
    assert variance(without) - variance(Side(near)) == pytest.approx(2.0 * owed)


def repeated(rng, units, records, sd=0.02):
    """Units of several records that are nearly alike, as the months of a firm."""
    return np.repeat(rng.normal(size=(units, 2)), records, axis=0) + sd * rng.normal(size=(units * records, 2))


@pytest.mark.parametrize(("others", "released"), [(80, 80), (40, 80)])
def test_independent_samples_of_few_units_are_not_nearer_by_the_units_that_were_drawn(others, released):
    """Deleting one of a unit's records changes nothing: half of harmless files were rejected."""
    failed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes = 80, others, released
        frames = [pd.DataFrame(repeated(rng, n, 10), columns=["x", "y"]) for n in sizes]
        schema = Schema([Variable("x", "continuous"), Variable("y", "continuous")])
        a, r, y = (Microdata(frame, schema) for frame in frames)
        a, r = (data.with_units(np.repeat(np.arange(n), 10)) for data, n in zip((a, r), sizes, strict=False))
        tables = EncodedTables.of(a, y, r)
        report, _ = measure_encoded_risk(tables, RiskSettings(), rng=np.random.default_rng(seed))
        failed += "fail" in {report.comparison.verdict, report.tail.verdict, report.identical.verdict}
        if seed < 3:
            tables = EncodedTables.of(a, Microdata(a.frame + 1e-4, schema), r)
            report, _ = measure_encoded_risk(tables, RiskSettings(), rng=np.random.default_rng(seed))
            assert report.comparison.verdict == "fail"
    assert failed <= 1


def test_a_larger_release_is_compared_with_one_record_of_each_unit() -> None:
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(30), 4)
    of_release, of_others = equal_sizes(400, 120, units, rng)
    assert of_release is not None
    assert of_others is not None
    assert len(of_release) == len(of_others) == 30
    assert sorted(units[of_others]) == list(range(30))
    assert equal_sizes(120, 120, units, rng) == (None, None)
    none, whole = equal_sizes(40, 120, units, rng)
    assert none is None
    assert whole is not None
    assert np.bincount(units[whole]).tolist().count(4) == 10
