"""Where randomness comes from: the seed, which is secret, and the named random streams of a run."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from tasks.common.errors import Refused
from tasks.common.home import Home, write_private
from tasks.common.sections import Section

MAX_SEED_DIGITS = 1000


class SeedSection(Section):
    """Where randomness comes from. The seed can undo the masking, so it is never written to any file.

    Parameters
    ----------
    secret : An environment variable that holds a whole number, for releases that must be reproducible. It also
        determines who is held out: a changed number holds out other people.
    public : A published seed, for demonstrations on public data only.
    data_are_public : Must be stated with ``public``.

    Notes
    -----
    Without this section the operating system supplies the seed, which is kept only while the run lasts.
    """

    secret: str | None = None
    public: int | None = Field(default=None, ge=0)
    data_are_public: bool = False

    @model_validator(mode="after")
    def _public_seed_for_public_data(self) -> SeedSection:
        if self.public is not None and self.secret is not None:
            raise ValueError("give secret or public, not both")
        if self.public is not None and not self.data_are_public:
            raise ValueError(
                "a public seed lets anyone undo the masking; state data_are_public: true, or remove the seed"
            )
        return self

    @property
    def stated(self) -> bool:
        """Whether the plan says where the seed comes from."""
        return self.public is not None or self.secret is not None


@dataclass(frozen=True)
class RandomStreams:
    """Named random streams of one run; its entropy is stored in one private file only.

    Parameters
    ----------
    folder : Path
        The private folder that holds the entropy.
    data_digest : str
        Digest of the data that is mixed into the entropy, so that a fixed seed never masks two tables alike;
        empty before the data are read.
    """

    folder: Path
    data_digest: str = ""

    @classmethod
    def draw(cls, folder: Path, seed: SeedSection, home: Home) -> RandomStreams:
        """Draw the entropy of a new run into a private folder."""
        entropy = _entropy(seed)
        write_private(folder / "entropy", str(entropy).encode())
        secret = str(entropy).encode() if seed.stated else home.holdout_secret()
        key = hashlib.sha256(b"lasting " + secret).hexdigest()[:16]
        write_private(folder / "persistent-key", key.encode())
        return cls(folder)

    def generator(self, stream: str) -> np.random.Generator:
        """Return the generator of a named stream; the same stream draws the same again."""
        text = (self.folder / "entropy").read_text()
        if self.data_digest:
            text = str(int(hashlib.sha256(f"{text}|{self.data_digest}".encode()).hexdigest(), 16))
        key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8])
        return np.random.default_rng(np.random.SeedSequence(int(text), spawn_key=(key,)))

    def bound_to(self, data_digest: str) -> RandomStreams:
        """Return the streams of this run on these data."""
        return replace(self, data_digest=data_digest)

    def branch(self, folder: Path, stream: str) -> RandomStreams:
        """Return streams of their own, whose entropy a stream of these draws into another private folder."""
        entropy = int.from_bytes(self.generator(f"branch {stream}").bytes(32))
        write_private(folder / "entropy", str(entropy).encode())
        return RandomStreams(folder)

    def persistent_key(self, purpose: str = "") -> str:
        """Return a key of 16 characters for a purpose, the same in every run of this home, or of this stated seed."""
        key = (self.folder / "persistent-key").read_text()
        return hashlib.sha256(f"{purpose} {key}".encode()).hexdigest()[:16] if purpose else key


def _entropy(seed: SeedSection) -> int:
    if seed.public is not None:
        return seed.public
    if seed.secret is None:
        return secrets.randbits(256)
    text = os.environ.get(seed.secret, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_SEED_DIGITS):
        raise Refused(
            f"seed: the environment variable {seed.secret} must hold a whole number of at most "
            f"{MAX_SEED_DIGITS} digits, and does not"
        )
    return int(text)
