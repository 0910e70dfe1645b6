"""RFID: which bytes are frames, which tags are present, and which events are stored, in examples/rfid."""

from __future__ import annotations

from tests.mutation.mutation import mutations

RFID = "examples/rfid/rfid"
TESTS = "tests/examples"

MUTATIONS = (
    *mutations(
        "rfid",
        f"{RFID}/llrp.py",
        (f"{TESTS}/test_rfid_llrp.py",),
        ("a frame may have any size", "if not _HEADER.size <= length <= self.frame_bytes_max:", "if False:"),
        ("a parameter reaches into the next frame", "        if at > len(data):\n", "        if False:\n"),
        ("a refusal counts as a greeting", '_CONNECTION_ATTEMPT, "H") != 0)', '_CONNECTION_ATTEMPT, "H") < 0)'),
        ("any number is a time", "    if number > _TIME_US_MAX:\n", "    if False:\n"),
    ),
    *mutations(
        "rfid",
        f"{RFID}/smoothing.py",
        (f"{TESTS}/test_rfid_smoothing.py",),
        ("reads before the window count", "while tag.recent[0][0] <= now_us - policy.window_us:", "while False:"),
        (
            "a tag that is read again is forgotten in the order of its first read",
            "known.pop(read.epc) if",
            "known[read.epc] if",
        ),
        ("very late reads count", "if read.last_us <= now_us - policy.gone_us or (", "if ("),
        ("one wrong time is for ever", "if abs(time_us - before_us) > CLOCK_STEP_US:", "if False:"),
        ("reads of a report are taken as they lie in it", "sorted(reads, key=lambda read: read.last_us)", "reads"),
    ),
    *mutations(
        "rfid",
        f"{RFID}/handlers.py",
        (f"{TESTS}/test_rfid_readers.py",),
        ("a connection that ends is not made anew", "    timers.begin(link.retry_s, Connect(reader))\n", "    pass\n"),
        ("the end of an earlier connection counts", "if each[1].connection == connection), None)", "), None)"),
        ("a reader that fails is logged each time", "    if not link.is_lost:\n", "    if True:\n"),
    ),
    *mutations(
        "rfid",
        f"{RFID}/repository.py",
        (f"{TESTS}/test_rfid_epcis.py",),
        ("a query ends where an event begins", '"time_us < ?"', '"time_us <= ?"'),
        ("a page has one event too many", "page = rows[:limit]", "page = rows"),
        ("a pattern finds its beginning alone", '(prefix, f"{prefix}\\x7f") if star', "(prefix, prefix) if star"),
    ),
    *mutations(
        "rfid",
        f"{RFID}/things.py",
        (f"{TESTS}/test_rfid_readers.py",),
        ("an event is sent for ever", "                    self._unsent.popleft()\n", "                    pass\n"),
    ),
)
