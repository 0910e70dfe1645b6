"""Things, judged by others: node-wot as a client, the validators of the Thing Description Playground, the test-suite for
directories of wot-discovery-testing, and oidc-provider, which signs users in. By `scripts/long things`.

They come from npm and GitHub; where a program that they need is missing, or they cannot be fetched, the tests are skipped with
that reason.
"""

from __future__ import annotations

import csv
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
from .test_directory import OPEN_TOML, ROOMS, lamp
from .test_sign_in import SECRET_NAME, Browser, family_reads, gateway_with
from .test_things import LAMP, TOKEN, Web, house_up

pytestmark = [LONG, pytest.mark.xdist_group("judges")]

JUDGES = Path(__file__).with_name("judges")
EVENTS = 200
DIRECTORY_ASSERTIONS = 47
#: Assertions that the best published directory, and the best gateway, fulfils.
BEST_PUBLISHED, BEST_PROFILED = 83, 55
#: The commit with the list of the profiles' assertions.
PROFILES = ("https://github.com/w3c/wot-profile", "7147f49")
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


def claims() -> dict[str, str]:
    """The test for each assertion of W3C's list that is claimed by hand."""
    with (JUDGES / "discovery_claims.csv").open() as file:
        return {row["ID"]: row["Test"] for row in csv.DictReader(file)}


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_all_assertions_of_the_suite_for_directories_pass(tmp_path: Path) -> None:
    """47 of W3C's list are judged by their scripts, in a directory that has things of its own, too."""
    for program in ("go", "git"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed here")
    built = subprocess.run(
        [JUDGES / "directory.sh", tmp_path], timeout=INSTALL_S, capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"the suite for directories cannot be built: {built.stderr.strip()[-300:]}")
    with house_up(OPEN_TOML, token=None, things=(*ROOMS,)) as house:
        server = f"-server=http://{Web(house, token=None)._at}"
        done = subprocess.run(
            [tmp_path / "judge", "-test.v", "-test.skip", "TestSPARQL", "-testJSONPath", server],
            cwd=tmp_path / "run", timeout=JUDGE_S, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (tmp_path / "run" / "report" / "tdd-auto.csv").open() as report:
        statuses = {row["ID"]: row["Status"] for row in csv.DictReader(report)}
    assert {id: status for id, status in statuses.items() if status != "pass"} == {}
    assert len(statuses) == DIRECTORY_ASSERTIONS
    # Those that no script judges are claimed, each by a test of ours.
    claimed, listed = set(claims()), set()
    for name in ("template", "manual"):
        with (tmp_path / "run" / "report" / f"{name}.csv").open() as report:
            listed |= {row["ID"] for row in csv.DictReader(report)}
    assert claimed <= listed and not claimed & statuses.keys()
    assert len(claimed | (statuses.keys() & listed)) > BEST_PUBLISHED


def test_more_of_the_profiles_is_claimed_than_by_others(tmp_path: Path) -> None:
    """Each assertion of W3C's list is in ours, which has a test for each claim (tests/runtime/things/web/test_profiles.py)."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed here")
    address, commit = PROFILES
    command = ["git", "clone", "--quiet", "--no-checkout", address, tmp_path]
    done = subprocess.run(command, timeout=INSTALL_S, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the list of W3C cannot be fetched: {done.stderr.strip()[-300:]}")
    shown = ["git", "-C", tmp_path, "show", f"{commit}:testing/assertions.csv"]
    text = subprocess.run(shown, timeout=INSTALL_S, capture_output=True, text=True, check=True).stdout
    with (JUDGES / "profile_assertions.csv").open() as file:
        ours = {row["ID"]: row["Test"] for row in csv.DictReader(file)}
    assert {row["ID"] for row in csv.DictReader(text.splitlines(keepends=True))} == ours.keys()
    assert len([test for test in ours.values() if test]) > BEST_PROFILED


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_no_assertion_of_the_playground_fails_for_the_directory(judges: Path) -> None:
    """Nor for what it serves of others."""
    with house_up(OPEN_TOML, token=None, things=(*ROOMS,)) as house:
        web = Web(house, token=None)
        web.ask("PUT", "/things/urn:dev:lamp-7", lamp())
        files = [judges / "directory.json", judges / "registered.json"]
        files[0].write_text(json.dumps(web.ask("GET", "/.well-known/wot").body))
        files[1].write_text(json.dumps(web.ask("GET", "/things/urn:dev:lamp-7").body))
    found = judged(judges, "playground.js", *map(str, files))
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
