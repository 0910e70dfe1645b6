"""Discovery: a system is found by its name, its run directory or its TOML, and nothing else is guessed."""

from pathlib import Path

import pytest

from appbackplane.transport import addressing, discovery
from appbackplane.transport.errors import InvalidArgument, NotFound, SystemNotRunning, Unavailable


@pytest.fixture(autouse=True)
def runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own runtime directory."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "xdg"))
    return tmp_path / "xdg"


def write(path: Path, text: str) -> Path:
    """A TOML."""
    path.write_text(text)
    return path


def test_a_name_is_the_default_run_directory(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 8. Supervisor and clients must come to the same place."""
    location = discovery.locate("codesearch")
    assert location.run_dir == runtime_dir / "appbackplane" / "codesearch"
    assert location.supervisor == location.run_dir / "supervisor.sock" and not location.is_given
    monkeypatch.setenv("XDG_RUNTIME_DIR", "xdg")  # a relative path is none (XDG Base Directory Specification)
    assert discovery.locate("codesearch").run_dir.parent.name.startswith("appbackplane-")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert discovery.locate("codesearch").run_dir.parent.name.startswith("appbackplane-")


@pytest.mark.parametrize(
    "text",
    ["[system", "x = [1, 2", f"x = {'[' * 5_000}", f"x = {'{a = ' * 3_000}", f"{'.'.join('a' * 65)} = 1",
     f"x = [[-{1 << 1_024}]]",
     f"x = {'9' * 5_000}", f"x = 0x{'f' * 5_000}"],
)  # fmt: skip
def test_a_text_that_is_no_toml_is_one_kind_of_error(text: str, tmp_path: Path) -> None:
    """Python's parser raises three, and lets numbers pass that cannot be shown: each ended a supervisor that was to reload."""
    with pytest.raises(ValueError, match=r"\w"):
        discovery.tables_of(text)
    with pytest.raises(InvalidArgument, match="not TOML: "):
        discovery.locate(write(tmp_path / "broken.toml", text))


def test_a_toml_within_the_bounds_is_read() -> None:
    """All numbers of TOML, and 64 levels."""
    least, most = -(1 << 63), (1 << 63) - 1
    assert discovery.tables_of(f"x = [{least}, {most}]\n{'.'.join('a' * 64)} = 1")["x"] == [least, most]


def test_a_full_temporary_folder_moves_no_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own choice is another folder then, and each running system was "not running"."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "takes no file"))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert discovery.locate("shop").run_dir.parent.parent == tmp_path / "takes no file"


def test_a_name_is_a_name_even_if_a_folder_bears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would depend on where one happens to stand."""
    (tmp_path / "codesearch").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not discovery.locate("codesearch").is_given


def test_a_toml_leads_to_its_run_directory(tmp_path: Path, runtime_dir: Path) -> None:
    """By its name, or where it says, seen from its own folder."""
    plain = write(tmp_path / "plain.toml", '[system]\nname = "shop"\n[backplane.x]\nbroken = true')
    assert discovery.locate(plain) == discovery.Location(runtime_dir / "appbackplane" / "shop", "shop", plain)
    there = write(tmp_path / "there.toml", '[system]\nname = "shop"\nrun_dir = "run"')
    assert discovery.locate(str(there)) == discovery.Location(tmp_path / "run", "shop", there, is_given=True)
    absolute = write(tmp_path / "absolute.toml", f'[system]\nname = "shop"\nrun_dir = "{tmp_path}/elsewhere"')
    assert discovery.locate(absolute).run_dir == tmp_path / "elsewhere"
    at_home = write(tmp_path / "home.toml", '[system]\nname = "shop"\nrun_dir = "~/run"')
    assert discovery.locate(at_home).run_dir == Path("~/run").expanduser()


def test_a_path_is_a_run_directory(tmp_path: Path) -> None:
    """Whether it is there or not: what is missing is that the system runs."""
    assert discovery.locate(tmp_path).run_dir == tmp_path
    assert discovery.locate(f"{tmp_path}/none") == discovery.Location(tmp_path / "none", "none", is_given=True)
    assert discovery.locate(Path("relative")).run_dir == Path("relative")


@pytest.mark.parametrize("target", ["/", "//", "/tmp/.."])
def test_the_root_folder_is_no_run_directory(target: str) -> None:
    """Its log would lie beside it, which nothing does: `logs` ended in a bug of ours."""
    with pytest.raises(InvalidArgument, match="the root folder is no run directory"):
        discovery.locate(target)


BROKEN = {
    "not toml": "[system",
    "no system": "[backplane.x]",
    "no name": "[system]\nrole = 'primary'",
    "system of another kind": "system = 5",
    "a name of another kind": "[system]\nname = 5",
    "a name that is a path": "[system]\nname = '../x'",
    "the root folder": "[system]\nname = 'x'\nrun_dir = '/'",
    "a run_dir of another kind": "[system]\nname = 'x'\nrun_dir = 5",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_toml_is_named(name: str, tmp_path: Path) -> None:
    """One line that says which file."""
    path = write(tmp_path / "system.toml", BROKEN[name])
    with pytest.raises(InvalidArgument, match=r"system\.toml") as caught:
        discovery.locate(path)
    assert "\n" not in str(caught.value)


def test_a_toml_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    """The same for what is not even text."""
    (tmp_path / "system.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match=r"system\.toml"):
        discovery.locate(tmp_path / "system.toml")


def test_what_is_not_there_or_no_name_is_refused() -> None:
    """A typing error in a file's name is not a system that does not run."""
    with pytest.raises(NotFound, match=r"no such file: nowhere\.toml"):
        discovery.locate("nowhere.toml")
    for name in ("", "a b", "..", "-x"):
        with pytest.raises(InvalidArgument):
            discovery.locate(name)


def test_a_system_that_does_not_run_is_said_with_its_place_and_the_remedy(tmp_path: Path) -> None:
    """It is the first error that everybody meets."""
    error = discovery.locate(tmp_path / "run").not_running()
    assert isinstance(error, SystemNotRunning) and isinstance(error, Unavailable)
    assert str(tmp_path / "run") in str(error) and "appbackplane up SYSTEM.toml" in str(error)
    toml = write(tmp_path / "shop.toml", '[system]\nname = "shop"')
    assert f"appbackplane up {toml}" in str(discovery.locate(toml).not_running())


def test_paths_of_sockets_bear_the_generation() -> None:
    """TRAPS 5. What was meant for a dead process must not reach the next."""
    assert addressing.backplane_socket(Path("/run/x"), "query", 3) == Path("/run/x/query-3.sock")
    assert addressing.backplane_route("query", "statistics") == "backplane.query.statistics"
