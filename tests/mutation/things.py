"""Things: what is published, what is served from the cache, and to whom."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

THINGS = "runtime/things"
WEB = f"{THINGS}/web"
TESTS = "tests/runtime/things"


def thing(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to describe a thing wrongly, or to keep a change to itself."""
    return Mutation(
        "things", f"{THINGS}/{file}", text, replacement, breaks, (f"{TESTS}/test_thing.py", f"{TESTS}/test_schemas.py")
    )


def web(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to answer with an old value, or to a stranger."""
    return Mutation(
        "things",
        f"{WEB}/{file}",
        text,
        replacement,
        breaks,
        (f"{TESTS}/web/test_parts.py", f"{TESTS}/web/test_gateway.py"),
    )


MUTATIONS = (
    thing(
        "what was there already is told again", "thing.py", "if self._notified.get(each.name) != packed:", "if True:"
    ),
    thing(
        "properties that are not observable are told",
        "thing.py",
        "            if not each.is_observable:\n",
        "            if False:\n",
    ),
    thing(
        "a method that fails keeps its changes to itself",
        "thing.py",
        "            try:\n                return await function(self, *arguments, **keywords)\n            finally:\n"
        "                self.notify_changes()",
        "            result = await function(self, *arguments, **keywords)\n            return result",
    ),
    thing("a write is not checked", "affordances.py", "    setter.__annotations__[parameter] = read\n", "    pass\n"),
    thing("two types of one property pass", "affordances.py", "        if kind != written:", "        if False:"),
    thing(
        "data of any type is an event's", "thing.py", "            converted(event.kind, body)\n", "            pass\n"
    ),
    thing(
        "a key that is no URI is an id",
        "description.py",
        "if key is not None and _URI.fullmatch(key):",
        "if key is not None:",
    ),
    thing("a type that contains itself is written out for ever", "schemas.py", "if name in within:", "if False:"),
    thing("an integer fits two alternatives", "schemas.py", 'if {"type": "number"} not in alternatives:', "if True:"),
    thing(
        "fields are taken for keywords",
        "schemas.py",
        '_INNER: Final = ("items", "additionalProperties", "oneOf")',
        '_INNER: Final = ("items", "additionalProperties", "oneOf", "properties")',
    ),
    web("a value outlives its process", "cache.py", "found is not None and found[0] == process", "found is not None"),
    web(
        "a place that has started again keeps its things",
        "catalogue.py",
        "place.is_up and place.generation == entry.generation",
        "place.is_up",
    ),
    web("replicas share one value", "catalogue.py", "is_replicated=known is not None", "is_replicated=False"),
    web(
        "two things with one id take turns",
        "catalogue.py",
        "                    continue\n",
        "                    pass\n",
    ),
    web("a loss is not told", "history.py", "return entries[0], first - number - 1", "return entries[0], 0"),
    web("ids of another process count", "history.py", "said == epoch and ", ""),
    web("an invocation is everybody's", "invocations.py", "and found.principal == principal", ""),
    web("all that run may be forgotten", "invocations.py", "if each.task.done()), None)", "), None)"),
    web(
        "the time to come back is rounded down",
        "problems.py",
        "math.ceil(error.retry_after)",
        "math.floor(error.retry_after)",
    ),
    web(
        "a page of another site is let in", "server.py", "if origin is not None and origin !=", "if False and origin !="
    ),
    web("a rebound name is let in", "server.py", "if request.url.host not in _LOCAL:", "if False:"),
    web("anybody is let in", "server.py", "        elif not scheme and self._anonymous:", "        elif not scheme:"),
    web("other hosts are listened to", "gateway.py", "    if not is_loopback:", "    if False:"),
)
