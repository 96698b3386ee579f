"""Value presence: whether single values that stand in a release tell who is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._proportions import Difference, Proportion, difference, proportion
from anoncore.risk._values import Flags, SortedValues, aligned_values, shared_variables, two_folds
from anoncore.risk.scores import ScoreAttack, score_attack

_CLASSES = 24  # powers of two of the records that share a value


@dataclass(frozen=True)
class ValuePresence:
    """What the presence of single values tells about members, beside the same of strangers.

    Parameters
    ----------
    joint : the attack with all variables together
    worst : the variable that tells most by itself
    column : the attack with that variable, at a confidence that holds for all variables together
    unique_members, unique_strangers : of the values of that variable that one record alone holds in the original
        (in the reference), the share that stand in the release
    excess : their difference; near 1 where a release hands out the values of its members
    n_variables : variables looked at
    """

    meaning: ClassVar[str] = (
        "How well members are told from strangers by which of their values stand in the release; 0.5 is guessing."
    )

    joint: ScoreAttack
    worst: str
    column: ScoreAttack
    unique_members: Proportion
    unique_strangers: Proportion
    excess: Difference
    n_variables: int


def value_presence(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    variables: Sequence[str] | None = None,
    confidence: float = 0.99,
    rng: np.random.Generator,
) -> ValuePresence | None:
    """Attack membership with nothing but the question whether a person's values occur in the release.

    For each variable, values are put into classes by how many strangers hold them. q is the share of strangers'
    values of that class which stand in the release. A person whose value is present scores −log q, else 0;
    scores are summed over the variables. Class and q come from one half of the strangers, and the people scored
    with them are the other half and half of the members, in turn, so that both sides are treated alike.

    Parameters
    ----------
    original, released, reference : Microdata; members, what is published, and strangers
    variables : names; by default those that are masked and that all three have
    confidence : 0 … 1
    rng : Generator, draws the halves

    Returns
    -------
    ValuePresence, or None where there are fewer than four people on a side or no variable in common

    Notes
    -----
    The product of marginal evidence as in Homer et al. 2008, *PLoS Genetics* 4, e1000167, with the evidence of
    a present value alone; docs/explanation/risk.md. O(N log N) per variable.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> import pandas as pd
    >>> schema = Schema([Variable("income", "continuous")])
    >>> people = np.random.default_rng(1).normal(size=(3, 400, 1))
    >>> a, b, c = (Microdata(pd.DataFrame(t, columns=["income"]), schema) for t in people)
    >>> rng = np.random.default_rng(0)
    >>> [value_presence(a, t, b, rng=rng).joint.area.auc for t in (a, c)]
    [1.0, 0.5]
    """
    tables = (original, released, reference)
    names = shared_variables(tables, variables)
    if min(len(original), len(reference)) < 4 or not names or not len(released):
        return None
    folds = two_folds(len(original), rng), two_folds(len(reference), rng)
    columns = [aligned_values(tables, name) for name in names]
    evidence = [_evidence(column, folds) for column in columns]
    single = confidence if len(names) == 1 else 1.0 - (1.0 - confidence) / len(names)
    attacks = [score_attack(*sides, confidence=single) for sides in evidence]
    worst = max(range(len(names)), key=lambda j: (attacks[j].area.lower, attacks[j].top.lower))
    unique = [_unique_present(columns[worst], side, single) for side in (0, 2)]
    return ValuePresence(
        joint=score_attack(*(sum(sides) for sides in zip(*evidence, strict=True)), confidence=confidence),
        worst=names[worst],
        column=attacks[worst],
        unique_members=unique[0],
        unique_strangers=unique[1],
        excess=difference(*unique),
        n_variables=len(names),
    )


def _evidence(column: list[Floats], folds: tuple[Flags, Flags]) -> tuple[Floats, Floats]:
    """Return the scores of members and strangers by one variable."""
    members, released, strangers = column
    published = SortedValues(released)
    scores = np.zeros(len(members)), np.zeros(len(strangers))
    for fold in (True, False):
        calibration = strangers[folds[1] == fold]
        common = SortedValues(calibration)
        informative = _information(published, common, calibration)
        # The members of one half are scored with strangers who are not scored beside them.
        for side, values, rows in ((0, members, folds[0] == fold), (1, strangers, folds[1] != fold)):
            asked = values[rows]
            present = published.counts(asked) > 0
            scores[side][rows] = np.where(present, informative[_class(common.counts(asked))], 0.0)
    return scores


def _information(published: SortedValues, common: SortedValues, calibration: Floats) -> Floats:
    """Return −log of the share of strangers' values that are present, by class; each is left out of its count."""
    own = _class(common.counts(calibration) - 1)
    present = np.bincount(own, weights=published.counts(calibration) > 0, minlength=_CLASSES)
    return np.asarray(-np.log((present + 0.5) / (np.bincount(own, minlength=_CLASSES) + 1.0)))


def _class(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return 0 for a value that no other stranger holds, else 1 + ⌊log₂ count⌋."""
    return np.minimum(np.ceil(np.log2(counts + 1.0)).astype(np.intp), _CLASSES - 1)


def _unique_present(column: list[Floats], side: int, confidence: float) -> Proportion:
    """Return how many of the values that one record alone holds stand in the release."""
    values = column[side][~np.isnan(column[side])]
    alone = values[SortedValues(values).counts(values) == 1]
    return proportion(int((SortedValues(column[1]).counts(alone) > 0).sum()), len(alone), confidence)
