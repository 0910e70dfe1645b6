"""Monitor: the handle of an object's monitor; and EndNotice, the value that its method gets when the target has ended."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

#: Why a target is no more. It was ended, or its process stopped in order.
ENDED: Final = "ended"
#: Its process died.
KILLED: Final = "killed"
#: Its node cannot be reached (any more): whether it lives is not known, and it is not told again.
UNREACHABLE: Final = "unreachable"
#: There was never anything of that address or name.
NEVER_EXISTED: Final = "never existed"
#: All of them.
REASONS: Final = (ENDED, KILLED, UNREACHABLE, NEVER_EXISTED)


class EndNotice(msgspec.Struct, frozen=True):
    """The end of a target. A monitor's method gets one, once."""

    #: The target, as it was given to `monitor`: an address, or the name of a backplane or node.
    of: str
    #: "ended", "killed", "unreachable" or "never existed".
    reason: str
    #: More, for people: the reason given to `end_self`, or how the end was noticed.
    because: str


class Monitor(Protocol):
    """The handle of a monitor."""

    #: Its target.
    of: str

    def cancel(self) -> bool:
        """Cancel the monitor, from any thread. Returns False if its method runs, has run, or will run all the same."""
