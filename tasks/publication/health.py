"""What a plan states of a data set on health, as HealthDCAT-AP asks for it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tasks.common.sections import Section
from tasks.record.dossier import HealthFacts

ADDRESS = re.compile(r"(https?://|urn:)[!#-;=?-\[\]_a-z~]+")


def _address(text: str) -> str:
    if not ADDRESS.fullmatch(text):
        raise ValueError("must be an address that begins with https://, http:// or urn:")
    return text


Address = Annotated[str, AfterValidator(_address)]
Addresses = Annotated[tuple[Address, ...], Field(min_length=1)]
Email = Annotated[str, Field(pattern=r"^[^\s@<>]+@[^\s@<>]+$")]
Text = Annotated[str, Field(min_length=1)]


class HealthSection(Section):
    """What HealthDCAT-AP asks of a data set on health, for dcat-ap.jsonld. Addresses are those of its vocabularies.

    Parameters
    ----------
    categories : Addresses of the categories of health data (healthCategory).
    themes : Addresses of what the data set is about, such as diseases (healthTheme).
    purposes : Addresses of what the data were processed for (hasPurpose).
    places : Addresses of the places that it covers.
    kind : Address of the kind of data set (type).
    keywords : Words by which it is found.
    provenance : Where the data come from, in a sentence.
    access : Who may have the release.
    email : Of those who answer questions.
    page : Of those who answer questions.
    publisher_type : Address of the kind of publisher.
    publisher_note : What the publisher does, in a sentence.
    trusted : Whether the publisher is a trusted data holder.
    access_body : Name of the health data access body.
    access_body_email : Of the health data access body.
    access_body_page : Of the health data access body.
    """

    categories: Addresses
    themes: Addresses
    purposes: Addresses
    places: Addresses
    kind: Address
    keywords: Annotated[tuple[Text, ...], Field(min_length=1)]
    provenance: Text
    access: Literal["PUBLIC", "RESTRICTED", "NON_PUBLIC"] = "PUBLIC"
    email: Email
    page: Address
    publisher_type: Address
    publisher_note: Text
    trusted: bool = False
    access_body: Text
    access_body_email: Email
    access_body_page: Address

    @property
    def facts(self) -> HealthFacts:
        """The same as a value of the dossier."""
        return HealthFacts(**self.model_dump())
