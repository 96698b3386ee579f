"""A figure stands inside its interval, or the report says that the upper bound is of something else."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk._residual import ResidualRisk
from tasks.policy.gates.singling_out import GATE
from tests.tasks.policy.sample import assessment, changed, results


def test_an_upper_bound_of_several_numbers_of_conditions_is_called_one() -> None:
    given = assessment()
    attack = given.risk.singling_out
    assert attack is not None
    few, *rest = attack.sizes
    risk = ResidualRisk(0.08, 0.02, 0.2, few.residual.attack, few.residual.control)
    pooled = replace(risk, value=0.03, lower=0.01, upper=0.06)
    sizes = (replace(few, residual=risk, pooled=pooled), *(replace(one, pooled=pooled) for one in rest))
    given = changed(given, risk__singling_out__sizes=sizes)
    figure = results(GATE, given)["singling out"].figure
    assert figure == f"{few.n_conditions} condition{'s'[: few.n_conditions > 1]}: +0.08, shown > +0.02; of all ≤ +0.06"
