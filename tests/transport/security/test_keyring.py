"""The keyring as files: nobody else can have read or written them, nothing is half written, and what changes is seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from appbackplane.transport.errors import FailedPrecondition
from appbackplane.transport.security.keyring import OWN, RING, Keyring, default_folder
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from tests.waiting import LIMIT_S

BERLIN, PARIS = PublicKey(b"\1" * 32), PublicKey(b"\2" * 32)
STRANGER = 65534


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    """With a pair, and one key that is trusted."""
    keyring = Keyring(tmp_path / "config" / "keys")
    keyring.make_own()
    keyring.change(lambda ring: ring.trusting(Holder("berlin", BERLIN)))
    return keyring


def problem_of(keyring: Keyring) -> str:
    """Why nothing is read of it; the same for what was read before."""
    before = keyring.ring
    keyring.refresh()
    assert keyring.problem is not None and "\n" not in keyring.problem
    assert keyring.ring is before, "who is connected stays"
    return keyring.problem


def test_it_lies_where_the_user_keeps_his_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG Base Directory Specification: a relative path in it does not count."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "relative/path"):
        monkeypatch.setenv("XDG_CONFIG_HOME", given)
        assert default_folder() == tmp_path / ".config/appbackplane/keys"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "set"))
    assert Keyring().folder.path == tmp_path / "set/appbackplane/keys"
    assert not (tmp_path / "set").exists(), "looking makes nothing"


def test_it_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """From the first moment on, not after a chmod."""
    before = os.umask(0)
    try:
        Keyring(tmp_path / "keys").make_own()
        Keyring(tmp_path / "keys").change(lambda ring: ring.trusting(Holder("berlin", BERLIN)))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()}
    assert modes == {OWN: 0o600, RING: 0o600, "lock": 0o600}
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


def test_a_pair_is_made_once_unless_it_is_to_be_replaced(keyring: Keyring) -> None:
    """Whoever makes a second one by mistake is unknown to everybody."""
    first = keyring.own()
    with pytest.raises(FailedPrecondition, match=r"there is a key pair .* already .*--replace makes another"):
        keyring.make_own()
    assert keyring.own() == first
    assert keyring.make_own(is_replacing=True) == keyring.own().public != first.public


def test_without_a_pair_it_is_said_how_one_is_made(tmp_path: Path) -> None:
    """And nothing is made by asking."""
    with pytest.raises(FailedPrecondition, match=r"no key pair in .*: make one"):
        Keyring(tmp_path / "keys").own()
    assert not (tmp_path / "keys").exists()


def open_to_others(path: Path) -> None:
    path.chmod(0o640)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def linked_twice(path: Path) -> None:
    os.link(path, path.with_name("elsewhere"))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def of_a_stranger(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, STRANGER, STRANGER)


def too_long(path: Path) -> None:
    with path.open("a") as file:
        file.truncate(5 << 20)


def not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def not_ours(path: Path) -> None:
    path.write_text("something else\n")


@pytest.mark.parametrize("name", [OWN, RING])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (open_to_others, r"is open to others: chmod 600 \S+"),
        (linked, "is a link: put the file itself there"),
        (linked_twice, "is not a plain file"),
        (a_folder, "is not a plain file|Is a directory"),
        (a_pipe, "is not a plain file"),
        (of_a_stranger, "is another user's .uid 65534."),
        (too_long, "has more than .* bytes: it is not a key file"),
        (not_text, "is not text"),
        (not_ours, "expected"),
    ],
)
def test_a_file_that_others_may_have_had_is_refused(
    keyring: Keyring, name: str, spoil: Callable[[Path], None], said: str
) -> None:
    """In one line that says what to do; and once that is done, it is read again."""
    path = keyring.folder.path / name
    spoil(path)
    if name == OWN:
        with pytest.raises(FailedPrecondition, match=said) as raised:
            keyring.own()
        assert str(path) in raised.value.message and "secret:" not in raised.value.message
    else:
        found = problem_of(keyring)
        with pytest.raises(FailedPrecondition, match=said):
            keyring.change(lambda ring: ring.trusting(Holder("paris", PARIS)))
        assert str(path) in found
        if spoil is open_to_others:
            path.chmod(0o600)
            assert keyring.refresh() and keyring.problem is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: folder.chmod(0o750), "is open to others: chmod 700"),
        (lambda folder: folder.parent.chmod(0o777), "can be changed by others: chmod go-w"),
        (linked, "is not a folder, or a link to one"),
        (of_a_stranger, "is another user's"),
    ],
)
def test_a_folder_that_others_may_change_is_refused(keyring: Keyring, spoil: Callable[[Path], None], said: str) -> None:
    """Who may rename a file in it decides who comes in."""
    spoil(keyring.folder.path)
    for act in (keyring.own, keyring.make_own, lambda: Keyring(keyring.folder.path).change(lambda ring: ring)):
        with pytest.raises(FailedPrecondition, match=said):
            act()


def test_a_pair_of_two_halves_is_refused(keyring: Keyring) -> None:
    """It would be let in nowhere, and nobody would see why."""
    path = keyring.folder.path / OWN
    path.write_text(path.read_text().replace(str(keyring.own().public), str(BERLIN)))
    with pytest.raises(FailedPrecondition, match="its two keys do not belong together"):
        keyring.own()


def test_what_is_changed_by_another_program_is_seen_at_once(keyring: Keyring) -> None:
    """By the verb, and by hand; and what has not changed is not read."""
    assert not keyring.refresh()
    Keyring(keyring.folder.path).change(lambda ring: ring.revoking("berlin"))
    assert keyring.refresh() and keyring.ring.find("berlin").is_revoked
    path = keyring.folder.path / RING
    path.write_text(path.read_text().replace("revoke", "trust"))
    assert keyring.refresh() and not keyring.ring.find("berlin").is_revoked
    assert not keyring.refresh()
    path.unlink()
    assert keyring.refresh() and keyring.ring.holders == (), "no ring, nobody trusted"


def test_a_change_that_is_refused_changes_nothing(keyring: Keyring) -> None:
    """Not the file, not its time, and nothing beside it."""
    mark = keyring.folder.mark(RING)
    with pytest.raises(FailedPrecondition):
        keyring.change(lambda ring: ring.trusting(Holder("other", BERLIN)))
    keyring.change(lambda ring: ring.trusting(Holder("berlin", BERLIN)))
    assert keyring.folder.mark(RING) == mark
    assert {path.name for path in keyring.folder.path.iterdir()} == {OWN, RING, "lock"}


def test_a_disk_that_is_full_leaves_the_old_ring(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, and without half a file beside it."""

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    before = (keyring.folder.path / RING).read_text()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FailedPrecondition, match="ring cannot be written: No space left on device"):
        keyring.change(lambda ring: ring.trusting(Holder("paris", PARIS)))
    assert (keyring.folder.path / RING).read_text() == before
    assert {path.name for path in keyring.folder.path.iterdir()} == {OWN, RING, "lock"}


TRUSTS = """
import sys
from pathlib import Path
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
first = int(sys.argv[2])
sys.stdin.read()
for number in range(first, first + 25):
    key = PublicKey(bytes([number]) * 32)
    Keyring(Path(sys.argv[1])).change(lambda ring: ring.trusting(Holder(f"n{number}", key)))
"""


@pytest.mark.systems
def test_those_who_change_it_at_the_same_time_lose_nothing(keyring: Keyring) -> None:
    """Three programs, 25 keys each; and who reads meanwhile never finds half a ring."""
    typed = [sys.executable, "-c", TRUSTS, str(keyring.folder.path)]
    programs = [subprocess.Popen([*typed, str(first)], stdin=subprocess.PIPE) for first in (10, 50, 90)]
    for program in programs:
        assert program.stdin is not None
        program.stdin.close()
    while any(program.poll() is None for program in programs):
        keyring.refresh()
        assert keyring.problem is None
    assert [program.wait(LIMIT_S) for program in programs] == [0, 0, 0]
    keyring.refresh()
    assert len(keyring.ring.holders) == 76
