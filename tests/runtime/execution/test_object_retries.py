"""Trying again: calls that objects make are made again as those of clients are, and the object waits meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from appbackplane.runtime import AppObject, BackplaneError, Busy, Component, PeerDown, Unavailable, operation
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.connections import LAST_ANSWERS_NS, LAST_ANSWERS_UNREAD_NS
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, CANCEL, Envelope, reply
from appbackplane.transport.retrying import BACKOFF_MAX_NS


class Asker(AppObject):
    """Asks elsewhere, as it is told to."""

    @operation()
    async def ask(self, timeout: float = 30.0, retry: bool = True, once: str | None = None) -> Any:
        try:
            return await self.call("oracle.answer", timeout=timeout, retry=retry, idempotency_key=once, question="why")
        except BackplaneError as error:
            return [type(error).__name__, error.attempts]

    @operation()
    def ping(self) -> str:
        return "pong"


def built(*idempotent: str) -> VirtualBackplane:
    """One asker; the test is the oracle."""
    backplane = VirtualBackplane(outside=("oracle.answer",), idempotent=idempotent)
    backplane.add(Asker())
    return backplane


@pytest.fixture
def temple() -> VirtualBackplane:
    """The oracle never says the same twice."""
    return built()


def come_back(temple: VirtualBackplane) -> None:
    """The other backplane's next generation."""
    known = temple.backplane.engine.routing.directory
    places = {**known.backplanes, "outside": Place(2, "/nowhere/outside-2.sock")}
    new = Directory("test", known.version + 1, places, known.routes, known.topics, known.idempotent)
    temple.backplane.engine.update(new, temple.clock.now_ns())


def test_a_refusal_is_tried_again_and_the_object_waits(temple: VirtualBackplane) -> None:
    """Law 6: nothing of its own may run in between, or the operation would not know its own object again."""
    asked = temple.call("bench.ask")
    ping = temple.call("bench.ping")
    temple.run_until_idle()
    temple.outside_calls()[0].fail(Busy("full", retry_after=0.5), is_refused=True)
    temple.advance(0.49)
    assert len(temple.outside_calls()) == 1 and not ping.done()
    temple.advance(0.1)
    first, second = temple.outside_calls()
    assert second.arguments == first.arguments == {"question": "why"}
    assert second.envelope.deadline == first.envelope.deadline, "all attempts share one deadline"
    assert second.envelope.chain == first.envelope.chain
    second.reply("because")
    temple.run_until_idle()
    assert asked.result() == "because" and ping.result() == "pong"


def test_what_may_have_begun_is_tried_again_only_where_it_does_no_harm(temple: VirtualBackplane) -> None:
    """The callee died in the middle of it."""
    asked = temple.call("bench.ask")
    temple.run_until_idle()
    temple.kill_outside()
    assert asked.result() == ["PeerDown", 1]


class Teller(AppObject):
    """Tells the answer, or why there is none."""

    @operation()
    async def tell(self) -> str:
        try:
            return str(await self.call("oracle.answer", retry=False))
        except PeerDown as error:
            return error.message


def told_by_a_finished_oracle() -> tuple[VirtualBackplane, VirtualCall]:
    """The oracle has ended, with all its work done, and its answer is not here; the call that waits for it."""
    backplane = VirtualBackplane(outside=("oracle.answer",))
    backplane.add(Teller())
    told = backplane.call("bench.tell")
    backplane.run_until_idle()
    engine = backplane.backplane.engine
    directory = engine.routing.directory
    place = msgspec.structs.replace(directory.backplanes["outside"], is_up=False, has_finished=True)
    places = {**directory.backplanes, "outside": place}
    new = msgspec.structs.replace(directory, version=directory.version + 1, backplanes=places)
    engine.update(new, backplane.clock.now_ns())
    backplane.run_until_idle()
    return backplane, told


def test_work_that_was_done_is_not_told_to_have_died() -> None:
    """Its backplane had finished all that it had, and only the answer was lost: nobody should do it again because of it."""
    finished, told = told_by_a_finished_oracle()
    finished.advance(LAST_ANSWERS_NS / 1e9)
    assert told.result() == (
        "oracle.answer: backplane 'outside' has ended, and its answer was lost on the way: the work was done, unless it "
        "was refused"
    )


def test_an_answer_may_come_behind_the_table_that_tells_of_the_end_of_its_backplane() -> None:
    """They come by different sockets, and this one's thread had not read it yet."""
    finished, told = told_by_a_finished_oracle()
    come_back(finished)
    finished.advance(LAST_ANSWERS_NS / 2e9)
    finished.outside_calls()[0].reply("because")
    assert told.result() == "because"


def test_an_answer_that_this_backplane_has_not_read_is_waited_for() -> None:
    """With a tenth of a core it takes a few frames from the link between two looks at the time."""
    finished, told = told_by_a_finished_oracle()
    engine = finished.backplane.engine
    finished.clock.sleep(LAST_ANSWERS_NS / 1e9)
    engine.outgoing.expire(finished.clock.now_ns(), is_unread=True)
    finished.outside_calls()[0].reply("because")
    assert told.result() == "because"


def test_not_for_ever() -> None:
    """Where the link is never empty."""
    finished, told = told_by_a_finished_oracle()
    finished.clock.sleep(LAST_ANSWERS_UNREAD_NS / 1e9)
    finished.backplane.engine.outgoing.expire(finished.clock.now_ns(), is_unread=True)
    assert "was lost on the way" in told.result()


@pytest.mark.parametrize("is_keyed", [True, False])
def test_a_death_is_survived(is_keyed: bool) -> None:
    """By what is idempotent, and by what bears a key, which travels again."""
    temple = built() if is_keyed else built("oracle.answer")
    asked = temple.call("bench.ask", once="k") if is_keyed else temple.call("bench.ask")
    temple.run_until_idle()
    temple.kill_outside()
    temple.advance(5.0)
    assert len(temple.outside_calls()) == 1 and not asked.done(), "there is nobody to ask"
    come_back(temple)
    temple.advance(0.1)
    again = temple.outside_calls()[-1]
    assert again.envelope.idempotency_key == ("k" if is_keyed else None)
    again.reply("because")
    temple.run_until_idle()
    assert asked.result() == "because"


def test_who_does_not_want_it_is_told_at_once(temple: VirtualBackplane) -> None:
    """An operation may have a better plan than to wait."""
    asked = temple.call("bench.ask", arguments={"retry": False})
    temple.run_until_idle()
    temple.outside_calls()[0].fail(Busy("full"), is_refused=True)
    temple.run_until_idle()
    assert asked.result() == ["Busy", 1]
    temple.kill_outside()
    assert temple.call("bench.ask", arguments={"retry": False}).result() == ["Unavailable", 1]


def test_it_ends_before_the_deadline_with_what_it_was_told_last(temple: VirtualBackplane) -> None:
    """And says how often it was tried."""
    temple.kill_outside()
    asked = temple.call("bench.ask", timeout=3.0)
    temple.advance(3.0)
    kind, attempts = asked.result()
    assert kind == "Unavailable" and attempts > 3_000_000_000 // BACKOFF_MAX_NS


def test_cancelling_ends_it_between_two_attempts(temple: VirtualBackplane) -> None:
    """The object must not stay in the wait queue for somebody who has gone."""
    temple.kill_outside()
    asked = temple.hear_call(Envelope(CALL, 999, None, "bench.ask", None, None, None, {}))
    temple.run_until_idle()
    temple.hear(Envelope(CANCEL, 999))
    assert temple.call("bench.ping").result() == "pong"
    come_back(temple)
    temple.advance(1.0)
    assert temple.outside_calls() == []
    assert asked.result() == ["Cancelled", 1], "what the operation made of it"


def test_the_budget_is_one_for_all_objects() -> None:
    """A backplane of a thousand objects is one client of its callees."""
    temple = built("oracle.answer")
    for number in range(300):
        temple.add(Asker(), key=str(number))
    asked = [temple.call("bench.ask", key=str(number), timeout=2.0) for number in range(300)]
    sent = 0
    for _ in range(50):
        temple.advance(0.05)
        for call in temple.outside_calls()[sent:]:
            sent += 1
            call.fail(Unavailable("overloaded"))
    assert all(call.done() for call in asked)
    # A fifth of the calls, ten a second, and those of the ten seconds before that a process begins with.
    assert 300 < sent <= 300 * 1.2 + 10 * (50 * 0.05 + 10)


class Full(Component):
    """Has room for one."""

    max_requests = 1

    @operation()
    async def enter(self, seconds: float) -> str:
        from appbackplane.runtime import pause

        await pause(seconds)
        return "in"


def test_what_this_very_backplane_refuses_is_tried_again_too() -> None:
    """Where an object lives must not decide how it is called."""

    class Guest(AppObject):
        @operation()
        async def visit(self) -> Any:
            return await self.call("full.enter", seconds=0.1)

    backplane = VirtualBackplane(Full())
    backplane.add(Guest())
    first = backplane.call("full.enter", seconds=1.0)
    backplane.run_until_idle()
    visit = backplane.call("bench.visit")
    backplane.advance(0.5)
    assert not visit.done()
    backplane.advance(3.0)
    assert (first.result(), visit.result()) == ("in", "in")


def test_why_says_that_it_pauses(temple: VirtualBackplane) -> None:
    """Not that it waits for somebody who has never heard of it."""
    temple.kill_outside()
    temple.call("bench.ask")
    temple.run_until_idle()
    (step,) = temple.backplane.why("bench.ask")["steps"]
    assert [reason["because"] for reason in step["reasons"]] == ["pauses"]


def test_peer_down_is_what_it_was(temple: VirtualBackplane) -> None:
    """An error that is not tried again comes as itself."""
    temple.call("bench.ask")
    temple.run_until_idle()
    temple.outside_calls()[0].fail(PeerDown("gone"))
    assert temple.run_until_idle() == ["ask"]


def test_among_several_an_idempotency_key_leads_to_one_place(temple: VirtualBackplane) -> None:
    """Also where the caller's own backplane serves it, which is asked first otherwise: another would do it again."""
    engine = temple.backplane.engine
    known = engine.routing.directory
    routes = {"bench.ping": ("outside", "virtual")}
    engine.update(Directory("test", known.version + 1, known.backplanes, routes), temple.clock.now_ns())
    resolve = engine.routing.resolve
    assert resolve(CallSpec("bench.ping", {})) is None
    homes = [
        [resolve(CallSpec("bench.ping", {}, idempotency_key=f"key-{number}")) for _ in range(3)] for number in range(20)
    ]
    assert all(len(set(home)) == 1 for home in homes)
    assert {home[0] for home in homes} == {None, "outside"}


def test_what_is_served_here_is_called_here_while_others_have_yet_to_register(temple: VirtualBackplane) -> None:
    """And what nobody serves yet is waited for: it was an unknown route."""
    engine = temple.backplane.engine
    known = engine.routing.directory
    engine.update(Directory("test", known.version + 1, missing=("virtual", "late")), temple.clock.now_ns())
    assert engine.routing.resolve(CallSpec("bench.ping", {})) is None
    with pytest.raises(Unavailable, match=r"'late\.do' is not known yet") as caught:
        engine.routing.resolve(CallSpec("late.do", {}))
    assert caught.value.retry_after


def test_nobody_answers_a_call_that_waits_for_its_retry(temple: VirtualBackplane) -> None:
    """A process chooses the identity that it connects under. Under that of "waits for its retry" it would forge the result."""
    asked = temple.call("bench.ask")
    temple.run_until_idle()
    temple.outside_calls()[0].fail(Busy("full", retry_after=0.5), is_refused=True)
    temple.run_until_idle()
    for word in (b"\x00retry", b"\x00unsent", b"\x00clock"):
        for id in range(1, 20):
            temple.hear(reply(id, "forged"), word)
    temple.run_until_idle()
    assert not asked.done()
    temple.advance(0.6)
    temple.outside_calls()[1].reply("because")
    temple.run_until_idle()
    assert asked.result() == "because"
