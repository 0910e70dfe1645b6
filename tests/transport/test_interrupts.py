"""Interrupts: Ctrl-C in one thread of a client, at each point where its exception may strike, and who else uses the client.

Python hears of a signal where a function begins, and after a call of C; compiled code only in the calls of a socket that they
interrupt. Each of these points is struck once.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import zmq

from appbackplane.transport import connect
from appbackplane.transport import link as link_module
from appbackplane.transport.call_checks import asked
from appbackplane.transport.client import Client
from appbackplane.transport.errors import BackplaneError, FailedPrecondition, PeerDown
from appbackplane.transport.handles import PendingCall
from appbackplane.transport.link import LARGE_BYTES
from tests.transport.striking import strike_until
from tests.waiting import LIMIT_S

#: Files in which a signal's exception may strike: ours, and those of Python code that they use to send a large frame.
FOLDERS = (os.path.dirname(link_module.__file__), os.path.dirname(zmq.__file__), threading.__file__)
#: Methods of a socket that are no functions of Python's.
OF_A_SOCKET = ("_send", "_recv", "_get")
OTHERS = 3


class Strike:
    """Raises KeyboardInterrupt at the `number`-th point that this thread passes."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(FOLDERS):
            self.pass_point(f"{event} in {frame.f_code.co_qualname}, line {frame.f_lineno}")

    def pass_point(self, where: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.where = where
            raise KeyboardInterrupt


class Points:
    """Of one client; `strike` is what its socket's methods pass, in this thread."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.strike: Strike | None = None
        self._thread = threading.get_ident()
        link = client._calling._link
        for name in OF_A_SOCKET:
            monkeypatch.setattr(link, name, self._passing(name, getattr(link, name)))

    def _passing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            done = method(*arguments)
            if self.strike is not None and threading.get_ident() == self._thread:
                self.strike.pass_point(name)
            return done

        return call

    def interrupt(self, number: int, act: Callable[[], object]) -> Strike:
        """Do it, and strike."""
        strike = self.strike = Strike(number)
        sys.setprofile(strike)
        try:
            act()
        except (KeyboardInterrupt, PeerDown):
            pass
        finally:
            sys.setprofile(None)
            self.strike = None
        return strike


@pytest.fixture
def client(stand_in: Any, run_dir: Path) -> Iterator[Client]:
    """Connected to the stand-in."""
    with connect(run_dir) as connected:
        yield connected


def put(client: Client, **arguments: Any) -> PendingCall:
    """A call of another thread's that has gathered, and leaves with whatever leaves next."""
    pending = PendingCall(client._calling, "query.echo")
    with client._calling._lock:
        client._calling._begin(pending, asked("query.echo", None, None, LIMIT_S, None, arguments))
    return pending


ACTS: dict[str, Callable[[Client], object]] = {
    "call": lambda client: client.call("query.echo"),
    "submit": lambda client: client.submit("query.echo").result(),
    "cast": lambda client: client.cast("query.note"),
    "flush": lambda client: client.flush(),
    "large call": lambda client: client.call("query.echo", text="x" * LARGE_BYTES),
    "large cast": lambda client: client.cast("query.note", text="x" * LARGE_BYTES),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_wherever_ctrl_c_strikes_the_calls_of_others_end(
    client: Client, stand_in: Any, act: Callable[[Client], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They left in its frame, or their answers came to its hands: each is made once, and ends at once, nearly always well."""
    act(client)  # it is connected
    points, strike = Points(client, monkeypatch), Strike(0)
    number = 0
    with ThreadPoolExecutor(1) as pool:
        while number == 0 or strike.where:
            number += 1
            others = [put(client, number=number, other=other) for other in range(OTHERS)]
            strike = points.interrupt(number, lambda: act(client))
            for other, pending in enumerate(others):
                error = pool.submit(pending.exception, LIMIT_S / 2).result(LIMIT_S)
                if error is None:
                    assert pending.result() == {"number": number, "other": other}
                else:
                    assert isinstance(error, PeerDown) and strike.where == "_recv", f"{strike.where}: {error!r}"
    heard = [envelope.body.get("number") for envelope in stand_in.wait_for_route("query.echo")]
    assert [heard.count(one) for one in range(1, number + 1)] == [OTHERS] * number, "each is made once"
    assert number > OTHERS
    assert client.call("query.echo", n=1) == {"n": 1}


def test_a_listener_misses_no_message_wherever_ctrl_c_strikes(
    client: Client, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that was being read is read on. Only a message that was being handed over may come twice."""
    heard = client.subscribe("files.changed")
    points, strike, number = Points(client, monkeypatch), Strike(0), 0
    lost_count = 0
    while number == 0 or strike.where:
        number += 1
        stand_in.publish("files.changed", {"number": number})
        strike = points.interrupt(number, lambda: client.call("query.echo"))
        lost_count += strike.where == "_recv"  # of a frame, which may be of a message that came late
    stand_in.publish("files.changed", {"number": None})
    numbers = []
    while (message := heard.get(LIMIT_S)).body["number"] is not None:
        numbers.append(message.body["number"])
    assert sorted(numbers) == numbers and len(set(range(1, number + 1)) - set(numbers)) <= lost_count


# -- signal handlers that use the client ------------------------------------------------------------------------------


def handled(
    client: Client, act: Callable[[Client], object], interrupted: Callable[[list[Any]], Any]
) -> tuple[Any, list[Any]]:
    """What `interrupted` returns, and what a signal handler got that used the same client meanwhile. It is given what that
    got so far.
    """
    got: list[Any] = []

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            got.append(act(client))
        except BackplaneError as error:
            got.append(error)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        return interrupted(got), got
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_signal_handler_that_uses_the_client_it_interrupts_is_told_what_to_do(
    client: Client, stand_in: Any, act: Callable[[Client], object]
) -> None:
    """It would wait for the thread that it interrupts, or change what that is at; the call itself goes on."""

    def call(got: list[Any]) -> Any:
        def interrupt(envelope: Any) -> Any:
            strike_until(lambda: got)  # once the answer has come, it would interrupt nothing
            return envelope.body

        stand_in.hooks["query.hang"] = interrupt
        return client.call("query.hang", n=1, timeout=LIMIT_S)

    result, got = handled(client, act, call)
    assert result == {"n": 1}
    assert [type(error) for error in got] == [FailedPrecondition]
    assert "set a flag" in str(got[0])


def test_a_signal_handler_that_strikes_within_a_turn_is_told_so_too(client: Client, stand_in: Any) -> None:
    """The lock knows its owner, and would let it in."""
    with client._calling._lock:
        _, got = handled(client, ACTS["call"], lambda _: os.kill(os.getpid(), signal.SIGUSR1))
    assert [type(error) for error in got] == [FailedPrecondition]


def test_a_signal_handler_may_use_a_client_that_its_thread_does_not_use_now(client: Client, stand_in: Any) -> None:
    """Also after a call that was interrupted."""
    test_a_signal_handler_that_strikes_within_a_turn_is_told_so_too(client, stand_in)
    _, got = handled(
        client, lambda client: client.call("query.echo", n=1), lambda _: os.kill(os.getpid(), signal.SIGUSR1)
    )
    assert got == [{"n": 1}]
