"""NodeRed: a thing as a Node-RED flow, to be imported there. It reaches the thing over the gateway. Pure.

The flow has stock nodes alone: inject, function, http request and debug. Each interaction is one row. Events and changes come
by long polling, one message a request. The token is no part of the flow: the functions read Node-RED's environment variable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from string import Template
from typing import Any, Final
from urllib.parse import quote

#: The environment variable that has the bearer token.
TOKEN: Final = "APPBACKPLANE_TOKEN"
#: Pixels between the rows and columns of the editor.
_ROW, _COLUMN = 60, 220

_HEADERS: Final = f"""\
const token = env.get("{TOKEN}");
msg.headers = token ? {{ Authorization: "Bearer " + token }} : {{}};
"""
_ASK: Final = Template(
    _HEADERS
    + """\
msg.method = $METHOD;
msg.url = $URL;
if (msg.method === "GET") delete msg.payload;
else { msg.payload = JSON.stringify(msg.payload); msg.headers["Content-Type"] = "application/json"; }
return msg;
"""
)
_SUBSCRIBE: Final = Template(
    _HEADERS
    + """\
msg.method = "GET";
msg.headers.Prefer = "wait=30";
msg.queue = msg.queue || "node-red-" + RED.util.generateId();
msg.url = $URL + "?sub=" + msg.queue;
delete msg.payload;
return msg;
"""
)
#: One message, or none within 30 s; the next request follows. After an error it waits, since the gateway may be starting.
_DELIVER: Final = """\
const again = { queue: msg.queue };
if (msg.statusCode === 200)
    return [{ topic: msg.topic, payload: JSON.parse(msg.payload), lost: msg.headers.lost }, again];
if (msg.statusCode === 204) return [null, again];
node.status({ fill: "red", shape: "ring", text: String(msg.statusCode) });
setTimeout(() => node.send([null, again]), 5000);
return null;
"""


def flow_of(model: Mapping[str, Any], base: str) -> list[dict[str, Any]]:
    """The flow of a thing. `model`: its Thing Model with its id, as `describe` returns it. `base`: address of the gateway.

    Raises ValueError for a `base` that does not begin with http and end with a slash.
    """
    if not base.startswith(("http://", "https://")) or not base.endswith("/"):
        raise ValueError(f"base = {base!r}: expected the address of the gateway: http://127.0.0.1:8080/")
    return [*_Flow(model["id"], f"{base}things/{quote(model['id'], safe='')}").nodes(model)]


class _Flow:
    """Makes the nodes, with ids that are the same each time."""

    def __init__(self, thing: str, path: str) -> None:
        self._thing = thing
        self._path = path
        self._row = 0
        self._tab = self._id("tab")

    def nodes(self, model: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"id": self._tab, "type": "tab", "label": model["title"], "info": model.get("description", "")}
        for name, said in model.get("properties", {}).items():
            path = f"properties/{quote(name, safe='')}"
            yield from self._ask(f"read {name}", "GET", path, None)
            if not said.get("readOnly"):
                yield from self._ask(f"write {name}", "PUT", path, _example(said))
            if said.get("observable"):
                yield from self._listen(f"changes of {name}", path)
        for name, said in model.get("actions", {}).items():
            given = said.get("input") or {}
            example = {each: _example(schema) for each, schema in given.get("properties", {}).items()}
            yield from self._ask(name, "POST", f"actions/{quote(name, safe='')}", example)
        for name in model.get("events", {}):
            yield from self._listen(name, f"events/{quote(name, safe='')}")

    def _ask(self, label: str, method: str, path: str, payload: Any) -> Iterator[dict[str, Any]]:
        """Inject the input, ask, and show the answer."""
        code = _ASK.substitute(METHOD=json.dumps(method), URL=json.dumps(f"{self._path}/{path}"))
        inject, ask, request, show = self._ids(label, 4)
        yield self._inject(inject, label, [ask], payload, is_once=False)
        yield self._node(ask, "function", label, 1, [[request]], func=code, outputs=1)
        yield self._request(request, 2, [show])
        yield self._debug(show, label, 3)
        self._row += 1

    def _listen(self, label: str, path: str) -> Iterator[dict[str, Any]]:
        """Poll from the start of the flow on, and show each message."""
        code = _SUBSCRIBE.substitute(URL=json.dumps(f"{self._path}/{path}/stream"))
        inject, ask, request, deliver, show = self._ids(label, 5)
        yield self._inject(inject, label, [ask], None, is_once=True)
        yield self._node(ask, "function", label, 1, [[request]], func=code, outputs=1)
        yield self._request(request, 2, [deliver])
        yield self._node(deliver, "function", "deliver", 3, [[show], [ask]], func=_DELIVER, outputs=2)
        yield self._debug(show, label, 4)
        self._row += 1

    def _inject(self, id: str, label: str, to: list[str], payload: Any, *, is_once: bool) -> dict[str, Any]:
        props = [{"p": "payload"}, {"p": "topic", "vt": "str"}]
        return self._node(
            id, "inject", label, 0, [to], props=props, topic=label, payload=json.dumps(payload), payloadType="json",
            once=is_once, onceDelay=0.1, repeat="", crontab="",
        )  # fmt: skip

    def _request(self, id: str, column: int, to: list[str]) -> dict[str, Any]:
        return self._node(id, "http request", "", column, [to], method="use", ret="txt", url="", persist=False)

    def _debug(self, id: str, label: str, column: int) -> dict[str, Any]:
        return self._node(
            id, "debug", label, column, [], active=True, tosidebar=True, complete="payload", targetType="msg"
        )

    def _node(self, id: str, kind: str, label: str, column: int, wires: list[list[str]], **more: Any) -> dict[str, Any]:
        place = {"x": 140 + column * _COLUMN, "y": 80 + self._row * _ROW}
        return {"id": id, "type": kind, "z": self._tab, "name": label, **place, "wires": wires, **more}

    def _ids(self, label: str, count: int) -> list[str]:
        return [self._id(f"{self._row} {label} {number}") for number in range(count)]

    def _id(self, text: str) -> str:
        return hashlib.sha256(f"{self._thing} {text}".encode()).hexdigest()[:16]


def _example(schema: Mapping[str, Any]) -> Any:
    """A value to begin with: the default, the least, or nothing."""
    if "default" in schema or "enum" in schema or "const" in schema:
        return schema.get("default", schema.get("const", next(iter(schema.get("enum", ())), None)))
    least = schema.get("minimum", 0)
    return {"string": "", "boolean": False, "integer": least, "number": least, "array": [], "object": {}}.get(
        schema.get("type", "")
    )
