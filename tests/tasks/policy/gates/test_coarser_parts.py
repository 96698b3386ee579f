"""Parts of the records that are coarser than the release: not tested, and nothing where they are not."""

from __future__ import annotations

from dataclasses import replace

from tasks.policy.assessment import Assessment, Half
from tasks.policy.gates.coarser_parts import GATE, NAME
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, results


def cross(*coarser: tuple[str, ...]) -> Assessment:
    given = assessment()
    return replace(given, halves=tuple(Half(given.records, given.risk, coarser=names) for names in coarser))


def test_a_half_that_is_coarser_asks_a_person() -> None:
    one = results(GATE, cross(("job",), ("job", "land")))[NAME]
    assert (one.verdict, one.variables) == ("not tested", ("job", "land"))
    assert decide(cross((), ("job",)), PolicySection(untested=("membership",)), [GATE]).decision == "await"


def test_nothing_is_said_of_parts_as_detailed_as_the_release() -> None:
    assert not results(GATE, cross((), ()))
    assert not results(GATE, assessment())
