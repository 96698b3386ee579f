"""The gates of the policy: one module each, and their registry in the order in which they are reported."""

from importlib import import_module

from tasks.policy.gate import Gate

GATES: tuple[Gate, ...] = tuple(
    import_module(f"{__name__}.{module}").GATE
    for module in (
        "prediction",
        "identical",
        "full_release",
        "close_records",
        "extreme",
        "dominance",
        "dominated_averages",
        "group_figures",
        "value_pairs",
        "singling_out",
        "membership",
        "presence",
        "agreement",
        "density",
        "partial_copies",
        "copied_parts",
        "in_out_game",
        "linkage",
        "linkability",
        "quasi_identifiers",
        "population",
        "inference",
        "intervals",
        "prior_releases",
        "unit_changes",
        "differencing",
        "attempts",
        "source_values",
        "claims",
        "value_limits",
        "structure",
        "utility",
        "files",
        "reference_sample",
        "sampling_units",
        "coarser_parts",
        "hidden_units",
    )
)
