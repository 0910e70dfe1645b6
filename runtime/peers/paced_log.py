"""Paced log: log lines that other hosts can bring about, each so often a minute and no more.

A peer that comes and goes, or sends nonsense, could fill a disk. Unlike observation/rate_limit.py it does not count the lines
left out, because `appbackplane peers` shows the present state. Names and addresses come from others, too: unprintable
characters are escaped, and after `SUBJECTS_MAX` subjects in a minute no further ones are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from appbackplane.transport.peers import effects as fx

#: The period of all limits.
PERIOD_NS: Final = 60_000_000_000
#: Subjects in a period: more than there are nodes, dead and alive. 3 MB of log a minute at the worst.
SUBJECTS_MAX: Final = 256
#: Characters of a subject, and of another host's text: those between nodes are no longer (transport/peers/messages.py).
LENGTH_MAX: Final = 1_024
#: Lines about a peer that comes and goes, in a period.
FLAPS_MAX: Final = 5


class PacedLog:
    """The log of one endpoint, whose thread owns it."""

    def __init__(self, log: logging.Logger, now_ns: Callable[[], int]) -> None:
        self._log, self._now_ns = log, now_ns
        #: By subject: since when it is counted, and how often it was logged.
        self._said: dict[str, tuple[int, int]] = {}

    def warn(self, what: str, because: str = "") -> None:
        """Log a warning once a minute at most; `because`: the text of another host."""
        self.say(logging.WARNING, what, because)

    def say(self, level: int, what: str, because: str = "", count_max: int = 1) -> None:
        """Log a line `count_max` times a minute at most; further ones are dropped."""
        now_ns = self._now_ns()
        since_ns, count = self._said.get(what, (now_ns, 0))
        if now_ns - since_ns >= PERIOD_NS:
            since_ns, count = now_ns, 0
        if count >= count_max:
            return
        if what not in self._said and len(self._said) >= SUBJECTS_MAX:
            self._said = {one: said for one, said in self._said.items() if now_ns - said[0] < PERIOD_NS}
            if len(self._said) >= SUBJECTS_MAX:
                return
        self._said[what] = since_ns, count + 1
        self._log.log(level, "%s%s", _printable(what), f": {because[:LENGTH_MAX]!r}" if because else "")


def log_effect(effect: fx.Effect, log: PacedLog) -> None:
    """Log an effect of membership if operators have to know of it; most are not logged."""
    if isinstance(effect, fx.PeerUp):
        log.say(logging.INFO, f"node {effect.name} at {effect.address} is up", count_max=FLAPS_MAX)
    elif isinstance(effect, fx.NodeUnreachable):
        what = f"node {effect.name} is down ({effect.kind})"
        log.say(logging.WARNING, what, effect.because, count_max=FLAPS_MAX)
    elif isinstance(effect, fx.DialFailed):
        log.warn(f"{effect.address} cannot be reached: {effect.because} (it is dialled again)")
    elif isinstance(effect, fx.Refused):
        log.warn(f"{effect.name!r} at {effect.address} was refused as a peer", effect.reason)
    elif isinstance(effect, fx.OfferRefused):
        more = f" and {effect.count - 1:,} more" if effect.count > 1 else ""
        what = f"node {effect.name!r} offers operations that its key may not offer here: they are not called"
        log.warn(
            what,
            f"{effect.route}{more}: appbackplane keys trust {effect.name} KEY --offer PATTERN, or name it in [peers]",
        )
    elif isinstance(effect, fx.RefusedBy):
        log.warn(f"node {effect.name!r} at {effect.address} refuses this one", effect.reason)
    elif isinstance(effect, fx.NameTaken):
        log.say(logging.ERROR, effect.reason)
    elif isinstance(effect, fx.NewIncarnation):
        log.warn(f"this node takes another incarnation: {effect.because}")


def _printable(what: str) -> str:
    """Shorten a text to `LENGTH_MAX`, and escape line ends and control characters."""
    shown = what[:LENGTH_MAX]
    return shown if shown.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in shown)
