#!/usr/bin/env python3
"""Make a virtual environment from the requirements in this folder: `venv.py FOLDER CORE`, for example `venv.py .venv 2.19`.

Needs nothing but a python3 (3.8 or later) and is run by `make`. The environment's own Python is looked for on PATH and in the
folders of common version managers, else fetched with uv. `venv.py --lock CORE` renews the lock file instead.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FETCHED = os.path.join(ROOT, ".python")
UV = "uv>=0.9,<1"

# For each supported ansible-core the Python it is tested on, then the others it runs on.
PYTHONS = {"2.19": ("3.11", "3.12", "3.13"), "2.21": ("3.13", "3.12", "3.14")}

# {0} is the version looked for. What pyenv, uv, mise, asdf and conda put under the home folder.
MANAGERS = (
    os.path.join(os.environ.get("PYENV_ROOT", "~/.pyenv"), "versions/{0}*/bin/python{0}"),
    "~/.local/share/uv/python/cpython-{0}*/bin/python{0}",
    "~/.local/share/mise/installs/python/{0}*/bin/python{0}",
    "~/.asdf/installs/python/{0}*/bin/python{0}",
    "~/miniconda3/envs/*/bin/python{0}",
    os.path.join(FETCHED, "cpython-{0}*/bin/python{0}"),
)

PROBE = """
import json, sys
try:
    import ensurepip, venv
    usable = True
except ImportError:
    usable = False
print(json.dumps(["%d.%d" % sys.version_info[:2], sys.executable, usable]))
"""


def say(message):
    print("venv: " + message, flush=True)


def stop(message):
    sys.exit("venv: " + message)


def probe(command):
    """What the interpreter says of itself: version, real path, whether it can make environments. None if it does not start."""
    try:
        # From the root folder, so that no `.python-version` of ours or the user's decides what a version manager's shim starts.
        done = subprocess.run(
            [command, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, cwd="/"
        )
        return json.loads(done.stdout.decode()) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def candidates(version):
    # This very interpreter first: `PYTHON=... make` is how a person chooses.
    yield sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        command = os.path.join(folder, "python" + version)
        if os.access(command, os.X_OK):
            yield command
    for pattern in MANAGERS:
        for command in sorted(glob.glob(os.path.expanduser(pattern.format(version))), reverse=True):
            yield command


def find(version):
    """(path of a usable interpreter, None), or (None, path of one that only lacks its venv module), or (None, None)."""
    lacking = None
    for command in candidates(version):
        found = probe(command)
        if not found or found[0] != version:
            continue
        if found[2]:
            return found[1], None
        lacking = lacking or found[1]
    return None, lacking


def fetch(version):
    """A CPython fetched by uv into .python, or None. uv itself comes from the package index, into a throw-away environment."""
    if not probe(sys.executable)[2]:
        return None
    say(f"no Python {version} on this machine; fetching one with uv into .python ...")
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, "-m", "venv", folder])
        pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", UV]
        if made.returncode or subprocess.run(pip).returncode:
            return None
        environment = dict(os.environ, UV_PYTHON_INSTALL_DIR=FETCHED)
        if subprocess.run(
            [os.path.join(folder, "bin", "uv"), "python", "install", version], env=environment
        ).returncode:
            return None
    return find(version)[0]


def choose(core):
    wanted = PYTHONS[core]
    lacking = None
    for version in wanted:
        path, without_venv = find(version)
        if path:
            if version != wanted[0]:
                say(f"no Python {wanted[0]} here; ansible-core {core} also runs on {version}")
            return path
        lacking = lacking or (version if without_venv else None)
    if not lacking:
        path = fetch(wanted[0])
        if path:
            return path
    sys.exit(
        f"venv: ansible-core {core} needs Python {' or '.join(wanted)} with its venv module, and this machine has none.\n"
        f"      On Debian or Ubuntu:  sudo apt-get install python{lacking or wanted[0]}-venv\n"
        f"      Or install one with pyenv, uv or mise, or name one:  make PYTHON=/path/to/python{wanted[0]}"
    )


def pip_install(folder, arguments):
    command = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run(command + arguments).returncode:
        stop(
            "pip could not install the requirements (its messages are above). Does this machine reach a package index?"
        )


def make(folder, core):
    folder = os.path.abspath(folder)
    requirements = os.path.join(HERE, f"core-{core}.txt")
    lock = os.path.join(HERE, f"core-{core}.lock")
    # An environment that was copied, moved or whose Python has gone does not start or lies about where it is: make it anew.
    old = probe(os.path.join(folder, "bin", "python"))
    if not old or os.path.dirname(os.path.dirname(old[1])) != folder:
        python = choose(core)
        if os.path.isdir(folder):
            shutil.rmtree(folder)
        if subprocess.run([python, "-m", "venv", folder]).returncode:
            stop(f"{python} could not make the environment {folder}")
        old = probe(os.path.join(folder, "bin", "python"))
    say(
        f"installing ansible-core {core} and the tools into {folder} on Python {old[0]} (a few minutes the first time) ..."
    )
    pip_install(folder, ["--requirement", requirements, "--constraint", lock])
    with open(os.path.join(folder, ".made"), "w") as stamp:
        stamp.write("made by requirements/venv.py\n")


def renew_lock(core):
    with tempfile.TemporaryDirectory() as folder:
        python = choose(core)
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip_install(folder, ["--requirement", os.path.join(HERE, f"core-{core}.txt")])
        frozen = subprocess.run(
            [os.path.join(folder, "bin", "python"), "-m", "pip", "freeze"], check=True, stdout=subprocess.PIPE
        )
    with open(os.path.join(HERE, f"core-{core}.lock"), "w") as lock:
        lock.write(f"# Written by `make lock` from core-{core}.txt: every package that it brings, as tested.\n")
        lock.write(frozen.stdout.decode())


def main():
    parser = argparse.ArgumentParser(description="Make a virtual environment, or renew a lock file.")
    parser.add_argument("folder", nargs="?", help="where the environment goes")
    parser.add_argument("core", choices=sorted(PYTHONS), help="the ansible-core it is for")
    parser.add_argument("--lock", action="store_true", help="renew core-<core>.lock instead")
    arguments = parser.parse_args()
    if arguments.lock:
        renew_lock(arguments.core)
    elif arguments.folder:
        make(arguments.folder, arguments.core)
    else:
        parser.error("a folder is needed")


if __name__ == "__main__":
    main()
