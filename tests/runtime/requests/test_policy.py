"""The policy: what makes no sense is refused in one sentence that names the setting and what is expected."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.backplane_operations import construct
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.optimiser import OptimiserPolicy
from appbackplane.runtime.requests.policy import CHOICES, FIXED
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from .conftest import Live


class Echo(Runnable):
    def execute(self, request: int, kernel: Context) -> int:
        return request


class Indexing(RequestKernel):
    runnables = (Echo,)


BAD = [
    ({"workers": 0}, "workers = 0: expected 1 to 256"),
    ({"workers": 257}, "1 to 256"),
    ({"workers": 2.5}, "workers = 2.5: expected a whole number"),
    ({"workers": True}, "workers = True: expected a whole number"),
    ({"workers": "4"}, "workers = '4': expected a whole number"),
    ({"ready": 0}, "ready = 0: expected 1 to 1,000,000"),
    ({"ready": 10_000_000}, "ready"),
    ({"rejoin": 0}, "rejoin = 0"),
    ({"rejoin": -1}, "rejoin = -1"),
    ({"boost": -1}, "boost = -1: expected 0 to"),
    ({"step": 0}, "step = 0: expected 1 to"),
    ({"base": 0}, "base = 0: expected 1 to 255"),
    ({"base": 256}, "base = 256"),
    ({"interval": 0}, "interval = 0: expected seconds, 0.001 to 3600"),
    ({"interval": float("nan")}, "interval = nan: expected seconds"),
    ({"interval": float("inf")}, "interval = inf: expected seconds"),
    ({"interval": "1"}, "interval = '1': expected seconds"),
    ({"record_interval": 4000}, "record_interval = 4000"),
    ({"kernel": "sprak"}, "kernel = 'sprak': expected 'local' or 'spark'"),
    ({"kind": "fibres"}, "kind = 'fibres': expected 'threads' or 'processes'"),
    ({"mode": "lane"}, "mode = 'lane': expected 'plain' or 'lanes'"),
    ({"on_stall": "panic"}, "on_stall = 'panic': expected 'report' or 'fail'"),
    ({"ageing": "no"}, "ageing = 'no': expected True or False"),
    ({"optimise": 1}, "optimise = 1: expected True or False"),
    ({"kind": "processes", "pool": ""}, "pool = '': expected the component whose replicas are the workers"),
    ({"mode": "lanes", "lanes": (0, 20)}, "expected the percentages of lanes 0, 1 and 2"),
    ({"mode": "lanes", "lanes": (0, 20, 20, 60)}, "expected the percentages of lanes 0, 1 and 2"),
    ({"mode": "lanes", "lanes": (0, -1, 20)}, "lane 1 has -1 %, expected 0 to 100"),
    ({"mode": "lanes", "lanes": (0, 101, 0)}, "lane 1 has 101 %, expected 0 to 100"),
    ({"mode": "lanes", "lanes": (0, 0.2, 0.2)}, "lane 1 has 0.2 %, expected 0 to 100"),
    ({"mode": "lanes", "lanes": (20, 40, 40)}, "100 % leave nothing to lane 3: expected less than 100 together"),
    ({"mode": "lanes", "workers": 2}, "workers = 2 with lanes = (0, 20, 20): lanes 0 to 2 may have 2 of them"),
    ({"mode": "lanes", "ready": 2}, "ready = 2 with lanes = (0, 20, 20)"),
    ({"record_dir": "records"}, "record_dir = 'records': expected a path from / or from ~"),
    ({"record_dir": "~nobody_of_that_name/x"}, "record_dir = '~nobody_of_that_name/x': there is no such folder: "),
    ({"record_dir": "/tmp/\0"}, "record_dir = '/tmp/\\x00': there is no such folder: "),
    ({"record_dir": "/tmp/\ud800"}, "record_dir = '/tmp/\\ud800': there is no such folder: "),
    ({"record_dir": None}, "record_dir = None: expected a path from / or from ~"),
    ({"record": "no"}, "record = 'no': expected True or False"),
    ({"record_age": "7d"}, "record_age = '7d': expected seconds, 1 to"),
    ({"record_age": float("nan")}, "record_age = nan: expected seconds, 1 to"),
    ({"lanes": "x"}, "lanes = 'x': expected the percentages of lanes 0, 1 and 2"),
    ({"lanes": (0, 200, 20)}, "lane 1 has 200 %, expected 0 to 100"),
    ({"lanes": (20, 40, 40)}, "100 % leave nothing to lane 3: expected less than 100 together"),
    ({"spark": 5}, "spark = 5: expected a table of settings"),
    ({"spark": {"batch": None}}, "spark = {'batch': None}: expected a table of settings, texts or whole numbers"),
    ({"schedule": 5}, "schedule = 5: expected a table of times and commands"),
    ({"schedule": {"every 1s": 5}}, "schedule: 'every 1s': expected a command or a list of commands, got 5"),
    ({"schedule": {"every 1s": ["hold", None]}}, "'every 1s': expected a command or a list of commands, got ['hold', "),
    ({"schedule": {5: "hold"}}, 'schedule: 5: expected "22:00", '),
    ({"optimiser": None}, "optimiser = None: expected an OptimiserPolicy"),
    ({"optimiser": OptimiserPolicy(workers_max=257)}, "optimiser.workers_max = 257: expected at most 256"),
    ({"optimiser": OptimiserPolicy(ready_max=10**9)}, "optimiser.ready_max = 1000000000: expected at most 1,000,000"),
    ({"optimiser": OptimiserPolicy(rejoin_max=10**9)}, "optimiser.rejoin_max = 1000000000: expected at most 1,000,000"),
]


@pytest.mark.parametrize(("settings", "said"), BAD, ids=[str(settings) for settings, _ in BAD])
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], said: str) -> None:
    """Written by a program, and changed while it runs; one sentence either time."""
    with pytest.raises(ValueError) as refused:
        KernelPolicy(**settings)
    assert said in str(refused.value)
    if not set(settings) & set(FIXED):
        whole = KernelPolicy(workers=5, mode="lanes" if settings.get("mode") == "lanes" else "plain")
        with pytest.raises(ValueError) as refused:
            whole.changed(**settings)
        assert next(iter(settings)) in str(refused.value) or "lane" in str(refused.value)


def test_a_kernel_that_is_not_up_says_so_to_who_asks_how_it_is() -> None:
    """As it does to who posts."""
    kernel = Indexing()
    with pytest.raises(FailedPrecondition, match="Indexing does not run yet: it has figures from on_initializing"):
        kernel.figures()
    with pytest.raises(FailedPrecondition, match="Indexing does not run yet: give its constructor a policy"):
        kernel.change(workers=3)


@pytest.mark.parametrize("name", FIXED)
def test_what_decides_which_kernel_it_is_stays(name: str) -> None:
    with pytest.raises(
        TypeError, match=f"{name} cannot change while the kernel runs: write it in the TOML and restart"
    ):
        KernelPolicy().changed(**{name: "local"})


def test_a_setting_that_there_is_not_is_named() -> None:
    with pytest.raises(TypeError, match=r"no setting 'wrokers' \(did you mean 'workers'\?\): expected one of ageing, "):
        KernelPolicy().changed(wrokers=3)


def test_every_choice_is_one_of_those_that_are_annotated() -> None:
    """The table of choices and the annotations, which a TOML is checked by, say the same."""
    for name, choices in CHOICES.items():
        assert all(repr(choice) in KernelPolicy.__annotations__[name] for choice in choices)
        assert KernelPolicy.__annotations__[name].count("'") + KernelPolicy.__annotations__[name].count('"') == 2 * len(
            choices
        )


def settings_of(text: str) -> dict[str, Any]:
    """`[backplane.NAME.settings.CLASS]` as the process that runs it reads it."""
    settings: dict[str, Any] = tomllib.loads(text)["backplane"]["index"]["settings"]["Indexing"]
    return settings


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('kind = "process"', "'policy.kind': invalid enum value 'process': expected 'threads' or 'processes'"),
        ("worker = 3", "'policy': object contains unknown field `worker` (did you mean 'workers'?)"),
        ("zzz = 3", "'policy': object contains unknown field `zzz`: expected one of ageing, base, boost, "),
        ("workers = 0", "'policy': workers = 0: expected 1 to 256"),
        ("optimiser = { workers = 3 }", "'policy.optimiser': object contains unknown field `workers`"),
        ("optimiser = { workers_max = 999 }", "'policy': optimiser.workers_max = 999: expected at most 256"),
    ],
)
def test_what_the_toml_has_wrong_is_said_with_what_it_may_be(line: str, said: str) -> None:
    """And without the constructor's signature, which says nothing of what is within a policy."""
    with pytest.raises(InvalidArgument) as refused:
        construct(Indexing, settings_of(HEAD + line))
    assert said in refused.value.message
    assert "(policy: KernelPolicy" not in refused.value.message


def test_a_change_says_what_a_choice_may_be() -> None:
    """As the start does."""
    with pytest.raises(ValueError, match="on_stall = 'raise': expected 'report' or 'fail'"):
        KernelPolicy().changed(on_stall="raise")
    with pytest.raises(ValueError, match=r"lanes = \[20\]: expected the percentages of lanes 0, 1 and 2"):
        KernelPolicy().changed(lanes=[20])


HEAD = "[backplane.index.settings.Indexing.policy]\n"


def test_a_policy_comes_from_the_toml() -> None:
    """All of it, and what it does not name is the default."""
    kernel: Any = construct(
        Indexing,
        settings_of(
            HEAD + 'workers = 10\nmode = "lanes"\nlanes = [0, 20, 20]\nageing = true\ninterval = 1\nready = 50'
        ),
    )
    assert kernel.policy == KernelPolicy(
        workers=10, mode="lanes", lanes=(0, 20, 20), ageing=True, interval=1.0, ready=50
    )
    assert construct(Indexing, {}).policy == KernelPolicy()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("wrokers = 4", "wrokers"),
        ('workers = "4"', "workers"),
        ("workers = 0", "workers = 0: expected 1 to 256"),
        ('mode = "lane"', "mode"),
        ("lanes = [20, 20]", "lanes"),
        ('mode = "lanes"\nlanes = [50, 50, 0]', "leave nothing to lane 3"),
        ("interval = 0", "interval"),
        ('kernel = "sprak"', "kernel"),
    ],
)
def test_a_toml_that_makes_no_sense_is_refused(line: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        construct(Indexing, settings_of(HEAD + line))
    assert said in str(refused.value)
    assert "Indexing" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_settings_are_reviewed_while_it_runs(live: Callable[..., Live]) -> None:
    """Others at once; what makes no sense is refused, and then nothing has changed."""
    kernel = Indexing(KernelPolicy(workers=3, ready=10))
    live(kernel)
    assert kernel.change(workers=5, mode="lanes").workers == 5
    assert kernel.policy == KernelPolicy(workers=5, ready=10, mode="lanes")
    for bad in ({"workers": 0}, {"wrokers": 3}, {"kind": "processes"}, {"lanes": (50, 50, 50)}, {"workers": 2}):
        with pytest.raises(InvalidArgument, match="k/indexing: "):
            kernel.change(**bad)
        assert kernel.policy == kernel._ledger.policy == KernelPolicy(workers=5, ready=10, mode="lanes")
    assert kernel.kernel.post(7, Echo).id == 1
    assert [done.result for done in kernel.kernel.joined()] == [7]


def test_no_request_is_left_without_a_lane(live: Callable[..., Live]) -> None:
    """Lanes that leave what is ready no worker, ever, are refused: it would be lost."""
    kernel = Indexing(KernelPolicy(workers=4))
    live(kernel)
    kernel._ledger.hold(is_held=True)
    for _ in range(3):
        kernel.kernel.post(7, Echo, lane=0)
    with pytest.raises(
        InvalidArgument, match="leave lane 0 no worker, and 3 requests of it wait for one: give it a share"
    ):
        kernel.change(mode="lanes")
    assert kernel.policy.mode == "plain"
    kernel._ledger.hold(is_held=False)
    assert sum(done.result for done in kernel.kernel.joined()) == 21
    kernel.change(mode="lanes")
    with pytest.raises(InvalidArgument, match=r"lane=0: lanes = .* leave it no worker"):
        kernel.kernel.post(7, Echo, lane=0)
