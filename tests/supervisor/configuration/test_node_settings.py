"""[node] and [peers] of the TOML: checked whole, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.configuration.config import Config, ConfigError, parse
from appbackplane.supervisor.configuration.node_settings import SEEDS_MAX, NodeSettings
from appbackplane.supervisor.direction.reconfiguration import plan, shown
from appbackplane.supervisor.processes.spawn import process_config
from appbackplane.transport.security.keyring import OWN, RING, Keyring
from appbackplane.transport.security.ring import Holder

FILE = Path("/etc/demo/demo.toml")
GOOD = '[system]\nname = "demo"\n[backplane.main]\ncomponents = ["demo:Main"]\n'
NODE = '[node]\nname = "b"\nlisten = "tcp://10.0.0.2:7400"\n'
PEERS = '[peers]\n"tcp://10.0.0.1:7400" = "a"\n'
LOCAL = '[node]\nname = "b"\nlisten = "tcp://localhost:7400"\n[peers]\n"tcp://127.0.0.1:7401" = "a"\n'


def of(lines: str) -> Config:
    """A whole file with these lines at its end."""
    return parse(GOOD + lines, FILE)


def told(config: Config) -> dict[str, object]:
    """What the component of the node is constructed with, as its process hears it."""
    return process_config(config, "node").settings["Node"]


# What it says becomes a backplane


def test_a_node_is_a_backplane_of_its_own() -> None:
    """All that holds for processes holds for it; and the directory is told which one it is."""
    config = of(NODE + PEERS)
    assert (config.node, config.carrier) == (NodeSettings("b", "tcp://10.0.0.2:7400"), "node")
    assert list(config.backplane) == ["main", "node"]
    node = config.backplane["node"]
    assert node.components == ("appbackplane.runtime.peers:Node",)
    assert node.max_latency_ns == config.backplane["main"].max_latency_ns
    peers = {"tcp://10.0.0.1:7400": "a"}
    assert told(config) == {"name": "b", "listen": "tcp://10.0.0.2:7400", "advertise": "", "peers": peers, "keys": ""}
    assert config.peers == peers


def test_without_a_node_nothing_is_added() -> None:
    """A backplane of the name is then one like any other."""
    config = parse(GOOD.replace("main", "node"), FILE)
    assert (config.node, config.carrier, list(config.backplane)) == (None, "", ["node"])
    assert config.backplane["node"].components == ("demo:Main",)


def test_addresses_are_told_as_they_are_used() -> None:
    """A name that means this host is looked up by nobody."""
    assert told(of(LOCAL)) == {
        "name": "b",
        "listen": "tcp://127.0.0.1:7400",
        "advertise": "",
        "peers": {"tcp://127.0.0.1:7401": "a"},
        "keys": "",
    }


@pytest.mark.parametrize(("said", "meant"), [("k", "/etc/demo/k"), ("/srv/k", "/srv/k"), ("~/k", "/srv/ada/k")])
def test_a_folder_of_keys_is_relative_to_the_file(said: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads it was started elsewhere."""
    monkeypatch.setenv("HOME", "/srv/ada")
    assert told(of(NODE.replace("[node]", f'[node]\nkeys = "{said}"') + PEERS))["keys"] == meant


def test_the_first_node_of_a_system_has_nobody_to_dial() -> None:
    """It is dialled by the second."""
    assert told(of(NODE))["peers"] == {}


def test_others_may_reach_it_by_another_address_than_it_listens_at() -> None:
    """Behind a forwarded port nobody can dial what it listens at; and then that may be all addresses of the host."""
    behind = NODE.replace("10.0.0.2", "0.0.0.0") + 'advertise = "tcp://192.0.2.1:80"\n'
    assert (told(of(behind))["listen"], told(of(behind))["advertise"]) == ("tcp://0.0.0.0:7400", "tcp://192.0.2.1:80")


# What is wrong

DIAL = NODE + "[peers]\n"
NO_NAME = "expected a lower-case letter and at most 62 more letters, digits, - and _"
UNNAMED = 'expected the name of its key, as in `appbackplane keys trust NAME KEY`, got ""'
WRONG = {
    "no name": (
        NODE.replace('name = "b"\n', ""),
        "node.name: missing: expected a string",
    ),
    "a name with a slash": (NODE.replace('"b"', '"b/c"'), f"node.name: {NO_NAME}, got 'b/c'"),
    "a name in capitals": (NODE.replace('"b"', '"B"'), f"node.name: {NO_NAME}, got 'B'"),
    "a name with a dot": (NODE.replace('"b"', '"b.c"'), f"node.name: {NO_NAME}, got 'b.c'"),
    "no name at all": (NODE.replace('"b"', '""'), f"node.name: {NO_NAME}, got ''"),
    "a name beyond all bounds": (NODE.replace('"b"', f'"{"b" * 64}"'), f"node.name: {NO_NAME}, got '{'b' * 56}..."),
    "a number for a name": (NODE.replace('"b"', "7"), "node.name: expected a string, got 7"),
    "a mistyped key": (NODE + 'lisen = ""\n', "node.lisen: unknown key (did you mean 'listen'?)"),
    "a node that is no table": ("node = 3\n" + GOOD, "node: expected a table, got 3"),
    "nobody can dial it": (
        NODE.replace('listen = "tcp://10.0.0.2:7400"\n', ""),
        "node.listen: missing: expected a string",
    ),
    "an address without a port": (
        NODE.replace(":7400", ""),
        "node.listen: 'tcp://10.0.0.2': expected tcp://HOST:PORT, such as tcp://127.0.0.1:7000",
    ),
    "a name to listen at": (
        NODE.replace("10.0.0.2", "berlin"),
        "node.listen: 'tcp://berlin:7400': expected tcp:// and a numeric host or *, such as tcp://127.0.0.1:7000",
    ),
    **{
        f"to listen at {host}": (
            NODE.replace("10.0.0.2", host),
            "node.listen: expected a specific address, not a wildcard: peers are given this address (or set advertise), got "
            f"'tcp://{host}:7400'",
        )
        for host in ("*", "0.0.0.0", "[::]")
    },
    "a name advertised": (
        NODE + 'advertise = "tcp://berlin:7400"\n',
        "node.advertise: 'tcp://berlin:7400': expected tcp:// and a numeric host, such as tcp://127.0.0.1:7000",
    ),
    "keys nowhere": (NODE + 'keys = ""\n', "node.keys: expected a path, got ''"),
    "keys of nobody": (
        NODE + 'keys = "~nobody-of-that-name/k"\n',
        "node.keys: no home folder of '~nobody-of-that-name'",
    ),
    "peers without a node": (
        PEERS,
        'peers: expected a table [node] with name = "..." beside it: a node that connects gives its name',
    ),
    "peers that are no table": (
        'peers = ["tcp://10.0.0.1:7400"]\n' + GOOD + NODE,
        'peers: expected a table of addresses, "tcp://10.0.0.1:7400" = "a", got [\'tcp://10.0.0.1:7400\']',
    ),
    "a peer without a port": (
        DIAL + '"tcp://10.0.0.1" = "a"',
        "peers: 'tcp://10.0.0.1': expected tcp://HOST:PORT, such as tcp://127.0.0.1:7000",
    ),
    "a peer at any port": (DIAL + '"tcp://10.0.0.1:0" = "a"', "peers: 'tcp://10.0.0.1:0': port 0 is for who listens"),
    "a peer twice": (
        DIAL + '"tcp://127.0.0.1:7400" = "a"\n"tcp://localhost:7400" = "b"',
        'peers."tcp://localhost:7400": it is listed twice',
    ),
    "a number for a key": (
        DIAL + '"tcp://10.0.0.1:7400" = 7',
        'peers."tcp://10.0.0.1:7400": expected the name of its key, of letters, digits, - and _, got 7',
    ),
    "a key itself": (
        DIAL + '"tcp://10.0.0.1:7400" = "curve:x"',
        "peers.\"tcp://10.0.0.1:7400\": expected the name of its key, of letters, digits, - and _, got 'curve:x'",
    ),
    "more peers than there can be": (
        DIAL + "".join(f'"tcp://10.0.0.1:{port}" = "a"\n' for port in range(1, SEEDS_MAX + 2)),
        f"peers: {SEEDS_MAX + 1} addresses, expected at most {SEEDS_MAX}: a few are enough to find the others",
    ),
    "another host without a key": (
        DIAL + '"tcp://10.0.0.1:7400" = ""',
        f'peers."tcp://10.0.0.1:7400": {UNNAMED}',
    ),
    "a peer on this host without a key": (
        LOCAL.replace('"a"', '""'),
        f'peers."tcp://127.0.0.1:7401": {UNNAMED}',
    ),
    "another backplane of the name": (
        '[backplane.node]\ncomponents = ["demo:Other"]\n' + NODE,
        "backplane.node: the name is that of the process that [node] adds: choose another",
    ),
    "replicas of a backplane of the name": (
        '[backplane.node]\ncomponents = ["demo:Other"]\nreplicas = 2\n' + NODE,
        "backplane.node: the name is that of the process that [node] adds: choose another",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(case: str) -> None:
    """Who joins a cluster under a wrong name, or in the clear, disturbs others than himself."""
    text, said = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        parse(text if GOOD in text else GOOD + text, FILE)
    (problem,) = caught.value.problems
    assert problem.startswith(said), problem


def test_all_of_it_is_said_at_once() -> None:
    """One error a run is ten runs."""
    with pytest.raises(ConfigError) as caught:
        of('[node]\nname = "B"\nlisten = "x"\nkeys = ""\nport = 3\n[peers]\ny = ""\n')
    assert len(caught.value.problems) == 5


# Another node than before


def test_what_changes_takes_a_restart_of_the_node_alone_and_is_named_as_in_the_file() -> None:
    """Who reads the plan finds the line that he has changed; the others go on."""
    old = of(NODE + PEERS)
    new = of(NODE.replace("10.0.0.2", "10.0.0.3") + PEERS.replace('"a"', '"c"') + '"tcp://10.0.0.9:7400" = "d"\n')
    steps = plan(old, new)
    assert [(change.name, shown(change.old), shown(change.new), change.takes.value) for change in steps.changes] == [
        ("node.listen", '"tcp://10.0.0.2:7400"', '"tcp://10.0.0.3:7400"', "restart"),
        ("peers.tcp://10.0.0.1:7400", '"a"', '"c"', "restart"),
        ("peers.tcp://10.0.0.9:7400", "none", '"d"', "restart"),
    ]
    assert steps.restarted == ("node",)


def test_a_node_comes_and_goes_with_its_table() -> None:
    """As any backplane."""
    assert plan(of(""), of(NODE)).added == ("node",)
    assert plan(of(NODE), of("")).removed == ("node",)
    assert not plan(of(NODE), of(NODE))


# Whether the keys are there


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The TOML's; this user has no keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path


def checked(lines: str, *words: str) -> Result:
    """A command about a system whose components cannot be imported, so that it ends there at the latest."""
    Path("demo.toml").write_text(GOOD + lines)
    return CliRunner().invoke(main, [*(words or ("check",)), "demo.toml"])


@pytest.mark.systems
@pytest.mark.parametrize("words", [("check",), ("up",), ("up", "--detach")])
def test_what_others_reach_takes_keys(folder: Path, words: tuple[str, ...]) -> None:
    """Before anything is started: else the node would be restarted until it was given up."""
    keys = folder / "config/appbackplane/keys"
    said = checked(NODE, *words)
    assert said.exit_code == 2
    assert f"node: no key pair in {keys}: make one (appbackplane keys new)" in said.stderr
    said = checked(LOCAL.replace("[peers]", 'keys = "k"\n[peers]'), *words)
    assert f"node.keys: no key pair in {folder}/k: make one (appbackplane keys new), with --folder" in said.stderr


@pytest.mark.systems
def test_keys_that_others_can_read_are_refused(folder: Path) -> None:
    """As everywhere, and with the same words."""
    keyring = Keyring(folder / "k")
    keyring.make_own()
    (folder / "k" / OWN).chmod(0o644)
    said = checked(NODE + 'keys = "k"\n')
    assert said.exit_code == 2 and f"node.keys: {folder}/k/{OWN} is open to others: chmod 600" in said.stderr


@pytest.mark.systems
def test_a_key_of_which_nobody_has_heard_is_mistyped(folder: Path) -> None:
    """It would never be dialled. One that was revoked is known: the others must come up without it."""
    keyring, other = Keyring(folder / "k"), Keyring(folder / "other")
    keyring.make_own()
    lines = NODE + 'keys = "k"\n' + PEERS
    said = checked(lines)
    assert "peers.\"tcp://10.0.0.1:7400\": no key of that name here: 'a': trust it" in said.stderr
    assert "(appbackplane keys trust a KEY)" in said.stderr
    key = other.make_own()
    keyring.change(lambda ring: ring.trusting(Holder("a", key)))
    assert "tcp://" not in checked(lines).stderr
    keyring.change(lambda ring: ring.revoking("a"))
    assert "tcp://" not in checked(lines).stderr
    (folder / "k" / RING).write_text("trsut a curve:x\n")
    assert f"peers: {folder}/k/{RING}, line 1: expected 'trust NAME KEY'" in checked(lines).stderr
