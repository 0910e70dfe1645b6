"""Who calls, between real processes: the kernel tells it, and no peer can say otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from appbackplane.transport import PermissionDenied
from appbackplane.transport.addressing import backplane_socket
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.envelope import Envelope, call
from appbackplane.transport.local_links import kind_at, local_link
from tests.waiting import wait_until

from .conftest import System, Up, standing

TOML = """
[backplane.inn]
components = ["components:Guest"]
{rules}
[backplane.town]
components = ["components:Host"]
"""


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """Without rules."""
    with standing(TOML.format(rules="")) as system:
        yield system


def test_an_operation_is_told_who_calls(system: System) -> None:
    with system.connect() as client:
        assert client.call("guest.who") == [f"client:client/{os.getpid()}", None]
        assert client.call("host.introduce") == ["town/host", None]
        assert client.call("host.introduce", user="ada") == ["town/host", "ada"]


def test_who_bears_the_identity_of_a_backplane_is_a_client_all_the_same(system: System) -> None:
    """It says that it is one, whom it calls for, and which objects wait: nothing of it is believed."""
    path = backplane_socket(system.run_dir, "inn", 1)
    link = local_link(kind_at(path), "town-1")
    try:
        peer = link.connect(path)
        spec = CallSpec("guest.who", {}, source="town/host", principal="ada")
        frame = batch([Encoder().encode(call(1, spec, None, [["town/host", "host.introduce"]]))])
        wait_until(lambda: link.send(peer, frame).name == "SENT", "it is connected")
        answers: list[Envelope] = []

        def is_answered() -> bool:
            received = link.receive()
            answers.extend([] if received is None else decode(received[1]))
            return any(answer.id == 1 for answer in answers)

        wait_until(is_answered, "the answer has come")
        source, principal = next(answer.body for answer in answers if answer.id == 1)
        assert source.startswith("client:town-1-") and source.endswith(f"/{os.getpid()}")
        assert principal is None
    finally:
        link.close()


def test_the_configuration_refuses_a_source(up: Up) -> None:
    system = up(TOML.format(rules='sources = { "client:*" = "refuse", "town/*" = 0 }'))
    with system.connect() as client:
        with pytest.raises(PermissionDenied, match=f"client:client/{os.getpid()}"):
            client.call("guest.who")
        assert client.call("host.introduce") == ["town/host", None]
