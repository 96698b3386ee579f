"""What is kept of an assessment for those who decide: figures, report, and what the custodian alone reads."""

from __future__ import annotations

import re
from typing import Any

from tasks.common.digests import sha256_of
from tasks.common.errors import Refused, visible
from tasks.common.home import DOSSIER, Home
from tasks.record.dossier import read_dossier

REPORT = "report.html"
CUSTODIAN = re.compile(r"custodian-step[0-9]+\.html")


def custodian_pages(home: Home, release: str) -> dict[str, str]:
    """Return the SHA-256 of each page that the custodian alone reads, by its name."""
    folder = home.assessment(release)
    return {p.name: sha256_of(p) for p in sorted(folder.glob("*")) if CUSTODIAN.fullmatch(p.name)}


def changed_pages(home: Home, entry: dict[str, Any]) -> list[str]:
    """Return what differs between the pages that are kept and what an entry of the ledger says of them.

    One sentence for each; the dossier is checked elsewhere. Entries of before the custodian's pages were
    entered say nothing of those.
    """
    folder = home.assessment(entry["release"])
    pages: dict[str, str] | None = entry.get("custodian")
    told = dict(pages or {})
    if REPORT in (entry.get("candidate") or {}):
        told[REPORT] = entry["candidate"][REPORT]
    found = []
    for name, digest in told.items():
        if not (folder / name).is_file():
            found.append(f"{visible(name)} is gone")
        elif sha256_of(folder / name) != digest:
            found.append(f"{visible(name)} was changed since it was assessed")
    there = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    return found + [
        f"{visible(name)} was added"
        for name in there
        if name not in {*told, DOSSIER, REPORT} and not (pages is None and CUSTODIAN.fullmatch(name))
    ]


def kept_dossier(home: Home, release: str) -> str | None:
    """Return the digest of the dossier that is kept; empty when it is not whole, None when gone."""
    try:
        return read_dossier(home, release).digest
    except FileNotFoundError:
        return None
    except Refused:
        return ""
