"""Readers: connections are made anew, whatever ends them, and what readers read reaches things and the repository."""

from __future__ import annotations

from typing import Any

import pytest
from rfid import handlers, things
from rfid.epcis import event_of_pass
from rfid.handlers import ReaderLink, ReaderLinks, Smoothers
from rfid.llrp import KEEPALIVE_ACK, frame
from rfid.messages import AcknowledgementAsked, Connect, FellSilent, OtherFrame, ReaderEvent, ReadsReported, TagRead
from rfid.readers import Readers, ReaderSettings
from rfid.smoothing import Smoother, SmoothingPolicy
from rfid.things import EventOutbox

from appbackplane.runtime import InvalidArgument, Unavailable
from appbackplane.runtime.dispatcher.sources import Outlet, TimerSource
from appbackplane.runtime.dispatcher.sources.sockets import Closed, Connected, Failed, Malformed, SocketSource
from appbackplane.runtime.testing import VirtualBackplane

DOOR = "urn:epc:id:sgln:0614141.07346.1"
EPC, URI = "3014257bf7194e4000000002", "urn:epc:id:sgtin:0614141.812345.2"
READ = TagRead(EPC, 1, -50, 100, 100, 3)


class HandlerBench:
    """The handlers with sources that record, and one reader."""

    def __init__(self) -> None:
        self.sockets, self.timers, self.out = SocketSource(), TimerSource(), Outlet()
        self.link = ReaderLink(("127.0.0.1", 5084), "dock", retry_s=1.0, silent_s=10.0)
        self.links = ReaderLinks({"dock": self.link})
        self.smoothers = Smoothers({("dock", 1): (DOOR, Smoother(SmoothingPolicy()))})

    def connect(self, connection: int = 7) -> None:
        """Until the reader has greeted."""
        handlers.connect(Connect("dock"), self.links, self.sockets, self.timers)
        handlers.take_connection(Connected(self.link.attempt, connection, "peer"), self.links)
        self.hear(ReaderEvent("dock", None, connection=connection))

    def hear(self, event: ReaderEvent) -> None:
        handlers.take_event(event, self.links, self.smoothers, self.sockets, self.timers, self.out)

    def end(self, because: str = "closed by the peer", connection: int = 7) -> None:
        handlers.take_end(Closed(connection, because), self.links, self.timers, self.out)

    def refuse(self) -> None:
        handlers.refuse(Malformed(7, "BadFrame: noise", b""), self.links, self.sockets, self.out)

    @property
    def waits(self) -> list[tuple[float, Any]]:
        """The timers."""
        return [(each.seconds, type(each.message)) for each in self.timers.begun.values()]

    @property
    def begun(self) -> list[Any]:
        """What the sockets were asked for, without connecting."""
        return [tuple(each) for each in self.sockets.begun.values() if each.what != "connect"]

    def told(self) -> list[tuple[str, dict[str, Any]]]:
        """The casts since the last time."""
        casts = [(each.to, each.arguments) for each in self.out.casts]
        self.out.casts.clear()
        return casts


def note(*, is_connected: bool, malformed: int = 0) -> tuple[str, dict[str, Any]]:
    return "readers.note", {"is_connected": is_connected, "malformed": malformed}


def test_a_reader_counts_as_connected_when_it_is_heard() -> None:
    """And each frame counts its silence anew."""
    dock = HandlerBench()
    dock.connect()
    assert dock.told() == [note(is_connected=True)]
    handlers.take_other(OtherFrame("dock", 7), dock.links, dock.timers, dock.out)
    assert (dock.told(), dock.waits) == ([], [(10.0, FellSilent)])


def test_a_connection_that_ends_is_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    """After a pause. It is logged once, however often it fails."""
    dock = HandlerBench()
    dock.connect()
    dock.end()
    assert dock.told()[-1] == note(is_connected=False)
    assert dock.waits == [(1.0, Connect)]
    for _ in range(3):
        handlers.connect(Connect("dock"), dock.links, dock.sockets, dock.timers)
        handlers.take_failure(Failed(dock.link.attempt, 0, "Connection refused"), dock.links, dock.timers, dock.out)
    assert [each.message for each in caplog.records] == ["reader dock: closed by the peer: connecting again each 1 s"]
    assert {kind for _, kind in dock.waits} == {Connect}
    dock.connect(connection=8)
    dock.end("Connection reset", connection=7)
    assert dock.link.connection == 8, "the end of an earlier connection is no news"


def test_a_malformed_frame_ends_the_connection_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """The start of the next frame is not known."""
    dock = HandlerBench()
    dock.connect()
    dock.told()
    dock.refuse()
    dock.end("closed here")
    assert dock.begun == [("close", (7,))]
    assert dock.told() == [note(is_connected=False, malformed=1), note(is_connected=False)]
    assert [each.message for each in caplog.records] == ["reader dock: BadFrame: noise: connecting again each 1 s"]


def test_silence_is_the_end_of_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Of one that was made, and of one that never is: a cable that was cut says nothing."""
    dock = HandlerBench()
    dock.connect()
    silence = FellSilent("dock")
    handlers.take_silence(silence, dock.links, dock.sockets, dock.timers, dock.out)
    assert dock.begun == [("close", (7,))]
    handlers.connect(Connect("dock"), dock.links, dock.sockets, dock.timers)
    attempt = dock.link.attempt
    handlers.take_silence(silence, dock.links, dock.sockets, dock.timers, dock.out)
    assert attempt not in dock.sockets.begun
    assert {kind for _, kind in dock.waits} == {Connect}
    assert [each.message for each in caplog.records] == ["reader dock: silent for 10 s: connecting again each 1 s"]


def test_a_reader_with_another_client_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """It is no error of the reader's."""
    dock = HandlerBench()
    handlers.connect(Connect("dock"), dock.links, dock.sockets, dock.timers)
    handlers.take_connection(Connected(dock.link.attempt, 7, "peer"), dock.links)
    dock.hear(ReaderEvent("dock", None, is_refused=True, connection=7))
    dock.end()
    assert dock.told() == []
    assert [each.message for each in caplog.records] == [
        "reader dock: another client is connected to it: connecting again each 1 s"
    ]


def test_a_keepalive_is_acknowledged() -> None:
    """With its id, or the reader hangs up."""
    dock = HandlerBench()
    dock.connect()
    asked = AcknowledgementAsked("dock", 99, connection=7)
    handlers.acknowledge(asked, dock.links, dock.sockets, dock.timers, dock.out)
    assert dock.begun == [("write", (7, frame(KEEPALIVE_ACK, 99)))]


def test_reads_become_arrivals_and_time_departures(caplog: pytest.LogCaptureFixture) -> None:
    """An antenna that nobody has configured is named once."""
    dock = HandlerBench()
    dock.connect()
    dock.told()
    report = ReadsReported("dock", (READ, TagRead(EPC, 9, -50, 100, 100, 3)), connection=7)
    for _ in range(2):
        handlers.take_reads(report, dock.links, dock.smoothers, dock.timers, dock.out)
    dock.hear(ReaderEvent("dock", 1_500_100, connection=7))
    assert dock.told() == [
        ("readers.arrive", {"epc": EPC, "first_us": 100}),
        ("readers.depart", {"epc": EPC, "last_us": 100, "reads": 6}),
    ]
    assert [each.message for each in caplog.records] == [
        "reader dock: antenna 9 is not in the settings: its reads are dropped"
    ]


# -- the component --------------------------------------------------------------------------------------------------------


def readers(**settings: Any) -> Readers:
    """One reader with one antenna, at a port where nobody listens."""
    return Readers({"dock": ReaderSettings("127.0.0.1:1", [DOOR])}, **settings)


def test_an_antenna_is_a_thing_and_its_arrivals_reach_the_repository() -> None:
    """Subscribers are told at once, and the repository soon."""
    backplane = VirtualBackplane(readers(), outside=("repository.capture",), topics=("things.*",))
    backplane.call("readers.arrive", key=DOOR, epc=EPC, first_us=100).result()
    assert backplane.call("readers.present", key=DOOR).result() == [URI]
    backplane.advance(things.SEND_S)
    [capture] = backplane.outside_calls("repository.capture")
    assert capture.arguments == {"events": [event_of_pass(EPC, 100, DOOR, "receiving")]}
    capture.reply("job")
    backplane.call("readers.depart", key=DOOR, epc=EPC, last_us=200, reads=3).result()
    heard = [(body["thing"], body["name"], body["data"]) for _, body in backplane.published if body["thing"] == DOOR]
    assert heard == [
        (DOOR, "tag_seen", {"epc": URI, "since": "1970-01-01T00:00:00.000100Z"}),
        (DOOR, "present_count", 1),
        (DOOR, "tag_gone", {"epc": URI, "until": "1970-01-01T00:00:00.000200Z", "reads": 3}),
        (DOOR, "present_count", 0),
    ]
    backplane.advance(things.SEND_S)
    assert len(backplane.outside_calls("repository.capture")) == 1, "it has the event"


def test_events_wait_for_a_repository_that_is_down(caplog: pytest.LogCaptureFixture) -> None:
    """In their order; it is logged once."""
    backplane = VirtualBackplane(readers(), outside=("repository.capture",))
    for number in range(3):
        backplane.call("readers.arrive", key=DOOR, epc=EPC, first_us=number).result()
        backplane.advance(things.SEND_S)
        backplane.outside_calls("repository.capture")[-1].fail(Unavailable("it starts"))
        backplane.run_until_idle()
    backplane.advance(things.SEND_S)
    sent = backplane.outside_calls("repository.capture")[-1].arguments["events"]
    assert sent == [event_of_pass(EPC, number, DOOR, "receiving") for number in range(3)]
    assert [each.message.split(":")[0] for each in caplog.records if each.name == "rfid.things"] == [
        "the repository takes no events, which are sent again"
    ]


def test_an_outbox_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that is down for days must not fill the memory."""
    monkeypatch.setattr(things, "UNSENT_MAX", 1)
    backplane = VirtualBackplane(outside=("repository.capture",))
    backplane.add(EventOutbox())
    backplane.call("bench.send", event={"eventID": "urn:a"}).result()
    error = backplane.call("bench.send", event={"eventID": "urn:b"}).exception()
    assert str(error) == "1 events wait for the repository: urn:b is lost"


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        (ReaderSettings("localhost:5084"), "readers.dock.address = 'localhost:5084': expected IP:PORT"),
        (ReaderSettings("127.0.0.1:0"), "expected IP:PORT, such as 192.0.2.7:5084"),
        (ReaderSettings("127.0.0.1:1", ["door"]), "readers.dock.antennas: 'door': expected a URI"),
        (ReaderSettings("127.0.0.1:1", [DOOR], "eating"), "bizStep 'eating'"),
        (
            ReaderSettings("127.0.0.1:1", [DOOR, DOOR]),
            "readers.dock.antennas: 'urn:epc:id:sgln:0614141.07346.1' is there twice",
        ),
    ],
)
def test_wrong_settings_are_refused(reader: ReaderSettings, words: str) -> None:
    """When the backplane starts, by name."""
    with pytest.raises((ValueError, InvalidArgument), match=words):
        Readers({"dock": reader}).setup()


def test_wrong_policies_are_refused() -> None:
    """A window that is longer than a tag stays would never end a pass."""
    for settings in ({"reads_min": 0}, {"window_ms": 2_000}, {"retry_s": 0.0}, {"silent_s": -1.0}):
        with pytest.raises(ValueError, match="expected reads_min, retry_s and silent_s above 0"):
            readers(**settings)
