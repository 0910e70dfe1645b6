"""Testing: a whole backplane in the test's own thread, with a clock that only the test moves. No sockets, no threads.

The scheduler, the admission, the codec and the worker loop's steps are the real ones; only the clock and the link are
replaced. So a test behaves the same every time, and as in a process. For the tests of your components and of this project.
Read `virtual_backplane.py` first.

>>> backplane = VirtualBackplane(Greeter())
>>> backplane.call("greeter.greet", name="Ada").result()
'Hello, Ada'
"""

from .jumps import jump_to_exit, jump_to_primary, jump_to_secondary
from .memory_link import MemoryLink
from .virtual_backplane import OutsideCall, VirtualBackplane
from .virtual_client import VirtualCall
from .virtual_clock import VirtualClock

__all__ = [
    "MemoryLink",
    "OutsideCall",
    "VirtualBackplane",
    "VirtualCall",
    "VirtualClock",
    "jump_to_exit",
    "jump_to_primary",
    "jump_to_secondary",
]
