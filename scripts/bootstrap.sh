# shellcheck shell=bash
# The environment that every script here needs: `.venv` in the root, with this package installed editable in it.
#
# Sourced, not run:   . "$(dirname "${BASH_SOURCE[0]}")/bootstrap.sh"; ensure_environment "test,lint"
# It sets ROOT and PY (the environment's python). PYTHON=/path/to/python chooses the interpreter it is made with.
# `ensure_compiled` beside it: the package as users install it, compiled (docs/decisions/compiled.md), in .venv/compiled.
# A stamp in .venv says for which pyproject.toml and which extras it was installed, and where: when nothing of that has
# changed this costs 20 ms, and what `scripts/test` installed serves `scripts/run` as well.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
PY="$ROOT/.venv/bin/python"
STAMP="$ROOT/.venv/installed"
COMPILED="$ROOT/.venv/compiled"
CACHE="${XDG_CACHE_HOME:-${HOME:-$ROOT/.venv}/.cache}/appbackplane/compiled"
PACKAGES=(transport runtime supervisor spark)
#: The answer of `ensure_compiled` where nothing can be compiled here, or nothing is to be; it has said why.
INTERPRETED=3

# Without bytecode every process that a test starts compiles all it imports: half a second instead of a quarter. Where the
# user wants none beside the sources, it lies in .venv.
if [[ -n "${PYTHONDONTWRITEBYTECODE:-}" ]]; then
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPYCACHEPREFIX="$ROOT/.venv/bytecode"
fi

say() { printf 'appbackplane: %s\n' "$*" >&2; }
give_up() { say "$*"; exit 1; }

# Make sure that .venv holds the package with at least these extras ("" = the package alone).
ensure_environment() {
    local wanted="$1" lock
    exec {lock}<"$ROOT"  # two scripts started together: the second waits, then finds all in place
    command -v flock >/dev/null && flock "$lock"
    if ! is_installed "$wanted"; then
        has_working_venv || make_venv
        install_package "$wanted"
    fi
    exec {lock}<&-  # not inherited by what the script starts
}

is_installed() {
    has_working_venv && [[ -f "$STAMP" ]] || return 1
    [[ "$(sed -n 1p "$STAMP")" == "$(fingerprint)" ]] || return 1
    local extra have=",$(sed -n 2p "$STAMP"),"
    for extra in ${1//,/ }; do
        [[ "$have" == *",$extra,"* ]] || return 1
    done
}

# A folder that was moved has a .venv that points elsewhere, so the place counts too.
fingerprint() { echo "$(cksum <"$ROOT/pyproject.toml") $ROOT"; }

has_working_venv() {
    [[ -x "$PY" && -x "$ROOT/.venv/bin/pip" ]] || return 1
    # In the first line, or in the second where the path has a blank, which no `#!` line can have.
    [[ "$(head -n 2 "$ROOT/.venv/bin/pip")" == *"$ROOT/.venv/bin/"* ]] || return 1
    local version
    version="$("$PY" -c "$PRINT_VERSION" 2>/dev/null)" || return 1
    [[ -z "${PYTHON:-}" || "$("$PYTHON" -c "$PRINT_VERSION" 2>/dev/null)" == "$version" ]]
}

PRINT_VERSION='import sys; print("%d.%d" % sys.version_info[:2])'

is_read_only() { [[ ! -w "$ROOT" ]]; }

make_venv() {
    local python
    ! is_read_only || give_up "$ROOT cannot be written by you, and its environment, .venv, is made there: work in a clone of your own"
    python="$(find_python)" || exit 1
    say "making .venv with Python $("$python" -c "$PRINT_VERSION") ($python)"
    "$python" -m venv --clear "$ROOT/.venv" || give_up "$python could not make $ROOT/.venv: its message is above"
}

# The first interpreter that is new enough and can make environments; else one line that says what brings it.
find_python() {
    local candidate path lacks_venv="" seen=""
    local candidates=(python3 python3.13 python3.12 python3.11 python3.14)
    [[ -n "${PYTHON:-}" ]] && candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        path="$(command -v "$candidate")" || continue
        [[ "$path" != "$ROOT/.venv/"* ]] || continue  # an activated .venv cannot make itself anew
        seen="${seen:+$seen, }$path"
        "$path" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        if "$path" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$path"
            return
        fi
        lacks_venv="${lacks_venv:-$path}"
    done
    if [[ -n "$lacks_venv" ]]; then
        say "$lacks_venv cannot make environments (no ensurepip), run:" \
            "apt install python$("$lacks_venv" -c "$PRINT_VERSION")-venv"
    elif [[ -n "${PYTHON:-}" ]]; then
        say "PYTHON=$PYTHON is not a Python >= 3.11; unset it, or name another"
    else
        say "needs Python >= 3.11 (found: ${seen:-none}), run: apt install python3 python3-venv" \
            "(before Debian 12: install a newer Python and name it in PYTHON=)"
    fi
    return 1
}

install_package() {
    local extras="$1" before
    before="$([[ -f "$STAMP" ]] && sed -n 2p "$STAMP")" || true
    extras="$(printf '%s\n' ${extras//,/ } ${before//,/ } | sort -u | paste -sd, -)"
    say "installing the package${extras:+ with extras $extras} into .venv (once; under a minute)"
    rm -f "$STAMP"
    "$PY" -m pip install --disable-pip-version-check --editable "$ROOT${extras:+[$extras]}" >&2 ||
        give_up "installation failed: the reason is above (it needs a package index, on the network or from PIP_INDEX_URL)"
    printf '%s\n%s\n' "$(fingerprint)" "$extras" >"$STAMP"
}

# An environment of another interpreter, in FOLDER: the package with what its pieces need.
ensure_environment_in() {
    local folder="$1" python="$2" state
    state="$(fingerprint) $python"
    [[ "$(cat "$folder/installed" 2>/dev/null)" == "$state" ]] && return
    say "making $folder"
    "$python" -m venv --clear "$folder" &&
        "$folder/bin/pip" install --quiet --disable-pip-version-check --editable "$ROOT[test]" >&2 &&
        printf '%s\n' "$state" >"$folder/installed"
}

# As `ensure_environment`; then PY is the python of the same package, compiled, with the same extras beside it. Returns 1 and
# says why, with PY as it was, where the package cannot be compiled or is not to be (APPBACKPLANE_COMPILE=0).
ensure_compiled() {
    local lock obstacle="" state
    if [[ "${APPBACKPLANE_COMPILE:-}" == 0 ]]; then
        ensure_environment "$1"
        say "interpreted, because of APPBACKPLANE_COMPILE=0"
        return "$INTERPRETED"
    fi
    ensure_environment "${1:+$1,}build"
    exec {lock}<"$ROOT/scripts"  # not the lock of `ensure_environment`, which nobody should wait for for minutes
    command -v flock >/dev/null && flock "$lock"
    state="$(state_of_sources)"
    if [[ ! -x "$COMPILED/bin/python" || "$(cat "$COMPILED/state" 2>/dev/null)" != "$state" ]]; then
        obstacle="$(cd "$ROOT" && "$PY" -B -c 'import setup; print(setup.what_is_in_the_way())')" || exit 1
        [[ -n "$obstacle" ]] || make_compiled "$state"
    fi
    exec {lock}<&-
    if [[ -n "$obstacle" ]]; then
        [[ "${APPBACKPLANE_COMPILE:-}" != 1 ]] || give_up "APPBACKPLANE_COMPILE=1, but $obstacle"
        say "interpreted, because $obstacle"
        return "$INTERPRETED"
    fi
    PY="$COMPILED/bin/python"
}

# PY is the python of the compiled package, if it has been made of the sources as they are; else the answer is 1.
compiled_if_made() {
    [[ -x "$COMPILED/bin/python" && "$(cat "$COMPILED/state" 2>/dev/null)" == "$(state_of_sources)" ]] || return 1
    PY="$COMPILED/bin/python"
}

# Everything that goes into the wheel, and how it is made. No dates and no git: a copy is in the same state.
state_of_sources() {
    (cd "$ROOT" && find "${PACKAGES[@]}" -name '*.py' -print0 | LC_ALL=C sort -z | xargs -0 cksum setup.py pyproject.toml) |
        cksum
}

# The name of a cache entry: all that decides what the compiler makes. Supervisor and spark are never compiled.
state_of_extensions() {
    {
        (cd "$ROOT" && find transport runtime -name '*.py' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum setup.py)
        "$PY" -c 'import platform, sys, sysconfig
from importlib.metadata import version
print(sys.version, platform.machine(), *platform.libc_ver(), *(version(name) for name in ("mypy", "setuptools", "msgspec")))
print(*(sysconfig.get_config_var(name) for name in ("CC", "CFLAGS", "SOABI")))'
        echo "${CC:-} ${CFLAGS:-} ${LDFLAGS:-}"
        "${CC:-cc}" --version 2>/dev/null || true
    } | sha256sum | cut -d ' ' -f 1
}

# The compiled package is the pure one with the extension modules beside the sources. These come from the cache, where an
# entry serves every checkout of the same sources; the cache keeps the newest ten.
# An environment of its own, not a folder on PYTHONPATH: also a program that is started without our variables (`python -I`,
# a shell with a clean environment) finds this package and no other.
make_compiled() {
    local state="$1" work packages
    work="$(mktemp -d)"
    { copy_sources_to "$work/sources" && ensure_extensions "$work" &&
        APPBACKPLANE_COMPILE=0 build_wheel "$work/sources" "$work/pure" &&
        rm -rf "$COMPILED" && "$PY" -m venv --without-pip "$COMPILED" &&
        "$PY" -m pip --python "$COMPILED/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index \
            "$work"/pure/*.whl >&2 &&
        packages="$("$COMPILED/bin/python" -c "$PRINT_PACKAGES")" &&
        copy_extensions_to "$packages" &&
        "$PY" -c "$PRINT_PACKAGES" >"$packages/what_is_beside_it.pth"; } || {
        rm -rf "$work"
        give_up "compilation failed: the reason is above; APPBACKPLANE_COMPILE=0 goes on without"
    }
    rm -rf "$work"
    printf '%s\n' "$state" >"$COMPILED/state"
}

# Everything that a wheel is made of. A copy, so that nobody can change a file while it is compiled.
copy_sources_to() {
    mkdir -p "$1" && (cd "$ROOT" && cp -R setup.py pyproject.toml README.md LICENSE "${PACKAGES[@]}" "$1")
}

# ENTRY is the cache entry of the extension modules, compiled of the sources in WORK/sources if it is not there or damaged.
ensure_extensions() {
    local work="$1"
    ENTRY="$CACHE/$(state_of_extensions)" || { say "$PY does not run, or lacks the build tools" && return 1; }
    if [[ -d "$ENTRY" ]] && ! is_whole "$ENTRY"; then
        say "the cached build $ENTRY is damaged: compiling anew"
        rm -rf "$ENTRY"
    fi
    { [[ -d "$ENTRY" ]] || compile_into "$ENTRY" "$work"; } && touch "$ENTRY"
}

copy_extensions_to() { (cd "$ENTRY" && cp -R --parents $(cut -c 67- SHA256SUMS) "$1"); }

PRINT_PACKAGES='import sysconfig; print(sysconfig.get_path("purelib"))'

is_whole() { (cd "$1" && [[ -s SHA256SUMS ]] && sha256sum --quiet --check SHA256SUMS >/dev/null 2>&1); }

build_wheel() {
    "$PY" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$2" "$1" >&2
}

# A cache entry: the extension modules of a compiled wheel, under the paths that they have in it, and their sums. It appears
# as a whole, or not at all.
compile_into() {
    local entry="$1" work="$2" made="$2/made"
    say "compiling the package (once for each state of the sources; about a minute of one core)"
    APPBACKPLANE_COMPILE=1 build_wheel "$work/sources" "$work/compiled" &&
        "$PY" -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.endswith(".so")])' \
            "$work"/compiled/*.whl "$made" &&
        (cd "$made" && find . -name '*.so' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS) &&
        mkdir -p "$CACHE" && mv -T "$made" "$entry.$$" && { mv -T "$entry.$$" "$entry" 2>/dev/null || rm -rf "$entry.$$"; } &&
        forget_old
}

forget_old() {
    local old
    for old in $(ls -1t "$CACHE" | tail -n +11); do
        rm -rf "${CACHE:?}/$old"
    done
}
