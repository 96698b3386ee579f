"""The figures of several soaks, joined on the page."""

from __future__ import annotations

from pathlib import Path

from tests.served.soak.figures import Figures, read

FIRST = Figures(12, 90.0, {"Published": 3}, {"outage": 1}, {"approve": 2}, {"a": 5.0}, [1.0, 9.0, 2.0], [{}], 4,
                {"mail": 1}, 3, 9)  # fmt: skip
LAST = Figures(12, 30.0, {"Published": 1, "Failed": 1}, {"step": 1}, {}, {"a": 2.0, "b": 7.0}, [50.0], [], 2, {}, 1, 5)


def test_the_worst_of_any_soak_remains_and_counts_are_added() -> None:
    both = Figures.joined([FIRST, LAST])
    assert both.blocked == {"a": 5.0, "b": 7.0}
    assert (both.ends, both.faults) == ({"Published": 4, "Failed": 1}, {"outage": 1, "step": 1})
    assert (both.seconds, both.notices, both.published, both.entries, both.soaks) == (120.0, 6, 4, 14, 2)
    assert both.memory == LAST.memory


def test_the_page_holds_what_further_soaks_are_joined_with(tmp_path: Path) -> None:
    sizes = dict.fromkeys(("postgres", "releases", "candidates", "assessments", "mlflow", "logs", "notices"), 1.0)
    whole = Figures.joined([FIRST, LAST])
    whole.disk = [sizes | {"whole home": 7.0}] * 5
    page = tmp_path / "page.md"
    page.write_text("\n".join(whole.section()))
    assert read(page).section() == whole.section()
