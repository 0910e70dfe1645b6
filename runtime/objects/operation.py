"""Operations: decorators for methods that others may call, that receive a topic, or that a timer runs.

A decorator only notes the declaration. The data that calls need is derived from it once a class (operation_spec.py).
A wrong declaration fails when the class is made, never at a call, and the error names the method and the parameter.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Never, TypeVar

import msgspec

from appbackplane.transport.call_checks import is_number
from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_pattern

from .actors import BY_PRIORITY, Actors
from .adaptive import AIM_MAX_MS, AIM_MIN_MS, Adaptive
from .batch import BATCH_MAX, WAIT_MAX_MS, Batch

#: Priority of an operation that names none: the middle of the default eight, with room on both sides.
PRIORITY_DEFAULT = 4
#: Component states in which an operation that names none is registered.
SERVING_STATES = ("primary", "secondary")
_STATES = frozenset(("initializing", "primary", "secondary"))
#: Kind of access (`AppObject.__access__`) that no permission gives: to list, add and remove things. For operators, and for
#: code of the system.
MANAGE = "manage"
#: The attribute of a function that holds its `Mark`.
MARK = "__appbackplane__"

Method = TypeVar("Method", bound=Callable[..., Any])


class DeclarationError(TypeError):
    """An operation, subscription or timer is declared wrongly; the message names it and gives the correct form."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration that a decorator noted on a method."""

    kind: str
    name: str | None = None
    priority: int = PRIORITY_DEFAULT
    reentrant: bool = False
    idempotent: bool = False
    calls: tuple[str, ...] = ()
    states: tuple[str, ...] = SERVING_STATES
    digest: str | None = None
    accepted_in: tuple[Any, ...] | None = None
    otherwise: str = "refuse"
    topic: str | None = None
    interval_ns: int = 0
    is_long: bool = False
    export: bool = False
    admit: Adaptive | None = None
    batch: Batch | None = None
    actors: Actors | None = None


def operation(
    written: None = None,
    /,
    *,
    priority: int = PRIORITY_DEFAULT,
    name: str | None = None,
    reentrant: bool = False,
    idempotent: bool = False,
    calls: Sequence[str] = (),
    states: Sequence[str] = SERVING_STATES,
    digest: str | None = None,
    accepted_in: Sequence[Any] | None = None,
    otherwise: str = "refuse",
    is_long: bool = False,
    export: bool = False,
    admit: Adaptive | None = None,
    batch: Batch | None = None,
    actors: Actors | None = None,
    **unknown: Never,
) -> Callable[[Method], Method]:
    """Make a method callable by others, on the route COMPONENT.NAME.

    `priority`: 0 is highest; a caller may ask for another. `name`: of the route, default the method's. `reentrant`: a call
    that comes back to this object through its own chain is served instead of refused. `idempotent`: running it twice does
    no harm, so callers may retry when it is unknown whether it ran. `calls`: the routes it calls; `appbackplane check` looks
    for cycles in them. `states`: the component states in which it is registered. `digest`: the name of a component method
    that computes the key of the target slowly, in the digester (law 7). `accepted_in`: the states of a `StateMachine` in
    which it is accepted; in others it is handled by `otherwise`: "refuse" or "defer". `is_long`: its run time has no limit,
    and is no sign of a stuck backplane (`stuck_after`). `export`: other nodes may call it, with any key that may use exports.
    `admit`: `Adaptive(aim_ms=20)` refuses requests that would queue for longer. `batch`: `Batch(max=256, wait_ms=5)` serves
    several requests by one call of the method, which gets a list for each parameter and returns a list of results. `actors`:
    `Actors(by="priority", workers={0: 2, 4: 1})` sorts the requests of a component's operation into several queues.
    """

    def mark() -> Mark:
        _check_options(operation, unknown)
        if otherwise not in ("refuse", "defer"):
            raise DeclarationError(f"otherwise={otherwise!r}: expected 'refuse' or 'defer'")
        if admit is not None and not isinstance(admit, Adaptive):
            raise DeclarationError(f"admit={admit!r}: expected a limit, as in admit=Adaptive(aim_ms=20)")
        if admit is not None and (not is_number(admit.aim_ms) or not AIM_MIN_MS <= admit.aim_ms <= AIM_MAX_MS):
            raise DeclarationError(
                f"admit: aim_ms={admit.aim_ms!r}: expected milliseconds, {AIM_MIN_MS} to {AIM_MAX_MS}"
            )
        if batch is not None:
            _check_batch(batch, accepted_in, admit)
        if actors is not None:
            _check_actors(actors, digest, batch)
        return Mark(
            kind="operation", name=name, priority=priority, reentrant=reentrant, idempotent=idempotent,
            calls=_several("calls", calls, '("index.stats",)'), states=states_of(states), digest=digest,
            accepted_in=None if accepted_in is None else _several("accepted_in", accepted_in, "(State.OPEN,)"),
            otherwise=otherwise, is_long=is_long, export=export, admit=admit, batch=batch,
            actors=actors,
        )  # fmt: skip

    return _marker("operation()", written, mark)


def subscribe(
    topic: str,
    *,
    priority: int = PRIORITY_DEFAULT,
    export: bool = False,
    states: Sequence[str] = SERVING_STATES,
    accepted_in: Sequence[Any] | None = None,
    **unknown: Never,
) -> Callable[[Method], Method]:
    """Run the method for each message of `topic` (`a.b` exactly, or `a.*` for all below it).

    `export`: also receive the messages that other nodes publish there. `states`: the component states in which messages are
    received. `accepted_in`: the states of a `StateMachine` in which they are. In other states a message is dropped and counted.
    """

    def mark() -> Mark:
        _check_options(subscribe, unknown)
        try:
            check_pattern(topic)
        except InvalidArgument as error:
            raise DeclarationError(str(error)) from None
        return Mark(
            kind="topic", topic=topic, priority=priority, export=export, states=states_of(states),
            accepted_in=None if accepted_in is None else _several("accepted_in", accepted_in, "(State.OPEN,)"),
        )  # fmt: skip

    return _marker('subscribe("files.changed")', topic, mark)


def every(seconds: float, *, priority: int = PRIORITY_DEFAULT, **unknown: Never) -> Callable[[Method], Method]:
    """Run the method every `seconds` while its component serves. An overrun skips runs instead of queueing them."""

    def mark() -> Mark:
        _check_options(every, unknown)
        if not is_number(seconds) or not 1e-9 <= seconds < math.inf:
            raise DeclarationError(f"every({seconds!r}): expected a number of seconds above 0")
        return Mark(kind="timer", interval_ns=round(seconds * 1e9), priority=priority)

    return _marker("every(0.5)", seconds, mark)


def states_of(states: Any) -> tuple[str, ...]:
    """The declared `states` as a tuple. Raises `DeclarationError` for an unknown state, or a single string."""
    found = _several("states", states, '("primary",)')
    if unknown := [state for state in found if not isinstance(state, str) or state not in _STATES]:
        raise DeclarationError(f"states: {unknown} are not among {sorted(_STATES)}")
    return found


def _check_batch(batch: Any, accepted_in: Any, admit: Adaptive | None) -> None:
    if not isinstance(batch, Batch):
        raise DeclarationError(f"batch={batch!r}: expected a bound, as in batch=Batch(max=256, wait_ms=5)")
    if type(batch.max) is not int or not 1 <= batch.max <= BATCH_MAX:
        raise DeclarationError(f"batch: max={batch.max!r}: expected a whole number, 1 to {BATCH_MAX:,}")
    if not is_number(batch.wait_ms) or not 0 <= batch.wait_ms <= WAIT_MAX_MS:
        raise DeclarationError(f"batch: wait_ms={batch.wait_ms!r}: expected milliseconds, 0 to {WAIT_MAX_MS:,}")
    if accepted_in is not None:
        raise DeclarationError("batch excludes accepted_in: the first request of a batch may change the state")
    if admit is not None and batch.wait_ms >= admit.aim_ms:
        raise DeclarationError(
            f"batch waits for {batch.wait_ms:g} ms, and admit refuses what has queued for {admit.aim_ms:g} ms: wait for less"
        )


def _check_actors(actors: Any, digest: Any, batch: Any) -> None:
    if not isinstance(actors, Actors):
        raise DeclarationError(f'actors={actors!r}: expected categories, as in Actors(by="priority", workers={{0: 1}})')
    if digest is not None:
        raise DeclarationError("actors excludes digest: each of them determines the object of a request")
    if batch is not None:
        raise DeclarationError("actors excludes batch: a batch is gathered in one queue")
    by, workers = actors.by, actors.workers
    if not isinstance(workers, Mapping) or not workers:
        raise DeclarationError(
            f'actors: workers={workers!r}: expected a number for each actor, as {{"retail": 1, "bulk": 4}}'
        )
    counts: list[Any] = [count for count in workers.values() if type(count) is not int or count < 1]
    if counts:
        raise DeclarationError(f"actors: {counts[0]!r} workers: expected a whole number from 1")
    names: list[Any] = list(workers)
    if by == BY_PRIORITY:
        if wrong := [name for name in names if type(name) is not int or name < 0]:
            raise DeclarationError(
                f"actors: {wrong[0]!r} is no priority: by priority, each actor is named by its most urgent one"
            )
        if 0 not in names:
            raise DeclarationError(
                f"actors: no actor serves priority 0: the first is named {min(names)}, and must be 0"
            )
    elif not callable(by):
        raise DeclarationError(
            f'actors: by={by!r}: expected "priority", or a function of the component and the arguments'
        )
    elif wrong := [name for name in names if not isinstance(name, str) or not name]:
        raise DeclarationError(f"actors: {wrong[0]!r} is no name of an actor: expected text, which will be its key")


def _several(option: str, given: Any, example: str) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DeclarationError(f"{option}={given!r}: expected several, as {option}={example}")
    return tuple(given)


def _check_options(decorator: Callable[..., Any], unknown: Mapping[str, object]) -> None:
    for option in unknown:
        options = [
            each.name for each in inspect.signature(decorator).parameters.values() if each.kind is each.KEYWORD_ONLY
        ]
        near = nearest(option, options)
        raise DeclarationError(
            f"{decorator.__name__} has no option {option!r}"
            + (f" (did you mean {near!r}?)" if near else f": one of {', '.join(options)}")
        )


def _marker(example: str, given: object, make: Callable[[], Mark]) -> Callable[[Method], Method]:
    """A decorator that attaches the mark. `make` runs in it, because only there the method's name is known for errors."""
    if inspect.isfunction(given):
        raise DeclarationError(f"{given.__qualname__}: write @{example}, with parentheses")

    def decorate(method: Method) -> Method:
        if not inspect.isfunction(method):
            raise DeclarationError(f"{method!r} is marked as an operation: expected a plain method")
        try:
            mark = make()
            msgspec.convert(msgspec.structs.asdict(mark), Mark)
        except DeclarationError as error:
            raise DeclarationError(f"{method.__qualname__}: {error}") from None
        except msgspec.ValidationError as error:
            says, _, where = str(error).partition(" - at `$.")
            raise DeclarationError(f"{method.__qualname__}: {where.rstrip('`')}: {says[0].lower()}{says[1:]}") from None
        setattr(method, MARK, mark)
        return method

    return decorate
