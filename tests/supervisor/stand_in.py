"""A backplane process of few words, for what a real one would never do: it refuses to stop, lies, or sends garbage.

Run by the supervisor instead of `appbackplane.runtime.process`; its behaviour comes with the settings of its component.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import msgspec

from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport.addressing import supervisor_socket
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.directory import ComponentEntry, Registration
from appbackplane.transport.envelope import CALL, CAST, Envelope, reply
from appbackplane.transport.link import Link


def main() -> None:
    """One life."""
    config = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=ProcessConfig)
    behaviour = next(iter(config.settings.values()), {}).get("behaviour", "good")
    link = Link(f"control/{config.backplane}-{config.generation}", config.token)
    supervisor = link.connect(supervisor_socket(Path(config.run_dir)))
    encoder = Encoder()

    def send(envelope: Envelope) -> None:
        link.send(supervisor, batch([encoder.encode(envelope)]))

    if behaviour == "garbage":
        for _ in range(100):
            link.send(supervisor, b"\xc1 garbage")
    if behaviour == "stubborn":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if behaviour != "mute":
        entry = ComponentEntry(config.components[0].partition(":")[2].lower())
        pid = 1 if behaviour == "liar" else os.getpid()
        registration = Registration(config.backplane, config.generation, pid, "nowhere", (entry,))
        body = {"registration": msgspec.to_builtins(registration)}
        send(Envelope(CALL, 1, 0, "supervisor.register", None, None, None, body))
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    assert config.lifeline_fd is not None
    poll.register(config.lifeline_fd, select.POLLIN)
    while True:
        while (received := link.receive()) is not None:
            for envelope in decode(received[1]):
                if envelope.kind == CALL:
                    if behaviour == "dies_moving_down" and envelope.body.get("state") == "down":
                        print("no more", file=sys.stderr, flush=True)
                        os._exit(3)
                    send(reply(envelope.id, {}))
                elif envelope.kind == CAST and envelope.route == "control.stop" and behaviour != "stubborn":
                    link.close()
                    os._exit(0)
        if any(fd == config.lifeline_fd for fd, _ in poll.poll()):
            os._exit(1)


if __name__ == "__main__":
    main()
