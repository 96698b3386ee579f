"""What decides on all records of a large release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anoncore.partitions.close_records import CloseRecords
from tasks.policy.assessment import FullRelease, VariableShift
from tasks.policy.gates.full_release import GATE
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import assessment, results, tail

CLOSE, ISOLATED = "unusually close records, full release", "isolated records, full release"


@pytest.mark.parametrize(
    ("p", "expected"), [(0.005, "pass"), (0.00499, "inconclusive"), (0.00075, "inconclusive"), (0.0007, "fail")]
)
@pytest.mark.parametrize("place", [CLOSE, ISOLATED])
def test_close_records_of_all_have_half_of_the_level_of_those_of_a_sub_table(p: float, expected: str, place: str):
    """Both tests are made of one release: together they reject a harmless one no more often than one at the level."""
    given = assessment()
    tests = {CLOSE: tail(), ISOLATED: tail()} | {place: tail(p=p)}
    full = FullRelease(
        records=given.records,
        identical=given.risk.identical,
        nearest=None,
        close=CloseRecords(tests[CLOSE], tests[ISOLATED], given.risk.extreme),
        shifts=(VariableShift("income", 0.01),),
    )
    found = results(GATE, replace(given, full_release=full))
    others = {one.verdict for name, one in found.items() if name != place}
    assert (found[place].verdict, others) == (expected, {"pass"})
    assert PolicySection().full_release_p == PolicySection().tail_p / 2
