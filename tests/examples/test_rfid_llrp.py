"""LLRP: frames of the standard are understood, however their bytes arrive, and bytes that are no frames are refused."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rfid import llrp
from rfid.epc import sgtin_96, uri_of
from rfid.llrp import Llrp
from rfid.messages import AcknowledgementAsked, OtherFrame, ReaderEvent, ReadsReported, TagRead

from appbackplane.runtime.dispatcher import Message
from appbackplane.runtime.dispatcher.sources.sockets import BadFrame

#: RO_ACCESS_REPORT, version 1, id 7, with one TagReportData: EPC-96, antenna 2, -50 dBm, both times, seen twice.
REPORT = bytes.fromhex(
    "043d 0000003d 00000007 00f0 0033"
    "8d 3074257bf7194e4000001a85 810002 86ce 82 000647433a8ac000 84 000647433a8ac064 880002 890000007b 8e0001".replace(
        " ", ""
    )
)
READ = TagRead("3074257bf7194e4000001a85", 2, -50, 0x6_4743_3A8A_C000, 0x6_4743_3A8A_C064, 2)

reads = st.builds(
    TagRead,
    epc=st.binary(min_size=12, max_size=12).map(bytes.hex),
    antenna=st.integers(0, 0xFFFF),
    rssi=st.integers(-128, 127),
    first_us=st.integers(0, 10**15),
    last_us=st.integers(10**15, 10**17),
    count=st.integers(0, 0xFFFF),
)


def messages(*chunks: bytes) -> list[Message]:
    """What a framing makes of bytes that arrive in these chunks."""
    framing, buffer, found = Llrp("dock"), bytearray(), list[Message]()
    for chunk in chunks:
        buffer += chunk
        while (frame := framing.split(buffer)) is not None:
            found.append(framing.message_of(frame, connection=5))
    return found


def test_a_frame_of_the_standard_is_understood() -> None:
    """The bytes are written by hand, after the standard: an error of the encoder would hide the same one of the decoder."""
    assert messages(REPORT) == [ReadsReported("dock", (READ,), connection=5)]


def test_the_encoder_writes_what_the_standard_says() -> None:
    """The same report, without the two parameters that the simulated reader does not send."""
    expected = REPORT[:2] + struct.pack(">I", 53) + REPORT[6:12] + struct.pack(">H", 43) + REPORT[14:53]
    assert llrp.report_frame(7, [READ]) == expected


@given(st.lists(reads, max_size=5), st.lists(st.integers(1, 30), max_size=20))
def test_chunks_make_no_difference(reported: Sequence[TagRead], cuts: Sequence[int]) -> None:
    """TCP keeps no boundaries."""
    data = llrp.connection_frame(1, 5) + llrp.report_frame(2, reported) + llrp.frame(62, 3) + llrp.round_frame(4, 77)
    chunks = []
    for size in cuts:
        chunks.append(data[:size])
        data = data[size:]
    assert messages(*chunks, data) == [
        ReaderEvent("dock", None, connection=5),
        ReadsReported("dock", tuple(reported), connection=5),
        AcknowledgementAsked("dock", 3, connection=5),
        ReaderEvent("dock", 77, connection=5),
    ]


def test_a_reader_that_has_another_client_says_so() -> None:
    """Its refusal is an event, and not an error of the protocol."""
    assert messages(llrp.connection_frame(1, 5, status=2)) == [ReaderEvent("dock", None, is_refused=True, connection=5)]


def test_other_types_show_that_the_reader_lives() -> None:
    """An ERROR_MESSAGE, of version 2. Its body is not looked at."""
    assert messages(llrp.frame(100, 1, b"anything", version=2)) == [OtherFrame("dock", connection=5)]


def test_an_epc_may_have_another_length() -> None:
    """EPCData: bits are counted, and padded to bytes."""
    body = llrp._tlv(240, llrp._tlv(241, b"\x00\x0c\xab\xc0") + b"\x81\x00\x01" + b"\x84" + bytes(8))
    assert messages(llrp.frame(61, 1, body)) == [ReadsReported("dock", (TagRead("abc0", 1, 0, 0, 0, 1),), connection=5)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"this is no frame", "version 5: expected 1 or 2: is this a reader that speaks LLRP?"),
        (llrp.frame(61, 1, version=3), "version 3: expected 1 or 2"),
        (struct.pack(">HII", 1 << 10 | 61, 9, 1), "a frame of 9 bytes: expected 10 to 65,536"),
        (struct.pack(">HII", 1 << 10 | 61, 1 << 31, 1), "a frame of 2,147,483,648 bytes"),
        (llrp.frame(61, 1, b"\xff"), "TV parameter 127 is none of LLRP 1.1"),
        (llrp.frame(61, 1, b"\x81\x00"), "parameter 1 ends 1 bytes behind its frame"),
        (llrp.frame(61, 1, b"\x00"), "a parameter ends within its header"),
        (llrp.frame(61, 1, b"\x00\xf0\x00\x03"), "parameter 240 claims 3 bytes"),
        (llrp.frame(61, 1, llrp._tlv(240, b"\x8d" + bytes(12))), "parameter 4 is missing: configure the reader"),
        (llrp.frame(61, 1, llrp._tlv(240, b"\x84" + bytes(8))), "parameter 241 is missing"),
        (llrp.frame(61, 1, llrp._tlv(240, b"\x84" + bytes(8) + llrp._tlv(241, b"\x00\x60\x01"))), "an EPC of 12 bytes"),
        (llrp.round_frame(1, 1 << 63), "is no time of the next 8,000 years"),
        (llrp.frame(63, 1), "without ReaderEventNotificationData"),
        (llrp.frame(63, 1, llrp._tlv(246, llrp._tlv(128, b"\x00"))), "parameter 128 has 1 bytes: expected 8"),
    ],
)
def test_malformed_frames_are_refused(data: bytes, words: str) -> None:
    """With the parameter and the remedy, for a log that is read by who has configured the reader."""
    with pytest.raises(BadFrame, match=re.escape(words)):
        messages(data)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_frames_or_refused(data: bytes, is_report: bool) -> None:
    """An error of another kind would be a bug that a reader, or an attacker, can cause."""
    with suppress(BadFrame):
        messages(llrp.frame(61, 1, data) if is_report else data)


@given(st.lists(reads, min_size=1, max_size=3), st.data())
def test_damaged_reports_are_frames_or_refused(reported: Sequence[TagRead], data: st.DataObject) -> None:
    """Nearly right is more dangerous than noise."""
    damaged = bytearray(llrp.report_frame(1, reported))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadFrame):
        messages(bytes(damaged))


def test_an_sgtin_is_named_as_the_tag_data_standard_says() -> None:
    """The example of the standard."""
    assert uri_of("3074257BF7194E4000001A85") == "urn:epc:id:sgtin:0614141.812345.6789"


@given(st.integers(6, 12), st.data())
def test_sgtins_survive_the_96_bits(digits: int, data: st.DataObject) -> None:
    """Leading zeros are part of a company prefix."""
    company = f"{data.draw(st.integers(0, 10**digits - 1)):0{digits}}"
    item = f"{data.draw(st.integers(0, 10 ** (13 - digits) - 1)):0{13 - digits}}"
    serial = data.draw(st.integers(0, (1 << 38) - 1))
    assert uri_of(sgtin_96(company, item, serial)) == f"urn:epc:id:sgtin:{company}.{item}.{serial}"


@given(st.binary(min_size=1, max_size=62))
def test_every_epc_has_a_uri(epc: bytes) -> None:
    """What is no SGTIN-96 keeps its bits."""
    assert uri_of(epc.hex()).startswith("urn:epc:id:sgtin:") or uri_of(epc.hex()) == (
        f"urn:epc:raw:{8 * len(epc)}.x{epc.hex().upper()}"
    )
