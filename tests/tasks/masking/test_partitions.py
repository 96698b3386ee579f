"""Masking in blocks: what is rare is rare in the table, not in a block of it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.model import EditSet
from anoncore.methods import MDAV, RareLevels, SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Serial
from anoncore.partitions.table import partitioned
from anoncore.recoding import Recoding
from tasks.common.errors import Refused
from tasks.common.partitions import StoredPartitions
from tasks.masking import partitions
from tasks.masking.anonymize import MaskReport
from tasks.masking.partitions import mask_partitions, mask_records


@dataclass(frozen=True)
class _Whole:
    """A table in memory, as a reference to it."""

    data: Microdata

    def load(self) -> Microdata:
        return self.data


@dataclass(frozen=True)
class _Workspace:
    """Gives back what is stored in it."""

    def store(self, name: str, data: Microdata) -> _Whole:
        assert name == "released"
        return _Whole(data)


@dataclass(frozen=True)
class _Streams:
    workspace: _Workspace = field(default_factory=_Workspace)

    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(len(stream))


def test_levels_that_are_rare_in_blocks_alone_are_kept(monkeypatch):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 300)
    rng, run = np.random.default_rng(1), Serial()
    region = np.repeat(["north", "south", "isle", "rock"], [1000, 960, 36, 4])
    frame = pd.DataFrame({"x": rng.normal(size=2000), "region": rng.permutation(region)})
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("region", "nominal")]))
    stored = StoredPartitions(partitioned(run.store, "t", data, 700), run)
    steps = (RareLevels(k=20, action="redistribute"), SpectralSwap())
    masked = mask_partitions(_Streams(), stored, steps, EditSet())
    released = pd.concat([part.frame for part in masked.released.parts()])
    assert set(released["region"]) == {"north", "south", "isle"}
    assert (released["region"] == "isle").sum() in range(36, 41)
    assert [claim.kind for claim in masked.claims] == ["NoRareLevels", "NoFormalGuarantee"]
    assert all(claim.holds for claim in masked.claims)
    assert any("held by fewer than 20 records is replaced" in note for note in masked.notes)
    # Nothing but the source and the release is left in the store.
    assert {name.split("/")[0] for name, _ in run.store.chunks} == {"t", "released"}


@pytest.mark.parametrize("step", [MDAV(k=5), SpectralSwap()], ids=lambda step: step.method)
def test_a_large_table_is_masked_in_the_same_blocks_in_memory(monkeypatch, step):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 300)
    rng, run = np.random.default_rng(1), Serial()
    frame = pd.DataFrame({"x": rng.normal(size=1000), "y": rng.normal(size=1000).round(1)}, index=np.arange(1000) + 7)
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("y", "continuous")]))
    stored = StoredPartitions(partitioned(run.store, "t", data, 400), run)
    apart = pd.concat([part.frame for part in mask_partitions(_Streams(), stored, (step,), EditSet()).released.parts()])
    masked = mask_records(_Streams(), _Whole(data), (step,), EditSet())
    together = masked.released.load().frame
    pd.testing.assert_frame_equal(together.reset_index(drop=True), apart.reset_index(drop=True))
    assert masked.keeps_records == (step.method == "mdav")
    if masked.keeps_records:
        assert sorted(together.index) == sorted(frame.index)
        assert together["x"].corr(frame["x"].loc[together.index]) > 0.9
    assert all(claim.holds for claim in masked.claims)


def test_what_is_published_of_blocks_is_of_all_of_them(monkeypatch):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 20)
    rng, run, reports = np.random.default_rng(1), Serial(), []
    frame = pd.DataFrame({"x": rng.normal(size=50), "y": rng.normal(size=50)})
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("y", "continuous")]))
    stored = StoredPartitions(partitioned(run.store, "t", data, 50), run)
    one_block = partitions._Plan.report

    def recorded(plan, done):
        reports.append(one_block(plan, done))
        return reports[-1]

    monkeypatch.setattr(partitions._Plan, "report", recorded)
    masked = mask_partitions(_Streams(), stored, (MDAV(k=5),), EditSet())
    released = pd.concat([part.frame for part in masked.released.parts()])
    sizes = [one.claims[0].records for one in reports]
    assert len(set(sizes)) > 1
    (claim,) = masked.claims
    count = len(released.drop_duplicates())
    smallest = min(one.claims[0].figures["smallest_group"] for one in reports)
    assert (claim.records, dict(claim.figures)) == (50, {"smallest_group": smallest, "groups": count})
    every = f"{len(sizes)} of {len(sizes)} blocks of records"
    assert claim.observed == f"holds in {every}, smallest group {smallest}, groups {count}"
    assert f"the records were masked in {len(sizes)} random blocks, each as a table of its own" in masked.notes
    for name, value in masked.figures.items():
        assert value == pytest.approx(np.average([one.figures[name] for one in reports], weights=sizes))
    assert masked.figures


def test_recodings_are_those_of_all_blocks():
    coarser = MaskReport(keeps_records=True, recodings=(Recoding("region", levels={"isle": "south"}),))
    assert partitions._recodings([coarser, coarser]) == coarser.recodings
    with pytest.raises(Refused, match="recoded differently"):
        partitions._recodings([coarser, replace(coarser, recodings=())])
