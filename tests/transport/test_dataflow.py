"""The wire of dataflow: calls that await operands, the wish to send a result on, and the operand itself."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from appbackplane.transport import codec, envelope
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import OPERANDS_MAX, TOKEN_MAX, Encoder, batch, decode
from appbackplane.transport.envelope import CALL, FORWARD, OPERAND, REPLY, Envelope, reply
from appbackplane.transport.errors import InvalidArgument, MalformedFrame, OperandFailed
from appbackplane.transport.salvage import salvage
from appbackplane.transport.unpacking import unpacked

encoder = Encoder()
CALL_ROW = [CALL, 1, None, "a.b", None, None, None, {"x": 1}, None, None, None, None, None, None]


def told(sent: Envelope) -> Envelope:
    (received,) = decode(batch([encoder.encode(sent)]))
    assert received == sent
    return received


def test_what_is_said_of_operands_arrives() -> None:
    spec = CallSpec("a.b", {"x": 1}, priority=3, idempotency_key="k", ends_ns=9)
    spec.awaits, spec.token = {"left": "c.d", "right": "promise 'p'"}, TOKEN_MAX
    received = told(envelope.call(7, spec, -9))
    assert (received.awaits, received.token) == (spec.awaits, TOKEN_MAX)
    assert (received.idempotency_key, received.window, received.streamed) == ("k", None, None)
    assert decode(batch([encoder.call(7, spec)])) == [received]
    wish = told(envelope.forward(7, "left", "bob", 3, 55))
    assert (wish.id, wish.route, wish.key, wish.number, wish.token) == (7, "left", "bob", 3, 55)
    value = told(envelope.operand(55, "left", {"deep": [1, None]}))
    assert (value.id, value.route, value.body) == (55, "left", {"deep": [1, None]})
    assert told(reply(7, "x", 2)).number == 2


@pytest.mark.parametrize("value", [None, 1, "x" * 1_000, {"a": [1.5]}, b"\0"])
@pytest.mark.parametrize("token", [1, 127, 2**31, TOKEN_MAX])
def test_a_packed_value_becomes_the_same_operand(value: Any, token: int) -> None:
    """A value is packed once, and sent to many calls."""
    joined = codec.operand(token, "left", encoder.pack(value))
    assert joined == encoder.encode(envelope.operand(token, "left", value))
    assert unpacked(encoder.pack(value)) == value


def test_a_value_that_is_too_large_with_its_name_is_refused() -> None:
    """The reply that held it was a little shorter."""
    packed = encoder.pack(bytes(codec.ENVELOPE_BYTES_MAX - 20))
    assert codec.operand(1, "x", packed)
    with pytest.raises(InvalidArgument, match="exceed the limit"):
        codec.operand(1, "x" * 40, packed)


def test_frames_without_operands_are_what_they_were() -> None:
    """A process of an earlier version reads and writes them."""
    assert encoder.encode(reply(7, "x")) == msgpack.packb([REPLY, 7, None, None, None, None, None, "x", None])
    (old,) = decode(msgpack.packb([CALL_ROW[:9]]))
    assert old.awaits is None and old.token == 0


@pytest.mark.parametrize(
    "row",
    [
        [*CALL_ROW, None],
        [*CALL_ROW, [1]],
        [*CALL_ROW, [0, {"y": "c.d"}]],
        [*CALL_ROW, [-1, {"y": "c.d"}]],
        [*CALL_ROW, [TOKEN_MAX + 1, {"y": "c.d"}]],
        [*CALL_ROW, ["1", {"y": "c.d"}]],
        [*CALL_ROW, [1, {}]],
        [*CALL_ROW, [1, ["y"]]],
        [*CALL_ROW, [1, {"y": 2}]],
        [*CALL_ROW, [1, {2: "y"}]],
        [*CALL_ROW, [1, {str(n): "c.d" for n in range(OPERANDS_MAX + 1)}]],
        [*CALL_ROW[:12], 0, None, [1, {"y": "c.d"}]],
        [*CALL_ROW[:13], 5, [1, {"y": "c.d"}]],
        [*CALL_ROW[:11], 5, None, None, [1, {"y": "c.d"}]],
        [2, *CALL_ROW[1:], [1, {"y": "c.d"}]],
        [REPLY, 1, "x", None, None, None, None, 1, None],
        [REPLY, 1, -1, None, None, None, None, 1, None],
        [OPERAND, 1, None, None, None, None, None, 1, None],
        [OPERAND, 1, None, 5, None, None, None, 1, None],
        [FORWARD, 1, None, None, "bob", 1, None, 5, None],
        [FORWARD, 1, None, "x", None, 1, None, 5, None],
        [FORWARD, 1, None, "x", "bob", None, None, 5, None],
        [FORWARD, 1, None, "x", "bob", 1, None, 0, None],
        [FORWARD, 1, None, "x", "bob", 1, None, "5", None],
        [OPERAND + 1, 1, None, None, None, None, None, None, None],
    ],
)
def test_what_is_malformed_is_refused(row: list[Any]) -> None:
    with pytest.raises(MalformedFrame):
        decode(msgpack.packb([row]))


def test_the_caller_of_a_call_that_cannot_be_read_is_told() -> None:
    salvaged = salvage(msgpack.packb([[*CALL_ROW, [0, {}]], [OPERAND, 1, *[None] * 7]]))
    assert [refusal.id for refusal in salvaged.refusals] == [1] and salvaged.heard == []


def test_a_chain_of_failures_names_its_root_once() -> None:
    error: BaseException = ValueError("no")
    for number in range(100):
        error = OperandFailed(f"a.{number}", "x", f"a.{number - 1}", error)
    assert str(error) == "a.99: operand 'x', a.98, has failed: ValueError: no"
