"""Each half of the units masked by the whole plan, and attacked with the other half as non-members."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tasks.assessment.assess import AssessmentSection, MaskedSides, assess_half
from tasks.assessment.coarser_parts import coarser_variables
from tasks.assessment.judge import Sections
from tasks.assessment.prior_releases import AT_MOST, by_all_releases, recoded_people
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.masking.partitions import mask_part
from tasks.policy.assessment import Half, PriorReleases
from tasks.record.entry import ReleaseFacts


@dataclass(frozen=True)
class Earlier:
    """How many releases of a plan or its data were published, and how many of them by the very same masking.

    Parameters
    ----------
    releases, masked_alike : the numbers
    pseudonyms : whether their rows can be joined by pseudonyms
    """

    releases: int
    masked_alike: int
    pseudonyms: bool = False

    @classmethod
    def of(cls, releases: tuple[ReleaseFacts, ...], masking: str, *, pseudonyms: bool = False) -> Earlier:
        """Count releases; how they were masked is known by a digest, whatever limits their plans stated."""
        return cls(len(releases), sum(facts.masking == masking for facts in releases), pseudonyms)


def judge_half(run: Run, number: int, half: Sides, plan: Sections, earlier: Earlier, whole: MaskedSides) -> Half:
    """Mask one half by the whole plan and attack it, its reference being the other half.

    Earlier releases have no non-members, as all units are in them. The half is masked as often as its table was
    released by the same masking instead, and all of its releases are attacked together. ``whole`` are all units, and
    the release.
    """
    own = run.branch(f"half-{number}", f"half-{number}")
    edits = plan.edits.edit_set()
    masked = mask_part(own, half.original, plan.steps, edits, whole.sides.original)
    judged = assess_half(own, half, masked, plan.assessment, plan.policy)
    judged = replace(judged, coarser=coarser_variables(masked, whole.masked))
    if not earlier.releases:
        return judged
    repeated = [masked]
    for time in range(1, min(earlier.masked_alike, AT_MOST) + 1):
        name = f"release-{time}"
        again = own.branch(name, name)
        repeated.append(mask_part(again, half.original, plan.steps, edits, whole.sides.original))
    return replace(judged, prior_releases=_together(own, half, repeated, plan.assessment, earlier))


def _together(
    run: Run, half: Sides, repeated: list[Masked], section: AssessmentSection, earlier: Earlier
) -> PriorReleases:
    """Attack all releases of one half together; those that were recoded differently cannot be compared."""
    tables, hidden = [masked.measured.load() for masked in repeated], repeated[0].hidden_variables
    names = [n for n in half.original.load().schema.names if n not in hidden and all(n in t.schema for t in tables)]
    attack = None
    recodings = repeated[0].recodings
    if names and len(tables) > 1 and all(masked.recodings == recodings for masked in repeated):
        people = recoded_people(half, names, recodings)
        attack = by_all_releases(run, people, tables, section, pseudonyms=earlier.pseudonyms)
    return PriorReleases(earlier.releases, len(tables) - 1 if attack else 0, attack)
