"""What is kept of an assessment for those who decide: figures, report, and what the custodian alone reads."""

from __future__ import annotations

import json
import re
from typing import Any

from tasks.common.digests import digest_of, sha256_of
from tasks.common.errors import visible
from tasks.common.home import DOSSIER, Home

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
    """Return the digest of the figures that are kept; empty when they are not whole, None when gone."""
    try:
        dossier = json.loads((home.assessment(release) / DOSSIER).read_bytes())
        digest = dossier.pop("sha256")
        whole = digest == digest_of(dossier)
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, KeyError, TypeError):
        return ""
    return str(digest) if whole else ""
