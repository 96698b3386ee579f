"""The limits that hold for a table of every format."""

from __future__ import annotations

import pandas as pd
import pytest

from tasks.common.errors import Refused
from tasks.connectors.limits import MAX_FIELD, check_table

LONG = "x" * (MAX_FIELD + 1)


@pytest.mark.parametrize("dtype", ["object", "str", "category"])
def test_a_long_field_is_refused_however_text_is_stored(dtype: str) -> None:
    with pytest.raises(
        Refused, match=r"^people holds a field of more than 131072 characters, in land; check"
    ) as refused:
        check_table(pd.DataFrame({"age": [1.0, 2.0], "land": pd.Series(["DE", LONG], dtype=dtype)}), "people")
    assert "xxx" not in str(refused.value)
    check_table(pd.DataFrame({"age": [1.0, None], "land": pd.Series([LONG[1:], None], dtype=dtype)}), "people")


def test_much_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.connectors.limits.MAX_TEXT", 10)
    check_table(pd.DataFrame({"land": ["DE", "FR"], "area": ["abc", "def"]}), "people")
    with pytest.raises(Refused, match="GB of text; divide it"):
        check_table(pd.DataFrame({"land": ["DE", "FR"], "area": ["abc", "defg"]}), "people")
