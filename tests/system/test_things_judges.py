"""Things, judged by others: node-wot, the Thing Description Playground, and oidc-provider. By `scripts/long things`.

They come from npm; where there is no node, or npm cannot install them, the tests are skipped with that reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.figures import LONG

from .conftest import System
from .test_sign_in import SECRET_NAME, Browser, family_reads, gateway_with
from .test_things import LAMP, TOKEN, Web, house_up

pytestmark = [LONG, pytest.mark.xdist_group("judges")]

JUDGES = Path(__file__).with_name("judges")
EVENTS = 200
USER = f"{LAMP}/properties/user"
#: Seconds for npm, and for a judge.
INSTALL_S, JUDGE_S = 600, 300


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the judges and their packages."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed here")
    folder = tmp_path_factory.mktemp("judges")
    shutil.copytree(JUDGES, folder, dirs_exist_ok=True)
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit"],
        cwd=folder,
        timeout=INSTALL_S,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"npm cannot install the judges: {done.stderr.strip()[-300:]}")
    # The assertions look for the validator among packages of their own.
    scope = Path("@thing-description-playground")
    inner = folder / "node_modules" / scope / "assertions" / "node_modules" / scope
    if not (inner / "core").exists():
        inner.mkdir(parents=True)
        (inner / "core").symlink_to(folder / "node_modules" / scope / "core")
    return folder


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """The things of test_things.py."""
    with house_up() as system:
        yield system


def judged(folder: Path, *words: str) -> Any:
    """What a judge prints."""
    done = subprocess.run(["node", *words], cwd=folder, timeout=JUDGE_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_node_wot_reads_writes_invokes_observes_and_misses_no_event(house: System, judges: Path) -> None:
    """The client of the field, by the Thing Description alone."""
    found = judged(judges, "node_wot.js", f"http://{Web(house)._at}{LAMP}", TOKEN, str(EVENTS))
    assert (found["read"], found["invoked"], found["errors"]) == (42, 42, [])
    assert found["all"]["brightness"] == 42 and found["all"]["user"] == "ada by web"
    assert found["events"] == list(range(EVENTS))
    assert found["observed"] == list(range(1, 21))


def test_no_assertion_of_the_playground_fails(house: System, judges: Path) -> None:
    """On any description that is served."""
    files = []
    for number, td in enumerate(Web(house).ask("GET", "/things").body):
        files.append(str(judges / f"td-{number}.json"))
        Path(files[-1]).write_text(json.dumps(td))
    found = judged(judges, "playground.js", *files)
    assert found["failed"] == [] and found["passed_count"] > 100
    for report in found["reports"]:
        assert (report["schema"], report["additional"]) == ("passed", "passed")


@contextmanager
def oidc_provider(judges: Path, secret: str) -> Iterator[str]:
    """The npm package, which signs Ada of the family in; its issuer."""
    process = subprocess.Popen(
        ["node", "oidc_provider.mjs", "things", secret],
        cwd=judges,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(JUDGE_S)


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_oidc_provider_signs_a_browser_in(judges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With PKCE, a client secret, an `iss` in its answer, and the email and groups from userinfo, as certified providers do."""
    monkeypatch.setenv(SECRET_NAME, "a secret: with/signs")
    with oidc_provider(judges, "a secret: with/signs") as issuer, gateway_with(issuer, user_claim="email") as system:
        family_reads(system)
        browser = Browser(system)
        assert browser.sign_in() == {"principal": "ada@house.example", "groups": ["family"]}
        assert browser.ask("GET", USER).body == "ada@house.example by web"
        assert browser.ask("POST", "/sign-out", Sec_Fetch_Site="same-origin").status == 204
        assert browser.ask("GET", USER).status == 401
