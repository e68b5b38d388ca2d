#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: venv
short_description: Make a Python environment from wheels that are on the host
version_added: 0.1.0
description:
  - Makes a virtual environment on an interpreter of the host and installs wheels into it with uv, which comes as a wheel as well. Nothing
    is fetched and nothing is compiled, and each wheel has to have the SHA-256 that the lock says.
  - The environment is made beside its place and moved there when it is complete. Everybody can read it, and only its owner can change it.
  - One that is as it was made stays as it is. Where a file is missing or was written to, or the interpreter is another release, all of it is
    made anew.
options:
  path:
    description: Folder of the environment.
    type: path
    required: true
  python:
    description: The interpreter, a CPython of the host.
    type: path
    required: true
  wheels:
    description: Folder with the wheels and their lock, C(requirements.txt).
    type: path
    required: true
  uv:
    description: The wheel of uv.
    type: path
    required: true
  made_from:
    description: What it is made from, as a digest. An environment that was made from something else is made anew.
    type: str
    required: true
extends_documentation_fragment:
  - baremetal.llm.attributes.linux
  - baremetal.llm.attributes.controller_part
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Says whether the environment would be made, and makes nothing.
    support: full
  diff_mode:
    description: Names the environment that is made, or would be.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: baremetal.llm.bundle_copy
"""

EXAMPLES = r"""
- name: Environment | Make it
  baremetal.llm.venv:
    path: /opt/llm/venvs/0.3.0-1f2e3d4c5b6a
    python: /usr/bin/python3
    wheels: /opt/llm/venvs/0.3.0-1f2e3d4c5b6a.wheels
    uv: /opt/llm/venvs/0.3.0-1f2e3d4c5b6a.wheels/uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
    made_from: 1f2e3d4c5b6a
"""

RETURN = r""" # """

import os
import shutil
import stat
import tempfile
import zipfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure
from ansible_collections.baremetal.llm.plugins.module_utils._environment import LOCK, is_whole, note_of, write_note

# What uv leaves in an environment for its own use. Its lock is a file that everybody may write.
OF_UV = (".lock", ".gitignore", "CACHEDIR.TAG")
# As long as uv may take. torch and CUDA's libraries are 6 GB that are unpacked.
LIMIT_SECONDS = 1800


def unpack_uv(wheel: str, folder: str) -> str:
    """The program uv out of its wheel."""
    path = os.path.join(folder, "uv")
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
            with archive.open(name) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise CodedError("venv_no_uv", path=wheel, reason=error or "no uv") from error
    os.chmod(path, 0o700)
    return path


def run(module: AnsibleModule, command: list[str], work: str) -> None:
    """Run uv: with settings of its own alone, offline, and with a cache on the same disk, from which it moves what it unpacked."""
    environment = {
        "LC_ALL": "C.UTF-8",
        "HOME": work,
        "UV_CACHE_DIR": os.path.join(work, "cache"),
        "UV_NO_CONFIG": "1",
        "UV_OFFLINE": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_LINK_MODE": "hardlink",
    }
    of_others = [name for name in os.environ if name.startswith(("UV_", "PIP_", "PYTHON", "VIRTUAL_ENV"))]
    limit = module.get_bin_path("timeout", required=True)
    for name in of_others:
        del os.environ[name]
    status, out, err = module.run_command(
        [limit, "-k", "5", str(LIMIT_SECONDS), *command], environ_update=environment, cwd=work
    )
    if status:
        raise CodedError(
            "venv_not_made", program=" ".join(command[1:3]), status=status, said=(err or out).strip()[-2000:]
        )


def for_everybody(top: str) -> None:
    """Let everybody read it, and nobody but its owner write to it, whatever the modes in the wheels are."""
    for folder, folders, files in os.walk(top):
        for path in (os.path.join(folder, name) for name in [*folders, *files]):
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                runs = mode & 0o100 or stat.S_ISDIR(mode)
                os.chmod(path, 0o755 if runs else 0o644)


def make(module: AnsibleModule) -> None:
    """Make the environment beside its place, and move it there."""
    options = module.params
    path = options["path"]
    parent, name = os.path.split(path)
    os.makedirs(parent, exist_ok=True)
    new, old = (os.path.join(parent, ".{0}.{1}".format(name, end)) for end in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)
    work = tempfile.mkdtemp(dir=parent, prefix=".work-")
    try:
        uv = unpack_uv(options["uv"], work)
        # Relocatable: its programs find their interpreter beside themselves, wherever it is moved.
        run(module, [uv, "venv", "--no-project", "--relocatable", "--python", options["python"], new], work)
        install = [uv, "pip", "install", "--python", os.path.join(new, "bin", "python3"), "--no-index", "--no-deps"]
        install += [
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--compile-bytecode",
            "--find-links",
            options["wheels"],
        ]
        run(module, [*install, "--requirements", os.path.join(options["wheels"], LOCK)], work)
        for left in OF_UV:
            if os.path.lexists(os.path.join(new, left)):
                os.unlink(os.path.join(new, left))
        for_everybody(new)
    except (CodedError, OSError):
        shutil.rmtree(new, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    write_note(new, options["made_from"])
    shutil.rmtree(old, ignore_errors=True)
    if os.path.lexists(path):
        os.rename(path, old)
    os.rename(new, path)
    shutil.rmtree(old, ignore_errors=True)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "python": {"type": "path", "required": True},
            "wheels": {"type": "path", "required": True},
            "uv": {"type": "path", "required": True},
            "made_from": {"type": "str", "required": True},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    # The service that runs from it has a user of its own.
    os.umask(0o022)
    path, made_from = module.params["path"], module.params["made_from"]
    if is_whole(path, made_from):
        module.exit_json(changed=False)
    before = "{0}\n".format(note_of(path).get("made_from", "")) if os.path.lexists(path) else ""
    if not module.check_mode:
        try:
            make(module)
        except CodedError as error:
            module.fail_json(**failure(error.code, folder=path, **error.values))
        except OSError as error:
            module.fail_json(**failure("not_writable", folder=path, reason=error, variable="llm_host_dir"))
    module.exit_json(
        changed=True,
        diff={"before_header": path, "after_header": path, "before": before, "after": "{0}\n".format(made_from)},
    )


if __name__ == "__main__":
    main()
