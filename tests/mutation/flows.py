"""Flows: more under way than there are credits, credits that come back too early, items that a death loses, broken order."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

OUTLET, SENDER, PUMP = "runtime/flows/outlet.py", "runtime/flows/sender.py", "runtime/flows/pump.py"
WORKING, PARTS, FILE = "runtime/flows/working.py", "runtime/flows/parts.py", "runtime/flows/source_file.py"
LANES, DECLARING, REGISTRY = "runtime/flows/parallelism.py", "runtime/flows/declaring.py", "runtime/objects/registry.py"
TURNS = "runtime/flows/turns.py"
FLOW, EDGES = "runtime/flows/flow.py", "supervisor/live/edges.py"
TESTS = (
    "tests/runtime/flows/test_outlet.py", "tests/runtime/flows/test_flowing.py", "tests/runtime/flows/test_source_file.py",
    "tests/runtime/flows/test_flow.py", "tests/runtime/flows/test_parallelism.py", "tests/supervisor/live/test_edges.py",
)  # fmt: skip


def flow(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to lose items, or to keep too many."""
    return Mutation("flows", file, text, replacement, breaks, TESTS)


MUTATIONS = (
    flow("no credits", OUTLET, "min(target.count, self.chunk_max, room)", "min(target.count, self.chunk_max)"),
    flow("the first chunk ends the origin", OUTLET, "if not origin.left:", "if origin.left >= 0:"),
    flow("crumbs", OUTLET, "size < self.chunk_max // 2", "size < 0"),
    flow("lanes overtake", OUTLET, "target.is_broken = True", "target.is_broken = False"),
    flow("what came back goes last", OUTLET, "key=lambda each: each.number", "key=lambda each: -each.number"),
    flow(
        "a chunk follows nothing", OUTLET, "chunk.follows = target.sent if target.outstanding_count else None", "pass"
    ),
    flow(
        "a chunk waits for what has ended", OUTLET, "target.sent if target.outstanding_count else None", "target.sent"
    ),
    flow("what came early is served", FLOW, "if turn is not None and not self.turns.is_next(*turn):", "if False:"),
    flow("what came early counts as served", SENDER, "if lanes == CAME_EARLY:", "if False:"),
    flow("senders take each other's turn", TURNS, "self._last[sender] = number", 'self._last[""] = number'),
    flow("too soon", OUTLET, "if now_ns < target.held_until_ns:", "if now_ns < 0:"),
    flow("lost in silence", OUTLET, "self.lost_count += len(chunk.items)", "self.lost_count += 0"),
    flow("credits of the dead", OUTLET, "self.used_count -= len(chunk.items)", "self.used_count -= 1"),
    flow("always lost", SENDER, "if not (self._is_repeating or error.is_refused):", "if not error.is_refused:"),
    flow("never lost", SENDER, "if not (self._is_repeating or error.is_refused):", "if False:"),
    flow("one bad item takes all", SENDER, "if len(chunk.items) > 1:", "if len(chunk.items) > 9_999:"),
    flow("a deadline", SENDER, "timeout=TIMEOUT_MAX_S", "timeout=30.0"),
    flow("the source runs ahead", PUMP, "wanted = min(outlet.room, outlet.chunk_max)", "wanted = outlet.chunk_max"),
    flow("what died with a source", PUMP, "self.lost_count += record.given - record.ended", "self.lost_count += 0"),
    flow(
        "ahead of the end",
        PUMP,
        "self._ended_position if self._is_repeating else self._given_position",
        "self._given_position",
    ),
    flow("asked all the time", PUMP, "or self._is_resting", ""),
    flow("no batches", PARTS, "if len(group.items) >= self._batch_max:", "if group.items:"),
    flow("the bound of a batch", WORKING, "items[at : at + size] for at", "items for at"),
    flow("a stand-by works", PARTS, "    def on_primary(self) -> None:", "    def on_secondary_too(self) -> None:"),
    flow("the older record", FILE, "max(found, key=", "min(found, key="),
    flow("a torn record", FILE, " or zlib.crc32(packed) != checksum", ""),
    flow("types", FLOW, "if not fits(before.makes, after.takes):", "if False:"),
    flow("lanes for nothing", LANES, "PAYS * (self._candidate / self._kept - 1)", "-1.0"),
    flow(
        "lanes are never given up",
        LANES,
        "return (gain >= aim) == self._is_upward",
        "return gain >= aim and self._is_upward",
    ),
    flow("lanes without threads", LANES, "if self.limit > most or self._kept > most:", "if False:"),
    flow("an idle stage is measured", LANES, "2 * self._followed >= self._chunks and ", ""),
    flow("threads are held up", LANES, " and self._run_ns >= BUSY_MIN * lanes * wall_ns", ""),
    flow(
        "lanes taken away count",
        LANES,
        "if lane >= self.limit or self._began_ns is None:",
        "if self._began_ns is None:",
    ),
    flow("noise decides", LANES, "if abs(gain - aim) < MARGINS[len(self._tried_rates) - 1]:", "if False:"),
    flow("a little more demand", LANES, "tried >= kept * (1 + SERVED_ALL)", "False"),
    flow("lanes stay", PARTS, "self._platform.withhold(self.lanes[self._offered_count])", "pass"),
    flow("lanes do not come back", PARTS, "self._platform.offer(self.lanes[self._offered_count])", "pass"),
    flow("withheld twice", REGISTRY, "            _take_out(route.objects, object)\n\n", "            pass\n\n"),
    flow("too few chunks", OUTLET, "self.credits // (CHUNKS_MIN * lanes)", "self.credits // CHUNKS_MIN"),
    flow("keys change lanes", DECLARING, "if by is not None:\n            raise", "if False:\n            raise"),
    flow("the first stage is blamed", EDGES, "        edge = further", "        return edge.consumer"),
)
