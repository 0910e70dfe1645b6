"""Bad input: what each verb says to it, and with which exit code. Read by test_bad_input.py.

`TYPED` is a right use of each verb. `SITUATIONS` has every verb in every situation, so that a new verb is a line in each and
a missing one fails; `WORDS` are wrong words of one verb. `demo` runs, `idle` has never been up, `stale` was killed, and
`foreign` is another user's.
"""

from __future__ import annotations

from dataclasses import dataclass

DONE, FAILED, WRONG = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Said:
    """What is expected: the exit code, and the one line on standard error (a regular expression), without our name."""

    code: int
    line: str = ""
    #: Instead of the words of the situation.
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """What is wrong, and what each verb says."""

    #: Follow the words of TYPED.
    words: tuple[str, ...]
    said: dict[str, Said]
    stdout: str = "kept"
    is_stranger: bool = False


#: A right use of each verb, about a system that the situation names.
TYPED: dict[str, tuple[str, ...]] = {
    "up": ("up", "--detach"),
    "down": ("down",),
    "list": ("list",),
    "status": ("status",),
    "top": ("top", "--once"),
    "logs": ("logs",),
    "move": ("move", "primary"),
    "restart": ("restart", "index"),
    "reload": ("reload", "--dry-run"),
    "scale": ("scale", "index", "--threads", "1"),
    "why": ("why", "index.pid"),
    "requests": ("requests",),
    "call": ("call", "index.pid"),
    "publish": ("publish", "news"),
    "listen": ("listen", "beats.*", "--count", "1"),
    "routes": ("routes",),
    "things": ("things", "list"),
    "peers": ("peers",),
    "report": ("report",),
    "replay": ("replay", "index", "threads=2"),
    "pipeline": ("pipeline", "compact", "--to", "packed"),
    "check": ("check",),
    "doctor": ("doctor",),
    "new": ("new", "thing"),
    "keys": ("keys", "show"),
}
#: Those that ask a running system.
ASKS = (
    *(
        "down",
        "status",
        "top",
        "move",
        "restart",
        "reload",
        "scale",
        "why",
        "requests",
        "call",
        "publish",
        "listen",
        "routes",
        "things",
        "peers",
    ),
)
#: Those that read what a system has recorded, whether it runs or not; of those here none has.
READS = ("report", "replay", "pipeline")
#: Those that take a file, and those that know no system.
FILES, ALONE = ("up", "check"), ("list", "doctor", "new", "keys")


def each(asks: Said, **others: Said) -> dict[str, Said]:
    """The same for all that ask a running system; and for those that read, the same as `report`."""
    read = others.get("report", asks)
    return dict.fromkeys(ASKS, asks) | dict.fromkeys(READS, read) | {"list": Said(DONE, words=("list",))} | others


NOT_RUNNING = r"system '{0}' is not running: no supervisor listens in \S+ \(start it: appbackplane up SYSTEM\.toml\)"
NOT_RECORDED = (
    r"nothing is recorded of system '{0}' \(looked for in \S+/records\): a table \[record\] in its TOML switches it on"
)
#: They know no system, so that a right use of theirs ends well whatever the systems do; given a word too many, it does not.
KNOWS_NONE = {
    "list": Said(WRONG, r"Got unexpected extra argument \(x\) \(see appbackplane list --help\)", ("list", "x")),
    "doctor": Said(WRONG, r"Got unexpected extra argument \(x\) \(see appbackplane doctor --help\)", ("doctor", "x")),
    "new": Said(WRONG, "'Thing' cannot be the name of a project: expected small letters", ("new", "Thing")),
    "keys": Said(FAILED, r"no key pair in \S+/keys: make one \(appbackplane keys new\)", ("keys", "show")),
}
HELP = {verb: Said(DONE, words=(verb, "--help")) for verb in ("up", "down", "restart", "scale", *READS)}
#: It has no table [node].
NO_NODE = Said(FAILED, r"system 'demo' has no peers: add a table \[node\] to its TOML \(see docs/peers\.md\)")
#: Standard output fails while they print; what they do is done before.
NO_SPACE = Said(FAILED, "standard output cannot be written: No space left on device")

SITUATIONS = {
    "a name that is nearly right": Situation(
        ("-s", "dmeo"),
        each(
            Said(FAILED, r"system 'dmeo' is not running: no supervisor listens in \S+ \(did you mean 'demo'\?\)"),
            report=Said(FAILED, r"nothing is recorded of system 'dmeo' \(looked for in \S+\): did you mean 'demo'\?"),
            logs=Said(FAILED, r"no log of system 'dmeo' \(looked for in \S+\): did you mean 'demo'\?"),
            up=Said(WRONG, "dmeo.toml: cannot be read: No such file or directory", ("up", "dmeo.toml")),
            check=Said(WRONG, "dmeo.toml: cannot be read: No such file or directory", ("check", "dmeo.toml")),
            **KNOWS_NONE,
        ),
    ),
    "a system that is stopped": Situation(
        ("-s", "idle"),
        each(
            Said(FAILED, NOT_RUNNING.format("idle")),
            report=Said(FAILED, NOT_RECORDED.format("idle")),
            logs=Said(FAILED, r"no log of system 'idle' \(looked for in \S+\): it has never been up here"),
            up=Said(WRONG, "idle.toml: cannot be read: No such file", ("up", "idle.toml")),  # what it needs is its TOML
            check=Said(WRONG, "idle.toml: cannot be read: No such file", ("check", "idle.toml")),
            **KNOWS_NONE,
        ),
    ),
    "a run directory that a killed supervisor left": Situation(
        ("-s", "stale"),
        each(
            Said(FAILED, NOT_RUNNING.format("stale")),
            report=Said(FAILED, NOT_RECORDED.format("stale")),
            logs=Said(DONE),
            check=Said(DONE, words=("check", "stale.toml")),
            up=Said(DONE, words=("up", "--help")),  # that it comes up again is a test of its own
            **KNOWS_NONE,
        ),
    ),
    "no permission": Situation(
        ("-s", "demo"),
        each(
            Said(FAILED, r"system 'demo': no permission to reach its supervisor in \S+, which is for the user alone"),
            report=Said(
                FAILED, r"system 'demo': no permission to read its recordings in \S+: only the user who started it may"
            ),
            logs=Said(FAILED, r"log folder \S+ cannot be read: Permission denied"),
            up=Said(WRONG, "demo.toml: cannot be read: Permission denied", ("up", "demo.toml")),
            check=Said(WRONG, "demo.toml: cannot be read: Permission denied", ("check", "demo.toml")),
            doctor=Said(
                FAILED, words=("doctor",)
            ),  # it says what is missing on standard output: that is what it is for
            new=Said(FAILED, "cannot be written: Permission denied", ("new", "thing")),
            keys=Said(FAILED, r"\S+/keys cannot be made: Permission denied", ("keys", "new")),
        ),
        is_stranger=True,
    ),
    "a supervisor of another user": Situation(
        ("-s", "foreign"),
        each(
            Said(FAILED, r"foreign/supervisor\.sock is served by another user \(uid 65534\): not trusted"),
            report=Said(FAILED, NOT_RECORDED.format("foreign")),
            logs=Said(FAILED, "no log of system 'foreign'"),
            up=Said(FAILED, r"run directory \S+ is not a folder of yours", ("up", "foreign.toml")),
            check=Said(FAILED, r"run directory \S+ is not a folder of yours", ("check", "foreign.toml")),
            **KNOWS_NONE,
        ),
    ),
    "a folder instead of a file": Situation(
        ("-s", "folder.toml"),
        each(
            Said(WRONG, "folder.toml: cannot be read: Is a directory"),
            report=Said(
                FAILED, r"folder.toml: nothing is recorded here; \[record\] in the system's file switches it on"
            ),
            logs=Said(WRONG, "folder.toml: cannot be read: Is a directory"),
            up=Said(WRONG, "folder.toml: cannot be read: Is a directory", ("up", "folder.toml")),
            check=Said(WRONG, "folder.toml: cannot be read: Is a directory", ("check", "folder.toml")),
            doctor=KNOWS_NONE["doctor"],
            new=Said(FAILED, "demo_files is there already, and not an empty folder", ("new", "demo_files")),
            keys=Said(FAILED, "demo.py is not a folder, or a link to one", ("keys", "show", "--folder", "demo.py")),
        ),
    ),
    "a file that is no TOML": Situation(
        ("-s", "broken.toml"),
        each(
            Said(WRONG, "broken.toml: not TOML: Expected ']'"),
            logs=Said(WRONG, "broken.toml: not TOML: Expected ']'"),
            up=Said(WRONG, "broken.toml: not TOML: Expected ']'", ("up", "broken.toml")),
            check=Said(WRONG, "broken.toml: not TOML: Expected ']'", ("check", "broken.toml")),
            **KNOWS_NONE,
        ),
    ),
    "a file that is not UTF-8": Situation(
        ("-s", "bytes.toml"),
        each(
            Said(WRONG, "bytes.toml: cannot be read: not UTF-8"),
            logs=Said(WRONG, "bytes.toml: cannot be read: not UTF-8"),
            up=Said(WRONG, "bytes.toml: cannot be read: not UTF-8", ("up", "bytes.toml")),
            check=Said(WRONG, "bytes.toml: cannot be read: not UTF-8", ("check", "bytes.toml")),
            **KNOWS_NONE,
        ),
    ),
    "a NUL in a path": Situation(
        ("-s", "nul.toml"),
        each(
            Said(WRONG, r"nul.toml: \[system\] run_dir: expected a path, got 'a\\x00b'"),
            logs=Said(WRONG, r"nul.toml: \[system\] run_dir: expected a path"),
            up=Said(WRONG, "nul.toml: system.run_dir: expected a path", ("up", "nul.toml")),
            check=Said(WRONG, "nul.toml: system.run_dir: expected a path", ("check", "nul.toml")),
            **KNOWS_NONE,
        ),
    ),
    "a name that is not UTF-8": Situation(
        ("-s", "\udcff"),
        each(
            Said(WRONG, r"not a system's name, run directory or TOML: '\\udcff'"),
            logs=Said(WRONG, r"not a system's name, run directory or TOML: '\\udcff'"),
            up=Said(WRONG, r"\\udcff: cannot be read: No such file", ("up", "\udcff")),
            check=Said(WRONG, r"\\udcff: cannot be read: No such file", ("check", "\udcff")),
            doctor=Said(WRONG, "Got unexpected extra argument", ("doctor", "\udcff")),
            new=Said(WRONG, r"'\\udcff' cannot be the name of a project", ("new", "\udcff")),
            keys=Said(FAILED, r"no key of that name here: '\\udcff'", ("keys", "revoke", "\udcff")),
        ),
    ),
    "a name that moves the cursor": Situation(
        ("-s", "./a\x1b[2J\nb/"),
        each(
            Said(FAILED, r"no supervisor listens in a\\x1b\[2J\\nb \("),
            report=Said(FAILED, r"a\\x1b\[2J\\nb: there is no such folder"),
            logs=Said(FAILED, r"a\\x1b\[2J\\nb"),
            up=Said(WRONG, r"a\\x1b\[2J\\nb: cannot be read: No such file", ("up", "a\x1b[2J\nb")),
            check=Said(WRONG, r"a\\x1b\[2J\\nb: cannot be read: No such file", ("check", "a\x1b[2J\nb")),
            doctor=Said(WRONG, r"\\x1b", ("doctor", "\x1b")),
            new=Said(WRONG, r"\\x1b", ("new", "\x1b")),
            keys=Said(FAILED, r"no key of that name here: '\\x1b'", ("keys", "revoke", "\x1b")),
        ),
    ),
    "a path that is too long": Situation(
        ("-s", "x" * 5_000 + "/"),
        each(
            Said(WRONG, "x/: File name too long"),
            logs=Said(WRONG, "x/: File name too long"),
            up=Said(WRONG, "x: cannot be read: File name too long", ("up", "x" * 5_000)),
            check=Said(WRONG, "x: cannot be read: File name too long", ("check", "x" * 5_000)),
            doctor=KNOWS_NONE["doctor"],
            new=Said(FAILED, "x cannot be read: File name too long", ("new", "x" * 5_000)),
            keys=Said(FAILED, "x cannot be opened: File name too long", ("keys", "show", "--folder", "x" * 5_000)),
        ),
    ),
    "an empty name": Situation(
        ("-s", ""),
        each(
            Said(WRONG, "not a system's name, run directory or TOML: ''"),
            logs=Said(WRONG, "not a system's name, run directory or TOML: ''"),
            up=Said(WRONG, "which system\\? The name of its TOML is empty", ("up", "")),
            check=Said(WRONG, "which system\\? The name of its TOML is empty", ("check", "")),
            doctor=Said(WRONG, "Got unexpected extra argument", ("doctor", "")),
            new=Said(WRONG, "'' cannot be the name of a project", ("new", "")),
            keys=Said(FAILED, "no key of that name here: ''", ("keys", "revoke", "")),
        ),
    ),
    "an option that is none": Situation(
        ("--colour",),
        dict.fromkeys(TYPED, Said(WRONG, r"No such option '?--colour'?.* \(see appbackplane [\w ]+ --help\)")),
    ),
    "nobody who reads on": Situation(
        ("-s", "demo"),
        each(
            Said(DONE),
            peers=NO_NODE,
            **HELP,
            logs=Said(DONE),
            check=Said(DONE, words=("check", "demo.toml")),
            doctor=Said(DONE, words=("doctor", "--help")),
            new=Said(DONE, words=("new", "unread")),
            keys=Said(DONE, words=("keys", "new", "--folder", "keys/unread")),
        )
        | HELP,
        stdout="broken",
    ),
    "a standard output that is closed": Situation(
        ("-s", "demo"),
        each(
            Said(DONE),
            peers=NO_NODE,
            **HELP,
            logs=Said(DONE),
            check=Said(DONE, words=("check", "demo.toml")),
            doctor=Said(DONE, words=("doctor", "--help")),
            new=Said(DONE, words=("new", "unseen")),
            keys=Said(DONE, words=("keys", "new", "--folder", "keys/unseen")),
        )
        | HELP,
        stdout="closed",
    ),
    "a disk that is full": Situation(
        ("-s", "demo"),
        each(
            NO_SPACE,
            list=Said(FAILED, NO_SPACE.line, ("list",)),
            peers=NO_NODE,
            logs=NO_SPACE,
            check=Said(FAILED, NO_SPACE.line, ("check", "demo.toml")),
            doctor=Said(FAILED, NO_SPACE.line, ("doctor", "--help")),
            new=Said(FAILED, NO_SPACE.line, ("new", "unsaid")),
            keys=Said(FAILED, NO_SPACE.line, ("keys", "new", "--folder", "keys/unsaid")),
            up=Said(FAILED, NO_SPACE.line, ("up", "--help")),
        )
        | {
            "down": Said(FAILED, NO_SPACE.line, ("down", "--help")),
            "restart": Said(FAILED, NO_SPACE.line, ("restart", "--help")),
            "scale": Said(FAILED, NO_SPACE.line, ("scale", "--help")),
            "report": Said(FAILED, NO_SPACE.line, ("report", "--help")),
            "replay": Said(FAILED, NO_SPACE.line, ("replay", "--help")),
            "pipeline": Said(FAILED, NO_SPACE.line, ("pipeline", "compact", "--help")),
            "publish": Said(FAILED, NO_SPACE.line, ("publish", "news", "--json", "-s", "demo")),
        },
        stdout="full",
    ),
}

#: A public key of nobody's.
KEY = f"curve:{'B' * 42}A"
NOT_FOUND_KEY = "index/index has no object with key 'nobody'"
#: Words of one verb, about the system that runs.
WORDS: dict[str, Said] = {
    "statsu": Said(WRONG, r"no command 'statsu' \(did you mean 'status'\?\) \(see appbackplane --help\)"),
    "--colour": Said(WRONG, r"No such option '?--colour'? \(see appbackplane --help\)"),
    "up demo.toml --detach": Said(FAILED, r"system 'demo' is already running, pid \d+ \(run directory \S+, since .*\)"),
    "up demo.toml": Said(FAILED, r"system 'demo' is already running, pid \d+ \(run directory \S+, since .*\)"),
    "up open.toml": Said(FAILED, r"run directory \S+ is open to others: chmod 700 \S+"),
    "up open.toml --detach": Said(FAILED, r"run directory \S+ is open to others: chmod 700 \S+"),
    "up demo.toml --ready-fd x": Said(WRONG, "'x' is not a valid integer"),
    "status extra": Said(WRONG, r"Got unexpected extra argument \(extra\)"),
    "peers extra": Said(WRONG, r"Got unexpected extra argument \(extra\)"),
    "routes extra": Said(WRONG, r"Got unexpected extra argument \(extra\)"),
    "down --timeout nan": Said(WRONG, "nan is no time"),
    "down --timeout x": Said(WRONG, "'x' is not a valid float"),
    "down --timeout 1e400": Said(WRONG, "inf is not in the range 0<=x<=86400"),
    "down --timeout -1": Said(WRONG, "-1.0 is not in the range"),
    "requests index": Said(FAILED, "no request kernel 'index' in system 'demo'$"),
    "requests index status --timeout 0": Said(WRONG, "0.0 is not in the range"),
    "move": Said(WRONG, "Missing argument 'STATE'. Choose from: primary, secondary, down"),
    "move primry": Said(WRONG, "'primry' is not one of 'primary', 'secondary', 'down'"),
    "move primary indx": Said(FAILED, r"no component or backplane 'indx' \(did you mean 'index'\?\)"),
    "move primary ''": Said(FAILED, r"no component or backplane '' \(known: index, query\)"),
    "move primary --timeout nan": Said(WRONG, "nan is no time"),
    "move primary --timeout 1e9": Said(WRONG, "is not in the range 0<x<=86400"),
    "restart": Said(WRONG, r"Missing argument 'BACKPLANE\.\.\.'"),
    "restart index --timeout nan": Said(WRONG, "nan is no time"),
    "restart indx": Said(FAILED, "no backplane 'indx'"),
    "restart ''": Said(FAILED, "no backplane ''"),
    "reload --timeout nan": Said(WRONG, "nan is no time"),
    "reload nothere.toml": Said(WRONG, "nothere.toml: cannot be read: No such file or directory"),
    "scale indx --threads 2": Said(FAILED, "no backplane 'indx' \\(did you mean 'index'\\?\\)"),
    "scale index": Said(WRONG, "give --threads or --replicas, or both"),
    "scale index --replicas 0": Said(WRONG, "backplane.index.replicas: expected a whole number"),
    "scale index --replicas 2": Said(
        FAILED, "index is one process, and keeps its name: set replicas = 2 in .*, and reload"
    ),
    "scale index --threads 0": Said(WRONG, "backplane.index.threads: expected a whole number"),
    "scale index --threads x": Said(WRONG, "'x' is not a valid integer"),
    "why index.pdi": Said(FAILED, r"'index.pdi' is no object .*\(did you mean 'index.pid'\?\)"),
    "why indx/index": Said(FAILED, r"no backplane 'indx' \(did you mean 'index'\?\)"),
    "why ''": Said(FAILED, "'' is no object"),
    "call index.pdi": Said(FAILED, r"no route 'index.pdi' \(did you mean 'index.pid'\?\)"),
    "call ''": Said(FAILED, "a route is a string such as 'query.search', got ''"),
    "call index": Said(FAILED, "no route 'index'"),
    "call backplane.indx.statistics": Said(FAILED, "no route 'backplane.indx.statistics'"),
    "call index.pid --key nobody": Said(FAILED, NOT_FOUND_KEY),
    "call index.echo text": Said(WRONG, "'text': arguments are given as key=value"),
    "call index.echo txt=x": Said(FAILED, "index.echo: unknown argument 'txt'"),
    "call index.echo text=\udcff": Said(
        FAILED, "index.echo: the value of 'text' cannot be serialised: .* surrogates not allowed"
    ),
    f"call index.echo text={'9' * 30}": Said(
        FAILED, "index.echo: the value of 'text' cannot be serialised: Integer value out of range"
    ),
    f"call index.echo text={'[' * 50_000}": Said(WRONG, "nested too deep"),
    "call index.echo text='\"\\u0000\"'": Said(DONE),
    "call index.pid --stream-in rows": Said(FAILED, "index.pid: unknown argument 'rows'"),
    "call index.pid --stream-in rows --stream": Said(WRONG, "--stream-in is for a call with one result"),
    "call index.pid --stream-in rows rows=1": Said(WRONG, "'rows': expected the name of an argument that is not given"),
    "call index.pid --stream-in x=1": Said(WRONG, "'x=1': expected the name of an argument"),
    "call index.pid --timeout nan": Said(WRONG, "nan is no time"),
    "call index.pid --timeout 0": Said(WRONG, "0.0 is not in the range 0<x<=604800"),
    "call index.pid --timeout x": Said(WRONG, "'x' is not a valid float"),
    f"call index.pid --priority {'9' * 30}": Said(WRONG, "9 is not in the range 0<=x<=255"),
    "call index.pid --priority 200": Said(FAILED, r"index.pid: priority 200, expected 0\.\.7"),
    "publish ''": Said(FAILED, "got ''"),
    "publish files.*": Said(FAILED, r"a topic is words joined by dots, such as 'files.changed', got 'files\.\*'"),
    "publish news x": Said(WRONG, "'x': arguments are given as key=value"),
    "listen ''": Said(FAILED, r"subscribe to a topic such as 'files.changed', or to 'files\.\*', got ''"),
    "listen *x": Said(FAILED, r"subscribe to a topic such as .* got '\*x'"),
    "listen \udcff": Said(FAILED, "the value of 'topic' cannot be serialised: .* surrogates not allowed"),
    "listen beats.* --count 0": Said(WRONG, "0 is not in the range x>=1"),
    "logs --backplane indx": Said(FAILED, r"no backplane 'indx' has logged anything here \(did you mean 'index'\?\)"),
    "logs --backplane ''": Said(FAILED, "no backplane '' has logged anything here"),
    "logs --component indx": Said(FAILED, "no component 'indx' has logged anything here"),
    "logs --level loud": Said(WRONG, "'loud' is not one of 'debug', 'info', 'warning', 'error', 'critical'"),
    "logs --since yesterday": Said(WRONG, '--since: expected a time such as "10m", "2h"'),
    "logs --since ''": Said(WRONG, "--since: expected a time"),
    "logs --since 1e5s": Said(WRONG, "--since: expected a time"),
    f"logs --since {'9' * 400}d": Said(DONE),
    f"logs --lines {'9' * 30}": Said(DONE),
    "logs --lines -1": Said(WRONG, "-1 is not in the range x>=0"),
    "logs --lines x": Said(WRONG, "'x' is not a valid integer"),
    "logs idle": Said(WRONG, "which system\\? It is named twice: 'idle' and 'demo'"),
    "top idle --once": Said(WRONG, "which system\\? It is named twice: 'idle' and 'demo'"),
    "top --once --backplane indx": Said(FAILED, r"no backplane 'indx' in 'demo' \(did you mean 'index'\?\)"),
    "top --once --backplane ''": Said(FAILED, "no backplane '' in 'demo': one of query, index"),
    "top --once --sort x": Said(WRONG, "'x' is not one of 'file', 'name'"),
    "top --once --interval nan": Said(WRONG, "nan is no time"),
    "top --once --interval inf": Said(WRONG, "inf is not in the range"),
    "top --once --interval 0": Said(WRONG, "0.0 is not in the range"),
    "report idle": Said(WRONG, "which system\\? It is named twice: 'idle' and 'demo'"),
    "report": Said(FAILED, NOT_RECORDED.format("demo")),
    "report --since yesterday": Said(WRONG, '--since: expected a time such as "10m", "2h"'),
    f"report --since {'9' * 400}d": Said(FAILED, NOT_RECORDED.format("demo")),
    "report --html ''": Said(WRONG, "--html: expected the name of a file, got ''"),
    "replay index": Said(WRONG, r"Missing argument 'KEY=VALUE\.\.\.'"),
    "replay index threads=2": Said(FAILED, NOT_RECORDED.format("demo")),
    "replay index threads=two": Said(WRONG, "threads: expected a whole number"),
    "replay index --since yesterday threads=2": Said(WRONG, '--since: expected a time such as "10m", "2h"'),
    "pipeline compct": Said(WRONG, r"No such command 'compct'.*\(see appbackplane pipeline --help\)"),
    "pipeline compact": Said(WRONG, "Missing option '--to'"),
    "pipeline compact --to ''": Said(WRONG, "--to: expected the name of a folder, got ''"),
    "pipeline stream --window x": Said(WRONG, "'--window': 'x': expected a duration above 0"),
    "pipeline stream --trigger 0s": Said(WRONG, "'--trigger': '0s': expected a duration above 0"),
    "pipeline stream": Said(FAILED, NOT_RECORDED.format("demo")),
    "check demo.toml extra": Said(WRONG, r"Got unexpected extra argument \(extra\)"),
    "new json": Said(WRONG, "'json' cannot be the name of a project: it would hide the package of that name"),
    "new ../x": Said(WRONG, "'../x' cannot be the name of a project"),
    "keys shwo": Said(WRONG, r"No such command 'shwo'.*\(see appbackplane keys --help\)"),
    "keys show extra": Said(WRONG, r"Got unexpected extra argument \(extra\)"),
    "keys show --folder ''": Said(WRONG, "--folder: expected the name of a folder, got ''"),
    "keys trust berlin": Said(WRONG, "Missing argument 'KEY'"),
    "keys trust berlin x": Said(WRONG, r"not a public key: 'x'\.\.\. \(1 characters\); expected 'curve:' and 43 more"),
    f"keys trust a/b {KEY}": Said(WRONG, "not a name: 'a/b'; expected letters, digits, - and _"),
    f"keys trust berlin {KEY} --route 'a b'": Said(WRONG, "not a pattern: 'a b'; expected words joined by dots"),
    f"keys trust berlin {KEY} --route none --route a.b": Said(WRONG, "'none' stands alone"),
    f"keys trust berlin {KEY} --offer exported": Said(WRONG, "not an offer: 'exported'; expected 'index.stats', "),
    "keys revoke nobody": Said(FAILED, "no key of that name here: 'nobody'"),
    "keys revoke curve:half": Said(WRONG, "not a public key"),
}
#: Take no `-s`.
WITHOUT_SYSTEM = ("statsu", "--colour", "up", "list", "check", "new", "doctor", "keys")
