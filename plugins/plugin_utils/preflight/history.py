# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others did to a host before: one table from what was found (module_utils/_picture.py, _gpu.py, _pci.py) to what that means.

The rows about what the host is and how its kernel is set are in ``machine.py``, those about kernels on disk, the driver, the bus and the cards in
``hardware.py`` and ``cards.py``, those about the package manager in ``packages.py``, about engine and toolkit in ``engine.py``, those about file systems
of a special kind, about what stands around the engine and about guards of the system in ``surroundings.py``. A row of ``JUDGEMENTS`` has the code of a
finding and the function that says where it holds. The severity of the code stands in ``severities.py``, and what to do about it in the catalogue of
messages.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._engine_flags import colliding
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import PACKAGES, REPOSITORY
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import MANAGERS, RPM, package_plan
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.cards import CARDS
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.engine import ENGINE
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hardware import HARDWARE
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.machine import MACHINE
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.packages import PACKAGE_MANAGER
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING, Findings
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.surroundings import SURROUNDINGS

# What containerd.io replaces or excludes, and what takes the name of Docker's client. Sources: docker/packaging (deb control, rpm spec),
# https://docs.docker.com/engine/install/debian/#uninstall-old-versions
ENGINE_CONFLICTS = ("containerd", "runc", "podman-docker")
# What the engine takes its networks from where nobody says otherwise, in this order (moby, libnetwork/ipamutils/utils.go).
DEFAULT_POOLS = tuple(f"172.{number}.0.0/16" for number in range(17, 32))
# Not every bridge with such a beginning is the engine's: sites have their br-lan, br-mgmt and br-ex.
_DOCKER_NETWORKS = re.compile(r"docker\d*|docker_gwbridge|br-[0-9a-f]{12}|veth\w*")
# Each layer is a whole copy with vfs; devicemapper and aufs are gone since Docker 25 and 24.
POOR_STORAGE = ("vfs", "devicemapper", "aufs")
# Labels of folders from which systemd may start nothing.
HOME_LABELS = (
    "user_home_t",
    "admin_home_t",
    "user_home_dir_t",
    "home_root_t",
    "tmp_t",
    "user_tmp_t",
    "default_t",
    "unlabeled_t",
)


# -- the engine --------------------------------------------------------------------------------------------------------
def _flags_collide(picture: Picture) -> Said:
    # The toolkit will put the runtime nvidia into daemon.json.
    runtimes = {"nvidia": {}, **(picture.config.get("runtimes") or {})}
    for directive in colliding(
        picture.flags, {**picture.config, "runtimes": runtimes}, str(picture.engine.get("version") or "")
    ):
        flag = picture.flags[directive]
        yield {"value": flag["said"], "where": flag["path"], "path": flag["path"], "directive": directive}


def _swarm(picture: Picture) -> Said:
    state = str(picture.engine.get("swarm") or "inactive")
    if state not in ("inactive", "error"):
        yield {"value": f"Swarm: {state}"}


def _userns(picture: Picture) -> Said:
    said = picture.config.get("userns-remap") or (picture.flags.get("userns-remap") or {}).get("said")
    if said or picture.engine.get("userns"):
        yield {"value": f"userns-remap: {said or '?'}"}


def _snap(picture: Picture) -> Said:
    if picture.engine.get("installed_by") == "snap":
        yield {"value": "snap: docker"}


def _rootless(picture: Picture) -> Said:
    if picture.engine.get("rootless"):
        yield {"value": "rootless"}


def _packages_conflict(picture: Picture) -> Said:
    method, installed = picture.docker_method, picture.packages
    wanted = package_plan(picture.hosts.facts[picture.name], "docker", method)["packages"] if method else []
    foreign: Sequence[str] = ()
    if method in (REPOSITORY, PACKAGES) and not set(wanted) & set(installed):
        foreign = ENGINE_CONFLICTS if "containerd.io" in wanted else ENGINE_CONFLICTS[2:]
    elif (
        method == "static"
        and not picture.engine.get("installed_by")
        and picture.units.get("containerd.service") == "active"
    ):
        foreign = ("containerd", "containerd.io")
    users = ("kubelet", "k3s", "podman", "buildah", "docker.io")
    names = [name for name in foreign if name in installed]
    if names:
        said = [f"{name} {installed[name]}" for name in (*names, *(user for user in users if user in installed))]
        yield {"value": picture.hosts.names(said), "method": method, "packages": ", ".join(names)}


def _images_elsewhere(picture: Picture) -> Said:
    root = str(picture.engine.get("data_root") or "")
    if picture.engine.get("containerd_store") and root not in ("", "/var/lib/docker"):
        yield {"value": f"data-root: {root}", "root": root}


def _storage_driver(picture: Picture) -> Said:
    driver = str(picture.engine.get("storage_driver") or "")
    if driver in POOR_STORAGE:
        yield {"value": driver}


def _ftype(picture: Picture) -> Said:
    places = {entry["mount"] for entry in picture.mounts() if entry["path"] != "/tmp" and entry.get("ftype") == 0}
    for place in sorted(places):
        yield {"value": "ftype=0", "mount": place}
    if not places and picture.engine.get("d_type") is False and picture.engine.get("storage_driver") == "overlay2":
        yield {"value": "Supports d_type: false", "mount": str(picture.engine.get("data_root"))}


def _networks(texts: Iterable[object]) -> list[ipaddress.IPv4Network]:
    found = []
    for text in texts:
        try:
            network = ipaddress.ip_network(str(text), strict=False)
        except ValueError:
            continue
        if isinstance(network, ipaddress.IPv4Network):
            found.append(network)
    return found


def _of_docker(interface: object) -> bool:
    return bool(_DOCKER_NETWORKS.fullmatch(str(interface)))


def bridge_networks(picture: Picture) -> list[ipaddress.IPv4Network]:
    """The networks that the engine has, or the one that it will take first: of its pools the first that no route of the host overlaps."""
    routes = picture.found.get("routes") or ()
    own = _networks(entry["network"] for entry in routes if _of_docker(entry["interface"]))
    if own or picture.config.get("bip") or picture.config.get("bridge"):
        return own or _networks([picture.config.get("bip")])
    asked = picture.hosts.get(picture.name, "docker_address_pools") or picture.config.get("default-address-pools")
    others = _networks(entry["network"] for entry in routes)
    for pool in asked or [{"base": base, "size": 16} for base in DEFAULT_POOLS]:
        for base in _networks([pool.get("base")]):
            size = max(int(pool.get("size") or base.prefixlen), base.prefixlen)
            for network in base.subnets(new_prefix=size):
                if not any(network.overlaps(other) for other in others):
                    return [network]
    return []


def _pools(picture: Picture) -> Said:
    """A network of the engine that hides the way back to the controller or to other hosts, or that lies over another route."""
    mine = bridge_networks(picture)
    others = {
        str(address).split("/", maxsplit=1)[0]: host
        for host, facts in picture.hosts.facts.items()
        for nic in facts.get("llm_nics_found") or ()
        if host != picture.name and not _of_docker(nic.get("name")) and nic.get("name") != "lo"
        for address in nic.get("addresses") or ()
    }
    client = str(picture.found.get("ssh_client") or "")
    hidden = [(client, "ssh"), *others.items()] if client else list(others.items())
    for network in mine:
        for address, who in hidden:
            if any(network.supernet_of(one) for one in _networks([address])):
                yield {"value": f"{network}", "hidden": f"{address} ({who})", "severity": ERROR}
                return
    routes = [entry for entry in picture.found.get("routes") or () if not _of_docker(entry["interface"])]
    for network in mine:
        for entry in routes:
            if any(network.overlaps(one) for one in _networks([entry["network"]])):
                yield {
                    "value": f"{network}",
                    "hidden": f"{entry['network']} ({entry['interface']})",
                    "severity": WARNING,
                }
                return


def _python(picture: Picture) -> Said:
    manager = str(picture.hosts.facts[picture.name].get("pkg_mgr") or "")
    if MANAGERS.get(manager) == RPM and picture.found.get("dnf") is False:
        python = str(picture.found.get("python") or "?")
        yield {"value": python, "python": python}


# -- file systems and labels -------------------------------------------------------------------------------------------
def _noexec(picture: Picture) -> Said:
    for entry in picture.mounts():
        if entry["path"] != "/tmp" and "noexec" in (entry.get("options") or ()):
            # What runs in a container is started from a mount of its own.
            of_engine = any(name in entry["path"] for name in ("docker", "containerd"))
            severity = WARNING if of_engine else ERROR
            yield {
                "value": f"{entry['mount']}: noexec",
                "severity": severity,
                "path": entry["path"],
                "mount": entry["mount"],
            }


def _host_dir_label(picture: Picture) -> Said:
    if picture.found.get("selinux") != "enforcing":
        return
    for entry in picture.mounts():
        if entry["path"] != "/tmp" and entry.get("label") in HOME_LABELS and "docker" not in entry["path"]:
            yield {"value": entry["label"], "path": entry["path"]}


# -- the table ---------------------------------------------------------------------------------------------------------
JUDGEMENTS: Judgements = {
    "python_without_dnf": _python,
    "engine_by_snap": _snap,
    "engine_rootless": _rootless,
    "engine_flags_collide": _flags_collide,
    "engine_packages_conflict": _packages_conflict,
    "engine_swarm": _swarm,
    "engine_userns_remap": _userns,
    "engine_pools_overlap": _pools,
    "engine_images_elsewhere": _images_elsewhere,
    "engine_storage_driver": _storage_driver,
    "filesystem_without_ftype": _ftype,
    "mount_noexec": _noexec,
    "selinux_host_dir": _host_dir_label,
    **PACKAGE_MANAGER,
    **ENGINE,
    **MACHINE,
    **HARDWARE,
    **CARDS,
    **SURROUNDINGS,
}


def history_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """What the table says of a host."""
    picture = Picture(hosts, deployment, host)
    for code, judge in JUDGEMENTS.items():
        for said in judge(picture):
            yield hosts.finding(code, [host], host=host, **said)
