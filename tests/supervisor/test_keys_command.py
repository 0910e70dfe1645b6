"""`appbackplane keys`: what it shows can be pasted on the other host, and it never shows a secret."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.transport.security.keyring import OWN, RING, Keyring
from appbackplane.transport.security.keys import KeyPair

DONE, FAILED, WRONG = 0, 1, 2


@pytest.fixture(autouse=True)
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The keys of each host lie in a folder of its name; this user has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def run(host: str, words: str) -> Result:
    """A command, as typed on a host. No secret of any host is in what it says."""
    result = CliRunner().invoke(main, ["keys", *shlex.split(words), "--folder", host])
    for path in Path().rglob(OWN):
        pair = KeyPair.parse(path.read_text())
        said = result.stdout + result.stderr
        assert pair.text.split()[-1].removeprefix("secret:") not in said
        assert pair.secret.hex() not in said and repr(pair.secret) not in said
    return result


def told(host: str, words: str) -> Any:
    """For programs: one document on one line."""
    result = run(host, f"{words} --json")
    assert result.exit_code == DONE and result.stdout.count("\n") == 1, result.output
    return json.loads(result.stdout)


def test_what_one_host_shows_is_what_is_pasted_on_the_other() -> None:
    """As it stands, in any shell; and both show the same fingerprint."""
    assert run("berlin", "new").exit_code == run("paris", "new").exit_code == DONE
    shown = run("berlin", "show").stdout
    line = next(line for line in shown.splitlines() if line.startswith("on the other host: "))
    pasted = line.removeprefix("on the other host: appbackplane keys ").replace("NAME", "berlin")
    trusted = run("paris", pasted)
    assert trusted.exit_code == DONE
    fingerprint = told("berlin", "show")["fingerprint"]
    assert fingerprint in shown and fingerprint in trusted.stdout and fingerprint in run("paris", "show").stdout


def test_what_a_program_reads() -> None:
    """The same words as the ring's."""
    made = told("berlin", "new")
    assert made == {"key": made["key"], "fingerprint": made["fingerprint"], "folder": "berlin"}
    told("paris", "new")
    one = told("paris", f"trust berlin {made['key']} --route 'index.*' --route query.search --topic none")
    assert one == {
        "name": "berlin", "state": "trusted", "key": made["key"], "fingerprint": made["fingerprint"],
        "routes": ["index.*", "query.search"], "topics": ["none"], "offers": None,
    }  # fmt: skip
    assert told("paris", "show")["ring"] == [one]
    offering = told("paris", f"trust berlin {made['key']} --offer 'index.*' --offer query.search")
    assert (offering["routes"], offering["offers"]) == (["exported"], ["index.*", "query.search"])
    assert told("paris", "show")["ring"] == [offering]
    assert told("paris", f"trust berlin {made['key']}")["routes"] == ["exported"]
    gone = told("paris", f"revoke {made['fingerprint']}")
    assert gone["state"] == "revoked"
    assert told("paris", "show")["ring"] == [gone]
    assert told("paris", "revoke berlin") == gone, "twice is once"


def test_a_person_sees_who_is_trusted_with_what() -> None:
    """A line each; of who is revoked, nothing that it could still use."""
    key = told("berlin", "new")["key"]
    run("paris", "new")
    run("paris", f"trust berlin {key} --route 'index.*'")
    rows = [line.split() for line in run("paris", "show").stdout.splitlines()[-2:]]
    assert rows[0] == ["NAME", "STATE", "FINGERPRINT", "ROUTES", "TOPICS", "OFFERS"]
    assert rows[1][0:2] == ["berlin", "trusted"] and rows[1][3:] == ["index.*", "exported", "[peers]"]
    run("paris", "revoke berlin")
    assert run("paris", "show").stdout.splitlines()[-1].split()[0:2] == ["berlin", "revoked"]


def test_without_a_folder_it_is_the_users_own(hosts: Path) -> None:
    """$XDG_CONFIG_HOME/appbackplane/keys."""
    assert CliRunner().invoke(main, ["keys", "new"]).exit_code == DONE
    assert (hosts / "config/appbackplane/keys" / OWN).stat().st_mode & 0o777 == 0o600


def test_what_is_wrong_is_one_line_with_the_remedy() -> None:
    """And an exit code that tells a mistyped word from a spoilt file."""
    key = told("berlin", "new")["key"]
    first = run("paris", "show")
    assert (first.exit_code, first.stderr.count("\n")) == (FAILED, 1)
    assert "no key pair in paris: make one (appbackplane keys new)" in first.stderr
    run("paris", "new")
    assert "--replace makes another" in run("paris", "new").stderr
    run("paris", f"trust berlin {key}")
    run("paris", "revoke berlin")
    again = run("paris", f"trust berlin {key}")
    assert again.exit_code == FAILED and "was revoked: have a new one made there" in again.stderr
    Path("paris", RING).write_text("nonsense\n")
    for words in ("show", "revoke berlin", f"trust rome {key}"):
        spoilt = run("paris", words)
        assert spoilt.exit_code == FAILED, spoilt.output
        assert f"paris/{RING}, line 1: expected 'trust NAME KEY'" in spoilt.stderr
    Path("paris", OWN).chmod(0o644)
    assert f"paris/{OWN} is open to others: chmod 600 paris/{OWN}" in run("paris", "show").stderr


def test_a_secret_that_is_pasted_by_mistake_is_not_repeated() -> None:
    """`run` looks for it in what is said, which somebody may have on a screen that others see, or in a log."""
    run("berlin", "new")
    secret = Path("berlin", OWN).read_text().split()[-1]
    pasted = run("paris", f"trust berlin {secret}")
    assert pasted.exit_code == WRONG and "not a public key" in pasted.stderr


def test_names_are_offered_by_tab() -> None:
    """Those that can still be revoked."""
    keyring = Keyring(Path("config/appbackplane/keys"))
    run(str(keyring.folder.path), "new")
    for name in ("berlin", "bonn", "rome"):
        key = told(name, "new")["key"]
        run(str(keyring.folder.path), f"trust {name} {key}")
    run(str(keyring.folder.path), "revoke bonn")
    found = ShellComplete(main, {}, "appbackplane", "X").get_completions(["keys", "revoke"], "b")
    assert [item.value for item in found] == ["berlin"]
