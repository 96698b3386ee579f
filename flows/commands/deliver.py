"""``anonflow deliver``: deliver a published release again, or remove a withdrawn one from its targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.commands.options import Json, Release, Where, err
from flows.commands.shown import print_json, safe
from tasks.common.errors import Fault, Refused, sanitise_errors
from tasks.common.home import Home

if TYPE_CHECKING:
    from tasks.decision.outcomes import Outcome


def deliver(release: Release, home: Where = None, json_: Json = False) -> None:
    """Deliver a published release to its targets again, or remove a withdrawn one from them."""
    where = Home.existing(home)
    from tasks.publication import deliver as delivery

    targets = delivery.targets_of(where, release)
    if not targets:
        raise Refused(f"{release!r} has no targets, or is no release; a plan names them in publication.to")
    withdrawn = release in delivery.withdrawn(where)
    sanitise_errors(_settle)(where, release, withdrawn=withdrawn)
    if json_:
        print_json({"release": release, "withdrawn": withdrawn, "places": [target.shown for target in targets]})
        return
    for target in targets:
        err.print(f"{'Removed from' if withdrawn else 'Delivered to'} {safe(target.shown)}", soft_wrap=True)


def after_decision(home: Home, outcome: Outcome) -> None:
    """Deliver what an approval has published, or remove what was withdrawn from its targets."""
    from tasks.publication import deliver as delivery

    withdrawn = outcome.status == "withdrawn"
    if withdrawn or (outcome.status == "published" and delivery.targets_of(home, outcome.release)):
        _settle(home, outcome.release, withdrawn=withdrawn)


def _settle(home: Home, release: str, *, withdrawn: bool) -> None:
    """Bring every target of a release to what the ledger says of it; raises `Fault` when one cannot be."""
    from flows.release import Direct, hand_over
    from tasks.publication import deliver as delivery

    if not withdrawn:
        hand_over(home, release, delivery.targets_of(home, release), Direct().step)
    elif problems := delivery.recall(home, release):
        todo = f"{release} is withdrawn here, but not yet removed from every target; run: anonflow deliver {release}"
        raise Fault("\n".join([todo, *problems]))
