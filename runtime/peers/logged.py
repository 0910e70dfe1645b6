"""Logged: log lines about other nodes for the operator, with a limit a minute (paced_log.py)."""

from __future__ import annotations

import logging

from appbackplane.transport.peers import effects as fx

from .paced_log import FLAPS_MAX, PacedLog


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
