"""Measures over partitions agree with those of the whole table."""

from dataclasses import astuple, dataclass, field

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from anoncore.encoding import EncodedTables, Encoder
from anoncore.kernels.neighbors import nearest
from anoncore.kernels.streams import Stream
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions import neighbours
from anoncore.partitions.close_records import AskedPeople, ComparedTables, close_records
from anoncore.partitions.exchange import permuted
from anoncore.partitions.identical import identical_counts
from anoncore.partitions.missing import missing_patterns
from anoncore.partitions.neighbours import Sought, isolated_records, nearest_distances
from anoncore.partitions.order import Column, kolmogorov_distance
from anoncore.partitions.outermost import outermost
from anoncore.partitions.store import Chunk, MemoryStore, Serial
from anoncore.partitions.table import PartitionedTable, partitioned
from anoncore.risk.dominance import dominance
from anoncore.risk.identical import identical_records
from anoncore.risk.shrinkage import Shrinkage
from anoncore.risk.within import EqualRecords, ratios, within_test


def people(seed: int, levels: tuple[str, ...]) -> Microdata:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.choice([0.0, -0.0, 1.0, 2.5, np.nan], 300),
            "y": rng.integers(6, size=300).astype(float),
            "school": rng.choice([*levels, None], 300),
        }
    )
    schema = Schema([Variable("x", "continuous"), Variable("y", "continuous"),
                     Variable("school", "nominal", levels=levels)])  # fmt: skip
    return Microdata(frame, schema)


SIDES = people(1, ("a", "b", "c")), people(2, ("c", "b", "a", "d")), people(3, ("b", "a"))
NAMES = ["x", "y", "school"]
SCHEMA = Schema([Variable(name, "continuous") for name in "xyz"])


def stored(run: Serial, rows: int) -> list[PartitionedTable]:
    return [partitioned(run.store, f"t{number}", side, rows + number) for number, side in enumerate(SIDES)]


@pytest.mark.parametrize("rows", [300, 101, 30])
@pytest.mark.parametrize("with_reference", [True, False])
def test_identical_records_are_counted_as_in_memory(rows: int, with_reference: bool) -> None:
    run = Serial()
    tables = stored(run, rows)
    counts = identical_counts(
        run, tables[0], tables[1], tables[2] if with_reference else None, NAMES, rng=np.random.default_rng(0)
    )
    rows_of = [[tuple(str(value + 0.0 if isinstance(value, float) else value) for value in row)
                for row in side.frame.itertuples(index=False)] for side in SIDES]  # fmt: skip
    twins = [rows_of[0].count(row) > 1 for row in rows_of[0]]
    others = [row in rows_of[2] for row in rows_of[0]] if with_reference else twins
    met = [row in rows_of[1] for row in rows_of[0]]
    kinds = pd.factorize(pd.Series(rows_of[0]))[0].astype(float)[:, None] if with_reference else None
    distances = [np.where(side, 0.0, 1.0) for side in (met, others, twins)]
    if kinds is not None:
        assert astuple(counts.test(0.01)) == astuple(identical_records(*distances, level=0.01, records=kinds))
    else:
        codes = pd.factorize(pd.Series(rows_of[0] + rows_of[1]))[0].astype(float)[:, None]
        as_rows = np.split(codes, [len(rows_of[0])])
        one, other = ratios(distances[0], distances[2])
        whole = within_test(one, other, EqualRecords.of(as_rows[0], *as_rows), tau=0.0, level=0.01)
        found = counts.test(0.01)
        assert (found.n_duplicates, found.n_released, found.only_released) == (
            whole.n_duplicates,
            whole.n_released,
            whole.only_released,
        )
        assert found.p == pytest.approx(whole.p)
    assert counts.n_released > counts.only_released > 0
    assert not [name for name, _ in run.store.chunks if "digests" in name]


@pytest.mark.parametrize("rows", [300, 50, 4])
def test_the_outermost_records_of_all_partitions_decide_on_dominated_numbers(rows: int) -> None:
    rng, run = np.random.default_rng(5), Serial()
    schema = Schema([Variable(name, "continuous") for name in ("x", "y", "z")])
    frames = [pd.DataFrame(rng.normal(size=(300, 3)), columns=list(schema.names)) for _ in range(3)]
    frames[0].loc[[17, 18], ["x", "y"]] = [[5e6, np.nan], [0.0, -4e6]]
    frames[1].loc[40, ["x", "y"]] = 1e5, -1e5
    frames[2].loc[3, "y"] = -1e6
    sides = [Microdata(frame, schema) for frame in frames]
    tables = [partitioned(run.store, f"d{number}", side, rows) for number, side in enumerate(sides)]
    ends = [side.take(outermost(run, table, list(schema.names))) for side, table in zip(sides, tables, strict=True)]
    assert dominance(*ends) == dominance(*sides)
    assert dominance(*ends).followed == ("x", "y")


@pytest.mark.parametrize("rows", [300, 70])
def test_the_nearest_record_is_that_of_all_partitions(rows: int) -> None:
    run = Serial()
    tables = stored(run, rows)
    encoder = Encoder.fit(SIDES[0])
    asked = encoder.encode(SIDES[0].take(np.arange(40)))
    found = nearest_distances(run, asked, Sought(tables[1], encoder))[:, 0]
    np.testing.assert_array_equal(found, nearest(asked, encoder.encode(SIDES[1]), 1)[0][:, 0])


@pytest.mark.parametrize("rows", [3000, 700, 101])
@pytest.mark.parametrize("window", [3000, 700])
@pytest.mark.parametrize(("most", "far"), [(40, np.inf), (40, 0.5), (5, 1.0), (3000, np.inf)])
def test_isolated_records_are_the_farthest_of_their_windows(
    monkeypatch: pytest.MonkeyPatch, rows: int, window: int, most: int, far: float
) -> None:
    monkeypatch.setattr(neighbours, "WINDOW", window)
    run, rng = Serial(), np.random.default_rng(4)
    values = rng.normal(size=(3000, 3))
    values[100:140] = values[0]  # equal records have no distance
    data = Microdata(pd.DataFrame(values, columns=[*"xyz"]), SCHEMA)
    encoder, table = Encoder.fit(data), partitioned(run.store, "t", data, rows)
    points = encoder.encode(data)
    parts = np.split(points, range(window, 3000, window))
    own = np.concatenate([nearest(part, part, 1, skip_self=True)[0][:, 0] for part in parts])
    wanted = (own >= np.sort(own)[-min(most, len(own))]) & (own > 0) | (own > far)
    found, gaps = isolated_records(run, Sought(table, encoder), most, far)
    order = np.lexsort(np.column_stack([points[wanted], own[wanted]]).T)
    np.testing.assert_array_equal(found, points[wanted][order])
    np.testing.assert_allclose(gaps, own[wanted][order], rtol=1e-12)


def test_a_part_of_the_records_is_the_same_in_all_partitions() -> None:
    run, parts = Serial(), []
    encoder = Encoder.fit(SIDES[0])
    for rows in (1000, 101):
        half = Sought(
            partitioned(run.store, f"t{rows}", SIDES[0], rows), encoder, 0.5, Stream.of(np.random.default_rng(4))
        )
        parts.append(np.concatenate([half.rows(run.store, partition) for partition in half.table.partitions()]))
    np.testing.assert_array_equal(*parts)
    assert 0.4 * len(SIDES[0]) < len(parts[0]) < 0.6 * len(SIDES[0])


@pytest.mark.parametrize("reference", [True, False])
def test_close_records_do_not_depend_on_partitions(monkeypatch: pytest.MonkeyPatch, reference: bool) -> None:
    monkeypatch.setattr(neighbours, "WINDOW", 500)
    run, rng = Serial(), np.random.default_rng(4)
    sizes = {"original": 1500, "released": 1500, "reference": 700}
    sides = {
        kind: Microdata(pd.DataFrame(rng.standard_t(5, (n, 3)), columns=[*"xyz"]), SCHEMA) for kind, n in sizes.items()
    }
    encoder, found = Encoder.fit(sides["original"]), []
    for rows in (1500, 400, 101):
        given = [partitioned(run.store, f"{kind} {rows}", side, rows) for kind, side in sides.items()]
        tables = ComparedTables(*given[:2], given[2] if reference else None, encoder)
        people = encoder.encode(sides["original"].take(np.arange(200)))
        known = nearest(people, encoder.encode(sides["released"]), 1)[0][:, 0]
        found += [
            close_records(run, tables, AskedPeople(people, released), rng=np.random.default_rng(1))
            for released in (None, known)
        ]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("with_reference", [True, False])
def test_close_records_are_found_where_isolated_ones_or_a_part_of_all_are_copied(with_reference: bool) -> None:
    run, rng = Serial(), np.random.default_rng(4)
    original, others, released = rng.standard_t(5, size=(3, 1500, 3))
    original[7] = 400.0
    isolated = np.argsort(-nearest(original, original, 1, skip_self=True)[0][:, 0])[:16]
    leaks = {"none": [], "isolated": isolated[1:], "part": np.arange(200, 260), "extreme": isolated[:1]}
    data = Microdata(pd.DataFrame(original, columns=[*"xyz"]), SCHEMA)
    encoder = Encoder.fit(data)
    verdicts = {}
    for name, copied in leaks.items():
        rows = released.copy()
        rows[: len(copied)] = original[copied] + 1e-3
        sides = [
            partitioned(run.store, kind, Microdata(pd.DataFrame(side, columns=[*"xyz"]), SCHEMA), 400)
            for kind, side in (("original", original), ("released", rows), ("reference", others[:1400]))
        ]
        tables = ComparedTables(*sides[:2], sides[2] if with_reference else None, encoder)
        found = close_records(run, tables, AskedPeople(encoder.encode(data)), rng=rng)
        verdicts[name] = [found.tail.verdict, found.isolated.verdict, found.extreme.verdict]
        assert (found.tail.n, found.isolated.n, found.extreme.n) == (1500, 15 if with_reference else 20, 1500)
    assert verdicts["none"] == ["pass"] * 3
    assert verdicts["isolated"][1:] == ["fail", "pass"]
    assert verdicts["part"][0] == "fail"
    assert verdicts["extreme"][1:] == ["pass", "fail"]


def test_harmless_releases_of_few_variables_come_no_closer_to_isolated_people() -> None:
    rng, failed = np.random.default_rng(6), 0
    for seed in range(10):
        run = Serial()
        data = [
            Microdata(pd.DataFrame({"x": rng.standard_t(3, 4000), "y": rng.integers(3, size=4000).astype(float),
                                    "z": np.arange(4000) % 2.0}), SCHEMA)
            for _ in range(2)
        ]  # fmt: skip
        encoder = Encoder.fit(data[0])
        sides = [partitioned(run.store, f"t{at}", side, 1500) for at, side in enumerate(data)]
        people = AskedPeople(encoder.encode(data[0].take(np.arange(500))))
        found = close_records(run, ComparedTables(*sides, None, encoder), people, rng=np.random.default_rng(seed))
        assert (found.within_original, found.isolated.n >= 40) == (True, True)
        failed += found.isolated.p < 0.05
    assert failed <= 2


@pytest.mark.parametrize("times", [1, 3])
def test_copies_in_a_larger_release_are_found_without_a_reference(times: int) -> None:
    rng, run = np.random.default_rng(3), Serial()
    original = np.floor(rng.gamma(1.5, 2.0, size=(800, 4)))
    released = np.floor(rng.gamma(1.5, 2.0, size=(800 * times, 4)))
    released[: 400 * times] = np.tile(original[:400], (times, 1))
    names = [*"wxyz"]
    schema = Schema([Variable(name, "continuous") for name in names])
    one, other = (
        partitioned(run.store, f"t{at}", Microdata(pd.DataFrame(side, columns=names), schema), 300)
        for at, side in enumerate((original, released))
    )
    counts = identical_counts(run, one, other, None, names, rng=np.random.default_rng(0))
    assert counts.test(0.001).verdict == "fail"


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("with_reference", [True, False])
def test_a_larger_release_holds_no_more_identical_records_than_chance(times: int, with_reference: bool) -> None:
    rng, least = np.random.default_rng(8), []
    for seed in range(12):
        run = Serial()
        data = [
            Microdata(pd.DataFrame(rng.integers(5, size=(rows, 3)).astype(float), columns=[*"xyz"]), SCHEMA)
            for rows in (300, 300 * times, 300)
        ]
        one, other, third = (partitioned(run.store, f"t{at}", side, 120) for at, side in enumerate(data))
        reference = third if with_reference else None
        counts = identical_counts(run, one, other, reference, [*"xyz"], rng=np.random.default_rng(seed))
        met = pd.MultiIndex.from_frame(data[0].frame).isin(pd.MultiIndex.from_frame(data[1].frame))
        assert counts.n_released == met.sum()
        least.append(counts.test(0.01).p)
    assert min(least) > 0.002
    assert np.median(least) > 0.1


@pytest.mark.parametrize("rows", [70, 1000])
def test_patterns_of_missing_values_are_those_of_all_records(rows: int) -> None:
    rng, run = np.random.default_rng(2), Serial()
    names = [f"v{at}" for at in range(11)]
    frame = pd.DataFrame(rng.normal(size=(500, 11)), columns=names).mask(rng.random((500, 11)) < 0.1)
    frame["v4"] = pd.Categorical.from_codes(rng.integers(-1, 2, 500), ["a", "b"])
    kinds = [
        Variable(n, "nominal" if n == "v4" else "continuous", levels=("a", "b") if n == "v4" else None) for n in names
    ]
    table = partitioned(run.store, "t", Microdata(frame, Schema(kinds)), rows)
    for asked in (names, names[3:5]):
        patterns, held = missing_patterns(run, table, asked)
        expected, counts = np.unique(frame[asked].isna().to_numpy(), axis=0, return_counts=True)
        np.testing.assert_array_equal(patterns, expected)
        np.testing.assert_array_equal(held, counts)


def test_nobody_is_isolated_where_every_record_has_a_twin() -> None:
    run, rng = Serial(), np.random.default_rng(5)
    twins = np.repeat(rng.normal(size=(600, 3)), 2, axis=0)
    data = [
        Microdata(pd.DataFrame(side, columns=[*"xyz"]), SCHEMA) for side in (twins, twins, rng.normal(size=(600, 3)))
    ]
    encoder = Encoder.fit(data[0])
    sides = [partitioned(run.store, f"twins{at}", side, 400) for at, side in enumerate(data)]
    people = AskedPeople(encoder.encode(data[0].take(np.arange(200))))
    found = close_records(run, ComparedTables(*sides, encoder), people, rng=rng)
    assert (found.isolated.n, found.isolated.n_duplicates, found.isolated.n_released) == (200, 200, 0)
    assert found.extreme.n_extreme == 0


def test_people_far_out_are_found_once_the_shrinkage_of_noise_is_undone() -> None:
    run, rng = Serial(), np.random.default_rng(4)
    names = [*"xyz"]
    original, others = rng.normal(size=(2, 1500, 3))
    for side in (original, others):
        way = rng.normal(size=(12, 3))
        side[:12] += way / np.linalg.norm(way, axis=1)[:, None] * rng.uniform(20, 60, (12, 1))
    # Noise that varies twice as much as the numbers, shrunk so that their variances stay.
    middle, noise = original.mean(axis=0), rng.multivariate_normal(np.zeros(3), 2.0 * np.cov(original.T), 1500)
    released = middle + (original - middle + noise) / np.sqrt(3.0)
    data = [Microdata(pd.DataFrame(side, columns=names), SCHEMA) for side in (original, released, others)]
    sides = [partitioned(run.store, f"t{at}", side, 400) for at, side in enumerate(data)]
    encoder = Encoder.fit(data[0])
    shrinkage = Shrinkage.of(EncodedTables.of(data[0], data[1], None), np.arange(1500))
    rows = encoder.encode(data[0].take(np.arange(500)))
    known = nearest(rows, encoder.encode(data[1]), 1)[0][:, 0]
    (plain, undone), again = (
        [
            close_records(run, ComparedTables(*sides, encoder, one), people, rng=np.random.default_rng(1))
            for one in (None, shrinkage)
        ]
        for people in (AskedPeople(rows), AskedPeople(rows, known))
    )
    assert [plain, undone] == again
    plain, undone = plain.isolated, undone.isolated
    assert list(dict(plain.forms)) == ["within 0.1", "within 0.5"]
    assert list(dict(undone.forms))[2:] == [f"{name}, shrinkage undone" for name in dict(plain.forms)]
    assert plain.verdict == "pass"
    assert (undone.verdict, undone.tau) == ("fail", 0.5)


@pytest.mark.parametrize(("shift", "digits"), [(0.0, 3), (0.3, 1), (50.0, 8)])
def test_kolmogorovs_distance_is_that_of_the_whole_columns(shift: float, digits: int) -> None:
    rng, run = np.random.default_rng(1), Serial()
    one, other = np.round(rng.normal(size=5000), digits), np.round(rng.normal(size=3000) + shift, digits)
    one[::7] = np.nan
    for name, values, parts in (("a", one, 5), ("b", other, 3), ("none", np.full(4, np.nan), 2)):
        for number, part in enumerate(np.array_split(values, parts)):
            run.store.write(name, number, part)
    found = kolmogorov_distance(run, Column("a", 5), Column("b", 3))
    assert found == pytest.approx(ks_2samp(one[~np.isnan(one)], other).statistic, abs=1e-15)
    assert kolmogorov_distance(run, Column("a", 5), Column("none", 2)) == 1.0
    assert kolmogorov_distance(run, Column("none", 2), Column("none", 2)) == 0.0
    assert {name for name, _ in run.store.chunks} == {"a", "b", "none"}


@dataclass(frozen=True, eq=False, repr=False)
class Remembering(MemoryStore):
    """Remembers the columns that were ever written."""

    written: set[str] = field(default_factory=set)

    def write(self, column: str, partition: int, values: Chunk) -> None:
        self.written.add(column)
        super().write(column, partition, values)


def test_no_step_writes_to_a_column_that_another_has_written_or_a_variable_may_be_called_by() -> None:
    """A task of a step that has ended may yet write: a worker that stood still was taken for lost."""
    store = Remembering()
    run = Serial(store)
    tables = stored(run, 101)
    own = set(store.written)
    encoder = Encoder.fit(SIDES[0])
    asked = encoder.encode(SIDES[1])
    seen: list[set[str]] = []
    for number in range(2):
        store.written.clear()
        nearest_distances(run, asked, Sought(tables[0], encoder), 2)
        isolated_records(run, Sought(tables[0], encoder), 10, np.inf)
        outermost(run, tables[0], ["x", "y"])
        kolmogorov_distance(run, *(Column(table.column("x"), len(table.rows)) for table in tables[:2]))
        identical_counts(run, *tables, NAMES, rng=np.random.default_rng(0))
        columns = [(tables[0].column("x"), f"moved-{number}")]
        permuted(run, columns, tables[0].rows, Stream.of(np.random.default_rng(1)))
        seen.append(store.written - {f"moved-{number}"})
    assert seen[0]
    assert not seen[0] & seen[1]
    assert all(name.startswith("~") and "/" not in name.split(" ")[0] for name in seen[0] | seen[1])
    assert {name for name, _ in store.chunks} == own | {"moved-0", "moved-1"}
