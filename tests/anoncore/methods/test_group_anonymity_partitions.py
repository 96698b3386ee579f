"""Group anonymity over partitions: the release, figures, claims and restored counts of a table in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import EditSet, InfeasibleError, Microdata, Schema, Variable
from anoncore.claims import ClaimCheck, KAnonymity
from anoncore.kernels.streams import Stream
from anoncore.methods import RareLevels, SpectralSwap
from anoncore.methods.group_anonymity import pool
from anoncore.partitions.hidden_groups import recounts_over
from anoncore.partitions.store import Serial
from anoncore.partitions.table import PartitionedTable, partitioned
from anoncore.registry import anonymize_partitioned
from anoncore.risk import reinference
from anoncore.risk.group_masking import recounts
from tests.anoncore.methods.test_group_anonymity import DIALECT, microfile, params, with_dialect

PARTS = (1, 3, 8)


def rng(seed=1):
    return np.random.default_rng(seed)


def people(records=6000, **more) -> Microdata:
    """Return people with a hole in every kind of variable, and no household."""
    data = with_dialect(microfile(records, households=False, **more)).select(
        ["area", "service", "age", "sex", "income", "dialect"]
    )
    frame = data.frame.copy()
    for name, every in (("area", 97), ("age", 41), ("sex", 53), ("service", 101)):
        frame.loc[::every, name] = None
    frame["one"] = "same"
    return Microdata(frame, Schema([*data.schema, Variable("one", "nominal")]))


def in_parts(data: Microdata, parts: int) -> tuple[Serial, PartitionedTable]:
    run = Serial()
    return run, partitioned(run.store, "t", data, -(-len(data) // parts))


def whole(run: Serial, table: PartitionedTable) -> pd.DataFrame:
    return pd.concat([table.load(run.store, p).frame for p in table.partitions()], ignore_index=True)


STEPS = {
    "everything matched": {},
    "few matched": {"match_on": ("age",)},
    "on a map": {"columns": 4, "level": 1, "wavelet": "haar"},
    "values of the group": {"swapped": "group", "match_on": ("income",)},
    "kept": {"kept": ({"sex": ("f",)},), "match_on": ("age",)},
    "follows": {"follows": ("sex", "income"), "match_on": ("age",)},
    "ratio": {"signal": "ratio", "raises": {"b": 20}},
}


@pytest.mark.parametrize("stated", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("most", [20_000, 10])
def test_release_figures_and_claims_are_those_in_memory(monkeypatch, stated, most):
    monkeypatch.setattr(pool, "POOL", most)
    data, step, edits = people(), params(**stated), EditSet(() if "follows" in stated else DIALECT)
    expected = anoncore.anonymize(data, step, rng=rng(), edits=edits)
    assert (expected.data.frame != data.frame).any().any()
    checks = tuple(claim.check(expected.data) for claim in expected.claims)
    assert checks[0].holds
    for parts in PARTS:
        run, table = in_parts(data, parts)
        release = anonymize_partitioned(run, table, step, name="masked", rng=rng(), edits=edits)
        pd.testing.assert_frame_equal(whole(run, release.data), expected.data.frame.reset_index(drop=True))
        pd.testing.assert_frame_equal(whole(run, table), data.frame.reset_index(drop=True))
        assert dict(release.figures) == dict(expected.figures)
        assert release.notes == expected.notes
        assert release.confidential.keys() == expected.confidential.keys()
        for name, value in expected.confidential.items():
            np.testing.assert_allclose(release.confidential[name], value, rtol=1e-9, atol=1e-12)
        assert step.check_partitioned(run, release.data, release.claims) == checks
        assert {name.split("/")[0] for name, _ in run.store.chunks} == {"t", "masked"}


@pytest.mark.parametrize("learned", [50_000, 40])
def test_the_attack_counts_the_same_in_memory_and_in_partitions(monkeypatch, learned):
    monkeypatch.setattr(reinference, "TRAINED_ON", learned)
    data = people()
    hidden = anoncore.anonymize(data, params(), rng=rng()).claims[0].hidden
    expected = recounts(data, hidden)
    for parts in PARTS:
        run, table = in_parts(data, parts)
        for found, own in zip(recounts_over(run, table, hidden), expected, strict=True):
            np.testing.assert_array_equal(found.counts, own.counts)
            np.testing.assert_array_equal(found.errors, own.errors)


@pytest.mark.parametrize("areas_apart", [64, 4])
def test_sampled_others_are_enough_to_find_a_small_area(monkeypatch, areas_apart):
    """A home that stays with members gives their areas away, however few others the classifier learns from."""
    data = people(24_000)
    home = np.where(rng().random(len(data)) < 0.95, data.frame["area"].cat.codes, rng(2).integers(0, 8, len(data)))
    data = Microdata(data.frame.assign(home=home.astype(str)), Schema([*data.schema, Variable("home", "nominal")]))
    hidden = anoncore.anonymize(data, params(match_on=("age",)), rng=rng()).claims[0].hidden
    monkeypatch.setattr(reinference, "TRAINED_ON", 1000)
    monkeypatch.setattr(reinference, "CLASSES", areas_apart)
    expected = recounts(data, hidden)
    at, truth = hidden.concealed, hidden.group.counts(data.frame)
    assert np.abs(expected[1].counts[at] / truth[at] - 1).max() < 0.1
    for parts in (*PARTS, 29):
        run, table = in_parts(data, parts)
        for found, own in zip(recounts_over(run, table, hidden), expected, strict=True):
            np.testing.assert_array_equal(found.counts, own.counts)
            np.testing.assert_array_equal(found.errors, own.errors)
        assert {name.split("/")[0] for name, _ in run.store.chunks} == {"t"}


def test_work_columns_are_removed_after_an_error(monkeypatch):
    def fails(*_):
        raise InfeasibleError("no")

    data = people()
    hidden = anoncore.anonymize(data, params(), rng=rng()).claims[0].hidden
    run, table = in_parts(data, 3)
    monkeypatch.setattr(pool.Exchange, "within", fails)
    with pytest.raises(InfeasibleError, match="no"):
        anonymize_partitioned(run, table, params(), name="masked", rng=rng())
    monkeypatch.setattr(reinference.Coding, "of", fails)
    with pytest.raises(InfeasibleError, match="no"):
        recounts_over(run, table, hidden)
    assert {name.split("/")[0] for name, _ in run.store.chunks} == {"t"}


def test_pools_grow_in_steps_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(pool, "POOL", 10)
    flows = np.array([[0, 3], [0, 0]])
    exchange = pool.Exchange(params().group(), flows, pool.Counterparts(), EditSet(), Stream((1,)))
    counts = np.array([[50, 1000, 7, 7], [100, 50, 7, 7]])
    steps = [(shares * counts).round().tolist() for shares in exchange.shares(counts)]
    assert steps == [[[0, n, 0, 0], [m, 0, 0, 0]] for n, m in ((10, 10), (40, 40), (160, 100), (1000, 100))]
    assert [exchange.covers(shares) for shares in exchange.shares(counts)] == [False] * 3 + [True]
    monkeypatch.setattr(pool, "LARGEST_POOL", 100)
    assert len(list(exchange.shares(counts))) == 2
    monkeypatch.setattr(pool, "LARGEST_POOL", 1)
    assert len(list(exchange.shares(counts))) == 1
    monkeypatch.setattr(pool, "LARGEST_POOL", 16)
    (first, *_) = exchange.shares(counts)
    assert (first * counts).round().tolist() == [[0, 8, 0, 0], [8, 0, 0, 0]]


def test_no_place_in_the_largest_pool_is_refused_in_the_same_words(monkeypatch):
    monkeypatch.setattr(pool, "POOL", 10)
    monkeypatch.setattr(pool, "LARGEST_POOL", 1)
    within = pool.Exchange.within
    monkeypatch.setattr(pool.Exchange, "within", lambda *given: replace(within(*given), broken=("an edit",)))
    data = people()
    run, table = in_parts(data, 3)
    words = "find no counterpart among the records that are compared"
    with pytest.raises(InfeasibleError, match=words):
        anoncore.anonymize(data, params(), rng=rng())
    with pytest.raises(InfeasibleError, match=words):
        anonymize_partitioned(run, table, params(), name="masked", rng=rng())


def test_restoring_draws_from_the_generator_whether_or_not_a_claim_holds():
    data = people()
    release = anoncore.anonymize(data, params(), rng=rng())
    run, table = in_parts(release.data, 3)
    states = []
    for restore in (
        lambda r: params().restore(release.data, release.claims, edits=EditSet(), rng=r),
        lambda r: params().restore_partitioned(run, table, release.claims, edits=EditSet(), rng=r),
    ):
        generator = rng(3)
        assert restore(generator)[1] == ()
        states.append(generator.random())
    assert states[0] == states[1] != rng(3).random()


def test_claims_of_others_are_not_passed_over():
    run, table = in_parts(people(), 2)
    for step in (params(), RareLevels(k=3, action="redistribute")):
        with pytest.raises(anoncore.AnonymizationError, match="KAnonymity is none of them"):
            step.check_partitioned(run, table, (KAnonymity(k=2),))


def test_a_leak_is_found_in_partitions():
    data = people()
    uniform = np.where(data.frame["service"].isin([1, 2]) ^ (rng().random(len(data)) < 0.03), "yes", "no")
    data = Microdata(data.frame.assign(uniform=uniform), Schema([*data.schema, Variable("uniform", "binary")]))
    run, table = in_parts(data, 3)
    release = anonymize_partitioned(run, table, params(), name="masked", rng=rng())
    found = params().check_partitioned(run, release.data, release.claims)[2]
    assert not found.holds
    assert found.figures["found_by_looks"] == 1


@pytest.mark.parametrize("parts", PARTS)
def test_counts_are_restored_after_a_later_step_as_in_memory(parts):
    data, step, edits = people(outside=60), params(match_on=("age", "dialect")), EditSet(DIALECT)
    release = anoncore.anonymize(data, step, rng=rng(), edits=edits)
    swapped = anoncore.anonymize(release.data, SpectralSwap(), rng=rng(2)).data
    sound = edits.satisfied(swapped.frame)
    expected, notes = step.restore(swapped, release.claims, edits=edits, rng=rng(3))
    assert notes
    run, table = in_parts(swapped, parts)
    again, told = step.restore_partitioned(run, table, release.claims, edits=edits, rng=rng(3))
    assert told == notes
    pd.testing.assert_frame_equal(whole(run, again), expected.frame.reset_index(drop=True))
    assert edits.satisfied(whole(run, again))[sound].all()
    counts = step.check_partitioned(run, again, release.claims)[0]
    assert isinstance(counts, ClaimCheck)
    assert counts.holds
    unchanged = step.restore_partitioned(run, again, release.claims, edits=edits, rng=rng(3))
    assert unchanged == (again, ())


def test_what_cannot_be_restored_is_refused_in_the_words_of_memory():
    data, step = people(), params()
    release = anoncore.anonymize(data, step, rng=rng())
    fewer = data.frame.assign(service=data.frame["service"].where(~data.frame["service"].isin([1]), 0))
    run, table = in_parts(Microdata(fewer, data.schema), 3)
    asked = {"edits": EditSet(), "rng": rng()}
    with pytest.raises(InfeasibleError, match="changed the size of the group"):
        step.restore_partitioned(run, table, release.claims, **asked)
    gone = replace(table, schema=table.schema.select(["area", "age"]))
    with pytest.raises(InfeasibleError, match="does not release service"):
        step.restore_partitioned(run, gone, release.claims, **asked)
    (counts, *_, audit) = step.check_partitioned(run, gone, release.claims)
    assert (counts.observed, audit.observed) == ("its variables are not released",) * 2


def test_too_few_counterparts_are_refused_in_the_words_of_memory():
    frame = pd.DataFrame({"area": list("aabb"), "service": [1, 1, 0, 0], "sex": list("mmff")})
    data = Microdata(frame, Schema(Variable(n, "ordinal" if n == "service" else "binary") for n in frame))
    stated = {"vital": ({"service": (1,)},), "order": ("a", "b"), "level": 1, "wavelet": "haar", "details": "plain"}
    step = params(**stated, caps={"a": 1}, kept=({"sex": ("m",)},))
    run, table = in_parts(data, 2)
    with pytest.raises(InfeasibleError, match="too few records to move"):
        anonymize_partitioned(run, table, step, name="masked", rng=rng())


def test_weights_are_counted_in_memory_alone():
    step = params(weight="income", follows=("sex",))
    assert (step.over_partitions, params().over_partitions) == ("none", "exact")
    run, table = in_parts(people(), 2)
    with pytest.raises(anoncore.AnonymizationError, match="needs its records in memory"):
        anonymize_partitioned(run, table, step, name="masked", rng=rng())
