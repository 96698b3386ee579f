"""The command ``anonflow deliver``: hand a published release over again, or take a withdrawn one back."""

from __future__ import annotations

from typing import Any

from flows.commands.options import Json, Release, Where, err
from flows.commands.shown import print_json, safe
from tasks.common.errors import Fault, Refused, sanitise_errors
from tasks.common.home import Home


def deliver(release: Release, home: Where = None, json_: Json = False) -> None:
    """Deliver a published release to its targets again, or take a withdrawn one back from them."""
    where = Home.locate(home)
    done = sanitise_errors(settle)(where, release)
    if json_:
        print_json(done)
        return
    what = "Taken back from" if done["withdrawn"] else "Delivered to"
    for place in done["places"]:
        err.print(f"{what} {safe(place)}", soft_wrap=True)


def settle(home: Home, release: str) -> dict[str, Any]:
    """Bring every target of a release to what the ledger says of it; return the places."""
    from flows.release import Direct, hand_over
    from tasks.publication import deliver as delivery

    targets = delivery.targets_of(home, release)
    if not targets:
        raise Refused(f"{release!r} has no targets, or is no release; its plan would list them: publication.to")
    gone = release in delivery.withdrawn(home)
    if gone:
        if problems := delivery.recall(home, release):
            told = f"{release} is withdrawn here, and not yet where it was delivered to; do it again"
            raise Fault("\n".join([told, *problems]))
    else:
        hand_over(home, release, targets, Direct().step)
    return {"release": release, "withdrawn": gone, "places": [t.shown for t in targets]}


def after_approval(home: Home, outcome: Any) -> None:
    """Deliver what people's approval has published.

    Raises `Fault` when a target did not take it; ``anonflow deliver`` does the rest.
    """
    from tasks.publication import deliver as delivery

    if outcome.status == "published" and delivery.targets_of(home, outcome.release):
        settle(home, outcome.release)
