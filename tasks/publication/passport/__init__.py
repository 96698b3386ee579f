"""The passport of a release: its metadata in the formats of catalogues and archives, one module for each."""

from collections.abc import Callable, Mapping

from tasks.publication.passport import croissant, data_package, dcat_ap, ddi, ro_crate
from tasks.publication.passport.facts import Passport

# File and writer of each format.
WRITERS: Mapping[str, tuple[str, Callable[[Passport], bytes]]] = {
    "data-package": ("datapackage.json", data_package.write),
    "ddi-codebook": ("ddi-codebook.xml", ddi.write),
    "croissant": ("croissant.json", croissant.write),
    "dcat-ap": ("dcat-ap.jsonld", dcat_ap.write),
    "ro-crate": ("ro-crate-metadata.json", ro_crate.write),
}

__all__ = ["WRITERS", "Passport"]
