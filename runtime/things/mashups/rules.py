"""Rules: the component whose settings are rules: `[backplane.rules.settings.Rules.rules.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appbackplane.transport.errors import InvalidArgument, NotFound

from ...objects.component import Component
from ...objects.operation import operation
from .mashup import Mashup
from .node_red import flow_of
from .rule import RuleSpec
from .toml_rules import rule_of


class TomlMashup(Mashup):
    """The rules of the TOML."""

    title = "Rules"

    def __init__(self, tables: Mapping[str, Any], journal_folder: str | None) -> None:
        self.journal_folder = journal_folder
        self._specs: list[RuleSpec] = []
        self._errors: dict[str, str] = {}
        for name, table in tables.items():
            try:
                self._specs.append(rule_of(name, table))
            except ValueError as error:
                self._errors[name] = str(error).removeprefix(f"rule {name}: ")

    def _rule_specs(self) -> tuple[RuleSpec, ...]:
        return tuple(self._specs)

    def _rules_refused(self) -> Mapping[str, str]:
        return self._errors


class Rules(Component):
    """Rules in TOML. Give it a backplane of its own, with a `cpu_limit`, so that rules hold nothing else up.

    rules: by name, tables with `when`, `if`, `do`, `mode`, `debounce`, `cooldown`, `priority`, `key` and `run_as`
    (docs/concepts/mashups.md). A rule that is wrong is told in the log and in the run log, and the others run. journal: the
    folder of the journal; default: in the state folder of the system.
    """

    def __init__(self, rules: Mapping[str, Any] | None = None, journal: str | None = None) -> None:
        self._mashup = TomlMashup(rules or {}, journal)

    def setup(self) -> None:
        """Add the rules."""
        self.add(self._mashup)

    @operation(priority=4)
    async def node_red(self, thing: str, base: str = "http://127.0.0.1:8080/") -> list[dict[str, Any]]:
        """A thing, COMPONENT/KEY, as a Node-RED flow. `base`: address of the gateway. Raises `NotFound`, `InvalidArgument`."""
        component, _, key = thing.partition("/")
        try:
            return flow_of(await self.call(f"{component}.describe", key=key or None), base)
        except NotFound as error:
            raise NotFound(f"there is no thing {thing}: {error.message}") from None
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
