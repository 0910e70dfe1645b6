# shellcheck shell=bash
# The environment that every script here needs: `.venv` in the root, with this package installed editable in it.
#
# Sourced, not run:   . "$(dirname "${BASH_SOURCE[0]}")/bootstrap.sh"; ensure_environment "test,lint"
# It sets ROOT and PY (the environment's python). PYTHON=/path/to/python chooses the interpreter it is made with.
# A stamp in .venv says for which pyproject.toml and which extras it was installed, and where: when nothing of that has
# changed this costs 20 ms, and what `scripts/test` installed serves `scripts/run` as well.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
PY="$ROOT/.venv/bin/python"
STAMP="$ROOT/.venv/installed"

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
    [[ "$(head -n 1 "$ROOT/.venv/bin/pip")" == *"$ROOT/.venv/bin/"* ]] || return 1
    local version
    version="$("$PY" -c "$PRINT_VERSION" 2>/dev/null)" || return 1
    [[ -z "${PYTHON:-}" || "$("$PYTHON" -c "$PRINT_VERSION" 2>/dev/null)" == "$version" ]]
}

PRINT_VERSION='import sys; print("%d.%d" % sys.version_info[:2])'

make_venv() {
    local python
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
