"""What people reported of hosts that others had used before (tests/data/hosts/reports.yml), and what the collection makes of each."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.module_utils import _gpu, _pci, _picture
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import decide_engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import plan_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.discover import unreached
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import cluster_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import agree_interfaces
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import explain_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts

from tests.support import programs
from tests.support.deployments import member

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "tests/data/hosts/reports.yml"

CARD = {
    "name": "NVIDIA H100 80GB HBM3",
    "memory_mib": 81559,
    "compute_capability": "9.0",
    "bus_id": "x",
    "uuid": "GPU-1",
}
LIMITS = {
    "supported_systems": {"Debian": ["12"], "Rocky": ["8", "9"], "Ubuntu": ["22.04"]},
    "supported_architectures": ["x86_64"],
    "disk_reserve_gib": 1,
    "memory_reserve_gib": 2,
    "kernel_minimum": "4.18",
    "clock_limit_seconds": 10,
    "ecc_uncorrected_limit": 0,
}
ENGINE = {
    "inventory_hostname": "gpu01",
    "llm_offline": False,
    "llm_bundle_dir": "",
    "llm_host_dir": "/opt/llm",
    "ansible_facts": {
        "distribution": "Ubuntu",
        "distribution_version": "22.04",
        "distribution_release": "jammy",
        "os_family": "Debian",
        "architecture": "x86_64",
    },
    **{f"docker_{name}": "" for name in ("version", "repository_url", "repository_key", "data_root")},
    "docker_method": "auto",
    "docker_address_pools": [],
    "docker_registry_mirrors": [],
    "docker_daemon_options": {},
    "docker_log_max_size": "50m",
    "docker_log_max_files": 3,
    "docker_switch_enabled": False,
    "docker_data_root_change_enabled": False,
}
BARE_DRIVER = {
    "packages": {},
    "held": [],
    "broken": [],
    "runfile": False,
    "unowned": False,
    "headers": True,
    "module": False,
    "kernel": "6.1.0-40-amd64",
    "programs": {"gcc": True, "make": True, "dkms": True},
    "secure_boot": False,
}
NO_DRIVER = {"loaded": None, "installed": None, "branch": None, "kernel_module": None, "mismatch": False}

Report = Mapping[str, Any]


def reports() -> list[Report]:
    found: list[Report] = yaml.safe_load(REPORTS.read_text(encoding="utf-8"))
    return found


def numbered(value: Any, number: int) -> Any:
    """A report's text has N where hosts differ."""
    return json.loads(
        json.dumps(value).replace("N/", f"{number}/").replace('N"', f'{number}"').replace("aN:", f"a{number}:")
    )


def ports_of(report: Report, number: int) -> list[dict[str, Any]]:
    """The ports of RDMA of a host. ``second_rdma`` says by device what is otherwise on the second one."""
    ports = numbered(report.get("rdma") or [], number)
    otherwise = report.get("second_rdma", {}) if number == 2 else {}
    return [{**port, **otherwise.get(port["device"], {})} for port in ports]


def found_codes(report: Report, lang: str = "en") -> list[str]:
    """What preflight finds on two hosts, or one, on which everything is as reported."""
    names = ["gpu01"] if report.get("alone") else ["gpu01", "gpu02"]
    facts, settings = {}, {}
    counts = report.get("counts", [1, 1])
    for number, name in enumerate(names, 1):
        eth0 = {"name": "eth0", "addresses": [f"10.0.0.{number}/24"], "speed_mbps": 10000, "mtu": 1500, "up": True}
        interfaces = numbered(report.get("interfaces") or [{**eth0, "kind": "ethernet"}], number)
        if number == 2:
            interfaces = [{**each, **report.get("second", {})} for each in interfaces]
        facts[name] = {
            "distribution": "Debian",
            "distribution_version": "12.5",
            "distribution_major_version": "12",
            "os_family": "Debian",
            "architecture": "x86_64",
            "pkg_mgr": "apt",
            "llm_nics_found": interfaces,
            "llm_gpus_found": [{"index": at, **CARD, **report.get("gpus", {})} for at in range(counts[number - 1])],
            "llm_rdma_found": ports_of(report, number),
            **report.get("facts", {}),
        }
        settings[name] = {**report.get("found", {}), **report.get("settings", {})}
    result = check_hosts({"qwen": {"hosts": names, "head": "gpu01"}}, facts, settings, LIMITS, lang)
    return [entry["code"] for entry in [*result["problems"], *result["warnings"]]]


def wrong_codes(report: Report, codes: list[str]) -> str:
    missing, unwanted = set(report.get("codes", ())) - set(codes), set(report.get("never", ())) & set(codes)
    return f"found {codes}" if missing or unwanted else ""


def check(report: Report) -> str:
    return wrong_codes(report, found_codes(report))


def engine(report: Report) -> str:
    """What Docker's role decides."""
    found = {"ours": [], "config": {}, "held": 0, "flags": {}, **report["found"]}
    section, refused = decide_engine({**ENGINE, **report.get("variables", {})}, list, found)
    if "refused" in report:
        return "" if all(word in refused for word in report["refused"]) else f"refused: {refused!r}"
    wrong = {name: section[name] for name, value in report["section"].items() if section[name] != value}
    return f"{wrong}, refused: {refused!r}" if wrong or refused else ""


def gpus(report: Report) -> str:
    """What is made of nvidia-smi's answers."""
    on_bus = [
        {**CARD, "index": at, "uuid": None, "bus_id": bus, "pci_device_id": "2236"}
        for at, bus in enumerate(report["on_bus"])
    ]
    answers = {"query": report["query"]} if "query" in report else {}
    facts = _gpu.gpu_facts(answers, on_bus, NO_DRIVER, 0, report.get("failure", ""))
    wrong = wrong_codes(report, [entry["code"] for entry in facts["problems"]])
    return wrong or ("" if len(facts["gpus"]) == report["found_gpus"] else f"{len(facts['gpus'])} GPUs")


def driver(report: Report) -> str:
    """What the driver's role plans."""
    wish = {"capabilities": ["9.0"], **report["wish"]}
    plan = plan_driver(
        {**BARE_DRIVER, **report["host"]}, {"driver": {**NO_DRIVER, **report.get("driver", {})}, "nvswitches": 0}, wish
    )
    said = "\n".join(plan["problems"])
    if "problems" in report:
        return "" if all(word in said for word in report["problems"]) else f"problems: {said!r}"
    wrong = {name: plan[name] for name, value in report["section"].items() if plan[name] != value}
    return f"{wrong}, problems: {said!r}" if wrong or said else ""


def rdma(report: Report) -> str:
    """What NCCL is told."""
    hosts = {
        f"gpu{number}": {"interface": numbered(report["interface"], number), "rdma": numbered(report["rdma"], number)}
        for number in (1, 2)
    }
    if report.get("first_only"):
        hosts["gpu2"]["rdma"] = []
    found = cluster_environment("gpu1", hosts).get("NCCL_IB_HCA")
    return "" if found == report["hca"] else f"NCCL_IB_HCA={found}"


def environment(report: Report) -> str:
    """What programs that talk to other hosts are told."""
    hosts = {f"gpu{number}": {"interface": numbered(report["interface"], number), "rdma": []} for number in (1, 2)}
    found = cluster_environment("gpu1", hosts)
    wrong = {name: found.get(name) for name, value in report["variables"].items() if found.get(name) != value}
    return f"{wrong}" if wrong else ""


def agreed(report: Report) -> str:
    """The network that the hosts agree on."""
    hosts = {f"gpu{number}": numbered(report["interfaces"], number) for number in (1, 2)}
    found = agree_interfaces(hosts)["network"]
    return "" if found == report["network"] else found


class Recorded(Programs):
    """Programs of a host that answer what they answered there, by how the command begins."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        words = {tuple(asked.split(" ")): out for asked, out in answers.items()}
        self.places = {Path(asked[0]).name: asked[0] for asked in words}
        self.answers = {" ".join([Path(asked[0]).name, *asked[1:]]): out for asked, out in words.items()}

    def path(self, name: str) -> str:
        return str(Path("/usr/bin", self.places[name])) if name in self.places else ""

    def run(self, command: list[str], must_succeed: bool = False) -> tuple[int, str, str]:
        said = " ".join([Path(command[0]).name, *command[1:]])
        fitting = [
            asked for asked in self.answers if asked.split(" ")[0] == said.split(" ")[0] and said.startswith(asked)
        ]
        out = self.answers[max(fitting, key=len)] if fitting else ""
        assert out or not must_succeed, said
        return (0, out, "") if out else (9, "", "failed")


# Two cards without NVLink that are said to reach each other, as nvidia-smi prints that.
TWO_CARDS = {
    "query": "index, uuid, name, memory.total [MiB], compute_cap, pci.bus_id\n"
    "0, GPU-1, NVIDIA A10, 23028 MiB, 8.6, 00000000:02:00.0\n"
    "1, GPU-2, NVIDIA A10, 23028 MiB, 8.6, 00000000:03:00.0\n",
    "topology": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-31\nGPU1\tPHB\t X \t0-31\n",
    "p2p": " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n",
}
ACS_CAPABILITY = 0x000D


def config_space(control: str) -> bytes:
    """What the kernel shows of a bridge whose one extended capability is that of access control."""
    header = struct.pack("<I", ACS_CAPABILITY | 1 << 16)
    return b"\0" * 0x100 + header + struct.pack("<HH", 0x1F, int(control, 16)) + b"\0" * 0xEF8


def plant(root: Path, tree: Mapping[str, str]) -> None:
    """The files of a host below a folder: a text after ``-> `` is where a link leads, after ``=> `` where one leads nowhere, one after ``acs `` a bridge's
    control, one after ``hex `` bytes."""
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            (root / text[3:]).mkdir(parents=True, exist_ok=True)
            path.symlink_to(root / text[3:])
        elif text.startswith("=> "):
            path.symlink_to(text[3:])
        elif text.startswith("hex "):
            path.write_bytes(bytes.fromhex(text[4:]))
        elif text.startswith("acs "):
            path.write_bytes(config_space(text[4:]))
        else:
            path.write_text(text, encoding="utf-8")


def tree(report: Report) -> str:
    """What preflight finds on a host with these files, which are read as gather reads them; ``runs`` is what gather says of processes there."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        plant(root, report["tree"])
        sysfs, proc = str(root / "sys"), str(root / "proc")
        packages = {"dpkg-query": report["dpkg"]} if "dpkg" in report else {}
        programs_there = Recorded({**packages, **report.get("programs", {})})
        answers = TWO_CARDS if report.get("smi") == "two_cards_over_pcie" else {}
        driver = {**NO_DRIVER, **report.get("driver", {})}
        cards = _gpu.pci_gpus(sysfs)
        read = _gpu.gpu_facts(answers, cards, driver, 0, report.get("failure", ""))
        picture = _picture.picture(programs_there, sysfs, "/opt/llm", "", proc, folder)
        host = {"kernel": report.get("kernel", "6.8.0"), **picture}
        read["bus"] = _pci.bus_facts(sysfs)
    found = {"gpu": read, "host": {**host, "module": {}, "dnf": None, "mounts": [], **report.get("runs", {})}}
    facts = {**report.get("facts", {}), "llm_gpus_found": read["gpus"]}
    return wrong_codes(report, found_codes({**report, "found": found, "facts": facts}))


def smi(report: Report) -> str:
    """What preflight finds where nvidia-smi says this."""
    on_bus = []
    for at, bus in enumerate(report["on_bus"]):
        product = _gpu.PRODUCTS.get(report.get("device", "2236"))
        capability = product.compute_capability if product else None
        card = {**CARD, "index": at, "uuid": None, "name": "?", "compute_capability": capability, "bus_id": bus}
        on_bus.append({**card, "pci_device_id": report.get("device", "2236")})
    answers = {name: report[name] for name in ("query", "details") if name in report}
    driver = {**NO_DRIVER, "loaded": "570.195.03", "installed": "570.195.03", "kernel_module": "open"}
    read = _gpu.gpu_facts(answers, on_bus, {**driver, **report.get("driver", {})}, 0, report.get("failure", ""))
    facts = {"llm_gpus_found": read["gpus"]}
    return wrong_codes(report, found_codes({**report, "alone": True, "found": {"gpu": read}, "facts": facts}))


def packages_wait(report: Report) -> str:
    """Every task that asks a package manager waits for whoever holds its lock."""
    impatient = []
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        for block in path.read_text(encoding="utf-8").split("- name: ")[1:]:
            asks = any(f"ansible.builtin.{name}:" in block for name in ("apt", "dnf", "package"))
            if asks and "lock_timeout" not in block:
                impatient.append(f"{path.relative_to(ROOT)}: {block.splitlines()[0]}")
    seconds = yaml.safe_load((ROOT / "roles/common/vars/main.yml").read_text()).get("_common_lock_seconds", 0)
    return "; ".join(impatient) or ("" if seconds >= report["seconds"] else f"{seconds} s")


def hashes(report: Report) -> str:
    """No code that runs on hosts asks for these."""
    places = [*(ROOT / "plugins").glob("module*/*.py"), *(ROOT / "roles").glob("*/files/*.py")]
    asked = [path.name for path in places if any(f"hashlib.{one}" in path.read_text() for one in report["never"])]
    return ", ".join(asked)


def finding(code: str, host: dict[str, Any], gpu: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A finding on a host with one GPU; empty where nothing is found. ``more`` are settings, and as ``facts`` those of Ansible."""
    facts = {
        "distribution": "Debian",
        "distribution_version": "12",
        "distribution_major_version": "12",
        "distribution_release": "bookworm",
        "os_family": "Debian",
        "architecture": "x86_64",
        "pkg_mgr": "apt",
        "llm_gpus_found": [{"index": 0, "name": "NVIDIA A10", "compute_capability": "8.6", "bus_id": "x"}],
        **more.pop("facts", {}),
    }
    result = check_hosts({"q": {"hosts": ["a"]}}, {"a": facts}, {"a": {"host": host, "gpu": gpu or {}, **more}}, LIMITS)
    return next((one for one in [*result["problems"], *result["warnings"]] if one["code"] == code), {})


def severity(code: str, host: dict[str, Any], gpu: dict[str, Any] | None = None, **more: Any) -> str:
    """How severe a finding is; empty where nothing is found."""
    return str(finding(code, host, gpu, **more).get("severity", ""))


def limits(report: Report) -> str:
    """The limits that containers of the cluster are given."""
    given = host_sections(member())["vllm"]["container"]["ulimits"]
    missing = [limit for limit in report["limits"] if not any(one.startswith(limit) for one in given)]
    return f"not given: {missing} ({given})" if missing else ""


def devices(report: Report) -> str:
    """What a container is given."""

    cards = [{**CARD, "index": at, "minor": at} for at in report["minors"]]
    made = member(found={"llm_gpus_found": cards, "llm_gpu": {"gpus": cards, "device_nodes": report["nodes"]}})
    given = host_sections(made)["vllm"]["container"]["devices"]
    missing = [node for node in report["devices"] if f"{node}:{node}" not in given]
    return f"not given: {missing}" if missing else ""


def diagnosis(report: Report) -> str:
    said = explain_log(report["text"], "en")
    return "" if all(word in said for word in report["remedy"]) else said


def said(report: Report) -> str:
    """What people are told where Ansible could not run its modules."""
    text = json.dumps(unreached("gpu01", report["text"], "en"))
    return "" if all(word in text for word in report["remedy"]) else text


def reading(report: Report) -> str:
    """Where only a task can tell: the file has it."""
    path = ROOT / report["file"]
    return (
        "" if path.is_file() and report["pattern"] in path.read_text(encoding="utf-8") else f"not in {report['file']}"
    )


def containers(report: Report) -> str:
    """Every task that creates a container has the line."""
    lacking = []
    for path in sorted((ROOT / "roles").glob("*/*/*.yml")):
        for block in path.read_text(encoding="utf-8").split("\n- name: ")[1:]:
            if "docker_container:" in block and "network_mode: host" in block and report["pattern"] not in block:
                lacking.append(f"{path.relative_to(ROOT)}: {block.splitlines()[0]}")
    return "; ".join(lacking)


def probe(report: Report) -> str:
    """What the probe does with a container that does not run."""
    action, line = programs.load("common/files/llm-probe.py").given_up(report["state"])
    right = action == report["action"] and all(word in line for word in report["line"])
    return "" if right else f"{action}: {line}"


JUDGES: dict[str, Callable[[Report], str]] = {
    each.__name__: each
    for each in (
        *(check, engine, gpus, driver, rdma, devices, diagnosis, said, reading, containers, probe),
        *(smi, tree, packages_wait, hashes, limits, environment, agreed),
    )
}


def wrong_with(report: Report) -> str:
    """What is not as it should be with a report; empty where all is."""
    try:
        return JUDGES[report["by"]](report)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
