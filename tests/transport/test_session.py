"""Session: a client's side, against a link that is a list. No sockets, no clock, no threads."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from appbackplane.transport.batching import PEER_BYTES_MAX, SendResult
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import FRAME_BYTES_MAX, Encoder, batch, decode
from appbackplane.transport.connections import ANSWERS_AHEAD, ANSWERS_AHEAD_MAX, LAST_ANSWERS_NS
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, CAST, PUBLISH, Envelope, reply, status
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PeerDown,
    Unavailable,
    UnknownRoute,
)
from appbackplane.transport.events import Ended, Events, Heard
from appbackplane.transport.frame_reader import HELD_FRAMES_MAX
from appbackplane.transport.inbox import Message
from appbackplane.transport.session import (
    DIRECTORY_TOPIC,
    FRAMES_MAX,
    REFRESH_NS,
    STALLED_RETRY_NS,
    SUBSCRIBE_RETRY_NS,
    ClientSession,
)
from tests.nesting import UNREADABLE_DEPTH, nested
from tests.profiles import examples

MS = 1_000_000

RUN = Path("/run/s")
encoder = Encoder()


class ListLink:
    """A link whose far ends are the tests."""

    def __init__(self) -> None:
        self.peers: dict[bytes, str] = {}
        self.sent: list[tuple[str, Envelope]] = []
        self.frames_count = self.ahead_frames = 0
        self.coming: list[tuple[bytes, bytes]] = []
        self.answers: dict[str, SendResult] = {}
        self.connected_count = 0

    def connect(self, path: Path) -> bytes:
        """A new peer, even for a path that is known."""
        self.connected_count += 1
        peer = b"peer-%d" % self.connected_count
        self.peers[peer] = path.stem
        return peer

    def disconnect(self, peer: bytes) -> None:
        """It is an error to forget a stranger."""
        del self.peers[peer]

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        """Note what is said, by the name of the socket it is said to."""
        answer = self.answers.get(self.peers[peer], SendResult.SENT)
        if answer is SendResult.SENT:
            self.frames_count += 1
            self.sent += [(self.peers[peer], envelope) for envelope in decode(frame)]
        return answer

    def read_ahead(self, frames: int) -> None:
        """Note how many."""
        self.ahead_frames = frames

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next that was fed."""
        return self.coming.pop(0) if self.coming else None

    def feed(self, socket: str, *envelopes: Envelope, peer: bytes | None = None) -> None:
        """Let `socket` say something in one frame."""
        peer = peer or next(peer for peer, name in self.peers.items() if name == socket)
        self.coming.append((peer, batch([encoder.encode(envelope) for envelope in envelopes])))

    def take(self, socket: str) -> list[Envelope]:
        """What was said to `socket` since the last time."""
        taken = [envelope for name, envelope in self.sent if name == socket]
        self.sent = [(name, envelope) for name, envelope in self.sent if name != socket]
        return taken


def directory(version: int = 1, **generations: int | None) -> Directory:
    """`index` serves and hears; `query` serves. A generation of None is down."""
    places = {"index": 1, "query": 1} | generations
    return Directory(
        "s",
        version,
        {name: Place(g or 1, str(RUN / f"{name}-{g or 1}.sock"), g is not None) for name, g in places.items()},
        {"index.stats": ("index",), "query.search": ("query",), "any.one": ("index", "query")},
        {"files.*": ("index",)},
    )


def take_all(events: Events) -> list[Ended | Heard]:
    """What an owner does with them."""
    taken = list(events)
    events.clear()
    return taken


class World:
    """A session, its link and a clock that is a number."""

    def __init__(self, version: int = 1, *, is_started: bool = True) -> None:
        self.link = ListLink()
        self.session = ClientSession(self.link, RUN / "supervisor.sock")
        self.now_ns = 1_000
        if is_started:
            self.session.start("start", self.now_ns, 10**9)
            self.turn()
            (ask,) = self.link.take("supervisor")
            assert (ask.kind, ask.route, ask.body) == (CALL, "supervisor.directory", {})
            self.link.feed("supervisor", reply(ask.id, directory(version).to_body()))
            assert self.turn() == [Ended("start", None, None)]

    def turn(self, after_ns: int = 0) -> list[Ended | Heard]:
        """What happened by then."""
        self.now_ns += after_ns
        return take_all(self.session.turn(self.now_ns))

    def call(self, token: str, route: str = "query.search", *, key: str | None = None, timeout_ns: int = 10**9) -> int:
        """Begin a call."""
        return self.session.call(token, self.spec({"text": "x"}, route, timeout_ns=timeout_ns, key=key), self.now_ns)

    def spec(
        self, body: dict[str, Any], route: str = "query.search", *, timeout_ns: int = 10**9, **fields: Any
    ) -> CallSpec:
        """A call that begins now, and may be made again."""
        return CallSpec(route, body, **{"ends_ns": self.now_ns + timeout_ns, "is_retried": True, **fields})

    def push(self, new: Directory) -> list[Ended | Heard]:
        """The supervisor publishes a directory."""
        self.link.feed("supervisor", Envelope(PUBLISH, new.version, None, DIRECTORY_TOPIC, body=new.to_body()))
        return self.turn()


@pytest.fixture
def world() -> World:
    """A session that is connected."""
    return World()


def only_error(events: list[Ended | Heard]) -> BackplaneError:
    """The error of the one call that ended."""
    (event,) = events
    assert isinstance(event, Ended) and event.error is not None
    return event.error


def test_a_call_goes_to_the_one_who_serves_it_and_comes_back_with_its_token(world: World) -> None:
    """The whole of it. A client that names no priority leaves it to the operation."""
    id = world.call("mine")
    assert world.link.take("query-1") == [], "before a turn nothing leaves"
    world.turn()
    (envelope,) = world.link.take("query-1")
    assert envelope == Envelope(
        CALL, id, None, "query.search", None, -(10**9 + world.now_ns), None, {"text": "x"}, None
    )
    world.link.feed("query-1", reply(id, [1, 2]))
    assert world.turn() == [Ended("mine", [1, 2], None)]
    assert world.session.outstanding_count == 0


def test_what_is_asked_in_one_turn_leaves_as_one_frame_a_peer(world: World) -> None:
    """DESIGN 5."""
    for n in range(100):
        world.call(f"{n}")
    before = world.link.frames_count
    world.turn()
    assert world.link.frames_count == before + 1 and len(world.link.take("query-1")) == 100


def test_a_status_is_its_error(world: World) -> None:
    """With its hint: else `Busy` could only be guessed at."""
    id = world.call("mine")
    world.turn()
    world.link.feed("query-1", status(id, Busy("full", retry_after=0.5)))
    error = only_error(world.turn())
    assert type(error) is Busy and error.retry_after == 0.5


def test_an_unknown_route_is_refused_before_anything_leaves(world: World) -> None:
    """And nothing is left outstanding."""
    with pytest.raises(UnknownRoute, match=r"did you mean 'query\.search'"):
        world.call("mine", "query.serch")
    world.turn()
    assert world.session.outstanding_count == 0 and world.link.sent == []


@pytest.mark.parametrize(
    ("body", "words"), [({"x": object()}, "cannot be serialised"), ({"x": b"." * FRAME_BYTES_MAX}, "exceed")]
)
def test_what_cannot_travel_is_refused_with_the_route(world: World, body: dict[str, Any], words: str) -> None:
    """The caller has many calls; which of them was it?"""
    with pytest.raises(InvalidArgument, match=rf"query\.search: .*{words}"):
        world.session.call("mine", world.spec(body), world.now_ns)
    assert world.session.outstanding_count == 0
    assert world.turn() == []


def test_a_deadline_ends_the_call_and_tells_the_callee(world: World) -> None:
    """DESIGN 12.5. Else the callee carries on for nobody."""
    id = world.call("mine", timeout_ns=100)
    world.turn()
    world.link.take("query-1")
    assert world.session.next_wake_ns(world.now_ns) == world.now_ns + 100
    error = only_error(world.turn(100))
    assert type(error) is DeadlineExceeded and "query.search" in str(error) and "query" in str(error)
    assert world.link.take("query-1") == [Envelope(CANCEL, id)]


def test_a_late_reply_is_counted_and_dropped(world: World) -> None:
    """Delivered, it would be the answer to nothing, or end a call twice."""
    id = world.call("mine", timeout_ns=100)
    world.turn(100)
    world.link.feed("query-1", reply(id, "late"))
    assert world.turn() == [] and world.session.core.calls.late_count == 1


def test_a_strangers_answer_counts_for_nothing(world: World) -> None:
    """Only the callee may answer."""
    id = world.call("mine")
    world.call("other", "index.stats")
    world.turn()
    world.link.feed("index-1", reply(id, "forged"))
    assert world.turn() == []
    world.link.feed("query-1", reply(id, "true"))
    assert world.turn() == [Ended("mine", "true", None)]


def test_a_call_taken_back_ends_once_and_the_callee_is_told(world: World) -> None:
    """And one that has ended is left alone."""
    id = world.call("mine")
    world.turn()
    world.link.take("query-1")
    world.session.cancel(id)
    assert world.session.has_more, "its end must be told though nothing comes"
    assert type(only_error(world.turn())) is Cancelled
    assert world.link.take("query-1") == [Envelope(CANCEL, id)]
    world.session.cancel(id)
    assert world.turn() == [] and world.link.sent == []


def test_a_call_that_is_handed_on_keeps_its_trace(world: World) -> None:
    """Everything else of it is as without."""
    session = world.session
    for trace in (None, "00-trace"):
        session.call("token", world.spec({"x": 1}, priority=3, idempotency_key="i", trace=trace), world.now_ns)
    world.turn()
    plain, traced = world.link.take("query-1")
    assert (plain.trace, traced.trace) == (None, "00-trace")
    traced.trace, traced.id = None, plain.id
    assert traced == plain


def test_a_call_that_something_urgent_waits_for_is_hurried(world: World) -> None:
    """Law 10, for who only hands on; and of one that has ended nothing is said."""
    id = world.call("mine")
    world.turn()
    world.link.take("query-1")
    world.session.boost(id, 2)
    world.turn()
    assert world.link.take("query-1") == [Envelope(BOOST, id, 2)]
    world.session.cancel(id)
    world.turn()
    world.link.take("query-1")
    world.session.boost(id, 1)
    assert len(world.turn()) == 0 and world.link.sent == []


@pytest.mark.parametrize("generation", [None, 2])
def test_a_death_ends_the_calls_at_once_and_the_next_generation_gets_none_of_them(generation: int | None) -> None:
    """Waiting for the deadline would be thirty seconds of silence; sending it again might run it twice."""
    world = World()
    world.call("mine")
    world.call("other", "index.stats")
    world.turn()
    world.call("unsent")
    events = world.push(directory(2, query=generation))
    assert {(e.token, type(e.error)) for e in events if isinstance(e, Ended)} == {
        ("mine", PeerDown),
        ("unsent", PeerDown),
    }
    assert "query-1" not in world.link.peers.values(), "the dead are let go"
    if generation is None:
        with pytest.raises(Unavailable) as caught:
            world.call("again")
        assert caught.value.retry_after
    else:
        world.call("again")
        world.turn()
        assert len(world.link.take("query-2")) == 1


def test_an_answer_that_came_before_the_death_counts(world: World) -> None:
    """The work was done and said so."""
    id = world.call("mine")
    world.turn()
    world.link.feed("supervisor", Envelope(PUBLISH, 2, None, DIRECTORY_TOPIC, body=directory(2, query=None).to_body()))
    world.link.feed("query-1", reply(id, "done"))
    assert world.turn() == [Ended("mine", "done", None)]


def test_an_older_directory_changes_nothing(world: World) -> None:
    """Versions may cross; who is up must not flicker."""
    world.push(directory(5, query=2))
    world.push(directory(4, query=None))
    world.call("mine")
    world.turn()
    assert len(world.link.take("query-2")) == 1


def test_a_directory_comes_from_the_supervisor_only(world: World) -> None:
    """A backplane could otherwise send all calls to itself."""
    world.call("mine")
    world.turn()
    world.link.feed("query-1", Envelope(PUBLISH, 1, None, DIRECTORY_TOPIC, body=directory(9, query=None).to_body()))
    assert world.turn() == [] and world.session.directory == directory(1)


def test_a_directory_that_is_none_is_counted(world: World) -> None:
    """A malformed push must not take the client along."""
    world.link.feed("supervisor", Envelope(PUBLISH, 2, None, DIRECTORY_TOPIC, body={"system": 5}))
    world.turn()
    assert world.session.reader.malformed_count == 1 and world.session.directory == directory(1)


def test_a_start_that_gets_no_directory_fails() -> None:
    """Else `connect` would return something that knows no route."""
    world = World(is_started=False)
    with pytest.raises(Unavailable):
        world.call("early")
    id = world.session.start("start", world.now_ns, 100)
    world.turn()
    world.link.feed("supervisor", reply(id, "nonsense"))
    assert type(only_error(world.turn())) is Unavailable
    world.session.start("again", world.now_ns, 100)
    assert type(only_error(world.turn(100))) is DeadlineExceeded


def test_a_start_that_is_to_ask_again_does_so_until_its_deadline() -> None:
    """A node that has just started has no routing table itself, for a moment."""
    world = World(is_started=False)
    not_yet = Unavailable("not yet", retry_after=0.25)
    world.session.start("start", world.now_ns, 1_000 * MS)
    world.turn()
    (first,) = world.link.take("supervisor")
    world.link.feed("supervisor", status(first.id, not_yet, is_refused=True))
    assert world.turn() == [] and world.link.take("supervisor") == []
    due_ns = world.session.next_wake_ns(world.now_ns)
    assert due_ns is not None and due_ns >= world.now_ns + 250 * MS
    assert world.turn(due_ns - world.now_ns) == []
    (second,) = world.link.take("supervisor")
    world.link.feed("supervisor", reply(second.id, directory().to_body()))
    assert world.turn() == [Ended("start", None, None)]
    world.session.start("late", world.now_ns, 100 * MS)
    world.turn()
    (third,) = world.link.take("supervisor")
    world.link.feed("supervisor", status(third.id, not_yet, is_refused=True))
    assert type(only_error(world.turn())) is Unavailable


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_start_that_is_to_ask_again_ends_once_when_its_system_or_its_owner_does(is_closed: bool) -> None:
    """Nobody would answer any more."""
    world = World(is_started=False)
    world.session.start("start", world.now_ns, 10**9)
    world.turn()
    (ask,) = world.link.take("supervisor")
    world.link.feed("supervisor", status(ask.id, Unavailable("not yet", retry_after=0.25), is_refused=True))
    assert world.turn() == []
    gone = Unavailable("gone")
    if is_closed:
        assert take_all(world.session.end_all(gone)) == [Ended("start", None, gone)]
    else:
        world.session.system_gone(gone)
        assert world.turn() == [Ended("start", None, gone)]
    assert world.session.next_wake_ns(world.now_ns) is None


def test_after_a_deadline_the_directory_is_fetched_and_not_too_often(world: World) -> None:
    """Our link to the supervisor may have been cut: without this we would call the dead for ever."""
    world.call("one", timeout_ns=100)
    world.call("two", timeout_ns=200)
    world.turn()
    world.turn(100)
    world.turn(100)
    (fetch,) = world.link.take("supervisor")
    assert fetch.route == "supervisor.directory"
    world.link.feed("supervisor", reply(fetch.id, directory(1, query=2).to_body()))
    assert world.turn() == [], "a fetched one counts, whatever its version: the supervisor may be new"
    assert world.session.directory == directory(1, query=2)
    world.call("three", timeout_ns=100)
    world.turn(REFRESH_NS)
    assert len(world.link.take("supervisor")) == 1


def test_supervisor_routes_go_to_the_supervisor(world: World) -> None:
    """The command line is a client like any other."""
    id = world.call("status", "supervisor.status")
    world.turn()
    world.link.feed("supervisor", reply(id, {"state": "primary"}))
    assert world.turn() == [Ended("status", {"state": "primary"}, None)]


def test_frames_and_envelopes_without_sense_are_counted_and_the_rest_goes_on(world: World) -> None:
    """Never fatal (DESIGN 6)."""
    id = world.call("mine")
    world.turn()
    world.link.coming.append((b"peer-2", b"\xc1"))
    world.link.feed("query-1", Envelope(CALL, 1, None, "who.calls", body={}), reply(id, "fine"))
    assert world.turn() == [Ended("mine", "fine", None)]
    assert world.session.reader.malformed_count == 2


def test_beside_an_answer_that_cannot_be_read_the_others_of_its_frame_are_heard(world: World) -> None:
    """The packer takes 1,022 nested lists and the unpacker does not: all answers of the frame were lost."""
    ids = [world.call(name) for name in ("first", "bad", "last")]
    world.turn()
    world.link.feed("query-1", reply(ids[0], 1), reply(ids[1], nested(UNREADABLE_DEPTH)), reply(ids[2], 3))
    first, bad, last = world.turn()
    assert (first, last) == (Ended("first", 1, None), Ended("last", 3, None))
    assert isinstance(bad, Ended) and bad.token == "bad"
    assert type(bad.error) is InvalidArgument and "the answer cannot be read" in bad.error.message
    assert world.session.reader.malformed_count == 1


def test_a_call_that_no_callee_can_read_is_retried_like_any_other(world: World) -> None:
    """To retry it, its packed form was read here: that failed, and the turn with it, in whichever thread took it."""
    body = {"x": nested(UNREADABLE_DEPTH)}
    world.link.answers["query-1"] = SendResult.FULL  # as this link reads what it sends
    id = world.session.call("bad", world.spec(body), world.now_ns)
    world.turn()
    world.link.feed("query-1", status(id, Busy("full", retry_after=0.0), is_refused=True))
    assert world.turn() == []
    world.push(directory(2, query=None))
    assert world.session.call_later(Unavailable("query is not up"), "bad", world.now_ns, world.spec(body)) > id


def test_a_flood_is_read_in_parts(world: World) -> None:
    """Else a flood of topics keeps a caller from its deadline."""
    world.call("mine", "index.stats")
    world.turn()
    for n in range(FRAMES_MAX + 1):
        world.link.feed("index-1", Envelope(PUBLISH, n + 1, None, "files.x", body={}))
    world.turn()
    assert world.session.has_more and world.session.next_wake_ns(world.now_ns) == world.now_ns
    assert len(world.link.coming) == 1
    world.turn()
    assert not world.session.has_more


def test_connecting_calls_for_a_turn(world: World) -> None:
    """It touches the link, and the descriptor is edge-triggered: a frame could lie there unseen."""
    world.call("mine")
    assert world.session.has_more
    world.turn()
    assert not world.session.has_more
    world.call("mine")
    assert not world.session.has_more and world.session.core.gathered_count == 1


def test_a_peer_that_does_not_read_is_tried_again_and_at_its_bound_refused(world: World) -> None:
    """Backpressure with a word for it, and nothing lost."""
    world.call("first")
    world.link.answers["query-1"] = SendResult.FULL
    world.turn()
    assert world.session.next_wake_ns(world.now_ns) == world.now_ns + STALLED_RETRY_NS
    body = {"x": b"." * (PEER_BYTES_MAX // 4)}
    for n in range(3):
        world.session.call(f"{n}", world.spec(body, timeout_ns=10**12), world.now_ns)
    with pytest.raises(Busy, match="query does not read") as caught:
        world.session.call("too much", world.spec(body, timeout_ns=10**12), world.now_ns)
    assert caught.value.retry_after
    outstanding = world.session.outstanding_count
    del world.link.answers["query-1"]
    world.turn(STALLED_RETRY_NS)
    assert len(world.link.take("query-1")) == outstanding


def test_what_a_place_answered_before_it_ended_counts(world: World) -> None:
    """A thread that waits reads a frame a turn: followed at once, the directory would end calls whose answers wait beside it,
    and a backplane that was drained would seem to have died with its work.
    """
    ids = [world.call(f"call-{number}") for number in range(100)]
    world.turn()
    new = directory(2, query=None)
    world.link.feed("query-1", reply(ids[0], 0))
    world.link.feed("supervisor", Envelope(PUBLISH, 2, None, DIRECTORY_TOPIC, body=new.to_body()))
    for number, id in enumerate(ids[1:], 1):
        world.link.feed("query-1", reply(id, number))
    ended: list[Ended | Heard] = []
    while world.session.outstanding_count:
        ended += take_all(world.session.turn(world.now_ns, 1))
    assert [event.error for event in ended if isinstance(event, Ended)] == [None] * 100
    world.turn()
    assert world.session.directory == new


def test_all_answers_that_were_outstanding_are_read_before_a_directory_is_followed(world: World) -> None:
    """A thousand calls, read when their backplane has been restarted: beyond some frames, they seemed to have died.

    Peers take turns on a link: a topic beside each answer must not count against them.
    """
    ids = [world.call(f"{number}") for number in range(1_000)]
    world.turn()
    new = directory(2, query=2)
    world.link.feed("supervisor", Envelope(PUBLISH, 2, None, DIRECTORY_TOPIC, body=new.to_body()))
    for number, id in enumerate(ids):
        world.link.feed("index-1", peer=b"flood")
        world.link.feed("query-1", reply(id, number))
    ended: list[Ended | Heard] = []
    while world.session.outstanding_count:
        ended += world.turn()
    assert [event.error for event in ended if isinstance(event, Ended)] == [None] * 1_000


def test_the_link_reads_as_far_ahead_as_answers_are_outstanding(world: World) -> None:
    """What stays with a peer until we read it is lost when that peer ends."""
    for number in range(ANSWERS_AHEAD):
        world.call(f"{number}")
    world.turn()
    assert world.link.ahead_frames == 0, "a link has room for so many as it is made"
    for number in range(1_000):
        world.call(f"more-{number}")
    world.turn()
    assert world.link.ahead_frames >= 1_000 + ANSWERS_AHEAD
    for number in range(2 * ANSWERS_AHEAD_MAX):
        world.call(f"many-{number}")
    world.turn()
    assert world.link.ahead_frames == 2 * ANSWERS_AHEAD_MAX, "any peer may fill them"


@pytest.mark.parametrize("of", ["topic", "stream"])
def test_where_peers_send_more_than_answers_the_bound_stays(world: World, of: str) -> None:
    """A peer may have sent as much as is read ahead. If more were read ahead from then on, it would never be read again."""
    if of == "topic":
        world.session.subscribe("files.*", "sub", "waiter", world.now_ns)
    else:
        world.session.call("rows", CallSpec("index.stats", {}, window=8, ends_ns=world.now_ns + 10**9), world.now_ns)
    for number in range(1_000):
        world.call(f"{number}")
    world.turn()
    assert world.link.ahead_frames == 0


def finished(version: int) -> Directory:
    """`query` has ended, with all its work done."""
    ended = directory(version, query=None)
    place = msgspec.structs.replace(ended.backplanes["query"], has_finished=True)
    return msgspec.structs.replace(ended, backplanes={**ended.backplanes, "query": place})


def test_answers_may_come_behind_the_table_that_tells_of_the_end_of_their_backplane(world: World) -> None:
    """ZeroMQ's thread had read the supervisor's connection first: calls of a rolling restart ended in PEER_DOWN."""
    ids = [world.call(token, timeout_ns=2 * LAST_ANSWERS_NS) for token in ("first", "second")]
    world.turn()
    (old,) = [peer for peer, name in world.link.peers.items() if name == "query-1"]
    assert world.push(finished(2)) == [] == world.push(directory(3, query=2))
    world.call("next", timeout_ns=2 * LAST_ANSWERS_NS)
    world.turn()
    assert len(world.link.take("query-2")) == 1, "the next generation is called meanwhile"
    world.link.feed("query-1", *(reply(id, id) for id in ids))
    assert world.turn() == [Ended("first", ids[0], None), Ended("second", ids[1], None)]
    assert world.session.next_wake_ns(world.now_ns) == world.now_ns + LAST_ANSWERS_NS
    assert world.turn(LAST_ANSWERS_NS) == [] and world.session.outstanding_count == 1
    assert old not in world.link.peers


def test_answers_that_this_process_has_not_read_are_waited_for(world: World) -> None:
    """A process with a tenth of a core reads a few frames between two looks at the time."""
    mine = world.call("mine", timeout_ns=20 * LAST_ANSWERS_NS)
    world.turn()
    world.push(finished(2))
    for number in range(3):
        world.link.feed("supervisor", Envelope(PUBLISH, number + 1, None, "prices", body={"number": number}))
    world.link.feed("query-1", reply(mine, "answer"))
    world.now_ns += LAST_ANSWERS_NS
    events = [event for _ in range(4) for event in world.session.turn(world.now_ns, frames_max=1)]
    assert Ended("mine", "answer", None) in events


def test_nothing_is_waited_for_where_no_call_is(world: World) -> None:
    """A connection to a path that nobody listens on any more is tried again and again."""
    world.call("mine")
    world.turn()
    world.link.feed("query-1", reply(1, None), reply(2, None), reply(3, None))
    world.turn()
    assert world.push(finished(2)) == []
    assert "query-1" not in world.link.peers.values()


def test_cancelling_a_call_of_one_that_has_finished_does_not_end_those_of_the_next(world: World) -> None:
    """They have the same name, and the one that has ended cannot be reached."""
    late = world.call("late")
    world.turn()
    world.push(finished(2))
    world.push(directory(3, query=2))
    world.call("next")
    world.link.answers["query-1"] = SendResult.UNREACHABLE
    world.session.cancel(late)
    assert [type(event.error) for event in world.turn() if isinstance(event, Ended)] == [Cancelled]
    assert world.session.outstanding_count == 1


def test_a_lost_answer_of_work_that_was_done_is_told_as_that(world: World) -> None:
    """Nobody should do it again because of it. The version that says so may be followed by another before we look."""
    world.call("mine", timeout_ns=2 * LAST_ANSWERS_NS)
    world.turn()
    for new in (finished(2), directory(3, query=2)):
        world.link.feed("supervisor", Envelope(PUBLISH, new.version, None, DIRECTORY_TOPIC, body=new.to_body()))
    assert world.turn(LAST_ANSWERS_NS - 1) == []
    assert world.turn(LAST_ANSWERS_NS - 1) == []
    error = only_error(world.turn(1))
    assert type(error) is PeerDown
    assert error.message == (
        "backplane 'query' has ended, and its answer was lost on the way: the work was done, unless it was refused"
    )
    world.call("next")
    world.turn()
    assert "is not known" in only_error(world.push(directory(4, query=3))).message, "of another generation"


def test_what_the_system_before_has_finished_says_nothing_of_this_one(world: World) -> None:
    """Work of a killed process was told as done, because a generation of the same number had been drained before `up`."""
    world.call("mine")
    world.turn()
    assert world.push(finished(2)) == []
    world.session.system_gone(PeerDown("the supervisor is gone"))
    assert "the work was done" in only_error(world.turn()).message
    world.session.start("again", world.now_ns, 10**9)
    world.turn()
    ask = world.link.take("supervisor")[-1]
    world.link.feed("supervisor", reply(ask.id, directory(1).to_body()))
    world.turn()
    world.call("next")
    world.turn()
    assert "is not known" in only_error(world.push(directory(2, query=None))).message


def test_a_flood_does_not_keep_a_directory_from_being_followed(world: World) -> None:
    """Whoever waits for the dead would learn it when the flood is over."""
    world.call("mine")
    world.turn()
    new = directory(2, query=None)
    world.link.feed("supervisor", Envelope(PUBLISH, 2, None, DIRECTORY_TOPIC, body=new.to_body()))
    turns = 0
    while world.session.directory != new:
        world.link.feed("index-1", peer=b"flood")
        world.link.feed("index-1", peer=b"flood")
        world.session.turn(world.now_ns, 1)
        turns += 1
        assert turns <= HELD_FRAMES_MAX + 2


def test_who_cannot_be_reached_ends_its_calls_and_is_connected_again(world: World) -> None:
    """EHOSTUNREACH is a status, not a loss (DESIGN 6)."""
    world.call("mine")
    world.link.answers["query-1"] = SendResult.UNREACHABLE
    assert type(only_error(world.turn())) is PeerDown
    del world.link.answers["query-1"]
    world.call("again")
    world.turn()
    assert len(world.link.take("query-1")) == 1


def test_when_the_supervisor_cannot_be_reached_the_system_is_gone(world: World) -> None:
    """Its backplanes end with it."""
    world.call("mine")
    world.turn()
    world.call("status", "supervisor.status")
    world.link.answers["supervisor"] = SendResult.UNREACHABLE
    events = world.turn()
    assert {(e.token, type(e.error)) for e in events if isinstance(e, Ended)} == {
        ("mine", PeerDown),
        ("status", PeerDown),
    }
    assert world.session.directory is None and world.link.peers == {}


def test_a_system_that_is_gone_ends_everything_and_may_come_back(world: World) -> None:
    """Even with lower versions than before."""
    world.push(directory(9))
    world.call("mine")
    world.session.subscribe("files.x", "sub", "waiter", world.now_ns)
    world.turn()
    world.link.sent.clear()
    world.session.system_gone(PeerDown("gone"))
    events = world.turn()
    assert {(e.token, type(e.error)) for e in events if isinstance(e, Ended)} == {
        ("mine", PeerDown),
        ("waiter", PeerDown),
    }
    with pytest.raises(Unavailable):
        world.call("mine")
    id = world.session.start("again", world.now_ns, 10**9)
    world.turn()
    world.link.feed("supervisor", reply(id, directory(1).to_body()))
    assert world.turn() == [Ended("again", None, None)]
    assert {e.route for e in world.link.take("index-1")} == {"backplane.index.subscribe"}, "subscriptions live on"


def test_the_end_of_the_owner_ends_every_call_and_still_sends_what_was_cast(world: World) -> None:
    """A program that casts and exits has said something."""
    world.call("mine")
    world.turn()
    world.session.cast(CallSpec("query.search", {"text": "last"}, priority=3), world.now_ns)
    events = take_all(world.session.end_all(Cancelled("closed")))
    assert [(e.token, type(e.error)) for e in events if isinstance(e, Ended)] == [("mine", Cancelled)]
    cast = world.link.take("query-1")[-1]
    assert cast == Envelope(CAST, 0, 3, "query.search", body={"text": "last"})
    assert world.session.outstanding_count == 0


def test_before_the_end_what_was_cast_is_proved_to_have_come(world: World) -> None:
    """A send that returned is not a delivery: a connection that is closed while it is made takes it along."""
    assert not world.session.settle("nothing", world.now_ns, 10**9)
    world.session.cast(CallSpec("query.search", {}), world.now_ns)
    world.session.publish("files.a", None, {})
    assert world.session.settle("settled", world.now_ns, 10**9)
    world.turn()
    (cast, query), (message, index) = world.link.take("query-1"), world.link.take("index-1")
    assert (cast.kind, query.kind, message.kind, index.kind) == (CAST, CALL, PUBLISH, CALL), "asked after them"
    world.link.feed("query-1", status(query.id, NotFound("a refusal proves it, too")))
    assert world.turn() == []
    world.link.feed("index-1", reply(index.id, {}))
    assert world.turn() == [Ended("settled", None, None)]
    assert not world.session.settle("again", world.now_ns, 10**9)


def test_who_dies_or_does_not_answer_holds_up_no_end(world: World) -> None:
    """Nothing more can be done for them."""
    world.session.cast(CallSpec("query.search", {}), world.now_ns)
    world.session.publish("files.a", None, {})
    world.session.settle("settled", world.now_ns, 100)
    world.push(directory(2, query=None))
    assert world.turn(100) == [Ended("settled", None, None)]


# -- topics -----------------------------------------------------------------------------------------------------------


def confirm(world: World, socket: str) -> list[Ended | Heard]:
    """The backplane confirms all subscriptions it was asked for."""
    asked = [e for e in world.link.take(socket) if (e.route or "").endswith(".subscribe")]
    world.link.feed(socket, *(reply(e.id, {}) for e in asked))
    return world.turn()


def test_a_subscription_stands_when_every_backplane_has_confirmed(world: World) -> None:
    """TRAPS 10, the slow joiner: what is published right afterwards must be heard."""
    assert world.session.subscribe("files.*", "sub", "waiter", world.now_ns)
    world.turn()
    assert world.session.hearing.unanswered("files.*") == ["index", "query"]
    assert confirm(world, "index-1") == []
    assert world.session.hearing.unanswered("files.*") == ["query"]
    assert confirm(world, "query-1") == [Ended("waiter", None, None)]
    assert not world.session.subscribe("files.*", "another", "waiter", world.now_ns), "it stands already"
    world.turn()
    assert world.link.sent == [], "and nobody is asked twice"


def test_messages_are_heard_with_their_losses(world: World) -> None:
    """Numbered a publisher and topic: a gap is seen."""
    world.session.subscribe("files.*", "sub", "waiter", world.now_ns)
    world.turn()
    world.link.feed("index-1", Envelope(PUBLISH, 1, None, "files.a", body={"n": 1}))
    world.link.feed("index-1", Envelope(PUBLISH, 4, None, "files.a", body={"n": 4}))
    world.link.feed("query-1", Envelope(PUBLISH, 9, None, "files.a", body={}))
    world.link.feed("index-1", Envelope(PUBLISH, 5, None, "other", body={}))
    events = world.turn()
    assert [(event.subscriber, event.message) for event in events if isinstance(event, Heard)] == [
        ("sub", Message("files.a", {"n": 1}, 0)),
        ("sub", Message("files.a", {"n": 4}, 2)),
        ("sub", Message("files.a", {}, 0)),
    ]
    assert all(isinstance(event, Heard) and event.size > 10 for event in events)
    assert world.session.gaps.lost_count == 2


def test_a_new_generation_is_asked_again_and_counts_from_one(world: World) -> None:
    """It knows of nobody."""
    world.session.subscribe("files.x", "sub", "waiter", world.now_ns)
    world.turn()
    confirm(world, "index-1")
    world.link.feed("index-1", Envelope(PUBLISH, 7, None, "files.x", body={}))
    world.turn()
    world.push(directory(2, index=2))
    (ask,) = world.link.take("index-2")
    assert (ask.route, ask.body) == ("backplane.index.subscribe", {"topic": "files.x"})
    world.link.feed("index-2", Envelope(PUBLISH, 1, None, "files.x", body={}))
    assert [(e.subscriber, e.message) for e in world.turn() if isinstance(e, Heard)] == [
        ("sub", Message("files.x", {}, 0))
    ]


def test_nobody_waits_for_a_place_that_died(world: World) -> None:
    """It will be asked when it is back."""
    world.session.subscribe("files.x", "sub", "waiter", world.now_ns)
    world.turn()
    confirm(world, "index-1")
    assert world.push(directory(2, query=None)) == [Ended("waiter", None, None)]


def test_a_place_that_has_no_time_is_asked_again(world: World) -> None:
    """Starting or busy: later it will know."""
    world.session.subscribe("files.x", "sub", "waiter", world.now_ns)
    world.turn()
    confirm(world, "query-1")
    (ask,) = world.link.take("index-1")
    world.link.feed("index-1", status(ask.id, Busy("later")))
    assert world.turn() == []
    assert world.session.next_wake_ns(world.now_ns) == world.now_ns + SUBSCRIBE_RETRY_NS
    world.turn(SUBSCRIBE_RETRY_NS)
    assert confirm(world, "index-1") == [Ended("waiter", None, None)]


def test_a_place_that_will_never_do_it_is_believed(world: World) -> None:
    """Asking again would not help; the subscriber is told."""
    world.session.subscribe("files.x", "sub", "waiter", world.now_ns)
    world.turn()
    (ask,) = world.link.take("index-1")
    world.link.feed("index-1", status(ask.id, NotFound("no such topic")))
    assert type(only_error(world.turn())) is NotFound


def test_the_last_subscriber_takes_the_subscription_along(world: World) -> None:
    """Else messages come for ever for nobody."""
    world.session.subscribe("files.x", "one", "waiter", world.now_ns)
    world.session.subscribe("files.x", "two", "waiter", world.now_ns)
    world.turn()
    confirm(world, "index-1")
    confirm(world, "query-1")
    world.session.unsubscribe("files.x", "one", world.now_ns)
    world.turn()
    assert world.link.sent == []
    world.session.unsubscribe("files.x", "two", world.now_ns)
    world.session.unsubscribe("files.x", "two", world.now_ns)
    world.turn()
    (call,) = world.link.take("index-1")
    assert (call.kind, call.route, call.body) == (CALL, "backplane.index.unsubscribe", {"topic": "files.x"})
    world.link.feed("index-1", status(call.id, NotFound("whatever")))
    assert world.turn() == [], "nobody waits for it"


def test_what_is_published_goes_to_those_whose_objects_hear_it_numbered(world: World) -> None:
    """Numbered from 1, so that they see what they lose."""
    assert [world.session.publish("files.a", None, {"n": n}) for n in range(2)] == [1, 1]
    assert world.session.publish("nobody.hears", None, {}) == 0
    world.turn()
    assert [(e.kind, e.id, e.route, e.body) for e in world.link.take("index-1")] == [
        (PUBLISH, 1, "files.a", {"n": 0}),
        (PUBLISH, 2, "files.a", {"n": 1}),
    ]
    world.push(directory(2, index=2))
    world.session.publish("files.a", None, {})
    world.turn()
    assert [e.id for e in world.link.take("index-2")] == [1], "a new generation counts from one"
    world.push(directory(3, index=None))
    assert world.session.publish("files.a", None, {}) == 0


def test_what_is_no_topic_is_refused(world: World) -> None:
    """At once, and not by silence."""
    with pytest.raises(InvalidArgument):
        world.session.publish("files.*", None, {})
    with pytest.raises(InvalidArgument):
        world.session.subscribe("*", "sub", "waiter", 0)


class CallsOfASession(RuleBasedStateMachine):
    """Any order of calls, answers (also twice, late and from strangers), deadlines, deaths and cancellations."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.generations: dict[str, int] = {"index": 1, "query": 1}
        self.version = 1
        self.open: dict[int, str] = {}
        self.allowed: dict[int, set[type | None]] = {}
        self.ids: list[tuple[int, str]] = []

    def settle(self, events: list[Ended | Heard]) -> None:
        """Each end is the first of its call, and for a reason there is."""
        for event in events:
            assert isinstance(event, Ended)
            assert event.token in self.open, "a call ended twice, or one that nobody made"
            kind = None if event.error is None else type(event.error)
            assert kind in self.allowed[event.token], f"no reason to end in {kind}"
            del self.open[event.token]

    @rule(route=st.sampled_from(["index.stats", "query.search", "any.one"]), timeout_ns=st.integers(1, 40))
    def calls(self, route: str, timeout_ns: int) -> None:
        token = len(self.ids) + 1
        id = self.world.session.call(token, self.world.spec({}, route, timeout_ns=timeout_ns), self.world.now_ns)
        self.open[token], self.allowed[token] = route, {DeadlineExceeded}
        self.ids.append((id, route))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), socket=st.sampled_from(["index", "query"]), is_error=st.booleans())
    def somebody_answers(self, data: st.DataObject, socket: str, is_error: bool) -> None:
        index = data.draw(st.integers(0, len(self.ids) - 1))
        id, _route = self.ids[index]
        name = f"{socket}-{self.generations[socket]}"
        if name in self.world.link.peers.values():
            self.world.link.feed(name, status(id, Busy("full")) if is_error else reply(id, "done"))
            self.allowed[index + 1].add(Busy if is_error else None)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def the_caller_takes_it_back(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.ids) - 1))
        self.allowed[index + 1].add(Cancelled)
        self.world.session.cancel(self.ids[index][0])

    @rule(name=st.sampled_from(["index", "query"]))
    def a_backplane_dies_and_comes_back(self, name: str) -> None:
        self.generations[name] += 1
        self.version += 1
        for allowed in self.allowed.values():
            allowed.add(PeerDown)
        self.settle(self.world.push(directory(self.version, **self.generations)))

    @rule(after_ns=st.integers(0, 20))
    def time_passes(self, after_ns: int) -> None:
        self.settle(self.world.turn(after_ns))

    @invariant()
    def what_is_open_here_is_outstanding_there(self) -> None:
        told = len(self.world.session._events)  # ended outside a turn, to be told in the next
        fetching = sum(type(token).__name__ == "Fetch" for _, _, (token, *_) in self.calls_of_session())
        assert self.world.session.outstanding_count - fetching == len(self.open) - told

    @invariant()
    def bytes_outstanding_are_those_of_the_calls(self) -> None:
        """What drifted would stop a client for good, or never."""
        sizes = [size for _, _, (_, _, size, _) in self.calls_of_session()]
        assert self.world.session.core._outstanding_bytes == sum(sizes)
        assert all(sizes)

    def calls_of_session(self) -> list[tuple[bytes, int, tuple[object, str, int, bytes | None]]]:
        """What the session itself has open."""
        return list(self.world.session.core.calls._calls.values())

    def teardown(self) -> None:
        self.settle(self.world.turn(10**10))
        assert self.open == {}, "a call that never ended"


TestCallsOfASession = CallsOfASession.TestCase
TestCallsOfASession.settings = settings(max_examples=examples(30), stateful_step_count=30, deadline=None)


def test_a_place_that_is_drained_is_told_once_that_nothing_more_comes(world: World) -> None:
    """Behind all that was asked there: it closes when all who call have said so. Who is not connected says nothing."""
    world.call("one")
    drained = msgspec.structs.replace(directory(2).backplanes["query"], is_draining=True)
    idle = msgspec.structs.replace(directory(2).backplanes["index"], is_draining=True)
    new = msgspec.structs.replace(directory(2), backplanes={"query": drained, "index": idle})
    world.push(new)
    world.turn()
    said = [(envelope.kind, envelope.route) for envelope in world.link.take("query-1")]
    assert said == [(CALL, "query.search"), (CAST, "backplane.query.farewell")]
    with pytest.raises(Unavailable):
        world.call("two")
    world.push(msgspec.structs.replace(new, version=3))
    world.turn()
    assert world.link.take("query-1") == []
    assert world.link.take("index-1") == []
