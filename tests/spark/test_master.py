"""Master: its names, and that nobody is there is said at once instead of after a minute of Spark's asking."""

from __future__ import annotations

import socket

import pytest

from appbackplane.spark.master import NoMaster, check_answers, parsed
from appbackplane.spark.session import NotInstalled, check_installed, session
from appbackplane.transport.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "kind", "addresses", "is_here"),
    [
        ("local", "local", (), True),
        ("local[4]", "local", (), True),
        ("local[*]", "local", (), True),
        ("local[2,3]", "local", (), True),
        ("yarn", "yarn", (), False),
        ("spark://127.0.0.1:7077", "spark", (("127.0.0.1", 7077),), True),
        ("spark://[::1]:7078", "spark", (("::1", 7078),), True),
        ("spark://a,b:7078", "spark", (("a", 7077), ("b", 7078)), False),
        ("k8s://https://api.cluster:6443", "k8s", (("api.cluster", 6443),), False),
        ("k8s://api.cluster", "k8s", (("api.cluster", 443),), False),
    ],
)
def test_masters_by_their_names(text: str, kind: str, addresses: tuple[tuple[str, int], ...], is_here: bool) -> None:
    """Any that Spark knows; an address of this machine is not told to those who are elsewhere."""
    master = parsed(text)
    assert (master.text, master.kind, master.addresses, master.is_here) == (text, kind, addresses, is_here)


@pytest.mark.parametrize(
    "text",
    ["", "locl", "local[0]", "local[x]", "localhost:7077", "spark://", "spark://a:b", "spark://a:99999",
     "spark://a b:1", "http://a:1", "k8s://ftp://a", "sc://a:15002", "\n"],
)  # fmt: skip
def test_what_is_no_master_is_refused_before_spark_is_started(text: str) -> None:
    """Spark would say so after three seconds, below a stack trace."""
    with pytest.raises(InvalidArgument, match=r"(expected local|a port is)"):
        parsed(text)


def test_any_of_several_masters_is_enough() -> None:
    """One of two has failed over: that is what two are for."""
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        ports = [each.getsockname()[1] for each in (gone, there)]
        gone.close()
        check_answers(parsed(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"))
        with pytest.raises(
            NoMaster, match=rf"spark://127.0.0.1:{ports[0]} \(127.0.0.1:{ports[0]}: connection refused\)"
        ):
            session(f"spark://127.0.0.1:{ports[0]}")


def test_without_the_extra_a_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError names a module that nobody has asked for."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyarrow" else object())
    with pytest.raises(NotInstalled, match=r"pyarrow is not installed, .*: pip install 'appbackplane\[spark\]'"):
        check_installed()
