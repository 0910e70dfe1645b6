"""`appbackplane` of a page's shell: asks forked.py for a fork that has imported it, and ends as that does.

    python -I -S forked_client.py SOCKET SCRIPT WORDS...

Imports next to nothing, or it would cost what it is to save.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

#: The answer where an interpreter of its own is needed.
OWN = b"own"


def main() -> None:
    """Until the command has ended."""
    address, script, *words = sys.argv[1:]
    asked = socket(AF_UNIX, SOCK_SEQPACKET)
    asked.connect(address)
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    message = b"\0".join(os.fsencode(part) for part in (os.getcwd(), str(len(words)), *words, *variables))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    asked.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, streams)])
    answer = asked.recv(16)
    if answer == OWN:
        os.execv(sys.executable, [sys.executable, script, *words])
    assert answer, "the tests have ended"
    if (code := int(answer)) < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
