"""Certified ranges of covariance and correlation over boxes, relaxed as in `_interval_ranges`.

Both are games of two scalars: the greatest over one, which has to be covered completely, of the least over
the other, for which any choice will do, of a sum over boxes of maxima that are known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anoncore.kernels.boxes.interval_ranges import (
    EPS,
    Floats,
    Interval,
    mean_range,
    rounding,
    total,
    variance_range,
)

Faces = tuple[Floats, Floats]

_BLOCK = 1 << 13  # boxes at a time: what is computed from them stays in the cache
_CLOSE = 2e-3  # share of the half-width that the range of a covariance may exceed the relaxed one by
_NODES = 48  # cuts of the range of one mean
_PIECES = 40  # cuts of the range of the ratio of two standard deviations


# -- the search that both statistics of pairs use


@dataclass(frozen=True)
class _Node:
    outer: float
    inner: float
    value: float
    least: float


@dataclass(frozen=True, eq=False, repr=False)
class _Game:
    """A function of two scalars, to be minimised over the inner one and then maximised over the outer one.

    Parameters
    ----------
    value : at (outer, inner) the function, convex in the inner variable, and its slope there
    bend : the leading coefficient, in the outer variable, of every term of the function along a line, by the line's
        slope
    outer, inner : the ranges of both variables
    """

    value: Callable[[float, float], tuple[float, float]]
    bend: Callable[[float], float]
    outer: Interval
    inner: Interval

    def minimise(self, outer: float, start: float, tolerance: float) -> _Node:
        """Minimise over the inner variable; the value is that of an actual point."""
        low, high = self.inner
        ends: dict[bool, tuple[float, float, float]] = {}
        best, at, least = math.inf, start, -math.inf
        point = min(max(start, low), high)
        for step in range(24):
            value, slope = self.value(outer, point)
            if value < best:
                best, at = value, point
            if slope == 0 or (slope > 0 and point <= low) or (slope < 0 and point >= high):
                return _Node(outer, at, best, value)
            ends[slope > 0] = point, value, slope
            if len(ends) < 2:
                # The first step crosses the minimum if the function is about as curved as its range is wide.
                reach = (high - low) / 8 * 4**step
                point = max(low, point - reach) if slope > 0 else min(high, point + reach)
                continue
            (a, fa, da), (b, fb, db) = ends[False], ends[True]
            kink = (fb - fa + da * a - db * b) / (da - db)
            least = max(least, fa + da * (kink - a))
            if best - least <= tolerance or not a < kink < b:
                break
            smooth = a - da * (b - a) / (db - da)
            point = (kink, smooth, (a + b) / 2)[step % 3]
            if not a < point < b:
                break
        return _Node(outer, at, best, least)

    def highest(self, start: Interval, tolerance: float, enough: float = -math.inf) -> tuple[float, _Node]:
        """Bound max over the outer variable of min over the inner one, from above.

        Between two nodes (o₁, i₁), (o₂, i₂) let the inner variable run along the line between them. Every term
        of the game is then quadratic in o with the same leading coefficient c = bend(slope of the line), so
        the game is a convex function plus c·(o−o₁)(o−o₂), hence at most the chord plus −c·(o−o₁)(o₂−o). No
        inner value needs to be optimal for this. Pieces are halved until the bound is within ``tolerance`` of
        the best node or below ``enough``.
        """
        first, last = self.outer
        nodes, guess = [], start[1]
        for point in sorted({first, min(max(start[0], first), last), last}):
            nodes.append(self.minimise(point, guess, tolerance / 4))
            guess = nodes[-1].inner
        tops = [self.top(a, b) for a, b in pairwise(nodes)]
        while tops and len(nodes) < _NODES:
            worst = int(np.argmax(tops))
            best = max(nodes, key=lambda node: node.least)
            if tops[worst] <= max(enough, best.least + tolerance) or best.least > enough > -math.inf:
                break
            a, b = nodes[worst : worst + 2]
            middle = (a.outer + b.outer) / 2
            if not a.outer < middle < b.outer:
                break
            new = self.minimise(middle, (a.inner + b.inner) / 2, tolerance / 4)
            nodes.insert(worst + 1, new)
            tops[worst : worst + 1] = [self.top(a, new), self.top(new, b)]
        best = max(nodes, key=lambda node: node.value)
        return max([*tops, best.value]), best

    def top(self, a: _Node, b: _Node) -> float:
        """Return the highest value of the chord plus parabola over one piece."""
        width = b.outer - a.outer
        if width <= 0:
            return max(a.value, b.value)
        arch = max(0.0, -self.bend((b.inner - a.inner) / width)) * width**2
        rise = b.value - a.value
        if arch <= abs(rise):
            return max(a.value, b.value)
        share = 0.5 + rise / (2 * arch)
        return a.value + rise * share + arch * share * (1 - share)


# -- covariance


def covariance_range(lower: Floats, upper: Floats, mass: Floats) -> Interval:
    """Return bounds (B, 2) → the range of Σ W (x−m_x)(y−m_y), within 0.2 % of the relaxed one.

    With m the mean of x, C = Σ W (x−m)(y−ν) whatever ν is. Hence C_max = max over m of min over ν of
    Σ W max over corners of (x−m)(y−ν); m runs over the range of the mean, and at the extreme ν is the mean
    of y, so no ν outside that range is needed. The minimum is that of (x, −y), negated.
    """
    x, y = (lower[:, 0], upper[:, 0]), (lower[:, 1], upper[:, 1])
    return -_largest_covariance(x, (-y[1], -y[0]), mass), _largest_covariance(x, y, mass)


def _largest_covariance(x: Faces, y: Faces, mass: Floats) -> float:
    (a, r), (b, q) = _middle(*x), _middle(*y)
    mean_x, mean_y = mean_range(*x, mass), mean_range(*y, mass)
    m, n = total(mass, a), total(mass, b)
    first_order = total(mass, np.abs(a - m) * q + np.abs(b - n) * r)
    terms = (np.abs(a) + r + max(map(abs, mean_x))) * (np.abs(b) + q + max(map(abs, mean_y)))
    noise = rounding(4.0 * total(mass, terms), len(mass))
    blocks = [
        (mass[i : i + _BLOCK], a[i : i + _BLOCK], r[i : i + _BLOCK], b[i : i + _BLOCK], q[i : i + _BLOCK])
        for i in range(0, len(mass), _BLOCK)
    ]

    def value(m: float, n: float) -> tuple[float, float]:
        largest = slope = 0.0
        for w, a, r, b, q in blocks:
            u, v = a - m, b - n
            rv, qu, rq = r * v, q * u, r * q
            same, other = rv + qu, rv - qu
            alike = np.abs(same) + rq
            unlike = np.abs(other) - rq
            largest += total(w, u * v + np.maximum(alike, unlike))
            side = np.copysign(r, np.where(alike >= unlike, same, other))
            slope -= total(w, u + side)
        return largest, slope

    game = _Game(value, lambda slope: slope, mean_x, mean_y)
    return game.highest((m, n), max(_CLOSE * first_order, 4.0 * noise))[0] + noise


def _middle(lower: Floats, upper: Floats) -> Faces:
    """Return mid-points and half-widths such that the interval of both contains the original one."""
    middle = (lower + upper) / 2
    return middle, np.nextafter(np.maximum(upper - middle, middle - lower), np.inf)


# -- correlation


def correlation_range(lower: Floats, upper: Floats, mass: Floats) -> Interval:
    """Return bounds (B, 2) → the range of C / (s_x s_y), where both variances are positive.

    Scale x and y so that s_x and s_y are about equal, and let p = x + y, q = x − y. Then
    2C/(V_x + V_y) = (V_p − V_q)/(V_p + V_q) is the correlation divided by cosh ln(s_y/s_x), never more than
    it if positive. For a given scale the largest R = V_p/V_q is the root of
    max over ν of min over μ of Σ W max over the box of (p−μ)² − R (q−ν)²; the form is indefinite, so its
    maximum is on an edge, where it is a parabola. The range of s_y/s_x is cut into pieces e^±δ around a
    scale, and ρ ≤ cosh(δ)·(R−1)/(R+1) on each; if R ≤ 1, then ρ ≤ (R−1)/(R+1) at any scale whatever.
    """
    spans = [variance_range(lower[:, j], upper[:, j], mass) for j in range(2)]
    if min(span[0] for span in spans) <= 0:
        return _quotient(covariance_range(lower, upper, mass), spans)
    scales = [math.sqrt(math.sqrt(low * high)) for low, high in spans]
    x, y = (_outward(lower[:, j] / scales[j], upper[:, j] / scales[j]) for j in range(2))
    ratio = (
        0.5 * math.log(spans[1][0] / spans[0][1]) - math.log(scales[1] / scales[0]),
        0.5 * math.log(spans[1][1] / spans[0][0]) - math.log(scales[1] / scales[0]),
    )
    ratio = ratio[0] - 1e-12, ratio[1] + 1e-12
    highest = _largest_correlation(x, y, mass, ratio)
    lowest = -_largest_correlation(x, (-y[1], -y[0]), mass, ratio)
    return max(lowest, -1.0), min(highest, 1.0)


def _quotient(covariance: Interval, spans: list[Interval]) -> Interval:
    """Return what covariance and variances say on their own when a variance may be 0."""
    low, high = (math.sqrt(spans[0][i] * spans[1][i]) for i in range(2))
    if high <= 0 or not math.isfinite(high):
        return -1.0, 1.0
    ends = [
        c / (high if inward else low) if (high if inward else low) > 0 else math.copysign(math.inf, c)
        for c, inward in ((covariance[0], covariance[0] > 0), (covariance[1], covariance[1] < 0))
    ]
    return max(-1.0, ends[0] - 8 * EPS), min(1.0, ends[1] + 8 * EPS)


def _outward(lower: Floats, upper: Floats) -> Faces:
    return np.nextafter(lower, -np.inf), np.nextafter(upper, np.inf)


def _largest_correlation(x: Faces, y: Faces, mass: Floats, ratio: Interval) -> float:
    centre = [(face[0] + face[1]) / 2 for face in (x, y)]
    base = _moments(centre[0], centre[1], mass)[0]
    reached, best_scale = _climb(x, y, mass, ratio, centre)
    close = max(2.5 * _CLOSE * (reached - base), 1e-9)
    target = min(reached + close, 1.0)
    # No piece can do better than the scale at which the greatest known correlation is.
    bound = _Scaled(x, y, mass, best_scale).bound(target, close)
    if bound <= 0 or bound >= 1:
        return bound
    target = max(target, min(bound + close / 4, 1.0))
    pieces, cuts = [ratio], 0
    while pieces and target < 1:
        low, high = pieces.pop()
        spread = math.cosh((high - low) / 2) * (1 + 8 * EPS)
        divisible = cuts < _PIECES and (spread - 1) * target > close / 4
        bound = _Scaled(x, y, mass, (low + high) / 2).bound(target / spread, close, once=divisible)
        if bound * spread <= target:
            continue
        if divisible:
            cuts += 1
            pieces += [(low, (low + high) / 2), ((low + high) / 2, high)]
        else:
            target = bound * spread
    return min(target, 1.0)


def _moments(x: Floats, y: Floats, mass: Floats) -> tuple[float, float, float, float]:
    """Return the correlation, ln(s_y/s_x) and the two means of single points."""
    mx, my = total(mass, x), total(mass, y)
    u, v = x - mx, y - my
    vx, vy = total(mass, u**2), total(mass, v**2)
    if vx <= 0 or vy <= 0:
        return 0.0, 0.0, mx, my
    r = total(mass, u * v) / math.sqrt(vx * vy)
    return min(max(r, -1.0), 1.0), 0.5 * math.log(vy / vx), mx, my


def _climb(x: Faces, y: Faces, mass: Floats, ratio: Interval, start: list[Floats]) -> tuple[float, float]:
    """Return a correlation that single points in the boxes reach, and ln(s_y/s_x) there.

    Every step moves all points to where the correlation, linearised in the moments, is greatest.
    """
    best, scale = -1.0, 0.0
    points = start[0], start[1]
    for _ in range(12):
        r, log_scale, mx, my = _moments(points[0], points[1], mass)
        if r <= best + 1e-3 * max(1e-9, abs(best - _moments(start[0], start[1], mass)[0])) and best > -1:
            best, scale = (r, log_scale) if r > best else (best, scale)
            break
        best, scale = (r, log_scale) if r > best else (best, scale)
        if r >= 1 - 1e-12:
            break
        log_scale = min(max(log_scale, ratio[0]), ratio[1])
        scaled = _Scaled(x, y, mass, log_scale)
        e = math.exp(log_scale / 2)
        p, q = scaled.extremes((1 + r) / (1 - r), mx * e + my / e, mx * e - my / e)
        points = (p + q) / 2 / e, (p - q) / 2 * e
    return best, scale


class _Scaled:
    """The boxes with x·e^(s/2) and y·e^(−s/2), so that s_x = s_y where ln(s_y/s_x) = s."""

    def __init__(self, x: Faces, y: Faces, mass: Floats, log_scale: float) -> None:
        e = math.exp(log_scale / 2)
        self.mass = mass
        self.x, self.y = _outward(x[0] * e, x[1] * e), _outward(y[0] / e, y[1] / e)
        self.p = self.x[0] + self.y[0], self.x[1] + self.y[1]
        self.q = self.x[0] - self.y[1], self.x[1] - self.y[0]

    def part(self, part: slice) -> tuple[Floats, Floats, Floats, Floats]:
        return self.x[0][part], self.x[1][part], self.y[0][part], self.y[1][part]

    def extremes(self, R: float, mu: float, nu: float) -> Faces:
        """Return (B,) p and q of the points of the boxes where (p−μ)² − R (q−ν)² is greatest."""
        p, q = np.empty(len(self.mass)), np.empty(len(self.mass))
        for i in range(0, len(p), _BLOCK):
            part = slice(i, i + _BLOCK)
            p[part], q[part] = _extremes(self.part(part), R, mu, nu)
        return p, q

    def bound(self, aim: float, close: float, once: bool = False) -> float:
        """Return an upper bound of (V_p − V_q)/(V_p + V_q): ``aim`` if it is one, else close to the least.

        With ``once`` it gives up after the first trial, for a caller that will cut further.
        """
        mean_p, mean_q = mean_range(*self.p, self.mass), mean_range(*self.q, self.mass)
        least, most = variance_range(*self.q, self.mass)
        size = [total(self.mass, np.maximum(f[0] ** 2, f[1] ** 2)) for f in (self.p, self.q)]
        bound, trial = 1.0, aim
        start = sum(mean_q) / 2, sum(mean_p) / 2
        for _ in range(1 if once else 8):
            if trial >= 1:
                break
            R = (1 + trial) / (1 - trial)
            R = 1.0 if abs(R - 1) < 1e-9 else R
            noise = rounding(16.0 * (size[0] + R * size[1]), len(self.mass))
            worth = (1 + R) ** 2 / 2  # of a step in r, in R
            slack = max(0.1 * close * worth * (least + most) / 2, 2 * noise)
            top, node = self._game(R, mean_q, mean_p).highest(start, slack, enough=-noise)
            top += noise
            # V_p − R·V_q ≤ top for all spreads, and V_q is between least and most.
            found = R + (top / most if top <= 0 else top / least if least > 0 else math.inf)
            bound = min(bound, _share(found))
            if top <= 0 or bound - trial <= 0.1 * close:
                break
            start = node.outer, node.inner
            _, q = self.extremes(R, node.inner, node.outer)
            around = total(self.mass, (q - node.outer) ** 2)
            step = top / around if around > 0 else math.inf
            trial = min(_share(R + step) + 0.3 * close, 1.0)
        return bound

    def _game(self, R: float, outer: Interval, inner: Interval) -> _Game:
        def value(nu: float, mu: float) -> tuple[float, float]:
            largest = slope = 0.0
            for i in range(0, len(self.mass), _BLOCK):
                part = slice(i, i + _BLOCK)
                p, q = _extremes(self.part(part), R, mu, nu)
                p -= mu
                q -= nu
                slope -= 2.0 * total(self.mass[part], p)
                largest += total(self.mass[part], p * p - R * (q * q))
            return largest, slope

        return _Game(value, lambda slope: slope**2 - R, outer, inner)


def _share(R: float) -> float:
    """Return (R − 1)/(R + 1), rounded up."""
    return 1.0 if math.isinf(R) else min(1.0, (R - 1.0) / (R + 1.0) + 4 * EPS)


def _extremes(faces: tuple[Floats, Floats, Floats, Floats], R: float, mu: float, nu: float) -> Faces:
    """Return p = x + y and q = x − y where (p−μ)² − R (q−ν)² is greatest over each rectangle."""
    x0, x1, y0, y1 = faces
    if R > 1:
        slope = (R + 1) / (R - 1)
        shift_x, shift_y = (R * nu - mu) / (R - 1), -(R * nu + mu) / (R - 1)
        points = [(np.clip(slope * y + shift_x, x0, x1), y) for y in (y0, y1)]
        points += [(x, np.clip(slope * x + shift_y, y0, y1)) for x in (x0, x1)]
    else:
        points = [(x, y) for x in (x0, x1) for y in (y0, y1)]
    best: Floats | None = None
    for x, y in points:
        p, q = x + y, x - y
        value = (p - mu) ** 2 - R * (q - nu) ** 2
        if best is None:
            best, found_p, found_q = value, p, q
        else:
            better = value > best
            np.copyto(best, value, where=better)
            np.copyto(found_p, p, where=better)
            np.copyto(found_q, q, where=better)
    return found_p, found_q
