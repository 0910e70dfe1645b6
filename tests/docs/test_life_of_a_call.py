"""The tour of docs/life_of_a_call.md tells the truth: the very call is made, and passes its stops in its order.

Client, sockets, workers and component are the real ones, in one process so that all of them can be watched. The
supervisor is played: it answers the one question that a client asks of it. Whoever moves a function that is a stop, or
lets the call take another way, is sent to the page by this.
"""

from __future__ import annotations

import importlib
import re
import select
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.build import BUILD
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport import codec, connect
from appbackplane.transport.addressing import backplane_socket, supervisor_socket
from appbackplane.transport.directory import Registration, build
from appbackplane.transport.envelope import reply
from appbackplane.transport.link import Link
from tests.docs.pages import DOCS, ROOT
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.skipif(
    BUILD == "compiled", reason="compiled functions pass no profiler by which they could be seen"
)

STOP = re.compile(r"^\*\*(\d+)\. `([\w/]+)\.py:([\w.]+)`\.\*\*", re.MULTILINE)
CODESEARCH = ROOT / "examples" / "codesearch"


def stops() -> list[tuple[str, str]]:
    """(file without its ending, function) as the page names them."""
    found = STOP.findall((DOCS / "life_of_a_call.md").read_text())
    assert [int(number) for number, _, _ in found] == list(range(1, 13)), "twelve, in order"
    return [(file, function) for _, file, function in found]


def function_of(file: str, function: str) -> Any:
    """What the page names. Fails where there is no such function."""
    example = Path(file).parts[:2] == ("examples", "codesearch")
    name = ".".join(Path(file).parts[2:]) if example else "appbackplane." + file.replace("/", ".")
    found: Any = importlib.import_module(name)
    for word in function.split("."):
        found = getattr(found, word)
    assert Path(found.__code__.co_filename).resolve() == ROOT / f"{file}.py", f"{file}.py does not define {function}"
    return found


def passes(trail: list[CodeType], expected: list[CodeType]) -> list[CodeType]:
    """The stops that are passed one after the other; all of them, if the page is right."""
    passed = []
    left = iter(trail)
    for stop in expected:
        if stop not in left:  # takes from `left` up to and with it
            return passed
        passed.append(stop)
    return passed


class Watcher:
    """Notes the calls of some functions, in whichever thread, while it is told to."""

    def __init__(self, codes: list[CodeType]) -> None:
        self._codes = frozenset(codes)
        self.is_on = False
        self.trail: list[CodeType] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.is_on and event == "call" and frame.f_code in self._codes:
            self.trail.append(frame.f_code)


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The component of the example."""
    monkeypatch.syspath_prepend(str(CODESEARCH))
    return importlib.import_module("codesearch.query").Query()


@pytest.fixture
def watcher(query: Any) -> Iterator[Watcher]:
    """Installed in this thread and in all that begin after it."""
    before = sys.getprofile()
    watcher = Watcher([function_of(*stop).__code__ for stop in stops()])
    threading.setprofile(watcher)
    sys.setprofile(watcher)
    yield watcher
    sys.setprofile(before)
    threading.setprofile(before)


@pytest.fixture
def system(query: Any, watcher: Watcher, run_dir: Path) -> Iterator[Path]:
    """Backplane `query` with a worker, in this process, and somebody who says where it is."""
    config = ProcessConfig(system="codesearch", backplane="query", run_dir=str(run_dir), components=())
    link = Link("query-1")
    link.bind(backplane_socket(run_dir, "query", 1))
    backplane = Backplane(config, [query], clock=RealClock(), link=link)
    backplane.start(threads=1)
    for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
        move(backplane, state)
    registration = Registration("query", 1, 0, str(backplane_socket(run_dir, "query", 1)), backplane.entries())
    directory = build("codesearch", 1, [registration], down=set()).to_body()
    with Supervisor(run_dir, directory):
        yield run_dir
    assert backplane.stop(LIMIT_S)


def move(backplane: Backplane, state: ModuleState) -> None:
    """As the supervisor would have it moved."""
    ended = threading.Event()
    failures: list[BaseException | None] = []

    def note(error: BaseException | None) -> None:
        failures.append(error)
        ended.set()

    with backplane.engine.lead:
        backplane.engine.lifecycle.move("query", state, note)
    assert ended.wait(LIMIT_S) and failures == [None]


class Supervisor:
    """Answers whoever asks with the directory."""

    def __init__(self, run_dir: Path, directory: dict[str, Any]) -> None:
        self._directory = directory
        self._link = Link("supervisor")
        self._link.bind(supervisor_socket(run_dir))
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_stopping = True
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        while not self._is_stopping:
            while (received := self._link.receive()) is not None:
                peer, frame = received
                for envelope in codec.decode(frame):
                    answer = reply(envelope.id, self._directory)
                    self._link.send(peer, codec.batch([codec.Encoder().encode(answer)]))
            select.select([self._link.fileno()], [], [], 0.05)  # and sees that it is to stop
        self._link.close()


def test_the_call_passes_its_stops_in_order(system: Path, watcher: Watcher) -> None:
    """From `client.call` to the reply."""
    with connect(system) as client:
        watcher.is_on = True
        found = client.call("query.search", text="class Pool")
        watcher.is_on = False
    assert found == [], "nothing is in the index yet"
    expected = [function_of(*stop).__code__ for stop in stops()]
    passed = passes(watcher.trail, expected)
    missed = "" if len(passed) == len(expected) else stops()[len(passed)]
    assert not missed, f"stop {len(passed) + 1} is not passed after stop {len(passed)}: {missed}"


@pytest.mark.usefixtures("query")
def test_a_wrong_order_is_seen() -> None:
    """Two stops the other way round are not passed by a call that passes them in order."""
    codes = [function_of(*stop).__code__ for stop in stops()]
    assert passes(codes, codes) == codes
    for n in range(len(codes) - 1):
        swapped = [*codes[:n], codes[n + 1], codes[n], *codes[n + 2 :]]
        assert passes(codes, swapped) != swapped


@pytest.mark.usefixtures("query")
@pytest.mark.parametrize(
    "stop", [("transport/client", "Client.callx"), ("transport/nobody", "f"), ("transport/client", "Link.send")]
)
def test_a_function_that_has_moved_is_seen(stop: tuple[str, str]) -> None:
    """The page would otherwise name what nobody finds."""
    with pytest.raises((AttributeError, ImportError, AssertionError)):
        function_of(*stop)
