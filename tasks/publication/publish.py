"""Publish a candidate: whole, versioned, signed, never overwritten."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tasks.common.digests import sha256_of
from tasks.common.errors import Fault
from tasks.common.home import Home, make_private, private_umask, sync
from tasks.publication.candidate import Candidate, changed_files
from tasks.publication.manifest import MANIFEST, Approval, LedgerReference, Manifest, verify_release
from tasks.publication.signed import write_signed
from tasks.record.entry import Facts, LedgerEntry


def publish(
    home: Home, candidate: Candidate, approval: Approval | None = None, entry: LedgerEntry[Facts] | None = None
) -> Path:
    """Publish a candidate; return the folder of the release.

    The files are written beside, synced, and renamed into place as one folder. A release with
    the same content that stands already is left as it is. ``entry`` announces it in the ledger; the
    manifest names it, so that the ledger cannot lose it unseen.

    Raises
    ------
    Fault
        When a file of the candidate is not the one that was assessed, or the release that stands
        already is not as it was published.
    """
    release = candidate.dossier.release
    target: Path = make_private(home.releases / release.name) / release.id
    with home.lock("publish"):
        if target.exists():
            _check_unchanged(target)
            return target
        # The lock keeps other publications out, so staged folders of others were left by a crash.
        for left in target.parent.glob(".*/"):
            shutil.rmtree(left)
        staged = _stage(candidate, target.with_name(f".{release.id}"))
        version = 1 + sum(1 for p in target.parent.iterdir() if p.is_dir() and p != staged)
        manifest = Manifest(
            release=release.id,
            name=release.name,
            version=version,
            created=candidate.dossier.run.created,
            plan=candidate.dossier.plan.digest,
            dossier=candidate.dossier.digest,
            approved=approval,
            ledger=LedgerReference.of(entry) if entry else None,
            files={p.name: sha256_of(p) for p in sorted(staged.iterdir())},
        )
        write_signed(home, staged, MANIFEST, manifest.to_json())
        sync(staged)
        os.rename(staged, target)
        sync(target.parent)
    return target


def _stage(candidate: Candidate, staged: Path) -> Path:
    """Copy what was assessed, and check the copies, since a file may change while it is copied."""
    make_private(staged)
    files = candidate.dossier.files
    for file in sorted(files):
        if (candidate.folder / file).is_file():
            with private_umask():
                shutil.copyfile(candidate.folder / file, staged / file)
            sync(staged / file)
    if changed := changed_files(staged, files):
        shutil.rmtree(staged)
        release = candidate.dossier.release.id
        raise Fault(f"{', '.join(changed)} of {release} differ(s) from what was assessed; nothing is published")
    return staged


def _check_unchanged(target: Path) -> None:
    if differences := verify_release(target):
        raise Fault(
            f"{target.name} was published before and is no longer what it was: "
            f"{'; '.join(one.sentence for one in differences)}; restore it from a backup"
        )
