"""Wrong calls, by clients, by objects and by the command line: each is told what is wrong with it, and the system goes on."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.transport import (
    BackplaneError,
    Busy,
    Client,
    InternalError,
    InvalidArgument,
    NotFound,
    Unavailable,
)
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.unpacking import VALUES_MAX
from tests.nesting import UNREADABLE_DEPTH, nested

from .conftest import LIMIT_S, System, command

TOO_LARGE = bytes(FRAME_BYTES_MAX + 1)
LONG = "x" * 4_000_000


CALLS: list[tuple[str, dict[str, Any], type[BackplaneError], str]] = [
    ("shelf.ad_up", {}, NotFound, r"no route 'shelf\.ad_up' \(did you mean 'shelf\.add_up'\?\)"),
    ("shelve.add_up", {}, NotFound, r"did you mean 'shelf\.add_up'"),
    ("supervisor.stauts", {}, NotFound, r"no route 'supervisor\.stauts'"),
    ("backplane.nowhere.statistics", {}, NotFound, r"no route 'backplane\.nowhere\.statistics'"),
    ("backplane.shelves.explode", {}, NotFound, r"no route 'backplane\.shelves\.explode'"),
    (
        "shelf.add_up",
        {},
        InvalidArgument,
        r"shelf\.add_up: missing argument 'numbers'; expected \(numbers: list\[int\]",
    ),
    ("shelf.add_up", {"numbers": [], "stop": 1}, InvalidArgument, r"shelf\.add_up: unknown argument 'stop'"),
    ("shelf.add_up", {"numbers": "many"}, InvalidArgument, r"argument 'numbers': expected `array`, got `str`"),
    ("shelf.add_up", {"numbers": [1, "2"]}, InvalidArgument, r"argument 'numbers\[1\]': expected `int`"),
    ("shelf.add_up", {"numbers": [1], "start": None}, InvalidArgument, r"argument 'start': expected `int`"),
    (
        "shelf.add_up",
        {"numbers": [2**70]},
        InvalidArgument,
        r"shelf\.add_up: the value of 'numbers' cannot be serialised",
    ),
    ("shelf.add_up", {"numbers": [2**63, 2**63]}, InternalError, r"shelf\.add_up returned what cannot be sent"),
    (
        "shelf.add_up",
        {"numbers": nested(5_000)},
        InvalidArgument,
        r"shelf\.add_up: the value of 'numbers' cannot be serialised",
    ),
    ("shelf.add_up", {"numbers": nested(UNREADABLE_DEPTH)}, InvalidArgument, r"^the call cannot be read: "),
    (
        "shelf.add_up",
        {"numbers": [[]] * VALUES_MAX},
        InvalidArgument,
        r"cannot be read: one message holds at most 2,097",
    ),
    ("shelf.add_up", {"numbers": nested(400)}, InvalidArgument, r"argument 'numbers\[0\]': expected `int`"),
    ("shelf.add_up", {"numbers": TOO_LARGE}, InvalidArgument, r"shelf\.add_up: .* exceed the limit of 16,777,2"),
    ("shelf.add_up", {LONG: 1}, InvalidArgument, r"unknown argument|missing argument"),
    ("shelf.give", {"count": len(TOO_LARGE)}, InternalError, r"shelf\.give returned what cannot be sent: .* limit"),
    ("shelf.give_unknown", {}, InternalError, r"shelf\.give_unknown returned what cannot be sent"),
    ("shelf.give_nowhere", {}, InternalError, r"shelf\.give_nowhere returned what cannot be sent"),
    ("shelf.fail", {"text": "no more shelves"}, InternalError, r"^shelf\.fail: RuntimeError: no more shelves$"),
    ("shelf.leave", {}, InternalError, r"shelf\.leave: SystemExit: 3"),
    ("shelf.stand_by", {}, Unavailable, r"not served while shelves/shelf is primary \(served in: secondary\)"),
    ("backplane.shelves.threads", {"count": -1}, InvalidArgument, r"-1 threads: expected 1 to 256"),
    ("backplane.shelves.quotas", {"quotas": [-5]}, InvalidArgument, r"-5"),
    ("backplane.shelves.limits", {"component": "x", "max_requests": 1}, NotFound, r"no component 'x' here"),
    ("backplane.shelves.add_object", {"component": "shelf", "kind": "Plac"}, NotFound, r"no class 'Plac': .*Place"),
    ("backplane.shelves.remove_object", {"component": "shelf", "object_key": "x"}, NotFound, r"key 'x'"),
    ("backplane.shelves.subscribe", {"topic": "a..b"}, InvalidArgument, r"'a\.\.b'"),
    ("supervisor.status", {"filling": bytes(3 << 20)}, InvalidArgument, r"exceed the limit of 2,097,152"),
    ("supervisor.why", {"asked": "x" * 15_000_000}, InvalidArgument, r"exceed the limit of 2,097,152"),
    ("supervisor.register", {}, InvalidArgument, r"supervisor\.register: Expected `object`"),
    (
        "supervisor.register",
        {"registration": {"backplane": "x"}},
        InvalidArgument,
        r"missing required field `generation`",
    ),
]


@pytest.mark.parametrize(
    ("route", "arguments", "error", "words"), CALLS, ids=[f"{c[0][:30]}-{n}" for n, c in enumerate(CALLS)]
)
def test_a_wrong_call_is_told_what_is_wrong_with_it(
    client: Client, route: str, arguments: dict[str, Any], error: type[BackplaneError], words: str
) -> None:
    """At once, and in words that name the route, the argument and what was expected."""
    with pytest.raises(error, match=words) as told:
        client.call(route, arguments=arguments, timeout=LIMIT_S)
    assert len(str(told.value)) < 10_000


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"key": "bottom"}, NotFound, "shelf has no object with key 'bottom'"),
        ({"key": LONG}, NotFound, "shelf has no object with key 'xxx"),
        ({"priority": 8}, InvalidArgument, r"shelf\.where: priority 8, expected 0\.\.7"),
        ({"priority": -1}, InvalidArgument, "priority must be a whole number from 0"),
        ({"timeout": 0}, InvalidArgument, "timeout must be seconds above 0"),
        ({"timeout": float("nan")}, InvalidArgument, "timeout must be seconds above 0"),
    ],
)
def test_a_call_with_wrong_options_is_told(
    client: Client, options: dict[str, Any], error: type[BackplaneError], words: str
) -> None:
    """Which object, which priority, how long: each is checked where it is known."""
    with pytest.raises(error, match=words):
        client.call("shelf.where", **options)
    with pytest.raises(NotFound, match=r"shelf\.top does not serve shelf\.add_up"):
        client.call("shelf.add_up", key="top", numbers=[])


@pytest.mark.parametrize("topic", ["", "a..b", "*", None, 5, b"a"])
def test_what_cannot_be_heard_is_refused(client: Client, topic: Any) -> None:
    """At once, and by the client itself: no backplane would ever confirm it."""
    with pytest.raises(InvalidArgument, match=r"subscribe to a topic such as 'files\.changed'"):
        client.subscribe(topic)


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("a name that is no Unicode", InternalError, r"FileNotFoundError: /tmp/\\udcff"),
        ("a long story", InternalError, "RuntimeError: longlong"),
        ("unprintable", InternalError, "Unprintable"),
        ("a delay that is no number", Busy, "full"),
    ],
)
def test_an_error_that_is_hard_to_tell_is_told_all_the_same(
    client: Client, how: str, error: type[BackplaneError], words: str
) -> None:
    """What an operation raises is its own; it must not end the process, nor the answers that travel with it."""
    with pytest.raises(error, match=words):
        client.call("shelf.fail_strangely", how=how, timeout=LIMIT_S)


@pytest.mark.parametrize(
    "how",
    [
        "no route", "timeout of no length", "timeout in words", "timeout for ever", "priority in words",
        "negative priority", "key that is no name",
    ],
)  # fmt: skip
def test_an_object_that_calls_wrongly_is_told_where_it_does(client: Client, how: str) -> None:
    """A slip in one operation ends that operation, not the process that it shares with others, nor theirs with the callee."""
    with pytest.raises(InternalError, match=r"shelf\.call_badly: \w+: .*(route|timeout|priority|key)"):
        client.call("shelf.call_badly", how=how, timeout=LIMIT_S)


def test_work_for_next_year_can_be_planned(client: Client) -> None:
    """No clock of ours ends before the calendar does."""
    for seconds in (3e6, 1e8, 1e10):
        client.call("shelf.plan_ahead", seconds=seconds)


# What the command line is given


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("call", "shelf.ad_up"), 1, "no route 'shelf.ad_up' (did you mean 'shelf.add_up'?)"),
        (("call", "shelf.add_up"), 1, "missing argument 'numbers'"),
        (("call", "shelf.add_up", "numbers=many"), 1, "argument 'numbers': expected `array`"),
        (("call", "shelf.add_up", "numbers"), 2, "arguments are given as key=value"),
        (("call", "shelf.where", "--key", "bottom"), 1, "no object with key 'bottom'"),
        (("call", "shelf.stand_by"), 1, "served in: secondary"),
        (("call", "shelf.fail", "text=oh"), 1, "shelf.fail: RuntimeError: oh"),
        (("call", "shelf.where", "--priority", "999"), 2, "999 is not in the range"),
        (("call", "shelf.where", "--timeout", "0"), 2, "0.0 is not in the range 0<x<=604800"),
        (("publish", "a..b"), 1, "'a..b'"),
        (("listen", "*"), 1, "'*'"),
        (("explode",), 2, "no command 'explode'"),
        (("status", "--jsno"), 2, "--json"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(shelves: System, words: tuple[str, ...], code: int, said: str) -> None:
    """Exit code 2 for what cannot be meant, 1 for what did not work; never a traceback."""
    about = words if words[0] in ("explode", "status") else (*words, "-s", shelves.name)
    ended = command(shelves.folder, *about)
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    (line,) = ended.stderr.splitlines()
    assert line.startswith("appbackplane: ")
    assert said in line
