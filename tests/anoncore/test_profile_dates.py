"""Dates in columns of their own: drafts state which days there are, and no release holds another one."""

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, anonymize
from anoncore.edits.kinds import ConditionalEdit
from anoncore.edits.model import EditSet
from anoncore.edits.repair import repair
from anoncore.methods import SequentialTrees, SpectralSwap
from anoncore.microdata import Schema
from anoncore.profile import find_rules

NAMED = ("birth_day", "birth_month", "birth_year")


def dates(n, names, *, first="1930-01-01", days=25_000, seed=0):
    draw = np.random.default_rng(seed)
    date = pd.to_datetime(first) + pd.to_timedelta(draw.integers(0, days, n), unit="D")
    frame = pd.DataFrame(dict(zip(names, (date.day, date.month, date.year), strict=True)))
    return frame.assign(sex=draw.choice(["m", "f"], n))


def edits(frame):
    data = Microdata.from_frame(frame, Schema.infer(frame))
    return data, EditSet(f.edit for f in find_rules(data) if f.active)


def nonexistent(frame, names):
    day, month, year = (frame[name].astype(float).astype(int) for name in names)
    parts = pd.DataFrame({"year": year, "month": month, "day": day})
    return int(pd.to_datetime(parts, errors="coerce").isna().sum())


def test_the_rules_hold_of_every_date_and_of_no_other_combination():
    data, found = edits(dates(3000, NAMED))
    schema, years = data.schema, range(1932, 1998)
    all_days = [(d, m, y, "m") for y in years for m in range(1, 13) for d in range(1, 32)]
    every = Microdata.from_frame(pd.DataFrame(all_days, columns=data.frame.columns), schema)
    good = found.satisfied(every.frame)
    kept = every.frame[good]
    assert nonexistent(kept, NAMED) == 0
    assert good.sum() == len(pd.date_range("1932-01-01", "1997-12-31"))


@pytest.mark.parametrize(
    ("n", "names", "found"), [(150, NAMED, True), (300, ("d", "m", "y"), False), (900, ("d", "m", "y"), True)]
)
def test_names_or_evidence_tell_dates(n, names, found):
    rules = [e for e in edits(dates(n, names))[1].edits if isinstance(e, ConditionalEdit)]
    assert bool([e for e in rules if set(e.variables) == set(names[:2])]) == found


def test_names_alone_do_not_make_dates_of_counts():
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"day_count": draw.integers(1, 29, 500), "month_count": draw.integers(1, 13, 500)})
    assert not [e for e in edits(frame)[1].edits if isinstance(e, ConditionalEdit)]


def test_numbers_that_are_no_dates_get_no_rule():
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"birth_day": draw.integers(1, 32, 2000), "birth_month": draw.integers(1, 13, 2000)})
    assert not [e for e in edits(frame)[1].edits if isinstance(e, ConditionalEdit)]


def test_few_years_are_levels():
    frame = dates(2000, NAMED, first="1931-06-01", days=3000)
    (rule,) = [e for e in edits(frame)[1].edits if e.name == "birth_year of a leap day"]
    assert list(map(float, rule.then.values)) == [1932, 1936]


@pytest.mark.parametrize("step", [SequentialTrees(), SpectralSwap()])
def test_released_dates_exist(step):
    data, found = edits(dates(1500, NAMED))
    rng = np.random.default_rng(3)
    released = repair(anonymize(data, step, edits=found, rng=rng).data, found, rng=rng).data
    assert nonexistent(released.frame, NAMED) == 0
