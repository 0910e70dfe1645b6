"""Blocks: large bodies in shared memory, mapped for their handlers alone; bounded, with nothing left behind."""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, message
from appbackplane.runtime.dispatcher.sources import Block, BlockGone, BlockPool, Outlet, TimerSource
from appbackplane.runtime.dispatcher.sources.block import VIEWS
from appbackplane.runtime.dispatcher.sources.block_memory import MAPPINGS
from appbackplane.runtime.dispatcher.sources.block_pool import INLINE_BYTES_MAX
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument, NotFound

BIG = 1 << 20


@message(category=966, id=1, key="camera")
class Frame(Message):
    camera: str
    pixels: Block
    more: Sequence[Block] = ()


@message(category=966, id=2)
class Shutter(Message):
    size: int = BIG


class Gallery:
    def __init__(self) -> None:
        self.sums: list[int] = []
        self.kept: list[object] = []
        self.mapped = 0
        self.keeps = False


def capture(message: Shutter, blocks: BlockPool, outlet: Outlet) -> None:
    outlet.post(Frame("door", blocks.put(bytes([1]) * message.size)))


def look(message: Frame, gallery: Gallery) -> None:
    gallery.sums.append(sum(message.pixels.view[:1000]) + sum(sum(each.view[:10]) for each in message.more))
    gallery.mapped = len(MAPPINGS)
    if gallery.keeps:
        gallery.kept.append(message.pixels.view[5:10])


def look_again(message: Frame, gallery: Gallery) -> int:
    gallery.kept.append(message.pixels)
    return message.pixels.view.nbytes


class Studio(Dispatcher):
    def __init__(self, pool: BlockPool | None = None) -> None:
        self.blocks, self.gallery, self.outlet, self.timers = pool or BlockPool(), Gallery(), Outlet(), TimerSource()

    def setup(self) -> None:
        self.register(capture, self.blocks, self.outlet)
        gallery = DataProtector(self.gallery)
        self.register(look, gallery)
        self.register(look_again, gallery)
        self.attach(self.timers)


def open_studio(pool: BlockPool | None = None) -> tuple[Studio, VirtualBackplane]:
    studio = Studio(pool)
    backplane = VirtualBackplane(studio)
    backplane.run_until_idle()
    return studio, backplane


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def maps() -> int:
    return Path("/proc/self/maps").read_text().count("appbackplane-block")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No descriptor and no mapping, whatever the test has done."""
    gc.collect()
    before = fds()
    yield
    gc.collect()
    assert (len(MAPPINGS), len(VIEWS), maps()) == (0, 0, 0)
    assert fds() <= before


def test_a_handler_is_tested_with_bytes() -> None:
    """No memory, no pool."""
    gallery = Gallery()
    look(Frame("door", Block.of(b"\1\2\3")), gallery)
    assert gallery.sums == [6]
    outlet = Outlet()
    capture(Shutter(), BlockPool(), outlet)
    [frame] = outlet.emitted
    assert isinstance(frame, Frame) and frame.pixels.view.nbytes == BIG


def test_a_body_is_mapped_for_its_handlers_and_comes_back_after_the_last() -> None:
    """Of both handlers, one mapping; the memory is the pool's again when the second has returned."""
    studio, backplane = open_studio()
    backplane.call("studio.shutter").result()
    assert studio.gallery.sums == [1000] and studio.gallery.mapped == 1
    assert (studio.blocks.lent_count, studio.blocks.lent_bytes, len(MAPPINGS)) == (0, 0, 0)
    [block] = studio.gallery.kept
    assert isinstance(block, Block)
    with pytest.raises(FailedPrecondition, match="outside of its message's handlers: copy data to keep them"):
        _ = block.view


def test_nothing_is_mapped_while_the_message_waits() -> None:
    """Seed 003, section 3.2: the time that memory is mapped is the time in which it is used."""
    studio, backplane = open_studio()
    blocks = [studio.blocks.put(bytes(BIG)) for _ in range(5)]
    for block in blocks:
        studio.outlet.post(Frame("door", block))
    assert (studio.blocks.lent_count, len(MAPPINGS), maps()) == (5, 0, 0)
    backplane.run_until_idle()
    assert studio.gallery.mapped == 1, "messages of one key are handled one after the other"
    assert studio.blocks.lent_count == 0


def test_small_bodies_travel_as_they_are() -> None:
    """Memory of its own would cost more than the copy."""
    studio, backplane = open_studio()
    block = studio.blocks.put(bytes(INLINE_BYTES_MAX))
    assert block.is_here and studio.blocks.lent_count == 0
    assert not studio.blocks.put(bytes(INLINE_BYTES_MAX + 1)).is_here
    backplane.move("down")


def test_a_message_may_have_several() -> None:
    """In lists, too; and one twice is mapped once."""
    studio, backplane = open_studio()
    one, two = (studio.blocks.put(bytes([n]) * BIG) for n in (1, 2))
    studio.outlet.post(Frame("door", one, (two, two, one)))
    backplane.run_until_idle()
    assert studio.gallery.sums == [1000 + 20 + 20 + 10]
    assert studio.blocks.lent_count == 0


def test_what_is_made_is_sealed() -> None:
    """Who could change it would change it under its readers; who could truncate it would kill them."""
    studio, backplane = open_studio()
    block = studio.blocks.make(BIG, lambda view: view.__setitem__(slice(0, 3), b"abc"))
    with pytest.raises(PermissionError):
        os.ftruncate(block.fd, 1)
    with pytest.raises(PermissionError):
        os.write(block.fd, b"x")
    with pytest.raises(PermissionError):
        mmap.mmap(block.fd, BIG)
    with pytest.raises(PermissionError):
        fcntl.fcntl(block.fd, fcntl.F_ADD_SEALS, 0)
    studio.outlet.post(Frame("door", block))
    backplane.run_until_idle()
    assert studio.gallery.sums == [sum(b"abc")]


def test_the_pool_is_bounded() -> None:
    """In bytes and in blocks; `Busy`, and room again when one comes back."""
    studio, backplane = open_studio(BlockPool(bytes_max=3 * BIG, blocks_max=2))
    first = studio.blocks.put(bytes(BIG))
    with pytest.raises(Busy, match="blocks of 1,048,576 bytes are lent"):
        studio.blocks.put(bytes(2 * BIG + 1))
    studio.blocks.put(bytes(BIG))
    with pytest.raises(Busy, match="blocks_max = 2"):
        studio.blocks.put(bytes(BIG))
    with pytest.raises(InvalidArgument, match="the pool has 3,145,728"):
        studio.blocks.put(bytes(4 * BIG))
    studio.blocks.drop(first)
    studio.blocks.put(bytes(BIG))
    assert studio.blocks.lent_count == 2
    backplane.move("down")
    assert studio.blocks.lent_count == 0


@pytest.mark.parametrize("options", [{"lease": float("nan")}, {"lease": 0}, {"blocks_max": 0}, {"bytes_max": "1"}])
def test_a_pool_that_could_lend_nothing_is_refused(options: Any) -> None:
    """Not when the first block is made."""
    with pytest.raises(DeclarationError, match=f"BlockPool: {next(iter(options))}="):
        BlockPool(**options)


@pytest.mark.parametrize(
    ("size", "receivers", "says"),
    [
        ("1", 1, "expected a number"),
        (1e6, 1, "expected a number"),
        (BIG, 0, "receivers=0"),
        (BIG, "1", "receivers='1'"),
    ],
)
def test_a_wrong_block_is_refused_before_there_is_any(size: Any, receivers: Any, says: str) -> None:
    """What cannot be counted would never come back."""
    with pytest.raises(InvalidArgument, match=says):
        BlockPool().make(size, lambda view: None, receivers=receivers)


def test_what_nobody_has_looked_at_comes_back() -> None:
    """By its lease: a receiver that has died says nothing."""
    studio, backplane = open_studio(BlockPool(lease=10.0))
    studio.blocks.put(bytes(BIG))
    studio.blocks.put(bytes(BIG), receivers=None)
    backplane.advance(9.0)
    assert studio.blocks.lent_count == 2
    backplane.advance(2.0)
    assert (studio.blocks.lent_count, studio.blocks.expired_count) == (0, 2)
    assert backplane.backplane.engine.scheduler.timers.next_ns() is None, "an empty pool looks at nothing"


def test_a_block_for_many_receivers_comes_back_after_the_last() -> None:
    """So many as was said; where nobody knows, its lease ends it."""
    studio, backplane = open_studio()
    twice, many = studio.blocks.put(bytes(BIG), receivers=2), studio.blocks.put(bytes(BIG), receivers=None)
    for block, left in ((twice, 2), (many, 2), (twice, 1), (many, 1)):
        studio.outlet.post(Frame("door", block))
        backplane.run_until_idle()
        assert studio.blocks.lent_count == left
    backplane.move("down")


def test_whose_memory_has_gone_is_told_to_the_caller() -> None:
    """Its message has no handler called, and is not lost silently."""
    studio, backplane = open_studio()
    block = studio.blocks.put(bytes(BIG))
    studio.blocks.drop(block)
    error = backplane.call("studio.frame", camera="door", pixels=block).error()
    assert isinstance(error, NotFound) and "a block of 1,048,576 bytes of process" in str(error)
    assert studio.gallery.sums == []


@pytest.mark.parametrize("change", [{"token": 12345}, {"size": BIG - 1}, {"pid": 2**22 - 1}, {"fd": -3}, {"fd": 0}])
def test_a_reference_that_is_not_right_is_refused(change: dict[str, int]) -> None:
    """Another's file of the same number must never be taken for the block."""
    studio, backplane = open_studio()
    block = msgspec.structs.replace(studio.blocks.put(bytes(BIG)), **change)
    assert isinstance(backplane.call("studio.frame", camera="door", pixels=block).error(), NotFound)
    assert studio.gallery.sums == []
    backplane.move("down")


@pytest.mark.parametrize(
    "forged",
    [
        [9, b"", 1, 3, -1, 0, -7],
        [10**12, b"abc"], [0, b"abc"], [1], [-1, b"", 1, 3, -1, 0, 7], [0, b"", 1, 3, -1, 0, 7], [3, b"abc", 1, 3, -1, 0, 7],
    ],
)  # fmt: skip
def test_a_reference_that_contradicts_itself_is_the_callers_mistake(forged: list[Any]) -> None:
    """Whoever handles it believes its `size`."""
    _, backplane = open_studio()
    error = backplane.call("studio.frame", camera="door", pixels=forged).error()
    assert isinstance(error, InvalidArgument) and "a block of" in str(error)
    backplane.move("down")


def test_a_reference_to_what_is_mapped_already_is_looked_at_as_well() -> None:
    """Or a lie about its size would be believed while another has it."""
    studio, backplane = open_studio()
    block = studio.blocks.put(bytes(BIG), receivers=None)
    MAPPINGS.map(block)
    with pytest.raises(BlockGone, match="its size or its seals do not match the reference"):
        MAPPINGS.map(msgspec.structs.replace(block, size=BIG - 1))
    MAPPINGS.unmap(block)
    backplane.move("down")


def test_a_part_that_is_kept_keeps_the_memory_and_is_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    """It must never be unmapped under who looks at it; but somebody should know."""
    studio, backplane = open_studio()
    studio.gallery.keeps = True
    kept_before = MAPPINGS.kept_count
    backplane.call("studio.shutter").result()
    assert "a handler has kept a part of a block of 1048576 bytes" in caplog.text
    assert MAPPINGS.kept_count == kept_before + 1
    part = next(each for each in studio.gallery.kept if isinstance(each, memoryview))
    assert bytes(part) == b"\1" * 5
    del part
    studio.gallery.kept.clear()


def test_what_fills_must_not_keep_its_view() -> None:
    """It could not be sealed."""
    studio, backplane = open_studio()
    kept = []
    with pytest.raises(InvalidArgument, match="has kept a part of its view"):
        studio.blocks.make(BIG, lambda view: kept.append(view[1:2]))
    kept.clear()
    with pytest.raises(ZeroDivisionError):
        studio.blocks.make(BIG, lambda view: 1 // 0)
    assert (studio.blocks.lent_count, studio.blocks.lent_bytes) == (0, 0)
    backplane.move("down")


def test_a_message_with_a_block_can_be_taken_back() -> None:
    """As any message of a source: then it is never mapped."""
    studio, backplane = open_studio()
    id = studio.timers.begin(1.0, Frame("door", studio.blocks.put(bytes(BIG))))
    backplane.clock.move(backplane.clock.now_ns() + 1_000_000_000)
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    assert studio.timers.cancel(id) is True
    backplane.run_until_idle()
    assert (studio.gallery.sums, studio.vanished_count) == ([], 1)
    id = studio.timers.begin(1.0, Frame("door", studio.blocks.put(bytes(BIG))))
    backplane.advance(1.0)
    assert studio.gallery.sums == [0] and studio.timers.cancel(id) is False
    backplane.move("down")


OWNER = """
import sys, msgspec
from tests.runtime.dispatcher.sources.test_blocks import open_studio, BIG
studio, backplane = open_studio()
for line in sys.stdin:
    if line == "put\\n":
        print(msgspec.json.encode(studio.blocks.put(bytes([7]) * BIG)).decode(), flush=True)
    elif line == "advance\\n":
        backplane.advance(1.5)
        print(studio.blocks.lent_count, studio.blocks.expired_count, flush=True)
"""


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """Another backplane's process, with a pool."""
    paths = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate(timeout=20)


def ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.systems
def test_a_block_crosses_processes_and_comes_back(owner: subprocess.Popen[str]) -> None:
    """Only where it is travels; when the handlers here have returned, its owner there has it back, not by its lease."""
    studio, backplane = open_studio()
    for _ in range(3):
        block = msgspec.json.decode(ask(owner, "put"), type=Block)
        assert block.pid == owner.pid
        assert backplane.call("studio.frame", camera="door", pixels=block).result() == BIG
    assert studio.gallery.sums == [7000] * 3
    assert ask(owner, "advance").split() == ["0", "0"]


@pytest.mark.systems
def test_an_owner_that_has_died_is_noticed(owner: subprocess.Popen[str]) -> None:
    """What is mapped stays as long as it is needed; what was only sent has gone."""
    studio, backplane = open_studio()
    mapped, sent = (msgspec.json.decode(ask(owner, "put"), type=Block) for _ in range(2))
    MAPPINGS.map(mapped)
    owner.kill()
    owner.wait(20)
    assert bytes(mapped.view[-3:]) == b"\7\7\7"
    MAPPINGS.unmap(mapped)
    with pytest.raises(BlockGone, match="is gone"):
        MAPPINGS.map(sent)
    assert isinstance(backplane.call("studio.frame", camera="door", pixels=sent).error(), NotFound)
    assert studio.gallery.sums == []


def test_thousands_of_blocks_leave_nothing() -> None:
    """If one block in a thousand leaked its descriptor, a process would end by the evening; `nothing_is_left` checks."""
    studio, backplane = open_studio()
    block_of: Callable[[], Block] = lambda: studio.blocks.make(INLINE_BYTES_MAX + 1, lambda view: None)  # noqa: E731
    for _ in range(100):
        for _ in range(20):
            studio.outlet.post(Frame("door", block_of()))
        backplane.run_until_idle()
    assert len(studio.gallery.sums) == 2_000 and studio.blocks.lent_count == 0
    studio.gallery.kept.clear()
