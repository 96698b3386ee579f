"""Limits of utility for tests that are about something else: any loss is accepted, and any nonsense."""

from __future__ import annotations

ANY_LOSS: dict[str, float] = {
    "marginal": 1,
    "total": 1_000,
    "pair": 2,
    "spike": 1,
    "propensity": 1_000_000,
    "overlap": 0,
    "beyond": 1,
    "impossible": 1,
}
NO_LOSS = "utility: {pair: 0, two_samples: 0, exceeded: reject}"
UTILITY = "utility: {" + ", ".join(f"{name}: {limit}" for name, limit in ANY_LOSS.items()) + "}"


def with_any_loss(sections: str) -> str:
    """Return the last sections of a plan with a policy that accepts any loss, unless they state limits of utility."""
    if "utility:" in sections:
        return sections
    for start in ("policy: {", "policy:{"):
        if start in sections:
            return sections.replace(start, f"policy: {{{UTILITY}, ", 1).replace(", }", "}")
    return f"{sections}\npolicy: {{{UTILITY}}}"
