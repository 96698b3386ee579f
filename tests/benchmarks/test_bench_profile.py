"""Speed of drafting's searches on wide tables of mixed columns, with growth over three widths.

Processor time: other work on the machine would otherwise be counted.
"""

import os
import sys
import time

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema
from anoncore.profile import find_rules, profile

RECORDS = 2000
WIDTHS = (250, 500, 1000)


def mixed(columns):
    """Amounts, counts, codes, text and flags, a fifth with gaps; every tenth is computed from others."""
    draw = np.random.default_rng(0)
    frame = {}
    for j in range(columns):
        if j % 10 == 9:
            frame[f"x{j}"] = (frame[f"x{j - 9}"] + draw.choice([1, -1]) * frame[f"x{j - 8}"]).round(2)
        elif j % 10 == 8:
            frame[f"x{j}"] = np.where(np.isnan(frame[f"x{j - 8}"]), np.nan, frame[f"x{j - 8}"] > 150)
        elif j % 10 >= 6:
            frame[f"x{j}"] = draw.choice([f"level {q}" for q in range(draw.integers(2, 12))], RECORDS)
        else:
            kind = (
                draw.lognormal(5, 1, RECORDS).round(2),
                draw.poisson(40, RECORDS),
                draw.integers(1, 8, RECORDS),
            )
            frame[f"x{j}"] = kind[j % 3].astype(float)
            if draw.random() < 0.2:
                frame[f"x{j}"][draw.random(RECORDS) < draw.choice([0.02, 0.2, 0.5])] = np.nan
    return pd.DataFrame(frame)


def correlated(columns):
    """Answers on a scale of five that all go with one score."""
    draw = np.random.default_rng(1)
    score = draw.normal(size=(RECORDS, 1)) + 0.5 * draw.normal(size=(RECORDS, columns))
    return pd.DataFrame(np.digitize(score, [-1.5, -0.5, 0.5, 1.5]) + 1, columns=[f"q{j}" for j in range(columns)])


def module(columns):
    """One block of questions that is skipped as a whole, and the gate."""
    draw = np.random.default_rng(2)
    asked = draw.random(RECORDS) < 0.5
    answers = np.where(asked[:, None], draw.integers(0, 4, (RECORDS, columns - 1)), np.nan)
    return pd.DataFrame(answers, columns=[f"m{j}" for j in range(columns - 1)]).assign(gate=asked)


def searched(frame):
    """Processor seconds, and how many rules were found."""
    start = time.process_time()
    found = profile(frame, rng=np.random.default_rng(0))
    kept = [g.variable for g in found.guesses if g.variable.is_masked]
    rules = find_rules(Microdata(frame[[v.name for v in kept]], Schema(kept)), found.sums)
    return time.process_time() - start, len(rules)


@pytest.mark.parametrize(("table", "most"), [(mixed, 10), (correlated, 20), (module, 20)])
def test_growth_with_the_number_of_columns(table, most, capsys):
    times, found = zip(*(searched(table(width)) for width in WIDTHS), strict=True)
    slope = float(np.polyfit(np.log(WIDTHS), np.log(times), 1)[0])
    with capsys.disabled():
        figures = ", ".join(f"{w} {t:.2f} s" for w, t in zip(WIDTHS, times, strict=True))
        sys.stdout.write(f"\n{table.__name__} columns: {figures}; growth exponent {slope:.2f}; ")
        sys.stdout.write(f"{found[-1]} rules; load {os.getloadavg()[0]:.1f}")
    # Pairs against thirds are cubic, with a small constant; all else is quadratic or less.
    assert slope < 2.6
    assert times[-1] < most
    assert found[-1] > 0
