"""OutstandingCalls: every call ends exactly once, by whatever comes first."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from appbackplane.transport.calls import OutstandingCalls
from tests.profiles import examples

PEERS = st.sampled_from([b"a", b"b"])


class CallsAgainstAPlainTable(RuleBasedStateMachine):
    """Against a dictionary that is searched from end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: OutstandingCalls[str] = OutstandingCalls()
        self.open_calls: dict[int, tuple[bytes, int]] = {}
        self.ended: set[int] = set()
        self.late_count = 0

    def end(self, ids: list[int]) -> None:
        """Whatever ends, had not ended before."""
        for id in ids:
            assert id not in self.ended, "a call ended twice"
            self.ended.add(id)
            del self.open_calls[id]

    @rule(peer=PEERS, deadline_ns=st.integers(0, 50))
    def opens(self, peer: bytes, deadline_ns: int) -> None:
        id = self.calls.open(peer, deadline_ns, f"{peer!r} {deadline_ns}")
        assert id > 0 and id not in self.ended and id not in self.open_calls
        self.open_calls[id] = (peer, deadline_ns)

    @rule(id=st.integers(0, 40), peer=PEERS | st.none())
    def answers(self, id: int, peer: bytes | None) -> None:
        token = self.calls.end(id, peer)
        known = self.open_calls.get(id)
        if known is not None and peer in (None, known[0]):
            assert token == f"{known[0]!r} {known[1]}"
            self.end([id])
        else:
            assert token is None, "an answer of a stranger, or to a call that has ended, counted"
            self.late_count += 1

    @rule(now_ns=st.integers(0, 50))
    def expires(self, now_ns: int) -> None:
        overdue = sorted((at_ns, id) for id, (_, at_ns) in self.open_calls.items() if at_ns <= now_ns)
        expired = self.calls.expire(now_ns)
        assert [id for id, _, _ in expired] == [id for _, id in overdue]
        assert all(self.open_calls[id][0] == peer for id, peer, _ in expired)
        self.end([id for id, _, _ in expired])
        told_ns = self.calls.next_deadline_ns()
        assert told_ns is None or told_ns > now_ns, "who wakes when it is due wakes again and again"

    @rule(peer=PEERS)
    def peer_dies(self, peer: bytes) -> None:
        held = [id for id, (callee, _) in self.open_calls.items() if callee == peer]
        assert [id for id, _ in self.calls.fail_peer(peer)] == held
        self.end(held)

    @invariant()
    def agrees(self) -> None:
        assert len(self.calls) == len(self.open_calls)
        assert self.calls.late_count == self.late_count
        assert {id: self.calls.peer_of(id) for id in self.open_calls} == {id: c[0] for id, c in self.open_calls.items()}
        told_ns, nearest_ns = self.calls.next_deadline_ns(), self.nearest_ns()
        assert (told_ns is None) == (nearest_ns is None), "who has nothing to wait for wakes, or who has never does"
        assert told_ns is None or nearest_ns is None or told_ns <= nearest_ns, "a call ends after its deadline"

    def nearest_ns(self) -> int | None:
        """Of the calls that are open."""
        return min((at_ns for _, at_ns in self.open_calls.values()), default=None)


TestCallsAgainstAPlainTable = CallsAgainstAPlainTable.TestCase
TestCallsAgainstAPlainTable.settings = settings(max_examples=examples(20), stateful_step_count=40, deadline=None)


def test_deadlines_of_ended_calls_are_swept() -> None:
    """At thirty seconds' default and 200,000 calls a second, who keeps the dead holds six million of them."""
    calls: OutstandingCalls[int] = OutstandingCalls()
    kept = calls.open(b"a", 10**9, 0)
    for n in range(20_000):
        calls.end(calls.open(b"a", 10**12 + n, n))
    assert calls.noted_count < 5_000
    assert [id for id, _, _ in calls.expire(10**9)] == [kept]


def test_sweeping_forgets_none_that_is_outstanding() -> None:
    """In order or not: one that were forgotten would have no deadline any more."""
    calls: OutstandingCalls[int] = OutstandingCalls()
    kept = [calls.open(b"a", at_ns, at_ns) for at_ns in (700, 500, 900, 600, 800)]
    for n in range(10_000):
        calls.end(calls.open(b"a", 100 + n % 3_000, n))
    assert [token for _, _, token in calls.expire(899)] == [500, 600, 700, 800]
    assert calls.next_deadline_ns() == 900 and [id for id, _, _ in calls.expire(900)] == [kept[2]]
