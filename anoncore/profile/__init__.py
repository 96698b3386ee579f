"""What a table's columns seem to be, and which rules its records never break.

Everything here is a guess for a person to confirm: kinds and roles come from names and counts,
rules from the records. A rule is `Finding.active` only when chance does not explain it: the probability that
it holds among values permuted at random, times the number of rules tried, is at most `support.FAMILY`, or,
for sums, enough different combinations of values agree. `Finding.broken` counts the records that break a sum.
Values appear in a result only where at least `MIN_COUNT` records hold them; limits that fewer units hold are rounded
outward, away from the extremes.
"""

from anoncore.microdata.inference import GROUP_NUMBERS, MIN_COUNT, NAMES, NESTED, Guess
from anoncore.microdata.precision import outward
from anoncore.profile.columns import Profile, profile
from anoncore.profile.findings import Finding
from anoncore.profile.maps import StandsOut, groups_that_stand_out
from anoncore.profile.rules import find_rules
from anoncore.profile.sums import find_sums

__all__ = [
    "GROUP_NUMBERS",
    "MIN_COUNT",
    "NAMES",
    "NESTED",
    "Finding",
    "Guess",
    "Profile",
    "StandsOut",
    "find_rules",
    "find_sums",
    "groups_that_stand_out",
    "outward",
    "profile",
]
