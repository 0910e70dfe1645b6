"""One environment for all tests, however they were started: from a terminal, by `nohup`, in a job of a script, by a CI runner.

What a test could notice of its start is set here once, before any test module is imported; a test that needs something else
sets it itself. Under pytest-xdist each worker does this for itself, so that workers share no run directory and no log.

| inherited | set to |
|---|---|
| SIGINT ignored, as by `nohup` and `&` of a script | default, here and so in every process that a test starts |
| TMPDIR, perhaps long | a short one: a socket's path has 107 bytes (`TMPDIR/SYSTEM/BACKPLANE-GENERATION.sock`) |
| XDG_RUNTIME_DIR, XDG_STATE_HOME, XDG_CONFIG_HOME | folders of this run, beside the user's own systems, logs and keys |
| LC_ALL, LANG, LANGUAGE | C.UTF-8: some tests read the messages of other programs |
| PYTEST_ADDOPTS, for the projects whose tests a page runs | none |
| no options of JVMs | those for a short life (archive.py) |
| TERM, COLUMNS, LINES, NO_COLOR, FORCE_COLOR | none, as without a terminal: a test of a terminal opens one |
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from tests import archive

#: Longer temporary folders than this leave too little of a socket's path.
TMPDIR_CHARACTERS_MAX = 16
NOT_INHERITED = ("PYTEST_ADDOPTS", "LANG", "LANGUAGE", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")

FOLDER: pytest.StashKey[Path] = pytest.StashKey()


def set_up(config: pytest.Config) -> None:
    """The environment; and, where none is given, the folder that `tmp_path` is in. Its workers must not share one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if len(tempfile.gettempdir()) > TMPDIR_CHARACTERS_MAX:
        os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="t-"))
    is_given = config.option.basetemp is not None and not hasattr(config, "workerinput")
    if not is_given:
        config.option.basetemp = folder / "p"
    for name in NOT_INHERITED:
        os.environ.pop(name, None)
    os.environ["LC_ALL"] = "C.UTF-8"
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        (folder / name).mkdir(mode=0o700)
        os.environ[name] = str(folder / name)
    archive.set_environment(os.environ)
    config.stash[FOLDER] = folder


def clean_up(config: pytest.Config, exit_status: int) -> None:
    """Remove the folders of this run, unless something failed: then they help to find out why."""
    if exit_status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)
