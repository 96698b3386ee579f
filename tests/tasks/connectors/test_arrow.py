"""Tables that are read piece by piece, and refused before they fill the memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tasks.common.errors import Refused
from tasks.connectors import arrow, limits
from tasks.connectors.arrow import table_of

PEOPLE = pa.record_batch({"name": ["Ada", None], "age": [41, 36]})


def test_pieces_make_one_table() -> None:
    table = table_of(PEOPLE.schema, [PEOPLE, PEOPLE], "people")
    assert table.to_pylist() == PEOPLE.to_pylist() * 2
    assert len(table_of(PEOPLE.schema, [], "people")) == 0


def test_lists_and_text_that_is_none_are_refused() -> None:
    lists = pa.record_batch({"visits": [[1, 2]], "age": [41]})
    with pytest.raises(Refused, match=r"^people has columns that hold neither .*: visits; convert them$"):
        table_of(lists.schema, [lists], "people")
    spoiled = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    batch = pa.record_batch({"name": spoiled})
    with pytest.raises(pa.ArrowInvalid):
        table_of(batch.schema, [batch], "people")


@pytest.mark.parametrize(("limit", "said"), [("MAX_TEXT", "of text; divide it"), ("MAX_CELLS", "cells; divide it")])
def test_what_grows_beyond_the_limits_is_not_read_to_its_end(limit, said, monkeypatch) -> None:
    monkeypatch.setattr(arrow, "MAX_TEXT", 10**9)
    monkeypatch.setattr(limits if limit == "MAX_CELLS" else arrow, limit, 7 if limit == "MAX_CELLS" else 30)
    read = []

    def pieces():
        for number in range(100):
            read.append(number)
            yield PEOPLE

    with pytest.raises(Refused, match=rf"^people holds .* {said}$"):
        table_of(PEOPLE.schema, pieces(), "people")
    assert len(read) < 5
