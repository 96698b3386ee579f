"""The page on Chertov and Tavrov 2010: its table beside other routes, and two groups of a census sample at once."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import numpy as np
import pandas as pd

import anoncore
from anoncore import InfeasibleError, Microdata, Schema, Variable
from anoncore.kernels.wavelet.inversion import audit, observer_bounds
from anoncore.kernels.wavelet.layout import Graph
from anoncore.kernels.wavelet.redistribution import Goals, JointRoute, PaperRoute, Redistribution, redistribute
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.methods import GroupAnonymity
from tests.papers.pages import Page, Row
from tests.papers.reproduction import grid

AREAS = [
    *("06010", "06020", "06030", "06040", "06060", "06070", "06080", "06090"),
    *("06130", "06170", "06200", "06220", "06230", "06409", "06600", "06700"),
]
SIGNAL = np.array([19, 12, 153, 71, 13, 79, 7, 33, 16, 270, 812, 135, 241, 14, 60, 4337])
GIVEN = np.array([0, 379.097, 31805.084, 5464.854])
SHIFT = 2500
SCALE = 0.054398135198620405
PUBLISHED = np.array([22, 95, 144, 148, 162, 549, 831, 1019, 1232, 722, 424, 259, 83, 137, 139, 305])
CORRECTED = np.where(np.array(AREAS) == "06090", 1020, PUBLISHED)

FORT = AREAS.index("06700")
CAP = {FORT: 305}
ROUTES = {
    "paper": {"route": PaperRoute(coefficients=GIVEN, shift=SHIFT)},
    "joint, the paper's share": {"route": JointRoute(share=SCALE)},
    "joint": {},
    "joint, winsorised": {"details": "winsorised"},
    "joint, capped": {"details": "capped"},
}


def on_the_papers_signal() -> list[Row]:
    rows = []
    for name, chosen in ROUTES.items():
        found: Redistribution = redistribute(SIGNAL, Goals(caps=CAP, names=AREAS), **chosen)
        audits = [audit(SIGNAL, found.target, Goals(caps=CAP), share=share) for share in (None, found.beta)]
        row: Row = {"table": "paper", "route": name, "row": found.target.astype(int).tolist()}
        row |= {"share": float(found.beta), "moved": int(found.moved)}
        row |= {"restored": [round(float(a.recovered[0])) for a in audits], "passes": all(a.passed for a in audits)}
        bounds = observer_bounds(found.target, SignalModel(), [FORT])
        row["possible"] = [round(float(end[0])) for end in bounds]
        rows.append(row)
    return rows


# --- a census sample --------------------------------------------------------------------------------------

LEFT_OUT = ("Alaska", "Hawaii", "District of Columbia", "United States, ns")
FIRST = {"nonwhite": (1,), "vet_wwko": (1,)}
SECOND = {"home_ownership": (0,), "vet_wwko": (1,)}
GROUPS = {"nonwhite veterans": FIRST, "veterans without a home": SECOND}
# Counterparts resemble members by quarter of birth alone: a variable that tells nothing about the group.
MATCH_ON = ("qob",)
AREAS_OF_CENSUS = 48


def census() -> Microdata:
    """Return men by state of birth, as Fetter 2013 used them."""
    frame = pd.read_csv(str(resources.files("causaldata") / "mortgages" / "fetter_mortgages.csv"))
    kinds = {"bpl": Variable("bpl", "nominal", role="area"), "qob": Variable("qob", "ordinal")}
    names = ("bpl", "qob", "nonwhite", "vet_wwko", "home_ownership")
    return Microdata(frame[list(names)], Schema(kinds.get(n) or Variable(n, "binary") for n in names))


def step(data: Microdata, vital: dict, details: str, part: float, **more) -> GroupAnonymity:
    """Return the step that caps the largest area of a group at a part of its count."""
    order = tuple(sorted(set(data.schema["bpl"].levels or ()) - set(LEFT_OUT)))
    plain = {"vital": (vital,), "parameter": "bpl", "order": order, "match_on": MATCH_ON}
    counts = GroupAnonymity(**plain, share=1.0).group().counts(data.frame)
    return GroupAnonymity(
        **plain, details=details, caps={order[counts.argmax()]: float(part * counts.max() // 1)}, **more
    )


def carried_out(data: Microdata, name: str, stated: GroupAnonymity, seed: int = 1) -> tuple[Row, anoncore.Release]:
    before = stated.group().counts(data.frame)
    release = anoncore.anonymize(data, stated, rng=np.random.default_rng(seed))
    (area, cap), checks = next(iter(stated.caps.items())), [check.holds for check in release.check()]
    row: Row = {"table": "census", "group": name, "details": stated.details, "area": area, "before": int(before.max())}
    row |= {"cap": int(cap), "share": float(release.figures["details_kept"]), "of": int(before.sum())}
    row |= {"moved": int(release.confidential["group_moved"]), "records": len(data)}
    return row | dict(zip(("counts", "inversion", "reinference"), checks, strict=True)), release


def on_the_census() -> list[Row]:
    """Return each kind of details for the first group; then a second group, hidden with the first kept or not."""
    data, rows = census(), []
    for details in ("plain", "winsorised", "capped"):
        row, release = carried_out(data, "nonwhite veterans", step(data, FIRST, details, 0.5))
        rows.append(row)
        if details == "winsorised":
            first = release
    for kept in ((), (FIRST,)):
        stated = step(first.data, SECOND, "winsorised", 0.5, kept=kept, signal="ratio")
        row, second = carried_out(first.data, "veterans without a home", stated)
        still = first.claims[0].check(second.data)
        rows.append(
            row | {"kept": bool(kept), "first_holds": still.holds, "first_off": int(still.figures["counts_off"])}
        )
    return rows


BORDERS = """Alabama: Florida Georgia Mississippi Tennessee
Arizona: California Nevada New_Mexico Utah Colorado
Arkansas: Louisiana Mississippi Missouri Oklahoma Tennessee Texas
California: Nevada Oregon
Colorado: Kansas Nebraska New_Mexico Oklahoma Utah Wyoming
Connecticut: Massachusetts New_York Rhode_Island
Delaware: Maryland New_Jersey Pennsylvania
Florida: Georgia
Georgia: North_Carolina South_Carolina Tennessee
Idaho: Montana Nevada Oregon Utah Washington Wyoming
Illinois: Indiana Iowa Kentucky Missouri Wisconsin
Indiana: Kentucky Michigan Ohio
Iowa: Minnesota Missouri Nebraska South_Dakota Wisconsin
Kansas: Missouri Nebraska Oklahoma
Kentucky: Missouri Ohio Tennessee Virginia West_Virginia
Louisiana: Mississippi Texas
Maine: New_Hampshire
Maryland: Pennsylvania Virginia West_Virginia
Massachusetts: New_Hampshire New_York Rhode_Island Vermont
Michigan: Ohio Wisconsin
Minnesota: North_Dakota South_Dakota Wisconsin
Mississippi: Tennessee
Missouri: Nebraska Oklahoma Tennessee
Montana: North_Dakota South_Dakota Wyoming
Nebraska: South_Dakota Wyoming
Nevada: Oregon Utah
New_Hampshire: Vermont
New_Jersey: New_York Pennsylvania
New_Mexico: Oklahoma Texas Utah
New_York: Pennsylvania Vermont
North_Carolina: South_Carolina Tennessee Virginia
North_Dakota: South_Dakota
Ohio: Pennsylvania West_Virginia
Oklahoma: Texas
Oregon: Washington
Pennsylvania: West_Virginia
South_Dakota: Wyoming
Tennessee: Virginia
Utah: Wyoming
Virginia: West_Virginia"""
NEIGHBOURS = {
    area.replace("_", " "): tuple(other.replace("_", " ") for other in others.split())
    for area, others in (line.split(": ") for line in BORDERS.splitlines())
}
LAYOUTS = {
    "line, db2": {},
    "line, haar": {"wavelet": "haar"},
    "map, haar": {"wavelet": "haar", "neighbours": NEIGHBOURS},
    "map, haar, groups exchanged": {"wavelet": "haar", "neighbours": NEIGHBOURS, "swapped": "group"},
}


def on_the_map() -> list[Row]:
    """Return what areas in a line and on a map keep and move, and how many borders members cross."""
    data, rows = census(), []
    for details in ("plain", "winsorised"):
        for layout, more in LAYOUTS.items():
            row, release = carried_out(data, "nonwhite veterans", step(data, FIRST, details, 0.5, **more))
            flows, order = release.confidential["flows"], step(data, FIRST, details, 0.5).order
            hidden, peak = release.claims[0].hidden, int(release.confidential["before"].argmax())
            share = float(release.confidential["exact_share"])
            ends = observer_bounds(hidden.target, hidden.model, [peak], share=share)
            at = {area: i for i, area in enumerate(order)}
            edges = tuple((at[area], at[other]) for area, others in NEIGHBOURS.items() for other in others)
            crossed = float((flows * Graph(edges).distances(len(order))).sum() / flows.sum())
            rows.append(
                row
                | {"table": "map", "layout": layout, "crossed": crossed, "possible": [round(float(e[0])) for e in ends]}
            )
    return rows


SPREADS = (0.1, 0.25, 0.45, 1.0)


def on_spreads(spreads: Sequence[float] = SPREADS) -> list[Row]:
    """Return what it takes to give the paper's counts a stated standard deviation, or how much of it there is."""
    rows = []
    for spread in spreads:
        row: Row = {"table": "spread", "spread": spread}
        try:
            route = JointRoute(spread=spread)
            found = redistribute(SIGNAL, Goals(caps=CAP, names=AREAS), route=route, details="capped")
        except InfeasibleError as error:
            rows.append(row | {"said": str(error).split(";")[0]})
            continue
        audits = [audit(SIGNAL, found.target, Goals(caps=CAP), share=share) for share in (None, found.beta)]
        row |= {"share": float(found.beta), "moved": int(found.moved), "largest": int(found.target.max())}
        rows.append(row | {"passes": all(one.passed for one in audits)})
    return rows


def measured() -> list[Row]:
    return [*on_the_papers_signal(), *on_spreads(), *on_the_census(), *on_the_map()]


TEXT = """# Reproduction of Chertov and Tavrov 2010

Generated by `make reproduction` (`python -m tests.papers.areas_page`); edit the generator, not this page. Every figure
is in [chertov.json](reproduction/chertov.json). Counterparts are drawn with seed 1; it takes a minute.

The paper: O. Chertov and D. Tavrov, *Group Anonymity*, IPMU 2010, CCIS 81, 592-601. It hides where people on active
duty work: 6272 in 16 areas of California, census of 2000, 4337 of them in 06700.

## Its table, and other routes

Counts per area. *Paper* is its route with the coefficients and the shift that it prints; the counts equal those that it
publishes, but for 06090: it prints 1019, which makes 6271 in all. The cap is 305 in 06700, as in its result.

{signal}
*Share*: of the size of the wavelet details that is kept (of the winsorised or capped signal's where these are used).
*Restored*: 06700, true 4337, as an attacker gets it who inverts the route, without and with the share. *Possible*: what
an observer cannot rule out who knows that the details were scaled, and does not guess by how much. *Audit*: whether no
hidden count is restored within 10 % or shown as the largest.

{routes}
The paper says that the data cannot be restored; its own row gives 06700 away within 4 %. Details of the winsorised or
capped signal are not the true ones, so that what seems possible misses the truth.

## A standard deviation to keep

The same signal, details of the capped one, with the standard deviation of the counts stated as a multiple of the true
one, {spread:.0f}. *Largest*: count of the result.

{spreads}
The mean is kept by every route, since the total is. The standard deviation is nearly all of one peak, and an
approximation of two levels holds no single peak: what was asked for last cannot be had with these details.

## Two groups of real microdata

Package `causaldata`, table `mortgages`: {records} men by state of birth, from Fetter 2013 (who owns a home, who
served). {areas} areas in alphabetical order (Alaska, Hawaii, the District of Columbia and unknown are left out). The
largest count of a group is to be at most half of what it is. Counterparts resemble members by quarter of birth. db2,
two levels.

| group | who | signal |
|---|---|---|
| nonwhite veterans | nonwhite = 1 and vet_wwko = 1 | counts |
| veterans without a home | home_ownership = 0 and vet_wwko = 1 | shares in the population |

{census}
*Claims*: the counts are the chosen ones; the inversion finds nothing; counting again from the other variables finds
nothing. All are computed from the masked file.

The second group is hidden in the file in which the first is hidden already, with winsorised details. Veterans without
a home are partly nonwhite, so that moving them changes the first group's counts, unless the step names it as `kept`:

{second}
## States on a map

The first group again, with the areas in a line, which is alphabetical and so means nothing, and on the graph of states
with a common border (`neighbours`). *Borders*: how many a member crosses on average. *Possible*: what an observer who
knows the wavelet, the map and the exact share of details cannot rule out for the largest area, true {peak}. In the last
way members exchange `nonwhite` and `vet_wwko` with others (`swapped: group`), and no one's area changes.

{map}
Neighbours are more alike than states in alphabetical order: on the map more of the details are kept for fewer moves,
over fewer borders, and the inversion finds nothing even of plain details.

## Departures from the paper

- Goals hold on the counts; the paper's on an approximation before shift and scale, and {broken} of its own inequalities
  are missed by its row.
- Counts are integers with the total kept: largest remainders, in place of rounding.
- One program finds the details and the approximation; details of the winsorised signal resist the inversion.
- Members change places with others at least cost, with whole households where the schema has them.
- Several groups at once, by a step for each, are an addition; so are counts of survey weights (`weight`), values of
  the group exchanged in place of areas, areas on grids and graphs, and a stated standard deviation, which later papers
  reach by normalising, whatever the signs of the counts.
- The paper leaves open how groups are found that need hiding; drafts propose those of which one area holds far more
  than its population explains ([how](../how-to/plan.md#start-from-a-draft)).
"""

# The inequalities of section 3 that ask for at most the original count.
LOWERED = (0, 1, 2, 13, 14)


def rendered(rows: Sequence[Row]) -> str:
    paper = [row for row in rows if row["table"] == "paper"]
    census_rows = [row for row in rows if row["table"] == "census"]
    counts = [[area, str(SIGNAL[i]), *(str(row["row"][i]) for row in paper)] for i, area in enumerate(AREAS)]
    routes = [
        [
            row["route"],
            f"{row['share']:.3f}",
            str(row["moved"]),
            f"{np.std(row['row']):.0f}",
            " and ".join(map(str, row["restored"])),
            " to ".join(map(str, row["possible"])),
            said(row["passes"]),
        ]
        for row in paper
    ]
    claims = [
        [
            row["group"],
            row["details"],
            f"{row['area']}, {row['before']}",
            str(row["cap"]),
            f"{row['share']:.2g}",
            f"{row['moved']} of {row['of']}",
            *(said(row[key]) for key in ("counts", "inversion", "reinference")),
        ]
        for row in census_rows
        if "kept" not in row or row["kept"]
    ]
    spreads = [
        [f"{row['spread']:g}", row["said"], "", "", ""]
        if "said" in row
        else [f"{row['spread']:g}", f"{row['share']:.3f}", str(row["moved"]), str(row["largest"]), said(row["passes"])]
        for row in rows
        if row["table"] == "spread"
    ]
    on_map = [
        [row["details"], row["layout"], f"{row['share']:.2g}", str(row["moved"]), f"{row['crossed']:.1f}"]
        + [" to ".join(map(str, row["possible"]))]
        + [said(row[key]) for key in ("counts", "inversion", "reinference")]
        for row in rows
        if row["table"] == "map"
    ]
    second = [
        ["yes" if row["kept"] else "no", str(row["moved"]), str(row["first_off"]), said(row["first_holds"])]
        for row in census_rows
        if "kept" in row
    ]
    head = ["group", "details", "largest", "cap", "share", "moved", "counts", "inversion", "re-inference"]
    return TEXT.format(
        signal=grid(["area", "true", *(row["route"] for row in paper)], counts),
        routes=grid(["route", "share", "moved", "sd of counts", "restored", "possible", "audit"], routes),
        records=census_rows[0]["records"],
        areas=AREAS_OF_CENSUS,
        spread=np.std(SIGNAL),
        census=grid(head, claims),
        second=grid(["first group kept", "moved", "counts of the first group that are off", "its claim"], second),
        spreads=grid(["asked for", "share", "moved", "largest", "audit"], spreads),
        peak=next(row["before"] for row in rows if row["table"] == "map"),
        map=grid(
            ["details", "areas", "share", "moved", "borders", "possible", "counts", "inversion", "re-inference"],
            on_map,
        ),
        broken=sum(CORRECTED[i] > SIGNAL[i] for i in LOWERED),
    )


def said(holds: bool) -> str:
    return "holds" if holds else "**fails**"


PAGE = Page("chertov", measured, rendered)

if __name__ == "__main__":
    PAGE.write()
