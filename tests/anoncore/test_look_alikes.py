"""Names that a reader cannot tell apart, by Unicode's table and what it lacks."""

import pytest

from anoncore import AnonymizationError, Schema, Variable
from anoncore.names import appearance, format_look_alikes, look_alikes


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("\N{CYRILLIC SMALL LETTER A}ge", "age"),
        ("\N{CYRILLIC SMALL LETTER KA}ey", "key"),
        ("\N{GREEK CAPITAL LETTER IOTA}D", "ID"),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}ge", "age"),
        ("a\N{ZERO WIDTH SPACE}g\N{SOFT HYPHEN}e\N{VARIATION SELECTOR-16}", "age"),
        ("first\N{NO-BREAK SPACE}name ", "first name"),
        ("birth\N{EM DASH}year", "birth-year"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}ge", "\N{LATIN SMALL LETTER E WITH ACUTE}ge"),
        ("\N{CJK UNIFIED IDEOGRAPH-65E5}", "\N{CJK UNIFIED IDEOGRAPH-65E5}"),
        ("a1", "a1"),
        ("\t", "\t"),
    ],
)
def test_appearance(name, looks):
    assert appearance(name) == looks
    assert appearance(looks) == looks


def test_pairs_are_found_in_order_and_shown_as_codes():
    names = ["age", "sex", "\N{CYRILLIC SMALL LETTER A}ge", "s\N{CYRILLIC SMALL LETTER IE}x"]
    pairs = look_alikes(names)
    assert pairs == [("age", names[2]), ("sex", names[3])]
    assert format_look_alikes(pairs) == r"'age' and '\u0430ge', 'sex' and 's\u0435x'"
    assert format_look_alikes(pairs * 4).endswith(" and 3 more")


def test_a_schema_refuses_them():
    with pytest.raises(AnonymizationError, match=r"look alike: 'age' and 'age '; rename one of each"):
        Schema([Variable("age", "continuous"), Variable("age ", "continuous")])
