"""Sources: where messages come from besides routes and topics, and how handlers send some of their own (seed 003, 3.2 and 5).

Each is an `ActiveObject` that handlers are given as it is, or protected data, which is locked while its messages are handled.
What takes time is begun, and ends in a message with the same transaction id; nothing here waits. A source emits while its
component serves; one that is attached to no dispatcher collects what it would emit, for tests of handlers.
Read `source.py` first. Only `sockets/io_thread.py` has a thread, only `block_memory.py` maps memory.
"""

from .block import Block, BlockGone
from .block_pool import BlockPool
from .outlet import Outlet
from .source import Source
from .timer_source import TimerSource

__all__ = ["Block", "BlockGone", "BlockPool", "Outlet", "Source", "TimerSource"]
