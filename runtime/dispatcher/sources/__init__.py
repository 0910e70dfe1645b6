"""Sources: emit messages that come neither by route nor by topic, and let handlers send some (seed 003, 3.2 and 5).

Each is an `ActiveObject`, which handlers get as it is, or protected data, which is locked while its messages are handled. A
long operation is begun, and ends in a message with the same transaction id; nothing here waits. A source emits while its
component serves. Without a dispatcher it collects its messages, for tests of handlers.
Read `source.py` first. Only `sockets/io_thread.py` has a thread, only `block_memory.py` maps memory.
"""

from .block import Block, BlockGone
from .block_pool import BlockPool
from .outlet import Outlet
from .source import Source
from .timer_source import TimerSource

__all__ = ["Block", "BlockGone", "BlockPool", "Outlet", "Source", "TimerSource"]
