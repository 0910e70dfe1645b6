"""Driving: runs a rule's coroutine, and notes each call and pause before it begins; or only lists them (dry run)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any, Final

import msgspec

from ...execution.actions.coroutines import STEP_ASIDE, CallRequest, Gather, Pause

#: Steps after which a dry run ends: a rule that loops until something happens would loop for ever.
DRY_STEPS_MAX: Final = 100


class PlannedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a dry run: `route`, `key` and `input`; or a pause in seconds."""

    route: str = ""
    key: str | None = None
    input: dict[str, Any] = {}
    pause: float | None = None


class Watched:
    """`await Watched(body, note)` is `await body`; `note` gets each step, and may raise to end the run before it."""

    def __init__(self, body: Coroutine[Any, Any, Any], note: Callable[[str], None]) -> None:
        self._body = body
        self._note = note

    def __await__(self) -> Generator[Any, Any, Any]:
        body = self._body
        value: Any = None
        thrown: BaseException | None = None
        try:
            while True:
                try:
                    instruction = body.send(value) if thrown is None else body.throw(thrown)
                except StopIteration as stop:
                    return stop.value
                value = thrown = None
                for step in _steps_of(instruction):
                    self._note(_in_words(step))
                try:
                    value = yield instruction
                except Exception as error:  # what the awaited call ended in is the body's to handle
                    thrown = error
        finally:
            body.close()


def dry_steps(body: Coroutine[Any, Any, Any], also: list[PlannedStep]) -> tuple[list[PlannedStep], str]:
    """The steps of a body that nothing is called for; each call returns None. And why the list ends early, or "".

    `also`: filled by the body's mashup with what it would publish and cast.
    """
    try:
        for _ in range(DRY_STEPS_MAX):
            also += _steps_of(body.send(None))
    except StopIteration:
        return also, ""
    except Exception as error:  # the edge: users' code, which may need the results that it did not get
        return also, f"what follows depends on a result: {type(error).__name__}: {error}"
    finally:
        body.close()
    return also, f"more than {DRY_STEPS_MAX} steps"


def _steps_of(instruction: Any) -> Iterator[PlannedStep]:
    if instruction is STEP_ASIDE:
        return
    if isinstance(instruction, Pause):
        yield PlannedStep(pause=instruction.delay_ns / 1e9)
    for each in instruction.calls if isinstance(instruction, Gather) else (instruction,):
        if isinstance(each, CallRequest):
            yield PlannedStep(each.spec.route, each.spec.key, dict(each.spec.body))


def _in_words(step: PlannedStep) -> str:
    if step.pause is not None:
        return f"pause {step.pause:g}"
    return step.route if step.key is None else f"{step.route} {step.key}"
