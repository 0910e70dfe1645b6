"""What replicas are called: by the file that makes them, and where only their names are known."""

from __future__ import annotations

from appbackplane.supervisor.configuration import replica_names


def test_one_alone_bears_the_name_of_its_table() -> None:
    """Else a system would change its names, and with them its logs and metrics, for a key that says nothing new."""
    assert replica_names.names("web", 1) == ("web",)
    assert replica_names.names("web", 3) == ("web-1", "web-2", "web-3")


def test_nonsense_counts_as_one() -> None:
    """It is found by its type, once; a billion of them must not be made first."""
    sections = {"a": {}, "b": {"replicas": 10**9}, "c": {"replicas": "x"}, "d": 7, "e": {"replicas": True}}
    assert replica_names.counts(sections, 256) == dict.fromkeys("abcde", 1)


def test_names_are_told_from_others_that_begin_so() -> None:
    """A log knows no table: it has names. One that is there itself means itself."""
    known = ["web-1", "web-2", "web-shop", "web-1b", "webs-1", "front-1"]
    assert replica_names.numbered("web", known) == ("web-1", "web-2")
    assert replica_names.numbered("web", [*known, "web"]) == ()
    assert replica_names.numbered("", known) == ()
