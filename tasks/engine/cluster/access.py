"""Where a cluster is and how it is entered: a named secret."""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from tasks.common.errors import Refused, visible
from tasks.common.home import Home
from tasks.common.secrets import secret

KEYS = ("address", "ca", "certificate", "key")


@dataclass(frozen=True)
class ClusterAccess:
    """The address of a scheduler and the certificates for it.

    Parameters
    ----------
    address : such as tls://scheduler:8786
    ca : certificate, PEM, of the authority of this cluster alone: whoever has one of its certificates may take part
    certificate, key : of the client, PEM
    """

    address: str
    ca: str = field(repr=False)
    certificate: str = field(repr=False)
    key: str = field(repr=False)


def access_of(name: str, home: Home) -> ClusterAccess:
    """Return what a named secret says about a cluster.

    Raises
    ------
    Refused
        When it is not of the form that docs/how-to/scale.md shows, or its connection would not be encrypted.
    """
    try:
        parts = yaml.safe_load(secret(name, home))
    except yaml.YAMLError:
        parts = None
    if not isinstance(parts, dict) or set(parts) != set(KEYS) or not all(isinstance(v, str) for v in parts.values()):
        raise Refused(f"the secret {visible(name)} must be YAML with the keys {', '.join(KEYS)}, each a text")
    access = ClusterAccess(**parts)
    if not access.address.startswith("tls://"):
        raise Refused(f"the address in the secret {visible(name)} must begin with tls://: nothing travels unencrypted")
    if not all("-----BEGIN " in part for part in (access.ca, access.certificate, access.key)):
        raise Refused(f"ca, certificate and key in the secret {visible(name)} must be PEM texts, with BEGIN lines")
    return access
