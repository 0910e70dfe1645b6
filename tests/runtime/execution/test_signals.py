"""Signals: children of a backplane, forked or executed, have the system's defaults, whenever they are started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

#: Prints which of the signals that a backplane handles are blocked, ignored and handled in children of its own.
PROGRAM = """
import json, os, signal, subprocess, sys, threading
from appbackplane.runtime.execution.sentinel import signals, stacks

NUMBERS = {each.name: each.value for each in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)} | {"FORCED": stacks.FORCED}

def sets(status):
    masks = dict(line.split(":\\t") for line in status.splitlines() if line.startswith("Sig"))
    return {
        what: [name for name, number in NUMBERS.items() if int(masks[what], 16) >> (number - 1) & 1]
        for what in ("SigBlk", "SigIgn", "SigCgt")
    }

def forked(results):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        with open(write, "w") as out, open("/proc/self/status") as status:
            out.write(json.dumps(sets(status.read())))
        os._exit(0)
    os.close(write)
    with open(read) as told:
        results["forked"] = json.load(told)
    os.waitpid(child, 0)

def executed(results):
    results["executed"] = sets(subprocess.check_output(["cat", "/proc/self/status"], text=True))

def look():
    results = {}
    for act in (forked, executed, hit):  # as an operation would: in a thread that is not the main one
        thread = threading.Thread(target=act, args=(results,))
        thread.start()
        thread.join()
    return results

def hit(results):
    # A signal comes as soon as the child is there: the hook below is the first to run in it.
    early.append(signal.SIGTERM)
    child = os.fork()
    if not child:
        os._exit(0)
    early.clear()
    results["hit"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

early = []
os.register_at_fork(after_in_child=lambda: [os.kill(os.getpid(), number) for number in early])
stacks.write_on_signal()
signals.heed_orders(lambda reason: None)
serving = look()
signals.heed_no_more()
print(json.dumps([serving, look()]))
"""


@pytest.mark.parametrize("when", [0, 1], ids=["serving", "stopping"])
def test_children_begin_with_the_defaults(when: int) -> None:
    """`terminate()` had no effect on what was forked, nor Ctrl-C on what was executed."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(said.stdout)[when]
    assert found["forked"] == {"SigBlk": [], "SigIgn": [], "SigCgt": ["SIGINT"]}, "KeyboardInterrupt, as in any Python"
    assert found["hit"] == -signal.SIGTERM, "it is not lost on its way"
    assert found["executed"] == {"SigBlk": [], "SigIgn": [], "SigCgt": []}
