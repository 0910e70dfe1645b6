"""Answer: what a handler returns, as it was while the handler held its data.

It is packed for its caller when the locks have gone back; what is still part of a datum would be read there while another
handler changes it. So all that can be changed is copied, in the plain form in which it travels anyway: a microsecond for what
is small.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from appbackplane.transport.codec import plain_number

_FIXED: Final = (type(None), bool, int, float, str, bytes)


def detached(result: Any) -> Any:
    """The result, without anything that others may change. Raises TypeError for what cannot travel: the handler's mistake."""
    if type(result) in _FIXED:
        return result
    try:
        return msgspec.to_builtins(result, builtin_types=(bytes, bytearray, memoryview), enc_hook=plain_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"what it returned cannot travel: {error}") from error
