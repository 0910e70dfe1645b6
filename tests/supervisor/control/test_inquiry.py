"""Inquiry: a question goes on from backplane to backplane, and comes to an end."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.supervisor.control.inquiry import HOP_LIMIT_NS, HOPS_MAX, LIMIT_NS, WhyInquiry, is_down, places_of
from appbackplane.supervisor.direction.child.child import Child
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.transport.directory import ComponentEntry, OperationEntry, Registration
from appbackplane.transport.errors import DeadlineExceeded, InvalidArgument, NotFound

from ..world import child_settings

NOW_NS = 1_000


def told(step: str, backplane: str | None = None, call: str = "") -> dict[str, Any]:
    """What a backplane says."""
    following = None if backplane is None else {"backplane": backplane, "call": call}
    return {"steps": [{"asked": step, "reasons": []}], "next": following}


def asked(inquiry: WhyInquiry) -> list[str]:
    """What was asked, or could not be, in order."""
    return [step["asked"] for step in inquiry.answer["steps"]]


def test_it_goes_on_where_the_call_is() -> None:
    """Each backplane knows its part."""
    inquiry = WhyInquiry("a", "a/x", NOW_NS, with_stack=True)
    assert (inquiry.backplane, inquiry.body) == ("a", {"asked": "a/x", "stack": True})
    assert inquiry.take(told("a/x", "b", "b:a-1:3"), NOW_NS)
    assert (inquiry.backplane, inquiry.body) == ("b", {"asked": "b:a-1:3", "stack": True})
    assert not inquiry.take(told("b:a-1:3"), NOW_NS)
    assert asked(inquiry) == ["a/x", "b:a-1:3"]


def test_no_call_is_asked_about_twice() -> None:
    """A picture taken while things move may be a ring."""
    inquiry = WhyInquiry("a", "a:b-1:1", NOW_NS, with_stack=False)
    assert inquiry.take(told("a:b-1:1", "b", "b:a-1:1"), NOW_NS)
    assert not inquiry.take(told("b:a-1:1", "a", "a:b-1:1"), NOW_NS)


def test_it_has_a_bound_in_backplanes_and_says_so() -> None:
    """Everything has one."""
    inquiry = WhyInquiry("b0", "b0:c:1", NOW_NS, with_stack=False)
    hops = 0
    while inquiry.take(told(inquiry.asked, f"b{hops + 1}", f"b{hops + 1}:c:1"), NOW_NS):
        hops += 1
    assert hops == HOPS_MAX - 1
    assert inquiry.answer["steps"][-1]["reasons"][0]["because"] == "bound"


def test_it_has_a_bound_in_time() -> None:
    """Whoever asked has not given up by then."""
    inquiry = WhyInquiry("a", "a/x", NOW_NS, with_stack=False)
    assert inquiry.limit_ns(NOW_NS) == HOP_LIMIT_NS
    assert inquiry.limit_ns(NOW_NS + LIMIT_NS - 5) == 5
    assert not inquiry.take(told("a/x", "b", "b:a-1:3"), NOW_NS + LIMIT_NS)
    assert inquiry.answer["steps"][-1]["reasons"][0]["because"] == "bound"


def test_who_does_not_answer_ends_the_chain_and_is_named() -> None:
    """What was found so far is worth having."""
    inquiry = WhyInquiry("a", "a/x", NOW_NS, with_stack=False)
    inquiry.take(told("a/x", "b", "b:a-1:3"), NOW_NS)
    inquiry.fail(DeadlineExceeded("control.why: no answer within 2 s"), "unknown")
    assert inquiry.answer["steps"][-1]["reasons"][0]["text"] == (
        "backplane b does not answer (health: unknown): control.why: no answer within 2 s"
    )


@pytest.mark.parametrize("error", [NotFound("no such object"), InvalidArgument("no name")])
def test_a_question_that_is_wrong_is_refused(error: Exception) -> None:
    """By an error, and not by an answer in which it is hidden."""
    inquiry = WhyInquiry("a", "a/x", NOW_NS, with_stack=False)
    with pytest.raises(type(error)):
        inquiry.fail(error, "idle")  # type: ignore[arg-type]


def about(name: str, because: str) -> dict[str, Any]:
    """What one replica says."""
    return {"steps": [{"asked": name, "reasons": [{"because": because}]}], "next": None}


def test_of_replicas_each_is_asked_and_who_has_nothing_to_do_is_left_out() -> None:
    """The call that hangs is in any of them: the first, which is idle, would say that all is well."""
    inquiry = WhyInquiry("a-1", "a-1/x", NOW_NS, with_stack=False, others=[("a-2", "a-2/x"), ("a-3", "a-3/x")])
    assert inquiry.take(about("a-1/x", "idle"), NOW_NS)
    assert (inquiry.backplane, inquiry.asked) == ("a-2", "a-2/x")
    assert inquiry.take(about("a-2/x", "running"), NOW_NS)
    inquiry.give_up("down", "backplane a-3 is down")
    assert not inquiry.ask_replica(NOW_NS)
    assert asked(inquiry) == ["a-2/x", "a-3/x"]


def test_of_replicas_that_have_nothing_to_do_each_says_so() -> None:
    """An empty answer would be none."""
    inquiry = WhyInquiry("a-1", "a-1/x", NOW_NS, with_stack=False, others=[("a-2", "a-2/x")])
    assert inquiry.take(about("a-1/x", "idle"), NOW_NS)
    assert not inquiry.take(about("a-2/x", "idle"), NOW_NS)
    assert asked(inquiry) == ["a-1/x", "a-2/x"]


def test_a_route_of_replicas_is_in_all_of_them() -> None:
    """In the order of the file."""
    index = ComponentEntry("index", operations=(OperationEntry("index.find", 4, "()", ("primary",)),))
    replicas = {name: child(name, index) for name in ("main-1", "main-2")}
    assert places_of(replicas, "index.find") == [("main-1", "index.find"), ("main-2", "index.find")]
    assert places_of(replicas, "index") == [("main-1", "main-1/index"), ("main-2", "main-2/index")]


def child(name: str, *components: ComponentEntry) -> Child:
    """A backplane that is up."""
    registration = Registration(name, 1, 1, "", components)
    found = Child(name, child_settings())
    found.register(registration, 1)
    return found


CHILDREN = {
    "main": child("main", ComponentEntry("index", operations=(OperationEntry("index.find", 4, "()", ("primary",)),))),
    "other": child("other"),
}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("main/index.a", ("main", "main/index.a")),
        ("main:client/1-ab:7", ("main", "main:client/1-ab:7")),
        ("index.find", ("main", "index.find")),
        ("index", ("main", "main/index")),
        ("backplane.other.statistics", ("other", "backplane.other.statistics")),
    ],
)
def test_names_lead_to_the_backplane_that_knows(name: str, place: tuple[str, str]) -> None:
    """A person types what is shown somewhere, not where it is."""
    assert places_of(CHILDREN, name) == [place]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("man/index", "no backplane 'man' (did you mean 'main'?)"),
        ("index.fnd", "did you mean 'index.find'?"),
        ("backplane.nobody.statistics", "is no object"),
    ],
)
def test_names_of_nothing_are_refused_with_what_was_meant(name: str, words: str) -> None:
    """One clear line."""
    with pytest.raises(NotFound, match=r".") as caught:
        places_of(CHILDREN, name)
    assert words in caught.value.message


def test_a_backplane_that_is_not_up_is_not_waited_for() -> None:
    """Its reason is known here."""
    assert is_down(CHILDREN["main"]) is None
    assert is_down(None) == "there is no such backplane"
    failed = Child("main", child_settings())
    failed.stay_down(Phase.FAILED, "died 6 times in 60 s", 1)
    assert is_down(failed) == "backplane main is failed: died 6 times in 60 s"
