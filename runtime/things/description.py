"""Description: the Thing Model of a class, from which the Thing Description of each of its objects is made (W3C WoT TD 1.1).

A model lists the interactions with a thing. Addresses and security are not part of it: a gateway adds them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..objects.operation import DeclarationError
from .affordances import Affordances

#: A Thing Model or Thing Description as it is sent.
Description = dict[str, Any]

TD_CONTEXT: Final = "https://www.w3.org/2022/wot/td/v1.1"
#: That of the first version.
TD_CONTEXT_2019: Final = "https://www.w3.org/2019/wot/td/v1"
#: A language tag of BCP 47, as far as its syntax goes.
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
#: Member of a description that tells where the thing is.
PLACE: Final = "schema:containedInPlace"
#: Vocabularies that a class may use in `types` without an entry in its `context`.
PREFIXES: Final = {
    "saref": "https://saref.etsi.org/core/",
    "schema": "https://schema.org/",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "brick": "https://brickschema.org/schema/Brick#",
}


def model_of(
    where: str,
    affordances: Affordances,
    *,
    title: str,
    description: str | None,
    types: Sequence[str],
    context: Mapping[str, str],
    language: str,
) -> Description:
    """The model. `where`: the class, for errors. `types`: terms such as "saref:LightSwitch". `context`: IRIs by prefix.
    `language`: that of all titles and descriptions, a tag of BCP 47.

    Raises `DeclarationError` for a prefix without an IRI, and for a tag that is none.
    """
    if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
        raise DeclarationError(f"{where}: language = {language!r}: expected a tag such as 'en' or 'de-AT'")
    said: dict[str, str] = {"@language": language}
    for each in types:
        prefix, colon, term = each.partition(":")
        if not colon or not term or term.startswith("//"):
            continue  # a term of the TD's own vocabulary, or a whole IRI
        iri = context.get(prefix) or PREFIXES.get(prefix)
        if iri is None:
            raise DeclarationError(
                f"{where}: types: unknown prefix in {each!r}: add `context = {{{prefix!r}: IRI}}` to the class"
            )
        said[prefix] = iri
    model: Description = {
        "@context": [TD_CONTEXT, said],
        "@type": ["tm:ThingModel", *types],
        "title": title,
        **_given(description=description),
    }
    properties = {
        each.name: each.schema
        | _given(title=each.title, description=each.description, unit=each.unit)
        | ({"readOnly": True} if each.setter is None else {})
        | ({"observable": True} if each.is_observable else {})
        for each in affordances.properties.values()
    }
    actions = {
        each.name: _given(title=each.title, description=each.description, input=each.input, output=each.output)
        | {"safe": each.is_safe, "idempotent": each.is_idempotent, "synchronous": each.is_synchronous}
        for each in affordances.actions.values()
    }
    events = {
        each.name: _given(title=each.title, description=each.description, data=each.data)
        for each in affordances.events.values()
    }
    return model | {
        kind: group for kind, group in (("properties", properties), ("actions", actions), ("events", events)) if group
    }


def _given(**fields: Any) -> dict[str, Any]:
    """The fields whose value is not None."""
    return {name: value for name, value in fields.items() if value is not None}
