"""Command line: `appbackplane`, one verb a file; each file's docstring states the verb's promise.

A verb reads its words, asks the running system or starts one, and shows the answer; it decides nothing about the system.
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. An error is one clear line on standard error; the traceback
is shown under `--debug`. Verbs are imported when they are used, because a person waits for each import.
Read first: `cli.py`, then any verb.
"""

from .cli import main

__all__ = ["main"]
