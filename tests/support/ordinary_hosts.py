"""Healthy hosts as they are found every day (tests/data/hosts/ordinary.yml), read as gather reads hosts, and what preflight says of them.

A host is a list of parts, merged into one: mappings by their keys, lists one after the other; engine, disks and what is known of /boot are those of the last
part that has them. ``{n}`` stands for the number of the host in its fleet.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.module_utils import _gpu, _picture
from ansible_collections.baremetal.llm.plugins.modules import gather
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import GPUS, as_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.settings import check_arguments

from lab.sim.hardware import hardware, pci_tree
from tests.support import lab_smi
from tests.support.host_reports import ROOT, Recorded, plant
from tests.support.roles import defaults

FLEETS = ROOT / "tests/data/hosts/ordinary.yml"
ROLES = ("common", "docker", "nvidia_container_toolkit", "nvidia_driver", "preflight", "ray", "vllm", "llama_cpp")
# What people are asked for by templates, as it is where nobody says more.
SAID = {"llm_language": "en", "llm_secrets_dir": "/secrets", "llm_report_dir": "/reports", "llm_bundle_dir": "/bundle"}
# linux/if.h: up, loopback, running.
_UP, _DOWN = "0x1003", "0x1002"
_ARP_TYPES = {"infiniband": "32", "loopback": "772", "tunnel": "65534"}
_LISTEN = "0A"
# No process of this machine has one of these, so that this one can be the login.
_FIRST_PID = 5_000_000

_WHOLE = {"boot", "disks", "docker"}

# What gather is not asked for here.
UNASKED = dict.fromkeys(
    (
        *("gpu_sysfs_root", "state_file", "lock_file", "records_dir", "deployment_dir", "live", "discover"),
        *("docker_root", "python", "base_python"),
    )
)

Fleet = Mapping[str, Any]
Host = dict[str, Any]


@functools.cache
def fleets() -> list[Fleet]:
    found: list[Fleet] = yaml.safe_load(FLEETS.read_text(encoding="utf-8"))["fleets"]
    return found


def merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        both = one.keys() & other.keys() - _WHOLE
        return {**one, **other, **{key: merged(one[key], other[key]) for key in both}}
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else other


def flat(parts: Sequence[Any]) -> Iterator[Host]:
    """Parts, some of which may be lists of parts."""
    for part in parts:
        yield from flat(part) if isinstance(part, list) else [part]


def hosts_of(fleet: Fleet) -> dict[str, Host]:
    """Each host of a fleet, its parts merged."""
    found = {}
    for number, (name, parts) in enumerate(fleet["hosts"].items(), start=1):
        whole = functools.reduce(merged, flat(parts), {})
        found[name] = json.loads(json.dumps(whole).replace("{n}", str(number)))
    return found


# -- files -------------------------------------------------------------------------------------------------------------
def interface_files(name: str, index: int, said: Mapping[str, Any]) -> dict[str, str]:
    """An interface in /sys."""
    folder, kind, up = f"sys/class/net/{name}", said.get("kind", "ethernet"), said.get("up", True)
    state = said.get("state", "up" if up else "down")
    files = {
        f"{folder}/ifindex": f"{index}\n",
        f"{folder}/mtu": f"{said.get('mtu', 1500)}\n",
        f"{folder}/operstate": f"{state}\n",
        f"{folder}/flags": f"{_UP if up else _DOWN}\n",
        f"{folder}/type": f"{_ARP_TYPES.get(kind, '1')}\n",
        f"{folder}/uevent": f"INTERFACE={name}\nIFINDEX={index}\n",
        f"{folder}/dev_port": "0\n",
    }
    if kind in ("vlan", "wlan", "bridge", "bond"):
        files[f"{folder}/uevent"] = f"DEVTYPE={kind}\n" + files[f"{folder}/uevent"]
    # Where there is no carrier the kernel answers EINVAL, or -1.
    if kind not in ("wlan", "loopback", "infiniband"):
        files[f"{folder}/speed"] = f"{said.get('speed', -1)}\n"
    if kind == "bridge":
        files[f"{folder}/bridge/bridge_id"] = "8000.0242ac110001\n"
        for member in said.get("members", ()):
            files[f"{folder}/brif/{member}"] = f"-> sys/class/net/{member}"
    if kind == "bond":
        files[f"{folder}/bonding/slaves"] = " ".join(said["members"]) + "\n"
        files[f"{folder}/bonding/mode"] = "802.3ad 4\n"
        for member in said["members"]:
            files[f"sys/class/net/{member}/bonding_slave/ad_aggregator_id"] = "1\n"
    if kind == "tun":
        files[f"{folder}/tun_flags"] = "0x1002\n"
    if kind == "wlan":
        files[f"{folder}/phy80211/name"] = "phy0\n"
    if "master" in said:
        files[f"{folder}/master"] = f"-> sys/class/net/{said['master']}"
    if "pci" in said:
        device = f"sys/devices/pci0000:00/{said['pci']}"
        files[f"{folder}/device"] = f"-> {device}"
        files[f"{device}/driver"] = f"-> sys/bus/pci/drivers/{said['driver']}"
        files[f"{device}/net/{name}/address"] = "0c:42:a1:00:00:01\n"
        files[f"{device}/numa_node"] = f"{said.get('numa_node', 0)}\n"
    return files


def rdma_files(name: str, said: Mapping[str, Any], interface: Mapping[str, Any]) -> dict[str, str]:
    """An RDMA device with one port in /sys. A port of Ethernet has the addresses of its interface, each for both versions of RoCE."""
    port, pci = f"sys/class/infiniband/{name}/ports/1", said.get("pci") or interface["pci"]
    on_wire = interface.get("kind") == "infiniband"
    files = {
        f"sys/class/infiniband/{name}/device": f"-> sys/devices/pci0000:00/{pci}",
        f"{port}/state": said.get("state", "4: ACTIVE") + "\n",
        f"{port}/phys_state": "5: LinkUp\n",
        f"{port}/link_layer": "InfiniBand\n" if on_wire else "Ethernet\n",
        f"{port}/rate": said["rate"] + "\n",
    }
    numbers = [ipaddress.ip_interface(each).ip for each in interface.get("addresses", ())]
    mapped = [ipaddress.ip_address(f"::ffff:{each}") for each in numbers if each.version == 4]
    own = ipaddress.ip_address("fe80::b83f:d2ff:fe00:0") + (int(mapped[0]) & 0xFFFF if mapped else 1)
    kinds = ("IB/RoCE v1",) if on_wire else ("IB/RoCE v1", "RoCE v2")
    gids = [(gid, kind) for gid in ([own] if on_wire else [own, *mapped]) for kind in kinds]
    for index, (gid, kind) in enumerate(gids):
        files[f"{port}/gids/{index}"] = gid.exploded + "\n"
        files[f"{port}/gid_attrs/types/{index}"] = kind + "\n"
        if not on_wire:  # of InfiniBand the kernel answers EINVAL
            files[f"{port}/gid_attrs/ndevs/{index}"] = said["interface"] + "\n"
    return files


def route_files(routes: Sequence[str]) -> dict[str, str]:
    """The routes in /proc: of each an interface, a network, and a gateway where there is one."""
    lines = ["Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"]
    for route in routes:
        interface, said, gateway = (*route.split(), "0.0.0.0")[:3]
        network = ipaddress.ip_network(said)
        numbers = [
            f"{int.from_bytes(ipaddress.ip_address(each).packed, 'little'):08X}"
            for each in (network.network_address, gateway, network.netmask)
        ]
        flags = "0001" if gateway == "0.0.0.0" else "0003"
        lines.append("\t".join([interface, *numbers[:2], flags, "0", "0", "0", numbers[2], "0", "0", "0"]))
    return {"proc/net/route": "\n".join(lines) + "\n"}


def listing_files(processes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Processes in /proc with what they listen on."""
    files: dict[str, str] = {}
    lines: dict[str, list[str]] = {"tcp": [], "tcp6": []}
    for number, said in enumerate(processes):
        pid = said.get("pid", _FIRST_PID + number)
        folder = f"proc/{pid}"
        files[f"{folder}/comm"] = said["name"][:15] + "\n"
        files[f"{folder}/cmdline"] = said.get("command", said["name"]).replace(" ", "\0") + "\0"
        files[f"{folder}/cgroup"] = f"0::{said.get('cgroup', '/system.slice')}\n"
        files[f"{folder}/status"] = f"Name:\t{said['name'][:15]}\nPPid:\t{said.get('parent', 1)}\n"
        files[f"{folder}/environ"] = said.get("environ", "LANG=C.UTF-8") + "\0"
        for at, listens in enumerate(said.get("listens", ())):
            address, _colon, port = str(listens).rpartition(":")
            table = "tcp6" if ":" in address else "tcp"
            packed = socket.inet_pton(socket.AF_INET6 if table == "tcp6" else socket.AF_INET, address.strip("[]"))
            words = [packed[i : i + 4][::-1].hex().upper() for i in range(0, len(packed), 4)]
            inode = pid * 100 + at
            nobody = "0" * len("".join(words)) + ":0000"
            lines[table].append(
                f"   0: {''.join(words)}:{int(port):04X} {nobody} {_LISTEN} 00000000:00000000 00:00000000 00000000     0"
                f"        0 {inode} 1 0000000000000000 100 0 0 10 0"
            )
            files[f"{folder}/fd/{at + 3}"] = f"=> socket:[{inode}]"
    header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    return {**files, **{f"proc/net/{name}": "\n".join([header, *found]) + "\n" for name, found in lines.items()}}


def card_content(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """The cards of a host as the simulated nvidia-smi knows them."""
    content = hardware(name, said["model"], said["count"])
    for at, gpu in enumerate(content["gpus"]):
        gpu |= said.get("differs", {})
        gpu["numa_node"] = said.get("numa_nodes", [0] * said["count"])[at]
        if "buses" in said:
            gpu["pci_bus"] = said["buses"][at]
            gpu["bus_id"] = f"00000000:{gpu['pci_bus']}:{said.get('slot', '00')}.0"
        gpu["fields"] = said.get("fields", {})
    return content


def card_files(content: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, str]:
    """The cards on the bus, each below a bridge, as the kernel shows them."""
    files: dict[str, str] = {}
    for path, text in pci_tree(dict(content)).items():
        folder, _slash, name = path.lstrip("/").rpartition("/")
        address = folder.rpartition("/")[2]
        port = f"{address[:5]}{int(address[5:7], 16) - 1:02x}:01.0"
        device = f"sys/devices/pci{address[:5]}{port[5:7]}/{port}/{address}"
        files[folder] = f"-> {device}"
        files[f"{device}/{name}"] = f"{said['class']}\n" if name == "class" and "class" in said else text
        files[f"{device}/resource"] = (
            "0x00000000d0000000 0x00000000d0ffffff 0x0000000000040200\n"
            "0x0000387000000000 0x00003877ffffffff 0x000000000014220c\n"
        )
        if said.get("bound"):
            files[f"{device}/driver"] = f"-> sys/bus/pci/drivers/{said['bound']}"
        if said.get("iommu"):
            files[f"{device}/iommu_group/type"] = said["iommu"] + "\n"
        if "acs" in said:
            files[f"{os.path.dirname(device)}/config"] = "acs " + said["acs"]
        for function, kind in said.get("functions", {}).items():
            beside = f"{device[:-1]}{function}"
            files[f"sys/bus/pci/devices/{address[:-1]}{function}"] = f"-> {beside}"
            files |= {f"{beside}/vendor": "0x10de\n", f"{beside}/device": "0x22ba\n", f"{beside}/class": kind + "\n"}
        if said.get("driver"):
            files[f"proc/driver/nvidia/gpus/{address}/information"] = "Model:\n"
    return files


def driver_files(said: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, str]:
    """What a loaded driver shows, and its libraries."""
    version, libraries = said["driver"], said.get("libraries", "usr/lib/x86_64-linux-gnu")
    kind = "Open Kernel Module for x86_64" if said.get("open") else "x86_64 Kernel Module"
    persistent = [gpu["bus_id"] for gpu in content["gpus"]] if said.get("persistence", True) else []
    files = {
        "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build\nGCC version:  gcc 12\n",
        "proc/driver/nvidia/.lab-state.json": json.dumps({"persistence": persistent}),
        "etc/lab/hardware.json": json.dumps(content),
        **{f"dev/nvidia{at}": "" for at in range(said["count"])},
        **dict.fromkeys(("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-uvm-tools"), ""),
    }
    for library in ("libcuda", "libnvidia-ml"):
        files[f"{libraries}/{library}.so.{version}"] = ""
        files[f"{libraries}/{library}.so.1"] = f"=> {library}.so.{version}"
    return files


def switch_files(buses: Sequence[str]) -> dict[str, str]:
    """The NVSwitches on the bus."""
    values = {"vendor": "0x10de", "device": "0x1af1", "class": "0x068000"}
    return {
        f"sys/bus/pci/devices/0000:{bus}:00.0/{name}": value + "\n" for bus in buses for name, value in values.items()
    }


def files_of(host: Host, content: Mapping[str, Any]) -> dict[str, Any]:
    """Everything below the root of a host."""
    cards = host.get("cards")
    files: dict[str, Any] = {}
    for index, (name, said) in enumerate(host["interfaces"].items(), start=1):
        files |= interface_files(name, index, said)
    for name, said in host.get("rdma", {}).items():
        files |= rdma_files(name, said, host["interfaces"][said["interface"]])
    files |= listing_files([*host["processes"], login(host)])
    files |= route_files(host["routes"])
    files["proc/modules"] = "".join(f"{name} 16384 0 - Live 0x0000000000000000\n" for name in host["modules"])
    if cards:
        files |= card_files(content, cards)
        files |= driver_files(cards, content) if cards.get("driver") else {}
    files |= {**switch_files(host.get("nvswitches", ())), **host["tree"]}
    return {path: text for path, text in files.items() if text is not None}


def login(host: Host) -> dict[str, Any]:
    """This process, as the one of the login that gather runs in."""
    said = f"SSH_CONNECTION={host['ssh_client']} 50122 {host['ssh_client']} 22"
    return {
        "pid": os.getpid(),
        "name": "python3",
        "environ": said,
        "cgroup": "/user.slice/user-0.slice/session-4.scope",
    }


# -- programs ----------------------------------------------------------------------------------------------------------
def unit_answer(states: Mapping[str, str]) -> str:
    """What systemd says of the units that it is asked for: active, inactive, masked, or nothing of those that are not there."""
    blocks = []
    for name in _picture.UNITS:
        state = states.get(name, "")
        load = {"": "not-found", "masked": "masked"}.get(state, "loaded")
        active = state if load == "loaded" else "inactive"
        blocks.append(f"Id={name}\nLoadState={load}\nActiveState={active}\n")
    return "\n".join(blocks)


def package_answer(lines: Sequence[str]) -> str:
    """Each line is a status, a name and a version."""
    return "".join("\t".join((said[0].ljust(3), said[1], said[2])) + "\n" for said in map(str.split, lines))


def programs_of(host: Host, root: Path) -> dict[str, str]:
    """What the programs of a host answer."""
    answers = {
        "systemctl show --property=Id": unit_answer(host["units"]),
        ("dpkg-query" if host["facts"]["os_family"] == "Debian" else "rpm"): package_answer(host["packages"]),
        **host["programs"],
    }
    if host.get("cards", {}).get("driver"):
        questions = ["--query-gpu=index,uuid,name,memory.total,compute_cap,pci.bus_id --format=csv"]
        questions += [" ".join(words) for words in (*_gpu.MORE_QUESTIONS.values(), gather.GPU_PROCESSES)]
        for asked in (f"nvidia-smi {each}" for each in questions):
            if not any(asked.startswith(known) for known in host["programs"]):
                answers[asked] = lab_smi.answer(root, *asked.split()[1:])
    return answers


@contextlib.contextmanager
def engine(root: Path, docker: Mapping[str, Any] | None) -> Iterator[None]:
    """The socket of a host's engine, which answers as that does; none without an engine."""
    if not docker:
        yield
        return
    answers = {
        "/info": docker["info"],
        "/version": {"Components": [{"Name": docker.get("product", "Engine")}]},
        "/containers/json": docker.get("containers", []),
        "/images/json": docker.get("images", []),
        **{
            f"/containers/{one['Id']}/json": {"Config": {"Labels": one["Labels"]}}
            for one in docker.get("containers", [])
        },
    }

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(answers.get(self.path.partition("?")[0])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_words: object) -> None:
            pass

    (root / "run").mkdir(exist_ok=True)
    with ThreadingUnixStreamServer(str(root / "run/docker.sock"), Answers) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


# -- what is found -----------------------------------------------------------------------------------------------------
def facts_of(name: str, host: Host) -> dict[str, Any]:
    """The facts of a host, read by gather's own readers. Only what they ask the kernel of this machine for is told by the host itself (``measured``)."""
    addresses = {at: said.get("addresses", []) for at, said in enumerate(host["interfaces"].values(), start=1)}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        content = card_content(name, host["cards"]) if "cards" in host else {"gpus": []}
        plant(root, files_of(host, content))
        asked = {
            "sysfs_root": str(root / "sys"),
            "host_dir": "/opt/llm",
            "probe_state": str(root / "run/llm-probe/state.json"),
            "needs": [],
        }
        with engine(root, host.get("docker")):
            found = gather.gather(UNASKED | asked, Recorded(programs_of(host, root)), str(root), addresses)
    found = json.loads(json.dumps(found).replace(str(root), ""))
    for mount in found["llm_host"]["mounts"]:
        mount["label"] = host.get("labels", {}).get(mount["path"], "")
    return {**host["facts"], **found, "llm_disks": host["disks"], "llm_host": {**found["llm_host"], **host["measured"]}}


def variables_of(fleet: Fleet, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the inventory says of a host, and the roles where it says nothing."""
    found = {key: value for role in ROLES for key, value in defaults(role).items()}
    found |= {**SAID, **fleet.get("variables", {})}
    return {**found, GPUS: as_gpus(found.get(GPUS)), "ansible_facts": facts}


def facts_of_fleet(fleet: Fleet) -> dict[str, dict[str, Any]]:
    return {name: facts_of(name, host) for name, host in hosts_of(fleet).items()}


def found_in(fleet: Fleet, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What preflight says of a fleet."""
    names = list(facts)
    known = {name: variables_of(fleet, facts[name]) for name in names}
    groups = [[name] for name in names] if fleet.get("alone") else [names]
    asked = check_arguments(
        {f"{fleet['id']}_{at}": {"hosts": hosts, "head": hosts[0]} for at, hosts in enumerate(groups, start=1)},
        known,
        names,
        defaults("preflight"),
        lambda _bundle: fleet.get("bundle", []),
        None,
        fleet.get("groups", {}),
    )
    return check_hosts(**asked)
