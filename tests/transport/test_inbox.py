"""Inbox: bounded, in order, and honest about what is missing."""

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport.inbox import Inbox, Message


@given(st.lists(st.none() | st.integers(0, 3), max_size=40), st.integers(2, 5))
def test_messages_taken_and_losses_told_add_up_to_what_was_sent(steps: list[int | None], bound: int) -> None:
    """A loss that is not told is a silent drop. None takes one; a number puts one that lost so many on its way."""
    inbox = Inbox(bound)
    sent = lost_on_the_way = 0
    taken: list[Message] = []
    for step in [*steps, *[None] * bound]:
        if step is None:
            message = inbox.take()
            taken += [] if message is None else [message]
        else:
            sent += 1
            lost_on_the_way += step
            inbox.put(Message("t", {"n": sent}, step))
        assert len(inbox) <= bound
    assert [m.body["n"] for m in taken] == sorted(m.body["n"] for m in taken)
    assert inbox.lost_count == sum(m.lost for m in taken) == sent - len(taken) + lost_on_the_way


@given(st.lists(st.integers(0, 8), max_size=40), st.integers(1, 20))
def test_bytes_have_a_bound(sizes: list[int], bound: int) -> None:
    """10,000 messages of a megabyte each are no bound."""
    inbox = Inbox(10_000, bound)
    kept: list[int] = []
    for size in sizes:
        inbox.put(Message("t", {}), size)
        kept.append(size)
        while len(kept) > 1 and sum(kept) > bound:
            kept.pop(0)
        assert len(inbox) == len(kept)
    assert inbox.lost_count == len(sizes) - len(kept)


def test_the_newest_is_kept() -> None:
    """A slow listener wants what holds now."""
    inbox = Inbox(2)
    for n in range(5):
        inbox.put(Message("t", {"n": n}))
    assert [inbox.take(), inbox.take(), inbox.take()] == [Message("t", {"n": 3}, 3), Message("t", {"n": 4}), None]


def test_what_was_taken_makes_room() -> None:
    """A reader that keeps up would lose messages as soon as so many bytes have passed in all."""
    inbox = Inbox(10_000, 10)
    for _ in range(5):
        inbox.put(Message("t", {}), 6)
        assert inbox.take() == Message("t", {})
    inbox.put(Message("t", {}), 6)
    inbox.put(Message("t", {}), 4)
    assert (len(inbox), inbox.lost_count) == (2, 0)
