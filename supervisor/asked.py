"""Asked: what callers of the supervisor mean by their bodies. Who may not ask for it, or asks for nonsense, is refused."""

from __future__ import annotations

import msgspec

from appbackplane.transport.directory import Registration
from appbackplane.transport.errors import InvalidArgument

from .control_socket import Asked, generation_of


def registration(asked: Asked) -> Registration:
    """What a backplane registers, over its own control link. Raises `InvalidArgument`."""
    try:
        registration = msgspec.convert(asked.body.get("registration"), Registration)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"supervisor.register: {error}") from error
    if generation_of(asked.caller.peer) != (registration.backplane, registration.generation):
        who = f"{registration.backplane} generation {registration.generation}"
        raise InvalidArgument(f"supervisor.register: {who} may only register over its own control link")
    return registration


def limit(asked: Asked) -> tuple[str, int, int | None]:
    """(backplane, generation, percent of one core; None: no limit), over its own control link. Raises `InvalidArgument`."""
    caller, percent = generation_of(asked.caller.peer), asked.body.get("cpu_limit")
    if caller is None:
        raise InvalidArgument("supervisor.limit is for backplanes: call backplane.NAME.limits cpu_limit=PERCENT")
    if percent is not None and (type(percent) is not int or percent < 1):
        raise InvalidArgument(f"supervisor.limit: cpu_limit: expected a whole number above 0 or nil, got {percent!r}")
    return (*caller, percent)
