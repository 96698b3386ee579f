"""Whether shadow releases of the whole plan show whether one particular person is in the data."""

from __future__ import annotations

from typing import Literal

from anoncore.risk import Game, GroupArea
from tasks.common.formatting import count, number, percent
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, between, untested
from tasks.policy.criteria import IN_THE_DATA, Advantage
from tasks.policy.gate import BoundedFigure, Gate, GateResult, GateVerdict, Metrics, fields_of
from tasks.policy.limits import MembershipLimit
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import as_measured, interval, rounded_down

NAME = "in/out game"
MEANING = "how well releases of data with one particular person are distinguished from releases without"


class GameLimit(Section):
    """Whether the in/out game must be played.

    Parameters
    ----------
    in_out_game : ``optional``: where the plan plays no in/out game, nothing is decided by it. ``required``: a person
        is asked then.
    """

    in_out_game: Literal["optional", "required"] = "optional"


class GamePolicy(GameLimit, MembershipLimit):
    """What the gate reads."""


def evaluate(assessment: Assessment, policy: GamePolicy) -> tuple[GateResult, ...]:
    """Decide by the group of people who are recognised best, each with thresholds of their own.

    One target alone who is shown to be recognised does not fail a release, but a person decides then.
    """
    played, limit, baseline = assessment.in_out_game, policy.area_limit, "0.50, guessing"
    if played is None and policy.in_out_game == "optional":
        return ()
    game = played.game if played else None
    if game is None:
        reason = played.problem if played else "the plan does not ask for it"
        return (GateResult(NAME, "not tested", f"not played: {reason}", limit, baseline, 0, MEANING),)
    worst, upper = game.worst(), game.upper()
    assert worst is not None
    verdict: GateVerdict = policy.area_bounds(BoundedFigure("", worst.mean, worst.lower, upper, 0.0)).verdict
    if verdict == "pass" and game.largest_lower > policy.membership_auc:
        verdict = "inconclusive"
    return (
        GateResult(
            name=NAME,
            verdict=verdict,
            figure=f"AUC {worst.mean:.3f} {interval(worst.lower, upper, 3)}",
            limit=limit,
            baseline=baseline,
            records=game.n_people,
            meaning=f"{MEANING}: mean of {worst.targets} {worst.group} people by {worst.score}, {_rounds(game)}; "
            f"{_largest(game)}{_others(game, worst)}; ε is at least {game.epsilon:.2f}",
        ),
    )


def _rounds(game: Game) -> str:
    """Return how many shadow releases there are, or how many sequences of them."""
    rounds = f"{count(game.rounds)} shadow releases"
    return rounds if game.releases == 1 else f"{count(game.rounds)} sequences of {count(game.releases)} shadow releases"


def _largest(game: Game) -> str:
    """Return the figure of the person recognised best, with its lower bound over all people."""
    best = max(game.areas, key=lambda one: one.largest_lower)
    return f"{best.largest:.2f} (shown > {rounded_down(best.largest_lower, 2)}) for the person recognised best"


def _others(game: Game, worst: GroupArea) -> str:
    """Return the other groups' figures as a part of a sentence."""
    areas = ((name, game.worst(name)) for name in game.groups if name != worst.group)
    return "".join(f", {area.mean:.2f} for {name} people" for name, area in areas if area)


def metrics(assessment: Assessment) -> Metrics:
    """Return each group's worst area with its bounds, the largest area of one target, and ε."""
    game = assessment.in_out_game.game if assessment.in_out_game else None
    if game is None:
        return {}
    flat: dict[str, float | None] = {"risk/game_rounds": game.rounds, "risk/game_epsilon": game.epsilon}
    for name in game.groups:
        names = ("mean", "lower", "upper", "largest", "true_positives", "pooled")
        flat |= fields_of(game.worst(name), names, f"risk/game_{name}/")
    return flat


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the game's rows, one for each group of targets."""
    aim, played = Aim.MEMBERSHIP, assessment.in_out_game
    attacker = "An attacker who knows the plan and all of a person compares releases with and without that person."
    if played is None or played.game is None:
        reason = played.problem if played else "the plan does not ask for it (game: shadows)"
        return (untested(aim, "In/out game", attacker, f"the game was not played; {reason}", NAME, IN_THE_DATA),)
    game = played.game
    return tuple(_row(game, area, attacker) for name in game.groups if (area := game.worst(name)))


def _row(game: Game, area: GroupArea, attacker: str) -> Attack:
    return Attack(
        Aim.MEMBERSHIP,
        f"In/out game, {area.group} people",
        f"{attacker} Each person has thresholds of their own. Best of {game.n_scores} scores: {area.score}; with one "
        f"threshold for all {number(area.pooled)}; {number(area.largest)} for the person recognised best; "
        f"{percent(area.true_positives)} recognised with 1 % false positives.",
        f"AUC {number(area.mean)}",
        f"{between(area, number, 3)} at {percent(game.confidence, 0)}",
        f"{number(game.baseline)}, guessing",
        f"{count(area.targets)} of {count(game.n_people)} people, {_rounds(game)}",
        NAME,
        IN_THE_DATA,
        Advantage.of_area(area.mean, area, area.targets),
    )


GATE = Gate(
    name=NAME,
    description="The whole plan masks the data again and again (`game` of the plan), the most isolated and some random "
    "people being in or out by the toss of a coin. Releases with and without each of them are distinguished by "
    "nearness, by rare values that are released, and by the row that shares most of them, with thresholds for each "
    "person. Fail when the mean area under the ROC curve over the isolated, the random or a named group of people is "
    "shown to be above `membership_auc`; pass when all are shown to be within `membership_pass`, and no single person "
    "is shown to be above `membership_auc`. A plan that does not ask for it has no such result, unless the policy "
    "requires it.",
    evaluate=evaluate,
    limits=GameLimit,
    individual=True,
    publishes={"in_out_game": as_measured},
    metrics=metrics,
    attacks=attacks,
)
