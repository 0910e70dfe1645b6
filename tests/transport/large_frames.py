"""Large frames, made of bytes: some of these no packer would make; and what honest frames hold."""

from __future__ import annotations

from hypothesis import strategies as st

from appbackplane.transport.envelope import CALL
from appbackplane.transport.unpacking import UNCOUNTED_BYTES

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.recursive(
    texts | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=4) | st.booleans() | st.none(),
    lambda inner: st.tuples(inner, inner),
    max_leaves=3,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(keys, inner, max_size=20),
    max_leaves=12,
)
LARGE = "x" * UNCOUNTED_BYTES


def frame(packed: bytes) -> bytes:
    """A call with that value."""
    return b"\x91\x99" + bytes((CALL, 1)) + b"\xc0\xa1r\xc0\xc0\xc0\x81\xa1x" + packed + b"\xc0"


def listed(count: int, item: bytes) -> bytes:
    """A list of so many."""
    return b"\xdd" + count.to_bytes(4) + item * count


def mapped(names: range, last: bytes = b"\xc0") -> bytes:
    """A map of names that are all different."""
    width = len(names)
    pairs = [b"\xa8%08d\xc0" % name for name in names]
    pairs[-1] = pairs[-1][:-1] + last
    return b"\xdf" + width.to_bytes(4) + b"".join(pairs)
