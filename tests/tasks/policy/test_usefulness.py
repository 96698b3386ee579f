"""The answer to whether a release tells what its source tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tasks.policy.section import PolicySection
from tasks.policy.usefulness import headline, usefulness
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment

GATES = decide(assessment(), PolicySection()).gates


@pytest.mark.parametrize(
    ("verdicts", "answer"),
    [
        ({}, "yes"),
        ({"worst pair": "to decide"}, "partly"),
        ({"impossible combinations": "to decide"}, "partly"),
        ({"dependencies": "fail"}, "no"),
        (dict.fromkeys(("worst pair", "worst variable", "spikes", "impossible combinations"), "to decide"), "no"),
    ],
    ids=str,
)
def test_the_answer_follows_from_what_is_beyond_its_limit(verdicts: dict[str, Any], answer: str) -> None:
    found = usefulness([replace(one, verdict=verdicts.get(one.name, one.verdict)) for one in GATES])
    assert found.answer == answer
    assert {one.name for one in found.beyond} == set(verdicts)
    assert [one.name for one in found.headlines] == ["worst variable", "worst pair"]
    assert "two samples" in headline(found.headlines[0])


def moved_pair(change: float, two_samples: float) -> Any:
    found = assessment()
    pairs = found.utility.pairs
    worst = replace(pairs.worst[0], change=change, two_samples=two_samples)
    return replace(found, utility=replace(found.utility, pairs=replace(pairs, worst=(worst,))))


@pytest.mark.parametrize(
    ("change", "two_samples", "answer"),
    [(0.1, 0.2, "yes"), (0.2, 0.2, "yes"), (0.26, 0.2, "partly"), (0.4, 0.2, "partly"), (0.16, 0.151, "partly")],
)
def test_what_moved_by_more_than_two_samples_differ_is_named_within_wide_limits(
    change: float, two_samples: float, answer: str
) -> None:
    gates = decide(moved_pair(change, two_samples), PolicySection()).gates
    assert all(one.verdict == "pass" for one in gates if one.topic == "Utility")
    useful = usefulness(gates)
    assert (useful.answer, useful.beyond) == (answer, ())
    named = "moved by more than two samples differ: income and height"
    assert (named in headline(useful.headlines[1])) is (answer == "partly")


def test_where_nothing_was_measured_there_is_no_answer() -> None:
    assert usefulness([one for one in GATES if one.topic == "Risk"]).answer == "not known"
