# Shared by the scripts: where things are, and environments of their own. Sourced, not run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# is_python COMMAND MINOR: whether COMMAND is Python 3.MINOR or newer.
is_python() { "$1" -c "import sys; sys.exit(sys.version_info < (3, $2))" 2>/dev/null; }

# find_python: prints the Python the host side runs on.
find_python() {
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        if command -v "$name" >/dev/null && is_python "$name" 11; then
            command -v "$name"
            return
        fi
    done
    die "no Python 3.11 or newer found; install one, e.g. apt-get install python3.11 python3.11-venv"
}

# make_venv PYTHON FOLDER: makes a virtual environment unless a working one is there.
make_venv() {
    local python=$1 folder=$2
    if [ -x "$folder/bin/python" ] && "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$python has no venv module; install it, e.g. apt-get install python3-venv"
    "$python" -m venv --clear "$folder"
}

# install FOLDER WHAT...: installs into an environment, unless it was done since pyproject.toml last changed.
install() {
    local folder=$1 wanted stamp
    shift
    wanted=$(printf '%s\n' "$*" | cat - pyproject.toml | sha256sum)
    stamp="$folder/.chipwise-$(printf '%s' "$*" | sha256sum | cut -c1-8)"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        echo "$folder is up to date"
        return
    fi
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check "$@"
    printf '%s\n' "$wanted" >"$stamp"
}
