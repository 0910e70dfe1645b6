"""Answer: a handler's result, copied while the handler still holds its data.

The result is packed for its caller only after the locks are released. A part of a datum in it would then be read while another
handler changes it. So everything mutable is copied, into the plain form in which it travels anyway. Costs a microsecond for a
small result.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from appbackplane.transport.codec import plain_value

_FIXED: Final = (type(None), bool, int, float, str, bytes)


def detached(result: Any) -> Any:
    """The result without anything that others may change. Raises TypeError if it cannot be sent: the handler's mistake."""
    if type(result) in _FIXED:
        return result
    try:
        return msgspec.to_builtins(result, builtin_types=(bytes, bytearray, memoryview), enc_hook=plain_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"its result cannot be encoded: {error}") from error
