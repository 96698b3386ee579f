"""Names that a reader cannot tell apart: look-alike characters, invisible characters, unusual spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

_SELECTORS, _SPACES = re.compile("[\ufe00-\ufe0f]"), re.compile("[ \xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
# What Unicode's table of confusable characters lacks, or equates with another character than the one drawn.
_SUPPLEMENT = {
    "\u043a": "k", "\u03ba": "k", "\u03c7": "x", "\u04cf": "l", "\u0406": "I", "\u0399": "I", "\u04c0": "I",
    "\u2014": "-", "\u02cd": "_",
}  # fmt: skip


def appearance(name: str) -> str:
    """Return what a name looks like: one form for characters drawn alike, nothing for those not drawn.

    Source: Unicode Technical Standard 39, confusable characters; of them only those that look like ASCII ones.

    Examples
    --------
    >>> appearance("\N{CYRILLIC SMALL LETTER A}ge\N{ZERO WIDTH SPACE} ")
    'age'
    """
    if not (name.isascii() and name.isprintable()):
        # Control characters stay: they are written out wherever a name is shown.
        drawn = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
        name = "".join(map(_ascii_look_alike, _SELECTORS.sub("", drawn))) or name
    return _SPACES.sub(" ", name).strip(" ") or name


def look_alikes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different names that a reader cannot tell apart.

    Examples
    --------
    >>> look_alikes(["age", "sex", "age "])
    [('age', 'age ')]
    """
    first: dict[str, str] = {}
    return [(other, name) for name in names if (other := first.setdefault(appearance(name), name)) != name]


def format_look_alikes(pairs: Iterable[tuple[str, str]]) -> str:
    r"""Return look-alike names for a message: characters outside ASCII are written as codes.

    Examples
    --------
    >>> format_look_alikes([("age", "\N{CYRILLIC SMALL LETTER A}ge")])
    "'age' and '\\u0430ge'"
    """
    listed = list(pairs)
    shown = ", ".join(f"{one!a} and {other!a}" for one, other in listed[:5])
    return f"{shown} and {len(listed) - 5} more" if len(listed) > 5 else shown


@cache
def _ascii_look_alike(character: str) -> str:
    """Return the ASCII character that one outside ASCII looks like, else the character itself."""
    if character.isascii() or character in _SUPPLEMENT:
        return _SUPPLEMENT.get(character, character)
    # Here, because it reads a table that names in ASCII never need.
    from confusable_homoglyphs.confusables import confusables_data

    alike = (entry["c"] for entry in confusables_data.get(character, ()))
    return min((c for c in alike if len(c) == 1 and c.isascii()), default=character)
