"""Bad input, from all sides: each is answered by one clear error that names the thing, and the system goes on."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from appbackplane.transport import (
    BackplaneError,
    Busy,
    Client,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    Unavailable,
)
from appbackplane.transport.codec import FRAME_BYTES_MAX, Encoder, batch
from appbackplane.transport.envelope import CALL, CANCEL, CAST, PUBLISH, REPLY, STATUS, Envelope

from .conftest import System, Up, ask_until, command, lay_out, short_folder, systems_in

SHELVES = """
[backplane.shelves]
components = ["components:Shelf"]
[backplane.next-door]
components = ["components:Neighbour", "components:Hearer"]
"""
TOO_LARGE = bytes(FRAME_BYTES_MAX + 1)
LONG = "x" * 4_000_000


@pytest.fixture(scope="module")
def shelves(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: what one test does to it must not be felt by the next."""
    with short_folder() as folder, systems_in(folder) as begin:
        system = begin(SHELVES)
        system.wait_up()
        yield system


@pytest.fixture
def client(shelves: System) -> Iterator[Client]:
    """A client; afterwards the same processes serve as before."""
    before = shelves.pids()
    with shelves.connect() as client:
        yield client
        assert_goes_on(shelves, client, before)


def assert_goes_on(system: System, client: Client, pids: dict[str, int]) -> None:
    """Good calls are answered, and nobody has been restarted for it."""
    assert client.call("shelf.add_up", numbers=[1, 2], start=3, timeout=10) == 6
    assert client.call("neighbour.pid", timeout=10) == pids["next-door"]
    assert system.pids() == pids


# What clients call


def nested(depth: int) -> list[Any]:
    """A list in a list in a list …"""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


CALLS: list[tuple[str, dict[str, Any], type[BackplaneError], str]] = [
    ("shelf.ad_up", {}, NotFound, r"no route 'shelf\.ad_up' \(did you mean 'shelf\.add_up'\?\)"),
    ("shelve.add_up", {}, NotFound, r"did you mean 'shelf\.add_up'"),
    ("supervisor.stauts", {}, NotFound, r"no route 'supervisor\.stauts'"),
    ("backplane.nowhere.statistics", {}, NotFound, r"no route 'backplane\.nowhere\.statistics'"),
    ("backplane.shelves.explode", {}, NotFound, r"no route 'backplane\.shelves\.explode'"),
    ("shelf.add_up", {}, InvalidArgument, r"shelf\.add_up: missing argument 'numbers'; expected \(numbers: list\[int\]"),
    ("shelf.add_up", {"numbers": [], "stop": 1}, InvalidArgument, r"shelf\.add_up: unknown argument 'stop'"),
    ("shelf.add_up", {"numbers": "many"}, InvalidArgument, r"argument 'numbers': expected `array`, got `str`"),
    ("shelf.add_up", {"numbers": [1, "2"]}, InvalidArgument, r"argument 'numbers\[1\]': expected `int`"),
    ("shelf.add_up", {"numbers": [1], "start": None}, InvalidArgument, r"argument 'start': expected `int`"),
    ("shelf.add_up", {"numbers": [2**70]}, InvalidArgument, r"shelf\.add_up: a value cannot travel"),
    ("shelf.add_up", {"numbers": [2**63, 2**63]}, InternalError, r"shelf\.add_up returned what cannot be sent"),
    ("shelf.add_up", {"numbers": nested(5_000)}, InvalidArgument, r"shelf\.add_up: a value cannot travel"),
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
    ("supervisor.register", {}, InvalidArgument, r"supervisor\.register: Expected `object`"),
    ("supervisor.register", {"registration": {"backplane": "x"}}, InvalidArgument, r"missing required field `generation`"),
]


@pytest.mark.parametrize(("route", "arguments", "error", "words"), CALLS, ids=[f"{c[0][:30]}-{n}" for n, c in enumerate(CALLS)])
def test_a_wrong_call_is_told_what_is_wrong_with_it(
    client: Client, route: str, arguments: dict[str, Any], error: type[BackplaneError], words: str
) -> None:
    """At once, and in words that name the route, the argument and what was expected."""
    with pytest.raises(error, match=words) as told:
        client.call(route, arguments=arguments, timeout=10)
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
        client.call("shelf.fail_strangely", how=how, timeout=10)


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
        client.call("shelf.call_badly", how=how, timeout=10)


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
        (("call", "shelf.where", "--timeout", "0"), 1, "timeout must be seconds above 0"),
        (("publish", "a..b"), 1, "'a..b'"),
        (("listen", "*"), 1, "'*'"),
        (("explode",), 2, "No such command 'explode'"),
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


# What strangers send


def call(id: int = 1, priority: Any = 0, route: Any = "shelf.add_up", key: Any = None, deadline: Any = None,
         trace: Any = None, body: Any = None, chain: Any = None) -> bytes:  # fmt: skip
    """A frame of one call, of whatever kind of values."""
    return bytes(msgpack.packb([[CALL, id, priority, route, key, deadline, trace, body or {"numbers": []}, chain]]))


def one(*fields: Any) -> bytes:
    """A frame of one envelope."""
    return batch([Encoder().encode(Envelope(*fields))])


SEED = 20_241
FRAMES: dict[str, list[bytes]] = {
    "nothing": [b""],
    "no envelope": [b"\xc0", b"\x01", b"\x90", b"\x80", b"\x91\xc0", b"\x91\x90", b"hello", b"\xc1" * 100],
    "truncated": [call()[:length] for length in range(1, len(call()))],
    "wrong arity": [msgpack.packb([[CALL, 1, 0, "shelf.add_up"]]), msgpack.packb([[CALL] * 10]), msgpack.packb([[]])],
    "wrong kind": [msgpack.packb([[kind, 1, *[None] * 7]]) for kind in (-1, 0, 7, 2**63, None, "CALL", 1.5, [])],
    "wrong types": [
        call(route=5), call(route=None), call(body=[1]), call(key=[]), call(priority="x"), call(deadline=1.5),
        call(chain=[["a"]]), call(chain="abc"), call(trace=5), call(id=2**64 - 1, body={1: 2}),
    ],
    "odd values": [
        call(route=""), call(route="\0"), call(route="x" * 15_000_000), call(route="\1" * 5_000_000),
        call(key="k" * 15_000_000), call(id=-1), call(id=0), call(id=2**63), call(priority=-1), call(priority=2**62),
        call(deadline=-(2**63)), call(deadline=2**64 - 1), call(deadline=0), call(chain=[["a", "b"]] * 100_000),
        call(body={"k" * 15_000_000: 1}), call(body={1: 2, None: 3, b"x": 4}),
        call(route="backplane.shelves.add_object", body={"component": "shelf", "kind": "\2" * 5_000_000}),
    ],
    "deep": [b"\x91" * 100_000, b"\x81\xa1a" * 100_000, b"\x91\x99" + b"\x91" * 600 + b"\xc0"],
    "length bombs": [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"],
    "huge": [bytes(15_000_000), b"\xdd\x00\x20\x00\x00" + b"\x80" * 0x20_0000],
    "answers to nobody": [one(REPLY, 77), one(CANCEL, 77), one(CANCEL, -5), one(REPLY, 2**63), one(
        STATUS, 77, None, None, None, None, None, [5, "no", None, None])],
    "other kinds": [
        one(PUBLISH, 1, None, "a..b", None, None, None, {}), one(PUBLISH, 2**63, None, "", None, None, None, {}),
        one(PUBLISH, 1, None, "numbers.x", None, None, None, {"number": "x"}),
        one(CAST, 0, None, "control.stop", None, None, None, {}), one(CAST, 0, None, "nobody.home", None, None, None, {}),
        one(CALL, 1, None, "control.move", None, None, None, {"component": "shelf", "state": "down"}),
    ],
    "random bytes": [random.Random(SEED + n).randbytes(n) for n in range(1, 300)],
    "flipped bits": [
        bytes(byte ^ (1 << bit) if at == place else byte for at, byte in enumerate(call()))
        for place in range(len(call())) for bit in range(8)
    ],
    "after what is good": [batch([call()[1:], b"\xc1"]), batch([call()[1:], b"\x90"])],
}  # fmt: skip


def sockets(system: System) -> list[Path]:
    """The supervisor's, and a backplane's."""
    return [system.run_dir / "supervisor.sock", *system.run_dir.glob("shelves-*.sock")]


@pytest.mark.parametrize("kind", FRAMES)
def test_malformed_frames_end_nothing(shelves: System, client: Client, kind: str) -> None:
    """What is not understood is counted and dropped, or answered; a peer's bug must never become ours."""
    with zmq.Context() as context:
        for path in sockets(shelves):
            with context.socket(zmq.DEALER) as peer:
                peer.linger = 10_000
                peer.connect(f"ipc://{path}")
                for frame in FRAMES[kind]:
                    peer.send(frame)
                # Whatever became of those, this one is answered, behind them.
                route = "supervisor.status" if path.name == "supervisor.sock" else "backplane.shelves.statistics"
                peer.send(one(CALL, 4711, 0, route, None, None, None, {}))
                assert 4711 in answers(peer, until=4711)


def answers(peer: zmq.Socket[bytes], until: int) -> list[int]:
    """The ids that were answered, up to this one."""
    found: list[int] = []
    while until not in found:
        assert peer.poll(20_000), f"no answer; so far {found}"
        found += [envelope[1] for envelope in msgpack.unpackb(peer.recv())]
    return found


def test_messages_of_another_shape_end_nothing(shelves: System, client: Client) -> None:
    """Two frames, many frames, another protocol, no protocol at all, and connections that say nothing."""
    with zmq.Context() as context:
        context.linger = 1_000
        for path in sockets(shelves):
            mute = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            for stranger in mute:
                stranger.connect(str(path))
            mute[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
            mute[1].sendall(random.Random(SEED).randbytes(10_000))
            for kind in (zmq.REQ, zmq.PUB, zmq.PUSH, zmq.PAIR, zmq.SUB):
                with context.socket(kind) as peer:
                    peer.connect(f"ipc://{path}")
            with context.socket(zmq.DEALER) as peer:
                peer.connect(f"ipc://{path}")
                peer.send_multipart([call(), call()])
                peer.send_multipart([b""] * 10_000)
                peer.send(one(CALL, 4711, 0, "shelf.add_up", None, None, None, {"numbers": []}))
                assert answers(peer, until=4711) == [4711]
            for stranger in mute:
                stranger.close()


def test_what_was_malformed_is_counted_and_said_once_a_peer(shelves: System, client: Client) -> None:
    """Who looks for the reason finds it, and is not drowned in it."""
    before = client.call("backplane.shelves.statistics")["links"]["malformed"]
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 1_000
        peer.routing_id = b"a-certain-stranger"
        peer.connect(f"ipc://{sockets(shelves)[1]}")
        for _ in range(100):
            peer.send(b"\xc1")
        ask_until(client, "backplane.shelves.statistics", lambda told: told["links"]["malformed"] == before + 100)
    line = shelves.wait_for("a-certain-stranger")
    assert re.search(r"shelves +\| WARNING .*malformed frame from peer b'a-certain-stranger' dropped: not msgpack", line)
    assert sum("a-certain-stranger" in line for line in shelves.said) == 1


def test_nobody_but_the_supervisor_gives_orders(shelves: System, client: Client) -> None:
    """A backplane hears its orders over its control link; on its own socket the routes of control do not exist."""
    for route in ("control.stop", "control.move", "control.directory"):
        with pytest.raises(NotFound, match=re.escape(f"no route {route!r}")):
            client.call(route)
    with pytest.raises((FailedPrecondition, InvalidArgument)):
        client.call("supervisor.register", registration={
            "backplane": "shelves", "generation": 1, "pid": 1, "path": "/tmp/x", "components": [],
        })  # fmt: skip


# What is configured

CONFIGS: list[tuple[str, str, int, str]] = [
    ('[backplane.a]\ncomponents = ["components:Shelf"]\nthreds = 2', "", 2, "backplane.a.threds: unknown key (did you mean 'threads'?)"),
    ('[backplane.a]\ncomponents = ["components:Shelf"]\nthreads = "two"', "", 2, "backplane.a.threads: expected a whole number, got 'two'"),
    ('[backplane.a]\ncomponents = ["components:Shelf"]\ntick = "5 parsec"', "", 2, "backplane.a.tick: expected a duration"),
    ('[backplane.a]\ncomponents = "components:Shelf"', "", 2, "backplane.a.components: expected a list"),
    ("[backplane.a]\ncomponents = [", "", 2, "not TOML"),
    ("", "", 2, "backplane: expected at least one table"),
    ('[backplane.a]\ncomponents = ["components:Shelf", "components:Self"]', "", 1, "components has no Component 'Self' (it has: "),
    ('[backplane.a]\ncomponents = ["componets:Shelf"]', "", 1, "component 'componets:Shelf': No module named 'componets'"),
    ('[backplane.a]\ncomponents = ["components:Shelf"]\nsettings.Shelf.fails = "no wood"', "", 1, "its constructor failed: ValueError: no wood"),
    ('[backplane.a]\ncomponents = ["components:Shelf"]\nsettings.Shelf.widht = 1', "", 1, "unknown argument 'widht'"),
    ('[backplane.a]\ncomponents = ["components:Shelf"]\nsettings.Shelf.width = "x"', "", 1, "argument 'width': expected `int`"),
    ('[backplane.a]\ncomponents = ["components:Day"]\n[backplane.b]\ncomponents = ["components:Night"]', "", 1, "components depend on each other in a ring: day -> night -> day"),
    ('[backplane.a]\ncomponents = ["components:Middle"]', "", 1, "component 'middle' (backplane 'a') depends on 'bottom', which no backplane has"),
    ('[backplane.a]\ncomponents = ["components:Shelf"]\n[backplane.b]\ncomponents = ["components:Shelf"]', "", 1, "two components are named 'shelf'"),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "_", "code", "said"), CONFIGS, ids=[said[:40] for *_, said in CONFIGS])
def test_a_wrong_configuration_does_not_come_up_and_says_why(begin: Up, toml: str, _: str, code: int, said: str) -> None:
    """By `check` and by `up`, in the same words; and nothing of it is left."""
    system = begin(toml)
    checked = command(system.folder, "check", str(system.toml))
    assert (checked.returncode, checked.stdout) == (2, ""), checked
    assert said in checked.stderr
    assert "Traceback" not in checked.stderr
    assert system.wait_down() == code
    assert any(said in line for line in system.said), system.said
    assert not any("Traceback" in line for line in system.said)


def test_a_name_with_no_file_is_told(folder: Path) -> None:
    """Where it was looked for, and what to do."""
    lay_out(folder, "demo", SHELVES)
    ended = command(folder, "up", "demmo.toml")
    assert ended.returncode == 2
    assert "demmo.toml: cannot be read: No such file" in ended.stderr
    ended = command(folder, "call", "-s", "demo.toml", "shelf.where")
    assert ended.returncode == 1
    assert "system 'demo' is not running" in ended.stderr
