# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As which user the containers of a deployment run: not as root where the image allows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpu

VARIABLE = "llm_container_uid"
ROOT = 0
# A number that belongs to nobody: people have lower ones, services of systemd end at 65519 (https://systemd.io/UIDS-GIDS), and those of users
# in containers begin at 100000 (SUB_UID_MIN in login.defs(5)).
UID = 70000
# Images let the group of root write where their own user may (docker/Dockerfile of the engine, since 0.28.0 at the latest), and the secrets of a host
# belong to that group: no other file of a host has to.
GID = 0
# Its home lies in the container, as that of root does. The number has no name in the image, and torch asks for one (getpass.getuser in
# torch/_inductor/runtime/cache_dir_utils.py).
ENVIRONMENT = {"HOME": "/var/tmp/llm", "USER": "llm", "LOGNAME": "llm"}
# Below it a program needs a capability to listen: a container in the host's network has the host's rule.
FIRST_FREE_PORT = 1024
# The only capability that another user does without, since it needs none to read what it may read. Docker gives none to other users.
DISPENSABLE = {"DAC_OVERRIDE"}
# Where the program finds the host's devices. Each CUDA program opens these to read and to write; who may, and that everybody may is the default, is an
# option of the kernel module (NVreg_DeviceFileMode in the README of NVIDIA's driver). It is their modes that are looked at: whether this very
# container may open them is another matter (devcgroup_inode_permission in Linux's security/device_cgroup.c), since it is given no device.
DEVICES = "/llm/dev"
# Fails with the first thing that cannot be read, or the first device that cannot be used, on one line. It reads no content.
PROGRAM = """\
import glob, importlib.util, os, sys
def wrong(error):
    sys.exit("{0}: {1}".format(error.filename, error.strerror))
def usable(path):
    found = os.stat(path)
    mine = found.st_uid == os.getuid(), found.st_gid in [os.getgid(), *os.getgroups()]
    return found.st_mode >> (6 if mine[0] else 3 if mine[1] else 0) & 6 == 6
for top in sys.argv[1:]:
    for folder, folders, files in os.walk(top, onerror=wrong):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.access(path, os.R_OK):
                sys.exit("{0}: Permission denied".format(path))
for name in ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm"):
    for path in sorted(glob.glob(os.path.join("DEVICES", name))):
        if not usable(path):
            sys.exit("/dev/{0}: Permission denied".format(os.path.basename(path)))
if importlib.util.find_spec("MODULE") is None:
    sys.exit("its Python finds no MODULE")
"""


def program(devices: str, module: str) -> str:
    """The same for a program that sees the host's devices in this folder, and whose Python has to have this module, where it is one's."""
    checks = PROGRAM.replace("DEVICES", devices)
    return checks.replace("MODULE", module) if module else checks.partition("if importlib.util.find_spec")[0]


def container_uid(head: Mapping[str, object], hosts: Sequence[Mapping[str, object]]) -> int:
    """The user's number, from the variables of a deployment's head and of all of its hosts; 0 for root."""
    said = head.get(VARIABLE)
    if said is not None:
        return whole(said)
    gpus = [read_gpu(gpu, "gpus") for variables in hosts for gpu in gpus_of(variables)]
    prepared = engine_of(head).unprivileged(head, gpus)
    return UID if prepared and not any(reasons_for_root(head, hosts)) else ROOT


def reasons_for_root(head: Mapping[str, object], hosts: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """The variables that only root can do, each with its value."""
    port = setting(head, "port")
    if whole(port) < FIRST_FREE_PORT:
        yield variable_of(head, "port"), str(port)
    asked = {name.upper().removeprefix("CAP_") for variables in hosts for name in texts(variables["ray_capabilities"])}
    if asked - DISPENSABLE:
        yield "ray_capabilities", ", ".join(sorted(asked - DISPENSABLE))


def user_problems(
    deployment: str, head: Mapping[str, object], hosts: Mapping[str, Mapping[str, object]], language: str
) -> list[dict[str, str]]:
    """Where somebody names another user, and something that only root can do."""
    uid = container_uid(head, [*hosts.values()])
    if uid == ROOT:
        return []
    return [
        problem(
            "container_uid_not_root",
            language,
            value=f"{VARIABLE}: {uid}, {variable}: {value}",
            where=message("where_group", language, group=deployment),
            deployment=deployment,
            variable=variable,
            hosts=names([*hosts], language),
        )
        for variable, value in reasons_for_root(head, [*hosts.values()])
    ]


def check_command(uid: int, image: str, folders: Sequence[str], module: str) -> list[str]:
    """A command that fails where this user cannot run the image's Python, read the models or use the GPUs; empty for root."""
    if uid == ROOT:
        return []
    return [
        *("docker", "run", "--rm", "--network=none", "--userns=host", f"--user={uid}:{GID}"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges"),
        *(f"--volume={folder}:{folder}:ro" for folder in folders),
        f"--volume=/dev:{DEVICES}:ro",
        *("--entrypoint=python3", image, "-c", program(DEVICES, module), *folders),
    ]
