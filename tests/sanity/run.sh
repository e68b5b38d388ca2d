#!/usr/bin/env bash
# ansible-test sanity on what the tarball holds, as a Galaxy server would run it. Arguments are passed on: `--test pylint`.
#
# For each test ansible-test makes an environment from the package index and keeps it in ~/.ansible/test.
# Not run this way: `pslint` (it needs PowerShell; the collection has none), and `compile` and `import` on other Pythons than this
# environment's. Ruff checks the syntax of what runs on hosts against their oldest Python (pyproject.toml).
set -euo pipefail
stand_in=
trap '[ -z "$stand_in" ] || rm -f "$stand_in"' EXIT

# ansible-test starts each environment with a script from ansible.com. Where that site is out of reach, the pip that comes with
# Python does as well: for this run, a script that starts ensurepip is put where ansible-test would keep the real one.
read -r version cached < <(python - <<'PYTHON'
import os, sys, types
from ansible_test._internal.python_requirements import get_venv_packages
this = "%d.%d" % sys.version_info[:2]
pip = get_venv_packages(types.SimpleNamespace(version=this))["pip"]
print(this, os.path.expanduser("~/.ansible/test/cache/get_pip_%s.py" % pip.replace(".", "_")))
PYTHON
)
if [ ! -e "$cached" ] && ! python - <<'PYTHON' 2>/dev/null
import urllib.request
urllib.request.urlopen("https://ci-files.testing.ansible.com/ansible-test/", timeout=10)
PYTHON
then
    echo "ansible.com is out of reach: the environments start with the pip that comes with Python $version"
    mkdir -p "$(dirname "$cached")"
    stand_in=$cached
    cat >"$stand_in" <<'PYTHON'
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "-m", "ensurepip", "--default-pip"]))
PYTHON
fi

"$(dirname "$0")/../unpacked.sh" ansible-test sanity --local --color no --python "$version" "$@"
