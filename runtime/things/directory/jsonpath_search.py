"""JSONPath search: values of all descriptions by a query (RFC 9535).

A query of one line may look at each value many times, so its work is counted in steps: each node that it visits, and each
comparison. Regular expressions are refused: one comparison with them may take for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jsonpath
import msgspec

from appbackplane.transport.errors import InvalidArgument

#: Longest query, characters.
QUERY_CHARACTERS_MAX: Final = 1_024
#: Nodes and comparisons of one query: some seconds in a thread of its own. `$[?@.title=='x']` takes four a thing.
STEPS_MAX: Final = 500_000
#: Results of one query, and their bytes as JSON: a query may name one value many times.
RESULTS_MAX: Final = 10_000
RESULTS_BYTES_MAX: Final = 16 << 20


def found_by(query: str, descriptions: Sequence[Any], steps_max: int = STEPS_MAX) -> bytes:
    """The values that the query finds in the array of descriptions, as a JSON array.

    Raises `InvalidArgument` for a wrong query, and for one that exceeds a limit.
    """
    if not query:
        raise InvalidArgument("query: missing: expected a JSONPath, such as $[?@.title=='Lamp']")
    if len(query) > QUERY_CHARACTERS_MAX:
        raise InvalidArgument(f"query: expected at most {QUERY_CHARACTERS_MAX:,} characters")
    environment = _Environment(steps_max)
    found: list[bytes] = []
    size = 0
    try:
        for match in environment.finditer(query, descriptions):
            found.append(msgspec.json.encode(match.obj))
            size += len(found[-1]) + 1
            if len(found) > RESULTS_MAX or size > RESULTS_BYTES_MAX:
                raise InvalidArgument(
                    f"query: it finds more than {RESULTS_MAX:,} values or {RESULTS_BYTES_MAX >> 20} MiB: narrow it"
                )
    except OverflowError:  # the library makes an int of 1e999
        raise InvalidArgument("query: a number in it is too large") from None
    except (jsonpath.JSONPathError, RecursionError, ValueError) as error:
        raise InvalidArgument(f"query: {str(error).partition(chr(10))[0] or 'it is nested too deeply'}") from None
    return b"[" + b",".join(found) + b"]"


class _Environment(jsonpath.JSONPathEnvironment):
    """RFC 9535 without regular expressions, with a bounded number of steps."""

    def __init__(self, steps_max: int) -> None:
        super().__init__(strict=True)
        self._steps = steps_max
        environment = self

        class CountedMatch(jsonpath.JSONPathMatch):
            def __init__(self, **fields: Any) -> None:
                environment.spend(1)
                super().__init__(**fields)

        self.match_class = CountedMatch

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in ("match", "search"):
            del self.function_extensions[name]

    def compare(self, left: object, operator: str, right: object) -> bool:
        self.spend(1)
        if type(left) is type(right):
            self._spend_size(left)
        return super().compare(left, operator, right)

    def _spend_size(self, value: object) -> None:
        """Equal values are compared member by member, whatever their depth."""
        ahead = [value]
        while ahead:
            each = ahead.pop()
            if isinstance(each, str):
                self.spend(len(each) >> 10)
            elif isinstance(each, list | dict):
                self.spend(len(each))
                ahead += each.values() if isinstance(each, dict) else each

    def is_truthy(self, obj: object) -> bool:
        self.spend(1)
        return super().is_truthy(obj)

    def spend(self, steps: int) -> None:
        """Raises `InvalidArgument` when none are left."""
        self._steps -= steps
        if self._steps < 0:
            raise InvalidArgument("query: it looks at too many values: narrow it")
