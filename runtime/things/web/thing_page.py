"""Thing page: a description for people and search engines, an HTML page with schema.org's terms in JSON-LD.

Descriptions come from others, so everything is escaped, and the page may load and run nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

import msgspec

from ..directory.attribute_search import place_of

#: Headers of the page. The data block is no script that runs.
PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}
_STYLE: Final = "body{font-family:sans-serif;max-width:40em;margin:2em auto;padding:0 1em}"


def wants_page(accept: str) -> bool:
    """Whether a client prefers a page: it names HTML, and no JSON."""
    return "text/html" in accept and "json" not in accept


def page_of(description: Mapping[str, Any], url: str) -> bytes:
    """The page. `url`: the address of the description."""
    title, text, place = str(description["title"]), str(description.get("description", "")), place_of(description)
    linked: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": title,
        "identifier": description["id"],
        "url": url,
    }
    if text:
        linked["description"] = text
    if place:
        linked["additionalProperty"] = {"@type": "PropertyValue", "name": "containedInPlace", "value": place}
    # A text that ends the element would begin another one.
    data = msgspec.json.encode(linked).decode().replace("<", "\\u003c")
    affordances = "".join(
        f"<h2>{kind.capitalize()}</h2><ul>{''.join(map(_item, group.items()))}</ul>"
        for kind in ("properties", "actions", "events")
        if (group := description.get(kind))
    )
    place_line = f"<p>Place: {escape(place)}</p>" if place else ""
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="description" content="{escape(text or title)}">'
        f'<link rel="alternate" type="application/td+json" href="{escape(url)}"><style>{_STYLE}</style>'
        f'<script type="application/ld+json">{data}</script></head><body><h1>{escape(title)}</h1>'
        f"<p>{escape(text)}</p>{place_line}{affordances}</body></html>"
    ).encode()


def _item(named: tuple[str, Mapping[str, Any]]) -> str:
    name, said = named
    text = said.get("description", said.get("title", ""))
    return f"<li><b>{escape(name)}</b> {escape(str(text))}</li>"
