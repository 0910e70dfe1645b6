"""The doorstep: an address is right, or it is not known; who is innocent is in no log."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from appbackplane.transport.security import links
from appbackplane.transport.security.doorstep import UNKNOWN, Doorstep, Event
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring

CAME, ENDED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
FAILED = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)

#: What ZeroMQ says, in the pieces in which it is taken.
Say = Callable[[list[list[Event]]], list[str]]


@pytest.fixture
def fds() -> Iterator[list[int]]:
    """Descriptors of two who are connected, from two addresses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = [socket.create_connection(listener.getsockname(), source_address=(f"127.0.0.{n}", 0)) for n in (2, 3)]
        far = [listener.accept()[0] for _ in near]
        yield [each.fileno() for each in far]
        for each in (*near, *far):
            each.close()


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Say]:
    """What is logged of what ZeroMQ says."""
    keyring, lines = Keyring(tmp_path), list[str]()
    keyring.make_own()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bound:
        links.server(bound, keyring)
        gatekeeper = Gatekeeper(context, keyring, lines.append)
        doorstep = Doorstep(bound, gatekeeper)

        def said(pieces: list[list[Event]]) -> list[str]:
            monkeypatch.setattr(doorstep, "_taken", lambda: pieces.pop(0) if pieces else [])
            while doorstep.look(0) or pieces:
                pass
            return [line.removeprefix("refused ").partition(" (")[0] for line in lines]

        yield said
        doorstep.close()
        gatekeeper.close()


def test_who_fails_is_logged_with_the_address_that_he_had_when_he_came(say: Say, fds: list[int]) -> None:
    """Two at once, and the later one fails first."""
    one, other = fds
    came, failed = [(CAME, one), (CAME, other)], [(FAILED, 1), (ENDED, other), (FAILED, 1), (ENDED, one)]
    assert say([came, [], failed]) == ["127.0.0.3", "127.0.0.2"]


def test_who_ended_before_he_was_asked_has_no_address(say: Say, fds: list[int]) -> None:
    """Whoever has his descriptor now is somebody else, and would be logged for him."""
    one, _ = fds
    assert say([[(CAME, one), (FAILED, 1), (ENDED, one), (CAME, one)], [], [(FAILED, 1), (ENDED, one)]]) == [
        UNKNOWN, "127.0.0.2",
    ]  # fmt: skip


def test_who_ended_while_he_was_asked_has_no_address(say: Say, fds: list[int]) -> None:
    """It is only known afterwards that the answer may have been another's."""
    one, _ = fds
    assert say([[(CAME, one)], [(FAILED, 1), (ENDED, one), (CAME, one)]]) == [UNKNOWN]


def test_who_goes_as_others_go_is_not_logged(say: Say, fds: list[int]) -> None:
    """A good peer that hangs up, before and after one that was refused."""
    one, other = fds
    went = [(ENDED, one), (FAILED, 1), (ENDED, other), (CAME, one), (ENDED, one)]
    assert say([[(CAME, one), (CAME, other)], [], went]) == ["127.0.0.3"]
