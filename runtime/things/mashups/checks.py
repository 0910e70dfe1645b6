"""Checks: whether what a rule names is there, by the Thing Model of the thing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from appbackplane.transport.directory import nearest

from .rule import ACTION, EVENT, PROPERTY, PROPERTY_WRITTEN, THING, RuleTarget


def problem_of(target: RuleTarget, model: Mapping[str, Any]) -> str | None:
    """Why a target cannot be used, in one sentence; None: it can. `model`: the Thing Model, as `describe` returns it."""
    if target.kind == THING:
        return None
    group = {EVENT: "events", ACTION: "actions"}.get(target.kind, "properties")
    found = model.get(group, {}).get(target.name)
    if found is None:
        kind = target.kind if target.kind in (EVENT, ACTION) else PROPERTY
        return f"{target.thing} has no {kind} {target.name!r}{_hint(target.name, model.get(group, {}))}"
    if target.kind == PROPERTY and not found.get("observable"):
        return f"{target.thing}: property {target.name!r} is not observable, so its changes are not published"
    if target.kind == PROPERTY_WRITTEN and found.get("readOnly"):
        return f"{target.thing}: property {target.name!r} is read only"
    if target.kind == ACTION and target.input is not None:
        return _problem_of_input(target, found.get("input") or {})
    return None


def _problem_of_input(target: RuleTarget, schema: Mapping[str, Any]) -> str | None:
    parameters: Mapping[str, Any] = schema.get("properties", {})
    given = target.input or frozenset()
    for name in sorted(given - set(parameters)):
        return f"{target.thing}: action {target.name!r} has no parameter {name!r}{_hint(name, parameters)}"
    for name in sorted(set(schema.get("required", ())) - given):
        return f"{target.thing}: action {target.name!r} needs the parameter {name!r}"
    return None


def _hint(name: str, known: Iterable[str]) -> str:
    close = nearest(name, list(known))
    return f" (did you mean {close!r}?)" if close else ""
