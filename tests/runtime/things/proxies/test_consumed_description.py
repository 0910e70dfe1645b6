"""What is used of a description: its affordances, by forms at allowed origins alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from appbackplane.runtime.things.proxies.consumed_description import (
    AFFORDANCES_MAX,
    ConsumedDescription,
    DescriptionError,
    Form,
    description_from,
    is_near,
    origin_of,
)

AT = "https://garden.example/things/pump"
JSON = "application/json"


def td(**members: Any) -> dict[str, Any]:
    """A description."""
    return {
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", {"acme": "https://acme.example/"}],
        "id": "urn:dev:pump", "title": "Pump", "security": ["key"], "securityDefinitions": {"key": {"scheme": "bearer"}},
    } | members  # fmt: skip


def read(said: dict[str, Any], url: str = AT, origins: tuple[str, ...] = ()) -> ConsumedDescription:
    """What is used of it."""
    return description_from(msgspec.json.encode(said), url, origins)


def prop(*forms: dict[str, Any], **members: Any) -> dict[str, Any]:
    """One property."""
    return td(properties={"level": {"type": "integer", "forms": [*forms], **members}})


def test_a_property_is_read_written_and_observed_by_its_forms() -> None:
    """Of several streams the one of events is read: it needs no request for each message."""
    poll = {"href": "level/stream?sub=1", "op": ["observeproperty", "unobserveproperty"], "subprotocol": "longpoll"}
    sse = {"href": "level/stream", "op": "observeproperty", "subprotocol": "sse", "contentType": "text/event-stream"}
    found = read(prop({"href": "level", "op": ["readproperty", "writeproperty"]}, poll, sse)).properties["level"]
    assert found.read == Form("https://garden.example/things/level", "GET")
    assert found.write == Form("https://garden.example/things/level", "PUT")
    assert found.stream == Form("https://garden.example/things/level/stream", "GET", "sse")
    assert found.said == {"type": "integer", "observable": True}
    (polled,) = read(prop({"href": "level"}, poll)).properties.values()
    assert polled.stream is not None and polled.stream.subprotocol == "longpoll"


def test_what_cannot_be_used_is_not_offered() -> None:
    """A description claims more than its forms give."""
    (found,) = read(prop({"href": "level", "op": "readproperty"}, observable=True)).properties.values()
    assert (found.said, found.write, found.stream) == ({"type": "integer", "readOnly": True}, None, None)
    (found,) = read(prop({"href": "level"}, readOnly=True)).properties.values()
    assert found.write is None and found.said["readOnly"] is True


def test_a_form_may_say_its_method() -> None:
    """By the vocabulary of HTTP."""
    (found,) = read(
        prop({"href": "l", "op": "readproperty"}, {"href": "l", "op": "writeproperty", "htv:methodName": "PATCH"})
    ).properties.values()
    assert found.write == Form("https://garden.example/things/l", "PATCH")


@pytest.mark.parametrize(
    ("href", "words"),
    [
        ("http://169.254.169.254/latest", "add that to `origins`"),
        ("http://garden.example/level", "'http://garden.example:80': add that"),
        ("https://garden.example:8443/level", "add that to `origins`"),
        ("https://user@garden.example/level", "add that to `origins`"),
        ("//evil.example/level", "'https://evil.example:443': add that"),
        ("coap://garden.example/level", "add that to `origins`"),
        ("file:///etc/passwd", "add that to `origins`"),
        ("level{?unit}", "its form has variables"),
    ],
)
def test_a_form_elsewhere_is_left_out(href: str, words: str) -> None:
    """Whoever writes a description does not choose which hosts this one asks."""
    found = read(prop({"href": href}))
    assert not found.properties and words in found.left_out[0] and found.left_out[0].startswith("properties.level: ")


def test_further_origins_are_allowed_by_configuration() -> None:
    """And that of a description in a file is that of its base."""
    assert read(prop({"href": "http://b.example/level"}), origins=("http://b.example:80",)).properties
    assert read(prop({"href": "level"}) | {"base": "http://b.example/"}, url="").properties
    assert not read(prop({"href": "http://c.example/"}) | {"base": "http://b.example/"}, url="").properties
    assert not read(prop({"href": "level"}), url="").properties


def test_actions_take_arguments_or_one_input() -> None:
    """The input of an action here is an object; a status of a long action is no output."""
    form = {"forms": [{"href": "go"}]}
    speed = {"type": "object", "properties": {"speed": {"type": "number"}}}
    found = read(
        td(
            actions={
                "go": {"input": speed, "output": {"type": "string"}} | form,
                "set": {"input": {"type": "integer"}} | form,
                "odd": {"input": {"type": "object", "properties": {"from": {}}}} | form,
                "long": {"synchronous": False, "output": {"type": "string"}} | form,
            }
        )
    ).actions
    assert (found["go"].said["input"], found["go"].has_arguments, found["go"].said["safe"]) == (speed, True, False)
    assert found["go"].invoke == Form("https://garden.example/things/go", "POST")
    for name, schema in (("set", {"type": "integer"}), ("odd", {"type": "object", "properties": {"from": {}}})):
        assert found[name].said["input"] == {"type": "object", "properties": {"input": schema}, "required": ["input"]}
        assert not found[name].has_arguments
    assert "output" not in found["long"].said and found["long"].said["synchronous"] is True


def test_names_that_mean_something_else_are_left_out() -> None:
    """Each with its reason; the rest is served."""
    forms = {"forms": [{"href": "x"}]}
    found = read(td(properties={"a b": forms, "describe": forms, "lost": forms, "ok": forms}, actions={"ok": forms}))
    assert list(found.properties) == ["ok"] and [each.partition(":")[0] for each in found.left_out] == [
        "properties.a b", "properties.describe", "properties.lost", "actions.ok",
    ]  # fmt: skip
    many = read(td(properties={f"p{number}": forms for number in range(AFFORDANCES_MAX + 1)}))
    assert len(many.properties) == AFFORDANCES_MAX and "more than 256 affordances" in many.left_out[0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>", "it is no JSON"),
        (b"[]", "expected a JSON object"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "expected a JSON object of some levels"),
        (td(**{"@context": "https://www.w3.org/2031/wot/td/v3"}), "a Thing Description of another version"),
        (td(title=7), "no valid Thing Description: title"),
        (td(securityDefinitions={"key": {"scheme": "oauth2"}}), "its security is oauth2: expected one of nosec"),
        (td(securityDefinitions={"key": {"scheme": "apikey", "in": "query"}}), "its security is apikey"),
        ({key: value for key, value in td().items() if key != "id"}, "it has no id"),
    ],
)
def test_a_description_that_cannot_be_used_says_why(data: Any, words: str) -> None:
    """In one line."""
    with pytest.raises(DescriptionError) as caught:
        description_from(data if isinstance(data, bytes) else msgspec.json.encode(data), "", ())
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_description_without_an_id_is_known_by_its_url() -> None:
    """It is a URI as well."""
    assert read({key: value for key, value in td().items() if key != "id"}).id == AT


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://a.example/x", "https://a.example:443"),
        ("http://A.example:8080/x", "http://a.example:8080"),
        ("http://[::1]/", "http://[::1]:80"),
        ("http://a.example:99999/", ""),
        ("ftp://a.example/", ""),
        ("level", ""),
    ],
)
def test_origins(url: str, origin: str) -> None:
    """With the port, so that one comparison is enough."""
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:127.0.0.1"],
)
def test_addresses_of_this_host_and_its_link_are_near(address: str) -> None:
    """Also in the form of the other family."""
    assert is_near(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "192.168.1.7", "93.184.216.34", "2606:2800::1"])
def test_other_addresses_are_not(address: str) -> None:
    """Devices are in private networks."""
    assert not is_near(address)
