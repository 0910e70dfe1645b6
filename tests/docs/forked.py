"""Forked: for a page's shell, an `appbackplane` that is a fork of a process that has imported it (tests/launcher.py).

Imports are nine tenths of the CPU of most commands, and the pages type four hundred. All else is as when it is typed: the
installed script, its words, folder, environment, standard streams and exit code. What a command starts is as always.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.docs.forked_client import OWN
from tests.launching import is_forked_in, start
from tests.zygote import MESSAGE_BYTES_MAX

CLIENT = Path(__file__).with_name("forked_client.py")
#: As pip has installed it.
SCRIPT = Path(sys.executable).with_name("appbackplane")


class ForkedCommands:
    """A folder for PATH, with an `appbackplane` that lives as long as this does."""

    def __init__(self, folder: Path) -> None:
        """`folder`: a short path, because a socket is in it."""
        self.folder = folder
        folder.mkdir()
        address, program = folder / "socket", folder / "appbackplane"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(address))
        self._socket.listen()
        words = [sys.executable, "-I", "-S", *map(str, (CLIENT, address, SCRIPT))]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # `accept` returns
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=_serve, args=(client,), daemon=True).start()


def _serve(client: socket.socket) -> None:
    """One command, to its end, or until its client is killed."""
    with client, suppress(ConnectionError):
        message, streams, _, _ = socket.recv_fds(client, MESSAGE_BYTES_MAX, 3)
        if not message:
            return
        folder, count, *rest = map(os.fsdecode, message.split(b"\0"))
        words, variables = rest[: int(count)], dict(each.split("=", 1) for each in rest[int(count) :])
        try:
            if not is_forked_in(variables):
                client.send(OWN)
                return
            process = start(SCRIPT, words, variables, Path(folder), streams)
        finally:
            for stream in streams:
                os.close(stream)
        select.select([process, client], [], [])
        process.send_signal(signal.SIGTERM)  # if it has not ended, its client has
        client.send(str(process.wait()).encode())
