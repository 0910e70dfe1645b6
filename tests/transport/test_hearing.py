"""Hearing: every place that is up is asked once for every topic somebody hears, and nobody waits for the dead."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from appbackplane.transport.hearing import Ask, Hearing
from tests.profiles import examples

topics = st.sampled_from(["t", "u"])
subscribers = st.integers(1, 3)
places = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 3), max_size=2)


class HearingAgainstWhatIsKnown(RuleBasedStateMachine):
    """Keeps by hand which generation has been asked for what, and what it answered."""

    def __init__(self) -> None:
        super().__init__()
        self.hearing = Hearing()
        self.heard: dict[str, set[int]] = {}
        self.up: dict[str, int] = {}
        self.asked: set[Ask] = set()
        self.confirmed: set[Ask] = set()
        self.waiting: dict[int, str] = {}
        self.next_waiter = 0

    def ask(self, asks: list[Ask]) -> None:
        """New questions: never one twice."""
        assert len(set(asks)) == len(asks) and not self.asked & set(asks), "asked twice"
        self.asked |= set(asks)

    def free(self, waiters: list[object]) -> None:
        """They waited, and their topic stands."""
        for waiter in waiters:
            assert isinstance(waiter, int)
            topic = self.waiting.pop(waiter)
            assert self.missing(topic) == set(), "let go too early"

    def missing(self, topic: str) -> set[str]:
        """Places that have not confirmed a topic."""
        if topic not in self.heard:
            return set()
        return {name for name, generation in self.up.items() if Ask(name, generation, topic) not in self.confirmed}

    @rule(topic=topics, subscriber=subscribers)
    def subscribes(self, topic: str, subscriber: int) -> None:
        self.heard.setdefault(topic, set()).add(subscriber)
        self.ask(self.hearing.add(topic, subscriber))
        self.next_waiter += 1
        if self.hearing.wait(topic, self.next_waiter):
            assert self.missing(topic)
            self.waiting[self.next_waiter] = topic
        else:
            assert not self.missing(topic)

    @rule(topic=topics, subscriber=subscribers)
    def unsubscribes(self, topic: str, subscriber: int) -> None:
        told = self.hearing.remove(topic, subscriber)
        remaining = self.heard.get(topic, set()) - {subscriber}
        if subscriber in self.heard.get(topic, set()) and not remaining:
            assert set(told) == set(self.up) - self.missing(topic), "who confirmed must be told, and nobody else"
            del self.heard[topic]
            self.asked = {ask for ask in self.asked if ask.topic != topic}
            self.confirmed = {ask for ask in self.confirmed if ask.topic != topic}
            self.waiting = {waiter: other for waiter, other in self.waiting.items() if other != topic}
        else:
            assert told == []
            if remaining:
                self.heard[topic] = remaining

    @rule(up=places)
    def directory_changes(self, up: dict[str, int]) -> None:
        asks, freed = self.hearing.update(up)
        ended = {ask for ask in self.asked if up.get(ask.name) != ask.generation}
        self.up = up
        self.asked -= ended
        self.confirmed -= ended
        self.ask(asks)
        self.free(freed)

    @rule(data=st.data())
    def a_place_confirms(self, data: st.DataObject) -> None:
        if self.asked:
            ask = data.draw(st.sampled_from(sorted(self.asked)))
            self.confirmed.add(ask)
            self.free(self.hearing.answered(ask))

    @invariant()
    def all_that_are_up_are_asked_and_no_others(self) -> None:
        assert self.asked == {Ask(n, g, t) for n, g in self.up.items() for t in self.heard}
        for topic in ("t", "u"):
            assert set(self.hearing.unanswered(topic)) == self.missing(topic)
            assert set(self.hearing.table.matching(topic)) == self.heard.get(topic, set())
        assert all(self.missing(topic) for topic in self.waiting.values()), "nobody waits for what stands"
        heard = [subscriber for subscribers in self.heard.values() for subscriber in subscribers]
        assert sorted(map(repr, self.hearing.subscribers())) == sorted(map(repr, heard))


TestHearing = HearingAgainstWhatIsKnown.TestCase
TestHearing.settings = settings(max_examples=examples(20), stateful_step_count=30, deadline=None)


def test_an_answer_of_an_earlier_generation_confirms_nothing() -> None:
    """The new process knows of nobody yet: what it publishes would be missed."""
    hearing = Hearing()
    hearing.update({"a": 1})
    (old,) = hearing.add("t", 1)
    hearing.update({"a": 2})
    assert hearing.answered(old) == []
    assert hearing.unanswered("t") == ["a"] and not hearing.is_wanted(old)
