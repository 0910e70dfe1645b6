"""What the systems of these tests run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from pathlib import Path
from typing import Any, cast

from appbackplane.runtime import (
    Action,
    Adaptive,
    AppObject,
    BackplaneError,
    Busy,
    Component,
    StateMachine,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.execution.workers.current import current
from appbackplane.runtime.execution.workers.user_functions import current as running

# Load


class Ledger(Component):
    """Books each number once."""

    def __init__(self) -> None:
        self.booked: set[int] = set()
        self.twice = 0

    @operation()
    def book(self, number: int) -> int:
        """Return what came."""
        if number in self.booked:
            self.twice += 1
        self.booked.add(number)
        return number

    @operation()
    def total(self) -> list[int]:
        """How many different numbers came, and how many came again."""
        return [len(self.booked), self.twice]


class Left(Ledger):
    """One."""


class Right(Ledger):
    """Another."""


class Clerks(Component):
    """Have things booked."""

    def setup(self) -> None:
        """Many, so that many calls of theirs are outstanding."""
        for _ in range(200):
            self.add(Clerk())


class Clerk(AppObject):
    """One of them."""

    @operation()
    async def book(self, number: int) -> int:
        """In the ledger."""
        return int(await self.call("ledger.book", number=number))

    @operation()
    async def hold(self, seconds: float = 60.0) -> None:
        """Keeps its caller waiting."""
        await pause(seconds)


# Deaths


class Sleeper(Component):
    """Keeps its callers waiting."""

    @operation()
    async def hold(self, seconds: float = 60.0) -> int:
        """Answer after so long."""
        await pause(seconds)
        return os.getpid()

    @operation(priority=0)
    def pid(self) -> int:
        """Who serves."""
        return os.getpid()


class Desk(AppObject):
    """Asks the sleeper, for somebody else."""

    @operation(calls=("sleeper.hold",))
    async def hold(self, seconds: float = 60.0) -> int:
        """As long as the sleeper."""
        return int(await self.call("sleeper.hold", seconds=seconds))


class Relay(Component):
    """Desks, so that as many calls of objects are outstanding at a time."""

    def __init__(self, desks: int = 20) -> None:
        self.desks = desks

    def setup(self) -> None:
        """A key each, so that a caller can have each of them wait."""
        for number in range(self.desks):
            self.add(Desk(), key=f"desk-{number}")


class Bystander(Component):
    """Has nothing to do with the others."""

    @operation()
    def pid(self) -> int:
        """Who serves."""
        return os.getpid()


# Replicas


class Till(Component):
    """Serves in several places; a new one does not come up while a file `closed` lies beside this module."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def on_initializing(self) -> None:
        if Path(__file__).with_name("closed").exists():
            raise RuntimeError("the shop is closed")

    @operation()
    def ring(self) -> int:
        """Who serves."""
        return os.getpid()

    @operation()
    def serve(self, pipe: str) -> int:
        """A customer who takes as long as nobody opens this pipe for writing."""
        Path(pipe).read_bytes()
        return os.getpid()

    def on_primary(self) -> None:
        print("the till is open")

    @operation()
    def told(self) -> list[int]:
        """What this place has heard."""
        return self.heard

    @subscribe("prices.new")
    def on_prices(self, number: int) -> None:
        """Each place hears it for itself."""
        self.heard.append(number)


class Porch(Component):
    """Comes up when there are tills, and calls them."""

    depends_on = ("till",)

    def on_primary(self) -> None:
        print("the porch is open")

    @operation()
    async def ring(self) -> int:
        """Who serves over there."""
        pid: int = await self.call("till.ring")
        return pid


class Hand(AppObject):
    """Passes on to the other side, in a plain operation, and waits for what comes of it."""

    def __init__(self, other: str) -> None:
        self.other = other

    @operation()
    def pass_on(self, keys: list[str]) -> list[str]:
        """To the first of these, which passes on to the rest."""
        if not keys:
            return [self.name]
        route = f"{self.other}.pass_on"
        return [self.name, *self.call_blocking(route, key=keys[0], keys=keys[1:])]


class Hands(Component):
    """Eight of them."""

    other = ""

    def setup(self) -> None:
        for number in range(8):
            self.add(Hand(self.other), key=str(number))

    @operation(priority=0)
    def threads_count(self) -> int:
        """Of this process."""
        return threading.active_count()


class LeftHand(Hands):
    """Its other is the right."""

    other = "right_hand"


class RightHand(Hands):
    """Its other is the left."""

    other = "left_hand"


# Many


class Leaf(Component):
    """One of many: a component's name may be given by its settings."""

    def __init__(self, name: str) -> None:
        self.component_name = name

    @operation()
    def pid(self) -> int:
        """Who serves."""
        return os.getpid()


class Hub(Component):
    """Talks to all leaves."""

    @operation()
    async def ask(self, leaves: list[str]) -> list[int]:
        """Who serves each of them."""
        return [await self.call(f"{leaf}.pid") for leaf in leaves]

    @operation()
    def threads(self) -> int:
        """Threads of this process that Python knows of."""
        return threading.active_count()


# What it was loaded from


class Mirror(Component):
    """Looks at itself."""

    @operation()
    def files(self) -> dict[str, str]:
        """Each module of the package that is loaded here, and its file."""
        return {
            name: module.__file__ or ""
            for name, module in sys.modules.items()
            if name.startswith("appbackplane.") and module.__file__
        }

    # Bad input

    @operation()
    def collects_after(self) -> tuple[int, int, int]:
        """What is new before the garbage collector looks at it, and so on."""
        return gc.get_threshold()


class Shelf(Component):
    """Takes its arguments seriously."""

    depends_on = ()

    def __init__(self, width: int = 3, fails: str = "") -> None:
        self.width = width
        if fails:
            raise ValueError(fails)

    def setup(self) -> None:
        """One place has a name."""
        self.add(Place(), key="top")

    @operation()
    def add_up(self, numbers: list[int], start: int = 0) -> int:
        """A sum."""
        return start + sum(numbers)

    @operation()
    def fail(self, text: str) -> None:
        """Raise."""
        raise RuntimeError(text)

    @operation()
    def leave(self) -> None:
        """Call `sys.exit`, as no operation should."""
        sys.exit(3)

    @operation()
    def fail_strangely(self, how: str) -> None:
        """Raise what is hard to tell."""
        errors: dict[str, Exception] = {
            "a name that is no Unicode": FileNotFoundError("/tmp/\udcff"),
            "a long story": RuntimeError("long" * 5_000_000),
            "unprintable": Unprintable(),
            "a delay that is no number": Busy("full", retry_after="soon"),  # type: ignore[arg-type]
        }
        raise errors[how]

    @operation()
    def give_nowhere(self) -> object:
        """What cannot even be looked at."""
        return datetime.now(Nowhere())

    @operation()
    async def call_badly(self, how: str) -> object:
        """A call that no caller should make."""
        slips: dict[str, dict[str, Any]] = {
            "no route": {"route": 5},
            "timeout of no length": {"timeout": float("nan")},
            "timeout in words": {"timeout": "soon"},
            "timeout for ever": {"timeout": 1e12},
            "priority in words": {"priority": "high"},
            "negative priority": {"priority": -1},
            "key that is no name": {"key": 7},
        }
        return await self.call(slips[how].pop("route", "neighbour.pid"), **slips[how])

    @operation()
    def plan_ahead(self, seconds: float) -> None:
        """Something for much later."""
        self.after(seconds, self.plan_ahead, seconds)

    @operation()
    def give(self, count: int) -> bytes:
        """So many bytes."""
        return bytes(count)

    @operation()
    def give_unknown(self) -> object:
        """What cannot be serialised."""
        return threading.Lock()

    @operation(states=("secondary",))
    def stand_by(self) -> None:
        """Registered in a state in which this system is not."""


class NoRoom(Component):
    """Would refuse everything."""

    max_requests = 0


class SomeRoom(Component):
    """Not in so many numbers."""

    max_posted = "many"  # type: ignore[assignment]


class Nowhere(tzinfo):
    """Where nobody knows the time."""

    def fromutc(self, when: datetime) -> datetime:
        """Somehow."""
        return when

    def dst(self, when: datetime | None) -> None:
        """Nor that."""

    def tzname(self, when: datetime | None) -> None:
        """Nor that."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        """Not to be had."""
        raise LookupError("nowhere")


class Unprintable(Exception):
    """An error that has an error of its own."""

    def __str__(self) -> str:
        raise ValueError("cannot be told")


class Neighbour(Component):
    """In another backplane."""

    @operation()
    def pid(self) -> int:
        """Who serves."""
        return os.getpid()


class Place(AppObject):
    """What a key names."""

    @operation()
    def where(self) -> str:
        """Its name."""
        return self.name


# Cycles


class Ping(Component):
    """Calls pong, which calls back."""

    @operation()
    async def ask(self, depth: int = 1) -> str:
        """Refused when it comes back."""
        return str(await self.call("pong.ask", depth=depth))

    @operation(reentrant=True)
    async def count(self, depth: int) -> int:
        """Served when it comes back."""
        return 0 if depth == 0 else 1 + int(await self.call("pong.count", depth=depth - 1))

    @operation()
    def alone(self) -> str:
        """Calls nobody."""
        return "alone"


class Pong(Component):
    """The other."""

    @operation()
    async def ask(self, depth: int) -> str:
        """Back to ping."""
        return str(await self.call("ping.ask", depth=depth))

    @operation(reentrant=True)
    async def count(self, depth: int) -> int:
        """Back to ping."""
        return 0 if depth == 0 else 1 + int(await self.call("ping.count", depth=depth - 1))


class Meeting(Component):
    """Opens once both have come."""

    def __init__(self) -> None:
        self.come: set[str] = set()

    def setup(self) -> None:
        """Each waits at its own side."""
        for key in ("east", "west"):
            self.add(MeetingSide(self), key=key)


class MeetingSide(AppObject):
    """Where one of them waits."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting

    @operation()
    async def wait(self, name: str) -> None:
        """For the other."""
        self.meeting.come.add(name)
        while len(self.meeting.come) < 2:
            await pause(0.005)


class East(Component):
    """Calls west, which calls east."""

    @operation(calls=("meeting.wait", "west.leaf"))
    async def go(self) -> str:
        """Once west has begun, too."""
        await self.call("meeting.wait", key="east", name="east")
        return str(await self.call("west.leaf"))

    @operation()
    def leaf(self) -> str:
        """Queued behind `go`."""
        return "east"


class West(Component):
    """The other."""

    @operation(calls=("meeting.wait", "east.leaf"))
    async def go(self) -> str:
        """Once east has begun, too."""
        await self.call("meeting.wait", key="west", name="west")
        return str(await self.call("east.leaf"))

    @operation()
    def leaf(self) -> str:
        """Queued behind `go`."""
        return "west"


class Chicken(Component):
    """Declares what it calls."""

    @operation(calls=("egg.hatch",))
    async def lay(self) -> None:
        """An egg."""
        await self.call("egg.hatch")


class Egg(Component):
    """Declares what it calls."""

    @operation(calls=("chicken.lay",))
    async def hatch(self) -> None:
        """A chicken."""
        await self.call("chicken.lay")


class Day(Component):
    """Depends on the night."""

    depends_on = ("night",)


class Night(Component):
    """Depends on the day."""

    depends_on = ("day",)


# Ends


class Said(Component):
    """Says when it goes down."""

    def __init__(self, hangs: bool = False, leaves: bool = False) -> None:
        self.hangs, self.leaves = hangs, leaves

    def on_initializing(self) -> None:
        """Perhaps with a child that has escaped into a session of its own."""
        if self.leaves:
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            print(f"left behind: {child.pid}", flush=True)

    def on_down(self) -> None:
        """Perhaps for ever."""
        print(f"{self.component_name} goes down", flush=True)
        if self.hangs:
            threading.Event().wait()


class Bottom(Said):
    """All others stand on it."""


class Middle(Said):
    """In between."""

    depends_on = ("bottom",)


class Top(Said):
    """Nobody stands on it."""

    depends_on = ("middle",)


# Topics


class Sender(Component):
    """Publishes numbers."""

    def __init__(self) -> None:
        self.last = 0

    @operation()
    def send(self, count: int, size: int = 0) -> int:
        """So many more; the last of them."""
        for _ in range(count):
            self.last += 1
            self.publish("numbers.next", number=self.last, filling=bytes(size))
        return self.last


class Hearer(Component):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard_numbers: list[int] = []

    @subscribe("numbers.*")
    def on_number(self, number: int, filling: bytes) -> None:
        """In the order of the sender."""
        self.heard_numbers.append(number)

    @operation()
    def heard(self) -> list[int]:
        """All so far."""
        return self.heard_numbers


# Deadlines


class Stage(Enum):
    """Of a gate."""

    CLOSED = "closed"
    OPEN = "open"


class Gate(StateMachine):
    """Lets through once it is open."""

    initial = Stage.CLOSED

    def __init__(self) -> None:
        self.passed: list[str] = []

    @operation(accepted_in=(Stage.OPEN,), otherwise="defer")
    def walk(self, who: str) -> None:
        """Waits for it to open."""
        self.passed.append(who)

    @operation()
    def open(self) -> None:
        """From now on."""
        self.become(Stage.OPEN)

    @operation()
    def close(self) -> None:
        """And forget who has passed."""
        self.passed.clear()
        self.become(Stage.CLOSED)

    @operation()
    def who_passed(self) -> list[str]:
        """So far."""
        return self.passed


class Guest(Component):
    """Is told who calls."""

    @operation()
    def who(self) -> list[str | None]:
        """The source, and the principal."""
        return [running().source, running().principal]


class Host(Component):
    """Calls the guest."""

    @operation()
    async def introduce(self, user: str | None = None) -> list[str | None]:
        """What the guest is told."""
        return cast(list[str | None], await self.request("guest.who", {}, principal=user))


class Worker(Component):
    """Works long, and remembers how it ended."""

    max_requests = 50

    def __init__(self) -> None:
        self.log: list[str] = []

    def setup(self) -> None:
        """Workplaces, so that the component itself can always be asked; and a gate."""
        for number in range(4):
            self.add(Workplace(self.log), key=f"place-{number}")
        self.add(Gate(), key="gate")

    @operation(priority=0)
    def ended(self) -> list[str]:
        """What has ended, and how."""
        return self.log

    @operation(priority=0)
    def forget(self) -> None:
        """What has ended."""
        self.log.clear()

    @operation(priority=0)
    def let_go(self, name: str) -> None:
        """Whoever works until he is told."""
        self.log.append(f"{name} may go")


class Workplace(AppObject):
    """Where it is done."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    @operation()
    async def work(self, name: str, seconds: float = 60.0) -> str:
        """For so long, or until it is told that nobody wants it any more."""
        self.log.append(f"{name} began")
        try:
            await pause(seconds)
        except BackplaneError as error:
            self.log.append(f"{name} {type(error).__name__}")
            raise
        self.log.append(f"{name} done")
        return name

    @operation()
    async def work_until_told(self, name: str) -> str:
        """Until somebody lets it go."""
        self.log.append(f"{name} began")
        while f"{name} may go" not in self.log:
            await pause(0.01)
        return name


class Agent(Component):
    """Has others work."""

    @operation()
    async def have_done(self, name: str, key: str) -> str:
        """At this workplace."""
        return str(await self.call("worker.work", key=key, name=name))


# Why


class Valve(Component):
    """Holds its worker, not only itself, until it is let go."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def setup(self) -> None:
        """Somebody else who could answer, if there were a worker."""
        self.add(Handle(self.may_end), key="handle")
        self.add(Bucket(), key="bucket")

    @operation(priority=4)
    def hold(self) -> None:
        """Blocks, as a call into a library does."""
        self.may_end.clear()
        self.may_end.wait(60.0)


class Handle(AppObject):
    """Lets it go."""

    def __init__(self, may_end: threading.Event) -> None:
        self.may_end = may_end

    @operation(priority=0)
    def turn(self) -> None:
        """More urgent than what runs, so the relief worker does it."""
        self.may_end.set()


class Bucket(AppObject):
    """Has nothing to do with it."""

    @operation(priority=4)
    async def fill(self) -> None:
        """No more urgent than what runs."""

    @operation(priority=0)
    def left(self) -> float:
        """Seconds until the deadline of this very call."""
        assert current.action is not None and current.action.deadline_ns is not None
        return (current.action.deadline_ns - RealClock.now_ns()) / 1e9


class Spout(Component):
    """Has the bucket filled."""

    @operation()
    async def pour(self) -> None:
        """In another backplane."""
        await self.call("valve.fill", key="bucket")

    @operation()
    async def left(self) -> float:
        """After a while."""
        await pause(0.2)
        return float(await self.call("valve.left", key="bucket"))


class Garden(Component):
    """Has the spout pour."""

    @operation()
    async def water(self) -> None:
        """Through two more backplanes."""
        await self.call("spout.pour")

    @operation()
    async def left(self) -> float:
        """After a while, through two more backplanes."""
        await pause(0.2)
        return float(await self.call("spout.left"))


# Backpressure


class Mill(Component):
    """Takes its time, and all that it is given."""

    def __init__(self) -> None:
        self.ground_count = 0

    def setup(self) -> None:
        """Somebody who has nothing to do with the grain."""
        self.add(Bell(self), key="bell")

    def make_room(self, request: Action) -> bool:
        """At the cost of what is less urgent."""
        return self.shed(below=request.priority) > 0

    @operation(priority=6)
    def grind(self, grain: bytes = b"", seconds: float = 0.001) -> int:
        """So much of the CPU."""
        end_ns = RealClock.now_ns() + round(seconds * 1e9)
        while RealClock.now_ns() < end_ns:
            pass
        self.ground_count += 1
        return len(grain)

    @operation(priority=0)
    def ground(self) -> int:
        """How often it has."""
        return self.ground_count


class Forge(Mill):
    """Another, that takes longer."""


class Weir(Component):
    """Blocks, without computing."""

    @operation(priority=6)
    def hold(self, seconds: float) -> None:
        """So long."""
        threading.Event().wait(seconds)


class Booth(Component):
    """Serves a call in 2 ms, and none that has queued for 20."""

    @operation(priority=4, admit=Adaptive(aim_ms=20))
    def serve(self) -> None:
        """By waiting: who presses has the CPU to itself."""
        threading.Event().wait(0.002)


class Visitor(AppObject):
    """Calls the booth, once at a time."""

    @operation(priority=4)
    async def visit(self) -> str:
        """What it was told."""
        try:
            await self.call("booth.serve", retry=False)
        except Busy as error:
            return error.message
        return "served"


class Crowd(Component):
    """More visitors than a booth serves within its aim."""

    def setup(self) -> None:
        """Each awaits one call."""
        for _ in range(100):
            self.add(Visitor())


class Bell(AppObject):
    """Answers at once."""

    def __init__(self, mill: Mill) -> None:
        self.mill = mill

    @operation(priority=0)
    def ring(self) -> int:
        """Who serves."""
        return os.getpid()

    @operation(priority=0)
    def tell(self) -> int:
        """How often the mill has ground so far."""
        return self.mill.ground_count


class Farm(Component):
    """Sends the mill more than it can grind."""

    def __init__(self) -> None:
        self.told_busy = 0

    def setup(self) -> None:
        """Carts that go to and fro, and a boy who is sent with a message."""
        for number in range(50):
            self.add(Cart(), key=f"cart-{number}")
        self.add(Boy(), key="boy")

    @operation(priority=6)
    def tip(self, count: int, size: int) -> int:
        """Cast so many loads, waiting for nothing; how often the mill had no room."""
        grain = bytes(size)
        for _ in range(count):
            try:
                self.cast("mill.grind", grain=grain)
            except Busy:
                self.told_busy += 1
        return self.told_busy


class Cart(AppObject):
    """One load after the other."""

    @operation(priority=6)
    async def carry(self, size: int) -> int:
        """Waits for it to be ground."""
        return int(await self.call("mill.grind", grain=bytes(size)))


class Boy(AppObject):
    """Runs ahead of the carts."""

    @operation(priority=0)
    async def ask(self) -> int:
        """Through the same link."""
        return int(await self.call("mill.tell"))


# Reasons


class Clinic(Component):
    """Every kind of waiting."""

    max_requests = 6

    def setup(self) -> None:
        """Who is waited for, and where."""
        for name in ("anna", "bert", "carl"):
            self.add(Doctor(), key=name)
        self.add(Gate(), key="door")

    def ward_of(self, who: str) -> str:
        """Looked up slowly."""
        threading.Event().wait(60.0)
        return who

    @operation(states=("secondary",))
    def stand_in(self) -> None:
        """Not in this state."""


class Doctor(AppObject):
    """Has one patient at a time."""

    @operation(priority=2)
    def operate(self, file: str) -> None:
        """Blocks the only worker until a file is there."""
        while not os.path.exists(file):
            threading.Event().wait(0.01)

    @operation(priority=5)
    async def listen(self, seconds: float = 60.0) -> None:
        """Without holding a worker."""
        await pause(seconds)

    @operation(priority=5)
    async def refer(self) -> None:
        """To somebody else."""
        await self.call("clinic.listen", key="carl")

    @operation(priority=5, digest="ward_of")
    def visit(self, who: str) -> None:
        """Wherever that is."""

    @operation(priority=6)
    def count(self, seconds: float) -> None:
        """Uses the CPU for so long, however much else the machine does."""
        end_ns = RealClock.cpu_ns() + round(seconds * 1e9)
        while RealClock.cpu_ns() < end_ns:
            pass

    @operation(priority=4)
    def hog(self, seconds: float) -> float:
        """Compute for `seconds` of CPU time in an extension that keeps the GIL. Returns the wall time that it took."""
        began_ns, began_cpu_ns = RealClock.now_ns(), RealClock.cpu_ns()
        sum(range(1_000_000))
        per_s = 1e15 / (RealClock.cpu_ns() - began_cpu_ns)
        sum(range(int(per_s * seconds)))
        return (RealClock.now_ns() - began_ns) / 1e9


# Forks

#: How long a child may take to end.
ENDS_S = 30.0


class Forker(Component):
    """Makes copies of its process, as an operation should not, and libraries do."""

    def setup(self) -> None:
        """Somebody else."""
        self.add(Fork(), key="fork")

    @operation(priority=0)
    def pid(self) -> int:
        """Who serves."""
        return os.getpid()


class Fork(AppObject):
    """Forks."""

    @operation()
    def fork(self, how: str) -> int:
        """The exit code of a child that ends in this way."""
        child = os.fork()
        if not child:
            if how == "returns":
                return -1
            if how == "raises":
                raise RuntimeError("in the child")
            if how == "leaves":
                sys.exit(0)
            os._exit(5)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)

    @operation()
    def terminate(self) -> int | None:
        """The exit code of a child that multiprocessing has forked and terminated; None: it goes on."""
        process = multiprocessing.get_context("fork").Process(target=threading.Event().wait)
        process.start()
        process.terminate()
        process.join(ENDS_S)
        code = process.exitcode
        process.kill()
        process.join()
        return code

    @operation()
    def pool(self, numbers: list[int]) -> list[int]:
        """What a pool of forked workers makes of them; it terminates its workers at its end."""
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(abs, numbers)

    @operation()
    def interrupt(self) -> int:
        """The exit code of a program that was started and interrupted."""
        words = "import signal, sys; print(flush=True); signal.pause()"
        with subprocess.Popen(
            [sys.executable, "-c", words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as program:
            assert program.stdout is not None
            program.stdout.readline()
            program.send_signal(signal.SIGINT)
            try:
                return program.wait(ENDS_S)
            finally:
                program.kill()

    @operation()
    def multiply(self) -> int:
        """As a library does it: the exit code of a child that multiprocessing has forked."""
        process = multiprocessing.get_context("fork").Process(target=os.getpid)
        process.start()
        process.join()
        assert process.exitcode is not None
        return process.exitcode


# Logs

log = logging.getLogger("archive.scribe")


class Scribe(Component):
    """Says much."""

    @operation(priority=5)
    def write(self, count: int, text: str = "") -> float:
        """So many lines, as fast as it can; how long the slowest took, in s."""
        slowest_ns = 0
        for number in range(count):
            began_ns = RealClock.now_ns()
            log.info("line %d %s", number, text)
            slowest_ns = max(slowest_ns, RealClock.now_ns() - began_ns)
        return slowest_ns / 1e9

    @operation(priority=5)
    def flood(self, least: int, most: int, rings: int) -> list[int]:
        """As many lines as `least`, and up to `most` until the gong was rung so often meanwhile; how many of both."""
        before, number = Gong.rung_count, 0
        while number < least or (Gong.rung_count - before < rings and number < most):
            log.info("line %d", number)
            number += 1
        return [number, Gong.rung_count - before]

    @operation()
    def say(self, text: str, level: str = "INFO") -> None:
        """One line."""
        log.log(logging.getLevelName(level), text, extra={"page": 7})

    @operation()
    def show(self, text: str) -> None:
        """Without logging."""
        print(text, flush=True)
        print(text, file=sys.stderr)

    @operation()
    def die(self, count: int) -> None:
        """In the middle of it."""
        for number in range(count):
            log.info("line %d", number)
        log.error("no ink")
        os.kill(os.getpid(), signal.SIGKILL)


class Gong(Component):
    """Is urgent."""

    rung_count = 0

    @operation(priority=0)
    def ring(self) -> int:
        """At once."""
        Gong.rung_count += 1
        return os.getpid()


# Retries


class Cashier(Component):
    """What may be asked again, and what may not; counts what it does, and what it is asked in vain."""

    def __init__(self) -> None:
        self.paid_count = 0
        self.in_vain_count = 0

    @operation(idempotent=True)
    def price(self, item: int) -> int:
        return item + 1

    @operation()
    def pay(self, number: int) -> list[int]:
        """How many there are by then."""
        self.paid_count += 1
        return [number, self.paid_count]

    @operation()
    async def pay_slowly(self, seconds: float) -> int:
        self.paid_count += 1
        await pause(seconds)
        return self.paid_count

    @operation(idempotent=True)
    def ask_in_vain(self) -> None:
        self.in_vain_count += 1
        raise Busy("not today")

    @operation()
    def counts(self) -> list[int]:
        return [self.paid_count, self.in_vain_count]

    @operation()
    def forget(self) -> None:
        """What was counted."""
        self.paid_count = self.in_vain_count = 0

    @operation()
    def pid(self) -> int:
        return os.getpid()


class Buyer(Component):
    """Asks a till elsewhere."""

    @operation()
    async def buy(self, item: int) -> Any:
        return await self.call("cashier.price", item=item)
