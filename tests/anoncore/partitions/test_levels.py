"""Rare levels are counted over all partitions, units as often as they hold a level in any of them."""

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.kinds import SetEdit
from anoncore.edits.model import EditSet
from anoncore.methods import RareLevels
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.levels import level_tallies
from anoncore.partitions.store import Serial
from anoncore.partitions.table import partitioned
from anoncore.registry import anonymize, anonymize_partitioned


def table(*, units: bool) -> Microdata:
    rng = np.random.default_rng(8)
    school = rng.choice([*"abcdefgh", None], 400, p=[0.3, 0.3, 0.3, 0.03, 0.02, 0.02, 0.01, 0.01, 0.01])
    frame = pd.DataFrame({"school": school, "x": rng.normal(size=400), "sex": rng.choice(["f", "m"], 400)})
    schema = Schema([Variable("school", "ordinal", levels=tuple("abcdefghi")), Variable("x", "continuous"),
                     Variable("sex", "binary")])  # fmt: skip
    return Microdata(frame, schema, rng.integers(150, size=400) if units else None)


@pytest.mark.parametrize("units", [False, True])
def test_rare_levels_are_redistributed_as_in_memory(units: bool) -> None:
    data, step = table(units=units), RareLevels(k=6, action="redistribute")
    edits = EditSet([SetEdit(name="e", variable="school", values=("a", "b", *"defgh"))])
    whole = anonymize(data, step, rng=np.random.default_rng(2), edits=edits)
    for rows in (400, 150, 97):
        run = Serial()
        source = partitioned(run.store, "t", data, rows)
        release = anonymize_partitioned(run, source, step, name="r", rng=np.random.default_rng(2), edits=edits)
        frames = [release.data.load(run.store, number).frame for number in release.data.partitions()]
        pd.testing.assert_frame_equal(pd.concat(frames, ignore_index=True), whole.data.frame)
        assert tuple(release.data.schema) == tuple(whole.data.schema)
        assert (release.claims, release.notes) == (whole.claims, whole.notes)
    held = data.level_units("school")
    (tally,) = level_tallies(run, source, ["school"], 6).values()
    assert tally.few[:-1].tolist() == [n < 6 for n in held.values()]
    assert tally.counts[-1] == data.frame["school"].isna().sum()
