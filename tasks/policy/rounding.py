"""Rounding of published figures.

An attacker who knows all records but one could compute that one from an exact statistic of the source. In steps of d
standard deviations, or of a share, the mean of N records leaves N·d/2 standard deviations on either side of it. So d
is at least 10/N, and a hundredth at the finest; several figures together leave less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from tasks.common.formatting import count as written

T = TypeVar("T")

# How a figure is published: the published value of a figure and a step.
Rounding = Callable[[Any, float], Any]

STEPS = (0.01, 0.02, 0.05, 0.1)
RECORDS_PER_STEP = 10
# Steps between two powers of ten.
DECADE = (1.0, 2.0, 5.0, 10.0)
DIGITS = 3
# Numbers that a count of units may have, at least, where it is published as a ten.
FEWEST_OF_TEN = 5
# Stands for all p-values above it.
HALF = 0.5
# Parts of a step by which a whole number of steps may miss it as a binary fraction.
TINY = 1e-9
# Decimals of a whole number of steps, which a product of binary fractions misses: 0.6, not 0.6000000000000001.
LAST = 10
# Fields that hold settings of a measure, or what follows from numbers of records alone; they are no figures.
SETTINGS = ("guess", "margin", "confidence", "tolerance", "sampling_error", "baseline")


def step_of(records: int) -> float:
    """Return the step for figures of so many records."""
    return next((step for step in STEPS if step * records >= RECORDS_PER_STEP), STEPS[-1])


def as_measured(value: T, step: float) -> T:
    """Publish a figure that describes the release, or the sum over many records, as it was measured."""
    return value


def coarse(value: T, step: float) -> T:
    """Round what is a share or in standard deviations to whole steps; counts and settings stay."""
    return in_steps(value, step, SETTINGS)


def in_steps(value: T, step: float, without: tuple[str, ...]) -> T:
    """Round every figure in a value to whole steps; ends of intervals outwards, so that they hold as published."""
    ends = {"lower": lambda one: floor_to(one, step), "upper": lambda one: ceil_to(one, step)}
    return each_float(value, lambda one: round(one / step) * step, without, ends)


def floor_to(value: float, step: float) -> float:
    """Return the largest whole number of steps that is not above a value."""
    return round(math.floor(value / step + TINY) * step, LAST) if math.isfinite(value) else value


def ceil_to(value: float, step: float) -> float:
    """Return the smallest whole number of steps that is not below a value."""
    # No negative zero, which would be written with its sign.
    return round(math.ceil(value / step - TINY) * step, LAST) + 0.0 if math.isfinite(value) else value


def rounded_down(value: float, decimals: int, sign: str = "") -> str:
    """Write a lower bound with so many decimals, so that it holds as written."""
    return f"{floor_to(value, 10.0**-decimals):{sign}.{decimals}f}"


def rounded_up(value: float, decimals: int, sign: str = "") -> str:
    """Write an upper bound with so many decimals, so that it holds as written."""
    return f"{ceil_to(value, 10.0**-decimals):{sign}.{decimals}f}"


def interval(lower: float, upper: float, decimals: int, sign: str = "") -> str:
    """Write both bounds of a figure."""
    return f"[{rounded_down(lower, decimals, sign)}, {rounded_up(upper, decimals, sign)}]"


def bounds_of_several(lower: float, upper: float, decimals: int, sign: str = "") -> str:
    """Write what the worst of several figures is shown to exceed, and what none of them is."""
    return f"shown > {rounded_down(lower, decimals, sign)}; of all ≤ {rounded_up(upper, decimals, sign)}"


def next_ten(count: float, step: float = 0.0) -> float:
    """Publish a count as the next ten, whatever the step."""
    return 10.0 * math.ceil(count / 10.0)


def its_ten(number: int, least: int) -> tuple[int, int]:
    """Return the first and the last number of the ten in which a number of units is, at least ``least``.

    The ten of ``least`` begins with it, and takes in the next where fewer than five numbers would be left: an exact
    number of units depends on each one.
    """
    last = least // 10 * 10 + 9
    last += 10 * (last - least < FEWEST_OF_TEN - 1)
    return (least, last) if number <= last else (number // 10 * 10, number // 10 * 10 + 9)


def start_of_ten(number: int, least: int) -> int:
    """Publish a number of units, 0 or at least ``least``, as the first number of its ten."""
    return number and its_ten(number, least)[0]


def in_its_ten(number: int, least: int) -> str:
    """Write a number of units, 0 or at least ``least``, as the ten in which it is."""
    first, last = its_ten(number, least)
    return f"{written(first)} to {written(last)}" if number else "0"


def at_least_ten(count: int) -> int:
    """Publish a count of people as the next ten; none as ten, too, as none and one differ by one person."""
    return max(10, round(next_ten(count))) if math.isfinite(count) else count


def step_above(size: float, least: float) -> float:
    """Return the smallest step of 1, 2 or 5 × 10ᵉ that is at least ``size``, and at least ``least``."""
    size = max(size, least)
    tens = 10.0 ** math.floor(math.log10(size))
    return next(tens * part for part in DECADE if tens * part >= size * (1 - 1e-9))


def p_value(p: float) -> float:
    """Publish a p-value with one digit, not rounded up, and at most one half: with more the counts follow from it."""
    if not p > 0.0:
        return p
    digit = 10.0 ** math.floor(math.log10(p))
    return min(HALF, math.floor(p / digit + TINY) * digit)


def people_counted(value: T, step: float) -> T:
    """Publish a rule that counts people of the source: its counts as the next ten, at most all that it looked at."""
    parts = {f.name: getattr(value, f.name) for f in fields(value)}  # type: ignore[arg-type]
    all_, p = parts.pop("n"), parts.pop("p", None)
    shown = {name: min(at_least_ten(one), all_) for name, one in parts.items() if type(one) is int}
    if "forms" in parts:
        shown["forms"] = _worst_form(parts["forms"])
    return replace(value, **shown, **({} if p is None else {"p": p_value(p)}))  # type: ignore[type-var]


def _worst_form(forms: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    """Publish the least p-value of several forms alone, so that the number of forms times it is that of all together.

    Small p-values of several forms would tell how many of a few people each form meets.
    """
    least, n = min((p for _, p in forms), default=1.0), len(forms)
    return tuple((name, p_value(min(1.0, n * p)) / n if p == least else HALF) for name, p in forms)


def significant_digits(value: T) -> T:
    """Round every figure to three digits: exact differences would give exact sums of the source."""
    return each_float(value, lambda one: float(f"{one:.{DIGITS}g}"))


def each_float(
    value: T,
    rounded: Callable[[float], float],
    without: tuple[str, ...] = (),
    fields_by_name: Mapping[str, Callable[[float], float]] = MappingProxyType({}),
) -> T:
    """Return a value with every finite float in it rounded, some fields in their own way, those ``without`` not."""
    if isinstance(value, float):
        return rounded(value) if math.isfinite(value) else value  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(each_float(one, rounded, without, fields_by_name) for one in value)  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {key: each_float(one, rounded, without, fields_by_name) for key, one in value.items()}  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        shown = {
            f.name: each_float(getattr(value, f.name), fields_by_name.get(f.name, rounded), without, fields_by_name)
            for f in fields(value)
            if f.name not in without
        }
        return replace(value, **shown)
    return value
