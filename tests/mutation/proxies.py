"""Proxies: whose things are served, who is believed, and what a description that others write may have this host do."""

from __future__ import annotations

from tests.mutation.mutation import mutations

THINGS = "runtime/things"
TESTS = "tests/runtime/things"

MUTATIONS = (
    *mutations(
        "proxies",
        "runtime/peers/inward.py",
        ("tests/runtime/peers/test_inward.py",),
        ("every node speaks for users", "if holder.name in self._believed else None", ""),
        ("another host's clients are this one's", "None if principal is None or is_of_host(principal)", "None if False"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/nodes/news.py",
        (f"{TESTS}/nodes/test_news.py",),
        ("a gap is not told", "is_gap = is_gap or number + 1 < kept[0][0]", "is_gap = False"),
        ("a reader gets a message twice", "0 if is_gap else number + 1 - kept[0][0]", "0 if is_gap else number - kept[0][0]"),
        ("a loss is not told", "number < self._missing", "False"),
        ("an answer has any size", "if found and size > ANSWER_BYTES_MAX:", "if False:"),
        ("a feed has any size", "(self._bytes > BYTES_MAX and len(self._kept) > 1)", "False"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/web/mirror.py",
        (f"{TESTS}/web/test_node_watch.py",),
        (
            "a node tells the values of another", "entry.node == node.name:\n            self._cache.put",
            "True:\n            self._cache.put",
        ),
        ("a search finds what may have changed", "):\n                self._cache.drop(id, name)", "):\n                pass"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/web/node_watch.py",
        (f"{TESTS}/web/test_node_watch.py",),
        ("a node is asked for the first values alone", "after, is_last = part.last, part.last <= after", "is_last = True"),
        ("a node keeps a gateway busy for ever", "part.last <= after", 'part.last == ""'),
        ("values behind a gap are not asked for", "            await self._take_values(node)\n", ""),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/nodes/consumed_node.py",
        (f"{TESTS}/nodes/test_consumed_node.py",),
        ("a node that has said nothing permits everything", "self.is_limited = True\n", "self.is_limited = False\n"),
        ("a node decides by the ids of another", "principal, entry.home_id, entry.types", "principal, entry.id, entry.types"),
        ("a link of one node opens another", 'known if known != principal else f"{principal}@"', "known"),
        ("two nodes share an id", 'f"{_OWN}{self.name}/{id.removeprefix(_OWN)}" if id.startswith(_OWN) else id', "id"),
        ("users are asked for by any name", "or principal in self._operators", "or bool(principal)"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/proxies/consumed_description.py",
        (f"{TESTS}/proxies/test_consumed_description.py",),
        ("a description names any host", "elif origin_of(url) not in allowed:", "elif False:"),
        ("a user in a URL hides its host", "or parts.username is not None", ""),
        ("the other family hides an address", "    if mapped is not None:\n", "    if False:\n"),
        ("an address of the link is far", "ip.is_loopback or ip.is_link_local", "ip.is_loopback"),
        ("a property is written without a form", "if write is None or said.get", "if said.get"),
        ("any version is read", "if TD_CONTEXT not in contexts and TD_CONTEXT_2019 not in contexts:", "if False:"),
        ("affordances have no bound", ">= AFFORDANCES_MAX:", ">= 10 * AFFORDANCES_MAX:"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/proxies/stream_parser.py",
        (f"{TESTS}/proxies/test_stream_parser.py",),
        ("an event of many lines has any size", "if self._bytes > EVENT_BYTES_MAX:", "if False:"),
        ("half an event is one", 'self._rest, self._kind, self._data, self._bytes = b"", "", [], 0', "pass"),
        ("an empty event is one", "            if self._data:\n", "            if True:\n"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/proxies/http_errors.py",
        (f"{TESTS}/proxies/test_http_errors.py",),
        ("a thing puts callers off for a day", "min(float(said), RETRY_AFTER_S_MAX)", "float(said)"),
        ("the credentials of this system are the caller's fault", "if status in (401, 403):", "if status == 401:"),
    ),
    *mutations(
        "proxies",
        f"{THINGS}/proxies/consumed_thing.py",
        (f"{TESTS}/proxies/test_consumed_thing.py",),
        ("an old value is kept behind a write", "and changes_count == self._changes_count", ""),
        ("a write leaves what was read", "        self._read.clear()\n", "        pass\n"),
        ("any number waits", "if self._outstanding >= self._limits.requests + self._limits.waiting:", "if False:"),
        ("a gateway answers with what was observed", "    __is_proxy__ = True\n", ""),
    ),
)  # fmt: skip
