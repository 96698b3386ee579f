"""Verify stored assessment documents against the digests in the ledger: figures, report, custodian's pages."""

from __future__ import annotations

import re

from tasks.common.digests import sha256_of
from tasks.common.errors import Refused, visible
from tasks.common.home import DOSSIER, Home
from tasks.publication.candidate import AUTHORITY
from tasks.record.dossier import stored_digest
from tasks.record.entry import ReleaseFacts

PAGES = ("report.html", AUTHORITY)
CUSTODIAN = re.compile(r"custodian-(step[0-9]+|game|structure)\.html")


def custodian_pages(home: Home, release: str) -> dict[str, str]:
    """Return the SHA-256 of each page that only the custodian reads, by its name."""
    folder = home.assessment(release)
    return {p.name: sha256_of(p) for p in sorted(folder.glob("*")) if CUSTODIAN.fullmatch(p.name)}


def changed_pages(home: Home, facts: ReleaseFacts) -> list[str]:
    """Return what differs between the stored pages and what was entered of them, a sentence each.

    The dossier is checked by `stored_dossier_digest`.
    """
    folder = home.assessment(facts.release)
    entered = {**facts.custodian, **{page: facts.candidate[page] for page in PAGES if page in facts.candidate}}
    changed = []
    for name, digest in entered.items():
        if not (folder / name).is_file():
            changed.append(f"{visible(name)} is gone")
        elif sha256_of(folder / name) != digest:
            changed.append(f"{visible(name)} was changed since it was assessed")
    stored = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    return changed + [f"{visible(name)} was added" for name in stored if name not in {*entered, DOSSIER}]


def stored_dossier_digest(home: Home, release: str) -> str | None:
    """Return the digest of the stored dossier; empty when it is not whole, None when it is gone."""
    try:
        return stored_digest((home.assessment(release) / DOSSIER).read_bytes())
    except FileNotFoundError:
        return None
    except Refused:
        return ""
