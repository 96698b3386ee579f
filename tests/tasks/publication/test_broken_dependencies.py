"""The custodian's page that names the dependencies which a release breaks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility.structure import structure
from tasks.decision.assessment_integrity import CUSTODIAN
from tasks.publication.documents import broken_dependencies
from tasks.reporting.custodian import custodian_page


def test_the_page_names_both_variables_and_the_records() -> None:
    schema = Schema([Variable(name, "nominal") for name in ("state", "division")])
    state = np.repeat(["ak", "ca", "ny", "me"], 50)
    frame = pd.DataFrame({"state": state, "division": np.where(np.isin(state, ["ak", "ca"]), "west", "east")})
    other = frame.assign(division=frame["division"].where(np.arange(200) > 20, "east"))
    original = Microdata(frame, schema)
    assert broken_dependencies(structure(original, original)) is None
    report = broken_dependencies(structure(original, Microdata(other, schema)))
    assert report is not None
    assert report.sections[0].tables[0].rows == (("state", "division", 21),)
    page = custodian_page(report)
    assert "division" in page
    assert "of: [FIRST]" in page
    assert CUSTODIAN.fullmatch("custodian-structure.html")
