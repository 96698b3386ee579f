"""MDAV on the reference files of the CASC project, for which losses have been published since 2002.

Algorithm: Domingo-Ferrer and Torra 2005, Ordinal, Continuous and Heterogeneous k-Anonymity Through
Microaggregation, Data Mining and Knowledge Discovery 11, 195-212. The losses are those that new heuristics
are compared with: Domingo-Ferrer, Martínez-Ballesté, Mateo-Sanz and Sebé 2006, Efficient Multivariate
Data-Oriented Microaggregation, VLDB Journal 15, 355-369; with these digits, Lin, Wen, Hsieh and Chang 2010,
Density-Based Microaggregation for Statistical Disclosure Control, Expert Systems with Applications 37,
3256-3263.

The papers go on with pairs while 2k records are left, and each of the last records, fewer than k, joins the
group with the nearest mean; MDAV-generic makes one group of the last k..2k-1. Where k divides the number of
records there is no difference. Elsewhere the last records, fewer than 3k, are regrouped here as papers do.

The files are not part of this repository. To run the comparison, put ``census.csv`` (1080 × 13),
``tarragona.csv`` (834 × 13) and ``eia.csv`` (4092 × 11), or some of them, into a folder and name it in the
environment variable ANONFLOW_CASC_DATA: numbers between commas, one record a line, with or without a line of
names. The CASC project and the R package sdcMicro distribute them (there as CASCrefmicrodata, Tarragona and
EIA; of EIA the 11 continuous variables are meant). Columns are standardised.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from anoncore.kernels.groups import group_means
from anoncore.kernels.mdav import information_loss, mdav

FOLDER = "ANONFLOW_CASC_DATA"
SHAPES = {"census": (1080, 13), "tarragona": (834, 13), "eia": (4092, 11)}
LOSSES = {
    ("census", 3): 5.692186279,
    ("census", 4): 7.494699833,
    ("census", 5): 9.088435498,
    ("census", 10): 14.15593043,
    ("tarragona", 3): 16.93258762,
    ("tarragona", 4): 19.54578612,
    ("tarragona", 5): 22.46128236,
    ("tarragona", 10): 33.19235838,
    ("eia", 3): 0.482938725,
    ("eia", 4): 0.671345141,
    ("eia", 5): 1.666657361,
    ("eia", 10): 3.83966422,
}


def records(name):
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(f"the CASC files are not distributed with anonflow; name their folder in {FOLDER}")
    path = Path(folder) / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"no {path.name} in the folder that {FOLDER} names")
    lines = path.read_text().split()
    named = any(character.isalpha() for character in lines[0])
    x = np.loadtxt(lines[named:], delimiter=",")
    assert x.shape == SHAPES[name]
    return (x - x.mean(axis=0)) / x.std(axis=0)


def loss(x, labels):
    return information_loss(x, group_means(x, labels)[labels])


def last_records_as_in_the_papers(x, labels, k):
    """Regroup what is left when fewer than 3k records are."""
    pairs = max(0, (len(x) - k) // (2 * k))
    labels, left = labels.copy(), np.flatnonzero(labels >= 2 * pairs)
    assert k <= len(left) < 3 * k
    label = 2 * pairs

    def distances(point):
        return ((x[left] - point) ** 2).sum(axis=1)

    # r is the farthest from the centroid, s the farthest from r.
    start = x[left].mean(axis=0)
    while len(left) >= k:
        start = x[left[distances(start).argmax()]]
        near = distances(start).argsort(kind="stable")[:k]
        labels[left[near]] = label
        left, label = np.delete(left, near), label + 1
    grouped = np.delete(np.arange(len(x)), left)
    means = group_means(x[grouped], labels[grouped])
    labels[left] = [((means - record) ** 2).sum(axis=1).argmin() for record in x[left]]
    return labels


@pytest.mark.parametrize(("name", "k"), LOSSES)
def test_published_information_losses(name, k):
    x = records(name)
    labels = mdav(x, k)
    # Ten digits were published.
    as_published = pytest.approx(LOSSES[name, k], abs=2e-8)
    assert loss(x, last_records_as_in_the_papers(x, labels, k)) == as_published
    if len(x) % k == 0:
        assert loss(x, labels) == as_published
    else:
        assert loss(x, labels) == pytest.approx(LOSSES[name, k], rel=1e-3)


@pytest.mark.parametrize(("n_records", "k"), [(60, 3), (61, 3), (62, 3), (63, 3), (20, 10), (29, 10)])
def test_last_records_differ_only_where_k_does_not_divide(n_records, k):
    x = np.random.default_rng(n_records).normal(size=(n_records, 4))
    labels = mdav(x, k)
    regrouped = last_records_as_in_the_papers(x, labels, k)
    assert np.bincount(regrouped).min() >= k
    same = labels[:, None] == labels
    assert np.array_equal(same, regrouped[:, None] == regrouped) == (n_records % k == 0)
