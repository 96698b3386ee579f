"""The custodian's page: complete, self-contained, marked as confidential, and never a carrier of markup."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from anoncore.kernels.wavelet.redistribution import redistribute
from anoncore.kernels.wavelet.relocation import net_flows
from anoncore.methods import GroupAnonymity
from tasks.reporting.custodian import custodian_page

BEFORE = np.array([30, 5, 80, 12, 9, 41, 6, 217])
HOSTILE = "<script>alert(1)</script>&\"'\x00\x0b$\\frac{"


def step(areas=tuple("abcdefgh"), **more):
    given = {"vital": ({"service": (1,)},), "parameter": "place", "order": areas, "caps": {areas[-1]: 60}}
    return GroupAnonymity(**(given | more))


def confidential(params, before=BEFORE, population=None, **more):
    heads = np.full(len(before), 3000) if population is None else population
    found = redistribute(before, params.goals(), params.model(heads), details=params.details)
    return {
        "before": before,
        "after": found.target,
        "population": heads,
        "flows": net_flows(before, found.target),
        "exact_share": np.array(found.beta),
        "group_moved": np.array(found.moved),
    } | more


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "action", "srcset", "data") and v]


def read(page):
    reader = Reader()
    reader.feed(page)
    return reader


def drawn(page):
    return [b64decode(uri) for uri in re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page)]


@pytest.fixture(scope="module")
def page():
    params = step()
    return custodian_page(params.custodian_report(confidential(params)))


def test_it_says_first_that_it_is_confidential(page):
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert text.split("Where a group was")[1].strip()
    body = re.sub(r"<[^>]+>", " ", page.split("<body>")[1]).split()
    assert body[0] == "Confidential."
    assert "Do not publish" in page


def test_nothing_is_loaded_and_nothing_runs(page):
    found = read(page)
    assert "script" not in found.tags
    assert "link" not in found.tags
    assert all(a.startswith("data:image/svg+xml;base64,") for a in found.addresses)
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?://", page)


def test_counts_goals_and_flows_stand_in_it(page):
    told = re.sub(r"<[^>]+>", " ", page)
    assert all(f" {n} " in told for n in BEFORE)
    assert "at most 60" in told
    assert "given away" in told
    assert "3,000" in told


def test_four_pictures_that_are_well_formed(page):
    found = drawn(page)
    assert len(found) == 4
    for svg in found:
        root = ElementTree.fromstring(svg)
        assert next(e for e in root.iter() if e.tag.endswith("desc")).text
        assert b"prefers-color-scheme:dark" in svg


def test_the_sweep_has_both_kinds_of_details_and_both_outcomes(page):
    table = page[page.index("What else could be done") :]
    assert table.count("finds nothing") > 2
    assert table.count("gives away</span>") > 2
    for name in ("haar", "db4", "coif1", "winsorised", "plain"):
        assert name in table


def test_trials_that_cannot_be_done_say_why():
    params = step(tuple("abcdef"), level=1)
    told = confidential(params, before=BEFORE[:6], population=np.full(6, 300))
    page = custodian_page(params.custodian_report(told))
    assert "6 positions cannot be decomposed to level 2" in page


def test_hostile_names_stay_text():
    areas = (HOSTILE, *"bcdefgh")
    params = step(areas, parameter=HOSTILE.replace("\x00", ""))
    page = custodian_page(params.custodian_report(confidential(params)))
    assert "<script" not in page
    assert "script" not in read(page).tags
    assert all(ElementTree.fromstring(svg) is not None for svg in drawn(page))


@pytest.mark.parametrize(("signal", "areas"), [("quantity", 20), ("ratio", 8)])
def test_few_and_many_areas(signal, areas):
    names = tuple(f"area {i}" for i in range(areas))
    before = np.random.default_rng(0).integers(0, 60, areas)
    before[-1] = 300
    params = step(names, signal=signal, details="winsorised", raises={names[0]: 9}, level=1)
    page = custodian_page(params.custodian_report(confidential(params, before, np.full(areas, 5000))))
    assert ("share of the population" in page) == (signal == "ratio")
    assert len(drawn(page)) == 4


def test_nothing_moved_and_no_further_figures():
    params = step(caps={"h": 500})
    told = {k: v for k, v in confidential(params).items() if k in ("before", "after", "population", "flows")}
    page = custodian_page(params.custodian_report(told))
    assert "Exact figures" not in page
    assert "pairs of areas" not in page


def test_with_very_many_areas_only_the_own_wavelet_is_tried():
    areas = tuple(f"a{i}" for i in range(200))
    before = np.random.default_rng(1).integers(0, 60, 200)
    before[7] = 400
    params = step(areas, caps={"a7": 100}, details="winsorised")
    page = custodian_page(params.custodian_report(confidential(params, before, np.full(200, 900))))
    assert "With so many areas" in page
    assert "coif1" not in page


def test_matplotlib_is_imported_late():
    code = "import sys, tasks.reporting.custodian; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
