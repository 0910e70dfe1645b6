"""Command: what words and arguments become, and what is said to those that fit nothing."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.requests import CommandHandler, command
from appbackplane.runtime.requests.operating.command import parsed
from appbackplane.transport.errors import InvalidArgument, NotFound


class Handler(CommandHandler):
    @command
    def shelve(self, name: str, count: int = 1, *, above: bool = False) -> None:
        """Put it there."""

    @command(name="range")
    def of_range(self, mode: Literal["on", "off"] | None = None, numbers: list[int] | None = None) -> None: ...

    @command
    def note(self, text: str, **fields: Any) -> None: ...


SPECS = Handler.__commands__


def of(line: str) -> dict[str, Any]:
    """The arguments of a line."""
    return parsed(line, SPECS, "index")[1]


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("shelve box", {"name": "box"}),
        ("shelve box 3", {"name": "box", "count": 3}),
        ("shelve 22 3 true", {"name": "22", "count": 3, "above": True}),
        ("shelve count=3 box", {"count": 3, "name": "box"}),
        ("shelve 'two words' above=true", {"name": "two words", "above": True}),
        ("shelve a=b", {"name": "a=b"}),
        ("range on", {"mode": "on"}),
        ("range 1 2 3", {"numbers": [1, 2, 3]}),
        ("range off 1", {"mode": "off", "numbers": [1]}),
        ("range [1,2]", {"numbers": [1, 2]}),
        ("range numbers=[1,2] on", {"numbers": [1, 2], "mode": "on"}),
        ("note 7 urgent=true by=me", {"text": "7", "urgent": True, "by": "me"}),
    ],
)
def test_words_go_where_they_fit(line: str, arguments: dict[str, Any]) -> None:
    """In their order, or by name; a number may be a name where a name is wanted."""
    assert of(line) == arguments
    spec, found = parsed(line, SPECS, "index")
    spec.bind(found, f"index.{spec.name}")  # and is accepted as an argument


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        ("shlve box", NotFound, r"^index has no command 'shlve' \(did you mean 'shelve'\?\)$"),
        ("xyzzy", NotFound, r"^index has no command 'xyzzy' \(one of ageing, boost, .*workers\)$"),
        ("", InvalidArgument, r"^index: no command: one of ageing"),
        ("shelve 'box", InvalidArgument, r"^index: \"shelve 'box\": no closing quotation$"),
        (
            "shelve",
            InvalidArgument,
            r"^index.shelve: missing argument 'name'; expected \(name: str, count: int = 1, \*, above",
        ),
        ("shelve box x", InvalidArgument, "'x' matches none of its arguments; expected"),
        ("shelve box 1 true more", InvalidArgument, "'more' matches none of its arguments; expected"),
        ("shelve box 3 maybe", InvalidArgument, "argument 'above': expected `bool`, got `str`"),
        ("shelve box colour=red", InvalidArgument, "'colour=red' matches none of its arguments"),
        ("shelve count=many box", InvalidArgument, "argument 'count': expected `int`, got `str`"),
        ("shelve count=1 count=2 box", InvalidArgument, "'count' is given twice"),
        (
            "range maybe",
            InvalidArgument,
            r"'maybe' matches none of its arguments; expected \(mode: Literal\[on, off\] \| None = None",
        ),
        ("note a b", InvalidArgument, "'b' matches none of its arguments"),
        ("shelve " + "x" * 20_000, InvalidArgument, "20,007 characters: at most 10,000"),
    ],
)
def test_a_wrong_line_is_said_in_one_sentence(line: str, error: type[Exception], says: str) -> None:
    """It names the word, and what is expected."""

    def bound() -> None:
        spec, arguments = parsed(line, SPECS, "index")
        spec.bind(arguments, f"index.{spec.name}")

    with pytest.raises(error, match=says) as raised:
        bound()
    assert "\n" not in str(raised.value)


def test_signatures_are_what_a_person_can_type() -> None:
    """They are what `appbackplane routes` shows."""
    assert SPECS["shelve"].signature == "(name: str, count: int = 1, *, above: bool = False) -> None"
    assert SPECS["note"].signature == "(text: str, **fields: Any) -> None"
    assert SPECS["settings"].signature == "(**settings: Any) -> dict[str, Any]"
    assert SPECS["shelve"].summary == "Put it there."


def test_system_commands_may_be_replaced_without_a_mark() -> None:
    """As an operation that is overridden stays one."""

    class Quiet(CommandHandler):
        def help(self, name: str | None = None) -> list[dict[str, str]]:
            """Say nothing."""
            return []

    assert Quiet.__commands__["help"].summary == "Say nothing."
    assert CommandHandler.__commands__["help"].summary != "Say nothing."


def test_wrong_declarations_fail_when_the_class_is_made() -> None:
    """Not when the command is called, or its time has come."""
    with pytest.raises(DeclarationError, match="expected one of them"):
        command(every=1, at="22:00")
    with pytest.raises(DeclarationError, match=r"expected seconds, 0.001"):
        command(every=0)
    with pytest.raises(DeclarationError, match=r"noon.*expected"):
        command(at="noon")
    with pytest.raises(DeclarationError, match="expected a plain method"):
        command(name="x")(3)  # type: ignore[type-var]
    with pytest.raises(DeclarationError, match="runs by itself: its parameters need defaults"):

        class Alone(CommandHandler):
            @command(every=1)
            def beat(self, count: int) -> None: ...

    with pytest.raises(DeclarationError, match=r"second and .*first are both the command 'one'|first and .*second"):

        class Twice(CommandHandler):
            @command(name="one")
            def first(self) -> None: ...

            @command(name="one")
            def second(self) -> None: ...

    with pytest.raises(DeclarationError, match="is not a word"):

        class Spoken(CommandHandler):
            @command(name="two words")
            def first(self) -> None: ...
