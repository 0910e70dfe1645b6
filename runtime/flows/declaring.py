"""Declaring: the decorators `source`, `stage` and `sink`, which make a part of a flow of a function.

They check what can be checked of one function; `Flow` checks how the parts fit together. The function itself stays as it was:
a test calls it directly.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Never, Union, get_args, get_origin, overload

from appbackplane.transport.directory import nearest

from ..objects.batch import Batch
from ..objects.hints import hints_of
from ..objects.operation import PRIORITY_DEFAULT, DeclarationError
from .stage import Stage

#: Makes a part of a flow of a function.
Decorator = Callable[[Callable[..., Any]], Stage]
#: The key of an item: the name of a field, or a function of the item.
By = str | Callable[[Any], Hashable] | None
#: How many chunks are served at the same time.
Parallel = int | Literal["auto"]
#: Most lanes of a stage in one backplane: each is an object, and threads beyond this do not pay.
PARALLEL_MAX = 256


@overload
def source(written: Callable[..., Any], /) -> Stage: ...
@overload
def source(*, priority: int = ..., poll: float = ..., name: str | None = ...) -> Decorator: ...
def source(
    written: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = PRIORITY_DEFAULT,
    poll: float = 0.1,
    name: str | None = None,
    **unknown: Never,
) -> Stage | Decorator:
    """Declare where the items of a flow come from. The function is called only while there is credit.

    `def lines(after: int | None, wanted: int) -> list[tuple[int, str]]` returns at most `wanted` items behind the position
    `after`, each with its own position; an empty list: there is nothing now. `after` is None at the very beginning.
    `def lines(wanted: int) -> list[str]` has no positions. A generator without parameters is read to its end.
    `poll`: seconds until a source that had nothing is asked again. `priority`: of its action.
    """

    def declare(function: Callable[..., Any]) -> Stage:
        _check_function("source", function)
        hints, parameters = _hints(function), list(inspect.signature(function).parameters)
        is_pulled = bool(parameters)
        if parameters not in ([], ["wanted"], ["after", "wanted"]):
            raise DeclarationError(
                f"source {function.__qualname__}({', '.join(parameters)}): expected (after, wanted), (wanted), or no "
                "parameters for a generator"
            )
        made = _element(hints.get("return", Any))
        has_positions = parameters[:1] == ["after"]
        if has_positions and made is not Any:
            pair = get_args(made)
            if get_origin(made) is not tuple or len(pair) != 2:
                raise DeclarationError(
                    f"source {function.__qualname__}: with `after`, it returns list[tuple[POSITION, ITEM]], not "
                    f"{inspect.formatannotation(hints['return'])}"
                )
            made = pair[1]
        return _stage("source", function, name, Any, made, priority, has_positions=has_positions, is_pulled=is_pulled,
                      position_type=hints.get("after", Any), poll_s=_seconds(function, "poll", poll))  # fmt: skip

    return _decorator("source", written, declare, unknown, source)


@overload
def stage(written: Callable[..., Any], /) -> Stage: ...
@overload
def stage(
    *,
    batch: Batch | None = ...,
    by: By = ...,
    parallel: Parallel = ...,
    priority: int = ...,
    expand: bool = ...,
    retry_singly: bool = ...,
    name: str | None = ...,
) -> Decorator: ...
def stage(
    written: Callable[..., Any] | None = None,
    /,
    *,
    batch: Batch | None = None,
    by: By = None,
    parallel: Parallel = 1,
    priority: int = PRIORITY_DEFAULT,
    expand: bool = False,
    retry_singly: bool = False,
    name: str | None = None,
    **unknown: Never,
) -> Stage | Decorator:
    """Declare a function that makes an item of the next stage of each item; None: it drops the item.

    `batch`: it takes a list of items, and returns the list of those that it made. `by`: the name of a field, or a function of
    the item: items of one key are served one after the other, in their order. `parallel`: how many may run at the same time, in
    each backplane that has the stage; "auto": as many as pay, up to its threads, found while it runs. `priority`: of its
    actions, 0 the highest. `expand`: it returns several items for one (a generator does so without it). `retry_singly`: the
    items of a batch that raised are tried one by one.
    """

    def declare(function: Callable[..., Any]) -> Stage:
        return _worker("stage", function, batch, by, parallel, priority, expand, retry_singly, name)

    return _decorator("stage", written, declare, unknown, stage)


@overload
def sink(written: Callable[..., Any], /) -> Stage: ...
@overload
def sink(
    *,
    batch: Batch | None = ...,
    by: By = ...,
    parallel: Parallel = ...,
    priority: int = ...,
    retry_singly: bool = ...,
    name: str | None = ...,
) -> Decorator: ...
def sink(
    written: Callable[..., Any] | None = None,
    /,
    *,
    batch: Batch | None = None,
    by: By = None,
    parallel: Parallel = 1,
    priority: int = PRIORITY_DEFAULT,
    retry_singly: bool = False,
    name: str | None = None,
    **unknown: Never,
) -> Stage | Decorator:
    """Declare the function at the end of a flow. Options as of `stage`; what it returns is ignored."""

    def declare(function: Callable[..., Any]) -> Stage:
        return _worker("sink", function, batch, by, parallel, priority, False, retry_singly, name)

    return _decorator("sink", written, declare, unknown, sink)


def _worker(
    kind: str, function: Callable[..., Any], batch: Any, by: Any, parallel: Any, priority: Any, expands: bool,
    retries_singly: bool, name: str | None,
) -> Stage:  # fmt: skip
    _check_function(kind, function)
    what = f"{kind} {function.__qualname__}"
    hints, parameters = _hints(function), list(inspect.signature(function).parameters.values())
    needed = [each.name for each in parameters if each.default is each.empty]
    if not parameters or len(needed) > 1 or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise DeclarationError(f"{what}: expected one parameter, the {'items' if batch else 'item'}")
    takes, makes = hints.get(parameters[0].name, Any), hints.get("return", Any)
    if batch is not None:
        if not isinstance(batch, Batch):
            raise DeclarationError(f"{what}: batch={batch!r}: expected a bound, as in batch=Batch(max=256, wait_ms=5)")
        if takes is not Any and takes is not list and get_origin(takes) is not list:
            raise DeclarationError(f"{what} serves batches: annotate {parameters[0].name!r} as list[...]")
        takes = _element(takes)
    elif retries_singly:
        raise DeclarationError(f"{what}: retry_singly is for a batch")
    if parallel == "auto":
        if by is not None:
            raise DeclarationError(
                f'{what}: parallel="auto" with by={by!r}: the number of lanes decides which of them gets a key, so it cannot '
                "change: give a number, or leave out `by`"
            )
        parallel = None
    elif type(parallel) is not int or not 1 <= parallel <= PARALLEL_MAX:
        raise DeclarationError(
            f'{what}: parallel={parallel!r}: expected a whole number, 1 to {PARALLEL_MAX}, or "auto"'
        )
    expands = expands or inspect.isgeneratorfunction(function)
    if kind == "sink":
        makes = None
    elif batch is not None or expands:
        makes = _element(makes)
    if kind == "stage":
        makes = _without_none(makes)
    return _stage(kind, function, name, takes, makes, priority, parallel=parallel, batch=batch, key_of=_key(what, by),
                  expands=expands, retries_singly=retries_singly)  # fmt: skip


def _stage(
    kind: str, function: Callable[..., Any], name: str | None, takes: Any, makes: Any, priority: Any, *,
    parallel: int | None = 1, batch: Batch | None = None, key_of: Callable[[Any], Hashable] | None = None,
    expands: bool = False, retries_singly: bool = False, has_positions: bool = False, position_type: Any = Any,
    is_pulled: bool = False, poll_s: float = 0.1,
) -> Stage:  # fmt: skip
    name = function.__name__ if name is None else name
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise DeclarationError(f"{kind} {function.__qualname__}: name={name!r}: expected a word, as of a function")
    if type(priority) is not int or priority < 0:
        raise DeclarationError(f"{kind} {name}: priority={priority!r}: expected a whole number from 0 (highest) up")
    return Stage(
        kind, name, function, takes, makes, priority, parallel, batch, key_of, expands, retries_singly, has_positions,
        position_type, is_pulled, poll_s,
    )  # fmt: skip


def _key(what: str, by: Any) -> Callable[[Any], Hashable] | None:
    if by is None:
        return None
    if callable(by):
        found: Callable[[Any], Hashable] = by
        return found
    if not isinstance(by, str):
        raise DeclarationError(f"{what}: by={by!r}: expected the name of a field, or a function of an item")
    return functools.partial(_field, by)


def _field(name: str, item: Any) -> Hashable:
    found: Hashable = item[name] if isinstance(item, dict) else getattr(item, name)
    return found


def _check_function(kind: str, function: Any) -> None:
    if not inspect.isfunction(function):
        raise DeclarationError(f"{kind}: {function!r} is no function")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(
            f"{kind} {function.__qualname__}: expected a plain `def`: what it awaited would hold up its lane"
        )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return hints_of(function)
    except NameError as error:
        raise DeclarationError(f"{function.__qualname__}: annotation cannot be resolved: {error}") from error


def _seconds(function: Callable[..., Any], option: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0.001 <= given <= 3600:
        raise DeclarationError(f"{function.__qualname__}: {option}={given!r}: expected seconds, 0.001 to 3600")
    return float(given)


def _element(annotation: Any) -> Any:
    """The type of one of several; `Any` where the annotation does not say it."""
    origin = get_origin(annotation)
    is_several = origin is not None and isinstance(origin, type) and issubclass(origin, Iterable) and origin is not dict
    return next(iter(get_args(annotation)), Any) if is_several else Any


def _without_none(annotation: Any) -> Any:
    """`Row` for `Row | None`: a stage drops items by returning None."""
    if get_origin(annotation) in (Union, UnionType):
        left = tuple(each for each in get_args(annotation) if each is not NoneType)
        return left[0] if len(left) == 1 else Union[left]  # noqa: UP007
    return annotation


def _decorator(
    kind: str, written: Any, declare: Callable[[Callable[..., Any]], Stage], unknown: dict[str, Any], decorator: Any
) -> Stage | Decorator:
    for option in unknown:
        known = [p.name for p in inspect.signature(decorator).parameters.values() if p.kind is p.KEYWORD_ONLY]
        near = nearest(option, known)
        raise DeclarationError(
            f"{kind} has no option {option!r}"
            + (f" (did you mean {near!r}?)" if near else f": one of {', '.join(known)}")
        )
    return declare if written is None else declare(written)
