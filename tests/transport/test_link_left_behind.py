"""A link that nobody closed lets go of its socket by itself."""

import subprocess
import sys

from tests.waiting import LIMIT_S

LEAVE_BEHIND = """
import gc
from appbackplane.transport.link import Link

class Holder:
    def __init__(self):
        self.link = Link("left-behind")
        self.itself = self  # only the collector can free it, as with a client

Holder()
gc.collect()
print("collected")
kept = Link("kept until exit")
"""


def test_a_link_that_is_collected_does_not_stop_the_program() -> None:
    """ZeroMQ waits for open sockets when a context ends: the collector would hang, anywhere in a user's program."""
    ended = subprocess.run(
        [sys.executable, "-c", LEAVE_BEHIND], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "collected\n"), ended.stderr
