"""What processes print arrives whole lines at a time, bounded, also the last words of the dead."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.logs.pipes import LINE_BYTES_MAX, LineCutter, LogPipe


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20)), st.data())
def test_lines_are_whole_however_they_come(lines: list[str], data: st.DataObject) -> None:
    """A pipe cuts where it likes, also within a character."""
    text, cutter, found = "".join(f"{line}\n" for line in lines).encode(), LineCutter(), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += cutter.feed(text[:size])
        text = text[size:]
    assert found == lines
    assert cutter.finish() == []


def test_a_line_without_end_is_cut() -> None:
    """One child that prints megabytes without a newline would fill the supervisor's memory."""
    cutter, found = LineCutter(), []
    for _ in range(100):
        found += cutter.feed(b"x" * 1000)
    found += cutter.finish()
    assert found
    assert all(len(line) < LINE_BYTES_MAX + 100 for line in found)
    assert "line cut" in found[0]


def test_bytes_that_are_no_text_are_shown_as_far_as_they_can_be() -> None:
    """A stray byte is no reason to lose the line, or the supervisor."""
    assert LineCutter().feed(b"a\xffb\r\n") == ["a�b"]


def test_the_last_words_come_even_without_a_newline() -> None:
    """They are most often why it died. The pipe is held open here by somebody else, and not waited for."""
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"Traceback\n  File x\nValueError: no index\n\n  \nbye")
    pipe = LogPipe(read_fd)
    assert pipe.finish() == ["Traceback", "  File x", "ValueError: no index", "", "  ", "bye"]
    os.close(read_fd)
    os.close(write_fd)


def test_nothing_to_read_is_not_the_end() -> None:
    """A silent child is not a closed pipe."""
    read_fd, write_fd = os.pipe()
    pipe = LogPipe(read_fd)
    assert pipe.read() == []
    os.close(write_fd)
    assert pipe.read() is None
    os.close(read_fd)
