"""Scaling: other numbers of threads and replicas without a file, in the words and within the bounds of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appbackplane.supervisor.configuration.config import Config, parse
from appbackplane.supervisor.direction.reconfiguration import KeyChange, Takes, plan
from appbackplane.supervisor.direction.scaling import scaled
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound

TOML = """
[system]
name = "demo"
run_dir = "/tmp/r"
[backplane.index]
components = ["demo:Index"]
[backplane.web]
components = ["demo:Web"]
replicas = {replicas}
[backplane.last]
components = ["demo:Last"]
"""


def config(replicas: int = 3, more: str = "") -> Config:
    """As a file with so many replicas gives it."""
    return parse(TOML.format(replicas=replicas) + more, Path("/etc/demo.toml"))


def test_threads_are_as_in_the_file() -> None:
    """One way for a value, however it comes."""
    old = config()
    assert plan(old, scaled(old, "index", 4)).changes == (KeyChange("index", "threads", 1, 4, Takes.BACKPLANE),)
    assert [one.threads for one in scaled(old, "web", 2).backplane.values()] == [1, 2, 2, 2, 1]
    assert [one.threads for one in scaled(old, "web-2", 2).backplane.values()] == [1, 1, 2, 1, 1]


@pytest.mark.parametrize("replicas", [2, 3, 5, 11])
def test_replicas_are_as_in_the_file(replicas: int) -> None:
    """In its order, too: that of slots and listings."""
    new = scaled(config(), "web", replicas=replicas)
    expected = config(replicas)
    assert new == expected and list(new.backplane) == list(expected.backplane)
    steps = plan(config(), new)
    assert not steps.restarted and not steps.problems()
    assert {change.takes for change in steps.changes} <= {Takes.SUPERVISOR}
    assert scaled(new, "web", replicas=3) == config()


def test_a_group_of_one_is_a_group() -> None:
    """Its last replica goes on under its name, and others may come back."""
    one = scaled(config(), "web", replicas=1)
    assert list(one.backplane) == ["index", "web-1", "last"] and one.replicas == {"web": ("web-1",)}
    assert plan(config(), one).removed == ("web-2", "web-3")
    assert scaled(one, "web", replicas=3) == config()


def test_replicas_that_stay_are_as_they_are() -> None:
    """One of them may have got more threads before; new ones are as the first."""
    new = scaled(scaled(config(), "web-2", 5), "web", replicas=4)
    assert [new.backplane[f"web-{number}"].threads for number in (1, 2, 3, 4)] == [1, 5, 1, 1]


def test_both_numbers_at_once() -> None:
    """New replicas have the new number of threads."""
    new = scaled(config(), "web", 2, 4)
    assert [new.backplane[f"web-{number}"].threads for number in (1, 2, 3, 4)] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"threads": 0}, r"^backplane\.web\.threads: expected .*>= 1, got 0$"),
        ({"threads": 257}, r"<= 256, got 257$"),
        ({"threads": "2"}, r"got '2'$"),
        ({"replicas": 0}, r"^backplane\.web\.replicas: expected .*>= 1, got 0$"),
        ({"replicas": True}, r"^backplane\.web\.replicas: expected "),
        ({"replicas": 256}, r"^backplane\.web\.replicas: 258 backplanes, at most 256 fit on a board$"),
        ({}, r"^web: expected a number of threads, of replicas, or both$"),
    ],
)
def test_what_the_file_would_be_refused_for_is_refused(numbers: dict[str, Any], problem: str) -> None:
    """In its words."""
    with pytest.raises(InvalidArgument, match=problem):
        scaled(config(), "web", **numbers)


def test_new_replicas_need_names_and_sockets_of_their_own() -> None:
    """As the file is checked for, before anything is begun."""
    with pytest.raises(InvalidArgument, match="'web-5' would be one of them, and is the name of another: rename one"):
        scaled(config(more='[backplane.web-5]\ncomponents = ["demo:Five"]'), "web", replicas=5)
    name = "w" * (107 - len("/tmp/r/-9-999999.sock"))
    tight = parse(TOML.format(replicas=9).replace("backplane.web", f"backplane.{name}"), Path("/etc/demo.toml"))
    with pytest.raises(InvalidArgument, match="is longer than a socket path may be"):
        scaled(tight, name, replicas=10)


def test_it_is_said_what_cannot_have_replicas() -> None:
    """A process that runs cannot change its name."""
    with pytest.raises(
        FailedPrecondition, match=r"^index is one process, and keeps its name: set replicas = 2 in /etc"
    ):
        scaled(config(), "index", replicas=2)
    with pytest.raises(FailedPrecondition, match=r"^web-2 is one process, and keeps its name: scale web$"):
        scaled(config(), "web-2", replicas=2)


def test_a_mistyped_name_is_the_usual_mistake() -> None:
    """So it is told the likeliest."""
    with pytest.raises(NotFound, match=r"no backplane 'indx' .did you mean 'index'"):
        scaled(config(), "indx", 2)
