"""The plan's section ``cluster``."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from tasks.common.secrets import check_name
from tasks.common.sections import Section


class ClusterSection(Section):
    """The cluster of ``engine: dask``. Without one, workers are started on this machine.

    Parameters
    ----------
    secret : The name of the secret with the address of a scheduler and the certificates for it.
    folder : A folder that all workers and this machine have under the same path; partitions lie there, encrypted.
    """

    secret: str | None = None
    folder: Path | None = None

    @model_validator(mode="after")
    def _both_or_none(self) -> ClusterSection:
        check_name(self.secret, "cluster: secret")
        if (self.secret is None) != (self.folder is None):
            raise ValueError("state both secret and folder, or none of them")
        if self.folder is not None and not self.folder.is_absolute():
            raise ValueError("folder must be an absolute path, the same for all workers")
        return self
